/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Wakeups of watched threads, part of threads.bpf.c: by which timer, interrupt or thread, and what kept the CPU then.
 *
 * The thread that has the waking CPU woke the other one only if no interrupt runs on top of it.
 */

/* (number, handlers) */
ON(irq_handler_entry)
{
	struct here *here = here_of(bpf_get_smp_processor_id());

	if (here)
		here->action = given->of[1];
	return 0;
}

ON(irq_handler_exit)
{
	struct here *here = here_of(bpf_get_smp_processor_id());

	if (here)
		here->action = 0;
	return 0;
}

/* (number) */
ON(softirq_entry)
{
	struct here *here = here_of(bpf_get_smp_processor_id());

	if (here)
		here->softirq = given->of[0] + 1;
	return 0;
}

ON(softirq_exit)
{
	struct here *here = here_of(bpf_get_smp_processor_id());

	if (here)
		here->softirq = 0;
	return 0;
}

/*
 * (number): a softirq belongs to the interrupt of the device that asks for it; or to the thread, as what that sends to its own machine.
 */
ON(softirq_raise)
{
	struct here *here = here_of(bpf_get_smp_processor_id());
	u32 number = given->of[0];

	if (!here || number > TASKLET || !(1 << number & (1 << NET_TX | 1 << NET_RX | 1 << BLOCK | 1 << TASKLET)))
		return 0;
	here->raised &= ~(1 << number);
	if (here->raised_last == number)
		here->raising = 0;
	if (context() == IN_TASK) {
		here->raised |= 1 << number;
		here->raiser = bpf_get_current_pid_tgid();
	} else if (here->action) {
		here->raised_last = number;
		here->raising = here->action;
	}
	return 0;
}

INLINE void take_handler(struct interrupt *by, u64 action)
{
	const char *name = 0;

	by->context = IN_HARDIRQ;
	READ(name, action, struct irqaction, name);
	bpf_probe_read_kernel_str(by->name, sizeof(by->name), name);
}

/* Whether this program runs in a timer's function: a thread that serves timers may be preempted in one. */
INLINE int is_in_timer(const struct here *here)
{
	return here && here->expired.timer && here->expired.current == (u32)bpf_get_current_pid_tgid();
}

/* The interrupt in which this program runs. */
INLINE void in_interrupt(struct interrupt *by, const struct here *here)
{
	__builtin_memset(by, 0, sizeof(*by));
	if (!here || is_in_timer(here))
		return;
	by->context = context();
	if (by->context == UNKNOWN_CONTEXT)
		by->context = here->action ? IN_HARDIRQ : here->softirq ? IN_SOFTIRQ : IN_TASK;
	if (by->context == IN_HARDIRQ && here->action) {
		take_handler(by, here->action);
	} else if (by->context == IN_SOFTIRQ) {
		by->number = (here->softirq - 1) & 31;
		if (here->raised >> by->number & 1 && here->raiser == (u32)bpf_get_current_pid_tgid())
			by->context = IN_TASK;
		else if (here->raising && here->raised_last == by->number)
			take_handler(by, here->raising);
	}
}

/* The timer whose function wakes the thread. One on a stack has no address of its own: the next one is elsewhere. */
INLINE void is_due(const struct here *here, u32 *how, u64 *due_ns, u64 *of_timer)
{
	*how |= BY_TIMER;
	*due_ns = here->expired.due_ns;
	if (!here->expired.is_on_stack)
		*of_timer = here->expired.timer;
}

/* The timer, if any, that wakes a thread: its own, or the one that began the stay of the watched thread that wakes it. */
INLINE void by_which_timer(u32 pid, u32 current, const struct interrupt *interrupt, const struct here *here, u32 *how, u64 *due_ns,
			   u64 *of_timer)
{
	const struct thread *by;

	*due_ns = *of_timer = 0;
	if (is_in_timer(here)) {
		is_due(here, how, due_ns, of_timer);
		return;
	}
	by = current == pid || interrupt->context > IN_TASK ? 0 : watched(current);
	if (!by || !by->stay.timer)
		return;
	*how |= INHERITED;
	*due_ns = by->stay.due_ns;
	*of_timer = by->stay.timer;
}

/* The current thread wakes one that waits for a lock: if it is in a futex call, it held the lock. */
INLINE void releases(struct thread *thread, u32 pid, const struct here *here, u64 at_ns)
{
	struct task_struct *task = current_task();

	if (!here || is_in_timer(here) || thread->stay.by.context > IN_TASK)
		return;
	if (call_of(task, registers_of(task)) == futex_call)
		tell_user_stack(thread, pid, AT_RELEASE, at_ns);
}

INLINE void wakes_early(struct waking *early, u32 pid, u32 current, const struct here *here)
{
	early->waker = current;
	early->how = current ? 0 : OVER_IDLE;
	if (current)
		bpf_get_current_comm(early->waker_name, 16);
	in_interrupt(&early->by, here);
	by_which_timer(pid, current, &early->by, here, &early->how, &early->due_ns, &early->timer);
	early->woken_ns = bpf_ktime_get_ns();
}

