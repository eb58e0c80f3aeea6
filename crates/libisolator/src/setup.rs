// SPDX-License-Identifier: MIT OR Apache-2.0
//! The set-up of a thread with a deadline, in the order that works: memory locked → stack and heap prefaulted
//! → affinity → policy.

use std::ffi::{CString, c_char, c_int, c_void};

use rt::fork::Home;
use rt::power::DmaLatency;
use rt::{Error, Policy, setup, thread};

use crate::error::{call, call_through, check_flags, failure, null, number, slice};

/// Policies of struct isolator_rt_config.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum isolator_policy {
    /// Leave the policy as it is.
    ISOLATOR_POLICY_KEEP = 0,
    /// SCHED_FIFO.
    ISOLATOR_POLICY_FIFO = 1,
    /// SCHED_RR.
    ISOLATOR_POLICY_RR = 2,
    /// SCHED_DEADLINE.
    ISOLATOR_POLICY_DEADLINE = 3,
}

/// Do not lock memory.
pub const ISOLATOR_RT_NO_LOCK: u32 = 1;
/// Children of the thread start as ordinary threads.
pub const ISOLATOR_RT_RESET_ON_FORK: u32 = 2;

/// Is told each step of a set-up: its name, 0 or a negative errno, and what was reached or what to do.
pub type isolator_rt_report = Option<
    unsafe extern "C-unwind" fn(step: *const c_char, result: c_int, text: *const c_char, data: *mut c_void),
>;

/// A thread's request. Begin with isolator_rt_defaults().
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct isolator_rt_config {
    /// sizeof(struct isolator_rt_config), so that a newer library understands an older program.
    pub size: usize,
    /// CPUs to run on.
    pub cpus: *const u32,
    /// How many; 0: wherever the thread may run now.
    pub cpu_count: usize,
    /// The policy: enum isolator_policy.
    pub policy: u32,
    /// 1 to 99, for FIFO and RR.
    pub priority: u32,
    /// For DEADLINE: CPU time of each period.
    pub runtime_ns: u64,
    /// For DEADLINE: the relative deadline.
    pub deadline_ns: u64,
    /// For DEADLINE: the period.
    pub period_ns: u64,
    /// Stack to prefault.
    pub stack_bytes: usize,
    /// Heap to prefault; malloc() keeps it from then on (glibc).
    pub heap_bytes: usize,
    /// ISOLATOR_RT_*.
    pub flags: u32,
    /// Let CPUs enter no idle state that takes longer to leave, in microseconds, until isolator_rt_undo();
    /// negative: leave it.
    pub dma_latency_us: i32,
    /// Told each step; may be NULL.
    pub report: isolator_rt_report,
    /// Handed to it.
    pub report_data: *mut c_void,
}

/// A set-up, to be undone by isolator_rt_undo().
pub struct isolator_rt {
    home: Home,
    thread: u32,
    affinity: Vec<u32>,
    policy: Option<Policy>,
    unlock: bool,
    /// Held while the set-up lives.
    _power: Option<DmaLatency>,
}

/// Initialise a configuration: lock memory, prefault 128 KiB of stack, keep CPUs and policy.
///
/// # Safety
/// `config` points to a struct that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_rt_defaults(config: *mut isolator_rt_config) {
    if config.is_null() {
        return;
    }
    let defaults = isolator_rt_config {
        size: size_of::<isolator_rt_config>(),
        cpus: std::ptr::null(),
        cpu_count: 0,
        policy: isolator_policy::ISOLATOR_POLICY_KEEP as u32,
        priority: 80,
        runtime_ns: 0,
        deadline_ns: 0,
        period_ns: 0,
        stack_bytes: setup::STACK_BYTES,
        heap_bytes: 0,
        flags: 0,
        dma_latency_us: -1,
        report: None,
        report_data: std::ptr::null_mut(),
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { config.write(defaults) };
}

