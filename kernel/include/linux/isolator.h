/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupt isolator: interface to the rest of the kernel.
 *
 * A CPU defers work if and only if it runs in user mode, and the kernel tracks
 * that (nohz_full=). The protocol uses one word per CPU. Senders may add work
 * to the word only while USER is set. The kernel's entry code does the work and
 * clears it from the word, before any code runs that depends on the work.
 *
 * That much defers synchronisation of text and memory, for any thread
 * (CONFIG_ISOLATOR). A thread that owns its CPU has more deferred
 * (CONFIG_ISOLATOR_OWNER): timers, reschedules, checks of the tick.
 *
 * Cost without nohz_full=: ct_kernel_{enter,exit}() and ct_nmi_{enter,exit}()
 * read a per-CPU variable, since their text must not be patched. The other
 * hooks are static branches, which are off. Those of owners are off until the
 * first START.
 */
#ifndef _LINUX_ISOLATOR_H
#define _LINUX_ISOLATOR_H

#include <linux/atomic.h>
#include <linux/cpumask_types.h>
#include <linux/hrtimer_types.h>
#include <linux/instrumentation.h>
#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/thread_info.h>
#include <linux/types.h>
#include <uapi/linux/isolator.h>

struct mm_struct;
struct task_struct;

#ifdef CONFIG_ISOLATOR

/**
 * struct isolator_entry - a CPU's state of entry and exit code
 * @nest: 0: the next return is not to user mode; 1: it is, or this return has
 *	happened; above: an entry has begun, or 1 + the number of NMIs (and
 *	similar entries) that interrupted user mode and have not returned
 * @flags: bits that the return to user mode sets in the word
 * @word: the CPU's word: @own_word, or the word of the page that owners map
 * @own_word: for kernels without owners
 * @seen: work that entries have done since the owner last left for user mode
 * @gated: the clock event device is stopped for the owner; in the kernel only
 *	as long as no timer waits behind it, or the stay is short
 * @due: time in jiffies from which a timer behind the closed gate may be due;
 *	0: no timer waits there
 */
struct isolator_entry {
	unsigned long	nest;
	unsigned int	flags;
	atomic_t	*word;
	atomic_t	own_word;
	unsigned int	seen;
	bool		gated;
	unsigned long	due;
};

DECLARE_PER_CPU(struct isolator_entry, isolator_entry);
DECLARE_STATIC_KEY_FALSE(isolator_on);

/*
 * Entry and exit hooks (kernel/context_tracking.c). RCU does not watch while
 * they run, so an NMI at any point of them takes its own hook. On a CPU without
 * nohz_full=, each hook is a comparison with memory and a jump that is not
 * taken. Therefore nest is a long (GCC loads an int first), and the hooks pass
 * the offset through. Otherwise the fast path would keep the offset for a rare
 * call.
 */
int __isolator_kernel_enter(int offset);
void __isolator_kernel_exit(void);
void __isolator_nmi_enter(void);
void __isolator_nmi_exit(void);

/* Entry from user mode, or from idle; returns @offset */
static __always_inline int isolator_kernel_enter(int offset)
{
	if (unlikely(raw_cpu_read(isolator_entry.nest)))
		return __isolator_kernel_enter(offset);
	return offset;
}

/* Return to user mode, or to idle. */
static __always_inline void isolator_kernel_exit(void)
{
	if (unlikely(raw_cpu_read(isolator_entry.nest)))
		__isolator_kernel_exit();
}

/* Outermost NMI, as RCU sees it: one that found RCU not watching. */
static __always_inline void isolator_nmi_enter(void)
{
	if (unlikely(raw_cpu_read(isolator_entry.nest)))
		__isolator_nmi_enter();
}

/* Only the NMI that interrupted user mode itself lets senders defer again. */
static __always_inline void isolator_nmi_exit(void)
{
	if (unlikely(raw_cpu_read(isolator_entry.nest)))
		__isolator_nmi_exit();
}

/* Return of a nohz_full CPU to user mode, interrupts off (__ct_user_enter()). */
static __always_inline void isolator_user_enter(void)
{
	if (static_branch_unlikely(&isolator_on))
		raw_cpu_write(isolator_entry.nest, 1);
}

