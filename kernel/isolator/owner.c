// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: what a task must be to own a CPU, and how ownership ends.
 * start.c has how it begins.
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
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/nmi.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/task.h>

#include "isolator.h"

#include <trace/events/ipi.h>

/*
 * The lockup detector's timer may not wait: it would interrupt the owner every
 * few seconds, and keep the gate open. The detector leaves nohz_full CPUs out
 * unless the administrator changes kernel.watchdog_cpumask.
 */
bool isolator_watched(int cpu)
{
#ifdef CONFIG_LOCKUP_DETECTOR
	return watchdog_enabled && cpumask_test_cpu(cpu, &watchdog_cpumask);
#else
	return false;
#endif
}

/* Cpusets change the housekeeping masks; RCU keeps the old ones. */
bool isolator_in_domain(int cpu)
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
	if (isolator_in_domain(cpu))
		return ISOLATOR_ENDED_PARTITION;
	if (isolator_watched(cpu))
		return ISOLATOR_WATCHED;
	return ISOLATOR_OK;
}

/* The CPU that a task owns, or nr_cpu_ids; for current, or under the lock. */
int isolator_cpu_of(struct task_struct *owner)
{
	int cpu;

	for_each_cpu(cpu, &isolator_cpus)
		if (READ_ONCE(per_cpu(isolator_cpu.owner, cpu)) == owner)
			return cpu;
	return nr_cpu_ids;
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
	int cpu = isolator_cpu_of(current);

	if (cpu >= nr_cpu_ids ||
	    !isolator_end(cpu, current, ISOLATOR_ENDED_STOP))
		return ISOLATOR_NOT_OWNER;
	return ISOLATOR_OK;
}

void __isolator_task_end(struct task_struct *task)
{
	int cpu = isolator_cpu_of(task);

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
