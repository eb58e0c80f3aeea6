/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The measuring threads of a CPU, of collector.bpf.c: whether a thread, or a timer, is one of theirs, without a look-up in a quiet cycle.
 */

INLINE struct own *own_of(u32 at)
{
	u64 place = at;
	struct own *own;

	if (at >= SLOTS)
		return 0;
	KEEP_APART(place);
	own = &owns[place];
	KEEP_APART(own);
	return own;
}

/* Its place among the measuring threads; OWN where it is none. */
INLINE u32 place_of(struct own *own, u32 pid)
{
	u32 place = OWN;

#pragma unroll
	for (int n = 0; n < OWN; n++)
		if (pid && own->threads[n] == pid)
			place = n;
	return place;
}

INLINE int is_own(u32 at, u32 pid)
{
	struct own *own = own_of(at);

	return own && place_of(own, pid) < OWN;
}

/* Whether a thread is a measuring one that has been met before: its number, 0 where it is not. */
INLINE u32 met(struct own *own, u64 task)
{
#pragma unroll
	for (int n = 0; n < OWN; n++)
		if (own->tasks[n] == task)
			return own->threads[n];
	return 0;
}

/* Notes where a thread lies, if it is the idle one or measures. */
INLINE void meet(struct own *own, u32 pid, u64 task)
{
	u32 place = place_of(own, pid), prio = 0;

	if (!pid) {
		own->idle = task;
	} else if (place < OWN && own->tasks[place] != task) {
		own->tasks[place] = task;
		READ(own->stacks[place], task, struct task_struct, stack);
		READ(prio, task, struct task_struct, prio);
		own->ordinary |= prio >= ORDINARY;
	}
}

/* Whether a timer lies on a measuring thread's stack. */
INLINE int is_on_stack(struct own *own, u64 timer)
{
	u64 stack = timer & -(u64)KERNEL_STACK_BYTES;

#pragma unroll
	for (int n = 0; n < OWN; n++)
		if (own->stacks[n] == stack)
			return 1;
	return 0;
}

/* Whether the measuring thread of this CPU is what runs. */
INLINE int runs_own(void)
{
	return is_own(slot(bpf_get_smp_processor_id()), (u32)bpf_get_current_pid_tgid());
}
