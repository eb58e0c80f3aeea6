// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: ownership of a CPU, from START to its end.
 *
 * Ownership alone defers nothing. The kernel defers work only after the owner
 * itself returns to user mode on its own CPU. Ownership can therefore end in
 * any context. At worst, after a late end the owner defers once more;
 * isolator_end() interrupts it.
 *
 * Ownership ends by STOP, by exit and exec (mm_release()), by the last close of
 * the file, and when the CPU goes offline. The watchdog also ends it where
 * isolator_misplaced() finds a reason. These are a changed affinity or policy,
 * the end of the CPU's isolated partition, and a lockup detector that watches
 * the CPU. fork ends nothing: the child is not the owner.
 */
#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/irqnr.h>
#include <linux/nmi.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/isolation.h>
#include <linux/sched/task.h>
#include <linux/seq_buf.h>
#include <linux/thread_info.h>
#include <linux/tick.h>

#ifdef CONFIG_X86
#include <asm/tsc.h>
#endif

#include "isolator.h"

#include <trace/events/ipi.h>
#include <trace/events/isolator.h>

DEFINE_RAW_SPINLOCK(isolator_lock);
struct cpumask isolator_cpus;

/*
 * The lockup detector's timer may not wait: it would interrupt the owner every
 * few seconds, and keep the gate open. The detector leaves nohz_full CPUs out
 * unless the administrator changes kernel.watchdog_cpumask.
 */
static bool watched(int cpu)
{
#ifdef CONFIG_LOCKUP_DETECTOR
	return watchdog_enabled && cpumask_test_cpu(cpu, &watchdog_cpumask);
#else
	return false;
#endif
}

/* Cpusets change the housekeeping masks; RCU keeps the old ones. */
static bool in_domain(int cpu)
{
	guard(rcu)();
	return housekeeping_cpu(cpu, HK_TYPE_DOMAIN) &&
	       !cpuset_cpu_is_isolated(cpu);
}

/**
 * isolator_misplaced() - whether a task may own a CPU, or go on owning it
 * @cpu: CPU
 * @owner: task
 *
 * Return: ISOLATOR_OK if it may, or the reason against it.
 */
enum isolator_reason isolator_misplaced(int cpu, struct task_struct *owner)
{
	if (READ_ONCE(owner->nr_cpus_allowed) != 1 ||
	    !cpumask_test_cpu(cpu, owner->cpus_ptr))
		return ISOLATOR_ENDED_AFFINITY;
	if (sched_isolator_bad_policy(owner) || sched_isolator_rt_limited(owner))
		return ISOLATOR_ENDED_POLICY;
	if (in_domain(cpu))
		return ISOLATOR_ENDED_PARTITION;
	if (watched(cpu))
		return ISOLATOR_WATCHED;
	return ISOLATOR_OK;
}

static bool supported(void)
{
	return isolator_supported() &&
	       !(current->flags & (PF_KTHREAD | PF_USER_WORKER)) &&
	       hrtimer_resolution != LOW_RES_NSEC;
}

static enum isolator_reason check(int cpu, u32 mask)
{
	if (!supported())
		return ISOLATOR_NOT_SUPPORTED;
	if (!capable(CAP_SYS_NICE))
		return ISOLATOR_NOT_PERMITTED;
	if ((mask & ~ISOLATOR_MASK_ALL) ||
	    !(mask & ~ISOLATOR_MASK_EXCLUSIVE_MM))
		return ISOLATOR_BAD_MASK;
	if (mask & ~ISOLATOR_MASK_BUILT)
		return ISOLATOR_NOT_BUILT;
	if (current->nr_cpus_allowed != 1)
		return ISOLATOR_MANY_CPUS;
	/* Before nohz_full=, so that the boot CPU gets the exact reason. */
	if (!tick_nohz_cpu_hotpluggable(cpu) ||
	    !cpumask_intersects(housekeeping_cpumask(HK_TYPE_TICK),
				cpu_online_mask))
		return ISOLATOR_LAST_HOUSEKEEPING;
	if (!tick_nohz_full_cpu(cpu))
		return ISOLATOR_NOT_NOHZ_FULL;
	if (in_domain(cpu) || housekeeping_cpu(cpu, HK_TYPE_RCU))
		return ISOLATOR_NOT_ISOLATED;
	if (sched_isolator_bad_policy(current))
		return ISOLATOR_BAD_POLICY;
	if (sched_isolator_rt_limited(current))
		return ISOLATOR_RT_BANDWIDTH;
	if (watched(cpu))
		return ISOLATOR_WATCHED;
	if ((mask & ISOLATOR_MASK_CLOCK) && !hrtimer_isolator_can_stop())
		return ISOLATOR_CLOCK_STAYS;
	if (tick_nohz_isolator_needed())
		return ISOLATOR_TICK_NEEDED;
	return ISOLATOR_OK;
}

