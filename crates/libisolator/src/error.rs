// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors on their way to C: a negative number, and the line that says what to do.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use rt::Error;

/// Bytes of a message; a longer one is cut.
const ROOM: usize = 1024;

/// Where a thread's last failure stands. It is never freed, so that a pointer to it is good even where the
/// call that replaces the text is made later than it is asked for: the buffer of a thread that has ended goes
/// to another one.
struct Buffer(NonNull<[u8; ROOM]>);

// SAFETY: only the owner of the Buffer writes there.
unsafe impl Send for Buffer {}

static LEFT: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

impl Buffer {
    fn new() -> Buffer {
        let mut buffer = match LEFT.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            Some(buffer) => buffer,
            None => Buffer(NonNull::from(Box::leak(Box::new([0; ROOM])))),
        };
        buffer.write("");
        buffer
    }

    fn write(&mut self, text: &str) {
        // A zero would end the string for C.
        let text = text.split('\0').next().unwrap_or_default();
        let text = &text.as_bytes()[..text.floor_char_boundary(ROOM - 1)];
        // SAFETY: this thread's; C reads it in this thread.
        let buffer = unsafe { self.0.as_mut() };
        buffer[..text.len()].copy_from_slice(text);
        buffer[text.len()] = 0;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(Buffer(self.0));
    }
}

thread_local! {
    static LAST: std::cell::RefCell<Buffer> = std::cell::RefCell::new(Buffer::new());
}

/// Get the message of the calling thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn isolator_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().0.as_ptr().cast_const().cast()).unwrap_or(c"".as_ptr())
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

/// An error for an argument that a call needs and was not given.
pub(crate) fn null(what: &str) -> Error {
    failure(libc::EINVAL, what, "a pointer is NULL", "give the address that the header asks for")
}

/// Refuses flags that are not among those `known`: a newer program would take them for done.
pub(crate) fn check_flags(what: &str, flags: u32, known: u32) -> Result<(), Error> {
    match flags & !known {
        0 => Ok(()),
        other => {
            let why = format!("this version does not know the flags {other:#x}");
            Err(failure(libc::EINVAL, what, &why, "leave them out, or link a newer libisolator"))
        }
    }
}

/// The elements at `at`; `None` where that is NULL, or no object can be so large, as after a failed malloc()
/// or a negative count.
///
/// # Safety
/// `at` has `count` elements for `'a`, or is NULL.
pub(crate) unsafe fn slice<'a, T>(at: *const T, count: usize) -> Option<&'a [T]> {
    if count == 0 {
        return Some(&[]);
    }
    let fits = count <= isize::MAX.unsigned_abs() / size_of::<T>();
    // SAFETY: what the caller promises, and a size that an object may have.
    (fits && !at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, count) })
}

/// Runs a call: gives its result, or says why not.
pub(crate) fn call(run: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(run));
    let defect = |_| Err(failure(libc::ENOTRECOVERABLE, "go on", "libisolator has a defect", "report it"));
    result_of(result.unwrap_or_else(defect))
}

/// As [`call`], of a call that runs a function of C++, which may throw: an exception goes through to the
/// caller. A panic cannot, and ends the program.
pub(crate) fn call_through(run: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    let defect = Defect;
    let result = run();
    std::mem::forget(defect);
    result_of(result)
}

/// Ends the program where a panic, and not an exception, gets out.
struct Defect;

impl Drop for Defect {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Makes an object and stores where it is. A call that fails stores NULL, which the functions that end
/// objects take: a caller may end what it has, whatever failed.
///
/// # Safety
/// `place` can be written, or is NULL.
pub(crate) unsafe fn make<T>(
    what: &str,
    place: *mut *mut T,
    run: impl FnOnce() -> Result<*mut T, Error>,
) -> c_int {
    call(|| {
        if place.is_null() {
            return Err(null(what));
        }
        // SAFETY: the caller promises that it can be written.
        unsafe { place.write(std::ptr::null_mut()) };
        let made = run()?;
        // SAFETY: as above.
        unsafe { place.write(made) };
        Ok(0)
    })
}

fn result_of(result: Result<c_int, Error>) -> c_int {
    let error = match result {
        Ok(result) => return result,
        Err(error) => error,
    };
    // A thread that is about to end has nowhere left to put it.
    let _ = LAST.try_with(|last| last.borrow_mut().write(&error.to_string()));
    number(&error)
}

/// An error as a number: negative.
pub(crate) fn number(error: &Error) -> c_int {
    if error.errno > 0 { -error.errno } else { -libc::EINVAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> &'static CStr {
        // SAFETY: a string that is never freed.
        unsafe { CStr::from_ptr(isolator_last_error()) }
    }

    #[test]
    fn a_pointer_taken_before_the_failure_has_its_text() {
        let before = isolator_last_error();
        assert_eq!(call(|| Err(null("look"))), -libc::EINVAL);
        assert_eq!(before, isolator_last_error());
        assert!(last().to_str().unwrap().starts_with("cannot look: a pointer is NULL"), "{:?}", last());
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = "\u{e9}".repeat(ROOM);
        call(|| Err(failure(libc::EIO, &long, "\0", "")));
        let text = last().to_str().unwrap();
        assert!((ROOM - 3..ROOM).contains(&text.len()) && text.ends_with('\u{e9}'), "{text}");
    }

    #[test]
    fn a_buffer_outlives_its_thread() {
        let told = std::thread::spawn(|| {
            call(|| Err(null("end")));
            last()
        });
        let told = told.join().unwrap();
        // Another thread may have it by now; it can be read all the same.
        assert!(told.count_bytes() < ROOM);
    }
}
