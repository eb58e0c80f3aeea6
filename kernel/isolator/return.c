// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: what the owner's entry and return do besides the word.
 *
 *	user mode	gate closed if all timers may wait, OWNER set: senders
 *	    |		defer all that may wait
 *	    | entry	flags = USER; gate opened if a timer waits:
 *	    v		gate_may_stay()
 *	kernel
 *	    | return	batches emptied, tick checked, gate closed if it may
 *	    v		be, flags = USER | OWNER
 *	user mode
 *
 * RCU watches, and interrupts are off. entry.c sets and clears the flags in the
 * word, by the same rules for both.
 */
#include <linux/hardirq.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/thread_info.h>
#include <linux/tick.h>

#include <asm/unistd.h>

#include "isolator.h"

/* Any task on the CPU itself may call this, with interrupts off */
void __isolator_gate_open(void)
{
	struct isolator_entry *entry = this_cpu_ptr(&isolator_entry);

	if (likely(!entry->gated))
		return;
	WRITE_ONCE(entry->gated, false);
	hrtimer_isolator_resume();
}

/*
 * Whether this entry is a call of TICK, which is short; false if this is
 * unknown. (On arm64 the registers of an interrupt from user mode may look the
 * same.) A call to another device with the same number counts as TICK too.
 * Timers then fire when that call sleeps, when it returns, or by the watchdog.
 */
static bool entered_by_tick(void)
{
#ifdef CONFIG_X86_64
	struct pt_regs *regs = current_pt_regs();

	return regs->orig_ax == __NR_ioctl &&
	       (u32)regs->si == ISOLATOR_IOC_TICK;
#else
	return false;
#endif
}

/*
 * Whether the gate may stay closed after an entry from user mode by any task on
 * this CPU. For a task that is not the owner, it opens: it may still be closed
 * for an owner that has just lost the CPU. For the owner, it opens if a timer
 * waits behind it, since the owner may stay long in the kernel (a long call, a
 * guest).
 *
 * The gate stays closed in two cases. In TICK, which is short, it does if no
 * timer is due soon, so that TICK does not program the device twice. And it
 * does if no timer waits. The kernel itself leaves the device in this state,
 * and starting a timer programs it.
 */
static bool gate_may_stay(struct isolator_entry *entry, bool mine)
{
	return mine && (!entry->due || (entered_by_tick() &&
					time_before(jiffies, entry->due)));
}

void __isolator_user_exit(void)
{
	struct isolator_entry *entry = this_cpu_ptr(&isolator_entry);
	struct isolator_cpu *ic = this_cpu_ptr(&isolator_cpu);
	unsigned int seen = entry->seen;
	bool mine;

	if (likely(entry->flags == ISOLATOR_PENDING_USER))
		return;
	entry->flags = ISOLATOR_PENDING_USER;
	mine = READ_ONCE(ic->owner) == current;
	/* The return to user mode empties the batches that this stay fills. */
	if (mine)
		set_thread_flag(TIF_ISOLATOR);
	if ((seen & ISOLATOR_PENDING_TICK) || !gate_may_stay(entry, mine))
		__isolator_gate_open();
	isolator_count(ic, ISOLATOR_STAT_ENTRIES);
	if (seen & ~ISOLATOR_PENDING_MESSAGE)
		isolator_count(ic, ISOLATOR_STAT_ENTRIES_WORK);
	/* The deferred interrupt would have done this. */
	if (seen & ISOLATOR_PENDING_RESCHED)
		preempt_fold_need_resched();
	if (seen & ISOLATOR_PENDING_TICK)
		tick_nohz_isolator_update();
}

/* With an open gate, due timers need a return with interrupts on. */
unsigned long __isolator_user_quiet(unsigned long ti_work)
{
	if (READ_ONCE(*this_cpu_ptr(&isolator_cpu.owner)) != current ||
	    !__this_cpu_read(isolator_entry.gated) || !isolator_quiet())
		return ti_work;
	clear_thread_flag(TIF_ISOLATOR);
	return ti_work & ~_TIF_ISOLATOR;
}

/*
 * Timers that became due behind the gate are pending interrupts. The CPU takes
 * them before this function runs, rather than in user mode.
 */
void __isolator_user_prepare(void)
{
	clear_thread_flag(TIF_ISOLATOR);
	if (READ_ONCE(*raw_cpu_ptr(&isolator_cpu.owner)) != current)
		return;
	isolator_quiesce();
	/*
	 * The gate can close only once the tick has stopped, see
	 * hrtimer_isolator_stop(). An interrupt to this CPU could not do this:
	 * it may come only in user mode. It would then bring the owner back
	 * here for as long as the tick is needed.
	 */
	guard(irq)();
	if (!tick_nohz_tick_stopped())
		tick_nohz_isolator_update();
}

void __isolator_user_arm(void)
{
	struct isolator_entry *entry = this_cpu_ptr(&isolator_entry);
	struct isolator_cpu *ic = this_cpu_ptr(&isolator_cpu);

	/*
	 * Code that ends isolation interrupts this CPU afterwards. That
	 * interrupt comes in user mode, or it came while the gate was closed.
	 */
	if (likely(READ_ONCE(ic->owner) != current)) {
		__isolator_gate_open();
		return;
	}
	lockdep_assert_irqs_disabled();
	if ((READ_ONCE(ic->mask) & ISOLATOR_MASK_CLOCK) &&
	    hrtimer_isolator_stop(&entry->due)) {
		WRITE_ONCE(entry->gated, true);
		isolator_count(ic, ISOLATOR_STAT_GATE_CLOSED);
	} else {
		__isolator_gate_open();
	}
	entry->seen = 0;
	entry->flags = ISOLATOR_IN_USER_MODE;
}
