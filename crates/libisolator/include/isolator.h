/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libisolator: real-time set-up, isolation, messages, a monitor and clock for control programs.
 *
 * Functions give 0 or a positive result, or a negative errno; what failed, why and what to do
 * says isolator_last_error(). Handles belong to the caller: each is made by one function and
 * ended by another, once. "Safety" tells what a call relies on.
 *
 * Made of the library's sources; do not edit.
 */

#ifndef ISOLATOR_H
#define ISOLATOR_H

#include <stddef.h>
#include <stdint.h>

/*
 Do not lock memory.
 */
#define ISOLATOR_RT_NO_LOCK 1

/*
 Children of the thread start as ordinary threads.
 */
#define ISOLATOR_RT_RESET_ON_FORK 2

/*
 Policies of struct isolator_rt_config.
 */
enum isolator_policy {
  /*
   Leave the policy as it is.
   */
  ISOLATOR_POLICY_KEEP = 0,
  /*
   SCHED_FIFO.
   */
  ISOLATOR_POLICY_FIFO = 1,
  /*
   SCHED_RR.
   */
  ISOLATOR_POLICY_RR = 2,
  /*
   SCHED_DEADLINE.
   */
  ISOLATOR_POLICY_DEADLINE = 3,
};

/*
 What records a loop. One thread at a time.
 */
struct isolator_monitor;

/*
 What reads the loop of another program. One call at a time: while isolator_reader_poll() runs, also from within its `each`, another
 poll of the same reader is refused with -EBUSY, from whichever thread.
 */
struct isolator_reader;

/*
 The end of a ring that takes. One call at a time: while isolator_poll() runs, also from within its `each`, another call on the
 same receiver is refused with -EBUSY, from whichever thread.
 */
struct isolator_receiver;

/*
 A ring's memory, which several processes may have.
 */
struct isolator_ring;

/*
 A set-up, to be undone by isolator_rt_undo().
 */
struct isolator_rt;

/*
 The end of a ring that posts. One thread at a time.
 */
struct isolator_sender;

/*
 An isolation, from isolator_start() to isolator_stop(). It belongs to the thread that started it.
 */
struct isolator_session;

/*
 How the processor's counter (TSC, CNTVCT_EL0) relates to CLOCK_MONOTONIC.
 */
struct isolator_clock {
  /*
   Ticks in a second.
   */
  uint64_t hz;
  /*
   Nanoseconds are ticks * multiplier / 2^32.
   */
  uint64_t multiplier;
};

/*
 A cycle of a loop. Times are nanoseconds of CLOCK_MONOTONIC.
 */
struct isolator_cycle {
  /*
   Its number; the loop's first is 1.
   */
  uint64_t number;
  /*
   When it was due.
   */
  uint64_t due_ns;
  /*
   When it began: wakeup latency is the difference.
   */
  uint64_t began_ns;
  /*
   When its work was done: execution time is the difference.
   */
  uint64_t ended_ns;
  /*
   When it came by its marks; 0: it did not.
   */
  uint64_t marks_ns[3];
};

/*
 How a CPU stands.
 */
struct isolator_status {
  /*
   The CPU.
   */
  uint32_t cpu;
  /*
   The owner's thread, where the caller may see it; else 0.
   */
  uint32_t owner;
  /*
   1 where it is isolated.
   */
  uint32_t isolated;
  /*
   The longest time that deferred work waits, in milliseconds.
   */
  uint32_t max_defer_ms;
  /*
   Why the last call of this thread was refused; 0 where it was not. isolator_reason() says it in words.
   */
  uint32_t refused;
  /*
   Why the last isolation ended.
   */
  uint32_t ended;
};

/*
 Is told each step of a set-up: its name, 0 or a negative errno, and what was reached or what to do.
 */
typedef void (*isolator_rt_report)(const char *step, int result, const char *text, void *data);

/*
 What a thread asks for. Begin with isolator_rt_defaults().
 */
