// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring that several processes have: a memfd, sealed so that its size cannot change.
//!
//! Each end is a lock on a byte of the file, held through a description that its holder opened itself
//! (`F_OFD_SETLK`, fcntl(2)): so there is one sender and one receiver, and the kernel gives the lock back
//! when the holder dies, whatever it died of. Limit: a child that a dead holder forked, and that did not
//! exec, still holds it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};

use super::region::{AtomicU64, CacheLine, Region, RingMapping};
use super::ring::{Polling, Posting, Ring};
use super::{Receiver, Sender, Size};
use crate::fork::Home;
use crate::{Error, Result};

/// The futex below is the low half of a word, at its address.
const _: () = assert!(cfg!(target_endian = "little"));

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The byte that is locked by each end.
const SENDER: i64 = 0;
const RECEIVER: i64 = 1;

/// The memory of a ring, to be passed to another process.
///
/// ```
/// use rt::message::{Shared, Size};
///
/// let ring = Shared::create(Size::default())?;
/// // Another process would get the descriptor: see `pass`.
/// let elsewhere = Shared::from_fd(ring.fd().try_clone_to_owned().unwrap())?;
/// let (mut sender, mut receiver) = (ring.sender()?, elsewhere.receiver()?);
/// sender.post(b"across").unwrap();
/// assert_eq!(receiver.take(), Ok(Some(&b"across"[..])));
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Shared {
    memory: OwnedFd,
    /// Whether a mapping is filled at once. Not that of a stranger: pages that it never wrote would be
    /// allocated for it.
    populate: bool,
}

