// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words that are shared with hardware or with another machine: a device's registers, a PCI resource, a file.
//!
//! ```text
//! Registers::physical   /dev/mem, a block of a device           refused where it is the machine's memory
//! Registers::device     /dev/uioN, /dev/gpiomem: from its begin
//! Registers::file       a PCI resource (ivshmem: resource2), a file in shared memory
//!      └── at(offset) ──► Register: read and write, 32 bits each
//! ```
//!
//! Every access is one volatile access of 32 bits, in program order, with no barrier: a word orders nothing
//! but itself. What a write makes a device do is the caller's, as with any write to its file. A file that
//! another process shortens meanwhile ends the process (SIGBUS, mmap(2)). Linux:
//! Documentation/driver-api/uio-howto.rst, drivers/char/mem.c.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{Error, Result};

/// All memory of the machine, as a file.
const MEMORY: &str = "/dev/mem";

/// Its device number (Documentation/admin-guide/devices.txt).
const ALL_MEMORY: u64 = libc::makedev(1, 1);

/// The map of physical addresses.
const IOMEM: &str = "/proc/iomem";

/// Where the first signal (a file's words, [`Registers::file`]) of a program is mapped, unless something else
/// is there: the lab's scope is told which addresses to look at before its guest runs.
pub const SIGNAL_AT: usize = 0x5349_0000_0000;

/// Bytes from a signal's first word, which holds edges, to its second, which holds answers.
pub const SIGNAL_APART: usize = 128;

/// Bytes of a register.
const WIDTH: usize = size_of::<u32>();

/// A mapping, unmapped when it is dropped.
#[derive(Debug)]
struct RegisterMapping {
    at: NonNull<u32>,
    length: usize,
}

// SAFETY: the mapping never moves, and all access to it is volatile.
unsafe impl Send for RegisterMapping {}
// SAFETY: as above.
unsafe impl Sync for RegisterMapping {}

impl Drop for RegisterMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of that length, and each register holds it.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

/// A block of words.
///
/// ```
/// use rt::registers::Registers;
///
/// let path = std::env::temp_dir().join(format!("isolator-example-block-{}", std::process::id()));
/// std::fs::write(&path, [0; 64]).unwrap();
/// let words = Registers::file(&path, 0, 64)?;
/// let (control, status) = (words.at(0)?, words.at(4)?);
/// control.write(1);
/// assert_eq!((control.read(), status.read()), (1, 0));
/// std::fs::remove_file(path).unwrap();
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Registers {
    mapping: Arc<RegisterMapping>,
    /// Where it begins in the mapping, in bytes.
    first: usize,
    /// Where it is, for errors.
    name: String,
}

/// One word of a block.
///
/// ```
/// use rt::registers::Registers;
///
/// let path = std::env::temp_dir().join(format!("isolator-example-word-{}", std::process::id()));
/// std::fs::write(&path, [0; 64]).unwrap();
/// let words = Registers::file(&path, 0, 64)?;
/// let word = words.at(8)?;
/// word.write(7);
/// assert_eq!(words.at(8)?.read(), 7);
/// std::fs::remove_file(path).unwrap();
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Register {
    at: NonNull<u32>,
    _mapping: Arc<RegisterMapping>,
}

// SAFETY: the mapping that it holds may be used by any thread.
unsafe impl Send for Register {}
// SAFETY: as above.
unsafe impl Sync for Register {}

impl Register {
    /// Its present value.
    ///
    /// ```
    /// use rt::registers::Registers;
    ///
    /// let path = std::env::temp_dir().join(format!("isolator-example-read-{}", std::process::id()));
    /// std::fs::write(&path, [0; 64]).unwrap();
    /// let words = Registers::file(&path, 0, 64)?;
    /// assert_eq!(words.at(0)?.read(), 0);
    /// std::fs::remove_file(path).unwrap();
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline(always)]
    pub fn read(&self) -> u32 {
        // SAFETY: aligned and within a mapping that lives as long as self (`Registers::at`).
        unsafe { self.at.read_volatile() }
    }

    /// Makes it hold that.
    ///
    /// ```
    /// use rt::registers::Registers;
    ///
    /// let path = std::env::temp_dir().join(format!("isolator-example-write-{}", std::process::id()));
    /// std::fs::write(&path, [0; 64]).unwrap();
    /// let words = Registers::file(&path, 0, 64)?;
    /// words.at(0)?.write(u32::MAX);
    /// assert_eq!(words.at(0)?.read(), u32::MAX);
    /// std::fs::remove_file(path).unwrap();
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline(always)]
    pub fn write(&self, value: u32) {
        // SAFETY: as above, and mapped writable.
        unsafe { self.at.write_volatile(value) }
    }
}

