// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab's results, for the page: counts that are no latencies, and what they are worth.
//!
//! - [`card`]: what a lab run comes to, since no verdict on a limit can be drawn from counts;
//! - [`counts`]: a table for each run; [`side_by_side`]: one for all of them.

use std::collections::BTreeMap;

use evidence::Bundle;
use evidence::lab::{LabDocument, LoadDid, LogVerdict, Mode, StormDid, Witness};
use machine::quantity::Share;
use serde::Serialize;

use crate::chart::maxima::Bars;
use crate::facts::{self, Fact};
use crate::runs::{Runs, ShownRun};
use crate::text;

pub(crate) mod card;
mod change;
pub(crate) mod counts;
mod side_by_side;
pub(crate) mod words;

use counts::CountsTable;
use side_by_side::ModeTable;
use words::{beyond, boot_line, log};

/// Everything that the page shows of lab runs.
#[derive(Serialize)]
pub(crate) struct LabSection {
    modes: Vec<Meaning>,
    comparisons: Vec<ModeTable>,
    /// The excursions of several runs, as a picture of their table.
    bars: Option<Bars>,
    tables: Vec<CountsTable>,
    disturbed: Vec<Disturbed>,
    /// Whether anything disturbed, and whether any guest watched itself.
    storms: bool,
    witness: bool,
    facts: Vec<Fact>,
}

/// A mode, and what its figures mean.
#[derive(Serialize)]
struct Meaning {
    /// The runs in it, where there are several modes.
    runs: Vec<String>,
    mode: &'static str,
    words: &'static str,
}

/// The disturbances of the guests of one run, and their own words.
#[derive(Serialize)]
struct Disturbed {
    run: String,
    name: String,
    storms: Vec<StormRow>,
    witness: Vec<WitnessRow>,
    /// `ok` or `late`.
    log_state: &'static str,
    log: String,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct StormRow {
    scenario: String,
    name: String,
    took_effect: bool,
    did: String,
}

/// The guest's record against the scope's.
#[derive(Serialize)]
struct WitnessRow {
    scenario: String,
    cpu: u32,
    named: String,
    seen: String,
    matched: String,
    recall: String,
    precision: String,
    /// Whether they differ at all.
    differ: bool,
    differences: Vec<String>,
}

/// The section of the lab, where any of the runs is one of the lab.
pub(crate) fn of(runs: &Runs, bundles: &[Bundle]) -> Option<LabSection> {
    let labs: Vec<_> = runs.all.iter().filter_map(|run| Some((run, run.bundle.lab.as_ref()?))).collect();
    if labs.is_empty() {
        return None;
    }
    let several = runs.several();
    let disturbed: Vec<_> = labs.iter().map(|(run, lab)| disturbed(run, lab, several)).collect();
    Some(LabSection {
        storms: disturbed.iter().any(|one| !one.storms.is_empty()),
        witness: disturbed.iter().any(|one| !one.witness.is_empty()),
        modes: modes(&labs),
        comparisons: side_by_side::all(&labs),
        bars: side_by_side::bars(&labs),
        tables: counts::tables(&labs, several),
        disturbed,
        facts: facts::facts(bundles, set_up),
    })
}

/// The summary of many lab runs.
pub(crate) fn headline(runs: &Runs) -> String {
    let labs = runs.all.iter().filter_map(|run| run.bundle.lab.as_ref());
    let (all, none) = (runs.all.len(), labs.filter(|lab| !lab.failures().is_empty()).count());
    let but = if none > 0 { format!(", {none} of them no result") } else { String::new() };
    format!("{all} lab runs side by side{but}")
}

fn modes(labs: &[(&ShownRun, &LabDocument)]) -> Vec<Meaning> {
    let mut meanings: Vec<Meaning> = Vec::new();
    for (run, lab) in labs {
        let name = lab.mode.name();
        match meanings.iter_mut().find(|meaning| meaning.mode == name) {
            Some(meaning) => meaning.runs.push(run.letter.clone()),
            None => meanings.push(Meaning {
                runs: vec![run.letter.clone()],
                mode: name,
                words: mode_text(lab.mode),
            }),
        }
    }
    if let [only] = &mut meanings[..] {
        only.runs.clear();
    }
    meanings
}

fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Count => {
            "An emulated guest, looked at from outside its kernel. Counted is every excursion of the isolated CPU: \
             each way from user code into the kernel and back, with the kernel instructions in it. The counts are \
             exact; none of them is a time or a latency, so no verdict on a deadline is possible in this mode: for a \
             verdict run isolator prove on the machine itself."
        }
        Mode::Virtual => {
            "An emulated guest whose clock counts instructions: each is one virtual nanosecond. Latencies are the \
             same each time, and comparable with each other; no machine has them."
        }
        Mode::Real => {
            "A guest on this machine's processor: latencies are those of this machine under its hypervisor."
        }
    }
}