/* The CPU that a task owns, or nr_cpu_ids; for current, or under the lock. */
static int cpu_of(struct task_struct *owner)
{
	int cpu;

	for_each_cpu(cpu, &isolator_cpus)
		if (READ_ONCE(per_cpu(isolator_cpu.owner, cpu)) == owner)
			return cpu;
	return nr_cpu_ids;
}

/*
 * The kernel neither defers device interrupts nor counts them as breaches,
 * since no CPU sends them. This lists those that may come, so that the
 * administrator can change their affinity.
 */
static void report_interrupts(int cpu)
{
	DECLARE_SEQ_BUF(lines, 256);
	const struct cpumask *cpus;
	struct irq_desc *desc;
	unsigned int irq;

	irq_lock_sparse();
	for_each_irq_desc(irq, desc) {
		cpus = irq_data_get_effective_affinity_mask(&desc->irq_data);
		if (desc->action && !irqd_is_per_cpu(&desc->irq_data) &&
		    cpumask_test_cpu(cpu, cpus))
			seq_buf_printf(&lines, " %u", irq);
	}
	irq_unlock_sparse();
	if (seq_buf_used(&lines))
		pr_info_ratelimited("isolator: cpu %d: interrupts that may come:%s%s\n",
				    cpu, seq_buf_str(&lines),
				    seq_buf_has_overflowed(&lines) ?
				    " and more" : "");
}

/**
 * isolator_take() - START for the current task and the CPU that it runs on
 * @mask: ISOLATOR_MASK_*
 * @file: file through which START was called; its last close ends ownership
 *
 * Return: ISOLATOR_OK, or the reason for a refusal, which changes nothing.
 */
enum isolator_reason isolator_take(u32 mask, struct file *file)
{
	int cpu = raw_smp_processor_id();
	enum isolator_reason why = check(cpu, mask);
	/* Refusing others' requests takes more rights than owning a CPU. */
	bool may_refuse = ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
	struct isolator_rings *rings;
	struct isolator_cpu *ic;
	unsigned long flags;

	if (!why && (mask & ISOLATOR_MASK_EXCLUSIVE_MM))
		why = isolator_exclusive();
	if (why)
		return why;
	if (!isolator_rings_alloc(&rings))
		return ISOLATOR_NO_PAGE;
	/* Sleeps, and may interrupt all CPUs, but only once: it stays on. */
	static_branch_enable(&isolator_used);
	isolator_quiesce_start();

	/* Excludes a concurrent attempt to take this CPU offline. */
	cpus_read_lock();
	raw_spin_lock_irqsave(&isolator_lock, flags);
	ic = this_cpu_ptr(&isolator_cpu);
	why = cpu != smp_processor_id() ||
	      isolator_misplaced(cpu, current) ? ISOLATOR_MANY_CPUS :
	      !cpu_active(cpu) ? ISOLATOR_NOT_ISOLATED :
	      !ic->page ? ISOLATOR_NO_PAGE :
	      cpu_of(current) < nr_cpu_ids ? ISOLATOR_OWNER_ALREADY :
	      ic->owner ? ISOLATOR_OWNED : ISOLATOR_OK;
	if (!why) {
		ic->clear = ktime_get();
		ic->file = file;
		WRITE_ONCE(ic->refuses, may_refuse);
		WRITE_ONCE(ic->mm, mask & ISOLATOR_MASK_EXCLUSIVE_MM ?
				   current->mm : NULL);
		ic->ended = ISOLATOR_OK;
		WRITE_ONCE(ic->mask, mask);
		WRITE_ONCE(ic->page->mask, mask);
		WRITE_ONCE(ic->owner, get_task_struct(current));
		set_thread_flag(TIF_ISOLATOR);
		cpumask_set_cpu(cpu, &isolator_cpus);
		rings = isolator_messages_start(cpu, file, rings);
		isolator_count(ic, ISOLATOR_STAT_STARTS);
	}
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
	if (!why)
		isolator_watch();
	cpus_read_unlock();
	isolator_rings_free(rings);
	if (why)
		return why;
	pr_info_ratelimited("isolator: cpu %d taken by %s[%d], mask %#x\n",
			    cpu, current->comm, task_pid_nr(current), mask);
	report_interrupts(cpu);
	/*
	 * Tasks queued before START run now; later they would break isolation.
	 */
	isolator_yield(ic);
	return ISOLATOR_OK;
}

/**
 * isolator_end() - end a CPU's isolation, in any context
 * @cpu: CPU
 * @owner: end only if this task owns the CPU
 * @why: ISOLATOR_ENDED_*
 *
 * Return: true if this call ended it.
 */
