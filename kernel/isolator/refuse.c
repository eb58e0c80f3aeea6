// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: requests that would interrupt an isolated CPU, and that
 * whoever makes them can do without.
 *
 * Refused is what a user asked for and what can fail. What must succeed (a
 * close, an exit, the kernel's own control of frequency and temperature) is
 * delivered and counted as a breach. A refusal is a matter of the moment: the
 * caller looks before it sends, and holds nothing.
 *
 * To deny something to others takes more than to own a CPU: the owner had
 * CAP_SYS_ADMIN at START, and kernel.isolator_refuse, the administrator's
 * switch, is 1. Otherwise the request is delivered and counted.
 */
#include <linux/export.h>
#include <linux/sched.h>

#include "isolator.h"

/* The owner's own requests interrupt nobody. */
bool __isolator_refuse(int cpu, enum isolator_stat what)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
	struct task_struct *owner = READ_ONCE(ic->owner);

	if (!owner || owner == current || !READ_ONCE(ic->refuses) ||
	    !READ_ONCE(isolator_refuse_requests))
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
EXPORT_SYMBOL_GPL(__isolator_refuse_any);
