// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU for one thread: sessions with the isolator of the kernel (`/dev/isolator`, isolator(4)).
//!
//! ```text
//! Isolator ── start(mask) ──► Session ── stop, or drop
//!  open        this thread     its CPU is its own:
//!              and its CPU     tick, page, status
//! ```
//!
//! The thread must be pinned to one CPU, which is isolated and `nohz_full`. While it runs in user mode,
//! kernel work for the CPU that can wait waits; each system call is a moment at which that is done. A
//! [`Session`] ends when it is dropped, and with the thread, whatever ends that.
//!
//! The [`Page`] is how the kernel tells without being asked: what waits, what it put off, what it delivered
//! all the same (*breaches*), counted by kind. Reading it is no system call.

mod page;
pub mod reason;
mod uapi;

use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::ops::BitOr;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

pub use page::{Breach, Page, PageCounters, since};
pub use reason::Reason;

use crate::{Error, Result};

/// The device.
pub const DEVICE: &str = "/dev/isolator";

/// How long [`Isolator::start`] waits for a CPU that something else still needs the tick of.
pub const PATIENCE: Duration = Duration::from_millis(200);

/// The kinds of work to defer.
///
/// ```
/// use rt::isolation::Mask;
///
/// assert_eq!(Mask::CLOCK | Mask::RESCHED | Mask::IPI, Mask::DEFAULT);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask(u32);

impl Mask {
    /// Timers, reschedule requests, and calls of registered functions.
    pub const DEFAULT: Mask = Mask(uapi::MASK_DEFAULT);
    /// Timers of the CPU.
    pub const CLOCK: Mask = Mask(uapi::MASK_CLOCK);
    /// Requests for a context switch.
    pub const RESCHED: Mask = Mask(uapi::MASK_RESCHED);
    /// Calls of registered functions.
    pub const IPI: Mask = Mask(uapi::MASK_IPI);
    /// Flushes of unmapped vmalloc ranges too.
    pub const KTLB: Mask = Mask(uapi::MASK_KTLB);
    /// Refuse to start if another task can change the owner's address space.
    pub const EXCLUSIVE: Mask = Mask(uapi::MASK_EXCLUSIVE_MM);
    /// All of them.
    pub const ALL: Mask = Mask(uapi::MASK_ALL);

    /// The names that [`Mask::named`] takes.
    pub const NAMES: [(&str, Mask); 6] = [
        ("default", Mask::DEFAULT),
        ("clock", Mask::CLOCK),
        ("resched", Mask::RESCHED),
        ("ipi", Mask::IPI),
        ("ktlb", Mask::KTLB),
        ("exclusive", Mask::EXCLUSIVE),
    ];

    /// The mask of these bits, as in the kernel's header; the kernel refuses those that it does not know.
    ///
    /// ```
    /// use rt::isolation::Mask;
    ///
    /// assert_eq!(Mask::from_bits(1), Mask::CLOCK);
    /// ```
    pub const fn from_bits(bits: u32) -> Mask {
        Mask(bits)
    }

    /// Its bits, as in the kernel's header.
    ///
    /// ```
    /// use rt::isolation::Mask;
    ///
    /// assert_eq!(Mask::CLOCK.bits(), 1);
    /// ```
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The mask of names with commas between them: `default,ktlb`.
    ///
    /// ```
    /// use rt::isolation::Mask;
    ///
    /// assert_eq!(Mask::named("default,ktlb")?, Mask::DEFAULT | Mask::KTLB);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn named(names: &str) -> Result<Mask> {
        let one = |name: &str| {
            let found = Mask::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mask)| *mask);
            found.ok_or_else(|| {
                let known = Mask::NAMES.map(|(name, _)| name).join(", ");
                let why = "no deferral has that name";
                Error::new(format!("isolate with '{name}'"), why, format!("choose from {known}"))
            })
        };
        names.split(',').try_fold(Mask(0), |mask, name| Ok(mask | one(name)?))
    }
}

impl BitOr for Mask {
    type Output = Mask;

    fn bitor(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }
}

/// A tick's work besides deferred work.
///
/// ```
/// use rt::isolation::Tick;
///
/// println!("{:?}", Tick::SCHED | Tick::TSC_SYNC);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick(u32);

impl Tick {
    /// Deferred work alone.
    pub const WORK: Tick = Tick(0);
    /// Fire timers that are due, look at the tick, switch if asked to.
    pub const SCHED: Tick = Tick(uapi::TICK_SCHED);
    /// Sleep, as briefly as can be, until no task waits for this CPU.
    pub const RT: Tick = Tick(uapi::TICK_RT);
    /// Verify the time stamp counter.
    pub const TSC_SYNC: Tick = Tick(uapi::TICK_TSC_SYNC);
    /// All of them.
    pub const ALL: Tick = Tick(uapi::TICK_ALL);

    /// The tick of these bits, as in the kernel's header; the kernel refuses those that it does not know.
    ///
    /// ```
    /// use rt::isolation::Tick;
    ///
    /// assert_eq!(Tick::from_bits(0), Tick::WORK);
    /// ```
    pub const fn from_bits(bits: u32) -> Tick {
        Tick(bits)
    }