impl Registers {
    /// `length` bytes of a device at a physical address; refuses what is no whole number of pages, and
    /// memory.
    ///
    /// ```no_run
    /// // The GPIO block of a Raspberry Pi 4; root only.
    /// let gpio = rt::registers::Registers::physical(0xfe20_0000, 4096)?;
    /// println!("{:#x}", gpio.at(0x34)?.read());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn physical(address: u64, length: usize) -> Result<Registers> {
        let name = format!("the registers at {address:#x}");
        let what = format!("map {name}");
        whole_pages(&what, address, length)?;
        let iomem = std::fs::read_to_string(IOMEM).map_err(|error| {
            Error::os(format!("read {IOMEM}"), &error, "mount /proc where the program runs")
        })?;
        no_memory(&what, &iomem, address, length)?;
        let file = open(&what, Path::new(MEMORY), libc::O_SYNC)?;
        Registers::map(&file, address, length, 0, name)
    }

    /// The first `length` bytes of a character device that maps registers.
    ///
    /// ```no_run
    /// use std::path::Path;
    ///
    /// let registers = rt::registers::Registers::device(Path::new("/dev/uio0"), 4096)?;
    /// println!("{:#x}", registers.at(0)?.read());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn device(path: &Path, length: usize) -> Result<Registers> {
        let name = format!("the registers of {}", path.display());
        let what = format!("map {name}");
        whole_pages(&what, 0, length)?;
        let file = open(&what, path, libc::O_SYNC)?;
        let data = file.metadata().map_err(|error| Error::os(&what, &error, "give another device"))?;
        if data.rdev() == ALL_MEMORY {
            return Err(Error::new(what, "it maps everything", "give the block's physical address"));
        }
        if !data.file_type().is_char_device() {
            return Err(Error::new(what, "it is not a character device", "give one such as /dev/uio0"));
        }
        if let Some(offset) = into_page_of(path) {
            let why = format!("its registers begin {offset} bytes into a page");
            return Err(Error::new(what, why, "give their physical address"));
        }
        Registers::map(&file, 0, length, 0, name)
    }

    /// `length` bytes of a file from `offset` on: memory shared with other processes that map it.
    ///
    /// ```
    /// use rt::registers::Registers;
    ///
    /// let path = std::env::temp_dir().join(format!("isolator-example-file-{}", std::process::id()));
    /// std::fs::write(&path, [0; 64]).unwrap();
    /// let words = Registers::file(&path, 0, 64)?;
    /// assert!(words.at(60).is_ok());
    /// assert!(Registers::file(&path, 0, 65).is_err());
    /// std::fs::remove_file(path).unwrap();
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn file(path: &Path, offset: u64, length: usize) -> Result<Registers> {
        let name = format!("{length} bytes of {} from {offset} on", path.display());
        let what = format!("map {name}");
        let file = open(&what, path, 0)?;
        let data = file.metadata().map_err(|error| Error::os(&what, &error, "give another file"))?;
        if !data.file_type().is_file() {
            return Err(Error::new(
                what,
                "it is not a file",
                "give one, or a PCI resource below /sys/bus/pci",
            ));
        }
        if offset.checked_add(length as u64).is_none_or(|end| end > data.len()) {
            let why = format!("it has {} bytes", data.len());
            return Err(Error::new(what, why, "give an offset within it, or make it longer"));
        }
        let into_page = (offset % page() as u64) as usize;
        if !into_page.is_multiple_of(WIDTH) {
            let why = format!("{offset} is not a multiple of {WIDTH}");
            return Err(Error::new(what, why, "give an offset that is one"));
        }
        let whole = Registers::map(&file, offset - into_page as u64, length + into_page, SIGNAL_AT, name)?;
        Ok(Registers { first: into_page, ..whole })
    }

    /// The word that begins `offset` bytes into the block.
    ///
    /// ```
    /// use rt::registers::Registers;
    ///
    /// let path = std::env::temp_dir().join(format!("isolator-example-at-{}", std::process::id()));
    /// std::fs::write(&path, [0; 64]).unwrap();
    /// let words = Registers::file(&path, 0, 64)?;
    /// // A word has 4 bytes.
    /// assert!(words.at(4).is_ok() && words.at(5).is_err() && words.at(64).is_err());
    /// std::fs::remove_file(path).unwrap();
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn at(&self, offset: usize) -> Result<Register> {
        let length = self.mapping.length - self.first;
        if !offset.is_multiple_of(WIDTH) || offset.checked_add(WIDTH).is_none_or(|end| end > length) {
            let what = format!("use the word {offset:#x} bytes into {}", self.name);
            let why = format!("there are {length} bytes in words of {WIDTH}");
            return Err(Error::new(what, why, "correct the description of the board"));
        }
        // SAFETY: a word's place within the mapping, as was just seen; first is a multiple of a word's size
        // too.
        let at = unsafe { self.mapping.at.add((self.first + offset) / WIDTH) };
        Ok(Register { at, _mapping: Arc::clone(&self.mapping) })
    }

    /// Maps `length` bytes from `at` on, which begins a page; to `wish` where that is not 0 and nothing is
    /// there.
    fn map(file: &File, at: u64, length: usize, wish: usize, name: String) -> Result<Registers> {
        let what = format!("map {name}");
        let from = libc::off_t::try_from(at)
            .map_err(|_| Error::new(&what, "no file reaches that far", "give another place"))?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        let wish = std::ptr::without_provenance_mut(wish);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists, whatever is
        // wished.
        let mapped = unsafe { libc::mmap(wish, length, protection, flags, file.as_raw_fd(), from) };
        match NonNull::new(mapped.cast::<u32>()).filter(|_| mapped != libc::MAP_FAILED) {
            Some(at) => Ok(Registers { mapping: Arc::new(RegisterMapping { at, length }), first: 0, name }),
            None => Err(refused(&what, &io::Error::last_os_error())),
        }
    }
}

