/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file isolator.h
 * @brief libisolator: real-time set-up, CPU isolation, messages between CPUs, a loop
 *        monitor and the processor's counter, for control programs.
 *
 * Unless a function says otherwise, it returns 0 or a positive number on
 * success, and a negative errno on failure. isolator_last_error() then gives one line
 * of text: what failed, on what, why and what to do.
 *
 * A function that makes an object stores it through its last parameter. If it fails, it
 * stores NULL, which the functions that end objects accept: a cleanup at the end of a
 * function may end all of them. The object belongs to the caller until it is passed to
 * the function that ends it: once, and never used afterwards.
 *
 * A program includes this one header, hence its length.
 *
 * Functions may be called from any thread at any time, objects only as the
 * group of their functions says.
 *
 * No function is safe in a signal handler. A call with an object that the interrupted
 * call uses is refused with -EBUSY: isolator_sender_post() and what takes a receiver or
 * a reader.
 *
 * A child of fork() has no part in the objects of its parent, except a ring: senders,
 * receivers, readers and set-ups are refused with -EPERM, what a monitor records in the
 * child is discarded, and closing a copy does not close the parent's object. To take part,
 * the child opens its own sender, receiver or reader.
 *
 * A function that a program passes to the library may throw a C++ exception, which
 * leaves through the library's function. It must not leave by longjmp().
 *
 * docs/reference/library.md lists the ways to misuse the library, and what happens.
 *
 * A complete program is examples/loop.c. One header, though a long one: its groups share
 * their types, and most of it is what the functions take and return.
 */
