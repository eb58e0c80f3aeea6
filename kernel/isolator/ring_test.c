// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the isolator's messages: the rings' arithmetic, and their ownership.
 * The tests set a CPU's owner themselves: before the first START, no other code
 * uses it.
 */
#include <kunit/test.h>
#include <linux/fs.h>
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

/* ---- ownership of the rings ---- */

static struct file files[2];

/* Sets a CPU's owner; NULL: ends the previous owner's isolation */
static void stand_in(struct kunit *test, int cpu, struct task_struct *owner,
		     struct file *file)
{
	struct isolator_rings *rings = NULL;
	unsigned long flags;

	if (owner)
		KUNIT_ASSERT_TRUE(test, isolator_rings_alloc(&rings));
	raw_spin_lock_irqsave(&isolator_lock, flags);
	if (owner)
		rings = isolator_messages_start(cpu, file, rings);
	WRITE_ONCE(per_cpu(isolator_cpu.owner, cpu), owner);
	if (!owner)
		isolator_messages_end(cpu);
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
	isolator_rings_free(rings);
}

static int any_cpu(struct kunit *test)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (tick_nohz_full_cpu(cpu) && !isolator_cpu_isolated(cpu))
			return cpu;
	kunit_skip(test, "no CPU in nohz_full= without an owner");
}

static void messages_need_the_file_of_start(struct kunit *test)
{
	struct isolator_message message = { .kind = 7 }, got = { };
	int cpu = any_cpu(test);

	KUNIT_EXPECT_EQ(test, isolator_message_post(cpu, &files[0], &message),
			ISOLATOR_NOT_OWNED);
	stand_in(test, cpu, current, &files[0]);
	KUNIT_EXPECT_EQ(test, isolator_message_post(cpu, &files[1], &message),
			ISOLATOR_OTHER_FILE);
	KUNIT_EXPECT_EQ(test, isolator_message_poll(cpu, &files[1], &got),
			ISOLATOR_OTHER_FILE);
	/* The owner posts to the out ring; it polls the in ring. */
	KUNIT_EXPECT_EQ(test, isolator_message_post(cpu, &files[0], &message),
			ISOLATOR_OK);
	KUNIT_EXPECT_EQ(test, isolator_message_poll(cpu, &files[0], &got),
			ISOLATOR_RING_EMPTY);
	stand_in(test, cpu, NULL, NULL);
	KUNIT_EXPECT_EQ(test, isolator_message_poll(cpu, &files[0], &got),
			ISOLATOR_NOT_OWNED);
}

static void the_next_owner_has_rings_of_its_own(struct kunit *test)
{
	struct isolator_message message = { .kind = 7 }, got = { };
	struct task_struct *other = &init_task;
	int cpu = any_cpu(test);

	stand_in(test, cpu, other, &files[0]);
	KUNIT_EXPECT_EQ(test, isolator_message_post(cpu, &files[0], &message),
			ISOLATOR_OK);
	stand_in(test, cpu, NULL, NULL);
	stand_in(test, cpu, current, &files[1]);
	KUNIT_EXPECT_EQ(test, isolator_message_poll(cpu, &files[0], &got),
			ISOLATOR_OTHER_FILE);
	KUNIT_EXPECT_EQ(test, isolator_message_poll(cpu, &files[1], &got),
			ISOLATOR_RING_EMPTY);
	stand_in(test, cpu, NULL, NULL);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(messages_come_out_in_order_past_the_wrap),
	KUNIT_CASE(a_full_ring_takes_no_more_and_loses_none),
	KUNIT_CASE(nonsense_in_the_indices_is_refused),
	KUNIT_CASE(messages_need_the_file_of_start),
	KUNIT_CASE(the_next_owner_has_rings_of_its_own),
	{}
};

static struct kunit_suite suite = {
	.name = "isolator_messages",
	.test_cases = cases,
};

kunit_test_suite(suite);
