// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of rows: one table of what a row can be, which everything that judges, shows or writes rows
//! asks.
//!
//! ```text
//! name ── RowKind::of ──► kind ──► cycles or gaps · which rows a run has · how its thread waits
//!                                  limit · what a sample is · which grants taint it
//! ```
//! A bundle names its rows by text, and any text may stand there. It becomes a kind here, once; no other
//! module compares a row's name. Samples of every kind are nanoseconds.

use machine::Profile;

use crate::manifest::{Asked, RowKey};

/// The nature of a row's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// Cycles, each of which is in time or late.
    Cycles,
    /// Gaps and interruptions, whose number says nothing of how often something was due.
    Gaps,
}

/// The rows that a run has of a kind, where it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsOf {
    /// One on each CPU for each period that is asked.
    EachPeriod,
    /// One on each CPU, with the fastest period.
    EachCpu,
    /// One for each pair of CPUs, with the fastest period.
    EachPair,
    /// One on each CPU, without a period.
    Continuous,
    /// One for each loop of a program, where that runs, with its own period.
    Program,
    /// Further rows of another kind's, which cannot be asked for alone.
    Beside(RowKind),
    /// Those of another tool's file.
    Imported,
}

/// How the thread of a row waits for its next sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It sleeps, so that its CPU may become idle.
    Sleeping,
    /// It never leaves its CPU by itself.
    Polling {
        /// Whether it makes system calls meanwhile.
        calls_the_kernel: bool,
    },
    /// No thread of a program measures: the kernel does.
    InTheKernel,
}

/// The limit that judges a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitOf {
    /// The one that was asked.
    Asked,
    /// Its period.
    Period,
    /// Half of its period.
    HalfPeriod,
}

/// Something that a row's grants may say against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantFact {
    /// Its thread took page faults.
    PageFaults,
    /// A hypervisor took its CPU.
    Steal,
    /// The memory of its thread was not locked.
    MemoryNotLocked,
    /// Its thread had no real-time policy.
    OrdinaryPolicy,
    /// EtherCAT cycles went wrong.
    Ethercat,
}

/// An entry of the table.
#[derive(Debug, Clone, Copy)]
struct Entry {
    samples: SampleKind,
    rows: RowsOf,
    waits: Waits,
    limit: LimitOf,
    facts: &'static [GrantFact],
    /// The name of an axis with its samples.
    measures: &'static str,
    /// The end of a sample, in a spike's timeline.
    ends: &'static str,
    /// Whether only what is above a threshold becomes a sample.
    above_threshold_only: bool,
}

const OF_THREAD: &[GrantFact] =
    &[GrantFact::PageFaults, GrantFact::Steal, GrantFact::MemoryNotLocked, GrantFact::OrdinaryPolicy];
const OF_ETHERCAT: &[GrantFact] = &[
    GrantFact::PageFaults,
    GrantFact::Steal,
    GrantFact::MemoryNotLocked,
    GrantFact::OrdinaryPolicy,
    GrantFact::Ethercat,
];

/// Cycles of a thread that sleeps until each is due.
const CYCLES: Entry = Entry {
    samples: SampleKind::Cycles,
    rows: RowsOf::EachPeriod,
    waits: Waits::Sleeping,
    limit: LimitOf::Asked,
    facts: OF_THREAD,
    measures: "latency",
    ends: "program runs",
    above_threshold_only: false,
};
const GAPS: Entry = Entry {
    samples: SampleKind::Gaps,
    rows: RowsOf::Continuous,
    waits: Waits::Polling { calls_the_kernel: false },
    measures: "gap",
    ..CYCLES
};
const MESSAGES: Entry =
    Entry { rows: RowsOf::EachPair, waits: Waits::Polling { calls_the_kernel: true }, ..CYCLES };
const RESPONSES: Entry = Entry {
    rows: RowsOf::EachPair,
    waits: Waits::Polling { calls_the_kernel: false },
    measures: "response time",
    ..CYCLES
};
const OF_CYCLES: Entry =
    Entry { rows: RowsOf::Beside(RowKind::Loop), limit: LimitOf::Period, ends: "cycle ends", ..CYCLES };
const OTHERS: Entry = Entry { rows: RowsOf::Imported, ..CYCLES };

macro_rules! kinds {
    ($($kind:ident $name:literal $sentence:literal $entry:expr;)+) => {
        /// The kind of a row.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RowKind {
            $(#[doc = concat!("`", $name, "`: ", $sentence, ".")] $kind,)+
            /// A row that this version does not know.
            Unknown,
        }

        impl RowKind {
            /// All that are known. A name that stands for itself comes before one that it begins with.
            pub const ALL: &[RowKind] = &[$(RowKind::$kind),+];

            /// Its name in the evidence; with a hyphen at its end all names that begin so.
            pub const fn name(self) -> &'static str {
                match self {
                    $(RowKind::$kind => $name,)+
                    RowKind::Unknown => "",
                }
            }

            /// The meaning of a sample, in half a sentence; empty where that is unknown.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(RowKind::$kind => $sentence,)+
                    RowKind::Unknown => "",
                }
            }

            const fn entry(self) -> Entry {
                match self {
                    $(RowKind::$kind => $entry,)+
                    RowKind::Unknown => Entry { samples: SampleKind::Gaps, measures: "latency", ..OTHERS },
                }
            }
        }
    };
}

