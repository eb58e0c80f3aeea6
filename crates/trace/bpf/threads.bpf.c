// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The threads of an unmodified program: when each was due, woken, put on a CPU and taken off it, and why.
 *
 * One record for each stay of a thread on a CPU, written when the stay ends: no other event of a cycle has a record of its own. Records
 * go into a ring buffer that wakes no reader; user space reads it a few times a second.
 *
 * A thread's due time is that of the timer whose function wakes it. The system call in which a thread sleeps is read from its registers
 * at the kernel entry. No tracepoint of system calls is needed, which would slow down those of all programs. Every foreign pointer goes
 * through a helper that answers a wrong one with zeroes (see collector.bpf.c), except in the three tracepoints of every cycle.
 *
 * For the position in the program at which a thread waits, faults or releases a lock, its registers and the top of its stack are
 * copied, and user space finds the functions. This is done for waits other than the thread's usual one, at the cost of a comparison in
 * an ordinary cycle.
 *
 * src/bpf/record.rs reads the records. The loader takes one object, so the parts are headers: records.h has the types, maps.h the maps,
 * tell.h writes records, call.h has the system call, lock.h the locks for which a thread waits on its CPU, waking.h the wakeups and their
 * interrupts, own.h a thread's own time, and begin_end.h the programs at the begin and end of cycles that the user named.
 */

#include "bpf.h"
#include "per_cpu.h"
#include "quota.h"
#include "records.h"
#include "maps.h"
#include "tell.h"
#include "call.h"
#include "lock.h"

/* A thread is runnable on a CPU without running there, or (0) no longer: that CPU then records the threads that get it instead. */
INLINE void waits_on(struct thread *thread, u32 cpu_plus_one)
{
	struct here *here;

	if (thread->waits_on) {
		here = here_of(thread->waits_on - 1);
		if (here)
			__sync_fetch_and_add(&here->waiters, -1);
	}
	thread->waits_on = cpu_plus_one;
	if (cpu_plus_one) {
		here = here_of(cpu_plus_one - 1);
		if (here)
			__sync_fetch_and_add(&here->waiters, 1);
	}
}

/* This timer begins the thread's periods. */
INLINE void is_timer_of(const struct hrtimer *timer, u32 pid)
{
	u64 key = (u64)timer;

	bpf_map_update_elem(&timers, &key, &pid, 0);
	has_timers = 1;
}

/* The stay that ends now becomes a record; the next one that finds room tells how many did not. */
INLINE void tell_stay(struct record *stay)
{
	struct record *record = begin(sizeof(*record));

	if (!record) {
		stay->lost++;
		return;
	}
	__builtin_memcpy(record, stay, sizeof(*record));
	bpf_ringbuf_submit(record, NO_WAKEUP);
	stay->lost = 0;
}

/*
 * Some kernels have threads without any tracepoint, for them or for their CPU while they have it. A watched thread that is woken or
 * scheduled there is unseen. The scheduler recorded by its own clock when the thread came; without that, it came no earlier than its
 * wakeup, or its leaving.
 */
INLINE void check_begin(struct thread *thread, const struct task_struct *task)
{
	struct record *stay = &thread->stay;
	u64 arrival = 0, in_ns = 0;

	if (HAS(struct task_struct, sched_info.last_arrival))
		arrival = GET(task, sched_info.last_arrival);
	if (!thread->left_ns || stay->in_ns > thread->left_ns) {
		/* A split stay has begun since. */
		if (arrival && thread->arrived_ns > thread->left_ns)
			thread->ahead_ns = thread->arrived_ns - arrival;
		return;
	}
	waits_on(thread, 0);
	stay->how |= UNSEEN;
	if (arrival && thread->ahead_ns)
		in_ns = arrival + thread->ahead_ns;
	if (in_ns < thread->left_ns)
		in_ns = thread->left_ns;
	if (in_ns < stay->woken_ns)
		in_ns = stay->woken_ns;
	stay->in_ns = in_ns > stay->at_ns ? stay->at_ns : in_ns;
}

/* The state with which a thread leaves its CPU of its own accord, for src/bpf/record.rs: one in a freezer is stopped. */
INLINE u32 leaves_as(const struct task_struct *prev)
{
	u32 state = state_of(prev);
	u64 bits = 0;

	if (state && HAS(struct task_struct, frozen)) {
		bpf_probe_read_kernel(&bits, __builtin_preserve_field_info(((struct task_struct *)0)->frozen, 1),
				      (const void *)prev + OFFSET(struct task_struct, frozen));
		bits <<= __builtin_preserve_field_info(((struct task_struct *)0)->frozen, 4);
		bits >>= __builtin_preserve_field_info(((struct task_struct *)0)->frozen, 5);
		if (bits)
			state |= TASK_FROZEN;
	}
	return state && GET(prev, flags) & PF_FROZEN ? state | TASK_FROZEN : state;
}

