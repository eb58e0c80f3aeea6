// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: avoiding remote per-CPU work.
 *
 * The kernel collects work that it did for the owner in per-CPU batches. Other
 * CPUs sometimes have each CPU with such batches empty them, by a work item on
 * that CPU. The work item does not run while the owner spins, so drop_caches,
 * compaction and similar operations wait for it. The owner therefore empties
 * its batches on its way back to user mode, so that no such work item is
 * needed.
 *
 * Emptying takes locks that sleep on PREEMPT_RT. So it runs with interrupts on,
 * before the last check of the thread's flags. A task that preempts the owner
 * between here and user mode may fill a batch again. That batch then waits for
 * the next return, or for the watchdog. A check for empty batches takes no
 * lock.
 */

#include "isolator.h"

/* Whether all batches are empty; interrupts off */
bool isolator_quiet(void)
{
	return lru_isolator_empty() && vmstat_isolator_empty();
}

/* At every return of the owner to user mode but a quiet one; preemptible */
void isolator_quiesce(void)
{
	lru_isolator_drain();
	vmstat_isolator_fold();	/* last: draining changes counters */
}

/* Once, at START: there are too many caches for a check at each return */
void isolator_quiesce_start(void)
{
	slab_isolator_flush();
}
