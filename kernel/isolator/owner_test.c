// SPDX-License-Identifier: GPL-2.0-only
/* Tests of what owners need: names, the clock, kinds of breaches. */
#include <kunit/test.h>

#include "../time/tick-internal.h"
#include "isolator.h"

static void a_breach_by_an_unknown_function_is_a_call(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, isolator_breach_of(NULL), ISOLATOR_STAT_BREACH_CALL);
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
	KUNIT_CASE(a_breach_by_an_unknown_function_is_a_call),
	KUNIT_CASE(reasons_have_words_and_callers_mistakes_their_errors),
	KUNIT_CASE(every_statistic_has_a_name),
	KUNIT_CASE(a_clock_that_cannot_be_stopped_is_found),
	{}
};

static struct kunit_suite suite = {
	.name = "isolator_owner",
	.test_cases = cases,
};

kunit_test_suite(suite);
