// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule that a system call in a cycle breaks, if any.

use syscalls::Sysno;
use trace::model::{Model, Release};
use trace::record::{Leaving, Stay};
use trace::wait::Wait;

use crate::descriptor::{Descriptors, OpenOn};
use crate::event::LintEvent;
use crate::rule::Rule;

/// `TIMER_ABSTIME` (include/uapi/linux/time.h).
const TIMER_ABSTIME: u64 = 1;
/// CLOCK_REALTIME and CLOCK_REALTIME_ALARM.
const SETTABLE: [u64; 2] = [0, 8];
/// `FUTEX_CLOCK_REALTIME` (include/uapi/linux/futex.h).
const FUTEX_CLOCK_REALTIME: u64 = 256;
/// `MADV_DONTNEED`, `MADV_FREE` (include/uapi/asm-generic/mman-common.h).
const GIVES_BACK: [u64; 2] = [4, 8];

/// `LOCK_NB` and `LOCK_UN` of flock() (include/uapi/asm-generic/fcntl.h).
const NO_WAIT: u64 = 4 | 8;

/// Calls that map or unmap memory.
const MEMORY: [&str; 4] = ["mmap", "munmap", "brk", "mremap"];

/// Calls that make a process or a thread.
const FORKS: [&str; 6] = ["clone", "clone3", "fork", "vfork", "execve", "execveat"];

/// Calls with a path, or that wait for a disk: they reach a file system, whether they sleep this time or not.
const FILES: [&str; 63] = [
    "open",
    "openat",
    "openat2",
    "creat",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "rmdir",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "readlink",
    "readlinkat",
    "truncate",
    "getdents",
    "getdents64",
    "statfs",
    "chmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "mknod",
    "mknodat",
    "chdir",
    "fchdir",
    "getxattr",
    "lgetxattr",
    "setxattr",
    "lsetxattr",
    "listxattr",
    "llistxattr",
    "removexattr",
    "lremovexattr",
    "inotify_add_watch",
    "name_to_handle_at",
    "open_by_handle_at",
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "sync_file_range",
    "msync",
    "connect",
    "readahead",
    "io_submit",
];

/// Calls that read or write a descriptor, their first argument.
const TRANSFERS: [&str; 13] = [
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "ftruncate",
    "fallocate",
    "fadvise64",
];

/// Calls that move data between two descriptors: the places of the source and the target.
const COPIES: [(&str, usize, usize); 3] = [("sendfile", 1, 0), ("copy_file_range", 0, 2), ("splice", 0, 2)];

/// The rule that a call itself breaks, with the finding's text.
pub fn called(
    call: u32,
    event: &LintEvent,
    model: Option<&Model>,
    descriptors: &mut Descriptors,
) -> Option<(Rule, String)> {
    let name = Sysno::new(call as usize)?.name();
    let [first, second, third, fourth, ..] = event.arguments;
    let says = |rule, what: String| Some((rule, what));
    match name {
        "nanosleep" => return says(Rule::RelativeSleep, "it sleeps for a time (nanosleep)".into()),
        "clock_nanosleep" if second & TIMER_ABSTIME == 0 => {
            return says(
                Rule::RelativeSleep,
                "it sleeps for a time (clock_nanosleep without TIMER_ABSTIME)".into(),
            );
        }
        "clock_nanosleep" if SETTABLE.contains(&first) => {
            return says(Rule::SettableClock, "it sleeps until a time of CLOCK_REALTIME".into());
        }
        "futex" if second & FUTEX_CLOCK_REALTIME != 0 && fourth != 0 => {
            return says(Rule::SettableClock, "it waits with a timeout of CLOCK_REALTIME".into());
        }
        "madvise" if GIVES_BACK.contains(&third) => {
            return says(Rule::Allocation, "it returns memory to the kernel (madvise)".into());
        }
        _ => {}
    }
    if MEMORY.contains(&name) {
        return says(Rule::Allocation, format!("it calls {name}"));
    }
    if FORKS.contains(&name) {
        return says(Rule::Fork, format!("it makes a process or a thread ({name})"));
    }
    if FILES.contains(&name) {
        return says(Rule::BlockingCall, format!("it calls {name}"));
    }
    if matches!(wait(event, Some(call)), Some(Wait::FileLock(_)))
        && !(name == "flock" && second & NO_WAIT != 0)
    {
        return says(Rule::BlockingCall, format!("it takes or gives back a lock of a file ({name})"));
    }
    if TRANSFERS.contains(&name) {
        return transfer(name, first, name.contains("write"), descriptors);
    }
    if let Some((_, from, to)) = COPIES.iter().find(|(copies, ..)| *copies == name) {
        return transfer(name, event.arguments[*from], false, descriptors)
            .or_else(|| transfer(name, event.arguments[*to], true, descriptors));
    }
    times_out(event, call, model?)
}

