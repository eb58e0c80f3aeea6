// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's own loop, recorded for another process to read.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rt::Error;
use rt::monitor::{Cycle, MARKS, Monitor, Reader, Standing, choose};

use crate::error::{call_through, failure, make, null};
use crate::nested::Unnested;
use crate::single::{self, Handle, Refused, Single};

/// Records a loop. One thread at a time: a record by a signal handler in the middle of a call is left
/// out.
pub struct isolator_monitor(Unnested<Monitor>);

/// Make a monitor of a loop.
///
/// # Safety
/// `name` is a string; `monitor` points to a pointer that can be written; after 0 it is to be given to
/// isolator_monitor_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_monitor_create(
    name: *const c_char,
    period_ns: u64,
    monitor: *mut *mut isolator_monitor,
) -> c_int {
    let what = "monitor a loop";
    let made = || {
        if name.is_null() {
            return Err(null(what));
        }
        // SAFETY: the caller promises a string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let made = Monitor::create(&name, Duration::from_nanos(period_ns))?;
        Ok(Box::into_raw(Box::new(isolator_monitor(Unnested::new(made, false)))))
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { make(what, monitor, made) }
}

/// Record that a cycle begins.
///
/// # Safety
/// `monitor` is one that was made and not closed, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_monitor_begin(monitor: *mut isolator_monitor, due_ns: u64) {
    // SAFETY: what the caller promises.
    unsafe { record(monitor, |monitor| monitor.begin(due_ns)) };
}

/// Record that the cycle passes its next mark.
///
/// # Safety
/// As isolator_monitor_begin().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_monitor_mark(monitor: *mut isolator_monitor) {
    // SAFETY: what the caller promises.
    unsafe { record(monitor, |monitor| monitor.mark()) };
}

/// Record that the work of the cycle is done.
///
/// # Safety
/// As isolator_monitor_begin().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_monitor_end(monitor: *mut isolator_monitor) {
    // SAFETY: what the caller promises.
    unsafe { record(monitor, |monitor| monitor.end()) };
}

/// # Safety
/// As isolator_monitor_begin().
#[inline]
unsafe fn record(monitor: *mut isolator_monitor, call: impl FnOnce(&mut Monitor)) {
    // SAFETY: the caller promises that it is one, or NULL.
    if let Some(monitor) = unsafe { monitor.as_ref() } {
        // SAFETY: the caller promises that no other thread uses it.
        let _ = unsafe { monitor.0.enter(call) };
    }
}

/// Get the descriptor of a monitor, to pass it to a process that may not look into this one (SCM_RIGHTS).
///
/// # Safety
/// As isolator_monitor_begin().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_monitor_fd(monitor: *const isolator_monitor) -> c_int {
    // SAFETY: the caller promises that it is one, or NULL, and that no other thread uses it.
    let shared = unsafe { monitor.as_ref() }.and_then(|monitor| unsafe { monitor.0.peek() }.shared());
    shared.map_or(-libc::EINVAL, |shared| shared.fd().as_raw_fd())
}

/// Close a monitor.
///
/// # Safety
/// `monitor` is one that was made, and is no more afterwards. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_monitor_close(monitor: *mut isolator_monitor) {
    if !monitor.is_null() {
        // SAFETY: made by this library, and the caller gives it back.
        drop(unsafe { Box::from_raw(monitor) });
    }
}

const _: () = assert!(MARKS == 3, "the header says three");

/// Reads the loop of another program. One call at a time: while isolator_reader_poll() runs, also from
/// within its `each`, another poll of the same reader is refused with -EBUSY, from whichever thread.
pub struct isolator_reader {
    reader: Single<Reader>,
    period_ns: u64,
    /// As of the last poll that ended.
    lost: AtomicU64,
}

// SAFETY: a state, what it guards, and numbers.
unsafe impl Handle for isolator_reader {
    type Value = Reader;
    fn single(&self) -> &Single<Reader> {
        &self.reader
    }
}

/// A cycle of a loop. Times are nanoseconds of CLOCK_MONOTONIC.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct isolator_cycle {
    /// Its number; the loop's first is 1.
    pub number: u64,
    /// When it was due.
    pub due_ns: u64,
    /// When it began: wakeup latency is the difference.
    pub began_ns: u64,
    /// When its work was done: execution time is the difference.
    pub ended_ns: u64,
    /// When it came by its marks; 0: it did not.
    pub marks_ns: [u64; 3],
}

