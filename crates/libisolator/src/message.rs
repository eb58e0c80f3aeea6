// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between an isolated CPU and others.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rt::Error;
use rt::message::{Failure, Receiver, Sender, Shared, Size};

use crate::error::{make, null, slice};
use crate::nested::Unnested;
use crate::single::{self, Handle, Refused, Single};

/// A ring's memory, which several processes may have.
pub struct isolator_ring(Shared);

/// The end of a ring that posts. One thread at a time: where a post is interrupted by a signal whose handler
/// posts, that one is refused with -EBUSY. Two threads are refused where each post is checked.
pub struct isolator_sender(Unnested<Sender>);

/// Whether each post is checked: as the variable says, or in a debug build.
fn is_checked() -> bool {
    std::env::var_os("ISOLATOR_CHECK").map_or(cfg!(debug_assertions), |value| value != "0")
}

/// The end of a ring that takes. One call at a time: while isolator_receiver_poll() runs, also from within
/// its `each`, another call on the same receiver is refused with -EBUSY, from whichever thread.
pub struct isolator_receiver(Single<Receiver>);

// SAFETY: a state and what it guards.
unsafe impl Handle for isolator_receiver {
    type Value = Receiver;
    #[inline]
    fn single(&self) -> &Single<Receiver> {
        &self.0
    }
}

/// The number alone, for the hot path: no text is made.
fn number(failed: Failure) -> c_int {
    match failed {
        Failure::Full => -libc::EAGAIN,
        Failure::Closed => -libc::EPIPE,
        Failure::TooLarge => -libc::EMSGSIZE,
        Failure::Broken => -libc::EPROTO,
        Failure::Foreign => -libc::EPERM,
    }
}

/// Make a ring.
///
/// # Safety
/// `ring` points to a pointer that can be written; after 0 it is to be given to isolator_ring_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_ring_create(
    slots: u32,
    bytes: usize,
    ring: *mut *mut isolator_ring,
) -> c_int {
    let made = || Ok(Box::into_raw(Box::new(isolator_ring(Shared::create(Size { slots, bytes })?))));
    // SAFETY: the caller promises that it can be written.
    unsafe { make("make a ring", ring, made) }
}

/// Use a ring of another process.
///
/// # Safety
/// As isolator_ring_create(); `fd` is open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_ring_attach(fd: c_int, ring: *mut *mut isolator_ring) -> c_int {
    let attached = || {
        if fd < 0 {
            let error = std::io::Error::from_raw_os_error(libc::EBADF);
            return Err(Error::os("use a ring", &error, "give an open descriptor"));
        }
        // SAFETY: the caller promises that it is open meanwhile; a number that is not is refused by the
        // kernel.
        let own = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
        let own = own.map_err(|error| Error::os("use a ring", &error, "give an open descriptor"))?;
        Ok(Box::into_raw(Box::new(isolator_ring(Shared::from_fd(own)?))))
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { make("use a ring", ring, attached) }
}

/// Get the descriptor of a ring, to pass it to another process (SCM_RIGHTS).
///
/// # Safety
/// `ring` is one that was made or attached and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_ring_fd(ring: *const isolator_ring) -> c_int {
    // SAFETY: the caller promises that it is one, or NULL.
    unsafe { ring.as_ref() }.map_or(-libc::EINVAL, |ring| ring.0.fd().as_raw_fd())
}

/// Free a ring.
///
/// # Safety
/// As isolator_ring_fd(); afterwards `ring` is no more. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_ring_free(ring: *mut isolator_ring) {
    if !ring.is_null() {
        // SAFETY: made by this library, and the caller gives it back.
        drop(unsafe { Box::from_raw(ring) });
    }
}

/// Open the end of a ring that posts.
///
/// # Safety
/// As isolator_ring_fd(); `sender` points to a pointer that can be written, and goes to
/// isolator_sender_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_sender_open(
    ring: *const isolator_ring,
    sender: *mut *mut isolator_sender,
) -> c_int {
    let what = "be the sender of a ring";
    let opened = || {
        // SAFETY: the caller promises that it is one, or NULL.
        let opened = unsafe { ring.as_ref() }.ok_or_else(|| null(what))?.0.sender()?;
        Ok(Box::into_raw(Box::new(isolator_sender(Unnested::new(opened, is_checked())))))
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { make(what, sender, opened) }
}

/// Post a message.
///
/// # Safety
/// `sender` is open and no other thread uses it; `message` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_sender_post(
    sender: *mut isolator_sender,
    message: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: what the caller promises.
    unsafe { post_by(sender, message, bytes, Sender::post) }
}

