// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor's counter.

use std::ffi::c_int;
use std::time::Duration;

use rt::clock::{self, Calibration};

use crate::error::{call, null};

/// Half of the time that a calibration takes.
const HALF: Duration = Duration::from_millis(20);

/// How the processor's counter (TSC, CNTVCT_EL0) relates to CLOCK_MONOTONIC.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct isolator_clock {
    /// Ticks in a second.
    pub hz: u64,
    /// Nanoseconds are ticks * multiplier / 2^32.
    pub multiplier: u64,
}

/// Calibrate the counter.
///
/// # Safety
/// `clock` points to a struct that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_clock_calibrate(clock: *mut isolator_clock) -> c_int {
    call(|| {
        if clock.is_null() {
            return Err(null("calibrate the counter"));
        }
        let unstable = |error| rt::Error { errno: libc::ENOTSUP, ..error };
        clock::invariant().map_err(unstable)?;
        let calibration = Calibration::measure(HALF).map_err(unstable)?;
        // SAFETY: the caller promises that it can be written.
        unsafe { clock.write(isolator_clock { hz: calibration.hz, multiplier: calibration.multiplier() }) };
        Ok(0)
    })
}

/// Read the counter.
#[unsafe(no_mangle)]
pub extern "C" fn isolator_clock_ticks() -> u64 {
    clock::counter()
}

/// Convert a number of ticks that went by to nanoseconds.
///
/// # Safety
/// `clock` is one that isolator_clock_calibrate() has filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_clock_duration_ns(clock: *const isolator_clock, ticks: u64) -> u64 {
    // SAFETY: the caller promises that it is one, or NULL.
    let multiplier = unsafe { clock.as_ref() }.map_or(0, |clock| clock.multiplier);
    ((u128::from(ticks) * u128::from(multiplier)) >> 32) as u64
}

/// Get the time of CLOCK_MONOTONIC at which the counter was read.
///
/// # Safety
/// As isolator_clock_duration_ns().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_clock_monotonic_ns(clock: *const isolator_clock, ticks: u64) -> u64 {
    // SAFETY: the caller promises that it is one, or NULL.
    let calibrated = unsafe { clock.as_ref() };
    calibrated.map_or(0, |clock| Calibration::of(clock.hz, clock.multiplier).monotonic_ns(ticks))
}

/// isolator_clock_duration_ns() by the name that it had. Programs took its result for a time, which it is
/// not: an error of the calibration grows with the time since boot. The header has it no more.
///
/// # Safety
/// As isolator_clock_duration_ns().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isolator_clock_ns(clock: *const isolator_clock, ticks: u64) -> u64 {
    // SAFETY: what the caller promises.
    unsafe { isolator_clock_duration_ns(clock, ticks) }
}
