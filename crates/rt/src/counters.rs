// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters in memory of their own: all zero, and the kernel gives a page when one on it is first written.
//!
//! A heap cannot promise that: it writes the zeroes itself. A histogram of a hundred thousand buckets of
//! which few are used takes a few pages so, and not a megabyte. Threads that must take no page fault write to
//! every page before ([`LazyCounters::touch`]).

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A value to count with.
///
/// # Safety
///
/// Memory that is all zero is a value of the type.
///
/// ```
/// use rt::counters::Counter;
///
/// std::sync::atomic::AtomicU64::new(7).touch();
/// ```
pub unsafe trait Counter: Sync + Send {
    /// Writes what it holds, so that its page is there.
    ///
    /// ```
    /// use rt::counters::Counter;
    ///
    /// std::sync::atomic::AtomicU16::new(7).touch();
    /// ```
    fn touch(&self);
}

// SAFETY: the type has the bytes of u16 (its documentation says so).
unsafe impl Counter for AtomicU16 {
    fn touch(&self) {
        self.fetch_add(0, Ordering::Relaxed);
    }
}

// SAFETY: the type has the bytes of u64 (its documentation says so).
unsafe impl Counter for AtomicU64 {
    fn touch(&self) {
        self.fetch_add(0, Ordering::Relaxed);
    }
}

/// Counters that begin at zero.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let counters = rt::counters::LazyCounters::<AtomicU64>::new(60_000);
/// counters[59_999].store(7, Relaxed);
/// assert_eq!(counters.iter().map(|counter| counter.load(Relaxed)).sum::<u64>(), 7);
/// ```
pub struct LazyCounters<T: Counter> {
    start: NonNull<T>,
    length: usize,
    _owns: PhantomData<T>,
}

impl<T: Counter> LazyCounters<T> {
    /// So many counters, all zero. Ends the program where there is no address space, as a heap does.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU16;
    ///
    /// assert_eq!(rt::counters::LazyCounters::<AtomicU16>::new(3).len(), 3);
    /// ```
    pub fn new(length: usize) -> LazyCounters<T> {
        let bytes = length.max(1) * size_of::<T>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) };
        let start = start.ok().and_then(NonNull::new).expect("the address space has room for counters");
        // A huge page would be there whole. A kernel without them refuses, and gives small ones.
        // SAFETY: the range is the mapping that was just made.
        let _ = unsafe { madvise(start.as_ptr(), bytes, Advice::LinuxNoHugepage) };
        LazyCounters { start: start.cast(), length, _owns: PhantomData }
    }

    /// Writes to every page, so that none is left to fault in.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU64;
    ///
    /// let counters = rt::counters::LazyCounters::<AtomicU64>::new(4_096);
    /// counters.touch();
    /// ```
    pub fn touch(&self) {
        const SMALLEST_PAGE: usize = 4_096;
        self.iter().step_by(SMALLEST_PAGE / size_of::<T>()).for_each(T::touch);
    }
}

impl<T: Counter> Deref for LazyCounters<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds that many, is aligned to a page, and zeroed memory is a value of each
        // (`Counter`); it lives as long as `self`, and counters are written through shared references alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Counter> Drop for LazyCounters<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length.max(1) * size_of::<T>()) };
    }
}

// SAFETY: it owns its mapping, and counters are `Sync` and `Send` (`Counter`).
unsafe impl<T: Counter> Send for LazyCounters<T> {}
// SAFETY: as above.
unsafe impl<T: Counter> Sync for LazyCounters<T> {}

impl<T: Counter> fmt::Debug for LazyCounters<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LazyCounters").field("length", &self.length).finish_non_exhaustive()
    }
}
