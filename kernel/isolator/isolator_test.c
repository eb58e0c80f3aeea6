// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the isolator's computations. The selftests test its effects on a
 * CPU, in a guest.
 */
#include <kunit/test.h>

#include "../time/tick-internal.h"
#include "isolator.h"

static void unknown_functions_are_never_deferred(struct kunit *test)
{
	smp_call_func_t unknown = (smp_call_func_t)unknown_functions_are_never_deferred;

	KUNIT_EXPECT_EQ(test, isolator_work_of(unknown), 0);
	KUNIT_EXPECT_EQ(test, isolator_work_of(NULL), 0);
	KUNIT_EXPECT_EQ(test, isolator_breach_of(unknown),
			ISOLATOR_STAT_BREACH_CALL);
}

static void work_is_posted_only_to_an_owner_in_user_mode(struct kunit *test)
{
	atomic_t word = ATOMIC_INIT(0);

	KUNIT_EXPECT_FALSE(test, isolator_post(&word, ISOLATOR_PENDING_SYNC));
	KUNIT_EXPECT_EQ(test, atomic_read(&word), 0);

	atomic_set(&word, ISOLATOR_PENDING_USER);
	KUNIT_EXPECT_TRUE(test, isolator_post(&word, ISOLATOR_PENDING_SYNC));
	KUNIT_EXPECT_TRUE(test, isolator_post(&word, ISOLATOR_PENDING_SYNC));
	KUNIT_EXPECT_TRUE(test, isolator_post(&word, ISOLATOR_PENDING_RESCHED));
	KUNIT_EXPECT_EQ(test, atomic_read(&word),
			ISOLATOR_PENDING_USER | ISOLATOR_PENDING_SYNC |
			ISOLATOR_PENDING_RESCHED);
}

static void entry_takes_all_but_what_is_kept(struct kunit *test)
{
	atomic_t word = ATOMIC_INIT(ISOLATOR_PENDING_USER |
				    ISOLATOR_PENDING_SYNC |
				    ISOLATOR_PENDING_RESCHED |
				    ISOLATOR_PENDING_MESSAGE);
	struct isolator_entry entry = { .word = &word };

	isolator_do_work(&entry, ISOLATOR_KEEP_NMI);
	KUNIT_EXPECT_EQ(test, atomic_read(&word),
			ISOLATOR_PENDING_RESCHED | ISOLATOR_PENDING_MESSAGE);
	KUNIT_EXPECT_TRUE(test, entry.seen & ISOLATOR_PENDING_SYNC);

	/* The NMI returns to user mode; then a regular entry comes. */
	atomic_or(ISOLATOR_PENDING_USER, &word);
	isolator_do_work(&entry, ISOLATOR_KEEP);
	KUNIT_EXPECT_EQ(test, atomic_read(&word), ISOLATOR_PENDING_MESSAGE);
	KUNIT_EXPECT_TRUE(test, entry.seen & ISOLATOR_PENDING_RESCHED);
}

/* The NMI cleared USER, and kept the bits of work that an NMI cannot do. */
static void an_entry_serves_what_an_nmi_left(struct kunit *test)
{
	atomic_t word = ATOMIC_INIT(ISOLATOR_PENDING_RESCHED);
	struct isolator_entry entry = { .word = &word };

	isolator_do_work(&entry, ISOLATOR_KEEP);
	KUNIT_EXPECT_EQ(test, atomic_read(&word), 0);
	KUNIT_EXPECT_EQ(test, entry.seen, ISOLATOR_PENDING_RESCHED);
}

static void reasons_have_words_and_callers_mistakes_their_errors(struct kunit *test)
{
	int i, j;

	for (i = 0; i < ISOLATOR_REASON_MAX; i++) {
		KUNIT_ASSERT_NOT_NULL(test, isolator_reason_text(i));
		KUNIT_EXPECT_LT(test, strlen(isolator_reason_text(i)),
				sizeof_field(struct isolator_status, text));
	}
	for (i = ISOLATOR_NOT_PERMITTED; i < ISOLATOR_BAD_FLAGS; i++) {
		KUNIT_EXPECT_LT(test, isolator_errno(i), 0);
		for (j = ISOLATOR_NOT_PERMITTED; j < i; j++)
			KUNIT_EXPECT_NE(test, isolator_errno(i),
					isolator_errno(j));
	}
}

static void every_statistic_has_a_name(struct kunit *test)
{
	int i;

	for (i = 0; i < ISOLATOR_STAT_MAX; i++)
		KUNIT_EXPECT_NOT_NULL(test, isolator_stat_name(i));
}

/*
 * No emulator that these tests know of has such a device: Hyper-V's and Xen's
 * cannot be stopped. Here this CPU's own lacks the function for a moment.
 */
static void a_clock_that_cannot_be_stopped_is_found(struct kunit *test)
{
	int (*stopped)(struct clock_event_device *dev);
	struct clock_event_device *dev;
	bool with, without;

	local_irq_disable();
	dev = __this_cpu_read(tick_cpu_device.evtdev);
	stopped = dev->set_state_oneshot_stopped;
	with = hrtimer_isolator_can_stop();
	dev->set_state_oneshot_stopped = NULL;
	without = hrtimer_isolator_can_stop();
	dev->set_state_oneshot_stopped = stopped;
	local_irq_enable();

	KUNIT_EXPECT_EQ(test, with, !!stopped);
	KUNIT_EXPECT_FALSE(test, without);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(unknown_functions_are_never_deferred),
	KUNIT_CASE(work_is_posted_only_to_an_owner_in_user_mode),
	KUNIT_CASE(entry_takes_all_but_what_is_kept),
	KUNIT_CASE(an_entry_serves_what_an_nmi_left),
	KUNIT_CASE(reasons_have_words_and_callers_mistakes_their_errors),
	KUNIT_CASE(every_statistic_has_a_name),
	KUNIT_CASE(a_clock_that_cannot_be_stopped_is_found),
	{}
};

static struct kunit_suite suite = {
	.name = "isolator",
	.test_cases = cases,
};

kunit_test_suite(suite);