bool isolator_end(int cpu, struct task_struct *owner, enum isolator_reason why)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
	unsigned long flags;

	raw_spin_lock_irqsave(&isolator_lock, flags);
	if (!owner || ic->owner != owner) {
		raw_spin_unlock_irqrestore(&isolator_lock, flags);
		return false;
	}
	WRITE_ONCE(ic->mask, 0);
	WRITE_ONCE(ic->page->mask, 0);
	WRITE_ONCE(ic->owner, NULL);
	ic->file = NULL;
	WRITE_ONCE(ic->mm, NULL);
	ic->ended = why;
	cpumask_clear_cpu(cpu, &isolator_cpus);
	isolator_messages_end(cpu);
	if (task_work_cancel(owner, &ic->yield))
		atomic_set(&ic->yielding, 0);
	/* An owner in user mode has a closed gate: make it enter the kernel. */
	if (cpu != smp_processor_id() && cpu_online(cpu))
		smp_send_reschedule(cpu);
	raw_spin_unlock_irqrestore(&isolator_lock, flags);

	pr_info_ratelimited("isolator: cpu %d given back by %s[%d]: %s\n",
			    cpu, owner->comm, task_pid_nr(owner),
			    isolator_reason_text(why));
	put_task_struct(owner);
	return true;
}

/* STOP; the owner may run on a CPU that it does not own. */
enum isolator_reason isolator_give(void)
{
	int cpu = cpu_of(current);

	if (cpu >= nr_cpu_ids ||
	    !isolator_end(cpu, current, ISOLATOR_ENDED_STOP))
		return ISOLATOR_NOT_OWNER;
	return ISOLATOR_OK;
}

void __isolator_task_end(struct task_struct *task)
{
	int cpu = cpu_of(task);

	if (unlikely(cpu < nr_cpu_ids))
		isolator_end(cpu, task, ISOLATOR_ENDED_EXIT);
}

/* Last close of the file, by any task */
void isolator_end_file(struct file *file)
{
	struct task_struct *owner;
	struct isolator_cpu *ic;
	unsigned long flags;
	int cpu;

	for_each_possible_cpu(cpu) {
		ic = per_cpu_ptr(&isolator_cpu, cpu);
		raw_spin_lock_irqsave(&isolator_lock, flags);
		owner = ic->file == file ? ic->owner : NULL;
		if (owner)
			get_task_struct(owner);
		raw_spin_unlock_irqrestore(&isolator_lock, flags);
		if (!owner)
			continue;
		isolator_end(cpu, owner, ISOLATOR_ENDED_CLOSE);
		put_task_struct(owner);
	}
}

static void verify_tsc(void)
{
#ifdef CONFIG_X86_TSC
	unsigned long flags;

	local_irq_save(flags);
	tsc_verify_tsc_adjust(true);
	sched_clock_tick();
	local_irq_restore(flags);
#endif
}

/*
 * TICK. The entry to the kernel has done the deferred work. If a timer was due,
 * the entry also opened the gate, and the timer has fired by now.
 */
enum isolator_reason isolator_work(u32 flags)
{
	struct isolator_cpu *ic;
	int cpu;

	if (flags & ~ISOLATOR_TICK_ALL)
		return ISOLATOR_BAD_FLAGS;
	cpu = get_cpu();
	ic = this_cpu_ptr(&isolator_cpu);
	if (READ_ONCE(ic->owner) != current) {
		put_cpu();
		return ISOLATOR_NOT_OWNER;
	}
	isolator_count(ic, ISOLATOR_STAT_TICKS);
	trace_tick(cpu, flags);
	if (flags & ISOLATOR_TICK_SCHED) {
		guard(irqsave)();
		tick_nohz_isolator_update();
	}
	if (flags & ISOLATOR_TICK_TSC_SYNC)
		verify_tsc();
	put_cpu();
	if (atomic_read(isolator_word(ic)) & ISOLATOR_PENDING_MESSAGE)
		isolator_messages_tick(cpu);
	if (flags & ISOLATOR_TICK_RT)
		isolator_yield(ic);
	return ISOLATOR_OK;
}

/*
 * The CPU goes offline, and the scheduler has moved the owner elsewhere. If the
 * CPU has an owner, only suspend, reboot and requests that isolator_refuse()
 * lets pass get here.
 */
static int isolator_offline(unsigned int cpu)
{
	struct task_struct *owner;

	scoped_guard(raw_spinlock_irqsave, &isolator_lock) {
		owner = per_cpu(isolator_cpu.owner, cpu);
		if (owner)
			get_task_struct(owner);
	}
	if (owner) {
		isolator_end(cpu, owner, ISOLATOR_ENDED_HOTPLUG);
		put_task_struct(owner);
	}
	return 0;
}

static int __init isolator_owner_init(void)
{
	int ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN,
					    "isolator:offline", NULL,
					    isolator_offline);

	return ret < 0 ? ret : 0;
}
core_initcall(isolator_owner_init);
