// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: the owner's way into the kernel and back.
 *
 *	user mode	USER set; senders add work to the word, send nothing
 *	    | entry	nest = 2, USER cleared, work,
 *	    |		its bits cleared, nest = 0	(RCU not watching)
 *	    v
 *	kernel		USER clear; senders send interrupts
 *	    |		gate opened where a timer is due soon
 *	    | return	gate closed, nest = 1		(RCU watching)
 *	    |		word |= USER			(RCU not watching)
 *	    v
 *	user mode
 *
 * Rules, which an NMI (or what is like one) at any point must not break:
 *
 * 1. USER is set only while RCU does not watch, so that an NMI that finds USER
 *    takes ct_nmi_enter()'s hook and does the work itself.
 * 2. USER is cleared before the work is done, and the bits after it. Before:
 *    a bit that is posted again leaves the word as it was, and nothing would
 *    show that it came too late. After: a nested NMI has to find them.
 * 3. USER is or-ed in: a nested NMI may have set it before, and work may have
 *    come since.
 * 4. An NMI's return sets USER only if that NMI interrupted user mode itself.
 *    One that came after an entry had cleared USER, but before RCU watched,
 *    must leave it clear: that entry goes on into the kernel. Hence nest.
 * 5. The read-modify-write of the word and the one of the context tracking
 *    state are full barriers, so that interrupts which only order memory need
 *    no work at all.
 *
 * Code between the hardware's entry and isolator_do_work() must never be
 * patched, since a patch of it would not be seen; so no static key here.
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
 * Writing CR2 serialises. So does IRET, but that would unmask NMIs, and
 * CPUID exits to a hypervisor. CR2 is not lost: what is written was there.
 */
static __always_inline void isolator_serialise(void)
{
	unsigned long cr2;

	asm volatile("mov %%cr2, %0\n\tmov %0, %%cr2" : "=r" (cr2) : : "memory");
}

/* Changing CR4.PGE flushes all, global entries and all PCIDs included. */
static __always_inline void isolator_flush_kernel_tlb(void)
{
	unsigned long cr4;

	asm volatile("mov %%cr4, %0" : "=r" (cr4) : : "memory");
	asm volatile("mov %0, %%cr4" : : "r" (cr4 ^ X86_CR4_PGE) : "memory");
	asm volatile("mov %0, %%cr4" : : "r" (cr4) : "memory");
}
#else
/*
 * Taking the exception synchronised before the text was changed, perhaps.
 * Nobody defers TLB flushes here: TLBI is broadcast.
 */
static __always_inline void isolator_serialise(void)
{
	isb();
}

static __always_inline void isolator_flush_kernel_tlb(void) { }
#endif

/**
 * isolator_do_work() - do what was deferred, and let nobody defer any more
 * @entry: this CPU's
 * @keep: bits that stay for somebody else
 *
 * From any entry, NMI included, with RCU not watching: no lock, no tracing, no
 * text that may be patched.
 */
void noinstr isolator_do_work(struct isolator_entry *entry, int keep)
{
	/* Pairs with isolator_post(). Who comes later sends an interrupt. */
	int old = raw_atomic_fetch_andnot(ISOLATOR_PENDING_USER, entry->word);

	if (old & ISOLATOR_PENDING_KTLB)
		isolator_flush_kernel_tlb();
	if (old & ISOLATOR_PENDING_SYNC)
		isolator_serialise();
	/* But for messages nobody adds any: USER stays clear while nest > 1. */
	raw_atomic_and(keep, entry->word);
	entry->seen |= old;
}

/*
 * While the work is done, nest is what it is inside an NMI: one that comes now
 * does the work too, and does not set USER. With nest = 0 first it would find
 * nothing to do, and run stale text.
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

/* Interrupts off, on the CPU itself, by any task */
void __isolator_gate_open(void)
{
	struct isolator_entry *entry = this_cpu_ptr(&isolator_entry);

	if (likely(!entry->gated))
		return;
	WRITE_ONCE(entry->gated, false);
	hrtimer_isolator_resume();
}

/*
 * Whether this entry is TICK's, which is short; where it cannot be told it is not.
 * (On arm64 the registers of an interrupt from user mode may look the same.) A
 * call of another device that has the same number is taken for TICK too: it then
 * has its timers when it sleeps, when it returns, or by the watchdog.
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
 * Entry from user mode by any task on this CPU: the gate may be closed for an
 * owner that has just been deprived of it. An owner's opens too where a timer
 * waits behind it, since the stay may be long: a long call, a guest. It stays
 * closed only in TICK, which is short, if no timer is due soon, so that TICK
 * does not program the device twice; and where no timer waits, since the device
 * is then as the kernel itself leaves it, and a timer that is started programs it.
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
	/* What this leaves behind is looked at on the way out. */
	if (mine)
		set_thread_flag(TIF_ISOLATOR);
	if ((seen & ISOLATOR_PENDING_TICK) || !gate_may_stay(entry, mine))
		__isolator_gate_open();
	isolator_count(ic, ISOLATOR_STAT_ENTRIES);
	if (seen & ~(ISOLATOR_PENDING_USER | ISOLATOR_PENDING_MESSAGE))
		isolator_count(ic, ISOLATOR_STAT_ENTRIES_WORK);
	/* The interrupt that was not sent would have done so. */
	if (seen & ISOLATOR_PENDING_RESCHED)
		preempt_fold_need_resched();
	if (seen & ISOLATOR_PENDING_TICK)
		tick_nohz_isolator_update();
}

/* An open gate is not quiet: what it lets in is taken with interrupts on. */
unsigned long __isolator_user_quiet(unsigned long ti_work)
{
	if (READ_ONCE(*this_cpu_ptr(&isolator_cpu.owner)) != current ||
	    !__this_cpu_read(isolator_entry.gated) || !isolator_quiet())
		return ti_work;
	clear_thread_flag(TIF_ISOLATOR);
	return ti_work & ~_TIF_ISOLATOR;
}

/*
 * Timers that became due behind the gate wait as interrupts: they are taken
 * before this rather than in user mode.
 */
void __isolator_user_prepare(void)
{
	clear_thread_flag(TIF_ISOLATOR);
	if (READ_ONCE(*raw_cpu_ptr(&isolator_cpu.owner)) != current)
		return;
	isolator_quiesce();
	/*
	 * The gate waits for the tick to stop: see hrtimer_isolator_stop(). Not by
	 * an interrupt to this CPU: that may come in user mode only, and so bring
	 * the owner back here, as long as anything needs the tick.
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
	 * Who takes the CPU away from its owner interrupts it afterwards; that
	 * interrupt then comes in user mode, or came while the gate was closed.
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
