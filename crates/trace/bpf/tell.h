/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of threads.bpf.c: each takes a place in the ring, or is counted as lost. Copies of stacks are limited for each thread.
 */

INLINE void *begin(u32 size)
{
	void *record = bpf_ringbuf_reserve(&records, size, 0);
	u32 key = 0;
	u64 *count;

	if (record)
		return record;
	count = bpf_map_lookup_elem(&lost, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

INLINE int may_copy_stack(struct thread *thread, u64 at_ns)
{
	u32 key = 0;
	u64 *count;

	if (at_ns - thread->stacks_since_ns > STACKS_WINDOW_NS) {
		thread->stacks_since_ns = at_ns;
		thread->stacks = 0;
	}
	if (thread->stacks < STACKS && bpf_ringbuf_query(&records, RING_USED) < RING_BYTES / 2) {
		thread->stacks++;
		return 1;
	}
	count = bpf_map_lookup_elem(&withheld, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

/* The position in its program of the current thread, `pid` or another one. */
INLINE void tell_user_stack(struct thread *thread, u32 pid, u32 of, u64 at_ns)
{
	const struct pt_regs *regs = registers_of(current_task());
	struct here *here = here_of(bpf_get_smp_processor_id());
	struct user_stack *stack;

	if (!here || !may_copy_stack(thread, at_ns))
		return;
	stack = begin(sizeof(*stack));
	if (!stack)
		return;
	stack->kind = USER_STACK;
	stack->cpu = bpf_get_smp_processor_id();
	stack->thread = pid;
	stack->at_ns = at_ns;
	stack->of = of;
	stack->whose = bpf_get_current_pid_tgid();
	stack->bytes = stack->lr = 0;
#if defined(__TARGET_ARCH_arm64)
	READ(stack->ip, regs, struct pt_regs, pc);
	READ(stack->sp, regs, struct pt_regs, sp);
	READ(stack->bp, regs, struct pt_regs, regs[29]);
	READ(stack->lr, regs, struct pt_regs, regs[30]);
#else
	READ(stack->ip, regs, struct pt_regs, ip);
	READ(stack->sp, regs, struct pt_regs, sp);
	READ(stack->bp, regs, struct pt_regs, bp);
#endif
	here->reads_user = 1;
#pragma unroll
	for (u32 at = 0; at < STACK_BYTES; at += STACK_PART) {
		if (bpf_probe_read_user(stack->stack + at, STACK_PART, (const void *)(stack->sp + at)))
			break;
		stack->bytes = at + STACK_PART;
	}
	here->reads_user = 0;
	bpf_ringbuf_submit(stack, NO_WAKEUP);
}

/* Whether a stay ends in a wait for a lock; see src/wait.rs. */
INLINE int waits_for_lock(const struct record *stay)
{
	u64 command = stay->argument[1] & FUTEX_COMMAND;
	u32 value = stay->argument[2];

	if (stay->call != futex_call)
		return 0;
	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2)
		return 1;
	if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET)
		return 0;
	return value == CONTENDED || value == CONTENDED_PHASE || ((value & WAITERS) && value != PARKED);
}

/* Whether this is the usual sleep of the current thread, which ends its cycle. Counted by votes (Boyer and Moore). */
INLINE int is_usual(struct thread *thread, const struct pt_regs *regs)
{
	u64 call = thread->stay.call, sp = GET(regs, sp);

	if (thread->usual_call == call && thread->usual_sp == sp) {
		if (thread->is_usual < USUAL_MOST)
			thread->is_usual++;
		return 1;
	}
	if (thread->is_usual) {
		thread->is_usual--;
	} else {
		thread->usual_call = call;
		thread->usual_sp = sp;
	}
	return thread->is_usual < USUAL;
}

/* Returns the time of the record; 0 if there was no room. */
INLINE u64 tell(u16 kind, u32 pid, u64 first, u64 second, const void *named)
{
	struct note *note = begin(sizeof(*note));
	u64 at_ns = bpf_ktime_get_ns();

	if (!note)
		return 0;
	note->kind = kind;
	note->cpu = bpf_get_smp_processor_id();
	note->thread = pid;
	note->at_ns = at_ns;
	note->first = first;
	note->second = second;
	__builtin_memset(note->name, 0, sizeof(note->name));
	if (named)
		bpf_probe_read_kernel(note->name, 16, &((const struct task_struct *)named)->comm);
	bpf_ringbuf_submit(note, NO_WAKEUP);
	return at_ns;
}

INLINE void tell_stack(u32 pid, u64 at_ns, const u64 *callers)
{
	struct stack *stack = begin(sizeof(*stack));

	if (!stack)
		return;
	stack->kind = STACK;
	stack->cpu = bpf_get_smp_processor_id();
	stack->thread = pid;
	stack->at_ns = at_ns;
	__builtin_memcpy(stack->caller, callers, sizeof(stack->caller));
	bpf_ringbuf_submit(stack, NO_WAKEUP);
}
