/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Interrupt isolator: user space interface.
 *
 * One thread, the owner, takes one nohz_full CPU for itself by START on
 * /dev/isolator. While it runs in user mode, the kernel defers work for that
 * CPU that may wait. The kernel does the deferred work when the owner next
 * enters it, for any reason. TICK is the cheapest such entry. STOP, exec, exit
 * and the last close of the file end the isolation; a mapping keeps the file
 * open.
 */
#ifndef _UAPI_LINUX_ISOLATOR_H
#define _UAPI_LINUX_ISOLATOR_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: ISOLATOR_MASK_* - argument of START: work to defer
 *
 * * CLOCK: timers of this CPU, and requests to check its tick again
 * * RESCHED: interrupts for reschedules whose caller allows them to wait: a
 *   fair task's wakeup, the fair server
 * * IPI: calls of registered functions (instruction stream, memory order)
 * * KTLB: flushes of unmapped vmalloc ranges; see CAVEATS in isolator(4)
 * * EXCLUSIVE_MM: refuse to start unless only the owner can change its address
 *   space, so that no flush of it comes
 */
#define ISOLATOR_MASK_CLOCK		(1U << 0)
#define ISOLATOR_MASK_RESCHED		(1U << 1)
#define ISOLATOR_MASK_IPI		(1U << 2)
#define ISOLATOR_MASK_KTLB		(1U << 3)
#define ISOLATOR_MASK_EXCLUSIVE_MM	(1U << 16)
#define ISOLATOR_MASK_DEFAULT \
	(ISOLATOR_MASK_CLOCK | ISOLATOR_MASK_RESCHED | ISOLATOR_MASK_IPI)
#define ISOLATOR_MASK_ALL \
	(ISOLATOR_MASK_DEFAULT | ISOLATOR_MASK_KTLB | ISOLATOR_MASK_EXCLUSIVE_MM)

/**
 * DOC: ISOLATOR_TICK_* - argument of TICK: actions besides deferred work
 *
 * * SCHED: fire due timers, check the tick, reschedule if requested
 * * RT: sleep until no task waits for this CPU any more, as briefly as possible
 *   and at most ISOLATOR_YIELD_MAX_MS
 * * TSC_SYNC: verify the time stamp counter (x86; no effect elsewhere)
 */
#define ISOLATOR_TICK_SCHED		(1U << 0)
#define ISOLATOR_TICK_RT		(1U << 1)
#define ISOLATOR_TICK_TSC_SYNC		(1U << 2)
#define ISOLATOR_TICK_ALL \
	(ISOLATOR_TICK_SCHED | ISOLATOR_TICK_RT | ISOLATOR_TICK_TSC_SYNC)

/** ISOLATOR_YIELD_MAX_MS - longest time that one yield gives to other tasks */
#define ISOLATOR_YIELD_MAX_MS		50

/**
 * DOC: ISOLATOR_PENDING_* - bits of &struct isolator_page.pending
 *
 * USER is set while the CPU is in user mode, OWNER while its owner is. So an
 * owner that reads the word always sees both. Senders add work only while these
 * are set: SYNC and ORDER with USER, so for other threads too; all other work
 * with OWNER. Every other bit is deferred work. Posters set MESSAGE;
 * POLL and TICK clear it once no message is left. Entering the kernel clears
 * the other bits.
 */
#define ISOLATOR_PENDING_USER		(1U << 0)
#define ISOLATOR_PENDING_SYNC		(1U << 1)
#define ISOLATOR_PENDING_KTLB		(1U << 2)
#define ISOLATOR_PENDING_ORDER		(1U << 3)
#define ISOLATOR_PENDING_RESCHED	(1U << 4)
#define ISOLATOR_PENDING_TICK		(1U << 5)
#define ISOLATOR_PENDING_MESSAGE	(1U << 6)
#define ISOLATOR_PENDING_OWNER		(1U << 7)