/// The rule that a call on a descriptor breaks; `writes` if it writes to it.
fn transfer(
    name: &str,
    descriptor: u64,
    writes: bool,
    descriptors: &mut Descriptors,
) -> Option<(Rule, String)> {
    Some(match descriptors.get(descriptor) {
        OpenOn::SettableTimer => {
            (Rule::SettableClock, format!("it waits for a timer of CLOCK_REALTIME (descriptor {descriptor})"))
        }
        OpenOn::Terminal(path) if writes => (Rule::Printing, format!("it writes to {path}")),
        _ if writes && [1, 2].contains(&descriptor) => {
            let stream = if descriptor == 1 { "standard output" } else { "standard error" };
            (Rule::Printing, format!("it writes to {stream}"))
        }
        OpenOn::Disk(path) => (Rule::BlockingCall, format!("it calls {name} on {path}")),
        OpenOn::Interface(path) => (
            Rule::BlockingCall,
            format!("it calls {name} on {path}, which takes locks of the kernel or a driver"),
        ),
        OpenOn::Terminal(_) | OpenOn::Other => return None,
    })
}

/// A timeout as the loop's period: it begins again at the end of each cycle.
fn times_out(event: &LintEvent, call: u32, model: &Model) -> Option<(Rule, String)> {
    let wait = wait(event, Some(call))?;
    let is_relative = model.release == Release::Timer { is_absolute: false };
    let has_timeout = matches!(wait, Wait::Poll | Wait::Select | Wait::Epoll(_));
    (is_relative && has_timeout && model.ends_with(wait))
        .then(|| (Rule::RelativeSleep, format!("its period is the timeout of {wait}")))
}

/// The rule that a sleep in a call breaks: any sleep that does not end a cycle.
pub fn slept(event: &LintEvent, call: Option<u32>, model: &Model) -> Option<(Rule, String)> {
    let wait = wait(event, call)?;
    if model.ends_with(wait) {
        return None;
    }
    match wait {
        // Other rules judge the called function, the lock, or the fault.
        Wait::Sleep { .. } | Wait::Lock { .. } | Wait::Kernel | Wait::Unknown | Wait::Yield => None,
        Wait::Other(call) if is_end(call) => None,
        _ => Some((Rule::BlockingCall, format!("it slept within a cycle, in {wait}"))),
    }
}

fn is_end(call: u32) -> bool {
    matches!(Sysno::new(call as usize), Some(Sysno::exit | Sysno::exit_group))
}

