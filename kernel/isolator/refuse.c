// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: refusing requests that would interrupt an isolated CPU.
 *
 * The kernel refuses requests that a user made and that may fail. Requests that
 * must succeed are delivered and counted as breaches: a close, an exit, the
 * kernel's own control of frequency and temperature. A refusal holds for the
 * moment only: the caller checks before it sends, and holds no lock.
 *
 * Refusing others' requests takes more rights than owning a CPU. The owner had
 * CAP_SYS_ADMIN at START, and the administrator's switch,
 * kernel.isolator_refuse, is 1. Otherwise the request is delivered and counted.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/sched.h>
#include <linux/sysctl.h>

#include "isolator.h"

static unsigned int refuse_requests = 1;

/* The owner's own requests need no interrupt, and are never refused. */
bool __isolator_refuse(int cpu, enum isolator_stat what)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
	struct task_struct *owner = READ_ONCE(ic->owner);

	if (!owner || owner == current || !READ_ONCE(ic->refuses) ||
	    !READ_ONCE(refuse_requests))
		return false;
	isolator_count(ic, what);
	return true;
}
EXPORT_SYMBOL_GPL(__isolator_refuse);

bool __isolator_refuse_any(const struct cpumask *mask, enum isolator_stat what)
{
	int cpu;

	for_each_cpu(cpu, mask)
		if (__isolator_refuse(cpu, what))
			return true;
	return false;
}

static struct ctl_table settings[] = {
	{
		.procname	= "isolator_refuse",
		.data		= &refuse_requests,
		.maxlen		= sizeof(refuse_requests),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static int __init isolator_refuse_init(void)
{
	register_sysctl("kernel", settings);
	return 0;
}
core_initcall(isolator_refuse_init);
