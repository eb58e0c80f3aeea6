/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupt isolator: what the rest of the kernel calls.
 *
 * A CPU defers iff its owner runs there in user mode. Everything follows from
 * one word per CPU, &struct isolator_page.pending: senders may add work to it
 * only while USER is set, and the kernel's entry code clears it after the work
 * is done, before anything runs that the work is for.
 *
 * Unused, it costs: a look at a per-CPU variable in ct_kernel_{enter,exit}() and
 * ct_nmi_{enter,exit}(), where text must not be patched; elsewhere a static
 * branch, which is off until the first START.
 */
#ifndef _LINUX_ISOLATOR_H
#define _LINUX_ISOLATOR_H

#include <linux/atomic.h>
#include <linux/cpumask_types.h>
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
 * struct isolator_entry - what entry and exit code looks at; this CPU's only
 * @nest: 0: the next return is not to an owner in user mode; 1: it is, or it
 *	has been done; above: a way in has begun, or 1 + the NMIs (and what is
 *	like them) that interrupted it and have not returned
 * @seen: work that entries have done since the owner last left for user mode
 * @gated: the clock event device is stopped for the owner; in the kernel only
 *	as long as no timer waits behind it, or the stay is short
 * @due: jiffies from which on a timer behind the closed gate may be due; 0: no
 *	timer waits there
 * @word: the page's pending word
 */
struct isolator_entry {
	unsigned long	nest;
	unsigned int	seen;
	bool		gated;
	unsigned long	due;
	atomic_t	*word;
};

DECLARE_PER_CPU(struct isolator_entry, isolator_entry);
DECLARE_STATIC_KEY_FALSE(isolator_used);

/*
 * Entry and exit (kernel/context_tracking.c). RCU does not watch while these
 * run, so an NMI at any point of them takes its own hook. Where no owner is,
 * each is a comparison with memory and a jump that is not taken. That is why
 * nest is a long (GCC loads an int first), and why the offset is handed through:
 * else the fast path would keep it for a call that is hardly ever made.
 */
int __isolator_kernel_enter(int offset);
void __isolator_kernel_exit(void);
void __isolator_nmi_enter(void);
void __isolator_nmi_exit(void);

/* Entry from user mode, or from idle; gives @offset back. */
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
 * Return to user mode, before the work that thread flags @ti_work ask for, of
 * which one of @mask is set; interrupts off. An owner's way in sets TIF_ISOLATOR,
 * so that its way out passes here: if it is the only one and nothing is to be
 * done, it is cleared, and the thread goes back at once. Returns the flags left.
 * (A test for none of the others, and the flags handed through, keep the way
 * out without work as it was: no register is saved for this.)
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
 * for; interrupts on, preemptible. Clears TIF_ISOLATOR, and quiesces the CPU.
 */
static __always_inline void isolator_user_prepare(void)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_user_prepare();
}

/* The same, after the last look at thread flags; interrupts off. */
static __always_inline void isolator_user_arm(void)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_user_arm();
}

/* The CPU goes to another task, whose timers must come; interrupts off. */
static __always_inline void isolator_switch(void)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_gate_open();
}

/* Senders of interrupts. True: the target has taken it, send nothing. */
bool __isolator_defer_call(int cpu, smp_call_func_t func);
bool __isolator_defer_resched(int cpu, bool may_wait, bool stop);
bool __isolator_defer_tick(int cpu);
bool __isolator_resched_again(int cpu, bool stop);

/**
 * isolator_defer_call() - whether a function call needs no interrupt
 * @cpu: target
 * @func: function; only those of isolator_register() are ever deferred
 *
 * Return: true: send none. All that the caller wrote before is visible to
 * @cpu when it acts on it.
 */
static __always_inline bool isolator_defer_call(int cpu, smp_call_func_t func)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_defer_call(cpu, func);
}

