// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interruptions without any kernel event: by a hypervisor, or by the firmware in system management mode.
//!
//! Both are named by exclusion only: a good part of a spike is one stretch in which the kernel ran nothing,
//! longer than any entry or exit, and a counter grew meanwhile: the steal clock (`/proc/stat`, in steps of 10
//! ms), or the count of system management interrupts (Intel's MSR_SMI_COUNT). If both grew, both are suspects
//! and neither is the cause. If neither can be read, the stretch stays unexplained. An interruption during a
//! handler lengthens the handler and is not separated from it.
//!
//! The steal clock is read four times a second. The count of SMIs is read only before a row and after such
//! spikes, once for all that are over by then, since the kernel reads it on the CPU itself, by an IPI.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};

use evidence::cause::{Cause, CauseKind, HYPERVISOR};
use inspect::counters::{Counters, smi_count, steal_ns};
use machine::CpuSet;
use machine::counters::CounterClass;
use machine::units::exact_us;
use rt::clock::monotonic_ns;

use crate::account::Account;

/// The number of readings of the steal clock that are kept: a spike is recorded within a second.
const READINGS: usize = 8;

/// The counters are not asked about a shorter share of a spike.
const WORTH: u64 = 10;

/// A reading of the steal clocks.
#[derive(Debug)]
struct Steal {
    at_ns: u64,
    of: BTreeMap<u32, u64>,
}

/// SMIs of a CPU that no spike has used yet.
#[derive(Debug, Default)]
struct Smis {
    /// Time and value of its last reading.
    at_ns: u64,
    last: u64,
    left: u64,
}

/// The counters of both.
#[derive(Debug)]
pub struct Unseen {
    root: PathBuf,
    /// Whether there is a hypervisor that may steal.
    is_virtual: bool,
    cpus: CpuSet,
    steal: VecDeque<Steal>,
    /// The time stolen up to a reading that spikes have used, by CPU.
    given: BTreeMap<u32, (u64, u64)>,
    smis: BTreeMap<u32, Smis>,
}

impl Unseen {
    /// Those of the machine below `root`; `is_virtual` if it is a virtual machine.
    pub fn of(root: &Path, is_virtual: bool) -> Unseen {
        Unseen {
            root: root.to_path_buf(),
            is_virtual,
            cpus: CpuSet::new(),
            steal: VecDeque::new(),
            given: BTreeMap::new(),
            smis: BTreeMap::new(),
        }
    }

    /// A row begins on these CPUs.
    pub fn begin(&mut self, cpus: CpuSet) {
        self.steal.clear();
        self.given.clear();
        self.smis.clear();
        for cpu in cpus.iter() {
            if let Ok(last) = smi_count(&self.root, cpu) {
                self.smis.insert(cpu, Smis { at_ns: monotonic_ns(), last, left: 0 });
            }
        }
        self.cpus = cpus;
        self.poll();
    }

    /// Reads the steal clocks, if there is a hypervisor.
    pub fn poll(&mut self) {
        if !self.is_virtual {
            return;
        }
        // The time before the read, so that the values are from after all that ended by then.
        let at_ns = monotonic_ns();
        let text = untrusted::text(self.root.join("proc/stat")).unwrap_or_default();
        let counters = Counters::parse(["", "", "", &text], &self.cpus);
        let of = |cpu| Some((cpu, steal_ns(counters.count(CounterClass::Steal, HYPERVISOR, cpu)?)));
        if self.steal.len() == READINGS {
            self.steal.pop_front();
        }
        self.steal.push_back(Steal { at_ns, of: self.cpus.iter().filter_map(of).collect() });
    }