/// Set up the calling thread.
///
/// # Safety
/// `config` is filled, its pointers are valid during the call; `undo` points to a pointer that can be
/// written, or is NULL: then the set-up is for good.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn isolator_rt_setup(
    config: *const isolator_rt_config,
    undo: *mut *mut isolator_rt,
) -> c_int {
    call_through(|| {
        if !undo.is_null() {
            // SAFETY: the caller promises that it can be written.
            unsafe { undo.write(std::ptr::null_mut()) };
        }
        // SAFETY: the caller promises that it is one, or NULL.
        let config = unsafe { config.as_ref() }.ok_or_else(|| null("set up the thread"))?;
        if config.size != size_of::<isolator_rt_config>() {
            let why = "the configuration has another size than this library's";
            return Err(failure(libc::EINVAL, "set up the thread", why, "call isolator_rt_defaults() first"));
        }
        let known = ISOLATOR_RT_NO_LOCK | ISOLATOR_RT_RESET_ON_FORK;
        check_flags("set up the thread", config.flags, known)?;
        // SAFETY: the caller promises so many CPUs there.
        let cpus = unsafe { slice(config.cpus, config.cpu_count) }.ok_or_else(|| {
            let why = format!("cpu_count is {} and no such list is at cpus", config.cpu_count);
            failure(libc::EINVAL, "set up the thread", &why, "give the list, or a count of 0")
        })?;
        let done = set_up(config, cpus)?;
        if undo.is_null() {
            std::mem::forget(done);
        } else {
            // SAFETY: the caller promises that it can be written.
            unsafe { undo.write(Box::into_raw(Box::new(done))) };
        }
        Ok(0)
    })
}

/// Undo a set-up, in reverse order.
///
/// # Safety
/// `done` comes from isolator_rt_setup() and is no more afterwards, but after -EPERM. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_rt_undo(done: *mut isolator_rt) -> c_int {
    call(|| {
        if done.is_null() {
            return Ok(0);
        }
        // SAFETY: made by isolator_rt_setup(), and not given back yet.
        let is_here = unsafe { &mut *done }.may_be_undone()?;
        // SAFETY: as above, and the caller gives it back.
        let mut done = unsafe { Box::from_raw(done) };
        if !is_here {
            // What it was is gone with its thread.
            (done.policy, done.affinity) = (None, Vec::new());
        }
        done.undo().map(|()| 0)
    })
}

impl Drop for isolator_rt {
    fn drop(&mut self) {
        // Nothing is left after an undo; an exception of the caller's report comes without one.
        let _ = self.undo();
    }
}

impl isolator_rt {
    /// Whether the calling thread was set up, rather than one that has ended; refuses another's set-up.
    fn may_be_undone(&self) -> Result<bool, Error> {
        let what = "undo the set-up";
        if !self.home.is_here() {
            let cure = "leave it to the process that was set up";
            return Err(failure(libc::EPERM, what, "it is the parent's", cure));
        }
        let is_here = self.thread == thread::id();
        if !is_here && thread::lives(self.thread) {
            let why = format!("it is that of thread {}, which runs", self.thread);
            return Err(failure(libc::EPERM, what, &why, "have that thread undo it; it stays valid"));
        }
        Ok(is_here)
    }

    fn undo(&mut self) -> Result<(), Error> {
        let policy = self.policy.take().map_or(Ok(()), |policy| policy.apply(false));
        let affinity = match std::mem::take(&mut self.affinity) {
            cpus if cpus.is_empty() => Ok(()),
            cpus => thread::set_affinity(&cpus),
        };
        let memory = if std::mem::take(&mut self.unlock) { setup::unlock_memory() } else { Ok(()) };
        self._power = None;
        policy.and(affinity).and(memory)
    }
}

fn set_up(config: &isolator_rt_config, cpus: &[u32]) -> Result<isolator_rt, Error> {
    let mut done = isolator_rt {
        home: Home::here(),
        thread: thread::id(),
        affinity: Vec::new(),
        policy: None,
        unlock: false,
        _power: None,
    };
    let steps = steps(config, cpus, &mut done);
    if steps.is_err() {
        // The first failure is the one to tell.
        let _ = done.undo();
    }
    steps.map(|()| done)
}

fn steps(config: &isolator_rt_config, cpus: &[u32], done: &mut isolator_rt) -> Result<(), Error> {
    let wanted = policy(config)?;
    let room = || room(config.stack_bytes.saturating_add(config.heap_bytes));
    step(config, c"memory", room)?;
    if config.flags & ISOLATOR_RT_NO_LOCK == 0 {
        step(config, c"lock memory", || {
            setup::lock_memory()?;
            done.unlock = true;
            Ok("present and future pages".to_string())
        })?;
    }
    step(config, c"prefault", || prefault(config))?;
    if config.dma_latency_us >= 0 {
        let request = || {
            done._power = Some(DmaLatency::request(config.dma_latency_us.unsigned_abs())?);
            Ok(format!("idle states leave within {} us", config.dma_latency_us))
        };
        step(config, c"idle states", request)?;
    }
    if !cpus.is_empty() {
        let before = thread::affinity();
        step(config, c"affinity", || {
            thread::set_affinity(cpus)?;
            done.affinity = before;
            Ok(format!("cpus {cpus:?}"))
        })?;
    }
    if let Some(policy) = wanted {
        let (before, reset) = (Policy::current()?, config.flags & ISOLATOR_RT_RESET_ON_FORK != 0);
        step(config, c"policy", || {
            policy.apply(reset)?;
            done.policy = Some(before);
            Ok(policy.to_string())
        })?;
    }
    Ok(())
}