#ifndef ISOLATOR_H
#define ISOLATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup error Errors and version
 * @{
 */

/**
 * @brief Get the message of the calling thread's last failure.
 * @return One line: what failed, on what, why and what to do. Never NULL; empty if no
 *        call has failed.
 * @note The string belongs to the library. A thread has one buffer, which the next failure
 *        in this thread overwrites and which is never freed. The pointer may be taken
 *        before the call that fails, for example as another argument of one printf().
 * @note Functions that make no system call set no message, so that they stay fast;
 *        their descriptions say so. Use isolator_strerror().
 */
const char *isolator_last_error(void);

/**
 * @brief Get the text for a negative result of this library.
 * @param error The negative errno.
 * @return The text. Never NULL.
 * @note The string belongs to the C library. It is valid until the next call in this
 *        thread.
 */
const char *isolator_strerror(int error);

/**
 * @brief Get the version of the library.
 * @return The version, for example "0.2.0". Never NULL; valid as long as the library is
 *        loaded.
 */
const char *isolator_version(void);

/** @} */

/**
 * @defgroup rt Real-time set-up of a thread
 *
 * The steps are done in the order that works: memory locked, stack and heap prefaulted,
 * idle states limited, affinity, policy.
 * @{
 */

/** Do not lock the memory of the process. */
#define ISOLATOR_RT_NO_LOCK 1
/** Children of the thread start with the default policy (SCHED_RESET_ON_FORK). */
#define ISOLATOR_RT_RESET_ON_FORK 2

/** @brief Scheduling policies, for isolator_rt_config.policy. */
enum isolator_policy {
	/** Keep the policy of the thread. */
	ISOLATOR_POLICY_KEEP = 0,
	/** SCHED_FIFO. */
	ISOLATOR_POLICY_FIFO = 1,
	/** SCHED_RR. */
	ISOLATOR_POLICY_RR = 2,
	/** SCHED_DEADLINE. */
	ISOLATOR_POLICY_DEADLINE = 3,
};

/**
 * @brief Function that is called after each step of a set-up.
 * @param step Name of the step.
 * @param result 0, or the negative errno with which the step failed.
 * @param text What was reached, or why it failed and what to do.
 * @param data isolator_rt_config.report_data.
 * @note Both strings are valid during the call.
 */
typedef void (*isolator_rt_report)(const char *step, int result, const char *text,
				   void *data);

/**
 * @brief What a set-up does. Initialise it with isolator_rt_defaults(), then change the
 *        fields that differ.
 */
struct isolator_rt_config {
	/**
	 * sizeof(struct isolator_rt_config), set by isolator_rt_defaults(). A library
	 * in which it differs refuses the configuration.
	 */
	size_t size;
	/** CPUs to run on; may be NULL only if cpu_count is 0. */
	const uint32_t *cpus;
	/** Number of CPUs; 0 keeps the affinity of the thread. */
	size_t cpu_count;
	/** Scheduling policy: one of enum isolator_policy. */
	uint32_t policy;
	/** Priority, 1 to 99, for SCHED_FIFO and SCHED_RR. */
	uint32_t priority;
	/** CPU time in each period, for SCHED_DEADLINE. */
	uint64_t runtime_ns;
	/** Relative deadline, for SCHED_DEADLINE. */
	uint64_t deadline_ns;
	/** Period, for SCHED_DEADLINE. */
	uint64_t period_ns;
	/**
	 * Bytes of stack to prefault. If the stack of the thread is smaller, all but its
	 * last 16 KiB is prefaulted; the step "prefault" reports how much that is.
	 */
	size_t stack_bytes;
	/** Bytes of heap to prefault. malloc() of glibc keeps them from then on. */
	size_t heap_bytes;
	/** ISOLATOR_RT_*, or 0; any other flag is -EINVAL. */
	uint32_t flags;
	/**
	 * CPUs enter no idle state with a longer exit latency, in microseconds, until
	 * isolator_rt_undo(); negative: no limit.
	 */
	int32_t dma_latency_us;
	/** Called after each step; may be NULL. */
	isolator_rt_report report;
	/** Passed to report. */
	void *report_data;
};

/** @brief A set-up that isolator_rt_undo() can undo. */
struct isolator_rt;

/**
 * @brief Initialise a configuration: lock memory, prefault 128 KiB of stack, keep CPUs
 *        and policy.
 * @param config Configuration to fill.
 */
void isolator_rt_defaults(struct isolator_rt_config *config);

/**
 * @brief Set up the calling thread.
 *
 * The first step that fails ends the set-up, and the steps before it are undone. An
 * exception of isolator_rt_config.report does the same.
 *
 * @param config Configuration. It and what it points to must be valid during the call.
 * @param undo Where to store the set-up for isolator_rt_undo(). If it is NULL, the
 *        set-up is permanent.
 * @return 0, or the negative errno of the step that failed.
 * @note Memory is locked for the whole process, until as many set-ups were undone as have
 *        locked it.
 */
int isolator_rt_setup(const struct isolator_rt_config *config, struct isolator_rt **undo);

/**
 * @brief Undo a set-up, in reverse order.
 * @param done Set-up, invalid afterwards, except after -EPERM; or NULL.
 * @return 0; -EPERM if another thread was set up that still runs, or if the set-up is that
 *        of the parent of this process; or the negative errno of the first step that could
 *        not be undone.
 * @note If the thread that was set up has ended, any thread may undo what is left: locked
 *        memory and the limit on idle states.
 * @note Memory of which some was locked before the first set-up stays locked.
 */
int isolator_rt_undo(struct isolator_rt *done);

/** @} */

/**
 * @defgroup session Isolation of a CPU
 *
 * A kernel with the kernel part keeps interrupts away from the CPU of a thread that asks
 * for it, and defers work of other CPUs: see isolator(4). A session belongs to the
 * thread that started it.
 * @{
 */

/** @brief An isolation, from isolator_session_start() to isolator_session_stop(). */
struct isolator_session;

/**
 * @brief Isolate the CPU to which the calling thread is pinned.
 * @param mask ISOLATOR_MASK_* of <linux/isolator.h>; 0 means CLOCK | RESCHED | IPI.
 * @param session Where to store the session.
 * @return 0; -EINVAL if the library does not know a bit of mask; -ENOSYS if the kernel
 *        has no isolator; or the errno of the kernel's refusal, which isolator(4) lists.
 * @note May sleep for up to 200 ms while the CPU needs its tick.
 */
int isolator_session_start(uint32_t mask, struct isolator_session **session);

/**
 * @brief Do the work that was deferred.
 * @param session Session of the calling thread.
 * @param flags ISOLATOR_TICK_* of <linux/isolator.h>, what to do besides; or 0.
 * @return 0; -EINVAL if the library does not know a flag; or another negative errno.
 * @note A system call.
 */
int isolator_session_tick(struct isolator_session *session, uint32_t flags);

/**
 * @brief Check whether deferred work waits.
 *
 * A loop can check this in each cycle, and call isolator_session_tick() only if work
 * waits.
 *
 * @param session Session, of any thread; or NULL.
 * @return 1 if work waits, 0 if not.
 * @note One load from memory that stays in the cache until work comes. No system call,
 *        no message for isolator_last_error().
 */
int isolator_session_pending(const struct isolator_session *session);

/**
 * @brief End the isolation and the session.
 * @param session Session of the calling thread, invalid afterwards, also on failure; or
 *        NULL.
 * @return 0, or a negative errno if the kernel had ended the isolation before.
 */
int isolator_session_stop(struct isolator_session *session);

/** @} */

/**
 * @defgroup cpu State of a CPU
 * @{
 */

/** @brief State of a CPU. */
struct isolator_cpu_status {
	/** Number of the CPU. */
	uint32_t cpu;
	/** Thread that owns the CPU; 0 if there is none, or the caller may not see it. */
	uint32_t owner;
	/** 1 if the CPU is isolated, 0 if not. */
	uint32_t isolated;
	/** Longest time for which work is deferred, in milliseconds. */
	uint32_t max_defer_ms;
	/**
	 * Reason of the last refusal to the calling thread, for isolator_reason_text(); 0
	 * if none.
	 */
	uint32_t refused;
	/** Reason for which the last isolation ended, for isolator_reason_text(). */
	uint32_t ended;
};

/* The struct's name is the function's, which g++ reports as shadowing. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/**
 * @brief Get the state of a CPU.
 * @param cpu Number of the CPU; negative: the one of the calling thread.
 * @param status State to fill.
 * @return 0; -ENOSYS if the kernel has no isolator; or another negative errno.
 */
int isolator_cpu_status(int cpu, struct isolator_cpu_status *status);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/**
 * @brief Read the isolator's counters of a CPU since boot.
 * @param cpu Number of the CPU; negative: the one of the calling thread.
 * @param each Called once for each counter with its name, its value and data. The name
 *        is valid during the call. It may throw, which ends the call; no longjmp().
 * @param data Passed to each.
 * @return 0; -ENOSYS if the kernel has no isolator; or another negative errno.
 */
int isolator_cpu_statistics(int cpu,
			    void (*each)(const char *name, uint64_t value, void *data),
			    void *data);

/**
 * @brief Get the text for a reason of struct isolator_cpu_status.
 * @param reason The reason.
 * @return The text. Never NULL; valid as long as the library is loaded.
 */
const char *isolator_reason_text(uint32_t reason);

/** @} */

/**
 * @defgroup ring Messages between CPUs
 *
 * A ring carries messages from one sender to one receiver, in shared memory of one or
 * two processes. Posting and polling wait for nothing and make no system call, so that
 * an isolated CPU can do both. They set no message for isolator_last_error().
 *
 * A sender is used by one thread at a time: threads that share one need a lock, or each a
 * ring of its own. A post in a signal handler that interrupts a post of the same sender is
 * refused with -EBUSY. Two threads that post at once are refused so only if each post is
 * checked: if ISOLATOR_CHECK=1 is in the environment when the sender is opened, or the
 * library is a debug build (ISOLATOR_CHECK=0: even then not). Otherwise their messages may
 * be lost, or mixed with each other.
 *
 * A receiver takes one call at a time: a second one, by another thread or by the callback
 * of isolator_receiver_poll(), is refused with -EBUSY.
 *
 * A sender that was killed has lost no message that it had posted. After a receiver that was
 * killed, the next one gets again what the first had taken last: at most a quarter of the
 * ring.
 *
 * ThreadSanitizer does not see the order that a ring makes: tell it with
 * __tsan_release(ring) before a post and __tsan_acquire(ring) after a poll.
 * @{
 */

/** @brief Memory of a ring. */
struct isolator_ring;
/** @brief The end of a ring that posts messages. */
struct isolator_sender;
/** @brief The end of a ring that takes messages. */
struct isolator_receiver;

/**
 * @brief Make a ring.
 * @param slots Number of messages that it holds: a power of two, 4 to 1,048,576.
 * @param bytes Largest message, 1 to 4,088 bytes. Up to 56 bytes travel in one cache
 *        line.
 * @param ring Where to store the ring. End it with isolator_ring_free().
 * @return 0, or a negative errno.
 */
int isolator_ring_create(uint32_t slots, size_t bytes, struct isolator_ring **ring);

/**
 * @brief Use a ring of another process.
 * @param fd Descriptor from isolator_ring_fd() of the other process. It stays the
 *        caller's: the ring keeps a duplicate.
 * @param ring Where to store the ring. End it with isolator_ring_free().
 * @return 0; -EINVAL if the descriptor is none of a ring; or another negative errno.
 */
int isolator_ring_attach(int fd, struct isolator_ring **ring);

/**
 * @brief Get the descriptor of a ring, to pass it to another process (SCM_RIGHTS).
 * @param ring Ring.
 * @return The descriptor, or -EINVAL if ring is NULL.
 * @note The descriptor belongs to the ring: do not close it.
 */
int isolator_ring_fd(const struct isolator_ring *ring);

/**
 * @brief Free a ring.
 * @param ring Ring, invalid afterwards; or NULL. Its sender and receiver stay valid.
 */
void isolator_ring_free(struct isolator_ring *ring);

/**
 * @brief Open the end of a ring that posts.
 * @param ring Ring.
 * @param sender Where to store the sender. End it with isolator_sender_close().
 * @return 0; -EBUSY if it is open already, in any process; or another negative errno.
 */
int isolator_sender_open(const struct isolator_ring *ring, struct isolator_sender **sender);

/**
 * @brief Post a message.
 * @param sender Sender.
 * @param message Message; it is copied.
 * @param bytes Length of the message.
 * @return 0; -EAGAIN if the ring is full; -EPIPE if the receiver has closed; -EMSGSIZE
 *        if the message is too long for the ring; -EPROTO after a protocol violation
 *        by the receiver; -EBUSY if another post of the sender runs; -EPERM in a child of
 *        the process that opened it; -EINVAL if a pointer is NULL.
 * @note Never waits, makes no system call and does not wake a receiver that sleeps.
 */
int isolator_sender_post(struct isolator_sender *sender, const void *message, size_t bytes);

/**
 * @brief Post a message, and wake a receiver that sleeps in isolator_receiver_wait().
 * @param sender Sender.
 * @param message Message; it is copied.
 * @param bytes Length of the message.
 * @return As isolator_sender_post().
 * @note Makes a system call if the receiver sleeps: for CPUs that are not isolated.
 */
int isolator_sender_post_and_wake(struct isolator_sender *sender, const void *message,
				  size_t bytes);

/**
 * @brief Check whether some process has the receiver open.
 * @param sender Sender.
 * @return 1 if so, 0 if not or if sender is NULL.
 * @note A system call.
 */
int isolator_sender_has_receiver(const struct isolator_sender *sender);

/**
 * @brief Close the end of a ring that posts.
 * @param sender Sender, invalid afterwards; or NULL.
 * @note A child that closes its copy leaves the sender of its parent open.
 */
void isolator_sender_close(struct isolator_sender *sender);

/**
 * @brief Open the end of a ring that takes.
 * @param ring Ring.
 * @param receiver Where to store the receiver. End it with isolator_receiver_close().
 * @return 0; -EBUSY if it is open already, in any process; or another negative errno.
 */
int isolator_receiver_open(const struct isolator_ring *ring,
			   struct isolator_receiver **receiver);

/**
 * @brief Take the messages that wait.
 * @param receiver Receiver.
 * @param most Most messages to take.
 * @param each Called with each message, its length and data. The message is valid
 *        during the call. It may throw: the message counts as taken, and the rest waits
 *        for the next poll; no longjmp(). It may close the receiver: it then gets the rest
 *        of the messages, and the receiver is closed when isolator_receiver_poll() returns.
 * @param data Passed to each.
 * @return The number of messages; -EPIPE if the sender has closed and all messages were
 *        taken; -EPROTO after a protocol violation by the sender; -EBUSY if another
 *        call uses the receiver; -EPERM in a child of the process that opened it; -EINVAL
 *        if a pointer is NULL.
 * @note Never waits and makes no system call.
 */
int isolator_receiver_poll(struct isolator_receiver *receiver, uint32_t most,
			   void (*each)(const void *message, size_t bytes, void *data),
			   void *data);

/**
 * @brief Sleep until a message waits.
 * @param receiver Receiver.
 * @param timeout_ns Longest time to sleep.
 * @return 1 if a message waits, 0 if none came in time or receiver is NULL, -EBUSY if
 *        another call uses the receiver, -EPERM in a child of the process that opened it.
 * @note Only isolator_sender_post_and_wake() ends the sleep early: no signal does, and no
 *        sender that closes, which the next isolator_receiver_poll() tells. For CPUs that
 *        are not isolated.
 */
int isolator_receiver_wait(struct isolator_receiver *receiver, uint64_t timeout_ns);

/**
 * @brief Check whether some process has the sender open.
 * @param receiver Receiver.
 * @return 1 if so, 0 if not or if receiver is NULL, -EBUSY if another call uses the
 *        receiver, -EPERM in a child of the process that opened it.
 * @note A system call.
 */
int isolator_receiver_has_sender(const struct isolator_receiver *receiver);

/**
 * @brief Close the end of a ring that takes.
 * @param receiver Receiver, invalid afterwards; or NULL.
 * @note The callback of isolator_receiver_poll() may call this: the receiver is closed
 *        when the poll returns.
 */
void isolator_receiver_close(struct isolator_receiver *receiver);

/** @} */

/**
 * @defgroup monitor Monitor of a loop
 *
 * A monitor records the cycles of a loop in memory that another process reads: by
 * `isolator monitor PID`, or by a reader of this library. A monitor is used by one
 * thread at a time, and in no child of its process. What a signal handler records in
 * the middle of such a call is left out. Recording sets no message for
 * isolator_last_error().
 *
 * A reader takes one poll at a time: a second one, by another thread or by the callback
 * of isolator_reader_poll(), is refused with -EBUSY.
 * @{
 */

/** @brief Recorder of a loop. */
struct isolator_monitor;
/** @brief Reader of a loop, in the same or another process. */
struct isolator_reader;

/** @brief A cycle of a loop. Times are nanoseconds of CLOCK_MONOTONIC. */
struct isolator_cycle {
	/** Number of the cycle; the first of a loop is 1. */
	uint64_t number;
	/** When the cycle was due. */
	uint64_t due_ns;
	/** When it began. The wakeup latency is began_ns - due_ns. */
	uint64_t began_ns;
	/** When its work was done. The execution time is ended_ns - began_ns. */
	uint64_t ended_ns;
	/** When it passed its marks; 0: it did not. */
	uint64_t marks_ns[3];
};

/**
 * @brief Make a monitor of a loop.
 * @param name Name of the loop: 1 to 32 letters, digits, '-', '_' and '.'.
 * @param period_ns Period of the loop, 1 us to 1 h.
 * @param monitor Where to store the monitor. End it with isolator_monitor_close().
 * @return 0, or a negative errno.
 */
int isolator_monitor_create(const char *name, uint64_t period_ns,
			    struct isolator_monitor **monitor);

/**
 * @brief Record that a cycle begins.
 * @param monitor Monitor.
 * @param due_ns When this cycle was due, on CLOCK_MONOTONIC; 0: one period after the
 *        last cycle began. A reader refuses a cycle that begins more than half a period
 *        before it was due: its loop gave the time of the next one, or of another clock.
 * @note Never waits. Makes no system call, except one (gettid) in the first cycle.
 */
void isolator_monitor_begin(struct isolator_monitor *monitor, uint64_t due_ns);

/**
 * @brief Record that the cycle passes its next mark.
 * @param monitor Monitor.
 * @note A cycle has three marks; further ones are not recorded. Never waits, makes no
 *        system call.
 */
void isolator_monitor_mark(struct isolator_monitor *monitor);

/**
 * @brief Record that the work of the cycle is done.
 * @param monitor Monitor.
 * @note Never waits, makes no system call. A cycle that finds no room, since no process
 *        reads, is lost and counted: isolator_reader_lost(). A cycle without an end is
 *        lost too; an end without a begin is ignored.
 */
void isolator_monitor_end(struct isolator_monitor *monitor);

/**
 * @brief Get the descriptor of a monitor, to pass it to a process that may not look
 *        into this one (SCM_RIGHTS).
 * @param monitor Monitor.
 * @return The descriptor, or -EINVAL if monitor is NULL.
 * @note The descriptor belongs to the monitor: do not close it.
 */
int isolator_monitor_fd(const struct isolator_monitor *monitor);

/**
 * @brief Close a monitor.
 * @param monitor Monitor, invalid afterwards; or NULL.
 */
void isolator_monitor_close(struct isolator_monitor *monitor);

/**
 * @brief Attach to a loop of a process. Cycles from before are discarded.
 * @param process Process ID.
 * @param name Name of the loop; NULL if the process has only one.
 * @param reader Where to store the reader. End it with isolator_reader_close().
 * @return 0; -ENOENT if there is no such loop; -EBUSY if the loop has a reader; or
 *        another negative errno.
 */
int isolator_reader_attach(uint32_t process, const char *name,
			   struct isolator_reader **reader);

/**
 * @brief Attach to a loop by its descriptor. Cycles from before are discarded.
 * @param fd Descriptor from isolator_monitor_fd(), of this or another process. It stays
 *        the caller's.
 * @param reader Where to store the reader. End it with isolator_reader_close().
 * @return 0; -EINVAL if the descriptor is none of a monitor; -EBUSY if the loop has a
 *        reader; or another negative errno.
 */
int isolator_reader_attach_fd(int fd, struct isolator_reader **reader);

/**
 * @brief Read the cycles that have ended since the last poll.
 * @param reader Reader.
 * @param each Called with each cycle and data. The cycle is valid during the call. It
 *        may throw: the cycle counts as read, and the rest waits for the next poll; no
 *        longjmp(). It may close the reader: it then gets the rest of the cycles, and the
 *        reader is closed when isolator_reader_poll() returns.
 * @param data Passed to each.
 * @return The number of cycles; -EPIPE if the loop has ended and all cycles were read;
 *        -EPROTO after a protocol violation by its program, or a cycle that began before
 *        it was due; -EBUSY if another poll uses the reader; -EPERM in a child of the
 *        process that attached it; -EINVAL if a pointer is NULL.
 * @note Never waits.
 */
int isolator_reader_poll(struct isolator_reader *reader,
			 void (*each)(const struct isolator_cycle *cycle, void *data),
			 void *data);

/**
 * @brief Get the number of cycles that were lost since the reader was attached.
 * @param reader Reader.
 * @return The number of cycles that had no end, or found no room since the reader had
 *        not polled for some seconds; as of the last poll that returned.
 */
uint64_t isolator_reader_lost(const struct isolator_reader *reader);

/**
 * @brief Get the period of the loop.
 * @param reader Reader.
 * @return The period with which the monitor was made, in nanoseconds.
 */
uint64_t isolator_reader_period_ns(const struct isolator_reader *reader);

/**
 * @brief Close a reader. The loop goes on, and another reader can attach.
 * @param reader Reader, invalid afterwards; or NULL.
 * @note The callback of isolator_reader_poll() may call this: the reader is closed when
 *        the poll returns.
 */
void isolator_reader_close(struct isolator_reader *reader);

/** @} */

/**
 * @defgroup clock The processor's counter
 *
 * TSC on x86, CNTVCT_EL0 on ARM: a time that costs no system call.
 * @{
 */

/** @brief Relation of the counter to CLOCK_MONOTONIC. */
struct isolator_clock {
	/** Ticks in a second. */
	uint64_t hz;
	/** Nanoseconds are ticks * multiplier / 2^32. */
	uint64_t multiplier;
};

/**
 * @brief Calibrate the counter.
 * @param clock Calibration to fill.
 * @return 0; -ENOTSUP if the rate of the counter changes; or another negative errno.
 * @note Takes about 40 ms.
 */
int isolator_clock_calibrate(struct isolator_clock *clock);

/**
 * @brief Read the counter.
 * @return Ticks.
 * @note No system call.
 */
uint64_t isolator_clock_ticks(void);

/**
 * @brief Convert a number of ticks that went by to nanoseconds.
 * @param clock Calibration.
 * @param ticks Difference of two values of isolator_clock_ticks().
 * @return Nanoseconds; 0 if clock is NULL.
 * @note Not for a value of isolator_clock_ticks() itself: the result would be no time of
 *        any clock, and would drift. Use isolator_clock_monotonic_ns().
 */
uint64_t isolator_clock_duration_ns(const struct isolator_clock *clock, uint64_t ticks);

/**
 * @brief Get the time of CLOCK_MONOTONIC at which the counter was read.
 * @param clock Calibration.
 * @param ticks Value of isolator_clock_ticks() on this machine.
 * @return Nanoseconds of CLOCK_MONOTONIC; 0 if clock is NULL. Within 1 us if the ticks are
 *        at most 10 ms old, however long ago the calibration was.
 * @note Reads CLOCK_MONOTONIC: a system call only if the kernel keeps its time by another
 *        counter.
 */
uint64_t isolator_clock_monotonic_ns(const struct isolator_clock *clock, uint64_t ticks);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* ISOLATOR_H */