/**
 * enum isolator_stat - index into &struct isolator_page.stat
 * @ISOLATOR_STAT_DEFER_SYNC: instruction stream synchronisations deferred
 * @ISOLATOR_STAT_DEFER_KTLB: kernel TLB flushes deferred
 * @ISOLATOR_STAT_DEFER_ORDER: interrupts that only order memory, not sent
 * @ISOLATOR_STAT_DEFER_RESCHED: reschedule requests deferred
 * @ISOLATOR_STAT_DEFER_TICK: requests to check the tick deferred
 * @ISOLATOR_STAT_BREACH_CALL: function calls delivered to the owner in user
 *	mode: not registered as deferrable, or the mask leaves them out
 * @ISOLATOR_STAT_BREACH_USER_TLB: flushes of the owner's own address space
 * @ISOLATOR_STAT_BREACH_KERNEL_TLB: kernel TLB flushes delivered
 * @ISOLATOR_STAT_BREACH_STOP: interrupts for stop work (stop_machine, affinity)
 * @ISOLATOR_STAT_BREACH_SIGNAL: interrupts for signals and other kicks
 * @ISOLATOR_STAT_BREACH_IRQ_WORK: remote irq_work
 * @ISOLATOR_STAT_BREACH_RESCHED: reschedule requests delivered
 * @ISOLATOR_STAT_BREACH_BOUND: isolation broken by the watchdog, since
 *	a task waited longer than kernel.isolator_max_defer_ms
 * @ISOLATOR_STAT_REFUSED_MSR: MSR and CPUID accesses refused
 * @ISOLATOR_STAT_REFUSED_CPUFREQ: frequency reads and changes refused
 * @ISOLATOR_STAT_REFUSED_PERF: perf events refused
 * @ISOLATOR_STAT_REFUSED_HOTPLUG: attempts to take the CPU offline refused
 * @ISOLATOR_STAT_REFUSED_MM: changes of an exclusive address space refused
 * @ISOLATOR_STAT_STARTS: times that the CPU was isolated
 * @ISOLATOR_STAT_TICKS: TICK calls
 * @ISOLATOR_STAT_ENTRIES: kernel entries of the owner, NMIs not counted
 * @ISOLATOR_STAT_ENTRIES_WORK: entries (NMIs too) that found deferred work
 * @ISOLATOR_STAT_YIELDS: times that the owner slept to let other tasks run
 * @ISOLATOR_STAT_GATE_CLOSED: returns to user mode with the timer stopped
 * @ISOLATOR_STAT_POSTS: messages posted to this CPU
 * @ISOLATOR_STAT_POLLS: POLL calls
 * @ISOLATOR_STAT_MAX: number of statistics; the page has room for
 *	ISOLATOR_STAT_ROOM
 */
enum isolator_stat {
	ISOLATOR_STAT_DEFER_SYNC,
	ISOLATOR_STAT_DEFER_KTLB,
	ISOLATOR_STAT_DEFER_ORDER,
	ISOLATOR_STAT_DEFER_RESCHED,
	ISOLATOR_STAT_DEFER_TICK,
	ISOLATOR_STAT_BREACH_CALL,
	ISOLATOR_STAT_BREACH_USER_TLB,
	ISOLATOR_STAT_BREACH_KERNEL_TLB,
	ISOLATOR_STAT_BREACH_STOP,
	ISOLATOR_STAT_BREACH_SIGNAL,
	ISOLATOR_STAT_BREACH_IRQ_WORK,
	ISOLATOR_STAT_BREACH_RESCHED,
	ISOLATOR_STAT_BREACH_BOUND,
	ISOLATOR_STAT_REFUSED_MSR,
	ISOLATOR_STAT_REFUSED_CPUFREQ,
	ISOLATOR_STAT_REFUSED_PERF,
	ISOLATOR_STAT_REFUSED_HOTPLUG,
	ISOLATOR_STAT_REFUSED_MM,
	ISOLATOR_STAT_STARTS,
	ISOLATOR_STAT_TICKS,
	ISOLATOR_STAT_ENTRIES,
	ISOLATOR_STAT_ENTRIES_WORK,
	ISOLATOR_STAT_YIELDS,
	ISOLATOR_STAT_GATE_CLOSED,
	ISOLATOR_STAT_POSTS,
	ISOLATOR_STAT_POLLS,
	ISOLATOR_STAT_MAX
};

#define ISOLATOR_STAT_ROOM		64

