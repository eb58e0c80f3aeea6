// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The collector: writes kernel events of measured CPUs, and the requests that other CPUs send to them, into a ring for each.
 *
 * A ring overwrites its oldest events and is read only after a spike. Only raw tracepoints are used. The verifier sees their arguments
 * as numbers and refuses to follow them: every foreign pointer goes through bpf_probe_read_kernel(), which answers a wrong one, NULL
 * included, with zeroes. (A pointer with a BTF type may be followed directly, and some tracepoints pass NULL all the same.) Only the
 * current thread is read directly.
 *
 * A quiet cycle must be cheap: five programs write one event for it, and the loader has put their data at fixed addresses. Rare cases
 * have functions of their own, so that they cost a quiet cycle no register.
 *
 * The loader takes one object, so parts are headers: ring.h has the events and the rings, own.h the measuring threads, switch.h their
 * switches. The words of each kind of event are listed beside it. This file has a few lines for each tracepoint.
 */

#include "bpf.h"
#include "per_cpu.h"
#include "quota.h"
#include "ring.h"
#include "own.h"
#include "switch.h"

/* Functions, five in each event, at the same time and of the same CPU as what they belong to. */
INLINE int add_callers(const u64 *callers, u32 at, u32 part, u64 monotonic_ns)
{
	struct event *event = add_at(at, STACK, monotonic_ns);

	if (!event)
		return 0;
	event->cpu = bpf_get_smp_processor_id();
	event->pid = part;
#pragma unroll
	for (int n = 0; n < PART; n++)
		event->word[n] = callers[n];
	return 1;
}

/* A measuring thread is woken, and another one has its CPU, in the kernel or in user mode. */
INLINE int tell_kept(struct own *own, u32 at, u32 woken, u32 prio, int in_user_mode, u64 monotonic_ns)
{
	struct event *event = add_at(at, KEPT, monotonic_ns);
	u32 has = 0;

	if (!event)
		return 0;
	READ(has, current_task(), struct task_struct, prio);
	event->cpu = bpf_get_smp_processor_id();
	event->pid = bpf_get_current_pid_tgid();
	event->word[0] = woken;
	event->word[1] = has | (u64)prio << 32;
	event->word[2] = in_user_mode;
	event->word[3] = stolen(own->rq);
	return 1;
}

/*
 * The functions of the kernel there. Those that lie below the interrupt's own kept the CPU, if it could not be taken from them.
 */
static __attribute__((noinline)) int keep(struct arguments *given, u32 at, u32 woken, u32 prio)
{
	u64 callers[PART * KEPT_PARTS] = {}, monotonic_ns;
	struct own *own = own_of(at);

	if (!own || bpf_get_stack(given, callers, sizeof(callers), 0) <= 0)
		return 0;
	monotonic_ns = bpf_ktime_get_ns();
	if (!tell_kept(own, at, woken, prio, 0, monotonic_ns))
		return 0;
#pragma unroll
	for (u32 part = 0; part < KEPT_PARTS; part++)
		if (!callers[part * PART] || !add_callers(&callers[part * PART], at, part, monotonic_ns))
			break;
	return 0;
}

/* A hard interrupt on the thread's own stack: it came in user mode, and only it can have kept the wakeup. */
static __attribute__((noinline)) int keep_vacant(u32 at, u32 woken, u32 prio)
{
	struct own *own = own_of(at);

	if (own && context() == IN_HARDIRQ)
		tell_kept(own, at, woken, prio, 1, bpf_ktime_get_ns());
	return 0;
}

#define ON(tracepoint) SEC("raw_tp/" #tracepoint) int tracepoint(struct arguments *given)

ON(irq_handler_entry) { return note(IRQ_ENTER, given->of[0], 0); }
ON(irq_handler_exit) { return note(IRQ_EXIT, given->of[0], 0); }

/* An idle CPU that serves one is not idle: it is kept from a thread that is woken meanwhile. */
ON(softirq_entry)
{
	struct own *own = own_of(slot(bpf_get_smp_processor_id()));

	if (!own)
		return 0;
	own->idles = 0;
	return note(SOFTIRQ_ENTER, given->of[0], 0);
}

ON(softirq_exit)
{
	struct own *own = own_of(slot(bpf_get_smp_processor_id()));

	if (!own)
		return 0;
	own->idles = !(u32)bpf_get_current_pid_tgid();
	return note(SOFTIRQ_EXIT, given->of[0], 0);
}

