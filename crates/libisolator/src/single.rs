// SPDX-License-Identifier: MIT OR Apache-2.0
//! A handle that one call uses at a time.
//!
//! A function that the caller gave runs in the middle of a poll. Where it polls the same handle again, or
//! another thread does, two calls would change one position; that is refused instead. Where it closes the
//! handle, the poll that runs ends it. One atomic exchange when a call begins and one when it ends; no wait,
//! no system call.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};

const FREE: u8 = 0;
const USED: u8 = 1;
/// Closed while a call uses it: that call ends it.
const CLOSED: u8 = 2;

/// The part of a handle that one call uses at a time.
pub(crate) struct Single<T> {
    state: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the one call alone that set the state to USED, so that it moves between
// threads and is never shared by them.
unsafe impl<T: Send> Sync for Single<T> {}

impl<T> Single<T> {
    pub(crate) fn new(value: T) -> Single<T> {
        Single { state: AtomicU8::new(FREE), value: UnsafeCell::new(value) }
    }
}

/// What C has a pointer to, made by [`Box::into_raw`].
pub(crate) trait Handle {
    /// What one call uses at a time.
    type Value;
    /// Where that is.
    fn single(&self) -> &Single<Self::Value>;
}

/// Takes a handle for a call; `None` where another call has it, or it was closed.
///
/// # Safety
/// `handle` was made by [`Box::into_raw`] and not given to [`close`].
#[inline]
pub(crate) unsafe fn enter<'a, H: Handle>(handle: *mut H) -> Option<Entered<'a, H>> {
    // SAFETY: what the caller promises.
    let here = unsafe { &*handle };
    // Pairs with the release of the call before.
    let taken = here.single().state.compare_exchange(FREE, USED, Ordering::Acquire, Ordering::Relaxed);
    taken.ok().map(|_| Entered { handle, here })
}

/// Ends a handle: now, or when the call that uses it does.
///
/// # Safety
/// As [`enter`]; afterwards `handle` is no more, but to a call that uses it.
pub(crate) unsafe fn close<H: Handle>(handle: *mut H) {
    // SAFETY: what the caller promises.
    let before = unsafe { &*handle }.single().state.swap(CLOSED, Ordering::AcqRel);
    if before == FREE {
        // SAFETY: made by Box::into_raw, and no call uses it nor will.
        drop(unsafe { Box::from_raw(handle) });
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
        // SAFETY: this call alone set the state to USED.
        unsafe { &*self.here.single().value.get() }
    }
}

impl<H: Handle> DerefMut for Entered<'_, H> {
    fn deref_mut(&mut self) -> &mut H::Value {
        // SAFETY: as above.
        unsafe { &mut *self.here.single().value.get() }
    }
}

impl<H: Handle> Drop for Entered<'_, H> {
    fn drop(&mut self) {
        let state = &self.here.single().state;
        if state.compare_exchange(USED, FREE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: it was closed meanwhile, which left it to this call to end it.
            drop(unsafe { Box::from_raw(self.handle) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Kept(Single<Arc<()>>);

    impl Handle for Kept {
        type Value = Arc<()>;
        fn single(&self) -> &Single<Arc<()>> {
            &self.0
        }
    }

    fn made() -> (*mut Kept, Arc<()>) {
        let kept = Arc::new(());
        (Box::into_raw(Box::new(Kept(Single::new(Arc::clone(&kept))))), kept)
    }

    #[test]
    fn refuses_a_second_call_until_the_first_ends() {
        let (handle, kept) = made();
        // SAFETY: made above and closed below.
        unsafe {
            let first = enter(handle).unwrap();
            assert!(enter(handle).is_none());
            drop(first);
            assert!(enter(handle).is_some());
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
            assert!(enter(handle).is_none());
            assert_eq!(Arc::strong_count(&kept), 2);
            drop(first);
        }
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
