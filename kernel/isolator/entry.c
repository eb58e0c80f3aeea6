// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: kernel entry of a nohz_full CPU and its return to user
 * mode.
 *
 *	user mode	USER set; senders add work to the word, send nothing
 *	    | entry	nest = 2, USER cleared, work,
 *	    |		its bits cleared, nest = 0	(RCU not watching)
 *	    v
 *	kernel		USER clear; senders send interrupts
 *	    | return	nest = 1			(RCU watching)
 *	    |		word |= USER			(RCU not watching)
 *	    v
 *	user mode
 *
 * OWNER is set and cleared together with USER, on the return of the CPU's
 * owner. Senders may defer more work with it, see return.c.
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
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/tick.h>

#include "isolator.h"

#ifdef CONFIG_X86
#include <asm/cpufeature.h>
#include <asm/tlbflush.h>
#endif

DEFINE_PER_CPU(struct isolator_entry, isolator_entry) = {
	.flags = ISOLATOR_PENDING_USER,
};
DEFINE_STATIC_KEY_FALSE(isolator_on);

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

/* The rare part, kept out of the path of entries without work */
static noinline noinstr void serve(struct isolator_entry *entry, int work, int keep)
{
	if (work & ISOLATOR_PENDING_KTLB)
		isolator_flush_kernel_tlb();
	if (work & ISOLATOR_PENDING_SYNC)
		isolator_serialise();
	/* Senders can add only MESSAGE now: USER stays clear while nest > 1. */
	raw_atomic_and(keep, entry->word);
	entry->seen |= work;
}

/**
 * isolator_do_work() - do deferred work, and stop senders from deferring more
 * @entry: this CPU's entry state
 * @keep: bits that stay set for later handlers
 *
 * Every entry calls this, NMIs included, while RCU does not watch. It must not
 * take locks, trace, or run text that may be patched.
 */
static __always_inline void isolator_do_work(struct isolator_entry *entry, int keep)
{
	/* Pairs with isolator_post(). Later senders send an interrupt. */
	int work = raw_atomic_fetch_andnot(ISOLATOR_IN_USER_MODE, entry->word) &
		   ~ISOLATOR_IN_USER_MODE;

	if (unlikely(work & ~keep))
		serve(entry, work, keep);
}

#if IS_ENABLED(CONFIG_ISOLATOR_KUNIT_TEST)
void noinstr isolator_do_work_test(struct isolator_entry *entry, int keep)
{
	isolator_do_work(entry, keep);
}
#endif

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
	struct isolator_entry *entry = raw_cpu_ptr(&isolator_entry);

	raw_atomic_or(entry->flags, entry->word);
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
		raw_atomic_or(entry->flags, entry->word);
}

/**
 * isolator_supported() - whether entries of this machine can do deferred work
 *
 * With FRED, a return to user mode that faults is a fault of the kernel. No
 * hook runs then, and text that may be patched runs while USER is set.
 *
 * Return: whether they can.
 */
bool isolator_supported(void)
{
#ifdef CONFIG_X86
	return !boot_cpu_has(X86_FEATURE_XENPV) &&
	       !cpu_feature_enabled(X86_FEATURE_FRED);
#else
	return true;
#endif
}

static int __init isolator_words_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct isolator_entry *entry = per_cpu_ptr(&isolator_entry, cpu);

		entry->word = &entry->own_word;
	}
	return 0;
}
early_initcall(isolator_words_init);

/* After all functions are registered, and the words have their final place */
static int __init isolator_on_init(void)
{
	if (tick_nohz_full_enabled() && isolator_supported())
		static_branch_enable(&isolator_on);
	return 0;
}
late_initcall(isolator_on_init);
