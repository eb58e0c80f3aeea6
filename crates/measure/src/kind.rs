// SPDX-License-Identifier: MIT OR Apache-2.0
//! The probes that there are, and what a run must know of each before it measures.

use std::num::NonZeroU64;

use evidence::manifest::{self, Asked};

use crate::ethercat::{self, Wire};
use crate::message::{self, MEANS, Means};
use crate::response::{self, Medium, Wiring};
use crate::schedule::Schedule;
use crate::wakeup::TimerKind;

/// A probe, with what it needs to know of what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeKind {
    /// Sleeps, and sees how late it wakes.
    Wakeup(TimerKind),
    /// Reads the processor's counter without pause.
    Spin,
    /// Stores to a channel each period, by the processor's counter.
    Toggle,
    /// Signals another CPU each period, and waits for its answer.
    Message(Means),
    /// Makes edges of an input edges of an output, or gives them.
    Response(Wiring),
    /// Exchanges process data with EtherCAT SubDevices each period.
    Ethercat(Wire),
    /// The kernel's own view of what firmware takes.
    Hardware,
    /// A program's own loop, which that program times.
    Loop,
}

/// The names that people give. `message` stands for all of [`MEANS`], `response` for those of
/// [`Medium::NAMES`] whose options are given.
pub const NAMES: [&str; 7] =
    ["wakeup", "spin", "toggle", message::MESSAGE, response::PROBE, ethercat::PROBE, "hardware"];

/// For each name, and for a program's own loop: what a sample is, and the program that measures alike.
pub const MEANINGS: [(&str, &str, &str); 8] = [
    (
        "wakeup",
        "from the absolute time until which the thread sleeps to its first look at the clock",
        "cyclictest",
    ),
    ("spin", "gap in which a thread that only reads the clock did not run", "oslat, `rtla osnoise`"),
    ("toggle", "lateness of a store each period, by a thread that reads the clock without sleeping", "-"),
    (
        message::MESSAGE,
        "round trip between two CPUs: by shared memory, futex, eventfd, signal and IPI",
        "svsematest, sigwaittest",
    ),
    (
        response::PROBE,
        "time from an edge to its answer: by shared memory, registers or lines of a GPIO chip",
        "-",
    ),
    (
        ethercat::PROBE,
        "latency of an EtherCAT cycle of an own MainDevice, on a device or a simulated segment",
        "-",
    ),
    (
        "hardware",
        "time that firmware or a hypervisor takes, by the kernel's hwlat tracer and the count of SMIs",
        "hwlatdetect, `rtla hwnoise`",
    ),
    (manifest::LOOP, "cycles of a running program (`prove --program`, `monitor`)", "LiME"),
];

impl ProbeKind {
    /// The names of the probes that `name` stands for where that was asked; itself where it stands for none.
    pub fn expand(name: &str, asked: &Asked) -> Vec<String> {
        match name {
            message::MESSAGE => MEANS.iter().map(|(name, _)| name.to_string()).collect(),
            response::PROBE => {
                response::means(asked).iter().map(|medium| medium.probe().to_string()).collect()
            }
            _ => vec![name.to_string()],
        }
    }

    /// The probe `name` as it was asked; `None` where there is no probe of that name. An error where the
    /// probe's options make no sense.
    pub fn named(name: &str, timer: TimerKind, asked: &Asked) -> rt::Result<Option<ProbeKind>> {
        let medium = Medium::of(name).map(|medium| Wiring::of(medium, asked)).transpose()?;
        Ok(match name {
            "wakeup" => Some(ProbeKind::Wakeup(timer)),
            "spin" => Some(ProbeKind::Spin),
            "toggle" => Some(ProbeKind::Toggle),
            ethercat::PROBE => Some(ProbeKind::Ethercat(Wire::of(asked))),
            "hardware" => Some(ProbeKind::Hardware),
            manifest::LOOP => Some(ProbeKind::Loop),
            _ => medium.map(ProbeKind::Response).or(Means::of(name).map(ProbeKind::Message)),
        })
    }

