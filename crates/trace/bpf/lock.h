/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Locks with priority inheritance, part of threads.bpf.c. While the owner of such a lock runs, a thread that waits for it keeps its own
 * CPU and looks at the owner (rtmutex_spin_on_owner(), kernel/locking/rtmutex.c): no event of the scheduler shows that.
 *
 * The kernel lends the thread's priority to the owner as the wait begins, and takes it back as the owner releases the lock. Where the
 * owner has as high a priority of its own, only functions show both. The kernel calls these where threads contend for such a lock, so
 * no other call becomes slower. Some kernels let no program be attached to functions.
 */

/* Threads by the number of the owner of the lock for which each waits on its CPU. New ones replace the oldest. */
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, u32);
} spinners SEC(".maps");

/* The thread has waited for a lock on its CPU from then until `to_ns`: this part of its stay becomes a record. */
INLINE void tell_spun(struct thread *thread, u32 pid, u64 from_ns, u64 to_ns)
{
	struct record *record = begin(sizeof(*record));

	if (!record) {
		thread->stay.lost++;
		return;
	}
	/* The call's arguments are still those of the lock. */
	__builtin_memcpy(record, &thread->stay, sizeof(*record));
	record->kind = SPUN;
	record->cpu = bpf_get_smp_processor_id();
	record->thread = pid;
	record->at_ns = to_ns;
	record->in_ns = from_ns;
	record->state = 1;
	record->call = futex_call;
	record->woken_ns = record->due_ns = record->timer = 0;
	record->lost = record->how = 0;
	record->waker = thread->owner;
	__builtin_memcpy(record->waker_name, thread->owner_name, 16);
	__builtin_memset(&record->by, 0, sizeof(record->by));
	bpf_ringbuf_submit(record, NO_WAKEUP);
}

/* The wait is told if it is over, before the stay of which it is a part. */
INLINE void tell_lock(struct thread *thread, u32 pid)
{
	u64 from_ns = thread->spins_ns;

	if (!from_ns || !thread->released_ns)
		return;
	thread->spins_ns = 0;
	tell_spun(thread, pid, from_ns, thread->released_ns);
}

/* Whether a thread is in the call in which it began to wait for its lock. */
INLINE int is_in_lock(const struct thread *thread, const struct task_struct *task)
{
	const struct pt_regs *regs = registers_of(task);

	return call_of(task, regs) == futex_call && (u32)second_argument(task, regs) == thread->lock_command;
}

/*
 * The current thread leaves its CPU: if it waits for a lock, it goes on with that when it is back. Returns since when it waits for that
 * without a break; 0 if it does not.
 */
INLINE u64 spins_until(struct thread *thread, const struct task_struct *prev, u32 pid, u64 at_ns)
{
	u64 from_ns;

	tell_lock(thread, pid);
	from_ns = thread->spins_ns;
	thread->spins_ns = 0;
	/* The wait is over, and its end was not seen. */
	if (!from_ns || !is_in_lock(thread, prev))
		return 0;
	tell_spun(thread, pid, from_ns, at_ns);
	thread->spins_ns = at_ns;
	return from_ns;
}

/* The current thread begins to wait for a lock. */
INLINE void waits_for(struct thread *thread, u32 pid)
{
	const struct task_struct *task = current_task();
	const struct pt_regs *regs = registers_of(task);

	/* Locks within the kernel have priority inheritance too. */
	if (call_of(task, regs) != futex_call)
		return;
	tell_lock(thread, pid);
	if (thread->spins_ns)
		return;
	thread->lock_command = second_argument(task, regs);
	thread->released_ns = 0;
	thread->owner = 0;
	thread->spins_ns = bpf_ktime_get_ns();
	take_call(thread, regs);
	tell_user_stack(thread, pid, AT_WAIT, thread->spins_ns);
}

