// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's state of the calling thread, and where it may run.

use rustix::thread::{gettid, sched_getaffinity, sched_setaffinity};

use crate::{Error, Result};

/// Lets the calling thread run on `cpus` only.
///
/// ```
/// let cpus = rt::thread::affinity();
/// rt::thread::set_affinity(&cpus[..1])?;
/// assert_eq!(rt::thread::affinity(), cpus[..1]);
/// # Ok::<(), rt::Error>(())
/// ```
pub fn set_affinity(cpus: &[u32]) -> Result<()> {
    let mut mask = rustix::thread::CpuSet::new();
    for cpu in cpus.iter().copied() {
        if cpu as usize >= rustix::thread::CpuSet::MAX_CPU {
            let why = format!("this program knows {} CPUs at the most", rustix::thread::CpuSet::MAX_CPU);
            return Err(Error::new(format!("run on cpu {cpu}"), why, "choose a CPU with a lower number"));
        }
        mask.set(cpu as usize);
    }
    sched_setaffinity(None, &mask).map_err(|e| {
        let cure = "choose CPUs that are online and that this process' cpuset allows";
        Error::os(format!("run on cpus {cpus:?}"), &e.into(), cure)
    })
}

/// The CPUs that the calling thread may run on; empty where the kernel does not say.
///
/// ```
/// println!("this thread may run on cpus {:?}", rt::thread::affinity());
/// ```
pub fn affinity() -> Vec<u32> {
    let Ok(mask) = sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU as u32).filter(|cpu| mask.is_set(*cpu as usize)).collect()
}

/// The calling thread's number.
///
/// ```
/// // The first thread has the number of the process.
/// println!("thread {} of process {}", rt::thread::id(), std::process::id());
/// ```
pub fn id() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The CPU that the calling thread is on, by the C library: valgrind ends where rustix looks for the kernel's
/// own function.
///
/// ```
/// println!("on cpu {}", rt::thread::current_cpu());
/// ```
pub fn current_cpu() -> u32 {
    // SAFETY: has no precondition; where it fails it answers -1, which is no CPU.
    unsafe { libc::sched_getcpu() as u32 }
}

/// Page faults that the calling thread has taken so far, minor and major.
///
/// ```
/// let before = rt::thread::page_faults();
/// // A loop with a deadline would run here.
/// println!("{} page faults", rt::thread::page_faults() - before);
/// ```
pub fn page_faults() -> u64 {
    // SAFETY: all-zero is a valid rusage, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: usage is a live rusage that the kernel fills.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if status == 0 { (usage.ru_minflt + usage.ru_majflt).unsigned_abs() } else { 0 }
}

/// Bytes of stack that the calling thread has left; `usize::MAX` where that cannot be told.
///
/// ```
/// println!("{} bytes of stack are left", rt::thread::stack_left());
/// ```
pub fn stack_left() -> usize {
    let here = 0u8;
    let here = (&raw const here).addr();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    let lowest = main_stack(&maps, here, limit).or_else(own_stack);
    lowest.map_or(usize::MAX, |lowest| here.saturating_sub(lowest))
}

/// The gap that the kernel keeps below a stack that grows.
const STACK_GAP: usize = 256 * 4096;

/// The lowest address to which the main thread's stack may grow, if `here` is on it.
fn main_stack(maps: &str, here: usize, limit: Option<u64>) -> Option<usize> {
    let mut below = 0;
    for line in maps.lines() {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).unwrap_or(0));
        if line.ends_with("[stack]") {
            let grown =
                limit.map_or(0, |limit| end.saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX)));
            return (begin..end).contains(&here).then(|| grown.max(below + STACK_GAP).min(begin));
        }
        below = end;
    }
    None
}

/// The lowest address of a thread's stack that pthread_create() made, its guard left out.
fn own_stack() -> Option<usize> {
    // SAFETY: all-zero is room for a pthread_attr_t, which the next call fills; the rest read it, and it is
    // destroyed once.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut lowest, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
        let told = libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size) == 0
            && libc::pthread_attr_getguardsize(&raw const attributes, &raw mut guard) == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        told.then(|| lowest.addr() + guard)
    }
}

/// Bytes of this process that are locked in memory.
///
/// ```
/// println!("{} bytes are locked", rt::thread::locked_bytes());
/// ```
pub fn locked_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmLck:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Whether a thread of this process still runs; one that ends does not.
///
/// ```
/// assert!(rt::thread::lives(rt::thread::id()));
/// assert!(!rt::thread::lives(0));
/// ```
pub fn lives(thread: u32) -> bool {
    /// Of the flags in /proc/PID/stat: it is about to end (PF_EXITING).
    const ENDS: u64 = 4;
    // The name, in parentheses, may hold anything; the flags are the seventh field after it.
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & ENDS == 0)
}

/// Lets timers of the calling thread expire without slack; real-time threads have none anyway.
///
/// ```
/// rt::thread::no_timer_slack();
/// ```
pub fn no_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// The tick of the calling thread's CPU, also where that is in `nohz_full=`; it may stop again when this is
/// dropped.
///
/// ```
/// let ticked = rt::thread::Ticked::new()?;
/// // The CPU of this thread keeps its tick here.
/// drop(ticked);
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Ticked(libc::timer_t);

