// SPDX-License-Identifier: MIT OR Apache-2.0
//! CLOCK_MONOTONIC, and the processor's own counter (TSC, CNTVCT_EL0) calibrated against it.

use std::time::Duration;

use rustix::time::{ClockId, Timespec};

use crate::{Error, Result};

/// Nanoseconds of CLOCK_MONOTONIC, by the C library: its vDSO path also works under valgrind, where rustix's
/// finds a vDSO that is not there.
///
/// ```
/// use rt::clock::monotonic_ns;
///
/// let began_ns = monotonic_ns();
/// assert!(monotonic_ns() >= began_ns);
/// ```
#[inline(always)]
pub fn monotonic_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of CLOCK_MONOTONIC_RAW, which is never slewed.
///
/// ```
/// assert!(rt::clock::raw_ns() > 0);
/// ```
pub fn raw_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// Nanoseconds of CLOCK_BOOTTIME, which goes on while the machine sleeps.
///
/// ```
/// assert!(rt::clock::boottime_ns() > 0);
/// ```
pub fn boottime_ns() -> u64 {
    now_ns(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds of CLOCK_REALTIME, since 1970, which may be set.
///
/// ```
/// assert!(rt::clock::realtime_ns() > 1_700_000_000_000_000_000);
/// ```
pub fn realtime_ns() -> u64 {
    now_ns(libc::CLOCK_REALTIME)
}

/// By the C library, which valgrind knows: what reads the kernel's page by itself ends there.
#[inline(always)]
fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: now is a live timespec, which the call fills; with these clocks it cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `ns` of CLOCK_MONOTONIC as the kernel takes it.
///
/// ```
/// let second_and_a_half = rt::clock::timespec(1_500_000_000);
/// assert_eq!((second_and_a_half.tv_sec, second_and_a_half.tv_nsec), (1, 500_000_000));
/// ```
#[inline(always)]
pub fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Resolution of CLOCK_MONOTONIC timers in nanoseconds: 1 with high-resolution timers, a tick without.
///
/// ```
/// if rt::clock::resolution_ns() > 1 {
///     println!("this kernel has no high-resolution timers");
/// }
/// ```
pub fn resolution_ns() -> u64 {
    let resolution = rustix::time::clock_getres(ClockId::Monotonic);
    resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64
}

/// The processor's counter, now.
///
/// ```
/// let began = rt::clock::counter();
/// assert!(rt::clock::counter() >= began);
/// ```
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: RDTSC has no precondition in user space; a kernel that forbids it (prctl PR_SET_TSC) is not met
    // here, since the process would have to ask for that itself.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The processor's counter, now.
///
/// ```
/// let began = rt::clock::counter();
/// assert!(rt::clock::counter() >= began);
/// ```
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn counter() -> u64 {
    let value: u64;
    // SAFETY: reads a register that Linux lets user space read; touches neither memory nor flags.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags))
    };
    value
}

/// Whether the processor says that its counter runs at one rate in all power states (CPUID 0x80000007, EDX
/// bit 8), or the kernel keeps its own time by it. On arm64 the architecture promises it.
///
/// ```
/// match rt::clock::invariant() {
///     Ok(()) => println!("ticks can be converted to nanoseconds"),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub fn invariant() -> Result<()> {
    if processor_promises() || kernel_keeps_time_by_it() {
        return Ok(());
    }
    Err(Error::new(
        "trust the processor's counter",
        "the processor does not report it as invariant, and the kernel does not use it as clocksource",
        "use CLOCK_MONOTONIC, or a machine with an invariant counter",
    ))
}

#[cfg(target_arch = "x86_64")]
fn processor_promises() -> bool {
    use core::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
}

#[cfg(target_arch = "aarch64")]
fn processor_promises() -> bool {
    true
}

fn kernel_keeps_time_by_it() -> bool {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|source| source.trim() == "tsc")
}

/// How the counter relates to CLOCK_MONOTONIC: nanoseconds are `ticks * multiplier / 2^32`.
///
/// ```
/// use rt::clock::{Calibration, counter};
///
/// let calibration = Calibration::from_hz(2_000_000_000);
/// let (began, ended) = (counter(), counter());
/// println!("{} ns", calibration.ns(ended.saturating_sub(began)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Ticks in a second.
    pub hz: u64,
    multiplier: u64,
}

/// Two calibrations that differ by more than this show a counter that cannot be trusted.
const LARGEST_DRIFT: f64 = 1e-4;

/// How often it may have differed before it is refused.
const TRIES: usize = 8;

