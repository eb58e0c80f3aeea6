// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: leave nothing behind that others have to come for.
 *
 * What the kernel did for the owner lies in per-CPU batches, which others now
 * and then ask every CPU for that has some: a work item on this CPU, which
 * does not run while the owner spins, so that drop_caches, compaction and
 * their like wait for it. An owner therefore empties them on its way back to
 * user mode, so that nobody finds anything.
 *
 * That takes locks which sleep on PREEMPT_RT, so it runs with interrupts on,
 * before the last look at the thread's flags. Who preempts the owner between
 * here and user mode may leave something again: it then waits for the next
 * return, or for the watchdog. A look whether there is anything takes no lock.
 */

#include "isolator.h"

/* Whether there is nothing to be emptied; interrupts off */
bool isolator_quiet(void)
{
	return lru_isolator_empty() && vmstat_isolator_empty();
}

/* At every return of the owner to user mode but a quiet one; preemptible. */
void isolator_quiesce(void)
{
	lru_isolator_drain();
	vmstat_isolator_fold();	/* Last: draining counts. */
}

/* Once, at START: too many caches to look at each time. */
void isolator_quiesce_start(void)
{
	slab_isolator_flush();
}
