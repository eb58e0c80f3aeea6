/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupt isolator: declarations that its own files share.
 *
 * isolator_lock guards the ownership of CPUs. It is a raw spinlock, held with
 * interrupts off: an owner could starve a task that holds a sleeping lock.
 * Readers of owner and mask that do not hold it see old values at worst. Each
 * of them explains why that is harmless.
 */
#ifndef _KERNEL_ISOLATOR_H
#define _KERNEL_ISOLATOR_H

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/isolator.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>

#include "compat.h"

struct file;
struct vm_area_struct;

/**
 * struct isolator_cpu - a CPU that can be isolated
 * @owner: its owner, with a reference; NULL: the CPU is not isolated
 * @mask: ISOLATOR_MASK_* of the owner
 * @file: open file through which START was called
 * @refuses: the kernel may refuse others' requests that would interrupt the CPU
 * @mm: exclusive mode: the owner's address space; only ever compared
 * @page: page that user space maps, never freed; NULL: the CPU cannot be
 *	isolated
 * @ended: reason why the last isolation ended
 * @breach_lock: guards the fields below and the breach fields of @page
 * @breach_func: function of the last breach
 * @breach_site: call sites of the last breach, innermost first
 * @clear: watchdog: last time when it found no task that waited for this CPU
 * @kick: watchdog: interrupt that breaks isolation
 * @yield: watchdog: makes the owner sleep at its return to user mode
 * @yielding: @yield is queued
 */
struct isolator_cpu {
	struct task_struct	*owner;
	u32			mask;
	struct file		*file;
	bool			refuses;
	struct mm_struct	*mm;
	struct isolator_page	*page;
	enum isolator_reason	ended;

	raw_spinlock_t		breach_lock;
	void			*breach_func;
	unsigned long		breach_site[ISOLATOR_SITES];

	ktime_t			clear;
	call_single_data_t	kick;
	struct callback_head	yield;
	atomic_t		yielding;
};

DECLARE_PER_CPU_SHARED_ALIGNED(struct isolator_cpu, isolator_cpu);

extern raw_spinlock_t isolator_lock;
extern struct cpumask isolator_cpus;	/* CPUs with owners; isolator_lock */
extern unsigned int isolator_max_defer_ms;

static inline atomic_t *isolator_word(struct isolator_cpu *ic)
{
	return (atomic_t *)&ic->page->pending;
}

/* Atomic, since senders on several CPUs count at the same time. */
static inline void isolator_count(struct isolator_cpu *ic,
				  enum isolator_stat what)
{
	atomic64_inc((atomic64_t *)&ic->page->stat[what]);
}

/**
 * isolator_post() - add work to a CPU's word if the CPU is in user mode
 * @word: the word
 * @in: flag that the word must have: ISOLATOR_PENDING_USER, or _OWNER for work
 *	that waits only for an owner
 * @work: ISOLATOR_PENDING_*
 *
 * The function does the exchange even if the bits are set already. The exchange
 * orders the caller's writes (text, page tables, flags) before the entry that
 * will clear the bits.
 *
 * Return: the word before, if the work was added; 0 if the CPU is not in user
 * mode, so that the caller must send the interrupt.
 */
static inline int isolator_post(atomic_t *word, unsigned int in,
				unsigned int work)
{
	int old;

	/* Pairs with isolator_do_work(). */
	smp_mb();
	old = atomic_read(word);
	do {
		if (!(old & in))
			return 0;
	} while (!atomic_try_cmpxchg(word, &old, old | work));
	return old;
}

/* Bits of START's mask whose parts are built in */
#define ISOLATOR_MASK_BUILT						\
	(ISOLATOR_MASK_DEFAULT |					\
	 (IS_ENABLED(CONFIG_ISOLATOR_KTLB) ? ISOLATOR_MASK_KTLB : 0) |	\
	 (IS_ENABLED(CONFIG_ISOLATOR_EXCLUSIVE_MM) ?			\
	  ISOLATOR_MASK_EXCLUSIVE_MM : 0))

/* Flags of the word; the other bits are work. */
#define ISOLATOR_IN_USER_MODE	(ISOLATOR_PENDING_USER | ISOLATOR_PENDING_OWNER)
/* An entry keeps this bit in the word, until the messages are polled. */
#define ISOLATOR_KEEP		ISOLATOR_PENDING_MESSAGE
/* An NMI also keeps the bits of work that an NMI cannot do. */
#define ISOLATOR_KEEP_NMI	(ISOLATOR_PENDING_MESSAGE |	\
				 ISOLATOR_PENDING_RESCHED |	\
				 ISOLATOR_PENDING_TICK)

