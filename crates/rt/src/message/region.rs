// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a ring: lines of 64 bytes, of which every word is an atomic, so that whatever another
//! process does there is a value and never a data race. Either of this process alone, or a mapping that
//! several have.

use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Words in a line.
pub(super) const WORDS: usize = 8;

/// A cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct CacheLine(pub [AtomicU64; WORDS]);

impl CacheLine {
    fn zero() -> CacheLine {
        CacheLine(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Lines, all zero at first.
#[derive(Debug)]
pub(super) enum Region {
    /// Of this process.
    Own(Box<[CacheLine]>),
    /// A shared mapping.
    Mapped(RingMapping),
}

impl Region {
    /// So many lines of this process.
    pub(super) fn own(lines: usize) -> Region {
        Region::Own((0..lines).map(|_| CacheLine::zero()).collect())
    }
}

impl Deref for Region {
    type Target = [CacheLine];

    #[inline(always)]
    fn deref(&self) -> &[CacheLine] {
        match self {
            Region::Own(lines) => lines,
            Region::Mapped(mapping) => mapping,
        }
    }
}

/// A mapping, unmapped when it is dropped.
#[derive(Debug)]
pub(super) struct RingMapping {
    at: NonNull<CacheLine>,
    lines: usize,
}

// SAFETY: the mapping never moves, and all access to it is by atomics.
unsafe impl Send for RingMapping {}
// SAFETY: as above.
unsafe impl Sync for RingMapping {}

impl RingMapping {
    /// Takes over a mapping.
    ///
    /// # Safety
    /// `at` is a mapping of `lines` lines, readable and writable, that only this unmaps, whose pages stay
    /// there (sealed against shrinking), and that this process reaches by atomics only.
    pub(super) unsafe fn new(at: NonNull<CacheLine>, lines: usize) -> RingMapping {
        RingMapping { at, lines }
    }
}

impl Deref for RingMapping {
    type Target = [CacheLine];

    #[inline(always)]
    fn deref(&self) -> &[CacheLine] {
        // SAFETY: what `new` asks for.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.lines) }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of that length, and no reference into it outlives self.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.lines * size_of::<CacheLine>()) };
    }
}