/// Does a step and reports it.
fn step(
    config: &isolator_rt_config,
    name: &std::ffi::CStr,
    run: impl FnOnce() -> Result<String, Error>,
) -> Result<(), Error> {
    let result = run();
    if let Some(report) = config.report {
        let (number, text) = match &result {
            Ok(text) => (0, text.clone()),
            Err(error) => (number(error), error.to_string()),
        };
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the caller gives a function that takes these; both strings live through the call.
        unsafe { report(name.as_ptr(), number, text.as_ptr(), config.report_data) };
    }
    result.map(drop)
}

fn policy(config: &isolator_rt_config) -> Result<Option<Policy>, Error> {
    let deadline = (config.runtime_ns, config.deadline_ns, config.period_ns);
    let name = match config.policy {
        0 => return Ok(None),
        1 => "fifo",
        2 => "rr",
        3 => "deadline",
        _ => {
            let why = "it is none of enum isolator_policy";
            return Err(failure(libc::EINVAL, "use the policy", why, "choose ISOLATOR_POLICY_FIFO"));
        }
    };
    Policy::named(name, config.priority, deadline).map(Some)
}

/// Whether the machine has so much memory left.
fn room(bytes: usize) -> Result<String, Error> {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available =
        info.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let Some(available) = available.and_then(|kib| kib.trim().parse::<usize>().ok()).map(|kib| kib * 1024)
    else {
        return Ok("the kernel does not say how much is left".to_string());
    };
    if bytes > available {
        let why = format!("{bytes} bytes are asked for and {available} are left");
        return Err(failure(
            libc::ENOMEM,
            "prefault stack and heap",
            &why,
            "ask for less, or end other programs",
        ));
    }
    Ok(format!("{available} bytes are left"))
}

fn prefault(config: &isolator_rt_config) -> Result<String, Error> {
    let stack = match setup::prefault_stack(config.stack_bytes) {
        touched if touched == config.stack_bytes => format!("{touched} bytes of stack"),
        touched => {
            format!("{touched} bytes of stack instead of {}: the thread has no more", config.stack_bytes)
        }
    };
    if config.heap_bytes == 0 {
        return Ok(stack);
    }
    let kept = keep_freed_memory();
    // As one block, and in pieces: a thread that is not the first has an arena of its own, which holds no
    // block above 64 MiB.
    touch_heap(config.heap_bytes, config.heap_bytes)?;
    touch_heap(config.heap_bytes, PIECE_BYTES)?;
    Ok(format!("{stack}; {} bytes of heap; malloc {kept}", config.heap_bytes))
}

const PIECE_BYTES: usize = 1 << 20;

/// Allocates so much in blocks of at most `most` bytes, touches their pages and frees them.
fn touch_heap(bytes: usize, most: usize) -> Result<(), Error> {
    let (mut left, mut last) = (bytes, std::ptr::null_mut::<*mut c_void>());
    let mut failed = false;
    while left > 0 && !failed {
        let size = left.min(most).max(size_of::<*mut c_void>());
        // SAFETY: malloc takes a number; what it gives is ours until free, is aligned for a pointer, and is
        // written within its length.
        unsafe {
            let block = libc::malloc(size);
            failed = block.is_null();
            if !failed {
                for page in (0..size).step_by(4096) {
                    block.cast::<u8>().add(page).write_volatile(1);
                }
                // Each block has the address of the one before.
                let block = block.cast::<*mut c_void>();
                block.write(last.cast());
                last = block;
            }
        }
        left = left.saturating_sub(size);
    }
    while !last.is_null() {
        // SAFETY: a block from above, which is freed once, after what it holds was read.
        unsafe {
            let before = last.read();
            libc::free(last.cast());
            last = before.cast();
        }
    }
    if failed {
        let (why, cure) =
            (format!("malloc has no {bytes} bytes"), "ask for less, or raise the limit on memory");
        return Err(failure(libc::ENOMEM, "prefault the heap", &why, cure));
    }
    Ok(())
}

/// Has malloc() give nothing back and map nothing on its own, which the loop would pay for in page faults.
#[cfg(target_env = "gnu")]
fn keep_freed_memory() -> &'static str {
    // SAFETY: mallopt takes numbers only.
    let set =
        unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, -1) == 1 && libc::mallopt(libc::M_MMAP_MAX, 0) == 1 };
    if set { "keeps it" } else { "may give it back" }
}

#[cfg(not(target_env = "gnu"))]
fn keep_freed_memory() -> &'static str {
    "may give it back: only glibc's can be told not to"
}
