/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The system call of the current thread, for threads.bpf.c: from the registers with which it entered the kernel.
 */

/* Its number, -1 in none; of a 32-bit program with COMPAT, except for the calls that this program knows. */
INLINE u64 call_of(const struct task_struct *task, const struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_arm64)
	u64 call = (long)GET(regs, syscallno);
	int is_compat = GET(task, thread_info.flags) & TIF_32BIT;
#else
	u64 call = GET(regs, orig_ax);
	int is_compat = GET(task, thread_info.status) & TS_COMPAT;
#endif

	if (!is_compat || call >= COMPAT)
		return call;
	switch (call) {
	case COMPAT_FUTEX:
	case COMPAT_FUTEX_TIME64:
		return futex_call;
	case COMPAT_YIELD:
		return yield_call;
	case COMPAT_RESTART:
		return restart_call;
	default:
		return call | COMPAT;
	}
}

INLINE u64 second_argument(const struct task_struct *task, const struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_arm64)
	return GET(regs, regs[1]);
#else
	return GET(task, thread_info.status) & TS_COMPAT ? GET(regs, cx) : GET(regs, si);
#endif
}

/* The words of a futex. */
INLINE void take_words(struct record *stay)
{
	struct here *here = here_of(bpf_get_smp_processor_id());

	if (!here)
		return;
	here->reads_user = 1;
	bpf_probe_read_user(stay->word, sizeof(stay->word), (const void *)stay->argument[0]);
	here->reads_user = 0;
}

/* The place in its program from which the current thread waits. */
INLINE void take_place(struct thread *thread, const struct pt_regs *regs)
{
	struct here *here = here_of(bpf_get_smp_processor_id());
	u64 caller = 0;

	thread->stay.place = GET(regs, sp);
	if (!thread->caller_at || !here)
		return;
	here->reads_user = 1;
	bpf_probe_read_user(&caller, sizeof(caller), (const void *)(GET(regs, sp) + thread->caller_at - 8));
	here->reads_user = 0;
	thread->stay.place ^= caller;
}

/*
 * The call, its arguments, and a futex's words: of a call that waits for a lock with priority inheritance those of the lock. A call that
 * the kernel restarts after a stop is the same call.
 */
INLINE void take_call(struct thread *thread, const struct pt_regs *regs)
{
	const struct task_struct *task = current_task();
	struct record *stay = &thread->stay;
	u64 call = call_of(task, regs), fifth;

#if defined(__TARGET_ARCH_arm64)
	stay->argument[0] = GET(regs, orig_x0);
	stay->argument[1] = GET(regs, regs[1]);
	stay->argument[2] = GET(regs, regs[2]);
	stay->argument[3] = GET(regs, regs[3]);
	fifth = GET(regs, regs[4]);
#else
	if (GET(task, thread_info.status) & TS_COMPAT) {
		stay->argument[0] = (u32)GET(regs, bx);
		stay->argument[1] = (u32)GET(regs, cx);
		stay->argument[2] = (u32)GET(regs, dx);
		stay->argument[3] = (u32)GET(regs, si);
		fifth = (u32)GET(regs, di);
	} else {
		stay->argument[0] = GET(regs, di);
		stay->argument[1] = GET(regs, si);
		stay->argument[2] = GET(regs, dx);
		stay->argument[3] = GET(regs, r10);
		fifth = GET(regs, r8);
	}
#endif
	if (call == restart_call)
		call = thread->last_call;
	stay->call = thread->last_call = call;
	take_place(thread, regs);
	thread->requeue_to = thread->requeued_ns = 0;
	if (call != futex_call)
		return;
	if ((stay->argument[1] & FUTEX_COMMAND) == FUTEX_WAIT_REQUEUE_PI)
		thread->requeue_to = fifth;
	/* It waited for a condition, and has been moved to the lock. */
	if (thread->spins_ns && (stay->argument[1] & FUTEX_COMMAND) == FUTEX_WAIT_REQUEUE_PI) {
		stay->argument[0] = fifth;
		stay->argument[1] = FUTEX_LOCK_PI;
	}
	take_words(stay);
}