/* The current thread releases the lock for which this one waits; one that sleeps is woken by it. */
INLINE void is_released(struct thread *thread, u32 pid)
{
	if (!thread->spins_ns || thread->released_ns || thread->left_ns >= thread->spins_ns)
		return;
	thread->released_ns = bpf_ktime_get_ns();
	thread->owner = bpf_get_current_pid_tgid();
	bpf_get_current_comm(thread->owner_name, 16);
	tell_user_stack(thread, pid, AT_RELEASE, thread->released_ns);
}

/* A thread that sleeps for a condition lends its priority: it has been moved to the lock. */
INLINE void is_requeued(struct thread *thread, u32 owner, const struct task_struct *task)
{
	struct record *stay = &thread->stay;

	if (!thread->requeue_to || thread->requeued_ns || stay->in_ns > thread->slept_ns)
		return;
	thread->requeued_ns = bpf_ktime_get_ns();
	thread->owner = owner;
	bpf_probe_read_kernel(thread->owner_name, 16, &task->comm);
	stay->argument[0] = thread->requeue_to;
	stay->argument[1] = FUTEX_LOCK_PI;
	stay->word[0] = owner;
	thread->has_lock = 1;
}

/*
 * (owner, thread whose priority it gets): by a thread that waits for a lock, by the owner as it releases one, or by a thread that moves
 * another one to a lock.
 */
ON(sched_pi_setprio)
{
	u32 owner = 0, lender = 0, current = bpf_get_current_pid_tgid(), *spinner;
	struct thread *thread;

	READ(owner, given->of[0], struct task_struct, pid);
	READ(lender, given->of[1], struct task_struct, pid);
	if (lender == current) {
		thread = watched(lender);
		if (!thread)
			return 0;
		waits_for(thread, lender);
		if (!thread->owner && thread->spins_ns) {
			thread->owner = owner;
			bpf_probe_read_kernel(thread->owner_name, 16, &((const struct task_struct *)given->of[0])->comm);
		}
		bpf_map_update_elem(&spinners, &owner, &lender, 0);
		return 0;
	}
	thread = watched(lender);
	if (thread)
		is_requeued(thread, owner, (const void *)given->of[0]);
	if (owner != current)
		return 0;
	spinner = bpf_map_lookup_elem(&spinners, &owner);
	if (!spinner || *spinner == lender)
		return 0;
	thread = watched(*spinner);
	if (thread)
		is_released(thread, *spinner);
	bpf_map_delete_elem(&spinners, &owner);
	return 0;
}

#if !defined(PLAIN)
/* (lock, timer, waiter): the current thread begins to wait for a lock. */
SEC("fentry/rt_mutex_wait_proxy_lock") int rt_mutex_wait_proxy_lock(struct arguments *given)
{
	u32 pid = bpf_get_current_pid_tgid();
	struct thread *thread = watched(pid);

	(void)given;
	if (thread)
		waits_for(thread, pid);
	return 0;
}

/* It has the lock, or gives up. */
SEC("fexit/rt_mutex_wait_proxy_lock") int rt_mutex_wait_proxy_lock_exit(struct arguments *given)
{
	struct thread *thread = watched(bpf_get_current_pid_tgid());

	(void)given;
	if (thread && thread->spins_ns && !thread->released_ns)
		thread->released_ns = bpf_ktime_get_ns();
	return 0;
}

/* (lock, queue of wakeups): its owner has released a lock, and holds that of its waiters, so that none goes on yet. */
SEC("fexit/__rt_mutex_futex_unlock") int __rt_mutex_futex_unlock_exit(struct arguments *given)
{
	struct thread *thread;
	u64 node = 0;
	u32 pid = 0;

	READ(node, given->of[1], struct wake_q_head, first);
	READ(pid, node - OFFSET(struct task_struct, wake_q), struct task_struct, pid);
	thread = pid ? watched(pid) : 0;
	if (thread)
		is_released(thread, pid);
	return 0;
}
#endif