struct isolator_rt_config {
  /*
   sizeof(struct isolator_rt_config), so that a newer library understands an older program.
   */
  uintptr_t size;
  /*
   CPUs to run on.
   */
  const uint32_t *cpus;
  /*
   How many; 0: wherever the thread may run now.
   */
  uintptr_t cpu_count;
  /*
   The policy: enum isolator_policy.
   */
  uint32_t policy;
  /*
   1 to 99, for FIFO and RR.
   */
  uint32_t priority;
  /*
   For DEADLINE: CPU time of each period.
   */
  uint64_t runtime_ns;
  /*
   For DEADLINE: when it must be had.
   */
  uint64_t deadline_ns;
  /*
   For DEADLINE: the period.
   */
  uint64_t period_ns;
  /*
   Stack to prefault.
   */
  uintptr_t stack_bytes;
  /*
   Heap to prefault; malloc() keeps it from then on (glibc).
   */
  uintptr_t heap_bytes;
  /*
   ISOLATOR_RT_*.
   */
  uint32_t flags;
  /*
   Let CPUs enter no idle state that takes longer to leave, in microseconds, until isolator_rt_undo(); negative: leave it.
   */
  int32_t dma_latency_us;
  /*
   Told each step; may be NULL.
   */
  isolator_rt_report report;
  /*
   Handed to it.
   */
  void *report_data;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Calibrates the counter, which takes some 40 ms; refuses one that is not invariant, or whose rate changes, with -ENOTSUP.

