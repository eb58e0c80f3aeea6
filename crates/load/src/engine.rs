// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads that need no other program. Each counts what it does and prints its counts, one line of JSON every
//! 100 ms, until it is terminated. Nothing of what they change outlives their file descriptors.
//!
//! None of them keeps time with the measured program: pauses vary pseudo-randomly, so that no phase is
//! spared; `ethercat` goes by the clock of its segment.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::time::Duration;

use machine::CpuSet;

use crate::why;

mod ethercat;
mod ipi;
mod net;
mod timers;

/// How often counts are printed.
const PRINT: Duration = Duration::from_millis(100);

/// `load-worker engine NAME HOUSEKEEPING [MEASURED]`; `load-worker engine ethercat [DEVICE [forced]]`
pub fn main(args: &[String]) -> Result<(), String> {
    let cpus = |index: usize| -> Result<CpuSet, String> {
        let text = args.get(index).ok_or("a set of CPUs is missing")?;
        text.parse().map_err(|e: machine::cpuset::CpuSetError| e.to_string())
    };
    match args.first().map(String::as_str) {
        Some("ethercat") => ethercat::run(args.get(1).map(String::as_str), args.len() > 2),
        Some("net") => net::run(cpus(1)?.len()),
        Some("timers") => timers::run(cpus(1)?.len()),
        Some("ipi") => ipi::run(&cpus(1)?, &cpus(2)?),
        _ => Err("there is no such engine".to_string()),
    }
}

/// Prints `counts` for ever; returns when no reader is left.
fn report(counts: impl Fn() -> BTreeMap<&'static str, u64>) -> Result<(), String> {
    loop {
        let line = serde_json::to_string(&counts()).map_err(|e| e.to_string())?;
        writeln!(std::io::stdout(), "{line}").map_err(why)?;
        std::thread::sleep(PRINT);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().name(name.to_string()).stack_size(64 * 1024);
    thread.spawn(work).map(drop).map_err(|e| format!("no thread for {name}: {}", why(e)))
}

/// Pauses that vary between two bounds (xorshift; Marsaglia, "Xorshift RNGs", 2003).
struct Pauses {
    state: u64,
    least_ns: u64,
    spread_ns: u64,
}

impl Pauses {
    fn between(least: Duration, most: Duration, seed: usize) -> Pauses {
        let least_ns = least.as_nanos() as u64;
        let state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Pauses { state, least_ns, spread_ns: most.as_nanos() as u64 - least_ns }
    }

    fn next(&mut self) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Duration::from_nanos(self.least_ns + self.state % (self.spread_ns + 1))
    }

    fn pause(&mut self) {
        std::thread::sleep(self.next());
    }
}

/// Lets the calling thread's timers expire when asked, not up to 50 us later.
fn sharp_timers() {
    // Without it the timers are as many, only less sharp.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_stay_within_their_bounds_and_vary() {
        let (least, most) = (Duration::from_micros(50), Duration::from_micros(150));
        let mut pauses = Pauses::between(least, most, 0);
        let drawn: Vec<Duration> = (0..1000).map(|_| pauses.next()).collect();
        assert!(drawn.iter().all(|pause| (least..=most).contains(pause)));
        let middle = (least + most) / 2;
        let short = drawn.iter().filter(|pause| **pause < middle).count();
        assert!((400..600).contains(&short), "{short}");
    }

    #[test]
    fn an_unknown_engine_is_refused() {
        assert!(main(&["nothing".to_string()]).is_err());
        assert!(main(&["net".to_string(), "x".to_string()]).unwrap_err().contains("'x'"));
    }
}
