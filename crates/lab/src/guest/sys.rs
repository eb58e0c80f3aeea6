// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of storms that no safe library offers. All `unsafe` of the crate is here.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

/// The result of a call that answers -1 for an error.
fn checked(answer: libc::c_long) -> io::Result<i32> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}

/// Puts a classic filter on a socket, in place of the one that it has.
pub fn attach_filter(socket: &impl AsRawFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the structure and the instructions that it points to, both alive, of that
    // length.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as u32,
        )
    };
    checked(answer.into()).map(drop)
}

/// membarrier(2).
pub fn membarrier(command: i32) -> io::Result<i32> {
    // SAFETY: three integers; the call touches no memory of ours.
    checked(unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) })
}

/// A BPF map of one element of that many bytes, which the kernel takes from its vmalloc area where it is
/// large.
pub fn bpf_array(bytes: u32) -> io::Result<OwnedFd> {
    const MAP_CREATE: i32 = 0;
    const ARRAY: u32 = 2;
    // union bpf_attr of BPF_MAP_CREATE: map_type, key_size, value_size, max_entries, map_flags.
    let attributes = [ARRAY, 4, bytes, 1, 0];
    // SAFETY: the kernel reads as many bytes as it is told, which are those of a live array.
    let fd = checked(unsafe {
        libc::syscall(libc::SYS_bpf, MAP_CREATE, attributes.as_ptr(), size_of_val(&attributes))
    })?;
    // SAFETY: a new descriptor, owned here alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// struct perf_event_attr in its first version (PERF_ATTR_SIZE_VER0), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    config1: u64,
}

/// The clock of a CPU as a perf event; with a period it is an hrtimer on that CPU.
pub fn perf_cpu_clock(cpu: u32, period_ns: u64) -> io::Result<OwnedFd> {
    const SOFTWARE: u32 = 1;
    const CLOSE_ON_EXEC: u64 = 8;
    let attributes = PerfAttributes {
        kind: SOFTWARE,
        size: size_of::<PerfAttributes>() as u32,
        sample_period: period_ns,
        ..PerfAttributes::default()
    };
    // SAFETY: the kernel reads a live structure whose size it is told; the other arguments are integers.
    let fd = checked(unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, CLOSE_ON_EXEC)
    })?;
    // SAFETY: a new descriptor, owned here alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Pages of this process's own, mapped and written to; unmapped when dropped.
pub struct Pages {
    at: *mut c_void,
    length: usize,
}

impl Pages {
    pub fn map(length: usize) -> io::Result<Pages> {
        // SAFETY: new memory, where the kernel has room.
        let at = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )?
        };
        let pages = Pages { at, length };
        pages.write();
        Ok(pages)
    }

    /// Writes to each page, so that each is mapped in the tables; they must be writable.
    pub fn write(&self) {
        for offset in (0..self.length).step_by(4096) {
            // SAFETY: within the mapping, which lives as long as self and is known here alone.
            unsafe { self.at.cast::<u8>().add(offset).write_volatile(1) };
        }
    }

    pub fn set_writable(&self, writable: bool) -> io::Result<()> {
        let flags = if writable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::READ };
        // SAFETY: this mapping alone, which is written to only while it is writable.
        unsafe { mprotect(self.at, self.length, flags)? };
        Ok(())
    }

    /// Unmaps them; whether they are gone as the kernel says.
    pub fn unmap(self) -> io::Result<bool> {
        let (at, length) = (self.at, self.length);
        std::mem::forget(self);
        // SAFETY: the mapping is ours, and self, which alone knows it, is gone.
        unsafe { munmap(at, length)? };
        let mut present = 0u8;
        // SAFETY: asks about one page by its address and writes one byte; the address need not be mapped.
        let answer = unsafe { libc::mincore(at, 4096, &raw mut present) };
        Ok(answer < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and self, which alone knows it, goes.
        let _ = unsafe { munmap(self.at, self.length) };
    }
}

/// A word in memory that processes share.
pub struct SharedWord(*mut c_void);

impl SharedWord {
    /// Maps the first page of a file.
    pub fn map(file: &impl AsFd) -> io::Result<SharedWord> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel has room.
        let at = unsafe { mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, file, 0)? };
        Ok(SharedWord(at))
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping lives as long as self, and every process looks at the word by atomics only.
        unsafe { AtomicU32::from_ptr(self.0.cast()) }
    }

    pub fn get(&self) -> u32 {
        self.word().load(Ordering::Acquire)
    }

    pub fn set(&self, value: u32) {
        self.word().store(value, Ordering::Release);
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and self, which alone knows it, goes.
        let _ = unsafe { munmap(self.0, 4096) };
    }
}

/// A descriptor that this program was started with, and that nothing else in it knows.
pub fn inherited(number: i32) -> OwnedFd {
    // SAFETY: who started this program names a descriptor that is open, for this use alone.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Makes a child that ends at once; its exit status.
pub fn fork(status: i32) -> io::Result<i32> {
    // SAFETY: the child of a process with threads may do no more than leave, and does only that.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: leaves without running anything of ours.
        unsafe { libc::_exit(status) };
    }
    let child = checked(child.into())?;
    let mut said = 0;
    loop {
        // SAFETY: said is a live integer, which the call fills.
        match checked(unsafe { libc::waitpid(child, &raw mut said, 0) }.into()) {
            Ok(_) => return Ok(libc::WEXITSTATUS(said)),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// Sets whether a network interface is up; whether it was before.
pub fn interface_up(socket: &impl AsRawFd, name: &str, up: bool) -> io::Result<bool> {
    // SAFETY: integers and arrays of them, of which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request is alive, and its name ends with a zero; the kernel fills in the flags.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) }.into())?;
    // SAFETY: the call before has filled in this member.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let one = libc::IFF_UP as libc::c_short;
    request.ifr_ifru.ifru_flags = if up { flags | one } else { flags & !one };
    // SAFETY: the request is alive and whole; the kernel reads it.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) }.into())?;
    Ok(flags & one != 0)
}

/// Has a signal handled; the handler may only touch atomics.
pub fn handle(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    // SAFETY: of integers, a set of bits and an optional function pointer, for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: action is alive, and its handler is a function that stays.
    checked(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }.into()).map(drop)
}
