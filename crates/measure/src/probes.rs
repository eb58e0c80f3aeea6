// SPDX-License-Identifier: MIT OR Apache-2.0
//! The probes that there are, as they are asked, and the threads that measure them. What their rows are
//! stands in the table of [`evidence::kind`].
//!
//! A new probe is its file below with a [`Probe`], an entry of that table, and its variant and meaning here.

pub mod ethercat;
pub mod hardware;
pub mod message;
pub mod response;
pub mod spin;
pub mod toggle;
pub mod wakeup;

use std::num::NonZeroU64;

use evidence::kind::{RowKind, RowsOf};
use evidence::manifest::Asked;
use rt::Policy;
use rt::clock::Calibration;

use self::ethercat::{EthercatProbe, Wire};
use self::message::{MEANS, Means, MessageProbe};
use self::response::{Medium, ResponseProbe, Wiring};
use self::spin::SpinProbe;
use self::toggle::ToggleProbe;
use self::wakeup::{TimerKind, WakeupProbe};
use crate::probe::Probe;
use crate::schedule::Schedule;

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

/// The names that people give: what a sample is, and the program that measures alike. `message` stands for
/// all of [`MEANS`], `response` for those of [`Medium::NAMES`] whose options are given.
pub const MEANINGS: [(&str, &str, &str); 7] = [
    (
        RowKind::Wakeup.name(),
        "from the absolute time until which the thread sleeps to its first look at the clock",
        "cyclictest",
    ),
    (
        RowKind::Spin.name(),
        "gap in which a thread that only reads the clock did not run",
        "oslat, `rtla osnoise`",
    ),
    (
        RowKind::Toggle.name(),
        "lateness of a store each period, by a thread that reads the clock without sleeping",
        "-",
    ),
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
        RowKind::Ethercat.name(),
        "latency of an EtherCAT cycle of an own MainDevice, on a device or a simulated segment",
        "-",
    ),
    (
        RowKind::Hardware.name(),
        "time that firmware or a hypervisor takes, by the kernel's hwlat tracer and the count of SMIs",
        "hwlatdetect, `rtla hwnoise`",
    ),
];

/// The same of a program's own loop, which no name asks for.
pub const OWN_LOOP: (&str, &str, &str) =
    (RowKind::Loop.name(), "cycles of a running program (`prove --program`, `monitor`)", "LiME");