/// Attach to a loop of a process.
///
/// # Safety
/// `name` is a string or NULL; `reader` points to a pointer that can be written; after 0 it is to be given to
/// isolator_reader_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_reader_attach(
    process: u32,
    name: *const c_char,
    reader: *mut *mut isolator_reader,
) -> c_int {
    let attached = || {
        // SAFETY: the caller promises a string, or NULL.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy());
        attach(&choose(process, name.as_deref())?)
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { make("read a loop", reader, attached) }
}

/// Attach to a loop by its descriptor.
///
/// # Safety
/// As isolator_reader_attach(); `fd` is open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_reader_attach_fd(fd: c_int, reader: *mut *mut isolator_reader) -> c_int {
    let attached = || {
        if fd < 0 {
            let error = std::io::Error::from_raw_os_error(libc::EBADF);
            return Err(Error::os("read a loop", &error, "give an open descriptor"));
        }
        attach(Path::new(&format!("/proc/self/fd/{fd}")))
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { make("read a loop", reader, attached) }
}

fn attach(path: &Path) -> rt::Result<*mut isolator_reader> {
    let mut attached = Reader::open(path)?;
    attached.start()?;
    single::made(isolator_reader {
        period_ns: attached.period().get(),
        lost: AtomicU64::new(attached.lost()),
        reader: Single::new(attached),
    })
}

/// Read the cycles that have ended since the last poll.
///
/// # Safety
/// `reader` is attached; `each` is a function, takes `data`, and does not jump out. What it throws goes
/// through.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn isolator_reader_poll(
    reader: *mut isolator_reader,
    each: Option<unsafe extern "C-unwind" fn(cycle: *const isolator_cycle, data: *mut c_void)>,
    data: *mut c_void,
) -> c_int {
    call_through(|| {
        let Some(each) = each.filter(|_| !reader.is_null()) else { return Err(null("read a loop")) };
        // SAFETY: the caller promises that it is one.
        let mut reader = unsafe { single::enter(reader) }.map_err(|refused| {
            let (why, cure) = match refused {
                Refused::Busy => (
                    "a poll of this reader is under way",
                    "poll it from one thread, and not from within `each`",
                ),
                Refused::Foreign => ("the reader is the parent's", "attach to the loop in this process"),
            };
            failure(-refused.number(), "read a loop", why, cure)
        })?;
        let mut count = 0;
        let standing = reader.poll(|cycle| {
            let marks_ns = cycle.marks_ns.map(|at_ns| at_ns.unwrap_or(0));
            let Cycle { number, due_ns, began_ns, ended_ns, .. } = *cycle;
            let cycle = isolator_cycle { number, due_ns, began_ns, ended_ns, marks_ns };
            count += 1;
            // SAFETY: the caller promises a function that takes both.
            unsafe { each(&raw const cycle, data) }
        });
        reader.handle().lost.store(reader.lost(), Ordering::Relaxed);
        match standing.map_err(|error| Error { errno: libc::EPROTO, ..error })? {
            Standing::Closed | Standing::Gone if count == 0 => {
                Err(failure(libc::EPIPE, "read a loop", "it has ended", "attach to another"))
            }
            _ => Ok(count),
        }
    })
}

/// Get the number of cycles that were lost since the reader was attached.
///
/// # Safety
/// `reader` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_reader_lost(reader: *const isolator_reader) -> u64 {
    // SAFETY: the caller promises that it is one, or NULL.
    unsafe { reader.as_ref() }.map_or(0, |reader| reader.lost.load(Ordering::Relaxed))
}

/// Get the period of the loop.
///
/// # Safety
/// `reader` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_reader_period_ns(reader: *const isolator_reader) -> u64 {
    // SAFETY: the caller promises that it is one, or NULL.
    unsafe { reader.as_ref() }.map_or(0, |reader| reader.period_ns)
}

/// Close a reader.
///
/// # Safety
/// `reader` is one that was attached, and is no more afterwards. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_reader_close(reader: *mut isolator_reader) {
    if !reader.is_null() {
        // SAFETY: made by this library, and the caller gives it back.
        unsafe { single::close(reader) };
    }
}