 # Safety
 `clock` points to a struct that can be written.
 */
int isolator_clock_calibrate(struct isolator_clock *clock);

/*
 The counter, now. No system call.
 */
uint64_t isolator_clock_ticks(void);

/*
 Ticks as nanoseconds.

 # Safety
 `clock` is one that isolator_clock_calibrate() has filled.
 */
uint64_t isolator_clock_ns(const struct isolator_clock *clock, uint64_t ticks);

/*
 What the last call of this thread that failed has to say: what failed, on what, why, and what to do, in one line. Valid until
 the next failure of this thread; never NULL.
 */
const char *isolator_last_error(void);

/*
 The version of this library, as "0.1.0".
 */
const char *isolator_version(void);

/*
 The words for a negative result of this library; for more see isolator_last_error(). Never NULL.
 */
const char *isolator_strerror(int error);

/*
 Makes a ring of `slots` messages (a power of two, 4 to 1,048,576) of up to `bytes` bytes (1 to 4,088; up to 56 travel in one cache
 line).

 # Safety
 `ring` points to a pointer that can be written; after 0 it is to be given to isolator_ring_free().
 */
int isolator_ring_create(uint32_t slots,
                         uintptr_t bytes,
                         struct isolator_ring **ring);

/*
 Takes a ring whose descriptor another process passed; keeps a copy of the descriptor.

 # Safety
 As isolator_ring_create(); `fd` is open during the call.
 */
int isolator_ring_attach(int fd, struct isolator_ring **ring);

/*
 The ring's descriptor, to be passed to other processes (SCM_RIGHTS); it stays the ring's.

 # Safety
 `ring` is one that was made or attached and not freed.
 */
int isolator_ring_fd(const struct isolator_ring *ring);

/*
 Frees the handle; ends that were opened live on.

 # Safety
 As isolator_ring_fd(); afterwards `ring` is no more. NULL is allowed.
 */
void isolator_ring_free(struct isolator_ring *ring);

/*
 Opens the end that posts; -EBUSY where some process has it.

 # Safety
 As isolator_ring_fd(); `sender` points to a pointer that can be written, and goes to isolator_sender_close().
 */
int isolator_sender_open(const struct isolator_ring *ring,
                         struct isolator_sender **sender);

/*
 Posts a message. Never waits, no system call. -EAGAIN: the ring is full; -EPIPE: the receiver has closed; -EMSGSIZE; -EPROTO: the
 receiver wrote nonsense.

 # Safety
 `sender` is open and no other thread uses it; `message` has `bytes` bytes.
 */
int isolator_post(struct isolator_sender *sender,
                  const void *message,
                  uintptr_t bytes);

/*
 As isolator_post(), and wakes a receiver that sleeps in isolator_wait(): a system call then. For CPUs that are not isolated.

 # Safety
 As isolator_post().
 */
int isolator_post_and_wake(struct isolator_sender *sender,
                           const void *message,
                           uintptr_t bytes);

/*
 1 where some process has the other end, else 0. A system call.

 # Safety
 `sender` is open.
 */
int isolator_receiver_lives(const struct isolator_sender *sender);

/*
 Closes the end that posts.

 # Safety
 `sender` is open, and is no more afterwards. NULL is allowed.
 */
void isolator_sender_close(struct isolator_sender *sender);

/*
 Opens the end that takes; -EBUSY where some process has it.

 # Safety
 As isolator_sender_open().
 */
int isolator_receiver_open(const struct isolator_ring *ring, struct isolator_receiver **receiver);

/*
 Calls `each` with the messages that wait, at most `most`; gives how many. Never waits, no system call. Messages are valid during the
 call. -EPIPE: the sender has closed, and all has been taken; -EPROTO: it wrote nonsense; -EBUSY: a call on this receiver is under
 way, since `each` calls back or another thread polls, and nothing was taken. Where `each` closes the receiver, it gets what is left
 of `most`, and the receiver is closed when this call ends.

 # Safety
 `receiver` is open; `each` is a function, takes `data`, and comes back: it neither throws nor jumps out.
 */
int isolator_poll(struct isolator_receiver *receiver,
                  uint32_t most,
                  void (*each)(const void *message, uintptr_t bytes, void *data),
                  void *data);

/*
 Sleeps until a message waits, or so long; 1 where one waits, else 0. Senders have to use isolator_post_and_wake(). For CPUs that
 are not isolated. -EBUSY as isolator_poll().

 # Safety
 `receiver` is open.
 */
int isolator_wait(struct isolator_receiver *receiver,
                  uint64_t timeout_ns);

/*
 1 where some process has the other end, else 0. A system call. -EBUSY as isolator_poll().

 # Safety
 `receiver` is open.
 */
int isolator_sender_lives(const struct isolator_receiver *receiver);

/*
 Closes the end that takes: now, or at the end of the isolator_poll() whose `each` closes it.

 # Safety
 `receiver` is open, and is no more afterwards. NULL is allowed.
 */
void isolator_receiver_close(struct isolator_receiver *receiver);

/*
 Makes a monitor of the loop called `name` (1 to 32 letters, digits, '-', '_' and '.') that comes every `period_ns` (1 us to 1 h).
 Whoever may look into this process reads it: `isolator monitor PID` makes evidence of it, isolator_reader_attach() hands it over.

 # Safety
 `name` is a string; `monitor` points to a pointer that can be written; after 0 it is to be given to isolator_monitor_close().
 */
int isolator_monitor_create(const char *name,
                            uint64_t period_ns,
                            struct isolator_monitor **monitor);

/*
 A cycle begins that was due at `due_ns` of CLOCK_MONOTONIC; a loop that does not know gives 0, and the cycle counts as due one period
 after the one before began. Never waits; no system call, but for one in the first cycle, which asks whose loop it is.

 # Safety
 `monitor` is one that was made and not closed, and no other thread uses it.
 */
void isolator_monitor_begin(struct isolator_monitor *monitor,
                            uint64_t due_ns);

/*
 A point within the cycle, the next of three; further ones are not recorded. Never waits, no system call.

 # Safety
 As isolator_monitor_begin().
 */
void isolator_monitor_mark(struct isolator_monitor *monitor);

/*
 The cycle's work is done. Never waits, no system call: where nobody reads the cycle is dropped, and a reader that comes later says
 how many were. A cycle that never ends counts as lost, an end without a begin not at all.

 # Safety
 As isolator_monitor_begin().
 */
void isolator_monitor_end(struct isolator_monitor *monitor);

/*
 The descriptor of the monitor's memory, to be passed to a reader that may not look into this process (SCM_RIGHTS); it stays the
 monitor's.

 # Safety
 As isolator_monitor_begin().
 */
int isolator_monitor_fd(const struct isolator_monitor *monitor);

/*
 Closes the monitor.

 # Safety
 `monitor` is one that was made, and is no more afterwards. NULL is allowed.
 */
void isolator_monitor_close(struct isolator_monitor *monitor);

/*
 Attaches to the loop `name` of a process; NULL where it has but one. What came until now is thrown away. -ENOENT: there is no such
 loop; -EBUSY: some process reads it already.

 # Safety
 `name` is a string or NULL; `reader` points to a pointer that can be written; after 0 it is to be given to isolator_reader_close().
 */
int isolator_reader_attach(uint32_t process,
                           const char *name,
                           struct isolator_reader **reader);

/*
 As isolator_reader_attach(), by a descriptor that isolator_monitor_fd() gave, here or in another process; it stays the caller's.

 # Safety
 As isolator_reader_attach(); `fd` is open during the call.
 */
int isolator_reader_attach_fd(int fd,
                              struct isolator_reader **reader);

/*
 Calls `each` with the cycles that have come; gives how many. Never waits. -EPIPE: the loop has ended, and all has been read; -EPROTO:
 its program wrote nonsense; -EBUSY: a poll of this reader is under way, since `each` calls back or another thread polls, and
 nothing was read. Where `each` closes the reader, it gets the cycles that are left, and the reader is closed when this call ends.

 # Safety
 `reader` is attached; `each` is a function, takes `data`, and comes back: it neither throws nor jumps out.
 */
int isolator_reader_poll(struct isolator_reader *reader,
                         void (*each)(const struct isolator_cycle *cycle, void *data),
                         void *data);

/*
 Cycles that were lost since the reader was attached: those that never ended, and those that found no room since nobody read for
 some seconds. Within the `each` of a poll: those that were lost before that poll.

 # Safety
 `reader` is attached.
 */
uint64_t isolator_reader_lost(const struct isolator_reader *reader);

/*
 The period that the loop was made with.

 # Safety
 `reader` is attached.
 */
uint64_t isolator_reader_period_ns(const struct isolator_reader *reader);

/*
 Closes the reader: now, or at the end of the isolator_reader_poll() whose `each` closes it. The loop goes on, and another may read it.

 # Safety
 `reader` is one that was attached, and is no more afterwards. NULL is allowed.
 */
void isolator_reader_close(struct isolator_reader *reader);

/*
 Isolates the CPU that the calling thread is pinned to, for this thread.

 `mask` is made of ISOLATOR_MASK_* of <linux/isolator.h>, or 0 for the default: CLOCK | RESCHED | IPI. Gives -ENOSYS where the
 kernel has no isolator, and what the kernel refuses with otherwise, each reason with its own number (isolator(4)). May sleep for
 up to 200 ms where something needs the tick of the CPU for a moment.

 # Safety
 `session` points to a pointer that can be written; after 0 it is to be given to isolator_stop(), by the same thread.
 */
int isolator_start(uint32_t mask,
                   struct isolator_session **session);

/*
 Has the deferred work done, and what `flags` add: ISOLATOR_TICK_* of <linux/isolator.h>. A system call.

 # Safety
 `session` is one of isolator_start() that was not stopped, and this is its thread.
 */
int isolator_tick(struct isolator_session *session,
                  uint32_t flags);

/*
 1 where deferred work waits, else 0. One load, which stays in the cache as long as nothing comes; no system call. A loop may look
 here each time, and tick only then.

 # Safety
 As isolator_tick(); any thread may ask.
 */
int isolator_pending(const struct isolator_session *session);

/*
 Ends the isolation and the handle. Where the kernel had ended it before, the result is negative and the handle is ended all the same.

 # Safety
 As isolator_tick(); afterwards `session` is no more.
 */
int isolator_stop(struct isolator_session *session);

/*
 How a CPU stands; the calling thread's where `cpu` is negative.

 # Safety
 `status` points to a struct that can be written.
 */
int isolator_status(int cpu, struct isolator_status *status);

/*
 The words for a reason of struct isolator_status. Never NULL.
 */
const char *isolator_reason(uint32_t reason);

/*
 Calls `each` with the name and value of every counter of a CPU, since boot; the calling thread's where `cpu` is negative. Names
 are valid during the call. -ENOSYS where the kernel has no isolator.

 # Safety
 `each` is a function, and takes `data`.
 */
int isolator_statistics(int cpu,
                        void (*each)(const char *name, uint64_t value, void *data),
                        void *data);

/*
 Fills a configuration: lock memory, 128 KiB of stack, keep CPUs and policy.

 # Safety
 `config` points to a struct that can be written.
 */
void isolator_rt_defaults(struct isolator_rt_config *config);

/*
 Sets up the calling thread: memory locked, stack and heap prefaulted, affinity, policy. Every step is reported; the first that fails
 ends it, and what was done before is undone.

 # Safety
 `config` is filled, its pointers are valid during the call; `undo` points to a pointer that can be written, or is NULL: then the set-up
 is for good.
 */
int isolator_rt_setup(const struct isolator_rt_config *config,
                      struct isolator_rt **undo);

/*
 Undoes a set-up, in reverse order, for the calling thread, which has to be the one that made it.

 # Safety
 `done` comes from isolator_rt_setup() and is no more afterwards.
 */
int isolator_rt_undo(struct isolator_rt *done);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ISOLATOR_H */