/// Post a message, and wake a receiver that sleeps in isolator_receiver_wait().
///
/// # Safety
/// As isolator_sender_post().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_sender_post_and_wake(
    sender: *mut isolator_sender,
    message: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: what the caller promises.
    unsafe { post_by(sender, message, bytes, Sender::post_and_wake) }
}

/// # Safety
/// As isolator_sender_post().
#[inline]
unsafe fn post_by(
    sender: *mut isolator_sender,
    message: *const c_void,
    bytes: usize,
    post: impl FnOnce(&mut Sender, &[u8]) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller promises that it is one, or NULL.
    let Some(sender) = (unsafe { sender.as_ref() }) else { return -libc::EINVAL };
    // SAFETY: the caller promises so many bytes.
    let Some(message) = (unsafe { slice(message.cast(), bytes) }) else {
        // The count of a read() that failed is longer than any message.
        return if message.is_null() { -libc::EINVAL } else { -libc::EMSGSIZE };
    };
    // SAFETY: the caller promises that no other thread uses it.
    match unsafe { sender.0.enter(|sender| post(sender, message)) } {
        Ok(posted) => posted.map_or_else(number, |()| 0),
        Err(refused) => Refused::number(refused),
    }
}

/// Check whether some process has the receiver open.
///
/// # Safety
/// `sender` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_sender_has_receiver(sender: *const isolator_sender) -> c_int {
    // SAFETY: the caller promises that it is one, or NULL, and that no other thread uses it.
    unsafe { sender.as_ref() }.is_some_and(|sender| unsafe { sender.0.peek() }.receiver_lives()).into()
}

/// Close the end of a ring that posts.
///
/// # Safety
/// `sender` is open, and is no more afterwards. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_sender_close(sender: *mut isolator_sender) {
    if !sender.is_null() {
        // SAFETY: made by this library, and the caller gives it back.
        drop(unsafe { Box::from_raw(sender) });
    }
}

/// Open the end of a ring that takes.
///
/// # Safety
/// As isolator_sender_open().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_receiver_open(
    ring: *const isolator_ring,
    receiver: *mut *mut isolator_receiver,
) -> c_int {
    let what = "be the receiver of a ring";
    let opened = || {
        // SAFETY: the caller promises that it is one, or NULL.
        let opened = unsafe { ring.as_ref() }.ok_or_else(|| null(what))?.0.receiver()?;
        single::made(isolator_receiver(Single::new(opened)))
    };
    // SAFETY: the caller promises that it can be written.
    unsafe { make(what, receiver, opened) }
}

/// Take the messages that wait.
///
/// # Safety
/// `receiver` is open; `each` is a function, takes `data`, and does not jump out. What it throws goes
/// through.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn isolator_receiver_poll(
    receiver: *mut isolator_receiver,
    most: u32,
    each: Option<unsafe extern "C-unwind" fn(message: *const c_void, bytes: usize, data: *mut c_void)>,
    data: *mut c_void,
) -> c_int {
    let Some(each) = each.filter(|_| !receiver.is_null()) else { return -libc::EINVAL };
    // SAFETY: the caller promises that it is one.
    let mut receiver = match unsafe { single::enter(receiver) } {
        Ok(receiver) => receiver,
        Err(refused) => return refused.number(),
    };
    let most = most.min(c_int::MAX as u32) as usize;
    // SAFETY: the caller gives a function that takes these.
    let polled = receiver.poll(most, |message| unsafe { each(message.as_ptr().cast(), message.len(), data) });
    polled.map_or_else(number, |count| count as c_int)
}

/// Sleep until a message waits.
///
/// # Safety
/// `receiver` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_receiver_wait(receiver: *mut isolator_receiver, timeout_ns: u64) -> c_int {
    if receiver.is_null() {
        return 0;
    }
    // SAFETY: the caller promises that it is one.
    let mut receiver = match unsafe { single::enter(receiver) } {
        Ok(receiver) => receiver,
        Err(refused) => return refused.number(),
    };
    receiver.wait(Duration::from_nanos(timeout_ns)).into()
}

/// Check whether some process has the sender open.
///
/// # Safety
/// `receiver` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_receiver_has_sender(receiver: *const isolator_receiver) -> c_int {
    if receiver.is_null() {
        return 0;
    }
    // SAFETY: the caller promises that it is one; it was made mutable, and is reached by one call at a time.
    match unsafe { single::enter(receiver.cast_mut()) } {
        Ok(receiver) => receiver.sender_lives().into(),
        Err(refused) => refused.number(),
    }
}

/// Close the end of a ring that takes.
///
/// # Safety
/// `receiver` is open, and is no more afterwards. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_receiver_close(receiver: *mut isolator_receiver) {
    if !receiver.is_null() {
        // SAFETY: made by this library, and the caller gives it back.
        unsafe { single::close(receiver) };
    }
}
