// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's state of a CPU, without a call: a page that is mapped read-only.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::uapi;
use crate::{Error, Result};

/// The last interruption that was delivered in spite of isolation.
///
/// ```
/// use rt::isolation::{self, Mask};
///
/// if let Ok(session) = isolation::start(Mask::DEFAULT) {
///     if let Some(breach) = session.page().last_breach() {
///         println!("{} at {} ns", breach.kind, breach.at_ns);
///     }
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breach {
    /// Its kind: a name of the counters.
    pub kind: &'static str,
    /// The function that was called, as an offset into the kernel's text.
    pub function: u64,
    /// When, by CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// Counters by name, all since the kernel booted.
pub type PageCounters = BTreeMap<&'static str, u64>;

/// The counts by which `after` exceeds `before`; those that did not change are left out.
///
/// ```
/// use rt::isolation::{PageCounters, since};
///
/// let (before, after) = (PageCounters::from([("defer_call", 2)]), PageCounters::from([("defer_call", 5)]));
/// assert_eq!(since(&before, &after), PageCounters::from([("defer_call", 3)]));
/// ```
pub fn since(before: &PageCounters, after: &PageCounters) -> PageCounters {
    let grown = after.iter().map(|(name, count)| (*name, count - before.get(name).unwrap_or(&0).min(count)));
    grown.filter(|(_, count)| *count > 0).collect()
}

/// A CPU's page, mapped read-only. What it shows changes while one looks.
///
/// ```
/// if let Ok(isolator) = rt::isolation::Isolator::open() {
///     let page = isolator.page(0)?;
///     println!("isolated: {}, work waits: {}", page.isolated(), page.waits());
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Page(NonNull<uapi::IsolatorPage>);

// SAFETY: the mapping is read-only and never moves, and every read of what may change is an atomic one.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    pub(super) fn map(file: &File, cpu: u32) -> Result<Page> {
        let failed = |error: &io::Error| {
            Error::os(format!("map the isolator's page of cpu {cpu}"), error, "choose a CPU that there is")
        };
        let (length, offset) = (size_of::<uapi::IsolatorPage>(), uapi::mmap_offset(cpu) as libc::off_t);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        let Some(page) = NonNull::new(at.cast::<uapi::IsolatorPage>()).filter(|_| at != libc::MAP_FAILED)
        else {
            return Err(failed(&io::Error::last_os_error()));
        };
        let page = Page(page);
        let version = page.word(offset_of!(uapi::IsolatorPage, version));
        if version != uapi::PAGE_VERSION {
            let why =
                format!("the kernel's page has version {version}, this program knows {}", uapi::PAGE_VERSION);
            let what = format!("read the isolator's page of cpu {cpu}");
            return Err(Error::new(what, why, "use a kernel and a program of the same version"));
        }
        Ok(page)
    }

    /// The field of 32 bits that lies so far into the page.
    #[inline(always)]
    fn word(&self, offset: usize) -> u32 {
        // SAFETY: an aligned field of a mapping that lives as long as self; the kernel writes it as a whole.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().byte_add(offset).cast()) }.load(Ordering::Relaxed)
    }

    /// The field of 64 bits, likewise.
    fn long(&self, offset: usize) -> u64 {
        // SAFETY: as in `word`; on the 64-bit machines that have the isolator a load of it is one
        // instruction.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().byte_add(offset).cast()) }.load(Ordering::Relaxed)
    }

    /// Whether work waits: a loop may look here and tick only then. Costs a cache hit as long as nothing
    /// comes.
    ///
    /// ```
    /// if let Ok(isolator) = rt::isolation::Isolator::open() {
    ///     let page = isolator.page(0)?;
    ///     println!("work waits: {}", page.waits());
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline(always)]
    pub fn waits(&self) -> bool {
        self.word(offset_of!(uapi::IsolatorPage, pending)) & !(uapi::PENDING_USER | uapi::PENDING_OWNER) != 0
    }

    /// Whether a message waits.
    ///
    /// ```
    /// if let Ok(isolator) = rt::isolation::Isolator::open() {
    ///     let page = isolator.page(0)?;
    ///     println!("a message waits: {}", page.message_waits());
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn message_waits(&self) -> bool {
        self.word(offset_of!(uapi::IsolatorPage, pending)) & uapi::PENDING_MESSAGE != 0
    }

    /// Whether the CPU is isolated.
    ///
    /// ```
    /// if let Ok(isolator) = rt::isolation::Isolator::open() {
    ///     let page = isolator.page(0)?;
    ///     println!("isolated: {}", page.isolated());
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn isolated(&self) -> bool {
        self.word(offset_of!(uapi::IsolatorPage, mask)) != 0
    }

    /// All counters.
    ///
    /// ```
    /// if let Ok(isolator) = rt::isolation::Isolator::open() {
    ///     let page = isolator.page(0)?;
    ///     for (name, count) in page.counters() {
    ///         println!("{name} {count}");
    ///     }
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn counters(&self) -> PageCounters {
        let count = |n: usize| self.long(offset_of!(uapi::IsolatorPage, stat) + n * size_of::<u64>());
        uapi::STATS.iter().enumerate().map(|(n, name)| (*name, count(n))).collect()
    }

    /// The last breach, if there was one.
    ///
    /// ```
    /// if let Ok(isolator) = rt::isolation::Isolator::open() {
    ///     let page = isolator.page(0)?;
    ///     println!("{:?}", page.last_breach());
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn last_breach(&self) -> Option<Breach> {
        loop {
            let before = self.word(offset_of!(uapi::IsolatorPage, breach_seq));
            // Pairs with the writer's barriers: what is read below is not older than the number above, and
            // not newer than the one read at the end.
            fence(Ordering::Acquire);
            let kind = self.word(offset_of!(uapi::IsolatorPage, breach_stat));
            let function = self.long(offset_of!(uapi::IsolatorPage, breach_func));
            let at_ns = self.long(offset_of!(uapi::IsolatorPage, breach_ns));
            fence(Ordering::Acquire);
            if before & 1 == 0 && before == self.word(offset_of!(uapi::IsolatorPage, breach_seq)) {
                let kind = uapi::STATS.get(kind as usize).copied().unwrap_or("unknown");
                return (before > 0).then_some(Breach { kind, function, at_ns });
            }
            std::hint::spin_loop();
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of that length, and self, which alone knows it, goes.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<uapi::IsolatorPage>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A page as the kernel would map it, from a file.
    fn page(words: &[(usize, u64)]) -> Result<Page> {
        let mut bytes = vec![0u8; 4096];
        for (offset, value) in words {
            bytes[*offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        }
        let path = std::env::temp_dir().join(format!("isolator-page-{:?}", std::thread::current().id()));
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        let page = Page::map(&File::open(&path).unwrap(), 0);
        std::fs::remove_file(path).unwrap();
        page
    }

    #[test]
    fn a_page_tells_what_waits_what_was_counted_and_the_last_breach() {
        // version; breach_seq and breach_stat; breach_func; breach_ns; pending; stat[0] and stat[5].
        let version = (0, uapi::PAGE_VERSION.into());
        let at = [version, (16, 2 | 5 << 32), (24, 77), (32, 99), (256, 3), (384, 4), (384 + 40, 1)];
        let page = page(&at).unwrap();
        assert!(page.waits() && !page.isolated() && !page.message_waits());
        assert_eq!((page.counters()["defer_sync"], page.counters()["breach_call"]), (4, 1));
        assert_eq!(page.last_breach(), Some(Breach { kind: "breach_call", function: 77, at_ns: 99 }));
        let grown = since(&PageCounters::from([("defer_sync", 1)]), &page.counters());
        assert_eq!(grown, PageCounters::from([("breach_call", 1), ("defer_sync", 3)]));
    }

    #[test]
    fn an_owner_in_user_mode_is_no_work_that_waits() {
        let flags = uapi::PENDING_USER | uapi::PENDING_OWNER;
        let page = page(&[(0, uapi::PAGE_VERSION.into()), (256, flags.into())]).unwrap();
        assert!(!page.waits() && !page.message_waits());
    }

    #[test]
    fn a_page_of_another_version_is_refused() {
        let ours = uapi::PAGE_VERSION;
        assert_eq!(
            page(&[(0, u64::from(ours) + 7)]).unwrap_err().to_string(),
            format!(
                "cannot read the isolator's page of cpu 0: the kernel's page has version {}, this program knows {ours}; \
                 use a kernel and a program of the same version",
                ours + 7
            )
        );
    }
}
