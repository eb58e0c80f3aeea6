// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: the owner's kernel entry and its return to user mode.
 *
 *	user mode	USER set; senders add work to the word, send nothing
 *	    | entry	nest = 2, USER cleared, work,
 *	    |		its bits cleared, nest = 0	(RCU not watching)
 *	    v
 *	kernel		USER clear; senders send interrupts
 *	    |		gate opened if a timer waits: gate_may_stay()
 *	    | return	gate closed, nest = 1		(RCU watching)
 *	    |		word |= USER			(RCU not watching)
 *	    v
 *	user mode
 *
 * Rules that hold even if an NMI, or a similar entry, comes at any point:
 *
 * 1. USER is set only while RCU does not watch. An NMI that finds USER set
 *    therefore takes ct_nmi_enter()'s hook and does the work itself.
 * 2. An entry clears USER before it does the work, and clears the work's bits
 *    after it. If USER stayed set, a sender could post a bit again during the
 *    work, and the word would not show that this post came too late. If the
 *    bits were cleared first, a nested NMI would not find them.
 * 3. The return ors USER into the word: a nested NMI may have set USER before,
 *    and senders may have added work since.
 * 4. An NMI's return sets USER only if that NMI interrupted user mode itself.
 *    An NMI may come after an entry has cleared USER, but before RCU watches.
 *    It must leave USER clear, since that entry continues into the kernel. The
 *    counter nest tells these cases apart.
 * 5. The read-modify-write operations on the word and on the context tracking
 *    state are full barriers. Interrupts that only order memory therefore need
 *    no work at all.
 *
 * Code between the hardware's entry and isolator_do_work() must never be
 * patched, since this CPU might not see the patch. So it has no static key.
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

#ifdef CONFIG_X86
#include <asm/tlbflush.h>
#endif

DEFINE_PER_CPU(struct isolator_entry, isolator_entry);

#ifdef CONFIG_X86
/*
 * Writing CR2 serialises. IRET does too, but would unmask NMIs. CPUID exits to
 * a hypervisor. CR2 keeps its value: the code writes back what it read.
 */
static __always_inline void isolator_serialise(void)
{
	unsigned long cr2;

	asm volatile("mov %%cr2, %0\n\tmov %0, %%cr2" : "=r" (cr2) : : "memory");
}

/* Changing CR4.PGE flushes all entries, with global entries and all PCIDs. */
static __always_inline void isolator_flush_kernel_tlb(void)
{
	unsigned long cr4;

	asm volatile("mov %%cr4, %0" : "=r" (cr4) : : "memory");
	asm volatile("mov %0, %%cr4" : : "r" (cr4 ^ X86_CR4_PGE) : "memory");
	asm volatile("mov %0, %%cr4" : : "r" (cr4) : "memory");
}
#else
/*
 * The exception may have synchronised this CPU before the text was changed, so
 * the CPU synchronises again here. TLB flushes are never deferred on this
 * architecture: TLBI is broadcast.
 */
static __always_inline void isolator_serialise(void)
{
	isb();
}

static __always_inline void isolator_flush_kernel_tlb(void) { }
#endif

/**
 * isolator_do_work() - do deferred work, and stop senders from deferring more
 * @entry: this CPU's entry state
 * @keep: bits that stay set for later handlers
 *
 * Every entry calls this, NMIs included, while RCU does not watch. It must not
 * take locks, trace, or run text that may be patched.
 */
void noinstr isolator_do_work(struct isolator_entry *entry, int keep)
{
	/* Pairs with isolator_post(). Later senders send an interrupt. */
	int old = raw_atomic_fetch_andnot(ISOLATOR_PENDING_USER, entry->word);

	if (old & ISOLATOR_PENDING_KTLB)
		isolator_flush_kernel_tlb();
	if (old & ISOLATOR_PENDING_SYNC)
		isolator_serialise();
	/* Senders can add only MESSAGE now: USER stays clear while nest > 1. */
	raw_atomic_and(keep, entry->word);
	entry->seen |= old;
}

/*
 * While this CPU does the work, nest has the value that it has inside an NMI.
 * An NMI that comes now therefore does the work too, and does not set USER. If
 * nest were 0 already, the NMI would find no work to do, and would run stale
 * text.
 */
int noinstr __isolator_kernel_enter(int offset)
{
	struct isolator_entry *entry = raw_cpu_ptr(&isolator_entry);

	WRITE_ONCE(entry->nest, 2);
	barrier();
	isolator_do_work(entry, ISOLATOR_KEEP);
	barrier();
	WRITE_ONCE(entry->nest, 0);
	return offset;
}

void noinstr __isolator_kernel_exit(void)
{
	raw_atomic_or(ISOLATOR_PENDING_USER, raw_cpu_read(isolator_entry.word));
}

void noinstr __isolator_nmi_enter(void)
{
	struct isolator_entry *entry = raw_cpu_ptr(&isolator_entry);

	WRITE_ONCE(entry->nest, entry->nest + 1);
	barrier();
	isolator_do_work(entry, ISOLATOR_KEEP_NMI);
}

void noinstr __isolator_nmi_exit(void)
{
	struct isolator_entry *entry = raw_cpu_ptr(&isolator_entry);

	WRITE_ONCE(entry->nest, entry->nest - 1);
	barrier();
	if (entry->nest == 1)
		raw_atomic_or(ISOLATOR_PENDING_USER, entry->word);
}

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

	if (likely(!seen))
		return;
	entry->seen = 0;
	mine = READ_ONCE(ic->owner) == current;
	/* The return to user mode empties the batches that this stay fills. */
	if (mine)
		set_thread_flag(TIF_ISOLATOR);
	if ((seen & ISOLATOR_PENDING_TICK) || !gate_may_stay(entry, mine))
		__isolator_gate_open();
	isolator_count(ic, ISOLATOR_STAT_ENTRIES);
	if (seen & ~(ISOLATOR_PENDING_USER | ISOLATOR_PENDING_MESSAGE))
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
	WRITE_ONCE(entry->nest, 1);
}
