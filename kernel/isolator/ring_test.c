// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the isolator's messages: the rings' arithmetic, and calls to an
 * owner, for which the test stands in: nothing else looks at who owns a CPU
 * before the first START.
 */
#include <kunit/test.h>
#include <linux/tick.h>

#include "isolator.h"

static struct isolator_ring *new_ring(struct kunit *test, u32 from)
{
	struct isolator_ring *ring = kunit_kzalloc(test, sizeof(*ring),
						   GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ring);
	ring->head = ring->tail = from;
	return ring;
}

static enum isolator_reason put(struct isolator_ring *ring, u32 kind)
{
	struct isolator_message message = { .kind = kind };

	return isolator_ring_put(ring, ring->head, ring->tail, &message);
}

static enum isolator_reason take(struct isolator_ring *ring, u32 *kind)
{
	struct isolator_message message = { };
	enum isolator_reason why;

	why = isolator_ring_take(ring, ring->head, ring->tail, &message);
	*kind = message.kind;
	return why;
}

static void messages_come_out_in_order_past_the_wrap(struct kunit *test)
{
	struct isolator_ring *ring = new_ring(test, U32_MAX - 40);
	u32 in = 0, out = 0, kind, round;

	for (round = 0; round < 100; round++) {
		for (; in < out + 1 + round % ISOLATOR_RING_SLOTS; in++)
			KUNIT_ASSERT_EQ(test, put(ring, in), ISOLATOR_OK);
		while (out < in) {
			KUNIT_ASSERT_EQ(test, take(ring, &kind), ISOLATOR_OK);
			KUNIT_ASSERT_EQ(test, kind, out++);
		}
		KUNIT_ASSERT_EQ(test, take(ring, &kind), ISOLATOR_RING_EMPTY);
	}
}

static void a_full_ring_takes_no_more_and_loses_none(struct kunit *test)
{
	struct isolator_ring *ring = new_ring(test, U32_MAX);
	u32 i, kind;

	for (i = 0; i < ISOLATOR_RING_SLOTS; i++)
		KUNIT_ASSERT_EQ(test, put(ring, i), ISOLATOR_OK);
	KUNIT_EXPECT_EQ(test, put(ring, i), ISOLATOR_RING_FULL);
	KUNIT_EXPECT_EQ(test, take(ring, &kind), ISOLATOR_OK);
	KUNIT_EXPECT_EQ(test, kind, 0);
	KUNIT_EXPECT_EQ(test, put(ring, i), ISOLATOR_OK);
	for (i = 1; i <= ISOLATOR_RING_SLOTS; i++) {
		KUNIT_EXPECT_EQ(test, take(ring, &kind), ISOLATOR_OK);
		KUNIT_EXPECT_EQ(test, kind, i);
	}
}

static void nonsense_in_the_indices_is_refused(struct kunit *test)
{
	static const u32 heads[] = { ISOLATOR_RING_SLOTS + 1, 1U << 31, U32_MAX };
	struct isolator_ring *ring = new_ring(test, 0);
	struct isolator_message message = { };
	int i;

	for (i = 0; i < ARRAY_SIZE(heads); i++) {
		KUNIT_EXPECT_EQ(test, isolator_ring_put(ring, heads[i], 0,
							&message),
				ISOLATOR_RING_BROKEN);
		KUNIT_EXPECT_EQ(test, isolator_ring_take(ring, heads[i], 0,
							 &message),
				ISOLATOR_RING_BROKEN);
	}
	KUNIT_EXPECT_EQ(test, ring->head, 0);
	KUNIT_EXPECT_EQ(test, ring->tail, 0);
}

/* ---- calls ---- */

static u32 called;

static void expect_turn(void *turn)
{
	/* The next one only; what comes out of turn stops the count. */
	if ((unsigned long)turn == called)
		called++;
}

static void stand_in(int cpu, struct task_struct *owner)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&isolator_lock, flags);
	if (owner)
		isolator_messages_start(cpu);
	WRITE_ONCE(per_cpu(isolator_cpu.owner, cpu), owner);
	if (!owner)
		isolator_messages_end(cpu);
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
}

static int any_cpu(struct kunit *test)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (tick_nohz_full_cpu(cpu) && !isolator_cpu_isolated(cpu))
			return cpu;
	kunit_skip(test, "no CPU in nohz_full= without an owner");
}

static void calls_are_made_by_tick_in_order(struct kunit *test)
{
	int cpu = any_cpu(test), round;
	unsigned long i, posted = 0;
	int ret;

	called = 0;
	KUNIT_EXPECT_EQ(test, isolator_post_call(cpu, expect_turn, NULL),
			-ENOTCONN);
	stand_in(cpu, current);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 1000; i++) {
			ret = isolator_post_call(cpu, expect_turn,
						 (void *)posted);
			if (ret)
				break;
			posted++;
		}
		/* There is room for so many, and again for so many. */
		KUNIT_EXPECT_EQ(test, ret, -ENOBUFS);
		KUNIT_EXPECT_EQ(test, posted, (round + 1) * i);
		KUNIT_EXPECT_EQ(test, called, posted - i);
		isolator_messages_tick(cpu);
		KUNIT_EXPECT_EQ(test, called, posted);
	}
	stand_in(cpu, NULL);
}

static void calls_that_are_left_are_made_after_the_end(struct kunit *test)
{
	int cpu = any_cpu(test), tries;

	called = 0;
	stand_in(cpu, current);
	KUNIT_EXPECT_EQ(test, isolator_post_call(cpu, expect_turn, NULL), 0);
	stand_in(cpu, NULL);
	for (tries = 0; tries < 1000 && !READ_ONCE(called); tries++)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(called), 1);
}

static void messages_need_an_owner(struct kunit *test)
{
	struct isolator_message message = { .kind = 7 }, got = { };
	int cpu = any_cpu(test);

	KUNIT_EXPECT_EQ(test, isolator_post_message(-1, &message), -EINVAL);
	KUNIT_EXPECT_EQ(test, isolator_post_message(nr_cpu_ids, &message),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, isolator_post_message(cpu, &message), -ENOTCONN);
	/* The owner posts out; nobody but others can take that. */
	stand_in(cpu, current);
	KUNIT_EXPECT_EQ(test, isolator_post_message(cpu, &message), 0);
	KUNIT_EXPECT_EQ(test, isolator_poll_message(cpu, &got), -ENOMSG);
	stand_in(cpu, NULL);
	KUNIT_EXPECT_EQ(test, isolator_poll_message(cpu, &got), 0);
	KUNIT_EXPECT_EQ(test, got.kind, 7);
	KUNIT_EXPECT_EQ(test, isolator_poll_message(cpu, &got), -ENOMSG);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(messages_come_out_in_order_past_the_wrap),
	KUNIT_CASE(a_full_ring_takes_no_more_and_loses_none),
	KUNIT_CASE(nonsense_in_the_indices_is_refused),
	KUNIT_CASE(calls_are_made_by_tick_in_order),
	KUNIT_CASE(calls_that_are_left_are_made_after_the_end),
	KUNIT_CASE(messages_need_an_owner),
	{}
};

static struct kunit_suite suite = {
	.name = "isolator_messages",
	.test_cases = cases,
};

kunit_test_suite(suite);
