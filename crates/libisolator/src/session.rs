// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU for the calling thread, where the kernel has the isolator (isolator(4)).

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use rt::Error;
use rt::isolation::{self, Isolator, Mask, Session, Tick};

use crate::error::{call, call_through, check_flags, failure, make, null};

/// An isolation, from isolator_session_start() to isolator_session_stop(). It belongs to the thread that
/// started it.
pub struct isolator_session(Session);

/// How a CPU stands.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct isolator_cpu_status {
    /// The CPU.
    pub cpu: u32,
    /// The owner's thread, where the caller may see it; else 0.
    pub owner: u32,
    /// 1 where it is isolated.
    pub isolated: u32,
    /// The longest time that deferred work waits, in milliseconds.
    pub max_defer_ms: u32,
    /// Why the last call of this thread was refused; 0 where it was not. isolator_reason_text() says it in
    /// words.
    pub refused: u32,
    /// Why the last isolation ended.
    pub ended: u32,
}

fn no_isolator(error: Error) -> Error {
    match error.errno {
        libc::ENOENT => Error { errno: libc::ENOSYS, ..error },
        _ => error,
    }
}

/// Isolate the CPU to which the calling thread is pinned.
///
/// # Safety
/// `session` points to a pointer that can be written; after 0 it is to be given to isolator_session_stop(),
/// by the same thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_session_start(mask: u32, session: *mut *mut isolator_session) -> c_int {
    let started = || {
        check_flags("isolate a CPU", mask, Mask::ALL.bits())?;
        let mask = if mask == 0 { Mask::DEFAULT } else { Mask::from_bits(mask) };
        let started = isolation::start(mask).map_err(no_isolator)?;
        Ok(Box::into_raw(Box::new(isolator_session(started))))
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { make("isolate a CPU", session, started) }
}

/// Do the work that was deferred.
///
/// # Safety
/// `session` is one of isolator_session_start() that was not stopped, and this is its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_session_tick(session: *mut isolator_session, flags: u32) -> c_int {
    call(|| {
        // SAFETY: the caller promises that it is one, or NULL.
        let session = unsafe { session.as_ref() }.ok_or_else(|| null("tick"))?;
        check_flags("tick", flags, Tick::ALL.bits())?;
        session.0.tick(Tick::from_bits(flags)).map(|()| 0)
    })
}

/// Check whether deferred work waits.
///
/// # Safety
/// As isolator_session_tick(); any thread may ask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_session_pending(session: *const isolator_session) -> c_int {
    // SAFETY: the caller promises that it is one, or NULL.
    unsafe { session.as_ref() }.is_some_and(|session| session.0.page().waits()).into()
}

/// End the isolation and the session.
///
/// # Safety
/// As isolator_session_tick(); afterwards `session` is no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_session_stop(session: *mut isolator_session) -> c_int {
    call(|| {
        if session.is_null() {
            return Ok(0);
        }
        // SAFETY: made by isolator_session_start(), and the caller gives it back.
        let session = unsafe { Box::from_raw(session) };
        session.0.stop().map(|()| 0)
    })
}

/// Get the state of a CPU.
///
/// # Safety
/// `status` points to a struct that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_cpu_status(cpu: c_int, status: *mut isolator_cpu_status) -> c_int {
    call(|| {
        if status.is_null() {
            return Err(null("ask the isolator"));
        }
        let asked = Isolator::open().map_err(no_isolator)?.status(u32::try_from(cpu).ok())?;
        let found = isolator_cpu_status {
            cpu: asked.cpu,
            owner: asked.owner.unwrap_or(0),
            isolated: asked.isolated.into(),
            max_defer_ms: asked.max_defer_ms,
            refused: asked.refused.0,
            ended: asked.ended.0,
        };
        // SAFETY: the caller promises that it can be written.
        unsafe { status.write(found) };
        Ok(0)
    })
}

/// Get the text for a reason of struct isolator_cpu_status.
#[unsafe(no_mangle)]
pub extern "C" fn isolator_reason_text(reason: u32) -> *const c_char {
    static WORDS: OnceLock<Mutex<BTreeMap<u32, CString>>> = OnceLock::new();
    let mut words = WORDS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let text = || CString::new(isolation::Reason(reason).text()).unwrap_or_default();
    // What is in the map never leaves it, and a CString's bytes do not move with it.
    words.entry(reason).or_insert_with(text).as_ptr()
}

/// Read the isolator's counters of a CPU since boot.
///
/// # Safety
/// `each` is a function, takes `data`, and does not jump out. What it throws goes through.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn isolator_cpu_statistics(
    cpu: c_int,
    each: Option<unsafe extern "C-unwind" fn(name: *const c_char, value: u64, data: *mut c_void)>,
    data: *mut c_void,
) -> c_int {
    call_through(|| {
        let Some(each) = each else { return Err(null("read statistics")) };
        let isolator = Isolator::open().map_err(no_isolator)?;
        let cpu = isolator.status(u32::try_from(cpu).ok())?.cpu;
        for (name, value) in isolator.page(cpu)?.counters() {
            let name = CString::new(name)
                .map_err(|_| failure(libc::EILSEQ, "read statistics", "a name holds a zero", "report it"))?;
            // SAFETY: the caller gives a function that takes these.
            unsafe { each(name.as_ptr(), value, data) };
        }
        Ok(0)
    })
}