/**
 * enum isolator_reason - reason why a call was refused, or isolation ended
 * @ISOLATOR_OK: not refused, not ended (0)
 * @ISOLATOR_NOT_PERMITTED: no CAP_SYS_NICE (EPERM)
 * @ISOLATOR_BAD_MASK: unknown bits, or nothing to defer (EINVAL)
 * @ISOLATOR_NOT_NOHZ_FULL: CPU is not in nohz_full= (ENODEV)
 * @ISOLATOR_NOT_ISOLATED: CPU is not in isolcpus=domain, or runs RCU callbacks
 *	(ENXIO)
 * @ISOLATOR_MANY_CPUS: caller may run on more than one CPU (ERANGE)
 * @ISOLATOR_RT_BANDWIDTH: caller's group has finite real-time bandwidth
 *	(EDQUOT)
 * @ISOLATOR_TICK_NEEDED: the tick is needed: by a CPU timer, a perf event,
 *	an unstable clock (EAGAIN)
 * @ISOLATOR_OWNED: CPU has another owner (EBUSY)
 * @ISOLATOR_OWNER_ALREADY: caller owns a CPU already (EALREADY)
 * @ISOLATOR_FOREIGN_FILE: the file was opened by another process (EACCES)
 * @ISOLATOR_NOT_OWNER: caller does not own the CPU that it runs on (ESRCH)
 * @ISOLATOR_LAST_HOUSEKEEPING: CPU keeps time, or no housekeeping CPU is
 *	online (EDEADLK)
 * @ISOLATOR_BAD_POLICY: caller is SCHED_DEADLINE or SCHED_EXT (EPROTOTYPE)
 * @ISOLATOR_NOT_SUPPORTED: kernel thread, no high resolution timers, Xen PV,
 *	or FRED (EOPNOTSUPP)
 * @ISOLATOR_NO_PAGE: no memory for the shared page (ENOMEM)
 * @ISOLATOR_BAD_FLAGS: unknown TICK flags (EINVAL)
 * @ISOLATOR_BAD_CPU: no such CPU, or unknown size of the structure (EINVAL)
 * @ISOLATOR_MM_SHARED: exclusive: another task uses the address space (EMLINK)
 * @ISOLATOR_MM_NOT_LOCKED: exclusive: not all memory is locked (ENOLCK)
 * @ISOLATOR_MM_SHARED_FILE: exclusive: a shared writable mapping of a file
 *	(ETXTBSY)
 * @ISOLATOR_MM_USERFAULT: exclusive: userfaultfd is registered (EADDRINUSE)
 * @ISOLATOR_MM_MERGEABLE: exclusive: pages may be merged by KSM (ENOTUNIQ)
 * @ISOLATOR_ENDED_STOP: ended: STOP
 * @ISOLATOR_ENDED_EXIT: ended: the owner exited or called exec
 * @ISOLATOR_ENDED_CLOSE: ended: last close of the file
 * @ISOLATOR_ENDED_AFFINITY: ended: the owner may run elsewhere
 * @ISOLATOR_ENDED_POLICY: ended: the owner's policy does not allow it
 * @ISOLATOR_ENDED_HOTPLUG: ended: the CPU went offline
 * @ISOLATOR_NOT_OWNED: POST, POLL: the CPU has no owner (ENOTCONN)
 * @ISOLATOR_RING_FULL: POST: earlier messages fill the ring (ENOBUFS)
 * @ISOLATOR_RING_EMPTY: POLL: there is no message (ENOMSG)
 * @ISOLATOR_RING_BROKEN: the owner wrote an invalid index into the ring
 *	(EBADMSG)
 * @ISOLATOR_ENDED_PARTITION: ended: the CPU is in no isolated partition now
 * @ISOLATOR_OTHER_FILE: POST, POLL: not called through the file of START
 *	(EACCES)
 * @ISOLATOR_WATCHED: refused or ended: kernel.watchdog_cpumask includes the CPU
 *	(EUSERS)
 * @ISOLATOR_CLOCK_STAYS: CLOCK: the CPU's clock event device cannot be stopped
 *	(EOPNOTSUPP)
 * @ISOLATOR_NOT_BUILT: KTLB, EXCLUSIVE_MM, POST, POLL: the kernel was built
 *	without this part (EOPNOTSUPP)
 * @ISOLATOR_REASON_MAX: number of reasons
 *
 * isolator_reason_text() of libisolator and &struct isolator_status.text give
 * reasons as text.
 */
