// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few system calls of this crate that no safe library offers. All `unsafe` of the crate is here.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// Leaves a real-time policy that was inherited: a load runs at SCHED_OTHER. By number, since musl's
/// sched_setscheduler() always fails.
pub fn ordinary_scheduling() -> io::Result<()> {
    let priority: libc::c_int = 0;
    // SAFETY: the kernel's sched_param is one int, and `priority` outlives the call; 0 is the calling thread.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, std::ptr::from_ref(&priority))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD and gives the descriptor that becomes readable when one came.
/// Programs started from here inherit that: see [`unblock`].
pub fn signals() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero sigset_t is a valid object to initialise, and every call gets a pointer to it that
    // is valid throughout.
    let descriptor = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD] {
            libc::sigaddset(&mut set, signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    owned(descriptor)
}

/// Unblocks every signal.
pub fn unblock() -> io::Result<()> {
    // SAFETY: as in `signals`.
    let result = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The number of the signal at the start of a `signalfd_siginfo`.
pub fn signal_number(info: &[u8]) -> i32 {
    info.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes))
}

/// Makes a UDP socket one for ESP in UDP. The first such socket of a machine and the closing of the last one
/// switch the static key `udp_encap_needed_key`, so the kernel patches its text and calls every CPU to see it
/// (net/ipv4/udp.c, kernel/jump_label.c).
pub fn encapsulate(socket: &UdpSocket) -> io::Result<()> {
    const UDP_ENCAP: libc::c_int = 100;
    const UDP_ENCAP_ESPINUDP: libc::c_int = 2;
    let value = UDP_ENCAP_ESPINUDP;
    // SAFETY: the descriptor is open, and `value` is a c_int that outlives the call, with its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            UDP_ENCAP,
            std::ptr::from_ref(&value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A perf event on `cpu` that counts nothing (PERF_COUNT_SW_DUMMY). Each read of it calls a function on that
/// CPU (kernel/events/core.c, perf_event_read).
pub fn dummy_event(cpu: u32) -> io::Result<OwnedFd> {
    const SIZE_VER0: u64 = 64;
    const TYPE_SOFTWARE: u64 = 1;
    const COUNT_SW_DUMMY: u64 = 9;
    const CLOEXEC: libc::c_ulong = 8;
    let type_and_size = if cfg!(target_endian = "little") {
        SIZE_VER0 << 32 | TYPE_SOFTWARE
    } else {
        TYPE_SOFTWARE << 32 | SIZE_VER0
    };
    let attributes: [u64; 8] = [type_and_size, COUNT_SW_DUMMY, 0, 0, 0, 0, 0, 0];
    // SAFETY: `attributes` is a perf_event_attr of the size it states (PERF_ATTR_SIZE_VER0) and outlives the
    // call; pid -1 with a CPU asks for that CPU, group -1 for none.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            -1 as libc::c_long,
            libc::c_long::from(cpu),
            -1 as libc::c_long,
            CLOEXEC,
        )
    };
    owned(descriptor as libc::c_int)
}

/// A page of memory whose protection can be switched.
pub struct ProtectedPage {
    at: *mut libc::c_void,
    /// Held while the page may be unwritable: a write in between would be a fault.
    writing: Mutex<()>,
}

// SAFETY: the mapping belongs to the value, its address means the same in every thread, and its one used byte
// is only reached as an atomic.
unsafe impl Send for ProtectedPage {}
// SAFETY: as above; `toggle` never makes the page unreadable.
unsafe impl Sync for ProtectedPage {}

const PAGE: usize = 4096;

impl ProtectedPage {
    /// Maps one.
    pub fn map() -> io::Result<ProtectedPage> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(ProtectedPage { at, writing: Mutex::new(()) })
        }
    }

    fn byte(&self) -> &AtomicU8 {
        // SAFETY: the page is mapped and readable as long as the value lives, and is only used through this.
        unsafe { AtomicU8::from_ptr(self.at.cast()) }
    }

    /// Reads it, so that this CPU knows its translation.
    pub fn touch(&self) {
        self.byte().load(Ordering::Relaxed);
    }

    /// Writes to it, forbids writing and allows it again: every CPU that runs a thread of this process must
    /// forget its translation.
    pub fn toggle(&self) {
        let _alone = self.writing.lock();
        self.byte().store(1, Ordering::Relaxed);
        // SAFETY: the page is ours and stays readable; no other thread writes to it, as `writing` is held.
        unsafe {
            libc::mprotect(self.at, PAGE, libc::PROT_READ);
            libc::mprotect(self.at, PAGE, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
}

impl Drop for ProtectedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and not used any more.
        unsafe { libc::munmap(self.at, PAGE) };
    }
}

fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave it to us, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