kinds! {
    Wakeup "wakeup" "from when the timer was due to the thread running again"
        Entry { measures: "wakeup latency", ..CYCLES };
    Spin "spin" "time that a loop without a pause did not run"
        GAPS;
    Toggle "toggle" "from when a store was due to the store, by a thread that never sleeps"
        Entry { waits: Waits::Polling { calls_the_kernel: false }, ..CYCLES };
    MessageShared "message-shared" "from a store to the answering store of another CPU"
        Entry { waits: Waits::Polling { calls_the_kernel: false }, ..MESSAGES };
    Message "message-" "from a message to another CPU to its answer, or to its arrival"
        MESSAGES;
    ResponseLines "response-lines" "from an edge to its answer, by lines of the kernel's GPIO"
        Entry { waits: Waits::Sleeping, ..RESPONSES };
    Response "response-" "from an edge to its answer, by a thread that never sleeps"
        RESPONSES;
    Ethercat "ethercat" "from when a cycle was due to its process data being back"
        Entry { rows: RowsOf::EachCpu, facts: OF_ETHERCAT, ..CYCLES };
    Sync0 "sync0" "from the SYNC0 before until process data pass the reference SubDevice"
        Entry {
            rows: RowsOf::Beside(RowKind::Ethercat),
            limit: LimitOf::Period,
            facts: OF_ETHERCAT,
            ..CYCLES
        };
    DcDrift "dc-drift" "difference of a SubDevice's clock to the reference"
        Entry {
            samples: SampleKind::Gaps,
            rows: RowsOf::Beside(RowKind::Ethercat),
            limit: LimitOf::HalfPeriod,
            facts: OF_ETHERCAT,
            measures: "difference",
            ..CYCLES
        };
    Hardware "hardware" "time that firmware or a hypervisor took, as the kernel's hwlat tracer sees it"
        Entry { waits: Waits::InTheKernel, facts: &[GrantFact::Steal], above_threshold_only: true, ..GAPS };
    Loop "loop" "wakeup latency of the program's own cycle: from due to running"
        Entry { rows: RowsOf::Program, measures: "wakeup latency", ..CYCLES };
    Execution "execution" "from a cycle's begin to its end"
        Entry { measures: "execution time", ..OF_CYCLES };
    LoopResponse "response" "from when a cycle was due to its end"
        Entry { measures: "response time", ..OF_CYCLES };
    Mark "mark-" "from a cycle's begin to the program's mark"
        Entry { measures: "time to the mark", ends: "mark reached", ..OF_CYCLES };
    TimerlatIrq "timerlat-irq" "from when the timer was due to its interrupt handler"
        OTHERS;
    TimerlatThread "timerlat-thread" "from when the timer was due to the tracer's thread running"
        OTHERS;
    TimerlatUser "timerlat-user" "from when the timer was due to the program running in user space"
        OTHERS;
    Timerlat "timerlat-" "from when the timer was due"
        OTHERS;
    Noise "noise" "time that a period of the osnoise tracer lost to others"
        Entry { samples: SampleKind::Gaps, ..OTHERS };
}

impl RowKind {
    /// The kind of a row of that name.
    pub fn of(name: &str) -> RowKind {
        let is_it = |kind: &RowKind| match kind.name() {
            family if family.ends_with('-') => name.starts_with(family),
            known => name == known,
        };
        RowKind::ALL.iter().copied().find(is_it).unwrap_or(RowKind::Unknown)
    }

    /// Whether its samples are cycles, each of which is in time or late.
    pub fn is_cyclic(self) -> bool {
        self.entry().samples == SampleKind::Cycles
    }

    /// The rows that a run has of it.
    pub fn rows(self) -> RowsOf {
        self.entry().rows
    }

    /// Whether its threads keep a period.
    pub fn has_period(self) -> bool {
        use RowsOf::{EachCpu, EachPair, EachPeriod, Program};
        matches!(self.rows(), EachPeriod | EachCpu | EachPair | Program)
    }

    /// Whether its samples are answers to edges, which a picture can show.
    pub fn answers_edges(self) -> bool {
        matches!(self, RowKind::Response | RowKind::ResponseLines)
    }

    /// Whether two CPUs have one row together.
    pub fn has_pairs(self) -> bool {
        self.rows() == RowsOf::EachPair
    }

    /// Whether a run has such rows that this program measures with threads of its own.
    pub fn has_own_threads(self) -> bool {
        let is_asked = matches!(
            self.rows(),
            RowsOf::EachPeriod | RowsOf::EachCpu | RowsOf::EachPair | RowsOf::Continuous
        );
        is_asked && self.waits() != Waits::InTheKernel
    }

    /// Whether it is a loop of a measured program, or about the cycles of one.
    pub fn is_of_program(self) -> bool {
        matches!(self.rows(), RowsOf::Program | RowsOf::Beside(RowKind::Loop))
    }