/* A thread is ready to run from now on. Returns whether the quota of its control group keeps it from that. */
INLINE int is_ready(struct thread *thread, const struct task_struct *task)
{
	thread->queue = 0;
	if (GET(task, prio) < ORDINARY)
		return 0;
	thread->queue = queue_of(task);
	thread->queue_ns = throttled_ns(thread->queue);
	return is_throttled(task);
}

/* It has the CPU, and for how long it was kept from that; which is not known where it was moved to another CPU's queue. */
INLINE void has_waited(struct thread *thread, const struct task_struct *task)
{
	struct record *stay = &thread->stay;
	u64 queue = thread->queue;

	thread->queue = 0;
	if (queue && queue_of(task) == queue)
		stay->withheld_ns = throttled_ns(queue) - thread->queue_ns;
	else
		stay->how &= ~HELD_BACK;
}

/* What the hypervisor took from this CPU since the thread came to it, or left it. */
INLINE u64 stolen_since(struct thread *thread, u32 cpu)
{
	u64 before = thread->stolen_on == cpu ? thread->stolen_ns : 0;

	if (!steal_from_rq)
		return 0;
	thread->stolen_ns = stolen(run_queue());
	thread->stolen_on = cpu;
	return before && thread->stolen_ns > before ? thread->stolen_ns - before : 0;
}

/* All is told that came before the next stay, or the next part of this one. */
INLINE void is_told(struct record *stay)
{
	stay->faults = stay->migrations = 0;
	stay->withheld_ns = stay->stolen_before_ns = 0;
}

/* The thread that leaves is still the current one, so its fields may be read directly. The idle thread's are always the same. */
INLINE void leave(struct thread *thread, struct task_struct *prev, u32 pid, u32 cpu, u64 at_ns, const struct task_struct *next,
		  int is_preempted)
{
	const struct pt_regs *regs = registers_of(prev);
	struct record *stay = &thread->stay;
	/* A thread of the kernel makes no calls. */
	u32 state = 0, next_pid = GET(next, pid), is_kernel = GET(prev, flags) & PF_KTHREAD;
	u64 waits_ns;

	stay->kind = STAY;
	stay->cpu = cpu;
	stay->thread = pid;
	stay->at_ns = at_ns;
	check_begin(thread, prev);
	thread->left_ns = at_ns;
	if (!is_preempted)
		state = leaves_as(prev);
	stay->state = state;
	stay->stolen_within_ns = stolen_since(thread, cpu);
	if (state == TASK_RUNNING && is_ready(thread, prev))
		stay->how |= THROTTLED;
	stay->prio = GET(prev, prio);
	stay->policy = GET(prev, policy);
	stay->next = next_pid;
	if (next_pid) {
		stay->next_prio = GET(next, prio);
		stay->next_policy = GET(next, policy);
		bpf_probe_read_kernel(stay->next_name, 16, &next->comm);
	} else {
		stay->next_prio = 120;
		stay->next_policy = 0;
		__builtin_memcpy(stay->next_name, "idle", 5);
	}
	stay->call = -1ULL;
	waits_ns = spins_until(thread, prev, pid, at_ns);
	if (!is_preempted && !is_kernel)
		take_call(thread, regs);
	tell_stay(stay);
	thread->has_lock = 0;
	if (state != TASK_RUNNING) {
		thread->slept_ns = at_ns;
		thread->has_lock = waits_for_lock(stay);
		/* The stack at a lock for which it waited on its CPU has been told. */
		if (!is_kernel && !waits_ns && (thread->has_lock || !is_usual(thread, regs) || thread->first_stacks))
			tell_user_stack(thread, pid, AT_WAIT, at_ns);
		if (thread->first_stacks)
			thread->first_stacks--;
	} else if (stay->policy == SCHED_DEADLINE && stay->call == yield_call) {
		/* Its own timer makes it runnable again, without a tracepoint of a wakeup. */
		thread->yields = 1;
		is_timer_of(&prev->dl.dl_timer, pid);
	} else {
		waits_on(thread, cpu + 1);
	}
	stay->woken_ns = stay->due_ns = stay->timer = 0;
	stay->waker = stay->how = 0;
	is_told(stay);
	__builtin_memset(stay->waker_name, 0, 16);
	__builtin_memset(&stay->by, 0, sizeof(stay->by));
}