/// The names that people give.
pub const NAMES: [&str; MEANINGS.len()] = {
    let mut names = [""; MEANINGS.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = MEANINGS[n].0;
        n += 1;
    }
    names
};

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
        Ok(match RowKind::of(name) {
            RowKind::Wakeup => Some(ProbeKind::Wakeup(timer)),
            RowKind::Spin => Some(ProbeKind::Spin),
            RowKind::Toggle => Some(ProbeKind::Toggle),
            RowKind::MessageShared | RowKind::Message => Means::of(name).map(ProbeKind::Message),
            RowKind::ResponseLines | RowKind::Response => {
                let wiring = Medium::of(name).map(|medium| Wiring::of(medium, asked)).transpose()?;
                wiring.map(ProbeKind::Response)
            }
            RowKind::Ethercat => Some(ProbeKind::Ethercat(Wire::of(asked))),
            RowKind::Hardware => Some(ProbeKind::Hardware),
            RowKind::Loop => Some(ProbeKind::Loop),
            _ => None,
        })
    }

    /// The kind of its rows.
    pub fn row_kind(&self) -> RowKind {
        match self {
            ProbeKind::Wakeup(_) => RowKind::Wakeup,
            ProbeKind::Spin => RowKind::Spin,
            ProbeKind::Toggle => RowKind::Toggle,
            ProbeKind::Message(means) => RowKind::of(means.probe()),
            ProbeKind::Response(wiring) => RowKind::of(wiring.medium().probe()),
            ProbeKind::Ethercat(_) => RowKind::Ethercat,
            ProbeKind::Hardware => RowKind::Hardware,
            ProbeKind::Loop => RowKind::Loop,
        }
    }

    /// Its name in the evidence.
    pub fn name(&self) -> &'static str {
        match self {
            ProbeKind::Message(means) => means.probe(),
            ProbeKind::Response(wiring) => wiring.medium().probe(),
            _ => self.row_kind().name(),
        }
    }

    /// The probe of one of its threads; `None` where no thread of ours measures. One that lacks what it needs
    /// is an error: its row would be missing in silence. `clock` measures the rate of the processor's
    /// counter.
    pub fn probe(
        &self,
        schedule: Schedule,
        partner: Option<(u32, Policy)>,
        clock: &mut dyn FnMut() -> rt::Result<Calibration>,
    ) -> rt::Result<Option<Box<dyn Probe>>> {
        let lacks = |why: &str, cure: &str| rt::Error::new(format!("measure {}", self.name()), why, cure);
        let period = || match schedule {
            Schedule::Periodic(period) => Ok(period),
            Schedule::Continuous => Err(lacks("it has no period", "report this as a defect")),
        };
        Ok(Some(match self {
            ProbeKind::Hardware | ProbeKind::Loop => return Ok(None),
            ProbeKind::Spin => Box::new(SpinProbe { clock: clock()? }),
            ProbeKind::Wakeup(timer) => Box::new(WakeupProbe { timer: *timer, period: period()? }),
            ProbeKind::Ethercat(wire) => Box::new(EthercatProbe { wire: wire.clone(), period: period()? }),
            ProbeKind::Toggle => Box::new(ToggleProbe { clock: clock()?, period: period()? }),
            ProbeKind::Message(means) => {
                let cure = "give two CPUs, or one for housekeeping";
                let partner = partner.ok_or_else(|| lacks("no other CPU is there to answer", cure))?;
                Box::new(MessageProbe { means: *means, partner, clock: clock()?, period: period()? })
            }
            ProbeKind::Response(wiring) => Box::new(ResponseProbe {
                wiring: wiring.clone(),
                generator: partner,
                clock: clock()?,
                period: period()?,
            }),
        }))
    }

    /// The schedules of its threads on one CPU, where `periods` are asked, the fastest first.
    pub fn schedules(&self, periods: &[NonZeroU64]) -> Vec<Schedule> {
        let mut periods = periods.to_vec();
        periods.sort_unstable();
        periods.dedup();
        match self.row_kind().rows() {
            RowsOf::EachPeriod | RowsOf::Program => {}
            // One question, one edge, one frame at a time.
            RowsOf::EachCpu | RowsOf::EachPair => periods.truncate(1),
            RowsOf::Continuous | RowsOf::Beside(_) | RowsOf::Imported => return vec![Schedule::Continuous],
        }
        periods.into_iter().map(Schedule::Periodic).collect()
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
    use evidence::manifest::ResponseSetup;

    use super::*;

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
        let names = NAMES.iter().copied().chain([RowKind::Loop.name()]);
        names.flat_map(|name| of(name, &memory)).chain(of(response::PROBE, &lines)).collect()
    }

    #[test]
    fn every_probe_has_the_name_that_asks_for_it() {
        let names: Vec<_> = all().iter().map(ProbeKind::name).collect();
        assert_eq!(names.len(), NAMES.len() - 1 + MEANS.len() + Medium::NAMES.len(), "{names:?}");
        assert_eq!(ProbeKind::named("wakeups", TimerKind::Nanosleep, &Asked::default()), Ok(None));
    }

    #[test]
    fn the_table_of_rows_knows_every_probe() {
        for kind in all() {
            let row = RowKind::of(kind.name());
            assert_eq!(row, kind.row_kind(), "{}", kind.name());
            assert_eq!(row.is_cyclic(), row.has_period(), "{}", kind.name());
            let own = !matches!(kind, ProbeKind::Hardware | ProbeKind::Loop);
            assert_eq!(row.has_own_threads(), own, "{}", kind.name());
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
        let names = |is: fn(RowKind) -> bool| {
            let kinds = all().into_iter().filter(move |kind| is(kind.row_kind()));
            kinds.map(|kind| kind.name()).collect::<Vec<_>>()
        };
        assert_eq!(names(RowKind::sleeps), ["wakeup", "ethercat", "loop", "response-lines"]);
        assert_eq!(
            names(|kind| kind.polls() && kind.calls_the_kernel()),
            ["message-futex", "message-eventfd", "message-signal", "message-ipi"]
        );
        assert!(all().iter().all(|kind| kind.row_kind().calls_the_kernel() || !kind.row_kind().sleeps()));
    }
}