/// The thread's wait in a call, as the model of its loop has it.
pub fn wait(event: &LintEvent, call: Option<u32>) -> Option<Wait> {
    let [first, second, third, fourth, ..] = event.arguments;
    let leaving =
        Leaving { sleeps: true, call, arguments: [first, second, third, fourth], ..Leaving::default() };
    Wait::of(&Stay { leaving, ..Stay::default() })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use symbols::UserRegisters;

    use super::*;
    use crate::event::{CountedPlace, LintEventKind};

    fn event(call: Sysno, arguments: [u64; 6]) -> LintEvent {
        LintEvent {
            thread: 1,
            kind: LintEventKind::Called(call as u32),
            at_ns: 0,
            place: CountedPlace::default(),
            arguments,
            words: [0; 5],
            registers: UserRegisters::default(),
            stack: Vec::new(),
        }
    }

    fn rule(call: Sysno, arguments: [u64; 6]) -> Option<Rule> {
        let event = event(call, arguments);
        let found = called(call as u32, &event, None, &mut Descriptors::of(std::process::id()));
        found.map(|(rule, _)| rule)
    }

    #[test]
    fn distinguishes_sleeps_by_clock_and_flag() {
        assert_eq!(rule(Sysno::clock_nanosleep, [1, 1, 0, 0, 0, 0]), None);
        assert_eq!(rule(Sysno::clock_nanosleep, [11, 1, 0, 0, 0, 0]), None);
        assert_eq!(rule(Sysno::clock_nanosleep, [0, 1, 0, 0, 0, 0]), Some(Rule::SettableClock));
        assert_eq!(rule(Sysno::clock_nanosleep, [1, 0, 0, 0, 0, 0]), Some(Rule::RelativeSleep));
        assert_eq!(rule(Sysno::nanosleep, [0; 6]), Some(Rule::RelativeSleep));
    }

    #[test]
    fn a_wait_without_timeout_has_no_clock() {
        let bitset = FUTEX_CLOCK_REALTIME | 9;
        assert_eq!(rule(Sysno::futex, [0x1000, bitset, 0, 0, 0, 0]), None);
        assert_eq!(rule(Sysno::futex, [0x1000, bitset, 0, 0x2000, 0, 0]), Some(Rule::SettableClock));
    }

    #[test]
    fn only_returning_memory_is_allocation() {
        assert_eq!(rule(Sysno::madvise, [0, 0, 4, 0, 0, 0]), Some(Rule::Allocation));
        assert_eq!(rule(Sysno::madvise, [0, 0, 14, 0, 0, 0]), None);
    }

    #[test]
    fn only_a_lock_of_a_file_that_waits_blocks() {
        let of_file = |call, command| rule(call, [900, command, 0, 0, 0, 0]);
        // F_SETLKW, F_OFD_SETLKW; LOCK_SH, LOCK_EX.
        for (call, command) in [(Sysno::fcntl, 7), (Sysno::fcntl, 38), (Sysno::flock, 1), (Sysno::flock, 2)] {
            assert_eq!(of_file(call, command), Some(Rule::BlockingCall), "{call} {command}");
        }
        // F_GETFL, F_SETLK, F_OFD_SETLK; both with LOCK_NB, LOCK_UN.
        for (call, command) in [
            (Sysno::fcntl, 3),
            (Sysno::fcntl, 6),
            (Sysno::fcntl, 37),
            (Sysno::flock, 5),
            (Sysno::flock, 6),
            (Sysno::flock, 8),
        ] {
            assert_eq!(of_file(call, command), None, "{call} {command}");
        }
    }

    #[test]
    fn a_copy_is_judged_at_both_of_its_ends() {
        let stat = std::fs::File::open("/proc/self/stat").unwrap();
        let (fd, other) = (u64::try_from(stat.as_raw_fd()).unwrap(), 900);
        for (call, arguments) in [
            (Sysno::sendfile, [other, fd, 0, 0, 0, 0]),
            (Sysno::sendfile, [fd, other, 0, 0, 0, 0]),
            (Sysno::splice, [fd, 0, other, 0, 0, 0]),
            (Sysno::splice, [other, 0, fd, 0, 0, 0]),
            (Sysno::copy_file_range, [other, 0, fd, 0, 0, 0]),
        ] {
            assert_eq!(rule(call, arguments), Some(Rule::BlockingCall), "{call} {arguments:?}");
            assert_eq!(rule(call, [other; 6]), None, "{call}");
        }
    }

    #[test]
    fn calls_that_neither_block_nor_allocate_are_allowed() {
        for call in [Sysno::sendto, Sysno::ioctl, Sysno::sched_yield, Sysno::gettid, Sysno::clock_gettime] {
            assert_eq!(rule(call, [0; 6]), None, "{call}");
        }
    }
}