    /// Its name in the evidence.
    pub fn name(&self) -> &'static str {
        match self {
            ProbeKind::Wakeup(_) => "wakeup",
            ProbeKind::Spin => "spin",
            ProbeKind::Toggle => "toggle",
            ProbeKind::Message(means) => means.probe(),
            ProbeKind::Response(wiring) => wiring.medium().probe(),
            ProbeKind::Ethercat(_) => ethercat::PROBE,
            ProbeKind::Hardware => "hardware",
            ProbeKind::Loop => manifest::LOOP,
        }
    }

    /// The schedules of its threads on one CPU, where `periods` are asked, the fastest first.
    pub fn schedules(&self, periods: &[NonZeroU64]) -> Vec<Schedule> {
        let mut periods = periods.to_vec();
        periods.sort_unstable();
        periods.dedup();
        match self {
            ProbeKind::Wakeup(_) | ProbeKind::Toggle | ProbeKind::Loop => {}
            // One question, one edge, one frame at a time.
            ProbeKind::Message(_) | ProbeKind::Response(_) | ProbeKind::Ethercat(_) => periods.truncate(1),
            ProbeKind::Spin | ProbeKind::Hardware => return vec![Schedule::Continuous],
        }
        periods.into_iter().map(Schedule::Periodic).collect()
    }

    /// Whether its samples are cycles.
    pub fn is_periodic(&self) -> bool {
        !matches!(self, ProbeKind::Spin | ProbeKind::Hardware)
    }

    /// Whether threads of ours measure. The hardware probe is a tracer of the kernel, a loop is another
    /// program's.
    pub fn has_own_threads(&self) -> bool {
        !matches!(self, ProbeKind::Hardware | ProbeKind::Loop)
    }

    /// Whether the measured thread sleeps until its cycle is due, so that its CPU may become idle.
    pub fn sleeps(&self) -> bool {
        match self {
            ProbeKind::Wakeup(_) | ProbeKind::Ethercat(_) | ProbeKind::Loop => true,
            ProbeKind::Response(wiring) => wiring.medium() == Medium::Lines,
            ProbeKind::Spin | ProbeKind::Toggle | ProbeKind::Message(_) | ProbeKind::Hardware => false,
        }
    }

    /// Whether a thread of ours never leaves its CPU by itself.
    pub fn never_sleeps(&self) -> bool {
        self.has_own_threads() && !self.sleeps()
    }

    /// Whether each of its cycles makes system calls.
    pub fn calls_the_kernel(&self) -> bool {
        self.sleeps() || matches!(self, ProbeKind::Message(means) if *means != Means::Shared)
    }

    /// Whether a second thread, on another CPU, has a part in it.
    pub fn has_partner(&self) -> bool {
        match self {
            ProbeKind::Message(_) => true,
            ProbeKind::Response(wiring) => wiring.has_generator(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use evidence::manifest::{ResponseSetup, RowKey};

    use super::*;

    #[test]
    fn each_name_has_a_meaning() {
        let [ours @ .., own] = MEANINGS.map(|(name, ..)| name);
        assert_eq!((ours, own), (NAMES, manifest::LOOP));
    }

    /// Every probe, as its name alone asks for it.
    fn all() -> Vec<ProbeKind> {
        let memory = Asked::default();
        let lines = Asked {
            response: Some(ResponseSetup {
                board: Some("raspberry-pi-4".into()),
                chip: Some("gpiochip0".into()),
                input: Some(17),
                output: Some(27),
                ..ResponseSetup::default()
            }),
            ..Asked::default()
        };
        let of = |name: &str, asked: &Asked| {
            let names = ProbeKind::expand(name, asked);
            let kind = |name: &String| ProbeKind::named(name, TimerKind::Nanosleep, asked).unwrap().unwrap();
            names.iter().map(kind).collect::<Vec<_>>()
        };
        let names = NAMES.iter().copied().chain([manifest::LOOP]);
        names.flat_map(|name| of(name, &memory)).chain(of(response::PROBE, &lines)).collect()
    }

    #[test]
    fn every_probe_has_the_name_that_asks_for_it() {
        let names: Vec<_> = all().iter().map(ProbeKind::name).collect();
        assert_eq!(names.len(), 6 + MEANS.len() + Medium::NAMES.len(), "{names:?}");
        assert_eq!(ProbeKind::named("wakeups", TimerKind::Nanosleep, &Asked::default()), Ok(None));
    }

    #[test]
    fn evidence_counts_cycles_where_a_probe_is_periodic() {
        for kind in all() {
            let key = RowKey {
                probe: kind.name().into(),
                load: "idle".into(),
                cpu: 1,
                period_ns: None,
                thread_name: None,
            };
            assert_eq!(key.is_cyclic(), kind.is_periodic(), "{}", kind.name());
        }
    }

    #[test]
    fn a_cpu_has_a_thread_for_each_period_or_one() {
        let periods = [1_000_000, 25_000, 1_000_000].map(|ns| NonZeroU64::new(ns).unwrap());
        let threads = |name: &str| {
            let kind = ProbeKind::named(name, TimerKind::Nanosleep, &Asked::default()).unwrap().unwrap();
            let schedules = kind.schedules(&periods).into_iter();
            schedules.map(Schedule::period_ns).collect::<Vec<_>>()
        };
        assert_eq!(threads("wakeup"), [Some(25_000), Some(1_000_000)]);
        assert_eq!(threads("message-futex"), [Some(25_000)]);
        assert_eq!(threads("ethercat"), [Some(25_000)]);
        assert_eq!(threads("spin"), [None]);
    }

    #[test]
    fn a_probe_that_sleeps_calls_the_kernel() {
        for kind in all() {
            assert!(kind.calls_the_kernel() || !kind.sleeps(), "{}", kind.name());
            assert!(!(kind.sleeps() && kind.never_sleeps()), "{}", kind.name());
        }
        let called = |kind: &&ProbeKind| kind.never_sleeps() && kind.calls_the_kernel();
        let names: Vec<_> = all().iter().filter(called).map(ProbeKind::name).collect();
        assert_eq!(names, ["message-futex", "message-eventfd", "message-signal", "message-ipi"]);
    }
}