/**
 * isolator_defer_resched() - whether TIF_NEED_RESCHED needs no interrupt
 * @cpu: target, whose current task has the flag by now
 * @may_wait: the caller says that it may wait; all others are delivered
 * @stop: stop work is queued there: tells what kind of breach it is
 *
 * Return: true: send none.
 */
static __always_inline bool isolator_defer_resched(int cpu, bool may_wait, bool stop)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_defer_resched(cpu, may_wait, stop);
}

/**
 * isolator_resched_again() - whether a flag set before needs its interrupt now
 * @cpu: target, whose current task had TIF_NEED_RESCHED already
 * @may_wait: the caller says that it may wait
 * @stop: stop work is queued there
 *
 * The interrupt may have been deferred for a caller that could wait.
 *
 * Return: true: send one.
 */
static __always_inline bool isolator_resched_again(int cpu, bool may_wait, bool stop)
{
	return static_branch_unlikely(&isolator_used) && !may_wait &&
	       __isolator_resched_again(cpu, stop);
}

/**
 * isolator_defer_tick() - whether a look at the tick needs no interrupt
 * @cpu: target
 *
 * Return: true: send none.
 */
static __always_inline bool isolator_defer_tick(int cpu)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_defer_tick(cpu);
}

bool __isolator_cpu_isolated(int cpu);
bool __isolator_refuse(int cpu, enum isolator_stat what);
bool __isolator_refuse_any(const struct cpumask *mask, enum isolator_stat what);
void __isolator_breach(int cpu, enum isolator_stat what, void *func);
void __isolator_breach_call(int cpu, smp_call_func_t func);
void __isolator_task_end(struct task_struct *task);
bool __isolator_refuse_mm(struct mm_struct *mm);
bool __isolator_refuse_clone(void);

/**
 * isolator_cpu_isolated() - whether a CPU has an owner
 * @cpu: CPU
 *
 * Return: true: it has one. The answer may be old unless the caller holds
 * cpus_write_lock(), or runs on @cpu with preemption off.
 */
static __always_inline bool isolator_cpu_isolated(int cpu)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_cpu_isolated(cpu);
}

/**
 * isolator_refuse() - whether to refuse a request that would disturb a CPU
 * @cpu: CPU
 * @what: ISOLATOR_STAT_REFUSED_*, counted where it is refused
 *
 * Return: true: answer -EBUSY.
 */
static __always_inline bool isolator_refuse(int cpu, enum isolator_stat what)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse(cpu, what);
}

/**
 * isolator_refuse_any() - isolator_refuse() for the first isolated CPU of a mask
 * @mask: CPUs
 * @what: ISOLATOR_STAT_REFUSED_*
 *
 * Return: true: answer -EBUSY.
 */
static __always_inline bool isolator_refuse_any(const struct cpumask *mask,
						enum isolator_stat what)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse_any(mask, what);
}

/**
 * isolator_breach() - say that an interrupt is about to be sent to a CPU
 * @cpu: target
 * @what: ISOLATOR_STAT_BREACH_*
 * @func: function that it is for, or NULL
 *
 * Counted only while the owner is there in user mode. For interrupts that
 * take no path on which isolator_defer_*() stands.
 */
static __always_inline void isolator_breach(int cpu, enum isolator_stat what,
					    void *func)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_breach(cpu, what, func);
}

/**
 * isolator_breach_call() - say that an interrupt is about to be sent to a CPU
 * @cpu: target
 * @func: function that it will call; isolator_register_breach() knows its kind
 */
static __always_inline void isolator_breach_call(int cpu, smp_call_func_t func)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_breach_call(cpu, func);
}

/**
 * isolator_refuse_mm() - whether to refuse a change of an address space
 * @mm: address space
 *
 * Return: true: somebody else has it for itself; answer -EBUSY.
 */
static __always_inline bool isolator_refuse_mm(struct mm_struct *mm)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse_mm(mm);
}

