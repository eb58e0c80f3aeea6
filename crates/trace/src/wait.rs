// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits of threads: the system call in which a thread left its CPU, and the object of that call.

use std::fmt;

use evidence::cause::STOPPED;
use syscalls::Sysno;

use crate::record::Stay;

/// `TIMER_ABSTIME` (include/uapi/linux/time.h).
const TIMER_ABSTIME: u64 = 1;

/// Flags of a futex operation (include/uapi/linux/futex.h).
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_COMMAND: u64 = 0x7f;

/// The value of a lock's word with waiters: glibc's and Rust's locks sleep on it.
const CONTENDED: u32 = 2;

/// The same of glibc's read-write locks (nptl/pthread_rwlock_common.c).
const CONTENDED_PHASE: u32 = 3;

/// The bit of a word with waiters whose other bits name the owner, or its readers: glibc's robust locks,
/// musl's (src/internal/pthread_impl.h) and Rust's read-write locks.
const WAITERS: u32 = 1 << 31;

/// A parked thread of Rust's standard library, which waits for no lock (std/src/sys/sync/thread_parking).
const PARKED: u32 = u32::MAX;

/// Commands of `fcntl()` that wait (include/uapi/asm-generic/fcntl.h).
const F_SETLKW: u64 = 7;
const F_OFD_SETLKW: u64 = 38;

/// A kind of wait at one place of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wait {
    /// `nanosleep()` and `clock_nanosleep()`.
    Sleep {
        /// The clock, by its number.
        clock: u32,
        /// Until a time, and not for a duration.
        is_absolute: bool,
    },
    /// A lock that its owner holds.
    Lock {
        /// The address of the lock's word.
        address: u64,
        /// Whether its owner inherits the priority of its waiters.
        inherits_priority: bool,
    },
    /// A lock of a file, with its descriptor: `flock()`, `fcntl()`.
    FileLock(u32),
    /// A condition variable, a semaphore, or another use of a futex.
    Condition {
        /// Its address; 0 if that changes from wait to wait. glibc's condition variables alternate between
        /// two adjacent words: this is the first of both.
        address: u64,
    },
    /// `epoll_wait()` and similar calls, with the descriptor.
    Epoll(u32),
    /// `poll()` and similar calls.
    Poll,
    /// `select()` and `pselect()`.
    Select,
    /// A message from a socket.
    Receive(u32),
    /// `read()` and similar calls, with the descriptor.
    Read(u32),
    /// `ioctl()` of a descriptor: a device's driver waits.
    Ioctl(u32),
    /// A signal, for example of a POSIX timer.
    Signal,
    /// `sched_yield()`: of a DEADLINE thread, the rest of its period.
    Yield,
    /// A message queue.
    Queue,
    /// `io_uring_enter()` of a descriptor.
    IoUring(u32),
    /// Another system call, by its number.
    Other(u32),
    /// No system call: the kernel made it wait, for example for a page.
    Kernel,
    /// A system call or the kernel's own wait: no event tells which.
    Unknown,
    /// None of its own: it was stopped, by a signal, a debugger or the freezer.
    Stopped,
}

impl Wait {
    /// The wait that ended a stay; `None` if the thread was runnable.
    pub fn of(stay: &Stay) -> Option<Wait> {
        let leaving = &stay.leaving;
        if leaving.is_stopped {
            return Some(Wait::Stopped);
        }
        if !(leaving.sleeps || leaving.is_cut || is_yield(stay)) {
            return None;
        }
        let Some(call) = leaving.call.and_then(|call| Sysno::new(call as usize)) else {
            return Some(if leaving.is_call_unknown { Wait::Unknown } else { Wait::Kernel });
        };
        let [first, second, third, _] = leaving.arguments;
        let descriptor = first as u32;
        Some(match call {
            Sysno::clock_nanosleep => {
                Wait::Sleep { clock: first as u32, is_absolute: second & TIMER_ABSTIME != 0 }
            }
            Sysno::nanosleep => Wait::Sleep { clock: 1, is_absolute: false },
            Sysno::futex => futex(first, second & FUTEX_COMMAND, third),
            Sysno::epoll_pwait | Sysno::epoll_pwait2 => Wait::Epoll(descriptor),
            Sysno::ppoll => Wait::Poll,
            Sysno::pselect6 => Wait::Select,
            Sysno::recvfrom | Sysno::recvmsg | Sysno::recvmmsg | Sysno::accept | Sysno::accept4 => {
                Wait::Receive(descriptor)
            }
            Sysno::read | Sysno::readv | Sysno::pread64 | Sysno::preadv | Sysno::preadv2 => {
                Wait::Read(descriptor)
            }
            Sysno::ioctl => Wait::Ioctl(descriptor),
            Sysno::flock => Wait::FileLock(descriptor),
            Sysno::fcntl if matches!(second, F_SETLKW | F_OFD_SETLKW) => Wait::FileLock(descriptor),
            Sysno::rt_sigtimedwait | Sysno::rt_sigsuspend => Wait::Signal,
            Sysno::sched_yield => Wait::Yield,
            Sysno::mq_timedreceive | Sysno::msgrcv => Wait::Queue,
            Sysno::semop | Sysno::semtimedop | Sysno::futex_waitv => Wait::Condition { address: 0 },
            Sysno::io_uring_enter => Wait::IoUring(descriptor),
            #[cfg(target_arch = "x86_64")]
            Sysno::epoll_wait => Wait::Epoll(descriptor),
            #[cfg(target_arch = "x86_64")]
            Sysno::poll => Wait::Poll,
            #[cfg(target_arch = "x86_64")]
            Sysno::select => Wait::Select,
            #[cfg(target_arch = "x86_64")]
            Sysno::pause => Wait::Signal,
            other => Wait::Other(other as u32),
        })
    }