/* Whether the interrupt of this program came in user mode. A thread that wakes another one by a system call is on its own stack, too. */
INLINE int came_to_a_program(struct here *here, struct arguments *given)
{
	struct task_struct *task = current_task();
	const struct pt_regs *regs;

	if (!is_on_own_stack(given, &here->context))
		return 0;
	regs = registers_of(task);
#if defined(__TARGET_ARCH_arm64)
	return GET(regs, syscallno) < 0;
#else
	return (long)GET(regs, orig_ax) < 0;
#endif
}

/* The functions of the kernel that have the CPU at the wakeup. */
INLINE void keep_waking_stack(struct thread *thread, struct arguments *given)
{
	__builtin_memset(thread->waking_stack, 0, sizeof(thread->waking_stack));
	thread->has_waking_stack = bpf_get_stack(given, thread->waking_stack, sizeof(thread->waking_stack), 0) > 0;
}

/* (task) */
ON_TYPED(sched_waking)
{
	const struct task_struct *task = (const void *)given->of[0];
	u32 cpu = bpf_get_smp_processor_id(), pid = GET(task, pid), current = bpf_get_current_pid_tgid();
	struct thread *thread = watched(pid);
	struct record *stay;
	struct here *here, *there;
	int target, on_rq = 0;

	if (!thread)
		return 0;
	stay = &thread->stay;
	here = here_of(cpu);
	/* It is off the run queue, and the tracepoint of its leaving is still to come. */
	if (stay->in_ns > thread->slept_ns && pid != current)
		READ_SIZED(on_rq, task, struct task_struct, on_rq);
	if (stay->in_ns > thread->slept_ns && pid != current && !on_rq) {
		wakes_early(&thread->early, pid, current, here);
		/* The object of its wait is in its record only once it has left. */
		return 0;
	}
	/* It waits for a lock on its CPU, where it goes on. */
	if (stay->in_ns > thread->slept_ns && thread->spins_ns && is_in_lock(thread, task))
		return 0;
	/* It has not gone to sleep: its event came first. The stay is over all the same, and the next one begins. */
	if (stay->in_ns > thread->slept_ns || pid == current) {
		tell_lock(thread, pid);
		stay->kind = STAY;
		stay->cpu = cpu;
		stay->thread = pid;
		stay->at_ns = bpf_ktime_get_ns();
		stay->state = 0;
		stay->next = pid;
		stay->call = -1ULL;
		if (pid == current)
			take_call(thread, registers_of(current_task()));
		tell_stay(stay);
		stay->how = AWAKE;
		is_told(stay);
		stay->woken_ns = stay->in_ns = stay->at_ns;
		in_interrupt(&stay->by, here);
		by_which_timer(pid, current, &stay->by, here, &stay->how, &stay->due_ns, &stay->timer);
		return 0;
	}
	stay->woken_ns = bpf_ktime_get_ns();
	stay->waker = current;
	stay->how = (current ? 0 : OVER_IDLE) | (is_ready(thread, task) ? HELD_BACK : 0);
	if (current)
		bpf_get_current_comm(stay->waker_name, 16);
	in_interrupt(&stay->by, here);
	by_which_timer(pid, current, &stay->by, here, &stay->how, &stay->due_ns, &stay->timer);
	if (thread->requeued_ns)
		tell_spun(thread, pid, thread->requeued_ns, stay->woken_ns);
	thread->requeued_ns = 0;
	target = GET(task, wake_cpu);
	waits_on(thread, target + 1);
	thread->has_waking_stack = 0;
	if ((u32)target != cpu) {
		stay->how |= ELSEWHERE;
		there = here_of(target);
		if (there)
			there->called_for = pid;
	}
	if (!current || !here)
		return 0;
	if (thread->has_lock)
		releases(thread, pid, here, stay->woken_ns);
	thread->has_lock = 0;
	if ((u32)target == cpu && !came_to_a_program(here, given))
		keep_waking_stack(thread, given);
	return 0;
}

/* The interrupt by which another CPU asks this one to run a thread that it has woken. */
INLINE int called(struct arguments *given, int is_on_its_stack)
{
	struct here *here = here_of(bpf_get_smp_processor_id());
	struct thread *thread;
	u32 pid;

	if (!here || !here->called_for)
		return 0;
	pid = here->called_for;
	here->called_for = 0;
	thread = watched(pid);
	if (!thread || !(thread->stay.how & ELSEWHERE) || !(u32)bpf_get_current_pid_tgid())
		return 0;
	if (!is_on_its_stack || !came_to_a_program(here, given))
		keep_waking_stack(thread, given);
	return 0;
}

/* x86 serves this one on whatever stack it came to. */
ON(reschedule_entry) { return called(given, 0); }
ON(call_function_single_entry) { return called(given, 1); }

