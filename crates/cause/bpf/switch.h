/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Switches from and to the measuring threads of a CPU, of collector.bpf.c: a quiet cycle is one event, all others are told as they are.
 */

/* Kind, CPU and thread of an event at once. */
INLINE void head(struct event *event, u8 kind, u32 cpu, u64 pid)
{
	*(u64 *)&event->kind = kind | (u64)cpu << 16 | pid << 32;
}

enum {
	FROZEN = 0x8000,       /* TASK_FROZEN */
	TRAP_FREEZE = 1 << 23, /* JOBCTL_TRAP_FREEZE */
};

/* Of a thread's states (include/linux/sched.h) those that are no sleep: ready, stopped, traced, frozen. */
INLINE int is_kept_off(u32 state)
{
	return !state || state & (FROZEN | 0xc);
}

/* That of the current thread. The freezer of cgroup version 2 has threads sleep as any wait does (do_freezer_trap()), and marks them. */
INLINE u32 state_here(void)
{
	const struct task_struct *task = current_task();
	u32 state = state_of(task);

	return state && GET(task, jobctl) & TRAP_FREEZE ? FROZEN : state;
}

/*
 * A quiet cycle is one event: a measuring thread gets an idle CPU, with the timer that fired before, and with when the CPU began
 * to idle. Returns whether it was that.
 */
INLINE int is_quiet(struct own *own, u32 at, u32 cpu, u64 from, u64 next)
{
	struct event *event;
	u32 pid;

	if (next == own->idle) {
		if (from == own->tasks[0])
			pid = own->threads[0];
		else
			pid = met(own, from);
		if (!pid || is_kept_off(state_here()))
			return 0;
		own->idles = 1;
		own->slept = pid;
		own->slept_ns = bpf_ktime_get_ns();
		return 1;
	}
	pid = next == own->tasks[0] ? own->threads[0] : met(own, next);
	if (from != own->idle || !pid)
		return 0;
	own->idles = 0;
	event = add_at(at, WOKEN, bpf_ktime_get_ns());
	if (!event)
		return 1;
	head(event, WOKEN, cpu, own->slept);
	event->word[0] = pid;
	event->word[1] = own->fired;
	event->word[2] = own->fired_ns;
	event->word[3] = own->slept_ns;
	own->fired_ns = own->slept_ns = 0;
	return 1;
}

/* What would have been told with a quiet cycle, and is not one. */
static __attribute__((noinline)) int tell_quiet(u32 at, u32 cpu)
{
	struct own *own = own_of(at);
	struct event *event;

	if (!own)
		return 0;
	event = own->slept_ns ? add_at(at, SWITCH, own->slept_ns) : 0;
	if (event) {
		head(event, SWITCH, cpu, own->slept);
		event->word[0] = event->word[1] = event->word[2] = event->word[3] = 0;
	}
	event = own->fired_ns ? add_at(at, TIMER, own->fired_ns) : 0;
	if (event) {
		head(event, TIMER, cpu, 0);
		event->word[0] = own->fired;
	}
	own->fired_ns = own->slept_ns = 0;
	return 0;
}

static __attribute__((noinline)) int tell_left(u32 at, u32 cpu, u32 pid)
{
	struct event *event = add_at(at, LEFT, bpf_ktime_get_ns());
	u32 prio = 0;

	if (!event)
		return 0;
	head(event, LEFT, cpu, pid);
	READ(prio, current_task(), struct task_struct, prio);
	event->word[0] = pid | (u64)prio << 32;
	event->word[1] = state_here();
	event->word[2] = prio >= ORDINARY && is_throttled(current_task());
	return 0;
}

/* Returns whether a measuring thread that is woken may not run. */
static __attribute__((noinline)) int tell_throttled(u32 at, u32 pid, u64 woken)
{
	struct event *event;
	u32 prio = 0;

	READ(prio, woken, struct task_struct, prio);
	if (prio < ORDINARY || !is_throttled((const void *)woken))
		return 0;
	event = add_at(at, THROTTLED, bpf_ktime_get_ns());
	if (!event)
		return 0;
	head(event, THROTTLED, bpf_get_smp_processor_id(), pid);
	event->word[0] = pid | (u64)prio << 32;
	return 1;
}

/* The measuring threads and the idle one need no name, and are known by where they lie once they have been met. */
static __attribute__((noinline)) int tell_switch(u32 at, u32 cpu, u64 from, u64 next)
{
	struct own *own = own_of(at);
	struct event *event;
	u32 left, pid = 0, prio = 0, flags = 0;

	if (!own)
		return 0;
	tell_quiet(at, cpu);
	own->idles = next == own->idle;
	left = bpf_get_current_pid_tgid();
	meet(own, left, from);
	if (place_of(own, left) < OWN && is_kept_off(state_here()))
		tell_left(at, cpu, left);
	event = add_at(at, SWITCH, bpf_ktime_get_ns());
	if (!event)
		return 0;
	head(event, SWITCH, cpu, left);
	event->word[0] = event->word[1] = event->word[3] = 0;
	if (!own->rq)
		own->rq = run_queue();
	event->word[2] = stolen(own->rq);
	if (next == own->idle)
		return 0;
	pid = met(own, next);
	event->word[0] = pid;
	if (pid)
		return 0;
	READ(pid, next, struct task_struct, pid);
	READ(prio, next, struct task_struct, prio);
	READ(flags, next, struct task_struct, flags);
	event->word[0] = pid | (u64)prio << 32;
	event->word[1] = flags;
	bpf_probe_read_kernel(&event->word[3], 16, &((const struct task_struct *)next)->comm);
	return 0;
}