/* The thread that leaves is still the current one, so its fields may be read directly. */
INLINE void comes_after(struct record *stay, const struct task_struct *prev, u32 left)
{
	stay->after = left;
	if (!left)
		return;
	stay->after_prio = GET(prev, prio);
	stay->after_flags = GET(prev, flags);
	bpf_get_current_comm(stay->after_name, 16);
}

/* What had the CPU `waited_for` while the thread waited for it is known only if each record found room. */
INLINE void check_wait(struct thread *thread, const struct here *waited_for)
{
	struct record *stay = &thread->stay;

	if (waited_for && waited_for->lost_ns > (stay->woken_ns ? stay->woken_ns : thread->left_ns))
		stay->how |= HOLE;
}

INLINE void arrive(struct thread *thread, const struct task_struct *prev, const struct task_struct *next, u32 left, const struct here *here,
		   u64 at_ns)
{
	u32 pid = GET(next, pid);
	struct record *stay = &thread->stay;

	waits_on(thread, 0);
	comes_after(stay, prev, left);
	has_waited(thread, next);
	stay->stolen_before_ns = stolen_since(thread, bpf_get_smp_processor_id());
	thread->yields = 0;
	stay->in_ns = thread->arrived_ns = at_ns;
	if (thread->spins_ns)
		thread->spins_ns = at_ns;
	if (!stay->woken_ns && thread->early.woken_ns) {
		stay->woken_ns = thread->early.woken_ns;
		stay->due_ns = thread->early.due_ns;
		stay->timer = thread->early.timer;
		stay->waker = thread->early.waker;
		stay->how = thread->early.how;
		stay->by = thread->early.by;
		__builtin_memcpy(stay->waker_name, thread->early.waker_name, 16);
	}
	thread->early.woken_ns = 0;
	check_wait(thread, here);
	if (!stay->woken_ns)
		return;
	if (thread->has_waking_stack && at_ns - stay->woken_ns > stack_over_ns)
		tell_stack(pid, stay->woken_ns, thread->waking_stack);
	thread->has_waking_stack = 0;
}

/* (preempt, prev, next) */
ON_TYPED(sched_switch)
{
	struct task_struct *prev = current_task();
	const struct task_struct *next = (const void *)given->of[2];
	u32 cpu = bpf_get_smp_processor_id(), left = GET(prev, pid), pid = GET(next, pid);
	struct thread *goes = watched(left), *comes = watched(pid);
	struct here *here = here_of(cpu);
	struct switched *switched;
	u64 at_ns, is_watched;

	/* The verifier refuses pointers that are tested together: this number says whether there are any. */
	is_watched = goes != 0;
	KEEP_APART(is_watched);
	is_watched += comes != 0;
	KEEP_APART(is_watched);
	if (here)
		is_watched += here->waiters;
	if (!is_watched)
		return 0;
	at_ns = bpf_ktime_get_ns();
	if (goes)
		leave(goes, prev, left, cpu, at_ns, next, given->of[0] & 1);
	if (comes) {
		arrive(comes, prev, next, left, here, at_ns);
		return 0;
	}
	if (!here || !here->waiters)
		return 0;
	switched = begin(sizeof(*switched));
	if (!switched) {
		here->lost_ns = at_ns;
		return 0;
	}
	switched->kind = SWITCH;
	switched->cpu = cpu;
	switched->thread = pid;
	switched->at_ns = at_ns;
	switched->from = left;
	switched->from_prio = GET(prev, prio);
	switched->from_flags = GET(prev, flags);
	bpf_get_current_comm(switched->from_name, 16);
	switched->prio = GET(next, prio);
	switched->policy = GET(next, policy);
	switched->flags = GET(next, flags);
	bpf_probe_read_kernel(switched->name, 16, &next->comm);
	bpf_ringbuf_submit(switched, NO_WAKEUP);
	return 0;
}

#include "waking.h"

/* (task, cpu) */
ON(sched_migrate_task)
{
	struct thread *thread;
	u32 pid = 0;

	READ(pid, given->of[0], struct task_struct, pid);
	thread = watched(pid);
	if (!thread)
		return 0;
	thread->stay.migrations++;
	if (!tell(MOVED, pid, (u32)given->of[1], 0, 0))
		thread->stay.how |= HOLE;
	if (thread->waits_on) {
		check_wait(thread, here_of(thread->waits_on - 1));
		waits_on(thread, (u32)given->of[1] + 1);
	}
	return 0;
}