fn disturbed(run: &ShownRun, lab: &LabDocument, several: bool) -> Disturbed {
    let storm = |storm: &StormDid| StormRow {
        scenario: text::clean(&storm.scenario),
        name: text::clean(&storm.name),
        took_effect: storm.took_effect,
        did: text::clean(&storm.did),
    };
    let load = |load: &LoadDid| StormRow {
        scenario: text::clean(&load.scenario),
        name: "load".to_string(),
        took_effect: load.took_effect,
        did: text::clean(&load.did),
    };
    Disturbed {
        run: run.mark(several),
        name: text::clean(&run.name),
        storms: lab.storms.iter().map(storm).chain(lab.loads.iter().map(load)).collect(),
        witness: lab.witness.iter().map(seen).collect(),
        log_state: if lab.guest_log.verdict == LogVerdict::Clean { "ok" } else { "late" },
        log: log(lab),
        warnings: lab.guest_log.warnings.iter().map(|line| text::clean(line)).collect(),
    }
}

fn seen(witness: &Witness) -> WitnessRow {
    // The same difference often comes many times over: said once.
    let mut differences = BTreeMap::<&str, usize>::new();
    for difference in &witness.differences {
        *differences.entry(difference).or_default() += 1;
    }
    let often = |(words, times): (&str, usize)| match times {
        1 => text::clean(words),
        _ => format!("{}, {times} times", text::clean(words)),
    };
    WitnessRow {
        scenario: text::clean(&witness.scenario),
        cpu: witness.cpu,
        named: text::count(witness.named),
        seen: text::count(witness.seen),
        matched: text::count(witness.matched),
        recall: Share::stated(witness.recall).at_least(),
        precision: Share::stated(witness.precision).at_least(),
        differ: witness.matched < witness.named.max(witness.seen),
        differences: beyond(witness).into_iter().chain(differences.into_iter().map(often)).collect(),
    }
}

/// A fact's name, and how it is found.
type LabFact = (&'static str, fn(&LabDocument) -> String);

/// The request to the lab, and the equipment.
const SET_UP: [LabFact; 9] = [
    ("Kernel", |lab| lab.kernel.clone()),
    ("Boot line, added", boot_line),
    ("Mode", |lab| lab.mode.name().to_string()),
    ("Why this mode", |lab| lab.mode_reason.clone()),
    ("CPUs of a guest", |lab| lab.cpus.to_string()),
    ("Architecture", |lab| lab.architecture.clone()),
    ("Seed", |lab| lab.seed.to_string()),
    ("Emulator", |lab| format!("QEMU {}", lab.emulator)),
    ("Kernel's image", |lab| format!("SHA-256 {}", lab.kernel_digest)),
];

/// A column of facts; an empty one for a run that is none of the lab.
fn set_up(bundle: &Bundle) -> Vec<(&'static str, String)> {
    SET_UP.iter().map(|(name, of)| (*name, bundle.lab.as_ref().map(of).unwrap_or_default())).collect()
}