    /// Its bits, as in the kernel's header.
    ///
    /// ```
    /// use rt::isolation::Tick;
    ///
    /// assert_eq!(Tick::WORK.bits(), 0);
    /// ```
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Tick {
    type Output = Tick;

    fn bitor(self, other: Tick) -> Tick {
        Tick(self.0 | other.0)
    }
}

/// How a CPU stands.
///
/// ```
/// use rt::isolation::Isolator;
///
/// match Isolator::open().and_then(|isolator| isolator.status(Some(0))) {
///     Ok(status) if status.isolated => println!("cpu {} is isolated for {:?}", status.cpu, status.owner),
///     Ok(status) => println!("cpu {} is not isolated: {}", status.cpu, status.ended),
///     Err(error) => println!("{error}"),
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The CPU.
    pub cpu: u32,
    /// The owner's thread, if there is one that the caller may see.
    pub owner: Option<u32>,
    /// Whether it is isolated.
    pub isolated: bool,
    /// The longest time that work waits.
    pub max_defer_ms: u32,
    /// Why the last call was refused.
    pub refused: Reason,
    /// Why the last isolation ended.
    pub ended: Reason,
}

/// The device, opened by this process.
///
/// ```
/// use rt::isolation::{Isolator, Mask};
///
/// match Isolator::open().and_then(|isolator| isolator.start(Mask::DEFAULT)) {
///     Ok(session) => session.stop()?,
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Isolator(File);

impl Isolator {
    /// Opens the device.
    ///
    /// ```
    /// if let Err(error) = rt::isolation::Isolator::open() {
    ///     assert!(error.to_string().starts_with("cannot open /dev/isolator: "));
    /// }
    /// ```
    pub fn open() -> Result<Isolator> {
        let file = OpenOptions::new().read(true).write(true).open(DEVICE);
        file.map(Isolator).map_err(|error| {
            let cure = match error.kind() {
                io::ErrorKind::NotFound => {
                    "boot a kernel with the kernel part; isolator kernel build makes one"
                }
                _ => "run as root, or let this user open it",
            };
            Error::os(format!("open {DEVICE}"), &error, cure)
        })
    }

    /// Isolates the CPU that the calling thread is pinned to, for this thread. While something needs the
    /// tick, such as a kernel thread that runs there for a moment, it is asked again, for up to
    /// [`PATIENCE`].
    ///
    /// ```
    /// use rt::isolation::{Isolator, Mask};
    ///
    /// match Isolator::open().and_then(|isolator| isolator.start(Mask::DEFAULT | Mask::EXCLUSIVE)) {
    ///     Ok(session) => println!("{:?}", session.status()?),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn start(self, mask: Mask) -> Result<Session> {
        let cpu = self.status(None)?.cpu;
        let page = self.page(cpu)?;
        let asked = Instant::now();
        loop {
            match self.call(uapi::IOC_START, mask.0) {
                Ok(()) => return Ok(Session { isolator: self, page, _this_thread: PhantomData }),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && asked.elapsed() < PATIENCE => {
                    thread::sleep(PATIENCE / 100);
                }
                Err(error) => return Err(self.refused(format!("isolate cpu {cpu}"), &error)),
            }
        }
    }

    /// How a CPU stands; the caller's where none is named.
    ///
    /// ```
    /// if let Ok(isolator) = rt::isolation::Isolator::open() {
    ///     println!("this thread's CPU: {:?}", isolator.status(None)?);
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn status(&self, cpu: Option<u32>) -> Result<Status> {
        let raw = self.raw_status(cpu).map_err(|error| {
            let what =
                cpu.map_or("ask the isolator".to_string(), |cpu| format!("ask the isolator of cpu {cpu}"));
            Error::os(what, &error, "use a kernel and a program of the same version")
        })?;
        Ok(Status {
            cpu: raw.cpu,
            owner: u32::try_from(raw.owner).ok().filter(|owner| *owner > 0),
            isolated: raw.mask != 0,
            max_defer_ms: raw.max_defer_ms,
            refused: Reason(raw.refused),
            ended: Reason(raw.ended),
        })
    }

    /// A CPU's page.
    ///
    /// ```
    /// if let Ok(isolator) = rt::isolation::Isolator::open() {
    ///     println!("{:?}", isolator.page(0)?.counters());
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn page(&self, cpu: u32) -> Result<Page> {
        Page::map(&self.0, cpu)
    }

    /// A call with its argument by value.
    fn call(&self, request: rustix::ioctl::Opcode, argument: u32) -> io::Result<()> {
        let argument = libc::c_ulong::from(argument);
        // SAFETY: these requests take a number and touch no memory of ours.
        let status = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn raw_status(&self, cpu: Option<u32>) -> io::Result<uapi::IsolatorStatus> {
        let mut status = uapi::IsolatorStatus {
            size: size_of::<uapi::IsolatorStatus>() as u32,
            cpu: cpu.unwrap_or(uapi::THIS_CPU),
            owner: 0,
            mask: 0,
            pending: 0,
            max_defer_ms: 0,
            refused: 0,
            ended: 0,
            reserved: [0; 4],
            text: [0; 96],
        };
        // SAFETY: status is live and writable for the size that it names, which is the one that the request
        // encodes.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), uapi::IOC_STATUS as _, &raw mut status) };
        if answer == 0 { Ok(status) } else { Err(io::Error::last_os_error()) }
    }

    /// The kernel's refusal, with the cure.
    fn refused(&self, what: String, error: &io::Error) -> Error {
        let reason = self.raw_status(None).map(|status| Reason(status.refused)).unwrap_or(Reason(0));
        match reason {
            Reason(0) => Error::os(what, error, "see the kernel's log"),
            reason => Error {
                errno: error.raw_os_error().unwrap_or(0),
                ..Error::new(what, reason.text(), reason.cure())
            },
        }
    }
}