enum isolator_reason {
	ISOLATOR_OK,
	ISOLATOR_NOT_PERMITTED,
	ISOLATOR_BAD_MASK,
	ISOLATOR_NOT_NOHZ_FULL,
	ISOLATOR_NOT_ISOLATED,
	ISOLATOR_MANY_CPUS,
	ISOLATOR_RT_BANDWIDTH,
	ISOLATOR_TICK_NEEDED,
	ISOLATOR_OWNED,
	ISOLATOR_OWNER_ALREADY,
	ISOLATOR_FOREIGN_FILE,
	ISOLATOR_NOT_OWNER,
	ISOLATOR_LAST_HOUSEKEEPING,
	ISOLATOR_BAD_POLICY,
	ISOLATOR_NOT_SUPPORTED,
	ISOLATOR_NO_PAGE,
	ISOLATOR_BAD_FLAGS,
	ISOLATOR_BAD_CPU,
	ISOLATOR_MM_SHARED,
	ISOLATOR_MM_NOT_LOCKED,
	ISOLATOR_MM_SHARED_FILE,
	ISOLATOR_MM_USERFAULT,
	ISOLATOR_MM_MERGEABLE,
	ISOLATOR_ENDED_STOP,
	ISOLATOR_ENDED_EXIT,
	ISOLATOR_ENDED_CLOSE,
	ISOLATOR_ENDED_AFFINITY,
	ISOLATOR_ENDED_POLICY,
	ISOLATOR_ENDED_HOTPLUG,
	ISOLATOR_NOT_OWNED,
	ISOLATOR_RING_FULL,
	ISOLATOR_RING_EMPTY,
	ISOLATOR_RING_BROKEN,
	ISOLATOR_ENDED_PARTITION,
	ISOLATOR_OTHER_FILE,
	ISOLATOR_WATCHED,
	ISOLATOR_CLOCK_STAYS,
	ISOLATOR_NOT_BUILT,
	ISOLATOR_REASON_MAX
};

/** ISOLATOR_OFFSET_UNKNOWN - a function or call site outside of kernel text */
#define ISOLATOR_OFFSET_UNKNOWN		(~0ULL)

/** ISOLATOR_SITES - number of call sites that are kept of the last breach */
#define ISOLATOR_SITES			8

/**
 * struct isolator_page - page of a CPU, by mmap() of /dev/isolator, read-only
 * @version: ISOLATOR_PAGE_VERSION
 * @size: size of this structure in bytes
 * @cpu: the CPU
 * @mask: deferred kinds of work (ISOLATOR_MASK_*); 0: the CPU is not isolated
 * @breach_seq: odd while the breach fields change; read it before and after
 * @breach_stat: kind of the last breach (&enum isolator_stat)
 * @breach_func: function that the interrupt called, as an offset into kernel
 *	text
 * @breach_ns: time of the last breach, by CLOCK_MONOTONIC, in nanoseconds
 * @breach_site: call sites of the sender, innermost first, as offsets into
 *	kernel text; 0 after the last
 * @pending: the word that senders and the kernel's entry code change; a loop
 *	that polls it costs a cache hit until work comes
 * @stat: counters since boot (&enum isolator_stat); exact
 */
struct isolator_page {
	__u32	version;
	__u32	size;
	__u32	cpu;
	__u32	mask;
	__u32	breach_seq;
	__u32	breach_stat;
	__u64	breach_func;
	__u64	breach_ns;
	__u64	breach_site[ISOLATOR_SITES];
	/* private: */
	__u64	reserved0[19];
	/* public: */
	__u32	pending;
	/* private: */
	__u32	reserved1[31];
	/* public: */
	__u64	stat[ISOLATOR_STAT_ROOM];
};

#define ISOLATOR_PAGE_VERSION		2

/** ISOLATOR_MMAP_OFFSET - file offset of a CPU's page */
#define ISOLATOR_MMAP_OFFSET(cpu)	((__u64)(cpu) << 20)
/** ISOLATOR_MMAP_RINGS - file offset of a CPU's message rings */
#define ISOLATOR_MMAP_RINGS(cpu)	(ISOLATOR_MMAP_OFFSET(cpu) + (1U << 19))