fn page() -> usize {
    rustix::param::page_size()
}

/// Refuses what is no whole number of pages.
fn whole_pages(what: &str, address: u64, length: usize) -> Result<()> {
    let page = page();
    if length == 0 || !length.is_multiple_of(page) || !address.is_multiple_of(page as u64) {
        let why = format!("{length:#x} bytes at {address:#x} are no whole pages of {page:#x} bytes");
        return Err(Error::new(what, why, "give the whole block, from the begin of its page"));
    }
    Ok(())
}

/// Refuses memory, and anything where the kernel does not say where memory is.
fn no_memory(what: &str, iomem: &str, address: u64, length: usize) -> Result<()> {
    let range = |line: &str| -> Option<(u64, u64)> {
        let (first, last) = line.trim().split_once(" : ")?.0.split_once('-')?;
        Some((u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(last, 16).ok()?))
    };
    let memory = iomem.lines().filter(|line| line.ends_with(" : System RAM")).filter_map(range);
    let memory = memory.collect::<Vec<_>>();
    // Without CAP_SYS_ADMIN all addresses read 0.
    if memory.iter().all(|(_, last)| *last == 0) {
        let why = format!("{IOMEM} does not say where the machine's memory is");
        return Err(Error::new(what, why, "run as root"));
    }
    let end = address.checked_add(length as u64 - 1);
    let Some(end) = end else {
        return Err(Error::new(what, "no address is that high", "give the block's physical address"));
    };
    match memory.iter().find(|(first, last)| *first <= end && address <= *last) {
        Some((first, last)) => {
            let why = format!("that is the machine's memory ({first:#x}-{last:#x} in {IOMEM})");
            Err(Error::new(what, why, "give the block's physical address"))
        }
        None => Ok(()),
    }
}

fn open(what: &str, path: &Path, flags: libc::c_int) -> Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(|error| {
        let cure = match error.raw_os_error() {
            Some(libc::ENOENT) => "give a file that is there",
            Some(libc::EACCES) => "run as root, or let this user open it",
            Some(libc::EPERM) => FORBIDDEN,
            _ => "give another file",
        };
        Error::os(format!("{what}: open {}", path.display()), &error, cure)
    })
}

/// The cure where the kernel forbids it to root too.
const FORBIDDEN: &str = "the kernel forbids it: boot without lockdown (/sys/kernel/security/lockdown) and, if it was built \
     with CONFIG_STRICT_DEVMEM, with iomem=relaxed; or use a UIO device";

fn refused(what: &str, error: &io::Error) -> Error {
    let cure = match error.raw_os_error() {
        Some(libc::EPERM) => FORBIDDEN,
        Some(libc::EINVAL) => "give no more than the device has",
        Some(libc::ENODEV) => "give one that can be mapped",
        _ => "raise the limits on memory and locked memory",
    };
    Error::os(what, error, cure)
}

