// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects that a child of fork() must not use: it has a copy of each object of its parent, whose locks,
//! positions and shared memory are one.
//!
//! Where a call may cost nothing, the first word that it looks at lies in memory which a child finds all zero
//! ([`Wiped`]). Elsewhere an object knows its process ([`Home`]).

use std::ops::Deref;
use std::ptr::NonNull;

use crate::{Error, Result};

/// The process that made an object.
///
/// ```
/// assert!(rt::fork::Home::here().is_here());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home(u32);

impl Home {
    /// This process.
    ///
    /// ```
    /// let home = rt::fork::Home::here();
    /// assert_eq!(home, rt::fork::Home::here());
    /// ```
    pub fn here() -> Home {
        Home(std::process::id())
    }

    /// Whether this is still that process, and no child of it. A system call.
    ///
    /// ```
    /// assert!(rt::fork::Home::here().is_here());
    /// ```
    pub fn is_here(self) -> bool {
        self == Home::here()
    }
}

/// A value in pages of its own that a child of fork() finds all zero (`MADV_WIPEONFORK`). A kernel before
/// 4.14 does not know that: a child then finds a copy.
///
/// ```
/// use rt::fork::Wiped;
///
/// // SAFETY: a number may be zero.
/// let here = unsafe { Wiped::new(1u8) }?;
/// assert_eq!(*here, 1);
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Wiped<T>(NonNull<T>);

// SAFETY: it owns its value, as a Box does.
unsafe impl<T: Send> Send for Wiped<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Wiped<T> {}

impl<T> Wiped<T> {
    /// Moves a value there.
    ///
    /// # Safety
    /// All bytes zero are a `T`.
    ///
    /// ```
    /// use rt::fork::Wiped;
    ///
    /// // SAFETY: a number may be zero.
    /// assert!(unsafe { Wiped::new(7u64) }.is_ok());
    /// ```
    pub unsafe fn new(value: T) -> Result<Wiped<T>> {
        const {
            assert!(!std::mem::needs_drop::<T>() && size_of::<T>() > 0 && align_of::<T>() <= 4096);
        }
        let at = map::<T>()?;
        // SAFETY: fresh, and of that size.
        unsafe { at.write(value) };
        Ok(Wiped(at))
    }

    /// Gives it up; [`Wiped::from_raw`] takes it again.
    ///
    /// ```
    /// use rt::fork::Wiped;
    ///
    /// // SAFETY: a number may be zero; the pointer goes back once.
    /// unsafe { drop(Wiped::from_raw(Wiped::new(7u64)?.into_raw())) };
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn into_raw(self) -> *mut T {
        let at = self.0.as_ptr();
        std::mem::forget(self);
        at
    }

    /// Takes it again.
    ///
    /// # Safety
    /// `at` comes from [`Wiped::into_raw`], and is given back once.
    ///
    /// ```
    /// use rt::fork::Wiped;
    ///
    /// // SAFETY: a number may be zero; the pointer goes back once.
    /// assert_eq!(*unsafe { Wiped::from_raw(Wiped::new(7u64)?.into_raw()) }, 7);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub unsafe fn from_raw(at: *mut T) -> Wiped<T> {
        // SAFETY: what the caller promises.
        Wiped(unsafe { NonNull::new_unchecked(at) })
    }
}

impl<T> Deref for Wiped<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a `T`, also all zero, as `new` asks for.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Wiped<T> {
    fn drop(&mut self) {
        unmap(self.0);
    }
}

#[cfg(not(any(miri, loom)))]
fn map<T>() -> Result<NonNull<T>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<T>(), access, kind, -1, 0) };
    let Some(value) = NonNull::new(at.cast::<T>()).filter(|_| at != libc::MAP_FAILED) else {
        let error = std::io::Error::last_os_error();
        return Err(Error::os("map a page", &error, "raise the limits on memory and locked memory"));
    };
    // SAFETY: the pages were just mapped, and hold nothing yet. A refusal leaves them as they are.
    unsafe { libc::madvise(at, size_of::<T>(), libc::MADV_WIPEONFORK) };
    Ok(value)
}

#[cfg(not(any(miri, loom)))]
fn unmap<T>(at: NonNull<T>) {
    // SAFETY: mapped by `map`, of that length, and no reference outlives its owner.
    unsafe { libc::munmap(at.as_ptr().cast(), size_of::<T>()) };
}

// There is no fork there.
#[cfg(any(miri, loom))]
fn map<T>() -> Result<NonNull<T>> {
    // Not NULL: made by Box.
    NonNull::new(Box::into_raw(Box::<T>::new_uninit()).cast()).ok_or_else(|| Error::new("map a page", "", ""))
}

#[cfg(any(miri, loom))]
fn unmap<T>(at: NonNull<T>) {
    // SAFETY: made by `map`, and no reference outlives its owner.
    drop(unsafe { Box::from_raw(at.as_ptr().cast::<std::mem::MaybeUninit<T>>()) });
}

#[cfg(all(test, not(any(miri, loom))))]
mod tests {
    use super::*;

    #[test]
    fn a_child_finds_zero_and_another_home() {
        // SAFETY: a number may be zero.
        let (wiped, home) = (unsafe { Wiped::new(7u64) }.unwrap(), Home::here());
        // SAFETY: the child looks at two words and ends, without a lock or memory of the heap.
        let status = unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(*wiped != 0 || home.is_here())),
                child => {
                    let mut status = -1;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    status
                }
            }
        };
        assert_eq!((status, *wiped, home.is_here()), (0, 7, true));
    }
}