/* A DEADLINE thread's period begins. */
INLINE void replenish(struct thread *thread, const struct here *here)
{
	struct record *stay = &thread->stay;

	thread->yields = 0;
	stay->woken_ns = bpf_ktime_get_ns();
	stay->due_ns = here->expired.due_ns;
	stay->timer = here->expired.timer;
	stay->how = BY_TIMER;
	waits_on(thread, stay->cpu + 1);
}

/* (timer, now): the due time is read here, since the thread may set the timer again as soon as it sees that it fired. */
ON_TYPED(hrtimer_expire_entry)
{
	const struct hrtimer *timer = (const void *)given->of[0];
	struct here *here = here_of(bpf_get_smp_processor_id());
	struct thread *thread;
	u64 key;
	u32 *owner;

	if (!here)
		return 0;
	here->outer = here->expired;
	here->expired.timer = key = (u64)timer;
	/* By CLOCK_MONOTONIC: other clocks' bases have an offset to it. */
	here->expired.due_ns = GET(timer, _softexpires) - GET(GET(timer, base), offset);
	here->expired.current = bpf_get_current_pid_tgid();
	here->expired.is_on_stack = (u64)GET(timer, function) == hrtimer_wakeup;
	if (!has_timers)
		return 0;
	owner = bpf_map_lookup_elem(&timers, &key);
	if (!owner)
		return 0;
	thread = watched(*owner);
	if (thread && thread->yields)
		replenish(thread, here);
	return 0;
}

/* (timer) */
ON(hrtimer_expire_exit)
{
	struct here *here = here_of(bpf_get_smp_processor_id());

	if (!here)
		return 0;
	if (here->expired.timer == given->of[0])
		here->expired = here->outer;
	here->outer.timer = 0;
	return 0;
}

INLINE int fault(struct arguments *given)
{
	u32 pid = bpf_get_current_pid_tgid();
	struct thread *thread = watched(pid);
	struct here *here;

	if (!thread)
		return 0;
	here = here_of(bpf_get_smp_processor_id());
	if (here && here->reads_user)
		return 0;
	thread->stay.faults++;
	thread->fault_ns = tell(FAULT, pid, given->of[0], given->of[2], 0);
	if (thread->fault_ns)
		tell_user_stack(thread, pid, AT_FAULT, thread->fault_ns);
	return 0;
}

/* (address, registers, error code) */
ON(page_fault_user) { return fault(given); }
ON(page_fault_kernel) { return fault(given); }

/*
 * No tracepoint shows the end of a fault, but the thread's own counter of faults, minor or major, grows then. This slows down its
 * context switches, so it is attached only to threads that take faults.
 */
SEC("perf_event") int fault_over(void *given)
{
	u32 pid = bpf_get_current_pid_tgid();
	struct thread *thread = watched(pid);

	(void)given;
	if (thread && thread->fault_ns)
		tell(FAULT_OVER, pid, thread->fault_ns, 0, 0);
	return 0;
}

/* (thread, its caller_at or 0, its first_stacks): no tracepoint; user space runs it, so that only BPF programs change slots and threads. */
SEC("raw_tp") int watch_thread(struct arguments *given)
{
	u32 pid = given->of[0];
	int answer = watch(pid);
	struct thread *thread = watched(pid);

	if (thread && given->of[1])
		thread->caller_at = given->of[1];
	if (thread)
		thread->first_stacks = given->of[2];
	return answer;
}

/* (parent, child) */
ON(sched_process_fork)
{
	u32 pid = 0, process = 0, parent = bpf_get_current_pid_tgid();

	READ(process, given->of[1], struct task_struct, tgid);
	READ(pid, given->of[1], struct task_struct, pid);
	if (pid != process && bpf_map_lookup_elem(&processes, &process)) {
		if (watch(pid) == WATCHED_NOW)
			tell(STARTED, pid, process, 0, (const void *)given->of[1]);
	} else if (watched(parent)) {
		tell(FORKED, parent, pid, 0, 0);
	}
	return 0;
}

/* (task, old pid, binary) */
ON(sched_process_exec)
{
	u32 pid = bpf_get_current_pid_tgid();
	struct thread *thread = watched(pid);

	if (!thread)
		return 0;
	thread->caller_at = 0;
	tell(EXECUTED, pid, 0, 0, (const void *)given->of[0]);
	return 0;
}

/* (task) */
ON(sched_process_exit)
{
	u32 pid = bpf_get_current_pid_tgid();
	struct thread *thread = watched(pid);

	if (!thread)
		return 0;
	waits_on(thread, 0);
	tell(EXITED, pid, 0, 0, (const void *)given->of[0]);
	unwatch(pid);
	return 0;
}

#include "begin_end.h"
#include "own.h"

/* MIT or GPL: the kernel lends its helpers to programs under a licence like its own. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
