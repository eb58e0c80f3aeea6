// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about a run that taint it, each judged once: by the writer of a run, the importer of another tool's
//! file, and the reader that asks whether a bundle states a fact without its taint.

use machine::snapshot::{Kernel, Preemption};

use crate::kind::GrantFact;
use crate::manifest::{Granted, Manifest, RowEntry, RowKey, UNKNOWN_LOAD};
use crate::taint::{self, Taint};

impl GrantFact {
    /// The code of its taint.
    pub fn code(self) -> &'static str {
        match self {
            GrantFact::PageFaults => taint::PAGE_FAULTS,
            GrantFact::Steal => taint::STEAL,
            GrantFact::MemoryNotLocked => taint::MEMORY_NOT_LOCKED,
            GrantFact::OrdinaryPolicy => taint::NOT_REAL_TIME_POLICY,
            GrantFact::Ethercat => taint::ETHERCAT,
        }
    }

    /// Whether the grants of a row say so.
    pub fn is_so(self, granted: &Granted) -> bool {
        match self {
            GrantFact::PageFaults => granted.page_faults > Some(0),
            GrantFact::Steal => granted.steal_ns > Some(0),
            GrantFact::MemoryNotLocked => granted.memory_locked == Some(false),
            GrantFact::OrdinaryPolicy => {
                matches!(granted.policy.as_deref(), Some("other" | "batch" | "idle"))
            }
            GrantFact::Ethercat => {
                granted.ethercat.as_ref().is_some_and(|told| told.wrong_counters > 0 || told.not_op > 0)
            }
        }
    }

    /// Whether it is an amount of the row itself. Another row's taint does not state that, as it states what
    /// a thread has or lacks.
    fn is_amount(self) -> bool {
        matches!(self, GrantFact::PageFaults | GrantFact::Steal | GrantFact::Ethercat)
    }

    /// The fact in half a sentence, for a bundle that lacks the taint.
    pub(crate) fn statement(self) -> &'static str {
        match self {
            GrantFact::PageFaults => "its thread took page faults",
            GrantFact::Steal => "the hypervisor took its CPU away",
            GrantFact::MemoryNotLocked => "its memory was not locked",
            GrantFact::OrdinaryPolicy => "its thread had no real-time policy",
            GrantFact::Ethercat => "EtherCAT cycles went wrong",
        }
    }

    fn reason_and_cure(self, key: &RowKey, granted: &Granted) -> (String, &'static str) {
        let probe = &key.probe;
        match self {
            GrantFact::PageFaults => (
                format!(
                    "the {probe} probe's thread took {} page faults while it measured",
                    granted.page_faults.unwrap_or(0)
                ),
                "let it lock its memory: run as root or raise RLIMIT_MEMLOCK",
            ),
            GrantFact::Steal => (
                format!(
                    "the hypervisor took {} ms from the {probe} probe's CPU",
                    granted.steal_ns.unwrap_or(0) / 1_000_000
                ),
                "measure on the machine itself, or give the guest CPUs of its own",
            ),
            GrantFact::MemoryNotLocked if key.kind().is_of_program() => (
                format!("{} has not locked its memory: a page fault may delay it", thread(key)),
                "let the program call mlockall(MCL_CURRENT | MCL_FUTURE) before its loop",
            ),
            GrantFact::MemoryNotLocked => (
                format!("{} could not lock its memory: a page fault may delay it", thread(key)),
                "raise RLIMIT_MEMLOCK, or grant CAP_IPC_LOCK",
            ),
            GrantFact::OrdinaryPolicy => (
                format!("{} has no real-time policy: every ordinary task may delay it", thread(key)),
                if key.kind().is_of_program() { "give it SCHED_FIFO" } else { "measure with --policy fifo" },
            ),
            GrantFact::Ethercat => {
                let told = granted.ethercat.clone().unwrap_or_default();
                let reason = format!(
                    "of {} EtherCAT cycles {} came back with a wrong working counter, {} while not every SubDevice was in OP",
                    told.cycles, told.wrong_counters, told.not_op
                );
                (reason, "look at cables and SubDevices, or give a longer period")
            }
        }
    }

    fn taint(self, key: &RowKey, granted: &Granted) -> Taint {
        let (reason, cure) = self.reason_and_cure(key, granted);
        let taint = Taint::new(self.code(), reason, cure);
        Taint { load: Some(key.load.clone()), cpu: Some(key.cpu), ..taint }
    }
}

/// The thread of a row, for people.
fn thread(key: &RowKey) -> String {
    match &key.thread_name {
        Some(name) => format!("thread {name}"),
        None if key.kind().is_of_program() => "the loop's thread".to_string(),
        None => format!("the {} probe's thread", key.probe),
    }
}