    /// The same, without the address of a condition variable.
    pub fn anywhere(self) -> Wait {
        match self {
            Wait::Condition { .. } => Wait::Condition { address: 0 },
            other => other,
        }
    }

    /// The descriptor that it waits for, if it names one.
    pub fn descriptor(self) -> Option<u32> {
        match self {
            Wait::Epoll(fd) | Wait::Receive(fd) | Wait::Read(fd) | Wait::Ioctl(fd) | Wait::IoUring(fd) => {
                Some(fd)
            }
            _ => None,
        }
    }
}

fn is_yield(stay: &Stay) -> bool {
    const SCHED_DEADLINE: u32 = 6;
    stay.policy == SCHED_DEADLINE && stay.leaving.call == Some(Sysno::sched_yield as u32)
}

fn futex(address: u64, command: u64, value: u64) -> Wait {
    match command {
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => Wait::Lock { address, inherits_priority: true },
        FUTEX_WAIT | FUTEX_WAIT_BITSET if has_waiters(value as u32) => {
            Wait::Lock { address, inherits_priority: false }
        }
        _ => Wait::Condition { address: address & !7 },
    }
}

/// Whether a futex's word with this value is that of a lock for which threads wait.
fn has_waiters(value: u32) -> bool {
    matches!(value, CONTENDED | CONTENDED_PHASE) || (value & WAITERS != 0 && value != PARKED)
}

impl fmt::Display for Wait {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Sleep { clock, is_absolute } => {
                let until = if *is_absolute { "absolute" } else { "relative" };
                write!(out, "clock_nanosleep ({until}, {})", clock_name(*clock))
            }
            Wait::Lock { inherits_priority: true, .. } => out.write_str("a lock with priority inheritance"),
            Wait::Lock { .. } => out.write_str("a lock"),
            Wait::FileLock(fd) => write!(out, "a lock of a file (descriptor {fd})"),
            Wait::Condition { .. } => out.write_str("a futex (condition variable or semaphore)"),
            Wait::Epoll(fd) => write!(out, "epoll_wait (descriptor {fd})"),
            Wait::Poll => out.write_str("poll"),
            Wait::Select => out.write_str("select"),
            Wait::Receive(fd) => write!(out, "recv (descriptor {fd})"),
            Wait::Read(fd) => write!(out, "read (descriptor {fd})"),
            Wait::Ioctl(fd) => write!(out, "ioctl (descriptor {fd})"),
            Wait::Signal => out.write_str("a signal"),
            Wait::Yield => out.write_str("sched_yield"),
            Wait::Queue => out.write_str("a message queue"),
            Wait::IoUring(fd) => write!(out, "io_uring_enter (descriptor {fd})"),
            Wait::Other(call) => match Sysno::new(*call as usize) {
                Some(call) => out.write_str(call.name()),
                None => write!(out, "system call {call}"),
            },
            Wait::Kernel => out.write_str("the kernel"),
            Wait::Unknown => out.write_str("a call that is not known"),
            Wait::Stopped => write!(out, "stopped {STOPPED}"),
        }
    }
}

fn clock_name(clock: u32) -> &'static str {
    match clock {
        0 => "CLOCK_REALTIME",
        1 => "CLOCK_MONOTONIC",
        2 | 3 => "CPU time",
        7 => "CLOCK_BOOTTIME",
        11 => "CLOCK_TAI",
        _ => "another clock",
    }
}