/** ISOLATOR_THIS_CPU - in &struct isolator_status.cpu: the caller's CPU */
#define ISOLATOR_THIS_CPU		(~0U)

/**
 * struct isolator_status - argument of STATUS
 * @size: in: sizeof(struct isolator_status)
 * @cpu: in: number of the CPU, or ISOLATOR_THIS_CPU; out: number of the CPU
 * @owner: out: the owner's thread ID, in the caller's PID namespace; 0: no
 *	owner, or not visible to the caller
 * @mask: out: deferred kinds of work; 0: the CPU is not isolated
 * @pending: out: deferred work (ISOLATOR_PENDING_*)
 * @max_defer_ms: out: kernel.isolator_max_defer_ms
 * @refused: out: reason for the last refusal of a call through this file
 *	(&enum isolator_reason)
 * @ended: out: reason why the CPU's last isolation ended
 *	(&enum isolator_reason)
 * @text: out: @refused as text, NUL terminated
 */
struct isolator_status {
	__u32	size;
	__u32	cpu;
	__s32	owner;
	__u32	mask;
	__u32	pending;
	__u32	max_defer_ms;
	__u32	refused;
	__u32	ended;
	/* private: */
	__u64	reserved[4];
	/* public: */
	char	text[96];
};

/** ISOLATOR_RING_SLOTS - messages that a ring has room for */
#define ISOLATOR_RING_SLOTS		64

/**
 * struct isolator_message - posted message; the kernel does not interpret it
 * @kind: kind of message, as agreed by sender and receiver
 * @length: number of valid bytes in @data, or as agreed
 * @data: content
 */
struct isolator_message {
	__u32	kind;
	__u32	length;
	__u64	data[7];
};

/**
 * struct isolator_ring - messages from one producer to one consumer
 * @head: the producer's: number of messages ever put in, modulo 2^32; stored
 *	after the message (release), loaded by the consumer before it (acquire)
 * @tail: the consumer's: number of messages ever taken out
 * @slot: message number n is in slot n % ISOLATOR_RING_SLOTS
 */
struct isolator_ring {
	__u32			head;
	/* private: */
	__u32			reserved0[31];
	/* public: */
	__u32			tail;
	/* private: */
	__u32			reserved1[31];
	/* public: */
	struct isolator_message	slot[ISOLATOR_RING_SLOTS];
};

/**
 * struct isolator_rings - rings that mmap() maps at ISOLATOR_MMAP_RINGS(cpu)
 * @in: messages to the owner; as their consumer it writes only @tail
 * @out: messages from the owner; as their producer it writes @head and @slot
 *
 * The owner's process maps the rings after START, through the file of START:
 * shared, as a whole, with the size rounded up to pages. Each START makes new
 * rings: an older mapping shows nothing of the new owner. Other processes use
 * POST and POLL.
 */
struct isolator_rings {
	struct isolator_ring	in;
	struct isolator_ring	out;
};

/**
 * struct isolator_post - argument of POST and POLL
 * @size: in: sizeof(struct isolator_post)
 * @cpu: in: CPU of the rings; ISOLATOR_THIS_CPU: the caller's CPU
 * @message: in: message to post; out: message that was polled
 *
 * The owner of @cpu posts into its out ring, and polls its in ring. Other
 * threads post into the in ring, and poll the out ring. Both calls work only
 * through the file of START, which the owner passes to its partners. Neither
 * call interrupts, waits or wakes a task. An owner that did not map the rings
 * sees ISOLATOR_PENDING_MESSAGE in the word and calls POLL.
 */
struct isolator_post {
	__u32			size;
	__u32			cpu;
	struct isolator_message	message;
};

/* START and TICK take their argument by value. */
#define ISOLATOR_IOC_START	_IO('I', 0x60)
#define ISOLATOR_IOC_TICK	_IO('I', 0x61)
#define ISOLATOR_IOC_STOP	_IO('I', 0x62)
#define ISOLATOR_IOC_STATUS	_IOWR('I', 0x63, struct isolator_status)
#define ISOLATOR_IOC_POST	_IOW('I', 0x64, struct isolator_post)
#define ISOLATOR_IOC_POLL	_IOWR('I', 0x65, struct isolator_post)

#endif /* _UAPI_LINUX_ISOLATOR_H */
