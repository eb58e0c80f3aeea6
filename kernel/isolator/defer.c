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
#include <linux/hash.h>
#include <linux/init.h>

#include "isolator.h"

#define CREATE_TRACE_POINTS
#include <trace/events/isolator.h>

/*
 * Open addressing. The table is never full, so that a search ends at an empty
 * place.
 */
#define FUNCTION_BITS	4
#define FUNCTIONS	BIT(FUNCTION_BITS)

struct isolator_function {
	smp_call_func_t		func;
	unsigned int		work;
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
void __init isolator_register(smp_call_func_t func, unsigned int work)
{
	struct isolator_function *place = find(func);

	if (!place->func) {
		if (WARN_ON(functions_used + 1 == FUNCTIONS))
			return;
		functions_used++;
		place->func = func;
	}
	place->work = work;
}

/* Work that stands for a call of @func; 0: the call must be delivered */
unsigned int isolator_work_of(smp_call_func_t func)
{
	return find(func)->work;
}

bool __isolator_defer_call(int cpu, smp_call_func_t func)
{
	unsigned int work = isolator_work_of(func);
	int old;

	if (likely(!work) || !isolator_may_defer(cpu, work))
		return false;
	old = isolator_post(per_cpu(isolator_entry.word, cpu),
			    work == ISOLATOR_PENDING_KTLB ?
				    ISOLATOR_PENDING_OWNER :
				    ISOLATOR_PENDING_USER,
			    work);
	if (!old)
		return false;
	isolator_deferred(cpu, old, work);
	trace_defer(cpu, work, func, _RET_IP_);
	return true;
}
