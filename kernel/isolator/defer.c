// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: the senders' side.
 *
 * The kernel denies deferral by default. A sender sends its interrupt unless
 * the function was registered as one whose work the entry code does. A deferred
 * call is never queued, since only the first CPU to queue an entry sends an
 * interrupt. An entry left in call_single_queue without an interrupt would make
 * the next, synchronous caller wait for ever.
 */
#include <linux/bits.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/stacktrace.h>

#include <asm/sections.h>

#include "isolator.h"

#define CREATE_TRACE_POINTS
#include <trace/events/isolator.h>

DEFINE_PER_CPU_SHARED_ALIGNED(struct isolator_cpu, isolator_cpu);
DEFINE_STATIC_KEY_FALSE(isolator_used);
EXPORT_SYMBOL_GPL(isolator_used);

/*
 * Open addressing. The table is never full, so that a search ends at an empty
 * place.
 */
#define FUNCTION_BITS	5
#define FUNCTIONS	BIT(FUNCTION_BITS)

struct isolator_function {
	smp_call_func_t		func;
	unsigned int		work;
	enum isolator_stat	breach;
};

static struct isolator_function functions[FUNCTIONS] __ro_after_init;
static unsigned int functions_used __initdata;

static struct isolator_function *find(smp_call_func_t func)
{
	unsigned int at = hash_ptr((void *)func, FUNCTION_BITS);

	while (functions[at].func && functions[at].func != func)
		at = (at + 1) % FUNCTIONS;
	return &functions[at];
}

/* If the table is full, calls of functions left out are delivered. */
static void __init add(smp_call_func_t func, unsigned int work,
		       enum isolator_stat breach)
{
	struct isolator_function *place = find(func);

	if (!place->func) {
		if (WARN_ON(functions_used + 1 == FUNCTIONS))
			return;
		functions_used++;
		place->func = func;
		place->breach = ISOLATOR_STAT_BREACH_CALL;
	}
	if (work)
		place->work = work;
	if (breach)
		place->breach = breach;
}

void __init isolator_register(smp_call_func_t func, unsigned int work)
{
	add(func, work, 0);
}

void __init isolator_register_breach(smp_call_func_t func,
				     enum isolator_stat what)
{
	add(func, 0, what);
}

/* Work that stands for a call of @func; 0: the call must be delivered */
unsigned int isolator_work_of(smp_call_func_t func)
{
	return find(func)->work;
}

enum isolator_stat isolator_breach_of(smp_call_func_t func)
{
	struct isolator_function *place = find(func);

	return place->func ? place->breach : ISOLATOR_STAT_BREACH_CALL;
}

/**
 * isolator_post() - add work to a CPU's word if its owner is in user mode
 * @word: the word
 * @work: ISOLATOR_PENDING_*
 *
 * The function does the exchange even if the bits are set already. The exchange
 * orders the caller's writes (text, page tables, flags) before the entry that
 * will clear the bits.
 *
 * Return: true if it added the work; false if the owner is not in user mode, so
 * that the caller must send the interrupt.
 */
bool isolator_post(atomic_t *word, unsigned int work)
{
	int old;

	/* Pairs with isolator_do_work(). */
	smp_mb();
	old = atomic_read(word);
	do {
		if (!(old & ISOLATOR_PENDING_USER))
			return false;
	} while (!atomic_try_cmpxchg(word, &old, old | work));
	return true;
}

/* While an owner starts or ends, the interrupt is sent. */
static __always_inline bool
defer(int cpu, u32 mask, unsigned int work, enum isolator_stat what, void *func)
{
	struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);

	if (likely(!READ_ONCE(ic->owner)) || !(READ_ONCE(ic->mask) & mask) ||
	    !isolator_post(isolator_word(ic), work))
		return false;
	isolator_count(ic, what);
	trace_defer(cpu, what, func, _RET_IP_);
	return true;
}

bool __isolator_defer_call(int cpu, smp_call_func_t func)
{
	switch (isolator_work_of(func)) {
	case ISOLATOR_PENDING_SYNC:
		return defer(cpu, ISOLATOR_MASK_IPI, ISOLATOR_PENDING_SYNC,
			     ISOLATOR_STAT_DEFER_SYNC, func);
	case ISOLATOR_PENDING_ORDER:
		return defer(cpu, ISOLATOR_MASK_IPI, ISOLATOR_PENDING_ORDER,
			     ISOLATOR_STAT_DEFER_ORDER, func);
	case ISOLATOR_PENDING_KTLB:
		return defer(cpu, ISOLATOR_MASK_KTLB, ISOLATOR_PENDING_KTLB,
			     ISOLATOR_STAT_DEFER_KTLB, func);
	}
	return false;
}

/*
 * Reschedules are denied deferral by default, too. Only the caller knows which
 * task waits, so only the caller can allow the delay. Classes, policies and
 * cookies are not evaluated.
 */
bool __isolator_defer_resched(int cpu, bool may_wait, bool stop)
{
	if (may_wait && defer(cpu, ISOLATOR_MASK_RESCHED, ISOLATOR_PENDING_RESCHED,
			  ISOLATOR_STAT_DEFER_RESCHED, NULL))
		return true;
	__isolator_breach(cpu, stop ? ISOLATOR_STAT_BREACH_STOP :
				      ISOLATOR_STAT_BREACH_RESCHED, NULL);
	return false;
}

/*
 * The runqueue's lock orders this read after the deferral, so the word is at
 * least as new. RESCHED stays set until an entry has cleared it; that entry
 * then checks the flag. USER is no indication: an NMI clears it, and the NMI's
 * return does not check flags. If USER is set without RESCHED, the interrupt is
 * on its way.
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
	return defer(cpu, ISOLATOR_MASK_CLOCK, ISOLATOR_PENDING_TICK,
		     ISOLATOR_STAT_DEFER_TICK, NULL);
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
	    !(atomic_read(isolator_word(ic)) & ISOLATOR_PENDING_USER))
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
