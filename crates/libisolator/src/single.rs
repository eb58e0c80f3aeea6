// SPDX-License-Identifier: MIT OR Apache-2.0
//! A handle that one call uses at a time.
//!
//! A function that the caller gave runs in the middle of a poll. Where it polls the same handle again, or
//! another thread does, two calls would change one position; that is refused instead. Where it closes the
//! handle, the poll that runs ends it. One atomic exchange when a call begins and one when it ends; no wait,
//! no system call.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};

use rt::fork::Wiped;

/// In a child of fork(), which finds the handle's memory all zero: it has no part in its parent's handle.
const FOREIGN: u8 = 0;
const FREE: u8 = 1;
const USED: u8 = 2;
/// Closed while a call uses it: that call ends it.
const CLOSED: u8 = 3;

/// The part of a handle that one call uses at a time.
pub(crate) struct Single<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is reached by the one call alone that set the state to USED, so that it moves between
// threads and is never shared by them.
unsafe impl<T: Send> Sync for Single<T> {}

impl<T> Single<T> {
    pub(crate) fn new(value: T) -> Single<T> {
        Single { state: AtomicU8::new(FREE), value: UnsafeCell::new(MaybeUninit::new(value)) }
    }
}

/// An object to which C has a pointer, made by [`made`].
///
/// # Safety
/// All bytes zero are a handle; its `Single` is always the same.
pub(crate) unsafe trait Handle: Sized {
    /// The value that one call uses at a time.
    type Value;
    /// Where that is.
    fn single(&self) -> &Single<Self::Value>;
}

/// Why a call does not get a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another call has it, or it was closed.
    Busy,
    /// It is the parent's.
    Foreign,
}

impl Refused {
    /// As C gets it.
    pub(crate) fn number(self) -> c_int {
        match self {
            Refused::Busy => -libc::EBUSY,
            Refused::Foreign => -libc::EPERM,
        }
    }
}

/// Puts a handle where C may have a pointer to it.
pub(crate) fn made<H: Handle>(handle: H) -> rt::Result<*mut H> {
    // SAFETY: as the trait says.
    Ok(unsafe { Wiped::new(handle) }?.into_raw())
}

/// Takes a handle for a call.
///
/// # Safety
/// `handle` comes from [`made`] and was not given to [`close`].
#[inline]
pub(crate) unsafe fn enter<'a, H: Handle>(handle: *mut H) -> Result<Entered<'a, H>, Refused> {
    // SAFETY: what the caller promises.
    let here = unsafe { &*handle };
    // Pairs with the release of the call before.
    let taken = here.single().state.compare_exchange(FREE, USED, Ordering::Acquire, Ordering::Relaxed);
    match taken {
        Ok(_) => Ok(Entered { handle, here }),
        Err(FOREIGN) => Err(Refused::Foreign),
        Err(_) => Err(Refused::Busy),
    }
}

/// # Safety
/// As [`enter`], and no call uses it nor will.
unsafe fn end<H: Handle>(handle: *mut H) {
    // SAFETY: made by `made`.
    let handle = unsafe { Wiped::from_raw(handle) };
    // SAFETY: there since it was made, and dropped this once.
    unsafe { (*handle.single().value.get()).assume_init_drop() };
}

/// Ends a handle: now, or when the call that uses it does.
///
/// # Safety
/// As [`enter`]; afterwards `handle` is no more, but to a call that uses it.
pub(crate) unsafe fn close<H: Handle>(handle: *mut H) {
    // SAFETY: what the caller promises.
    match unsafe { &*handle }.single().state.swap(CLOSED, Ordering::AcqRel) {
        // SAFETY: no call uses it nor will.
        FREE => unsafe { end(handle) },
        // The value is the parent's; here is nothing but the page.
        // SAFETY: as above.
        FOREIGN => drop(unsafe { Wiped::from_raw(handle) }),
        _ => {}
    }
}

/// A handle, for one call.
pub(crate) struct Entered<'a, H: Handle> {
    handle: *mut H,
    here: &'a H,
}

impl<'a, H: Handle> Entered<'a, H> {
    /// The handle's other parts.
    pub(crate) fn handle(&self) -> &'a H {
        self.here
    }
}

impl<H: Handle> Deref for Entered<'_, H> {
    type Target = H::Value;

    fn deref(&self) -> &H::Value {
        // SAFETY: this call alone set the state to USED, which it is not where there is no value.
        unsafe { (*self.here.single().value.get()).assume_init_ref() }
    }
}

impl<H: Handle> DerefMut for Entered<'_, H> {
    fn deref_mut(&mut self) -> &mut H::Value {
        // SAFETY: as above.
        unsafe { (*self.here.single().value.get()).assume_init_mut() }
    }
}

impl<H: Handle> Drop for Entered<'_, H> {
    fn drop(&mut self) {
        let state = &self.here.single().state;
        if state.compare_exchange(USED, FREE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: it was closed meanwhile, which left it to this call to end it.
            unsafe { end(self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Kept(Single<Arc<()>>);

    // SAFETY: a state and what it guards.
    unsafe impl Handle for Kept {
        type Value = Arc<()>;
        fn single(&self) -> &Single<Arc<()>> {
            &self.0
        }
    }

    fn made() -> (*mut Kept, Arc<()>) {
        let kept = Arc::new(());
        (super::made(Kept(Single::new(Arc::clone(&kept)))).unwrap(), kept)
    }

    #[test]
    fn refuses_a_second_call_until_the_first_ends() {
        let (handle, kept) = made();
        // SAFETY: made above and closed below.
        unsafe {
            let first = enter(handle).unwrap();
            assert_eq!(enter(handle).err(), Some(Refused::Busy));
            drop(first);
            assert!(enter(handle).is_ok());
            close(handle);
        }
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn closing_within_a_call_ends_it_afterwards() {
        let (handle, kept) = made();
        // SAFETY: made above; ended by the call that uses it.
        unsafe {
            let first = enter(handle).unwrap();
            close(handle);
            assert!(enter(handle).is_err());
            assert_eq!(Arc::strong_count(&kept), 2);
            drop(first);
        }
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
