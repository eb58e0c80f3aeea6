// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's clocks during a row: whether it slept, its wall clock was set, or the clock by which samples
//! are measured was slewed.
//!
//! A time daemon that corrects the wall clock slews CLOCK_MONOTONIC too: chrony by up to 8.3 %, adjtimex() by
//! up to 10 %. Latencies and periods are then shorter or longer than in real time. The kernel never slews
//! CLOCK_MONOTONIC_RAW. A host can slew both in a guest. There the processor's counter tells, where the
//! kernel trusts it but keeps time by another clock. Figures stay as they are: a histogram holds no times,
//! and the rate between two polls is not known. The taint says how wrong they are by the worst poll.
//!
//! Limits: a slew that starts or ends between two polls counts by the mean rate of that time. A clock that a
//! host slews from the row's start on is not found, since the counter's own rate is not known.

use rt::clock::{boottime_ns, counter, monotonic_ns, raw_ns, realtime_ns};

/// The kernel's clock now, and those that it could use.
pub(super) const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The names under which kernels keep time by the processor's counter.
const COUNTERS: [&str; 2] = ["tsc", "arch_sys_counter"];

/// Clocks that differ by less have not been set: they are read one after the other.
const APART_NS: i128 = 1_000_000;

/// A clock whose rate differs by less was not slewed: histograms are as coarse, and the lasting correction of
/// a clock's own error is at most half of it (`MAXFREQ`, include/linux/timex.h).
const LARGEST_SLEW: f64 = 1e-3;

/// How often the clocks are read at a poll; the reading that took least counts.
const READINGS: usize = 5;

/// The clocks at one moment, and how long it took to read them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Clocks {
    monotonic_ns: i128,
    raw_ns: i128,
    /// CLOCK_BOOTTIME, which goes on while the machine sleeps, less CLOCK_MONOTONIC.
    boot_ns: i128,
    /// CLOCK_REALTIME less CLOCK_BOOTTIME.
    wall_ns: i128,
    ticks: u64,
    width_ns: i128,
}

impl Clocks {
    fn now() -> Clocks {
        let read = || {
            let before = i128::from(monotonic_ns());
            let (raw_ns, ticks) = (i128::from(raw_ns()), counter());
            let (boot, wall) = (i128::from(boottime_ns()), i128::from(realtime_ns()));
            let width_ns = i128::from(monotonic_ns()) - before;
            let (boot_ns, wall_ns) = (boot - before, wall - boot);
            Clocks { monotonic_ns: before, raw_ns, boot_ns, wall_ns, ticks, width_ns }
        };
        let first = read();
        (1..READINGS)
            .map(|_| read())
            .fold(first, |best, next| if next.width_ns < best.width_ns { next } else { best })
    }
}

/// The watch over the clocks.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    last: Clocks,
    /// Whether the counter is another clock than the kernel's, and to be trusted.
    has_counter: bool,
    /// Ticks of the counter in a nanosecond of CLOCK_MONOTONIC_RAW, at first.
    ticks_a_ns: Option<f64>,
    slept_ns: i128,
    set_ns: i128,
    /// CLOCK_MONOTONIC against CLOCK_MONOTONIC_RAW, and that against the counter.
    slewed: Slew,
    apart: Slew,
}

/// How much too fast a clock ran at the worst, and the length of the polls in which it ran too fast or slow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Slew {
    worst: f64,
    length_ns: i128,
}

impl Slew {
    /// Takes in that one clock ran for `ran_ns` while the true one did for `true_ns`, known to `width_ns`.
    fn add(&mut self, ran_ns: f64, true_ns: f64, width_ns: i128) {
        let ahead_ns = ran_ns - true_ns;
        if true_ns > 0.0 && ahead_ns.abs() > LARGEST_SLEW * true_ns + width_ns as f64 {
            let rate = ahead_ns / true_ns;
            self.length_ns += true_ns as i128;
            self.worst = if rate.abs() > self.worst.abs() { rate } else { self.worst };
        }
    }