    /// The cause of the longest unexplained stretch of a spike with its time; or suspects. The account has
    /// what the hypervisor's own clock counted: where it was read, the steal clock is not asked.
    pub fn explain(&mut self, cpu: u32, window: &Range<u64>, account: &Account) -> Vec<Cause> {
        let stretch = &account.longest_unexplained;
        let (whole, ns) = (window.end - window.start, stretch.end - stretch.start);
        if ns == 0 || ns < whole / WORTH {
            return Vec::new();
        }
        let stolen = if account.has_steal_clock { None } else { self.stolen(cpu, window) };
        let smis = self.counted(cpu, window);
        let begin_ns = stretch.start - window.start;
        let by_exclusion = |what: String| Some(format!("by exclusion: the kernel ran nothing, and {what}"));
        match (stolen, smis) {
            (None, None) => Vec::new(),
            (Some((reading, grown, within_ns)), None) => {
                let (until, given) = self.given.entry(cpu).or_default();
                if *until != reading {
                    (*until, *given) = (reading, 0);
                }
                let took = ns.min(grown.saturating_sub(*given));
                *given += took;
                if took == 0 {
                    return Vec::new();
                }
                let detail = by_exclusion(format!(
                    "the steal clock, which counts in steps of 10 ms, grew by {} ms in the {} ms around",
                    grown / 1_000_000,
                    within_ns / 1_000_000
                ));
                vec![Cause { detail, ..Cause::timed(CauseKind::Stolen, HYPERVISOR, begin_ns, took) }]
            }
            (None, Some(count)) => {
                if let Some(smis) = self.smis.get_mut(&cpu) {
                    smis.left -= 1;
                }
                let detail = by_exclusion(match count {
                    1 => "a system management interrupt was counted".to_string(),
                    many => format!("{many} system management interrupts were counted"),
                });
                vec![Cause { detail, ..Cause::timed(CauseKind::Firmware, SMI, begin_ns, ns) }]
            }
            (Some((_, grown, _)), Some(count)) => vec![
                Cause::suspect(CauseKind::Stolen, HYPERVISOR, grown / steal_ns(1)),
                Cause::suspect(CauseKind::Firmware, SMI, count),
            ],
        }
    }

    /// The evidence that a good part of a spike was an interrupt that came late to a thread of lower priority
    /// in user mode. It names no thread.
    pub fn why_late(&self, window: &Range<u64>, account: &Account) -> Option<String> {
        if account.late_ns == 0 || account.late_ns < (window.end - window.start) / WORTH {
            return None;
        }
        let clock = match account.has_steal_clock {
            true => "; the hypervisor's clock of this cpu stood still",
            false => "",
        };
        let taker = if self.is_virtual { "the hypervisor, or the firmware" } else { "the firmware" };
        Some(format!(
            "the interrupt that woke the thread came {} late, and found user mode, where nothing holds interrupts \
             off{clock}: most likely {taker}",
            exact_us(account.late_ns)
        ))
    }

    /// The time stolen between the readings around a spike, and the time between them; the time before the
    /// last reading.
    fn stolen(&mut self, cpu: u32, window: &Range<u64>) -> Option<(u64, u64, u64)> {
        if self.steal.back().is_some_and(|last| last.at_ns < window.end) {
            self.poll();
        }
        let before = self.steal.iter().rev().find(|steal| steal.at_ns <= window.start)?;
        let after = self.steal.iter().find(|steal| steal.at_ns >= window.end)?;
        let grown = after.of.get(&cpu)?.saturating_sub(*before.of.get(&cpu)?);
        (grown > 0).then_some((after.at_ns, grown, after.at_ns - before.at_ns))
    }

    /// SMIs that no spike has used yet.
    fn counted(&mut self, cpu: u32, window: &Range<u64>) -> Option<u64> {
        let smis = self.smis.get_mut(&cpu)?;
        if smis.at_ns < window.end {
            let at_ns = monotonic_ns();
            let now = smi_count(&self.root, cpu).ok()?;
            smis.left += now.saturating_sub(smis.last);
            (smis.at_ns, smis.last) = (at_ns, now);
        }
        (smis.left > 0).then_some(smis.left)
    }
}