/// An isolated CPU. It belongs to the thread that started it, and stays with it.
///
/// ```
/// use rt::isolation::{self, Mask, Tick};
///
/// if let Ok(session) = isolation::start(Mask::DEFAULT) {
///     for _ in 0..1_000 {
///         // The loop's work; then what others deferred, if anything.
///         if session.page().waits() {
///             session.tick(Tick::WORK)?;
///         }
///     }
///     session.stop()?;
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    isolator: Isolator,
    page: Page,
    /// Not to be sent: the kernel knows one owner.
    _this_thread: PhantomData<*const ()>,
}

/// Opens the device and isolates the CPU that the calling thread is pinned to.
///
/// ```
/// match rt::isolation::start(rt::isolation::Mask::DEFAULT) {
///     Ok(session) => session.stop()?,
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), rt::Error>(())
/// ```
pub fn start(mask: Mask) -> Result<Session> {
    Isolator::open()?.start(mask)
}

impl Session {
    /// Has the work done that waits, and what `what` adds.
    ///
    /// ```
    /// use rt::isolation::{self, Mask, Tick};
    ///
    /// if let Ok(session) = isolation::start(Mask::DEFAULT) {
    ///     session.tick(Tick::SCHED)?;
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn tick(&self, what: Tick) -> Result<()> {
        let tick = self.isolator.call(uapi::IOC_TICK, what.0);
        tick.map_err(|error| self.isolator.refused("tick".into(), &error))
    }

    /// The CPU's page.
    ///
    /// ```
    /// use rt::isolation::{self, Mask};
    ///
    /// if let Ok(session) = isolation::start(Mask::DEFAULT) {
    ///     assert!(session.page().isolated());
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// How the CPU stands.
    ///
    /// ```
    /// use rt::isolation::{self, Mask};
    ///
    /// if let Ok(session) = isolation::start(Mask::DEFAULT) {
    ///     assert!(session.status()?.isolated);
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn status(&self) -> Result<Status> {
        self.isolator.status(None)
    }

    /// Ends the isolation; says where the kernel had ended it already.
    ///
    /// ```
    /// use rt::isolation::{self, Mask};
    ///
    /// if let Ok(session) = isolation::start(Mask::DEFAULT) {
    ///     session.stop()?;
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn stop(self) -> Result<()> {
        let stopped = self.isolator.call(uapi::IOC_STOP, 0);
        stopped.map_err(|error| {
            let ended = self.isolator.status(None).map_or(Reason(0), |status| status.ended);
            match ended {
                Reason(0) => self.isolator.refused("stop the isolation".into(), &error),
                ended => Error::new("stop the isolation", format!("it had ended: {ended}"), ended.cure()),
            }
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // After `stop`, and where the kernel has ended it already, there is nothing left to stop.
        let _ = self.isolator.call(uapi::IOC_STOP, 0);
    }
}

/// The folder of the kernel part, for tests that compare with it. The published crate has none: its licence
/// is another.
#[cfg(test)]
fn kernel_sources() -> Option<std::path::PathBuf> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel");
    if !folder.exists() {
        println!("skipped: there is no {}", folder.display());
        return None;
    }
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_by_their_names() {
        assert_eq!(Mask::named("default"), Ok(Mask::CLOCK | Mask::RESCHED | Mask::IPI));
        assert_eq!(Mask::named("clock,ktlb"), Ok(Mask::CLOCK | Mask::KTLB));
        assert_eq!(
            Mask::named("default,tlb").unwrap_err().to_string(),
            "cannot isolate with 'tlb': no deferral has that name; choose from default, clock, resched, ipi, ktlb, exclusive"
        );
    }

    #[test]
    fn without_the_device_the_cure_is_a_kernel_that_has_it() {
        if !std::path::Path::new(DEVICE).exists() {
            let error = start(Mask::DEFAULT).unwrap_err().to_string();
            let cure = "no such file or directory; boot a kernel with the kernel part; isolator kernel build makes one";
            assert_eq!(error, format!("cannot open {DEVICE}: {cure}"));
        }
    }
}
