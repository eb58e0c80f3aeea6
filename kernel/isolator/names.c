// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: reasons and statistics as texts, names and error numbers.
 */
#include <linux/errno.h>
#include <linux/kernel.h>

#include "isolator.h"

static const struct {
	int		error;
	const char	*text;
} reasons[ISOLATOR_REASON_MAX] = {
	[ISOLATOR_OK] = { 0, "not refused" },
	[ISOLATOR_NOT_PERMITTED] = { EPERM, "needs CAP_SYS_NICE" },
	[ISOLATOR_BAD_MASK] = { EINVAL, "unknown bits in the mask, or nothing to defer" },
	[ISOLATOR_NOT_NOHZ_FULL] = { ENODEV, "this CPU is not in nohz_full=" },
	[ISOLATOR_NOT_ISOLATED] = { ENXIO,
		"this CPU is not in isolcpus=domain, runs RCU callbacks, or goes offline" },
	[ISOLATOR_MANY_CPUS] = { ERANGE, "the thread may run on more than one CPU" },
	[ISOLATOR_RT_BANDWIDTH] = { EDQUOT, "the thread's group has limited real-time bandwidth" },
	[ISOLATOR_TICK_NEEDED] = { EAGAIN,
		"something needs the tick: a CPU timer, a perf event, an unstable clock" },
	[ISOLATOR_OWNED] = { EBUSY, "this CPU has another owner" },
	[ISOLATOR_OWNER_ALREADY] = { EALREADY, "the thread owns a CPU already" },
	[ISOLATOR_FOREIGN_FILE] = { EACCES, "the file was opened by another process" },
	[ISOLATOR_NOT_OWNER] = { ESRCH, "the thread owns no CPU" },
	[ISOLATOR_LAST_HOUSEKEEPING] = { EDEADLK,
		"this CPU keeps the time, or no housekeeping CPU is online" },
	[ISOLATOR_BAD_POLICY] = { EPROTOTYPE,
		"the thread's scheduling policy is SCHED_DEADLINE or SCHED_EXT" },
	[ISOLATOR_NOT_SUPPORTED] = { EOPNOTSUPP,
		"kernel thread, no high resolution timers, Xen PV, or FRED" },
	[ISOLATOR_NO_PAGE] = { ENOMEM, "no memory for the shared page" },
	[ISOLATOR_BAD_FLAGS] = { EINVAL, "unknown tick flags" },
	[ISOLATOR_BAD_CPU] = { EINVAL,
		"no such CPU, or the size of the structure is not understood" },
	[ISOLATOR_MM_SHARED] = { EMLINK, "exclusive: another task uses the address space" },
	[ISOLATOR_MM_NOT_LOCKED] = { ENOLCK, "exclusive: not all memory is locked" },
	[ISOLATOR_MM_SHARED_FILE] = { ETXTBSY, "exclusive: a file is mapped shared and writable" },
	[ISOLATOR_MM_USERFAULT] = { EADDRINUSE, "exclusive: userfaultfd is registered" },
	[ISOLATOR_MM_MERGEABLE] = { ENOTUNIQ, "exclusive: pages may be merged by KSM" },
	[ISOLATOR_ENDED_STOP] = { 0, "stopped" },
	[ISOLATOR_ENDED_EXIT] = { 0, "the owner exited or called exec" },
	[ISOLATOR_ENDED_CLOSE] = { 0, "the file was closed" },
	[ISOLATOR_ENDED_AFFINITY] = { 0, "the owner may run elsewhere" },
	[ISOLATOR_ENDED_POLICY] = { 0, "the owner's policy does not allow it" },
	[ISOLATOR_ENDED_HOTPLUG] = { 0, "the CPU went offline" },
	[ISOLATOR_NOT_OWNED] = { ENOTCONN, "the CPU has no owner to post to" },
	[ISOLATOR_RING_FULL] = { ENOBUFS, "the ring is full" },
	[ISOLATOR_RING_EMPTY] = { ENOMSG, "there is no message" },
	[ISOLATOR_RING_BROKEN] = { EBADMSG, "the owner has written nonsense into the ring" },
	[ISOLATOR_ENDED_PARTITION] = { 0, "the CPU's isolated partition is gone" },
	[ISOLATOR_OTHER_FILE] = { EACCES, "the CPU's owner was started through another file" },
	[ISOLATOR_WATCHED] = { EUSERS,
		"the lockup detector watches this CPU: kernel.watchdog_cpumask" },
	[ISOLATOR_CLOCK_STAYS] = { EOPNOTSUPP,
		"this CPU's clock event device cannot be stopped: leave CLOCK out" },
	[ISOLATOR_NOT_BUILT] = { EOPNOTSUPP,
		"this kernel was built without that part of the isolator" },
};

/* 0 or a negative error number; most mistakes of a caller have their own */
int isolator_errno(enum isolator_reason reason)
{
	return -reasons[reason].error;
}

const char *isolator_reason_text(enum isolator_reason reason)
{
	return reasons[reason].text;
}

static const char * const stats[ISOLATOR_STAT_MAX] = {
	[ISOLATOR_STAT_DEFER_SYNC] = "defer_sync",
	[ISOLATOR_STAT_DEFER_KTLB] = "defer_ktlb",
	[ISOLATOR_STAT_DEFER_ORDER] = "defer_order",
	[ISOLATOR_STAT_DEFER_RESCHED] = "defer_resched",
	[ISOLATOR_STAT_DEFER_TICK] = "defer_tick",
	[ISOLATOR_STAT_BREACH_CALL] = "breach_call",
	[ISOLATOR_STAT_BREACH_USER_TLB] = "breach_user_tlb",
	[ISOLATOR_STAT_BREACH_KERNEL_TLB] = "breach_kernel_tlb",
	[ISOLATOR_STAT_BREACH_STOP] = "breach_stop",
	[ISOLATOR_STAT_BREACH_SIGNAL] = "breach_signal",
	[ISOLATOR_STAT_BREACH_IRQ_WORK] = "breach_irq_work",
	[ISOLATOR_STAT_BREACH_RESCHED] = "breach_resched",
	[ISOLATOR_STAT_BREACH_BOUND] = "breach_bound",
	[ISOLATOR_STAT_REFUSED_MSR] = "refused_msr",
	[ISOLATOR_STAT_REFUSED_CPUFREQ] = "refused_cpufreq",
	[ISOLATOR_STAT_REFUSED_PERF] = "refused_perf",
	[ISOLATOR_STAT_REFUSED_HOTPLUG] = "refused_hotplug",
	[ISOLATOR_STAT_REFUSED_MM] = "refused_mm",
	[ISOLATOR_STAT_STARTS] = "starts",
	[ISOLATOR_STAT_TICKS] = "ticks",
	[ISOLATOR_STAT_ENTRIES] = "entries",
	[ISOLATOR_STAT_ENTRIES_WORK] = "entries_work",
	[ISOLATOR_STAT_YIELDS] = "yields",
	[ISOLATOR_STAT_GATE_CLOSED] = "gate_closed",
	[ISOLATOR_STAT_POSTS] = "posts",
	[ISOLATOR_STAT_POLLS] = "polls",
};

const char *isolator_stat_name(enum isolator_stat what)
{
	return what < ISOLATOR_STAT_MAX ? stats[what] : "none";
}