/* entry.c */
void isolator_do_work_test(struct isolator_entry *entry, int keep);
bool isolator_supported(void);

/* defer.c */
unsigned int isolator_work_of(smp_call_func_t func);

/* breach.c */
#ifdef CONFIG_ISOLATOR_OWNER
bool isolator_may_defer(int cpu, unsigned int work);
void isolator_deferred(int cpu, int old, unsigned int work);
enum isolator_stat isolator_breach_of(smp_call_func_t func);
#else
static inline bool isolator_may_defer(int cpu, unsigned int work)
{
	return true;
}

static inline void isolator_deferred(int cpu, int old, unsigned int work) { }
#endif

/* start.c */
enum isolator_reason isolator_take(u32 mask, struct file *file);
enum isolator_reason isolator_work(u32 flags);

/* owner.c */
bool isolator_watched(int cpu);
bool isolator_in_domain(int cpu);
int isolator_cpu_of(struct task_struct *owner);
enum isolator_reason isolator_give(void);
enum isolator_reason isolator_misplaced(int cpu, struct task_struct *owner);
bool isolator_end(int cpu, struct task_struct *owner,
		  enum isolator_reason why);
void isolator_end_file(struct file *file);

/* quiesce.c */
#ifdef CONFIG_ISOLATOR_QUIESCE
void isolator_quiesce_start(void);
bool isolator_quiet(void);
void isolator_quiesce(void);
#else
static inline void isolator_quiesce_start(void) { }
static inline bool isolator_quiet(void) { return true; }
static inline void isolator_quiesce(void) { }
#endif

/* ring.c */
#ifdef CONFIG_ISOLATOR_MESSAGES
enum isolator_reason isolator_ring_put(struct isolator_ring *ring, u32 head,
				       u32 tail,
				       const struct isolator_message *message);
enum isolator_reason isolator_ring_take(struct isolator_ring *ring, u32 head,
					u32 tail,
					struct isolator_message *message);
enum isolator_reason isolator_message_post(int cpu, struct file *file,
					   const struct isolator_message *message);
enum isolator_reason isolator_message_poll(int cpu, struct file *file,
					   struct isolator_message *message);
bool isolator_rings_alloc(struct isolator_rings **rings);
void isolator_rings_free(struct isolator_rings *rings);
struct isolator_rings *isolator_messages_start(int cpu, struct file *file,
					       struct isolator_rings *rings);
void isolator_messages_tick(int cpu);
void isolator_messages_end(int cpu);
enum isolator_reason isolator_messages_ioctl(struct file *file, bool take,
					     void __user *at, int *error);
int isolator_messages_mmap(struct file *file, struct vm_area_struct *vma,
			   int cpu);
#else
static inline bool isolator_rings_alloc(struct isolator_rings **rings)
{
	*rings = NULL;
	return true;
}

static inline void isolator_rings_free(struct isolator_rings *rings) { }
static inline
struct isolator_rings *isolator_messages_start(int cpu, struct file *file,
					       struct isolator_rings *rings)
{
	return NULL;
}

static inline void isolator_messages_tick(int cpu) { }
static inline void isolator_messages_end(int cpu) { }
static inline
enum isolator_reason isolator_messages_ioctl(struct file *file, bool take,
					     void __user *at, int *error)
{
	*error = 0;
	return ISOLATOR_NOT_BUILT;
}

static inline int isolator_messages_mmap(struct file *file,
					 struct vm_area_struct *vma, int cpu)
{
	return -ENODEV;
}
#endif

/* watchdog.c */
void isolator_watch(void);
void isolator_yield(struct isolator_cpu *ic);

/* exclusive.c */
#ifdef CONFIG_ISOLATOR_EXCLUSIVE_MM
enum isolator_reason isolator_exclusive(void);
#else
static inline enum isolator_reason isolator_exclusive(void)
{
	return ISOLATOR_NOT_BUILT;
}
#endif

/* names.c */
int isolator_errno(enum isolator_reason reason);
const char *isolator_reason_text(enum isolator_reason reason);
const char *isolator_stat_name(enum isolator_stat what);

#endif /* _KERNEL_ISOLATOR_H */
