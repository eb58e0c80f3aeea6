// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF programs at instructions of another program: uprobes, by the kernel's PMU for them
//! (`perf_event_open(2)`, `/sys/bus/event_source/devices/uprobe`).
//!
//! A probe goes with its descriptor, however this process ends. The BPF loader makes probes too, but none
//! with a counter, which programs with USDT probes look at before they come to one.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{Error, Result};

const DEVICE: &str = "/sys/bus/event_source/devices/uprobe";

/// `PERF_ATTR_SIZE_VER1`: up to `config2` (include/uapi/linux/perf_event.h).
const ATTRIBUTES: u32 = 72;

/// `PERF_FLAG_FD_CLOEXEC`
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// `_IOW('$', 8, __u32)` and `_IO('$', 0)`: those of the architectures that this program is built for.
const SET_BPF: u64 = 0x4004_2408;
const ENABLE: u64 = 0x2400;

/// The kernel's own error for an instruction that cannot be probed; the C library has no name for it.
const NOT_SUPPORTED: i32 = 524;

/// Where the number of a counter begins in `config` (the device's `format/ref_ctr_offset`).
const COUNTER_SHIFT: u32 = 32;

/// An instruction of a file of code.
///
/// ```
/// use rt::uprobe::UprobePlace;
///
/// let place = UprobePlace { file: "/bin/true".as_ref(), offset: 0x1000, counter: None, is_return: false };
/// assert!(!place.is_return);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UprobePlace<'a> {
    /// The file.
    pub file: &'a Path,
    /// Where the instruction lies in it: of a function the first one.
    pub offset: u64,
    /// Where in the file a number of 16 bits lies that is one higher while the probe is there: the semaphore
    /// of a USDT probe.
    pub counter: Option<u32>,
    /// Whether the return of the function is meant that begins there.
    pub is_return: bool,
}

/// A probe in one process, as long as the value lives.
///
/// ```
/// use rt::uprobe::{Uprobe, UprobePlace};
/// use std::os::fd::AsFd;
///
/// // No BPF program is at hand here: the kernel refuses any other file.
/// let place = UprobePlace { file: "/bin/true".as_ref(), offset: 0x1000, counter: None, is_return: false };
/// let file = std::fs::File::open("/dev/null").unwrap();
/// assert!(Uprobe::attach(place, std::process::id(), file.as_fd()).is_err());
/// ```
#[derive(Debug)]
pub struct Uprobe {
    _event: OwnedFd,
}

impl Uprobe {
    /// Has a BPF program, by its descriptor, run whenever a thread of the process of `thread` comes to the
    /// place.
    ///
    /// ```
    /// use rt::uprobe::{Uprobe, UprobePlace};
    /// use std::os::fd::AsFd;
    ///
    /// let place = UprobePlace { file: "/none".as_ref(), offset: 0, counter: None, is_return: true };
    /// let file = std::fs::File::open("/dev/null").unwrap();
    /// assert!(Uprobe::attach(place, std::process::id(), file.as_fd()).is_err());
    /// ```
    pub fn attach(place: UprobePlace<'_>, thread: u32, program: BorrowedFd<'_>) -> Result<Uprobe> {
        let refused = |error: io::Error| {
            let what = format!("probe {} at {:#x}", place.file.display(), place.offset);
            match error.raw_os_error() {
                Some(NOT_SUPPORTED) => Error::new(
                    what,
                    "the kernel can probe no such instruction",
                    "name another place of the program",
                ),
                Some(libc::EACCES | libc::EPERM) => {
                    Error::os(what, &error, "run as root, or with CAP_SYS_ADMIN")
                }
                _ => Error::os(what, &error, "name another place of the program"),
            }
        };
        let file = CString::new(place.file.as_os_str().as_bytes()).map_err(|error| refused(error.into()))?;
        let device = fs::read_to_string(format!("{DEVICE}/type")).ok();
        let kind: u32 = device.and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
            Error::new(
                "probe a program",
                format!("this kernel has no uprobes: there is no {DEVICE}"),
                "boot a kernel with CONFIG_UPROBE_EVENTS",
            )
        })?;
        let event = open(&file, kind, place, thread).map_err(refused)?;
        // SAFETY: the event is open, and the request takes the number of a descriptor, which is open too.
        let set = unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF as _, program.as_raw_fd()) };
        // SAFETY: the event is open, and 0 asks for this event alone.
        if set < 0 || unsafe { libc::ioctl(event.as_raw_fd(), ENABLE as _, 0) } < 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        Ok(Uprobe { _event: event })
    }
}

/// The event of a place, in the process of a thread, on all CPUs.
fn open(file: &CString, kind: u32, place: UprobePlace<'_>, thread: u32) -> io::Result<OwnedFd> {
    let low_first = |low: u32, high: u32| match cfg!(target_endian = "little") {
        true => u64::from(high) << 32 | u64::from(low),
        false => u64::from(low) << 32 | u64::from(high),
    };
    let config = u64::from(place.is_return) | u64::from(place.counter.unwrap_or(0)) << COUNTER_SHIFT;
    let path = file.as_ptr() as u64;
    // Type and size, config; period, samples, format, flags, wakeups; config1 and config2.
    let attributes: [u64; 9] = [low_first(kind, ATTRIBUTES), config, 0, 0, 0, 0, 0, path, place.offset];
    // SAFETY: `attributes` is a perf_event_attr of the size it states; it and the path in it, which ends with
    // a zero, outlive the call. CPU -1 asks for all CPUs, group -1 for none.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            libc::c_long::from(thread as i32),
            -1 as libc::c_long,
            -1 as libc::c_long,
            CLOSE_ON_EXEC,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made the descriptor for this process, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