bool __isolator_defer_call(int cpu, smp_call_func_t func);

/**
 * isolator_defer_call() - whether a function call needs no interrupt
 * @cpu: target
 * @func: function; only functions of isolator_register() are ever deferred
 *
 * Return: true if the caller must send no interrupt. All earlier writes of the
 * caller are visible to @cpu when it does the work.
 */
static __always_inline bool isolator_defer_call(int cpu, smp_call_func_t func)
{
	return static_branch_unlikely(&isolator_on) &&
	       __isolator_defer_call(cpu, func);
}

/**
 * isolator_register() - make calls of a function deferrable
 * @func: function whose effect, with any argument, is that of @work
 * @work: one of ISOLATOR_PENDING_SYNC, _KTLB, _ORDER
 *
 * Callers must run before user mode exists.
 */
void __init isolator_register(smp_call_func_t func, unsigned int work);

#else /* !CONFIG_ISOLATOR */

static __always_inline int isolator_kernel_enter(int offset) { return offset; }
static __always_inline void isolator_kernel_exit(void) { }
static __always_inline void isolator_nmi_enter(void) { }
static __always_inline void isolator_nmi_exit(void) { }
static inline void isolator_user_enter(void) { }
static inline bool isolator_defer_call(int cpu, smp_call_func_t func)
{
	return false;
}

static inline void isolator_register(smp_call_func_t func, unsigned int work)
{
}

#endif /* CONFIG_ISOLATOR */

/* ---- owners ---- */

#ifdef CONFIG_ISOLATOR_OWNER

DECLARE_STATIC_KEY_FALSE(isolator_used);

void __isolator_user_exit(void);
unsigned long __isolator_user_quiet(unsigned long ti_work);
void __isolator_user_prepare(void);
void __isolator_user_arm(void);
void __isolator_gate_open(void);

/* Entry from user mode, instrumentable, interrupts off (__ct_user_exit()). */
static __always_inline void isolator_user_exit(void)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_user_exit();
}

/*
 * Return to user mode, before the work that thread flags @ti_work ask for; at
 * least one flag of @mask is set; interrupts off. An owner's entry sets
 * TIF_ISOLATOR, so that its return passes here. If TIF_ISOLATOR is the only
 * flag and there is nothing to do, this clears the flag, and the thread returns
 * at once. Returns the remaining flags. (The test excludes all other flags, and
 * the flags are passed through. So the path without work stays as it was: it
 * saves no register for this.)
 */
static __always_inline unsigned long isolator_user_quiet(unsigned long ti_work,
							 unsigned long mask)
{
	if (static_branch_unlikely(&isolator_used) &&
	    !(ti_work & mask & ~_TIF_ISOLATOR))
		return __isolator_user_quiet(ti_work);
	return ti_work;
}

/*
 * Return to user mode, at the end of each round of work that thread flags asked
 * for; interrupts on, preemptible. Clears TIF_ISOLATOR, and empties the CPU's
 * batches.
 */
static __always_inline void isolator_user_prepare(void)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_user_prepare();
}

/* Return to user mode, after the last check of thread flags; interrupts off. */
static __always_inline void isolator_user_arm(void)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_user_arm();
}

/* Switch to another task, whose timers must fire; interrupts off. */
static __always_inline void isolator_switch(void)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_gate_open();
}

/*
 * Hooks of senders. A defer function returns true if it took the work, so that
 * the caller sends no interrupt.
 */
bool __isolator_defer_resched(int cpu, bool may_wait, bool stop);
bool __isolator_defer_tick(int cpu);
bool __isolator_resched_again(int cpu, bool stop);

/**
 * isolator_defer_resched() - whether TIF_NEED_RESCHED needs no interrupt
 * @cpu: target, whose current task has the flag already
 * @may_wait: the caller allows the reschedule to wait; others are delivered
 * @stop: stop work is queued there; selects the kind of breach
 *
 * Return: true if the caller must send no interrupt.
 */
static __always_inline bool isolator_defer_resched(int cpu, bool may_wait, bool stop)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_defer_resched(cpu, may_wait, stop);
}