#define VECTOR(name, which) \
	ON(name##_entry) { return note(VECTOR_ENTER, which, 0); } \
	ON(name##_exit) { return note(VECTOR_EXIT, which, 0); }

/*
 * That the interrupt is over which woke a measuring thread out of idle says nothing: the switch to the thread follows, and
 * every cycle of it would pay.
 */
ON(local_timer_entry) { return note(VECTOR_ENTER, LOCAL_TIMER, 0); }
ON(local_timer_exit)
{
	struct own *own = own_of(slot(bpf_get_smp_processor_id()));

	if (!own)
		return 0;
	if (own->woke == OVER_IDLE) {
		own->woke = 0;
		return 0;
	}
	if (!own->rq)
		own->rq = run_queue();
	return note(VECTOR_EXIT, LOCAL_TIMER, stolen(own->rq));
}

/* By which another CPU asks this one to run a thread that it has woken. */
INLINE int called(struct arguments *given, u8 kind, u64 which, int is_on_its_stack)
{
	u32 at = slot(bpf_get_smp_processor_id());
	struct own *own = own_of(at);

	if (!own)
		return 0;
	note(kind, which, 0);
	if (own->woke != ELSEWHERE)
		return 0;
	own->woke = 0;
	if (own->idles)
		return 0;
	if (is_on_its_stack && is_on_own_stack(given, &own->context))
		return keep_vacant(at, 0, 0);
	return keep(given, at, 0, 0);
}

/* x86 serves this one on whatever stack it came to. */
ON(reschedule_entry) { return called(given, VECTOR_ENTER, RESCHEDULE, 0); }
ON(reschedule_exit) { return note(VECTOR_EXIT, RESCHEDULE, 0); }
ON(call_function_single_entry) { return called(given, VECTOR_ENTER, CALL_FUNCTION_SINGLE, 1); }
ON(call_function_single_exit) { return note(VECTOR_EXIT, CALL_FUNCTION_SINGLE, 0); }
VECTOR(call_function, CALL_FUNCTION)
VECTOR(irq_work, IRQ_WORK)
VECTOR(x86_platform_ipi, PLATFORM_IPI)
VECTOR(thermal_apic, THERMAL)
VECTOR(threshold_apic, THRESHOLD)
VECTOR(deferred_error_apic, DEFERRED_ERROR)
VECTOR(error_apic, ERROR)
VECTOR(spurious_apic, SPURIOUS)

INLINE int arm_ipi(u8 kind, u64 reason)
{
	struct event *event = add(kind);

	if (event)
		bpf_probe_read_kernel_str(&event->word[3], 16, (void *)reason);
	return 0;
}

ON(ipi_entry) { return arm_ipi(IPI_ENTER, given->of[0]); }
ON(ipi_exit) { return arm_ipi(IPI_EXIT, given->of[0]); }

ON(csd_function_entry) { return note(CALL_ENTER, given->of[0], given->of[1]); }
ON(csd_function_exit) { return note(CALL_EXIT, given->of[0], given->of[1]); }
ON(nmi_handler) { return note(NMI, given->of[0], given->of[1]); }

/* (preempt, from, next) */
ON(sched_switch)
{
	u32 cpu = bpf_get_smp_processor_id(), at = slot(cpu);
	struct own *own = own_of(at);

	if (!own)
		return 0;
	own->woke = 0;
	if (is_quiet(own, at, cpu, given->of[1], given->of[2]))
		return 0;
	return tell_switch(at, cpu, given->of[1], given->of[2]);
}

/* Into the ring of the CPU that the woken thread last ran on. */
static __attribute__((noinline)) int tell_waking(u64 woken)
{
	u32 pid = 0, prio = 0, flags = 0, at;
	struct own *own;
	struct event *event;
	int target = -1;

	READ(target, woken, struct task_struct, wake_cpu);
	at = slot(target);
	own = own_of(at);
	if (!own)
		return 0;
	READ(pid, woken, struct task_struct, pid);
	if (place_of(own, pid) < OWN) {
		if (own->ordinary && tell_throttled(at, pid, woken))
			return 0;
		own->woke = ELSEWHERE;
		return 0;
	}
	event = add_at(at, WAKING, bpf_ktime_get_ns());
	if (!event)
		return 0;
	READ(prio, woken, struct task_struct, prio);
	READ(flags, woken, struct task_struct, flags);
	event->cpu = bpf_get_smp_processor_id();
	event->pid = bpf_get_current_pid_tgid();
	event->word[0] = pid | (u64)prio << 32;
	event->word[1] = flags;
	event->context = context();
	bpf_get_current_comm(&event->word[3], 16);
	return 0;
}

/* A measuring thread is woken on its CPU, which another thread has. */
static __attribute__((noinline)) int tell_own_waking(struct arguments *given, u32 at, u32 pid, u64 woken)
{
	struct own *own = own_of(at);
	u32 prio = 0;

	if (!own)
		return 0;
	READ(prio, woken, struct task_struct, prio);
	return is_on_own_stack(given, &own->context) ? keep_vacant(at, pid, prio) : keep(given, at, pid, prio);
}

/* (task) */
ON(sched_waking)
{
	u32 pid, at = slot(bpf_get_smp_processor_id());
	struct own *own = own_of(at);

	if (!own)
		return tell_waking(given->of[0]);
	if (!own->ordinary && own->idles && own->tasks[0] == given->of[0]) {
		own->woke = OVER_IDLE;
		return 0;
	}
	pid = met(own, given->of[0]);
	if (!pid)
		return tell_waking(given->of[0]);
	if (own->ordinary && tell_throttled(at, pid, given->of[0]))
		return 0;
	if (own->idles) {
		own->woke = OVER_IDLE;
		return 0;
	}
	return tell_own_waking(given, at, pid, given->of[0]);
}

static __attribute__((noinline)) int tell_migrated(u32 at, u32 pid, u32 to)
{
	struct event *event = add_at(at, MIGRATE, bpf_ktime_get_ns());

	if (!event)
		return 0;
	event->cpu = bpf_get_smp_processor_id();
	event->word[0] = pid;
	event->word[1] = to;
	return 0;
}

/* (task, CPU): into the ring of that CPU, and of a measuring thread into that of the CPU which it leaves. */
ON(sched_migrate_task)
{
	u32 to = given->of[1], pid = 0, at = slot(to), left;
	int from = -1;

	READ(pid, given->of[0], struct task_struct, pid);
	READ(from, given->of[0], struct task_struct, wake_cpu);
	left = slot(from);
	if (at < SLOTS)
		tell_migrated(at, pid, to);
	if (left != at && is_own(left, pid))
		tell_migrated(left, pid, to);
	return 0;
}

/* (task, name): by prctl(), by exec, or by another thread, into the ring of the CPU that the thread last ran on. */
ON(task_rename)
{
	u32 pid = 0, at;
	int target = -1;
	struct event *event;

	READ(target, given->of[0], struct task_struct, wake_cpu);
	at = slot(target);
	if (at >= SLOTS)
		return 0;
	READ(pid, given->of[0], struct task_struct, pid);
	event = add_at(at, RENAMED, bpf_ktime_get_ns());
	if (!event)
		return 0;
	event->cpu = bpf_get_smp_processor_id();
	event->word[0] = pid;
	bpf_probe_read_kernel_str(&event->word[3], 16, (const void *)given->of[1]);
	return 0;
}

ON(workqueue_execute_start)
{
	struct event *event = add(WORK_ENTER);
	u64 function = 0;

	if (!event)
		return 0;
	READ(function, given->of[0], struct work_struct, func);
	event->word[0] = function;
	return 0;
}

ON(workqueue_execute_end) { return note(WORK_EXIT, given->of[1], 0); }

INLINE int tell_timer(u32 at, struct own *own, u64 function)
{
	struct event *event;

	if (own->idles && !own->fired_ns) {
		own->fired = function;
		own->fired_ns = bpf_ktime_get_ns();
		return 0;
	}
	event = add_at(at, TIMER, bpf_ktime_get_ns());
	if (!event)
		return 0;
	event->cpu = bpf_get_smp_processor_id();
	event->word[0] = function;
	return 0;
}

/* One that has to be read; what it is is kept. */
static __attribute__((noinline)) int tell_new_timer(u32 at, u64 timer, int sleeps)
{
	struct own *own = own_of(at);
	u64 function = 0;
	u32 place;

	if (!own)
		return 0;
	READ(function, timer, struct hrtimer, function);
	if (sleeps) {
		own->sleeps = function;
	} else {
		place = own->oldest++ & (TIMERS - 1);
		own->timers[place] = timer;
		own->functions[place] = function;
	}
	return tell_timer(at, own, function);
}

/* A timer that lies where one of the last two lay is taken for the same: each CPU's tick, and another. */
ON(hrtimer_expire_entry)
{
	u32 at = slot(bpf_get_smp_processor_id());
	struct own *own = own_of(at);
	u64 timer = given->of[0], function = 0;
	int sleeps;

	if (!own)
		return 0;
	sleeps = is_on_stack(own, timer);
	if (sleeps)
		function = own->sleeps;
	else if (timer == own->timers[0])
		function = own->functions[0];
	else if (timer == own->timers[1])
		function = own->functions[1];
	if (!function)
		return tell_new_timer(at, timer, sleeps);
	return tell_timer(at, own, function);
}

ON(page_fault_user) { return runs_own() ? note(FAULT, given->of[0], given->of[2]) : 0; }
ON(page_fault_kernel) { return runs_own() ? note(FAULT, given->of[0], given->of[2]) : 0; }
ON(sys_enter) { return runs_own() ? note(SYSCALL_ENTER, given->of[1], 0) : 0; }
ON(sys_exit) { return runs_own() ? note(SYSCALL_EXIT, 0, given->of[1]) : 0; }

/* The end of an idle state is the beginning of something else. */
ON(cpu_idle) { return (u32)given->of[0] == (u32)-1 ? 0 : note(IDLE, (u32)given->of[0], 0); }

ON(cpu_frequency)
{
	u32 cpu = given->of[1];
	struct event *event = add_at(slot(cpu), FREQUENCY, bpf_ktime_get_ns());

	if (event) {
		event->cpu = cpu;
		event->word[0] = given->of[0];
	}
	return 0;
}

ON(tick_stop) { return (int)given->of[0] ? 0 : note(TICK_KEPT, given->of[1], 0); }

INLINE void fill_sent(struct event *event, u64 first, u64 second, u64 call_site)
{
	event->cpu = bpf_get_smp_processor_id();
	event->pid = bpf_get_current_pid_tgid();
	event->word[0] = first;
	event->word[1] = second;
	event->word[2] = call_site;
	event->context = context();
	bpf_get_current_comm(&event->word[3], 16);
}

/* Who called. */
INLINE void add_stack(void *given, u32 at, u64 monotonic_ns)
{
	u64 callers[2 * PART] = {};

	/* Without the one that calls this program. */
	bpf_get_stack(given, callers, sizeof(callers), 1);
#pragma unroll
	for (u32 part = 0; part < 2; part++)
		if (!add_callers(&callers[part * PART], at, part, monotonic_ns))
			return;
}

ON(csd_queue_cpu)
{
	u32 at = slot(given->of[0]);
	u64 monotonic_ns;
	struct event *event;

	if (at >= SLOTS)
		return 0;
	monotonic_ns = bpf_ktime_get_ns();
	event = add_at(at, SENT_CALL, monotonic_ns);
	if (!event)
		return 0;
	fill_sent(event, given->of[3], given->of[2], given->of[1]);
	add_stack(given, at, monotonic_ns);
	return 0;
}

ON(ipi_send_cpu)
{
	u32 at = slot(given->of[0]);
	u64 monotonic_ns;
	struct event *event;

	if (at >= SLOTS)
		return 0;
	monotonic_ns = bpf_ktime_get_ns();
	event = add_at(at, SENT, monotonic_ns);
	if (!event)
		return 0;
	fill_sent(event, given->of[2], 0, given->of[1]);
	add_stack(given, at, monotonic_ns);
	return 0;
}

ON(ipi_send_cpumask)
{
	for (u32 at = 0; at < SLOTS; at++) {
		struct event *event;
		u64 word = 0;
		u32 cpu;

		if (at >= slots_used)
			break;
		cpu = cpu_of[at] & (CPUS - 1);
		bpf_probe_read_kernel(&word, sizeof(word), (const u64 *)given->of[0] + cpu / 64);
		if (!(word >> (cpu % 64) & 1))
			continue;
		event = add_at(at, SENT, bpf_ktime_get_ns());
		if (event)
			fill_sent(event, given->of[2], 0, given->of[1]);
	}
	return 0;
}

/* MIT or GPL: the kernel lends its helpers to programs under a licence like its own. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
