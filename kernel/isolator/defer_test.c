// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the table of deferrable functions and of the deferral word. The
 * selftests test their effects on a CPU, in a guest.
 */
#include <kunit/test.h>

#include "isolator.h"

static void unknown_functions_are_never_deferred(struct kunit *test)
{
	smp_call_func_t unknown = (smp_call_func_t)unknown_functions_are_never_deferred;

	KUNIT_EXPECT_EQ(test, isolator_work_of(unknown), 0);
	KUNIT_EXPECT_EQ(test, isolator_work_of(NULL), 0);
}

static void work_is_posted_only_to_a_cpu_in_user_mode(struct kunit *test)
{
	atomic_t word = ATOMIC_INIT(0);

	KUNIT_EXPECT_EQ(test, isolator_post(&word, ISOLATOR_PENDING_USER,
					    ISOLATOR_PENDING_SYNC), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&word), 0);

	atomic_set(&word, ISOLATOR_PENDING_USER);
	KUNIT_EXPECT_EQ(test, isolator_post(&word, ISOLATOR_PENDING_USER,
					    ISOLATOR_PENDING_SYNC),
			ISOLATOR_PENDING_USER);
	KUNIT_EXPECT_EQ(test, isolator_post(&word, ISOLATOR_PENDING_USER,
					    ISOLATOR_PENDING_ORDER),
			ISOLATOR_PENDING_USER | ISOLATOR_PENDING_SYNC);
	KUNIT_EXPECT_EQ(test, atomic_read(&word),
			ISOLATOR_PENDING_USER | ISOLATOR_PENDING_SYNC |
			ISOLATOR_PENDING_ORDER);
}

static void an_owners_work_is_posted_only_to_an_owner(struct kunit *test)
{
	atomic_t word = ATOMIC_INIT(ISOLATOR_PENDING_USER);

	KUNIT_EXPECT_EQ(test, isolator_post(&word, ISOLATOR_PENDING_OWNER,
					    ISOLATOR_PENDING_RESCHED), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&word), ISOLATOR_PENDING_USER);

	atomic_set(&word, ISOLATOR_IN_USER_MODE);
	KUNIT_EXPECT_EQ(test, isolator_post(&word, ISOLATOR_PENDING_OWNER,
					    ISOLATOR_PENDING_RESCHED),
			ISOLATOR_IN_USER_MODE);
	KUNIT_EXPECT_EQ(test, atomic_read(&word),
			ISOLATOR_IN_USER_MODE | ISOLATOR_PENDING_RESCHED);
}

static void entry_takes_all_but_what_is_kept(struct kunit *test)
{
	atomic_t word = ATOMIC_INIT(ISOLATOR_IN_USER_MODE |
				    ISOLATOR_PENDING_SYNC |
				    ISOLATOR_PENDING_RESCHED |
				    ISOLATOR_PENDING_MESSAGE);
	struct isolator_entry entry = { .word = &word };

	isolator_do_work_test(&entry, ISOLATOR_KEEP_NMI);
	KUNIT_EXPECT_EQ(test, atomic_read(&word),
			ISOLATOR_PENDING_RESCHED | ISOLATOR_PENDING_MESSAGE);
	KUNIT_EXPECT_TRUE(test, entry.seen & ISOLATOR_PENDING_SYNC);

	/* The NMI returns to user mode; then a regular entry comes. */
	atomic_or(ISOLATOR_PENDING_USER, &word);
	isolator_do_work_test(&entry, ISOLATOR_KEEP);
	KUNIT_EXPECT_EQ(test, atomic_read(&word), ISOLATOR_PENDING_MESSAGE);
	KUNIT_EXPECT_TRUE(test, entry.seen & ISOLATOR_PENDING_RESCHED);
}

/* The NMI cleared USER, and kept the bits of work that an NMI cannot do. */
static void an_entry_serves_what_an_nmi_left(struct kunit *test)
{
	atomic_t word = ATOMIC_INIT(ISOLATOR_PENDING_RESCHED);
	struct isolator_entry entry = { .word = &word };

	isolator_do_work_test(&entry, ISOLATOR_KEEP);
	KUNIT_EXPECT_EQ(test, atomic_read(&word), 0);
	KUNIT_EXPECT_EQ(test, entry.seen, ISOLATOR_PENDING_RESCHED);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(unknown_functions_are_never_deferred),
	KUNIT_CASE(work_is_posted_only_to_a_cpu_in_user_mode),
	KUNIT_CASE(an_owners_work_is_posted_only_to_an_owner),
	KUNIT_CASE(entry_takes_all_but_what_is_kept),
	KUNIT_CASE(an_entry_serves_what_an_nmi_left),
	{}
};

static struct kunit_suite suite = {
	.name = "isolator",
	.test_cases = cases,
};

kunit_test_suite(suite);