impl Ticked {
    /// Arms a timer of the thread's CPU time, which the kernel looks after in each tick, for a moment that
    /// never comes.
    ///
    /// ```
    /// let _ticked = rt::thread::Ticked::new()?;
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn new() -> Result<Ticked> {
        let refuse =
            |what| Error::os(what, &std::io::Error::last_os_error(), "raise the limit on pending signals");
        // SAFETY: all-zero is a valid sigevent, which is plain numbers.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_NONE;
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: event is a live sigevent, timer a live place for the timer's handle.
        let made =
            unsafe { libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer) };
        if made != 0 {
            return Err(refuse("make a timer of the thread's CPU time"));
        }
        let ticked = Ticked(timer);
        // SAFETY: all-zero is a valid itimerspec, which is plain numbers.
        let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
        when.it_value.tv_sec = 1 << 30;
        // SAFETY: the timer was just made, when is a live itimerspec, the old value is not asked for.
        match unsafe { libc::timer_settime(ticked.0, 0, &raw const when, std::ptr::null_mut()) } {
            0 => Ok(ticked),
            _ => Err(refuse("arm a timer of the thread's CPU time")),
        }
    }
}

impl Drop for Ticked {
    fn drop(&mut self) {
        // SAFETY: the timer was made by this value and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Takes part in global expedited membarriers (membarrier(2)): from now on one that any process asks for
/// interrupts the CPUs that run this process' threads.
///
/// ```
/// if let Err(error) = rt::thread::join_global_barriers() {
///     println!("{error}");
/// }
/// ```
pub fn join_global_barriers() -> Result<()> {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, "take part in global memory barriers")
}

/// Lets this process ask for barriers of its own threads ([`own_barrier`]).
///
/// ```
/// if let Err(error) = rt::thread::join_own_barriers() {
///     println!("{error}");
/// }
/// ```
pub fn join_own_barriers() -> Result<()> {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, "take part in this process' memory barriers")
}

/// Interrupts each other CPU that runs a thread of this process just now, and returns when all have served
/// it.
///
/// ```
/// use rt::thread::{join_own_barriers, own_barrier};
///
/// if let Err(error) = join_own_barriers().and_then(|()| own_barrier()) {
///     println!("{error}");
/// }
/// ```
pub fn own_barrier() -> Result<()> {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, "have memory barriers of this process' threads")
}

fn membarrier(command: libc::c_int, what: &str) -> Result<()> {
    // SAFETY: membarrier takes numbers only and touches no memory of ours.
    let status = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if status == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Error::os(what, &error, "use a kernel with CONFIG_MEMBARRIER"))
}

/// Lifts this process' limit on locked memory, for programs that it starts or becomes.
///
/// ```
/// if let Err(error) = rt::thread::raise_memory_lock_limit() {
///     println!("{error}");
/// }
/// ```
pub fn raise_memory_lock_limit() -> Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None }).map_err(|e| {
        let cure = "run as root, or add a 'memlock' line to /etc/security/limits.d";
        Error::os("lift the limit on locked memory", &e.into(), cure)
    })
}

/// This process' limit on locked memory in bytes; none where it may lock all.
///
/// ```
/// match rt::thread::memory_lock_limit() {
///     Some(bytes) => println!("{bytes} bytes may be locked"),
///     None => println!("all memory may be locked"),
/// }
/// ```
pub fn memory_lock_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Memlock).current
}

/// Columns and lines of the terminal behind `stream`; `None` where it is no terminal, or does not know.
///
/// ```
/// if let Some((columns, lines)) = rt::thread::terminal_size(std::io::stdout()) {
///     println!("{columns} columns, {lines} lines");
/// }
/// ```
pub fn terminal_size(stream: impl std::os::fd::AsFd) -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_stack_grows_to_its_limit_or_its_neighbour() {
        let maps = "1000-2000 rw-p 0 0 0\n7f000000-7f800000 rw-p 0 0 0 [stack]\n";
        let lowest = |here, limit| main_stack(maps, here, limit);
        assert_eq!(lowest(0x7f40_0000, Some(0x100_0000)), Some(0x7e80_0000));
        assert_eq!(lowest(0x7f40_0000, None), Some(0x2000 + STACK_GAP));
        // What is there already is there, whatever the limit says.
        assert_eq!(lowest(0x7f40_0000, Some(0x1000)), Some(0x7f00_0000));
        assert_eq!(lowest(0x1800, None), None);
    }

    #[test]
    fn a_thread_that_has_ended_does_not_live() {
        let thread = std::thread::spawn(id);
        let number = thread.join().unwrap();
        assert!(!lives(number) && lives(id()));
    }

    #[test]
    fn a_tick_can_be_asked_for_again_and_again() {
        // More timers than a user may have at a time: each goes with its value.
        for _ in 0..200_000 {
            drop(Ticked::new().unwrap());
        }
    }
}
