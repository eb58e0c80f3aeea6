// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples that a row lacks or that its clock falsified, as taints: the same for every source.

use evidence::manifest::RowKey;
use evidence::taint::{self, Taint};
use machine::units::count;

/// The counter may be off by this much before a spin row is tainted.
const LARGEST_DRIFT: f64 = 1e-3;

/// Where samples were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// On the way from a measuring thread.
    Wakeups,
    /// On the way from a program that stamps its cycles.
    Cycles,
    /// The kernel did not report the begin of these cycles of a followed loop.
    Unseen,
    /// Records of a followed program, of whichever of its threads.
    Records,
}

impl Lost {
    /// The taint of a row that lost so many; `None` where it lost none.
    pub(crate) fn taint(self, key: &RowKey, lost: u64) -> Option<Taint> {
        let one_or_many = if lost == 1 { "cycle was" } else { "cycles were" };
        let number = count(lost);
        let (reason, cure) = match self {
            Lost::Wakeups => (
                format!("{lost} wakeups were lost: the control thread was kept from its CPU for seconds"),
                "give --house-keeping a CPU that is less loaded",
            ),
            Lost::Cycles => (
                format!("{lost} cycles were lost: they never ended, or the reader was away"),
                "call end in every cycle, or give --house-keeping a CPU that is less loaded",
            ),
            Lost::Unseen => (
                format!(
                    "{number} {one_or_many} not seen, and have no sample: the kernel did not report their begin, or had \
                     no room for it"
                ),
                "give --house-keeping a CPU that is less loaded, or stamp the cycles with libisolator",
            ),
            Lost::Records => (
                format!(
                    "{number} records of the program's threads found no room: cycles about them are missing"
                ),
                "give --house-keeping a CPU that is less loaded, or name fewer threads with --thread",
            ),
        };
        let cpu = (self != Lost::Records).then_some(key.cpu);
        let taint = Taint::new(taint::SAMPLES_LOST, reason, cure);
        (lost > 0).then(|| Taint { load: Some(key.load.clone()), cpu, ..taint })
    }
}

/// The taint of a row whose counter was off by `drift`: (its length of the row / CLOCK_MONOTONIC's) - 1.
pub(crate) fn drift_taint(key: &RowKey, drift: f64) -> Option<Taint> {
    let reason = format!("the processor's counter ran {:+.3} % off CLOCK_MONOTONIC", drift * 100.0);
    let taint = Taint::new(taint::COUNTER_DRIFT, reason, "use a machine with an invariant counter");
    (drift.abs() > LARGEST_DRIFT).then(|| Taint { load: Some(key.load.clone()), cpu: Some(key.cpu), ..taint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> RowKey {
        RowKey::new("loop", "idle", 1, None)
    }

    #[test]
    fn lost_cycles_name_their_cause_and_cure() {
        let taint = Lost::Cycles.taint(&key(), 3).unwrap();
        assert_eq!(
            (taint.code.as_str(), taint.reason.as_str(), taint.cure.as_deref()),
            (
                "samples-lost",
                "3 cycles were lost: they never ended, or the reader was away",
                Some("call end in every cycle, or give --house-keeping a CPU that is less loaded")
            )
        );
    }

    #[test]
    fn cycles_without_a_begin_are_counted_in_a_taint() {
        let taint = |unseen| Lost::Unseen.taint(&key(), unseen).unwrap();
        assert_eq!((taint(57).code.as_str(), taint(57).cpu), ("samples-lost", Some(1)));
        assert!(taint(1).reason.starts_with("1 cycle was not seen, "), "{}", taint(1).reason);
        assert!(taint(1_057).reason.starts_with("1,057 cycles were not seen, "), "{}", taint(1_057).reason);
    }

    #[test]
    fn nothing_lost_is_no_taint() {
        for lost in [Lost::Wakeups, Lost::Cycles, Lost::Unseen, Lost::Records] {
            assert_eq!(lost.taint(&key(), 0), None);
            assert_eq!(lost.taint(&key(), 2).unwrap().cpu.is_none(), lost == Lost::Records);
        }
    }

    #[test]
    fn a_counter_that_drifts_taints() {
        assert_eq!(drift_taint(&key(), -0.000_9), None);
        let taint = drift_taint(&key(), -0.002).unwrap();
        assert_eq!(taint.reason, "the processor's counter ran -0.200 % off CLOCK_MONOTONIC");
    }
}