/**
 * isolator_resched_again() - whether a flag set before needs its interrupt now
 * @cpu: target, whose current task had TIF_NEED_RESCHED already
 * @may_wait: the caller allows the reschedule to wait
 * @stop: stop work is queued there
 *
 * The interrupt may have been deferred for an earlier caller that could wait.
 *
 * Return: true if the caller must send an interrupt.
 */
static __always_inline bool isolator_resched_again(int cpu, bool may_wait, bool stop)
{
	return static_branch_unlikely(&isolator_used) && !may_wait &&
	       __isolator_resched_again(cpu, stop);
}

/**
 * isolator_defer_tick() - whether a check of the tick needs no interrupt
 * @cpu: target
 *
 * Return: true if the caller must send no interrupt.
 */
static __always_inline bool isolator_defer_tick(int cpu)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_defer_tick(cpu);
}

bool __isolator_cpu_isolated(int cpu);
void __isolator_breach(int cpu, enum isolator_stat what, void *func);
void __isolator_breach_call(int cpu, smp_call_func_t func);
void __isolator_task_end(struct task_struct *task);

/**
 * isolator_cpu_isolated() - whether a CPU has an owner
 * @cpu: CPU
 *
 * Return: true if it has one. The answer may be old unless the caller holds
 * cpus_write_lock(), or runs on @cpu with preemption off.
 */
static __always_inline bool isolator_cpu_isolated(int cpu)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_cpu_isolated(cpu);
}

/**
 * isolator_breach() - report an interrupt that is about to be sent
 * @cpu: target
 * @what: ISOLATOR_STAT_BREACH_*
 * @func: function that the interrupt is for, or NULL
 *
 * Counts only while the owner is there in user mode. For senders on paths
 * without an isolator_defer_*() hook.
 */
static __always_inline void isolator_breach(int cpu, enum isolator_stat what,
					    void *func)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_breach(cpu, what, func);
}

/**
 * isolator_breach_call() - report a call that is about to be sent
 * @cpu: target
 * @func: function that it will call; isolator_register_breach() sets its kind
 */
static __always_inline void isolator_breach_call(int cpu, smp_call_func_t func)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_breach_call(cpu, func);
}

/* exit and exec of a task (mm_release()) */
static __always_inline void isolator_task_end(struct task_struct *task)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_task_end(task);
}

/**
 * isolator_register_breach() - set the kind of breach of a function call
 * @func: function
 * @what: ISOLATOR_STAT_BREACH_*, instead of ISOLATOR_STAT_BREACH_CALL
 */
void __init isolator_register_breach(smp_call_func_t func,
				     enum isolator_stat what);

/**
 * hrtimer_isolator_deferrable() - let an owner's clock gate stop a timer
 * @timer: timer that has just been initialised
 *
 * Its work may wait while an owner of the CPU is in user mode: until the
 * owner's next entry, or the bound. Other timers keep the gate open, but for
 * those of sleeping tasks that would not preempt the owner.
 */
static inline void hrtimer_isolator_deferrable(struct hrtimer *timer)
{
	timer->isolator_deferrable = true;
}

/* Provided by hooks */
bool hrtimer_isolator_stop(unsigned long *due);	/* kernel/time/hrtimer.c */
void hrtimer_isolator_resume(void);
bool hrtimer_isolator_can_stop(void);
bool hrtimer_isolator_overdue(int cpu);
bool tick_nohz_isolator_needed(void);		/* kernel/time/tick-sched.c */
void tick_nohz_isolator_update(void);
bool sched_isolator_starved(int cpu, struct task_struct *owner);
bool sched_isolator_others(void);		/* kernel/sched/core.c */
void sched_isolator_settle(void);
bool sched_isolator_rt_limited(struct task_struct *task);
bool sched_isolator_bad_policy(struct task_struct *task);

#else /* !CONFIG_ISOLATOR_OWNER */

static inline void hrtimer_isolator_deferrable(struct hrtimer *timer) { }

static inline void isolator_user_exit(void) { }
static inline unsigned long isolator_user_quiet(unsigned long ti_work,
						unsigned long mask)
{
	return ti_work;
}

