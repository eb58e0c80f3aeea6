// SPDX-License-Identifier: MIT OR Apache-2.0
//! A handle that one thread uses, whose calls may be interrupted by a signal.
//!
//! Where the signal's handler uses the handle too, two calls would change one position; the nested one is
//! refused. A flag, which is read and written without an exchange: two threads at once are refused only where
//! each call is checked.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use rt::fork::Home;

use crate::single::Refused;

/// An object that a running call keeps from calls that are nested in it.
pub(crate) struct Unnested<T> {
    value: UnsafeCell<T>,
    runs: AtomicBool,
    /// Whether calls of other threads are refused, too: an exchange more.
    is_checked: bool,
    home: Home,
}

impl<T> Unnested<T> {
    pub(crate) fn new(value: T, is_checked: bool) -> Unnested<T> {
        Unnested {
            value: UnsafeCell::new(value),
            runs: AtomicBool::new(false),
            is_checked,
            home: Home::here(),
        }
    }

    /// Calls with the value, unless such a call runs.
    ///
    /// # Safety
    /// No other thread does so meanwhile, unless each call is checked.
    #[inline]
    pub(crate) unsafe fn enter<R>(&self, call: impl FnOnce(&mut T) -> R) -> Result<R, Refused> {
        let runs = match self.is_checked {
            true => self.runs.swap(true, Ordering::Acquire),
            false => self.runs.load(Ordering::Relaxed),
        };
        if runs {
            return Err(self.refusal());
        }
        self.runs.store(true, Ordering::Relaxed);
        // As a handler of this thread sees it.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: no call of this thread runs, which the flag would say, and none of another.
        let result = call(unsafe { &mut *self.value.get() });
        compiler_fence(Ordering::SeqCst);
        self.runs.store(false, Ordering::Release);
        Ok(result)
    }

    /// A child of fork() has a copy of the flag, which a call of its parent may have set.
    #[cold]
    fn refusal(&self) -> Refused {
        if self.home.is_here() { Refused::Busy } else { Refused::Foreign }
    }

    /// For what changes nothing.
    ///
    /// # Safety
    /// No call runs.
    pub(crate) unsafe fn peek(&self) -> &T {
        // SAFETY: what the caller promises.
        unsafe { &*self.value.get() }
    }
}