    /// How its thread waits.
    pub fn waits(self) -> Waits {
        self.entry().waits
    }

    /// Whether its thread sleeps until its cycle is due, so that its CPU may become idle.
    pub fn sleeps(self) -> bool {
        self.waits() == Waits::Sleeping
    }

    /// Whether its thread never leaves its CPU by itself.
    pub fn polls(self) -> bool {
        matches!(self.waits(), Waits::Polling { .. })
    }

    /// Whether each of its cycles makes system calls.
    pub fn calls_the_kernel(self) -> bool {
        matches!(self.waits(), Waits::Sleeping | Waits::Polling { calls_the_kernel: true })
    }

    /// The limit of a row with that period, where it is not the one that was asked; in nanoseconds.
    pub fn own_limit_ns(self, period_ns: u64) -> Option<u64> {
        match self.entry().limit {
            LimitOf::Asked => None,
            LimitOf::Period => Some(period_ns),
            LimitOf::HalfPeriod => Some(period_ns / 2),
        }
    }

    /// Facts of its grants that taint it.
    pub fn facts(self) -> &'static [GrantFact] {
        self.entry().facts
    }

    /// The name of an axis with its samples.
    pub fn measures(self) -> &'static str {
        self.entry().measures
    }

    /// The end of a sample, in a spike's timeline.
    pub fn ends(self) -> &'static str {
        self.entry().ends
    }

    /// Whether only what is above a threshold becomes a sample, so that a row without one is a result.
    pub fn is_above_threshold_only(self) -> bool {
        self.entry().above_threshold_only
    }
}

/// The profile of settings for a run of such rows: that of a loop that sleeps, unless every thread polls.
pub fn profile(kinds: impl IntoIterator<Item = RowKind>) -> Profile {
    let mut kinds = kinds.into_iter().peekable();
    let is_empty = kinds.peek().is_none();
    if is_empty || kinds.any(|kind| !kind.polls()) { Profile::Periodic } else { Profile::Poll }
}

impl RowKey {
    /// The kind of the row.
    pub fn kind(&self) -> RowKind {
        RowKind::of(&self.probe)
    }

    /// Whether its samples are cycles, each of which is in time or late. Those of the other probes are gaps
    /// and interruptions, whose number says nothing of how often something was due.
    pub fn is_cyclic(&self) -> bool {
        self.kind().is_cyclic()
    }
}

impl Asked {
    /// The kinds of the probes that were asked.
    pub fn kinds(&self) -> impl Iterator<Item = RowKind> + '_ {
        self.probes.iter().map(|probe| RowKind::of(probe))
    }

    /// Whether a program's own loops are all that was asked.
    pub fn is_of_program(&self) -> bool {
        !self.probes.is_empty() && self.kinds().all(|kind| kind == RowKind::Loop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again() {
        for kind in RowKind::ALL {
            let name =
                if kind.name().ends_with('-') { format!("{}1", kind.name()) } else { kind.name().into() };
            assert_eq!(RowKind::of(&name), *kind);
        }
        let others = ["", "wakeups", "mark", "message", "responses", "timerlat"];
        assert_eq!(others.map(RowKind::of), [RowKind::Unknown; 6]);
    }

    #[test]
    fn every_kind_says_what_it_measures() {
        for kind in RowKind::ALL {
            assert!(!kind.measures().is_empty() && kind.sentence().len() > 10, "{kind:?}");
            assert!(!kind.sentence().ends_with('.'), "{kind:?}");
        }
    }

    #[test]
    fn cycles_and_gaps_are_told_apart() {
        let gaps = ["spin", "hardware", "dc-drift", "noise", "of a later version"];
        assert!(gaps.iter().all(|name| !RowKind::of(name).is_cyclic()));
        let cycles = ["wakeup", "toggle", "ethercat", "sync0", "loop", "execution", "response", "mark-12"];
        assert!(cycles.iter().all(|name| RowKind::of(name).is_cyclic()));
        let more =
            ["message-mqueue", "message-shared", "response-lines", "response-ivshmem", "timerlat-user"];
        assert!(more.iter().all(|name| RowKind::of(name).is_cyclic()));
    }

    #[test]
    fn a_run_whose_threads_all_poll_is_of_that_profile() {
        let of = |names: &[&str]| profile(names.iter().map(|name| RowKind::of(name)));
        for names in [&[][..], &["wakeup", "spin"], &["hardware"], &["response-lines"], &["loop"]] {
            assert_eq!(of(names), Profile::Periodic, "{names:?}");
        }
        for names in [&["spin"][..], &["toggle", "message-futex"], &["response-registers", "spin"]] {
            assert_eq!(of(names), Profile::Poll, "{names:?}");
        }
    }

    #[test]
    fn only_a_row_beside_another_has_a_limit_of_its_own() {
        for kind in RowKind::ALL {
            let is_beside = matches!(kind.rows(), RowsOf::Beside(_));
            assert_eq!(kind.own_limit_ns(1_000).is_some(), is_beside, "{kind:?}");
        }
        assert_eq!(RowKind::DcDrift.own_limit_ns(1_000), Some(500));
    }
}
