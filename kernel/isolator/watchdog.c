// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: no task waits for an isolated CPU for longer than
 * kernel.isolator_max_defer_ms.
 *
 * While any CPU has an owner, a housekeeping CPU checks each isolated CPU,
 * eight times per bound. A task waits if tasks are queued behind the owner, if
 * a reschedule or a check of the tick was deferred, or if a timer behind the
 * gate is due. If that lasts, the watchdog breaks isolation before the check
 * that would come after the bound. An interrupt brings the owner into the
 * kernel and opens the gate. At its return to user mode the owner sleeps until
 * no task waits, at most ISOLATOR_YIELD_MAX_MS. That lets tasks of any policy
 * run. The fair server, if it is on, would serve ordinary tasks only, and too
 * late for a shorter bound.
 *
 * Instruction and memory synchronisation has no bound: no task waits for it.
 *
 * The watchdog runs in a timer's hard interrupt. A thread of any policy might
 * itself wait for a real-time task on the housekeeping CPU. sched_tick_remote()
 * is no alternative: it runs once a second, which is too seldom for the bound,
 * and it also runs while no CPU is isolated.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/sched/isolation.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/sysctl.h>

#include "isolator.h"

#define MAX_DEFER_LEAST_MS	10
#define MAX_DEFER_MOST_MS	(60 * 60 * MSEC_PER_SEC)
#define LOOKS_PER_BOUND		8
#define LOOK_LEAST_MS		5
#define LOOK_MOST_MS		250

unsigned int isolator_max_defer_ms = 1000;

static struct hrtimer watchdog;

/*
 * The interrupt that calls this breaks isolation. Its return checks the tick.
 * The flag makes the owner, if it runs here, run its yield. An owner that was
 * in the kernel may have entered it with its gate closed, so this opens the
 * gate.
 */
static void kick(void *info)
{
	struct isolator_cpu *ic = info;

	__isolator_gate_open();
	if (READ_ONCE(ic->owner) == current)
		set_thread_flag(TIF_NOTIFY_RESUME);
}

/* Sleeps until no task waits for this CPU, at most ISOLATOR_YIELD_MAX_MS */
void isolator_yield(struct isolator_cpu *ic)
{
	ktime_t end = ktime_add_ms(ktime_get(), ISOLATOR_YIELD_MAX_MS);

	if (sched_isolator_others())
		isolator_count(ic, ISOLATOR_STAT_YIELDS);
	/*
	 * Not TASK_INTERRUPTIBLE: a signal would cut the other tasks' turn
	 * short.
	 */
	while (sched_isolator_others() && !fatal_signal_pending(current) &&
	       ktime_before(ktime_get(), end)) {
		ktime_t nap = ms_to_ktime(1);

		set_current_state(TASK_KILLABLE);
		schedule_hrtimeout_range(&nap, 100 * NSEC_PER_USEC,
					 HRTIMER_MODE_REL);
	}
	sched_isolator_settle();
}

/* Runs in the owner, at its return to user mode or its exit */
static void isolator_yield_work(struct callback_head *head)
{
	struct isolator_cpu *ic = container_of(head, struct isolator_cpu, yield);

	/*
	 * task_work_run() has read where its list continues; pairs with
	 * break_isolation().
	 */
	atomic_set_release(&ic->yielding, 0);
	if (READ_ONCE(ic->owner) == current)
		isolator_yield(ic);
}

static void break_isolation(int cpu, struct isolator_cpu *ic)
{
	/* TWA_RESUME would send another interrupt. */
	if (!atomic_xchg(&ic->yielding, 1) &&
	    task_work_add(ic->owner, &ic->yield, TWA_NONE | TWAF_NO_ALLOC))
		atomic_set(&ic->yielding, 0);
	/* If this fails, the previous interrupt is still on its way. */
	smp_call_function_single_async(cpu, &ic->kick);
}

static bool somebody_waits(int cpu, struct isolator_cpu *ic)
{
	struct isolator_entry *entry = per_cpu_ptr(&isolator_entry, cpu);

	return sched_isolator_starved(cpu, ic->owner) ||
	       (atomic_read(isolator_word(ic)) &
		(ISOLATOR_PENDING_RESCHED | ISOLATOR_PENDING_TICK)) ||
	       (READ_ONCE(entry->gated) && hrtimer_isolator_overdue(cpu));
}

static ktime_t period(void)
{
	unsigned int ms = READ_ONCE(isolator_max_defer_ms) / LOOKS_PER_BOUND;

	return ms_to_ktime(clamp(ms, LOOK_LEAST_MS, LOOK_MOST_MS));
}

static void look_at(int cpu)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
	enum isolator_reason why = ISOLATOR_OK;
	struct task_struct *owner;
	unsigned long flags;
	ktime_t now;

	raw_spin_lock_irqsave(&isolator_lock, flags);
	owner = ic->owner;
	if (!owner) {
		raw_spin_unlock_irqrestore(&isolator_lock, flags);
		return;
	}
	get_task_struct(owner);
	why = isolator_misplaced(cpu, owner);
	now = ktime_get();
	if (why || !somebody_waits(cpu, ic)) {
		ic->clear = now;
	} else if (ktime_after(ktime_add(now, period()),
			       ktime_add_ms(ic->clear,
					    READ_ONCE(isolator_max_defer_ms)))) {
		ic->clear = now;
		break_isolation(cpu, ic);
	}
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
	if (why)
		isolator_end(cpu, owner, why);
	put_task_struct(owner);
}

static enum hrtimer_restart look(struct hrtimer *timer)
{
	int cpu;

	/* Off the queue before the CPUs are read; start_to_look() pairs. */
	smp_mb();
	for_each_cpu(cpu, &isolator_cpus)
		look_at(cpu);
	if (cpumask_empty(&isolator_cpus))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, period());
	return HRTIMER_RESTART;
}

/*
 * A timer that runs now may have missed the new owner. It is not queued then,
 * so this starts it again. The call of this function is the full barrier that
 * pairs with look(), which may run on another CPU.
 */
static void start_to_look(void *unused)
{
	if (!hrtimer_is_queued(&watchdog))
		hrtimer_start(&watchdog, period(), HRTIMER_MODE_REL_PINNED_HARD);
}

/**
 * isolator_watch() - start the watchdog, which runs until no CPU has an owner
 *
 * The timer runs on a housekeeping CPU: here it would keep the gate open.
 *
 * Context: With cpus_read_lock(); sleeps.
 */
void isolator_watch(void)
{
	unsigned int cpu = cpumask_any_and(housekeeping_cpumask(HK_TYPE_TICK),
					   cpu_online_mask);

	/* One is online: the CPU that keeps the time stays online. */
	smp_call_function_single(cpu, start_to_look, NULL, true);
}

static unsigned int least = MAX_DEFER_LEAST_MS;
static unsigned int most = MAX_DEFER_MOST_MS;

static struct ctl_table settings[] = {
	{
		.procname	= "isolator_max_defer_ms",
		.data		= &isolator_max_defer_ms,
		.maxlen		= sizeof(isolator_max_defer_ms),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= &least,
		.extra2		= &most,
	},
};

static int __init isolator_watchdog_init(void)
{
	int cpu;

	hrtimer_setup(&watchdog, look, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	for_each_possible_cpu(cpu) {
		struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);

		INIT_CSD(&ic->kick, kick, ic);
		init_task_work(&ic->yield, isolator_yield_work);
	}
	isolator_register_breach(kick, ISOLATOR_STAT_BREACH_BOUND);
	register_sysctl("kernel", settings);
	return 0;
}
core_initcall(isolator_watchdog_init);