    /// `10.0 % too slow within 8.000 s`: of each poll the whole time counts.
    fn text(&self) -> Option<String> {
        let way = if self.worst > 0.0 { "fast" } else { "slow" };
        let share = self.worst.abs() * 100.0;
        (self.length_ns > 0).then(|| format!("{share:.1} % too {way} within {}", seconds(self.length_ns)))
    }
}

impl ClockWatch {
    pub fn now() -> ClockWatch {
        let is_counter = |clock: &str| COUNTERS.contains(&clock);
        let [current, available] = [CLOCK, AVAILABLE].map(|path| word(path).unwrap_or_default());
        let has_counter = available.split(' ').any(is_counter) && !is_counter(&current);
        ClockWatch { last: Clocks::now(), has_counter, ..ClockWatch::default() }
    }

    pub fn poll(&mut self) {
        self.take(Clocks::now());
    }

    fn take(&mut self, now: Clocks) {
        let before = std::mem::replace(&mut self.last, now);
        let width_ns = now.width_ns + before.width_ns;
        let beyond = |ns: i128| if ns.abs() > APART_NS + width_ns { ns } else { 0 };
        let slept_ns = beyond(now.boot_ns - before.boot_ns);
        self.slept_ns += slept_ns;
        self.set_ns += beyond(now.wall_ns - before.wall_ns);
        let raw_ns = (now.raw_ns - before.raw_ns) as f64;
        self.slewed.add((now.monotonic_ns - before.monotonic_ns) as f64, raw_ns, width_ns);
        // The counter goes on while the machine sleeps, or begins anew.
        if self.has_counter && slept_ns == 0 && width_ns as f64 <= LARGEST_SLEW / 2.0 * raw_ns {
            let ticks = now.ticks.wrapping_sub(before.ticks) as f64;
            let ticks_a_ns = *self.ticks_a_ns.get_or_insert(ticks / raw_ns);
            self.apart.add(raw_ns, ticks / ticks_a_ns, width_ns);
        }
    }

    /// For how long the machine slept, in words.
    pub fn slept(&self) -> Option<String> {
        (self.slept_ns > 0)
            .then(|| format!("the machine slept for {} while it was measured", seconds(self.slept_ns)))
    }

    /// How the clock was slewed, in words.
    pub fn slewed(&self) -> Option<String> {
        if let Some(text) = self.slewed.text() {
            // What a clock that ran at this rate shows as one.
            let off = 1.0 / (1.0 + self.slewed.worst) - 1.0;
            let way = if off > 0.0 { "longer" } else { "shorter" };
            let off = off.abs() * 100.0;
            return Some(format!(
                "CLOCK_MONOTONIC was slewed while it was measured: it ran up to {text}, against CLOCK_MONOTONIC_RAW; \
                 real latencies and periods were up to {off:.1} % {way} than stated"
            ));
        }
        let text = self.apart.text()?;
        Some(format!(
            "the kernel's clock ran up to {text}, against the processor's counter and the rate at first"
        ))
    }

    /// Whether the wall clock was set, in words.
    pub fn set(&self) -> Option<String> {
        (self.set_ns != 0).then(|| {
            let way = if self.set_ns > 0 { "forward" } else { "back" };
            format!(
                "the wall clock was set {way} by {} meanwhile: times of day before that are by the old one; latencies are by \
                 CLOCK_MONOTONIC and are not touched",
                seconds(self.set_ns)
            )
        })
    }
}

/// The only line of a file, if it can be read.
pub(super) fn word(path: &str) -> Option<String> {
    untrusted::text(path).ok().map(|text| text.trim().to_string())
}