impl Shared {
    /// Makes a ring. Its ends may be taken here or by a process that gets the descriptor.
    ///
    /// ```
    /// use rt::message::{Shared, Size};
    ///
    /// let ring = Shared::create(Size::default())?;
    /// let (_sender, _receiver) = (ring.sender()?, ring.receiver()?);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn create(size: Size) -> Result<Shared> {
        Shared::named(size, "isolator-ring")
    }

    /// As [`Shared::create`]; `name` is what `/proc/PID/fd` shows of it.
    pub(crate) fn named(size: Size, name: &str) -> Result<Shared> {
        let size = size.checked()?;
        let failed = |what: &str, error: io::Error| {
            Error::os(what, &error, "raise the limit on memory or on open files")
        };
        let made = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let memory = made.map_err(|e| failed("make a ring", e.into()))?;
        let length = Ring::lines(size) * size_of::<CacheLine>();
        ftruncate(&memory, length as u64).map_err(|e| failed("give a ring its memory", e.into()))?;
        fcntl_add_seals(&memory, SEALS).map_err(|e| failed("seal a ring", e.into()))?;
        let shared = Shared { memory, populate: true };
        Ring::create(Region::mapped(shared.map(length)?), size);
        Ok(shared)
    }

    /// Takes the descriptor of a ring that another process made; refuses what is none. What it says of itself
    /// is read before it is mapped, and its mapping is filled at once only where its maker did so too.
    ///
    /// ```
    /// use rt::message::{Shared, Size};
    ///
    /// let ring = Shared::create(Size::default())?;
    /// assert!(Shared::from_fd(ring.fd().try_clone_to_owned().unwrap()).is_ok());
    /// let file = std::fs::File::open("/dev/null").unwrap();
    /// assert!(Shared::from_fd(file.into()).is_err());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn from_fd(memory: OwnedFd) -> Result<Shared> {
        let mut shared = Shared { memory, populate: false };
        let (length, _) = shared.checked()?;
        let found = shared.stat()?;
        shared.populate = found.st_blocks as u64 * 512 >= length as u64;
        shared.ring()?;
        Ok(shared)
    }

    /// As [`Shared::from_fd`], for a reader that has no deadline: its mapping is never filled, and a ring
    /// with more slots than `most`, or with messages of another length than `bytes`, is refused.
    pub(crate) fn of_stranger(memory: OwnedFd, most: u64, bytes: usize) -> Result<Shared> {
        let shared = Shared { memory, populate: false };
        let (_, size) = shared.checked()?;
        if u64::from(size.slots) > most || size.bytes != bytes {
            return Err(foreign("its size is not a loop's"));
        }
        shared.ring()?;
        Ok(shared)
    }

    /// The ring's length in bytes and its size, read without a mapping; refuses what could shrink, or is not
    /// as long as it says.
    fn checked(&self) -> Result<(usize, Size)> {
        let seals = fcntl_get_seals(&self.memory);
        if !seals.is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(foreign("it is not sealed memory"));
        }
        let mut head = [0; size_of::<CacheLine>()];
        let read = rustix::io::pread(&self.memory, &mut head, 0);
        if read != Ok(head.len()) {
            return Err(foreign("it is too short to be a ring"));
        }
        let size = Ring::size_in(&head).map_err(foreign)?;
        let length = Ring::lines(size) * size_of::<CacheLine>();
        if self.stat()?.st_size as u64 != length as u64 {
            return Err(foreign("its size is not what it says"));
        }
        Ok((length, size))
    }

    fn stat(&self) -> Result<rustix::fs::Stat> {
        rustix::fs::fstat(&self.memory)
            .map_err(|e| Error::os("look at a ring", &e.into(), "report this as a defect"))
    }

    /// The descriptor, to be passed on: by [`Shared::pass`], by inheritance, or by the service manager.
    ///
    /// ```
    /// use rt::message::{Shared, Size};
    ///
    /// let ring = Shared::create(Size::default())?;
    /// println!("{:?}", ring.fd());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Takes the sending end.
    ///
    /// ```
    /// use rt::message::{Shared, Size};
    ///
    /// let ring = Shared::create(Size::default())?;
    /// let _sender = ring.sender()?;
    /// // One at a time.
    /// assert!(ring.sender().is_err());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn sender(&self) -> Result<Sender> {
        let held = self.hold(SENDER, "sender")?;
        Ok(Sender { end: Posting::new(self.ring()?)?, held: Some(held) })
    }

    /// Takes the receiving end.
    ///
    /// ```
    /// use rt::message::{Shared, Size};
    ///
    /// let ring = Shared::create(Size::default())?;
    /// let _receiver = ring.receiver()?;
    /// // One at a time.
    /// assert!(ring.receiver().is_err());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn receiver(&self) -> Result<Receiver> {
        let held = self.hold(RECEIVER, "receiver")?;
        Ok(Receiver { end: Polling::new(self.ring()?), held: Some(held) })
    }

    /// Passes the descriptor to the process at the other end of a Unix socket.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    ///
    /// use rt::message::{Shared, Size};
    ///
    /// let (here, there) = UnixStream::pair().unwrap();
    /// let ring = Shared::create(Size::default())?;
    /// ring.pass(&here)?;
    /// let same = Shared::receive(&there)?;
    /// assert!(same.receiver().is_ok());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn pass(&self, to: impl AsFd) -> Result<()> {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [self.fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let sent = sendmsg(to, &[io::IoSlice::new(b"ring")], &mut ancillary, SendFlags::NOSIGNAL);
        sent.map(drop).map_err(|e| Error::os("pass a ring", &e.into(), "give a connected Unix socket"))
    }

    /// Takes the descriptor that [`Shared::pass`] sent.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    ///
    /// use rt::message::{Shared, Size};
    ///
    /// let (here, there) = UnixStream::pair().unwrap();
    /// let ring = Shared::create(Size::default())?;
    /// ring.pass(&here)?;
    /// let same = Shared::receive(&there)?;
    /// let _sender = ring.sender()?;
    /// assert!(same.sender().is_err());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn receive(from: impl AsFd) -> Result<Shared> {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut text = [0; 4];
        let received =
            recvmsg(from, &mut [io::IoSliceMut::new(&mut text)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        received.map_err(|e| Error::os("receive a ring", &e.into(), "give a connected Unix socket"))?;
        let rights = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Shared::from_fd(rights.ok_or_else(|| foreign("no descriptor came with the message"))?)
    }

    fn ring(&self) -> Result<Ring> {
        let (length, _) = self.checked()?;
        Ring::attach(Region::mapped(self.map(length)?)).map_err(foreign)
    }

    fn map(&self, length: usize) -> Result<RingMapping> {
        let failed = |error: &io::Error| {
            Error::os("map a ring", error, "raise the limits on memory and locked memory")
        };
        let populate = if self.populate { libc::MAP_POPULATE } else { 0 };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | populate);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, flags, self.memory.as_raw_fd(), 0)
        };
        let Some(lines) = NonNull::new(at.cast::<CacheLine>()).filter(|_| at != libc::MAP_FAILED) else {
            return Err(failed(&io::Error::last_os_error()));
        };
        // SAFETY: just mapped, page-aligned, of that length; the file is sealed against shrinking (or about
        // to be, and not shared yet), and a `Line` is atomics only.
        Ok(unsafe { RingMapping::new(lines, length / size_of::<CacheLine>()) })
    }

    fn hold(&self, byte: i64, name: &str) -> Result<HeldEnd> {
        let path = format!("/proc/self/fd/{}", self.memory.as_raw_fd());
        let failed = |error: &io::Error| Error::os(format!("open a ring's {name}"), error, "mount /proc");
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| failed(&error))?;
        let held = HeldEnd { file, byte, home: Home::here() };
        match held.lock(libc::F_OFD_SETLK, libc::F_WRLCK, byte) {
            Ok(_) => Ok(held),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                let why = "some process has it";
                let taken =
                    Error::new(format!("be the {name} of a ring"), why, "make a ring for each sender");
                Err(Error { errno: libc::EBUSY, ..taken })
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

fn foreign(why: &str) -> Error {
    Error::new("use a ring", why, "pass a descriptor that this version of the library made")
}

/// An end that this process holds.
#[derive(Debug)]
pub(super) struct HeldEnd {
    file: File,
    byte: i64,
    home: Home,
}

impl HeldEnd {
    /// Whether some process holds the other end; where the kernel does not say, it is taken to.
    pub(super) fn other_lives(&self) -> bool {
        let other = SENDER + RECEIVER - self.byte;
        self.lock(libc::F_OFD_GETLK, libc::F_WRLCK, other).map_or(true, |found| found != libc::F_UNLCK)
    }

    /// The same description once more.
    #[cfg(test)]
    pub(crate) fn duplicate(&self) -> File {
        self.file.try_clone().unwrap()
    }

    /// Sets, or asks for, a lock of this type on one byte; gives its type as the kernel wrote it.
    fn lock(&self, how: libc::c_int, of: libc::c_int, byte: i64) -> io::Result<libc::c_int> {
        // SAFETY: all-zero is a valid flock, which is plain numbers.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = of as _;
        lock.l_whence = libc::SEEK_SET as _;
        lock.l_start = byte as _;
        lock.l_len = 1;
        // SAFETY: lock is a live flock that the kernel reads and, to be asked, writes.
        let status = unsafe { libc::fcntl(self.file.as_raw_fd(), how, &raw mut lock) };
        if status == 0 { Ok(lock.l_type.into()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for HeldEnd {
    /// Unlocks, rather than leave it to the description's end: another thread may have just forked, and its
    /// child has the description until it execs. A child leaves its parent's lock alone.
    fn drop(&mut self) {
        if !self.home.is_here() {
            return;
        }
        _ = self.lock(libc::F_OFD_SETLK, libc::F_UNLCK, self.byte);
    }
}

/// Sleeps while the word is 1, and at most so long; may wake for nothing.
pub(super) fn sleep(word: &AtomicU64, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the kernel reads the low half of a live, aligned word, and a live timespec.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr().cast::<u32>(), libc::FUTEX_WAIT, 1, &raw const timeout)
    };
}

/// Wakes who sleeps there.
pub(super) fn wake(word: &AtomicU64) {
    // SAFETY: the address is a live word's; the kernel does not read it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr().cast::<u32>(), libc::FUTEX_WAKE, 1) };
}
