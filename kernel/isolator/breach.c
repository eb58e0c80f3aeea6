// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: senders of interrupts to a CPU that has an owner. They
 * may defer more than calls, by the owner's mask. What they deliver to an owner
 * in user mode is a breach, which is counted with its sender. What they read of
 * owners lies here, below all files that change it.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/stacktrace.h>

#include <asm/sections.h>

#include "isolator.h"

#include <trace/events/isolator.h>

DEFINE_PER_CPU_SHARED_ALIGNED(struct isolator_cpu, isolator_cpu);
DEFINE_RAW_SPINLOCK(isolator_lock);
struct cpumask isolator_cpus;
DEFINE_STATIC_KEY_FALSE(isolator_used);
EXPORT_SYMBOL_GPL(isolator_used);

/* By the bit of the work in the word */
static const struct {
	u32			mask;
	enum isolator_stat	what;
} kinds[] = {
	[ilog2(ISOLATOR_PENDING_SYNC)] = {
		ISOLATOR_MASK_IPI, ISOLATOR_STAT_DEFER_SYNC },
	[ilog2(ISOLATOR_PENDING_KTLB)] = {
		ISOLATOR_MASK_KTLB, ISOLATOR_STAT_DEFER_KTLB },
	[ilog2(ISOLATOR_PENDING_ORDER)] = {
		ISOLATOR_MASK_IPI, ISOLATOR_STAT_DEFER_ORDER },
	[ilog2(ISOLATOR_PENDING_RESCHED)] = {
		ISOLATOR_MASK_RESCHED, ISOLATOR_STAT_DEFER_RESCHED },
	[ilog2(ISOLATOR_PENDING_TICK)] = {
		ISOLATOR_MASK_CLOCK, ISOLATOR_STAT_DEFER_TICK },
};

static struct {
	smp_call_func_t		func;
	enum isolator_stat	what;
} breaches[8] __ro_after_init;

void __init isolator_register_breach(smp_call_func_t func,
				     enum isolator_stat what)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(breaches); i++) {
		if (breaches[i].func)
			continue;
		breaches[i].func = func;
		breaches[i].what = what;
		return;
	}
	WARN_ON(1);
}

enum isolator_stat isolator_breach_of(smp_call_func_t func)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(breaches) && breaches[i].func; i++)
		if (breaches[i].func == func)
			return breaches[i].what;
	return ISOLATOR_STAT_BREACH_CALL;
}

/* The mask decides only while the CPU has an owner. */
bool isolator_may_defer(int cpu, unsigned int work)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);

	return !READ_ONCE(ic->owner) ||
	       (READ_ONCE(ic->mask) & kinds[__ffs(work)].mask);
}

/* @old: the word before; the owner counts what was deferred for it */
void isolator_deferred(int cpu, int old, unsigned int work)
{
	if (old & ISOLATOR_PENDING_OWNER)
		isolator_count(per_cpu_ptr(&isolator_cpu, cpu),
			       kinds[__ffs(work)].what);
}

/* While an owner starts or ends, the interrupt is sent. */
static __always_inline bool defer(int cpu, unsigned int work)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
	int old;

	if (likely(!READ_ONCE(ic->owner)) || !isolator_may_defer(cpu, work))
		return false;
	old = isolator_post(isolator_word(ic), ISOLATOR_PENDING_OWNER, work);
	if (!old)
		return false;
	isolator_deferred(cpu, old, work);
	trace_defer(cpu, work, NULL, _RET_IP_);
	return true;
}

/*
 * Reschedules are denied deferral by default, too. Only the caller knows which
 * task waits, so only the caller can allow the delay. Classes, policies and
 * cookies are not evaluated.
 */
bool __isolator_defer_resched(int cpu, bool may_wait, bool stop)
{
	if (may_wait && defer(cpu, ISOLATOR_PENDING_RESCHED))
		return true;
	__isolator_breach(cpu, stop ? ISOLATOR_STAT_BREACH_STOP :
				      ISOLATOR_STAT_BREACH_RESCHED, NULL);
	return false;
}

/*
 * The runqueue's lock orders this read after the deferral, so the word is at
 * least as new. RESCHED stays set until an entry has cleared it; that entry
 * then checks the flag. OWNER is no indication: an NMI clears it, and the NMI's
 * return does not check flags. If OWNER is set without RESCHED, the interrupt
 * is on its way.
 */
bool __isolator_resched_again(int cpu, bool stop)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);

	if (!READ_ONCE(ic->owner) ||
	    !(atomic_read(isolator_word(ic)) & ISOLATOR_PENDING_RESCHED))
		return false;
	__isolator_breach(cpu, stop ? ISOLATOR_STAT_BREACH_STOP :
				      ISOLATOR_STAT_BREACH_RESCHED, NULL);
	return true;
}

bool __isolator_defer_tick(int cpu)
{
	return defer(cpu, ISOLATOR_PENDING_TICK);
}

bool __isolator_cpu_isolated(int cpu)
{
	return READ_ONCE(per_cpu(isolator_cpu.owner, cpu));
}

/* Offsets into kernel text do not reveal the kernel's load address. */
static u64 text_offset(unsigned long address)
{
	return core_kernel_text(address) ? address - (unsigned long)_stext :
					   ISOLATOR_OFFSET_UNKNOWN;
}

void __isolator_breach(int cpu, enum isolator_stat what, void *func)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
	unsigned long site[ISOLATOR_SITES] = { };
	struct isolator_page *page = ic->page;
	unsigned long flags;
	int i;

	if (likely(!READ_ONCE(ic->owner)) ||
	    !(atomic_read(isolator_word(ic)) & ISOLATOR_PENDING_OWNER))
		return;
	isolator_count(ic, what);
	stack_trace_save(site, ISOLATOR_SITES, 1);

	raw_spin_lock_irqsave(&ic->breach_lock, flags);
	ic->breach_func = func;
	memcpy(ic->breach_site, site, sizeof(site));
	WRITE_ONCE(page->breach_seq, page->breach_seq + 1);
	smp_wmb();	/* breach_seq is odd before the fields change */
	page->breach_stat = what;
	page->breach_func = func ? text_offset((unsigned long)func) : 0;
	page->breach_ns = ktime_get_mono_fast_ns();
	for (i = 0; i < ISOLATOR_SITES; i++)
		page->breach_site[i] = site[i] ? text_offset(site[i]) : 0;
	smp_wmb();	/* fields are written before breach_seq is even */
	WRITE_ONCE(page->breach_seq, page->breach_seq + 1);
	raw_spin_unlock_irqrestore(&ic->breach_lock, flags);

	trace_breach(cpu, what, func, site[0]);
}

void __isolator_breach_call(int cpu, smp_call_func_t func)
{
	__isolator_breach(cpu, isolator_breach_of(func), func);
}