/* Whether current has its address space for itself, and may not share it. */
static __always_inline bool isolator_refuse_clone(void)
{
	return static_branch_unlikely(&isolator_used) &&
	       __isolator_refuse_clone();
}

/* exit and exec of a task (mm_release()) */
static __always_inline void isolator_task_end(struct task_struct *task)
{
	if (static_branch_unlikely(&isolator_used))
		__isolator_task_end(task);
}

/**
 * isolator_register() - make calls of a function deferrable
 * @func: function; what it does must be what @work does, whatever its argument
 * @work: one of ISOLATOR_PENDING_SYNC, _KTLB, _ORDER
 *
 * Before user mode exists only.
 */
void __init isolator_register(smp_call_func_t func, unsigned int work);

/**
 * isolator_register_breach() - say what kind of breach a call of @func is
 * @func: function
 * @what: ISOLATOR_STAT_BREACH_*, instead of ISOLATOR_STAT_BREACH_CALL
 */
void __init isolator_register_breach(smp_call_func_t func,
				     enum isolator_stat what);

/* Provided by hooks */
bool hrtimer_isolator_stop(unsigned long *due);	/* kernel/time/hrtimer.c */
void hrtimer_isolator_resume(void);
bool hrtimer_isolator_can_stop(void);
bool hrtimer_isolator_overdue(int cpu);
bool lru_isolator_empty(void);			/* mm/swap.c */
void lru_isolator_drain(void);
void slab_isolator_flush(void);			/* mm/slub.c */
bool vmstat_isolator_empty(void);		/* mm/vmstat.c */
void vmstat_isolator_fold(void);
bool tick_nohz_isolator_needed(void);		/* kernel/time/tick-sched.c */
void tick_nohz_isolator_update(void);
bool sched_isolator_starved(int cpu, struct task_struct *owner);
bool sched_isolator_others(void);		/* kernel/sched/core.c */
void sched_isolator_settle(void);
bool sched_isolator_rt_limited(struct task_struct *task);
bool sched_isolator_bad_policy(struct task_struct *task);

/*
 * Kernel TLB flushes after unmapping vmalloc leaves, which may be deferred;
 * elsewhere than on x86 no interrupt is needed for them.
 */
#ifdef CONFIG_X86
void flush_tlb_vmalloc_range(unsigned long start, unsigned long end);
#define flush_tlb_vmalloc_range flush_tlb_vmalloc_range
#endif

#else /* !CONFIG_ISOLATOR */

static __always_inline int isolator_kernel_enter(int offset) { return offset; }
static __always_inline void isolator_kernel_exit(void) { }
static __always_inline void isolator_nmi_enter(void) { }
static __always_inline void isolator_nmi_exit(void) { }
static inline void isolator_user_exit(void) { }
static inline unsigned long isolator_user_quiet(unsigned long ti_work,
						unsigned long mask)
{
	return ti_work;
}

static inline void isolator_user_prepare(void) { }
static inline void isolator_user_arm(void) { }
static inline void isolator_switch(void) { }
static inline bool isolator_defer_call(int cpu, smp_call_func_t func)
{
	return false;
}

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

static inline bool isolator_refuse(int cpu, enum isolator_stat what)
{
	return false;
}

static inline bool isolator_refuse_any(const struct cpumask *mask,
				       enum isolator_stat what)
{
	return false;
}

static inline void isolator_breach(int cpu, enum isolator_stat what, void *func)
{
}

static inline void isolator_breach_call(int cpu, smp_call_func_t func) { }
static inline bool isolator_refuse_mm(struct mm_struct *mm)
{
	return false;
}

static inline bool isolator_refuse_clone(void)
{
	return false;
}

static inline void isolator_task_end(struct task_struct *task) { }
static inline void isolator_register(smp_call_func_t func, unsigned int work)
{
}

static inline void isolator_register_breach(smp_call_func_t func,
					    enum isolator_stat what)
{
}

#endif /* CONFIG_ISOLATOR */
#endif /* _LINUX_ISOLATOR_H */
