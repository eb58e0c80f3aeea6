// SPDX-License-Identifier: MIT OR Apache-2.0
//! A SubDevice's distributed clock: a local clock that drifts, the system time made of it, and SYNC0.
//!
//! The control loop is proportional and integral: of each difference to the reference a quarter is taken back
//! at once, at the most 1 us, and a part goes into the speed. Real controllers do likewise, with parameters
//! of their own. Reference: ETG.1000.4, 6.8.

/// At the most so much of a difference is taken back at once.
const LARGEST_STEP_NS: i64 = 1_000;
/// A difference above this is no drift but a clock that was not set yet.
const LOCKED_NS: i64 = 100_000;
/// The speed changes by this part of what the difference would ask for.
const SPEED_SHARE: i64 = 64;
/// A clock runs off by less than this.
const LARGEST_SPEED_PPB: i64 = 200_000;

const GIGA: i128 = 1_000_000_000;

/// The clock.
#[derive(Debug, Clone)]
pub struct DeviceClock {
    /// How much faster it runs than the given clock, in parts per billion.
    drift_ppb: i64,
    /// How much the control loop adds to that.
    speed_ppb: i64,
    /// When it was last looked at.
    at_ns: u64,
    local_ns: u64,
    /// Parts of a nanosecond that are not counted yet, in billionths.
    rest: i128,
    /// When it was last compared with the reference.
    compared_ns: Option<u64>,
}

impl DeviceClock {
    /// One that shows `local_ns` at the given clock's beginning.
    pub fn new(local_ns: u64, drift_ppb: i64) -> DeviceClock {
        DeviceClock { drift_ppb, speed_ppb: 0, at_ns: 0, local_ns, rest: 0, compared_ns: None }
    }

    /// Lets it run until `now_ns` of the given clock, and says what it shows then.
    pub fn show(&mut self, now_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        let billionths =
            i128::from(passed) * (GIGA + i128::from(self.drift_ppb + self.speed_ppb)) + self.rest;
        self.rest = billionths.rem_euclid(GIGA);
        self.local_ns = self.local_ns.wrapping_add(billionths.div_euclid(GIGA) as u64);
        self.local_ns
    }

    /// Compares it with the reference, whose time differs by that now, and corrects it.
    pub fn correct(&mut self, difference_ns: i64, now_ns: u64) {
        let step = (difference_ns / 4).clamp(-LARGEST_STEP_NS, LARGEST_STEP_NS);
        self.local_ns = self.local_ns.wrapping_add_signed(-step);
        let since = self.compared_ns.replace(now_ns).map_or(0, |then| now_ns.saturating_sub(then));
        if since > 0 && difference_ns.abs() < LOCKED_NS {
            let asked = i128::from(difference_ns) * GIGA / i128::from(since) / i128::from(SPEED_SHARE);
            let asked = asked.clamp(-i128::from(LARGEST_SPEED_PPB), i128::from(LARGEST_SPEED_PPB)) as i64;
            self.speed_ppb = (self.speed_ppb - asked).clamp(-LARGEST_SPEED_PPB, LARGEST_SPEED_PPB);
        }
    }

    /// Forgets what it learnt of the reference.
    pub fn reset(&mut self) {
        (self.speed_ppb, self.compared_ns) = (0, None);
    }
}

/// SYNC0: pulses at fixed system times, and whether outputs came in time for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sync {
    /// The last pulse that was looked at, by its number.
    last: Option<u64>,
    /// Pulses before which new outputs had come.
    pub hits: u64,
    /// Pulses before which none had.
    pub misses: u64,
    /// Outputs that came after others, without a pulse between them: the earlier ones were never used.
    pub extra: u64,
}

impl Sync {
    /// Outputs came at that system time, with SYNC0 begun at `start_ns` and every `cycle_ns`.
    pub fn outputs(&mut self, system_ns: u64, start_ns: u64, cycle_ns: u64) {
        let Some(since) = system_ns.checked_sub(start_ns).filter(|_| cycle_ns > 0) else { return };
        let pulse = since / cycle_ns;
        if let Some(last) = self.last {
            match pulse.saturating_sub(last) {
                0 => self.extra += 1,
                pulses => {
                    self.hits += 1;
                    self.misses += pulses - 1;
                }
            }
        }
        self.last = Some(pulse);
    }

    /// The next pulse begins anew: pulses between are not counted.
    pub fn pause(&mut self) {
        self.last = None;
    }
}