pub(super) fn seconds(ns: i128) -> String {
    format!("{:.3} s", ns.unsigned_abs() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i128 = 1_000_000_000;

    fn watch() -> ClockWatch {
        ClockWatch { has_counter: true, ..ClockWatch::default() }
    }

    /// The clocks after `raw_ns`, with a counter of 2 GHz.
    fn after(raw_ns: i128, monotonic_ns: i128) -> Clocks {
        Clocks { monotonic_ns, raw_ns, ticks: 2 * raw_ns as u64, width_ns: 50_000, ..Clocks::default() }
    }

    /// The words after each second in which CLOCK_MONOTONIC ran at one of these rates.
    fn slewed_at(rates: &[f64]) -> Option<String> {
        let (mut watch, mut monotonic_ns) = (watch(), 0);
        for (second, rate) in (1..).zip(rates) {
            monotonic_ns += (rate * 1e9) as i128;
            watch.take(after(second * SECOND_NS, monotonic_ns));
        }
        watch.slewed()
    }

    #[test]
    fn live_clocks_that_are_left_alone_differ_in_nothing() {
        let mut watch = ClockWatch::now();
        watch.poll();
        watch.poll();
        assert_eq!((watch.slept(), watch.set()), (None, None));
    }

    #[test]
    fn a_sleep_and_a_set_wall_clock_are_found() {
        let mut watch = watch();
        let clocks = |boot_ns, wall_ns| Clocks { boot_ns, wall_ns, width_ns: 50_000, ..Clocks::default() };
        // As far apart as reading them one after the other may be.
        watch.take(clocks(900_000, -900_000));
        assert_eq!((watch.slept(), watch.set()), (None, None));
        watch.take(clocks(5_000_000_000, -3_600_000_000_000));
        watch.take(clocks(5_000_000_000, -3_600_000_000_000));
        assert_eq!(watch.slept().unwrap(), "the machine slept for 4.999 s while it was measured");
        let noted = watch.set().unwrap();
        assert!(noted.starts_with("the wall clock was set back by 3599.999 s meanwhile"), "{noted}");
        assert_eq!(watch.slewed(), None);
    }

    #[test]
    fn a_lasting_correction_is_no_slew() {
        for rate in [1.0, 1.000_5, 0.999_5, 1.000_9, 0.999_1] {
            assert_eq!(slewed_at(&[rate; 5]), None, "{rate}");
        }
    }

    #[test]
    fn a_slew_is_stated_by_its_worst_second() {
        // adjtimex's ticks of 9,000 and 11,000, chrony's limit, timesyncd at 6,250 ppm.
        for (rates, found) in [
            (&[1.0, 0.9, 0.9, 1.0][..], "10.0 % too slow within 2.000 s, against"),
            (&[1.1], "10.0 % too fast within 1.000 s, against"),
            (&[1.0, 0.916_667, 0.95], "8.3 % too slow within 2.000 s, against"),
            (&[1.006_25, 1.0], "0.6 % too fast within 1.000 s, against"),
        ] {
            let text = slewed_at(rates).unwrap();
            assert!(text.contains(found), "{rates:?}: {text}");
        }
        assert!(slewed_at(&[0.9]).unwrap().ends_with("were up to 11.1 % longer than stated"));
        assert!(slewed_at(&[1.1]).unwrap().ends_with("were up to 9.1 % shorter than stated"));
    }

    #[test]
    fn slow_reading_of_the_clocks_is_no_slew() {
        let mut watch = watch();
        watch.take(Clocks { width_ns: 20_000_000, ..after(SECOND_NS, SECOND_NS + 15_000_000) });
        assert_eq!(watch.slewed(), None);
    }

    #[test]
    fn a_counter_tells_what_a_host_slewed() {
        let slewed = |has_counter, boot_ns| {
            let mut watch = ClockWatch { has_counter, ..ClockWatch::default() };
            watch.take(after(SECOND_NS, SECOND_NS));
            let slow = Clocks { ticks: 4_200_000_000, boot_ns, ..after(2 * SECOND_NS, 2 * SECOND_NS) };
            watch.take(slow);
            watch.slewed()
        };
        let text = slewed(true, 0).unwrap();
        assert!(text.starts_with("the kernel's clock ran up to 9.1 % too slow within 1.100 s"), "{text}");
        assert_eq!((slewed(false, 0), slewed(true, 5 * SECOND_NS)), (None, None));
    }
}