const SMI: &str = "system management interrupt";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::FileExt;

    /// A machine with so many stolen steps and so many SMIs on cpu 1.
    fn machine(stolen: Option<u64>, smis: Option<u64>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        set(&root, stolen, smis);
        root
    }

    fn set(root: &tempfile::TempDir, stolen: Option<u64>, smis: Option<u64>) {
        let stat = stolen.map(|steps| format!("cpu1 1 2 3 4 5 6 7 {steps} 0 0\n")).unwrap_or_default();
        for folder in ["proc", "dev/cpu/1"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("proc/stat"), stat).unwrap();
        if let Some(smis) = smis {
            let msr = fs::File::create(root.path().join("dev/cpu/1/msr")).unwrap();
            msr.write_all_at(&smis.to_ne_bytes(), 0x34).unwrap();
        }
    }

    fn begun(root: &tempfile::TempDir) -> Unseen {
        let mut unseen = Unseen::of(root.path(), true);
        unseen.begin(CpuSet::from_iter([1]));
        unseen
    }

    /// A spike of 1 us that has just ended; all but its first tenth is one stretch.
    fn explained(unseen: &mut Unseen) -> Vec<Cause> {
        let now = monotonic_ns();
        wait_until(now + 1_000);
        unseen.explain(1, &(now..now + 1_000), &of(now + 100..now + 1_000))
    }

    /// An account with this stretch.
    fn of(longest_unexplained: Range<u64>) -> Account {
        Account { longest_unexplained, ..Account::default() }
    }

    fn wait_until(ns: u64) {
        while monotonic_ns() < ns {
            std::hint::spin_loop();
        }
    }

    fn durations(causes: &[Cause]) -> Vec<(CauseKind, Option<u64>)> {
        causes.iter().map(|cause| (cause.kind, cause.duration_ns)).collect()
    }

    #[test]
    fn stolen_time_has_the_hypervisor_as_cause() {
        let root = machine(Some(5), None);
        let mut unseen = begun(&root);
        assert_eq!(explained(&mut unseen), [], "the clock stands still");
        set(&root, Some(6), None);
        let causes = explained(&mut unseen);
        assert_eq!(durations(&causes), [(CauseKind::Stolen, Some(900))]);
        assert_eq!(causes[0].begin_ns, Some(100));
        let detail = causes[0].detail.as_ref().unwrap();
        assert!(detail.contains("grew by 10 ms"), "{detail}");
    }

    #[test]
    fn spikes_share_no_more_than_was_stolen() {
        let root = machine(Some(5), None);
        let mut unseen = begun(&root);
        set(&root, Some(6), None);
        // Both lie between the same two readings.
        let start = monotonic_ns();
        let windows = [start..start + 8_000_000, start + 8_000_000..start + 16_000_000];
        wait_until(windows[1].end);
        let sum: u64 = windows
            .iter()
            .flat_map(|window| unseen.explain(1, window, &of(window.clone())))
            .filter_map(|cause| cause.duration_ns)
            .sum();
        assert_eq!(sum, 10_000_000);
    }

    #[test]
    fn each_smi_explains_one_spike() {
        let root = machine(None, Some(40));
        let mut unseen = begun(&root);
        assert_eq!(explained(&mut unseen), []);
        set(&root, None, Some(42));
        for _ in 0..2 {
            assert_eq!(durations(&explained(&mut unseen)), [(CauseKind::Firmware, Some(900))]);
        }
        assert_eq!(explained(&mut unseen), []);
    }

    #[test]
    fn ended_spikes_share_one_reading() {
        let root = machine(None, Some(40));
        let mut unseen = begun(&root);
        let start = monotonic_ns();
        let windows = [start..start + 1_000, start + 1_000..start + 2_000];
        wait_until(windows[1].end);
        assert_eq!(unseen.explain(1, &windows[0], &of(windows[0].clone())), []);
        set(&root, None, Some(41));
        assert_eq!(
            unseen.explain(1, &windows[1], &of(windows[1].clone())),
            [],
            "the reading came after both"
        );
        assert_eq!(explained(&mut unseen).len(), 1);
    }

    #[test]
    fn two_grown_counters_give_no_cause() {
        let root = machine(Some(5), Some(40));
        let mut unseen = begun(&root);
        set(&root, Some(7), Some(41));
        let causes = explained(&mut unseen);
        assert_eq!(durations(&causes), [(CauseKind::Stolen, None), (CauseKind::Firmware, None)]);
        assert_eq!(causes[0].count, Some(2));
    }

    #[test]
    fn a_short_stretch_reads_no_counter() {
        let root = machine(Some(5), Some(40));
        let mut unseen = begun(&root);
        set(&root, Some(7), Some(41));
        let now = monotonic_ns();
        assert_eq!(unseen.explain(1, &(now..now + 1_000), &of(now..now + 99)), []);
        assert_eq!(unseen.explain(1, &(now..now), &of(now..now)), []);
        let read = Account { has_steal_clock: true, ..of(now..now + 1_000) };
        let mut clocked = begun(&machine(Some(5), None));
        assert_eq!(clocked.explain(1, &(now..now + 1_000), &read), [], "its own clock was read");
        let silent = machine(None, None);
        assert_eq!(explained(&mut begun(&silent)), []);
        let mut bare = Unseen::of(root.path(), false);
        bare.begin(CpuSet::from_iter([2]));
        assert_eq!(bare.explain(2, &(now..now + 1_000), &of(now..now + 1_000)), []);
    }
}
