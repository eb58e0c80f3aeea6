// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors on their way to C: a negative number, and the line that says what to do.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rt::Error;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Get the message of the calling thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn isolator_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Get the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn isolator_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Get the text for a negative result of this library.
#[unsafe(no_mangle)]
pub extern "C" fn isolator_strerror(error: c_int) -> *const c_char {
    // SAFETY: takes a number; gives a string of the C library, which this thread may read until it asks
    // again.
    let text = unsafe { libc::strerror(error.saturating_neg()) };
    if text.is_null() { c"unknown error".as_ptr() } else { text }
}

/// An error of this layer.
pub(crate) fn failure(errno: c_int, what: &str, why: &str, cure: &str) -> Error {
    Error { errno, ..Error::new(what, why, cure) }
}

/// What a call needs and was not given.
pub(crate) fn null(what: &str) -> Error {
    failure(libc::EINVAL, what, "a pointer is NULL", "give the address that the header asks for")
}

/// Runs a call: gives its result, or says why not.
pub(crate) fn call(run: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    let error = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(result)) => return result,
        Ok(Err(error)) => error,
        Err(_) => failure(libc::ENOTRECOVERABLE, "go on", "libisolator has a defect", "report it"),
    };
    let text = CString::new(error.to_string()).unwrap_or_default();
    // A thread that is about to end has nowhere left to put it.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    number(&error)
}

/// An error as a number: negative.
pub(crate) fn number(error: &Error) -> c_int {
    if error.errno > 0 { -error.errno } else { -libc::EINVAL }
}