/// Facts of a row that no taint of the manifest states.
pub(crate) fn untold<'a>(
    manifest: &'a Manifest,
    entry: &'a RowEntry,
) -> impl Iterator<Item = GrantFact> + 'a {
    let facts = entry.key.kind().facts().iter().copied().filter(|fact| fact.is_so(&entry.granted));
    facts.filter(|fact| {
        !manifest.taints.iter().any(|taint| taint.code == fact.code() && entry.key.is_tainted_by(taint))
    })
}

/// The taints of a row by its grants: an amount of its own always, all else where no taint states it yet.
pub fn taints_of(manifest: &Manifest, entry: &RowEntry) -> Vec<Taint> {
    let facts = entry.key.kind().facts().iter().copied();
    let amounts = facts.filter(|fact| fact.is_amount() && fact.is_so(&entry.granted));
    let states = untold(manifest, entry).filter(|fact| !fact.is_amount());
    amounts.chain(states).map(|fact| fact.taint(&entry.key, &entry.granted)).collect()
}

/// A taint for each of kernel, machine and load that a run does not state: unknown is not good.
pub fn unknown(manifest: &Manifest) -> Vec<Taint> {
    let machine = &manifest.machine;
    let has_load = manifest.rows.iter().all(|row| row.key.load != UNKNOWN_LOAD);
    let all = [
        (machine.kernel.preemption != Preemption::Unknown, taint::KERNEL_UNKNOWN, "the kernel's preemption"),
        (
            machine.hostname.is_some() || machine.cpu_model.is_some() || !machine.cpus.is_empty(),
            taint::MACHINE_UNKNOWN,
            "the machine",
        ),
        (has_load, taint::LOAD_UNKNOWN, "the load"),
    ];
    let unknown = all.into_iter().filter(|(is_known, ..)| !is_known);
    let cure = |code| taint::TEXTS.iter().find(|text| text.code == code).map_or("", |text| text.cure);
    unknown.map(|(_, code, what)| Taint::new(code, format!("{what} is not stated"), cure(code))).collect()
}

/// The taint of a run on that kernel; none where it is PREEMPT_RT.
pub fn of_kernel(kernel: &Kernel) -> Option<Taint> {
    if kernel.preemption == Preemption::RealTime {
        return None;
    }
    let release = kernel.release.as_deref().unwrap_or("of unknown release");
    let model = kernel.preemption.name();
    Some(Taint::new(
        taint::NOT_REAL_TIME_KERNEL,
        format!("the kernel {release} is {model}: how long it may delay a thread has no bound"),
        "boot a PREEMPT_RT kernel (Debian: linux-image-rt, Ubuntu Pro: realtime, RHEL: kernel-rt)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::RowKind;
    use crate::manifest::Exchanged;

    const ALL: [GrantFact; 5] = [
        GrantFact::PageFaults,
        GrantFact::Steal,
        GrantFact::MemoryNotLocked,
        GrantFact::OrdinaryPolicy,
        GrantFact::Ethercat,
    ];

    /// Grants that say everything against a row.
    fn worst() -> Granted {
        Granted {
            page_faults: Some(3),
            steal_ns: Some(20_000_000),
            memory_locked: Some(false),
            policy: Some("other".into()),
            ethercat: Some(Exchanged { cycles: 9, not_op: 1, ..Exchanged::default() }),
            ..Granted::default()
        }
    }

    fn key(probe: &str) -> RowKey {
        RowKey::new(probe, "idle", 1, None)
    }

    #[test]
    fn steal_can_taint_every_kind() {
        for kind in RowKind::ALL {
            assert!(kind.facts().contains(&GrantFact::Steal), "{kind:?}");
        }
        assert_eq!(RowKind::Hardware.facts(), [GrantFact::Steal]);
    }

    #[test]
    fn every_fact_has_a_taint_that_tells_it() {
        for fact in ALL {
            assert!(fact.is_so(&worst()) && !fact.is_so(&Granted::default()), "{fact:?}");
            for probe in ["wakeup", "loop"] {
                let taint = fact.taint(&key(probe), &worst());
                assert!(key(probe).is_tainted_by(&taint));
                assert!(!RowKey { cpu: 2, ..key(probe) }.is_tainted_by(&taint));
                assert_eq!(taint.code, fact.code());
            }
        }
    }

    #[test]
    fn a_loop_and_a_probe_name_their_own_cures() {
        let reason = |probe: &str| GrantFact::MemoryNotLocked.taint(&key(probe), &worst()).reason;
        assert_eq!(reason("loop"), "the loop's thread has not locked its memory: a page fault may delay it");
        assert_eq!(
            reason("wakeup"),
            "the wakeup probe's thread could not lock its memory: a page fault may delay it"
        );
    }
}