static inline void isolator_user_prepare(void) { }
static inline void isolator_user_arm(void) { }
static inline void isolator_switch(void) { }
static inline bool isolator_defer_resched(int cpu, bool may_wait, bool stop)
{
	return false;
}

static inline bool isolator_resched_again(int cpu, bool may_wait, bool stop)
{
	return false;
}

static inline bool isolator_defer_tick(int cpu)
{
	return false;
}

static inline bool isolator_cpu_isolated(int cpu)
{
	return false;
}

static inline void isolator_breach(int cpu, enum isolator_stat what, void *func)
{
}

static inline void isolator_breach_call(int cpu, smp_call_func_t func) { }
static inline void isolator_task_end(struct task_struct *task) { }
static inline void isolator_register_breach(smp_call_func_t func,
					    enum isolator_stat what)
{
}

#endif /* CONFIG_ISOLATOR_OWNER */

/* ---- parts on top, each with its own option ---- */

#if defined(CONFIG_ISOLATOR_KTLB) && defined(CONFIG_X86)
/*
 * Kernel TLB flushes after unmapping vmalloc leaves, which may be deferred.
 * Only x86 needs an interrupt for them.
 */
void flush_tlb_vmalloc_range(unsigned long start, unsigned long end);
#define flush_tlb_vmalloc_range flush_tlb_vmalloc_range
#endif

#ifdef CONFIG_ISOLATOR_QUIESCE
/* Provided by hooks */
bool lru_isolator_empty(void);			/* mm/swap.c */
void lru_isolator_drain(void);
void slab_isolator_flush(void);			/* mm/slub.c */
bool vmstat_isolator_empty(void);		/* mm/vmstat.c */
void vmstat_isolator_fold(void);
#endif

#ifdef CONFIG_ISOLATOR_RIGHT_TO_REFUSE
bool __isolator_refuse(int cpu, enum isolator_stat what);
bool __isolator_refuse_any(const struct cpumask *mask, enum isolator_stat what);
#endif

#ifdef CONFIG_ISOLATOR_REFUSE
/**
 * isolator_refuse() - whether to refuse a request that would disturb a CPU
 * @cpu: CPU
 * @what: ISOLATOR_STAT_REFUSED_*, counted if the request is refused
 *
 * Return: true if the caller must answer -EBUSY.
 */
static __always_inline bool isolator_refuse(int cpu, enum isolator_stat what)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse(cpu, what);
}

/**
 * isolator_refuse_any() - isolator_refuse() for the CPUs of a mask
 * @mask: CPUs
 * @what: ISOLATOR_STAT_REFUSED_*
 *
 * Return: true if the caller must answer -EBUSY.
 */
static __always_inline bool isolator_refuse_any(const struct cpumask *mask,
						enum isolator_stat what)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse_any(mask, what);
}

#else /* !CONFIG_ISOLATOR_REFUSE */

static inline bool isolator_refuse(int cpu, enum isolator_stat what)
{
	return false;
}

static inline bool isolator_refuse_any(const struct cpumask *mask,
				       enum isolator_stat what)
{
	return false;
}

#endif /* CONFIG_ISOLATOR_REFUSE */

#ifdef CONFIG_ISOLATOR_EXCLUSIVE_MM
bool __isolator_refuse_mm(struct mm_struct *mm);
bool __isolator_refuse_clone(void);

/**
 * isolator_refuse_mm() - whether to refuse a change of an address space
 * @mm: address space
 *
 * Return: true if another task owns it exclusively: the caller must answer
 * -EBUSY.
 */
static __always_inline bool isolator_refuse_mm(struct mm_struct *mm)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse_mm(mm);
}

/* Whether current owns its address space exclusively, so may not share it */
static __always_inline bool isolator_refuse_clone(void)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse_clone();
}

#else /* !CONFIG_ISOLATOR_EXCLUSIVE_MM */

static inline bool isolator_refuse_mm(struct mm_struct *mm)
{
	return false;
}

static inline bool isolator_refuse_clone(void)
{
	return false;
}

#endif /* CONFIG_ISOLATOR_EXCLUSIVE_MM */
#endif /* _LINUX_ISOLATOR_H */
