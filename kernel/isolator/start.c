// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: START and TICK, which the owner of a CPU calls itself.
 *
 * START takes the CPU that the caller runs on, has it watched from then on
 * (watchdog.c), and lets waiting tasks run once. owner.c has all that ends
 * ownership, which may happen in any context.
 */
#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/irqnr.h>
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

#include <trace/events/isolator.h>

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
	if (isolator_in_domain(cpu) || housekeeping_cpu(cpu, HK_TYPE_RCU))
		return ISOLATOR_NOT_ISOLATED;
	if (sched_isolator_bad_policy(current))
		return ISOLATOR_BAD_POLICY;
	if (sched_isolator_rt_limited(current))
		return ISOLATOR_RT_BANDWIDTH;
	if (isolator_watched(cpu))
		return ISOLATOR_WATCHED;
	if ((mask & ISOLATOR_MASK_CLOCK) && !hrtimer_isolator_can_stop())
		return ISOLATOR_CLOCK_STAYS;
	if (tick_nohz_isolator_needed())
		return ISOLATOR_TICK_NEEDED;
	return ISOLATOR_OK;
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
	      isolator_cpu_of(current) < nr_cpu_ids ? ISOLATOR_OWNER_ALREADY :
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