impl Calibration {
    /// Calibrates over twice `length`; refuses a counter whose rate keeps differing between two halves. A
    /// kernel that has just booted refines its own idea of the rate once, a second or two later: that is
    /// waited for.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// match rt::clock::Calibration::measure(Duration::from_millis(5)) {
    ///     Ok(calibration) => println!("{} ticks a second", calibration.hz),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn measure(length: Duration) -> Result<Calibration> {
        let (mut first, mut drift) = (rate(length), f64::NAN);
        for _ in 0..TRIES {
            let second = rate(length);
            drift = (first / second - 1.0).abs();
            if drift <= LARGEST_DRIFT {
                return Ok(Self::from_hz(((first + second) / 2.0) as u64));
            }
            first = second;
        }
        let why = format!("its rate changed by {:.4} % against CLOCK_MONOTONIC", drift * 100.0);
        Err(Error::new(
            "trust the processor's counter",
            why,
            "use a machine with an invariant counter, or the wakeup probe",
        ))
    }

    /// A calibration from a known rate.
    ///
    /// ```
    /// assert_eq!(rt::clock::Calibration::from_hz(1_000_000_000).ns(7), 7);
    /// ```
    pub fn from_hz(hz: u64) -> Calibration {
        Calibration { hz, multiplier: ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64 }
    }

    /// The multiplier of ticks, before 32 bits are dropped.
    ///
    /// ```
    /// // One nanosecond a tick, times 2^32.
    /// assert_eq!(rt::clock::Calibration::from_hz(1_000_000_000).multiplier(), 1 << 32);
    /// ```
    pub fn multiplier(&self) -> u64 {
        self.multiplier
    }

    /// Ticks as nanoseconds.
    ///
    /// ```
    /// assert_eq!(rt::clock::Calibration::from_hz(2_000_000_000).ns(3_000), 1_500);
    /// ```
    #[inline(always)]
    pub fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.multiplier)) >> 32) as u64
    }

    /// CLOCK_MONOTONIC when the counter stood at `ticks`: counted from both clocks as they stand now, so that
    /// an error of the calibration matters for the ticks between alone.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::clock::{Calibration, counter, monotonic_ns};
    ///
    /// if let Ok(calibration) = Calibration::measure(Duration::from_millis(5)) {
    ///     let read_ns = calibration.monotonic_ns(counter());
    ///     println!("{} ns ago", monotonic_ns().saturating_sub(read_ns));
    /// }
    /// ```
    pub fn monotonic_ns(&self, ticks: u64) -> u64 {
        let (now_ns, now) = paired_within(self.ticks(NARROW_NS));
        match now.checked_sub(ticks) {
            Some(before) => now_ns.saturating_sub(self.ns(before)),
            None => now_ns.saturating_add(self.ns(ticks - now)),
        }
    }

    /// An earlier calibration, by its multiplier.
    ///
    /// ```
    /// use rt::clock::Calibration;
    ///
    /// let before = Calibration::from_hz(2_000_000_000);
    /// assert_eq!(Calibration::of(before.hz, before.multiplier()), before);
    /// ```
    pub fn of(hz: u64, multiplier: u64) -> Calibration {
        Calibration { hz, multiplier }
    }

    /// Nanoseconds as ticks, rounded down.
    ///
    /// ```
    /// assert_eq!(rt::clock::Calibration::from_hz(2_000_000_000).ticks(1_500), 3_000);
    /// ```
    pub fn ticks(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.hz) / 1_000_000_000) as u64
    }
}

/// Ticks a second, over `length`.
fn rate(length: Duration) -> f64 {
    let (start_ns, start) = paired();
    std::thread::sleep(length);
    let (end_ns, end) = paired();
    (end - start) as f64 / (end_ns - start_ns) as f64 * 1e9
}

/// Both clocks at one moment: the narrowest of a few tries, so that a preemption between them does no harm.
///
/// ```
/// let (began_ns, began) = rt::clock::paired();
/// let (ended_ns, ended) = rt::clock::paired();
/// println!("{} ticks in {} ns", ended - began, ended_ns - began_ns);
/// ```
pub fn paired() -> (u64, u64) {
    paired_within(0)
}

/// Two looks at the counter with one at the clock between them that lie so close together suffice.
const NARROW_NS: u64 = 500;

/// The first try that is no wider than `narrow` ticks, or the narrowest.
fn paired_within(narrow: u64) -> (u64, u64) {
    let (mut narrowest, mut best) = (u64::MAX, (0, 0));
    for _ in 0..16 {
        let before = counter();
        let ns = monotonic_ns();
        let width = counter().saturating_sub(before);
        if width < narrowest {
            (narrowest, best) = (width, (ns, before + width / 2));
        }
        if narrowest <= narrow {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_convert_back_and_forth() {
        for hz in [19_200_000, 24_000_000, 1_000_000_000, 2_100_000_000, 5_700_000_000] {
            let calibration = Calibration::from_hz(hz);
            for ns in [0, 1_000, 999_999, 86_400_000_000_000u64] {
                let back = calibration.ns(calibration.ticks(ns));
                let tick_ns = 1_000_000_000 / hz + 1;
                assert!(back <= ns && ns - back <= tick_ns + ns / 1_000_000, "{hz} Hz: {ns} became {back}");
            }
        }
    }

    #[test]
    fn the_counter_never_runs_backwards_against_the_clock() {
        let (ns, ticks) = paired();
        let (later_ns, later) = paired();
        assert!(later > ticks && later_ns >= ns);
    }
}
