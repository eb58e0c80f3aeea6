/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whether the quota of its control group keeps an ordinary thread from its CPU, for the BPF parts of all crates. Such a thread is ready,
 * and the kernel has no event of it. Which thread runs instead says nothing.
 *
 * Until Linux 6.18 a quota stops the group's queue on a CPU, from then on its threads one by one, as they return to their programs.
 */

struct cfs_rq___quota {
	int throttle_count;
	u64 throttled_clock_self_time; /* since 6.6 */
} CORE;

struct sched_entity___quota {
	struct cfs_rq___quota *cfs_rq;
} CORE;

struct task_struct___quota {
	u8 throttled; /* since 6.18 */
	struct sched_entity___quota se;
} CORE;

/* The queue of an ordinary thread's group on the CPU that it was on last, as a number; 0 where this kernel has no quotas. */
INLINE u64 queue_of(const void *task)
{
	u64 queue = 0;

	if (HAS(struct cfs_rq___quota, throttle_count))
		READ(queue, task, struct task_struct___quota, se.cfs_rq);
	return queue;
}

/* Whether an ordinary thread is kept from its CPU. */
INLINE int is_throttled(const void *task)
{
	u64 queue;
	int count = 0;
	u8 throttled = 0;

	if (HAS(struct task_struct___quota, throttled)) {
		READ(throttled, task, struct task_struct___quota, throttled);
		return throttled;
	}
	queue = queue_of(task);
	if (queue)
		READ(count, queue, struct cfs_rq___quota, throttle_count);
	return count != 0;
}

/* For how long quotas have kept threads from this queue so far; 0 where this kernel does not count that. */
INLINE u64 throttled_ns(u64 queue)
{
	u64 ns = 0;

	if (queue && HAS(struct cfs_rq___quota, throttled_clock_self_time))
		READ(ns, queue, struct cfs_rq___quota, throttled_clock_self_time);
	return ns;
}