/// How far into its page a UIO device's first map begins, where that is not at once.
fn into_page_of(device: &Path) -> Option<String> {
    let name = device.file_name()?.to_str()?;
    let said = std::fs::read_to_string(format!("/sys/class/uio/{name}/maps/map0/offset")).ok()?;
    Some(said.trim().to_string()).filter(|offset| !offset.trim_start_matches("0x").chars().all(|c| c == '0'))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::path::PathBuf;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    /// A file of two pages in memory, and its name.
    fn block() -> (File, PathBuf) {
        let file = File::from(memfd_create("block", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(2 * page() as u64).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        (file, path)
    }

    fn error_of<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_word_is_the_file_s_and_lives_on_without_its_block() {
        let (mut file, path) = block();
        file.write_all(&[0, 0, 0, 0, 7, 0, 0, 0]).unwrap();
        let word = Registers::file(&path, 0, page()).unwrap().at(4).unwrap();
        assert_eq!(word.read(), 7);
        word.write(0x1234_5678);
        let mut bytes = [0; 8];
        file.rewind().unwrap();
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[4..], 0x1234_5678u32.to_le_bytes());
    }

    #[test]
    fn the_first_signal_is_where_the_scope_looks_and_another_elsewhere() {
        let (_file, path) = block();
        let at = |signal: &Registers| signal.mapping.at.as_ptr() as usize;
        // Tests beside this one have signals too, for a moment.
        let first = std::iter::repeat_with(|| Registers::file(&path, 0, 8).unwrap())
            .find(|signal| at(signal) == SIGNAL_AT);
        assert_ne!(Some(at(&Registers::file(&path, 0, 8).unwrap())), first.as_ref().map(at));
    }

    #[test]
    fn a_block_may_begin_within_a_page_and_ends_where_it_ends() {
        let (_file, path) = block();
        let offset = page() + 64;
        let first = Registers::file(&path, offset as u64, 8).unwrap();
        first.at(4).unwrap().write(5);
        assert_eq!(Registers::file(&path, 0, 2 * page()).unwrap().at(offset + 4).unwrap().read(), 5);
        for beyond in [8, 2, usize::MAX - 1, usize::MAX - 3] {
            assert!(error_of(first.at(beyond)).contains("there are 8 bytes in words of 4"), "{beyond}");
        }
    }

    #[test]
    fn a_file_that_ends_before_the_block_does_is_refused() {
        let (_file, path) = block();
        for (offset, length) in [(0, 2 * page() + 4), (2 * page() as u64, 4), (u64::MAX, 4)] {
            let said = error_of(Registers::file(&path, offset, length));
            assert!(said.contains(&format!("it has {} bytes", 2 * page())), "{said}");
        }
        assert!(
            error_of(Registers::file(&path, 2, 4))
                .ends_with("2 is not a multiple of 4; give an offset that is one")
        );
        let gone = error_of(Registers::file(Path::new("/dev/shm/no-such-file"), 0, 4));
        assert!(gone.contains("no such file or directory; give a file that is there"), "{gone}");
        let null = error_of(Registers::file(Path::new("/dev/null"), 0, 4));
        assert!(null.contains("it is not a file"), "{null}");
    }

    #[test]
    fn a_device_is_a_character_device_but_not_all_memory() {
        let (_file, path) = block();
        assert!(error_of(Registers::device(&path, page())).contains("it is not a character device"));
        assert!(error_of(Registers::device(Path::new("/dev/null"), 12)).contains("are no whole pages"));
        assert!(
            error_of(Registers::device(Path::new("/dev/mem"), page()))
                .starts_with("cannot map the registers of")
        );
    }

    #[test]
    fn memory_is_no_device_s_and_where_it_is_unknown_nothing_is_mapped() {
        let iomem = "00000000-00000fff : Reserved\n00001000-0009ffff : System RAM\n\
                     40000000-7fffffff : System RAM\n  40080000-40ffffff : Kernel code\n\
                     fe200000-fe2000f3 : fe200000.gpio gpio@7e200000\n";
        let look = |address, length| no_memory("map it", iomem, address, length);
        assert_eq!(look(0xfe20_0000, 0x1000), Ok(()));
        assert_eq!(look(0x3fff_f000, 0x1000), Ok(()));
        for (address, length) in
            [(0x4008_0000, 0x1000), (0x3fff_f000, 0x2000), (0x7fff_f000, 0x1000), (0, 0x2000)]
        {
            assert!(error_of(look(address, length)).contains("that is the machine's memory"), "{address:#x}");
        }
        assert!(error_of(look(u64::MAX - 0xfff, 0x2000)).contains("no address is that high"));
        let hidden = "00000000-00000000 : System RAM\n";
        let unknown = error_of(no_memory("map it", hidden, 0xfe20_0000, 0x1000));
        assert_eq!(
            unknown,
            "cannot map it: /proc/iomem does not say where the machine's memory is; run as root"
        );
    }

    #[test]
    fn a_physical_block_is_whole_pages() {
        for (address, length) in [(0xfe20_0004, page()), (0xfe20_0000, 0xf4), (0xfe20_0000, 0)] {
            assert!(
                error_of(Registers::physical(address, length)).contains("are no whole pages"),
                "{address:#x}"
            );
        }
    }
}
