// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fleet as one self-contained page, and the sentences that terminal and page share.
//!
//! Limit: of machines the page lists [`LISTED`] at either end; the JSON lists all.

use evidence::{Error, Result};
use fleet::document::{
    FailingSetting, FleetDocument, FleetMachine, LatencyDrift, MachineClass, Outlier, Unfit,
};
use machine::quantity::{Count, Cycles, Machines, Say, Share, Sign, Time};
use minijinja::value::Serde;
use serde::Serialize;

use crate::card::{Tile, VerdictCard};
use crate::text;

/// Machines listed at either end, and lines of any other part.
const LISTED: usize = 100;

#[derive(Serialize)]
struct FleetPage {
    title: String,
    heading: String,
    card: VerdictCard,
    /// Parts with a finding, and the sentences of those without one.
    parts: Vec<ListSection>,
    quiet: Vec<&'static str>,
    best: Vec<MachineLine>,
    worst: Vec<MachineLine>,
    classes: Vec<ClassLine>,
    columns: MachineColumns,
    version: &'static str,
}

/// Which columns of the tables say anything.
#[derive(Serialize)]
struct MachineColumns {
    /// Any class has enough machines to be set against.
    against: bool,
    /// The measured CPUs of any machine are isolated.
    set_apart: bool,
    /// Any machine has several runs.
    runs: bool,
    /// There is more than one class.
    class: bool,
    /// The use of any machine has a scale.
    grade: bool,
    /// A taint of any machine was accepted.
    accepted: bool,
    /// Anything speaks against any machine.
    reason: bool,
}

/// A list with what it means.
#[derive(Serialize)]
pub(crate) struct ListSection {
    id: &'static str,
    pub title: &'static str,
    lead: &'static str,
    none: &'static str,
    pub count: usize,
    pub lines: Vec<String>,
    pub more: usize,
}

impl ListSection {
    /// Whether what is in it fails.
    pub fn is_bad(&self) -> bool {
        ["unfit", "outliers"].contains(&self.id)
    }
}

/// A machine.
#[derive(Serialize)]
struct MachineLine {
    rank: String,
    hostname: String,
    state: &'static str,
    outcome: String,
    late: String,
    p99_9: String,
    max: String,
    against: String,
    class: String,
    set_apart: &'static str,
    runs: u64,
    grade: String,
    accepted: String,
    reason: String,
}

/// A class, with the shares of its machines by verdict.
#[derive(Serialize)]
struct ClassLine {
    class: String,
    machines: String,
    held: f64,
    unproven: f64,
    exceeded: f64,
    words: String,
    best: String,
    median: String,
    worst: String,
    worst_host: String,
}

/// The report of a store as one HTML page.
pub fn fleet(document: &FleetDocument) -> Result<String> {
    let defect = |e: minijinja::Error| Error::on("make", "the report", e, "report this as a defect");
    let page = Serde(page(document));
    crate::html::environment().and_then(|env| env.get_template("fleet.html")?.render(page)).map_err(defect)
}

fn page(document: &FleetDocument) -> FleetPage {
    let machines = &document.machines;
    let half = (machines.len().div_ceil(2)).min(LISTED);
    let worst = machines.iter().rev().take(half.min(machines.len() - half));
    let (parts, quiet): (Vec<_>, Vec<_>) =
        parts(document, LISTED, Sign::Page).into_iter().partition(|part| !part.lines.is_empty());
    let any = |of: fn(&FleetMachine) -> bool| machines.iter().any(of);
    FleetPage {
        title: format!("Fleet: {}", text::clean(&document.store)),
        heading: heading(document),
        card: card(document, &parts),
        quiet: quiet.iter().map(|part| part.none).collect(),
        parts,
        columns: MachineColumns {
            against: any(|one| one.against_class.is_some()),
            set_apart: any(|one| one.set_apart),
            runs: any(|one| one.runs > 1),
            class: document.classes.len() > 1,
            grade: any(|one| one.grade.is_some()),
            accepted: any(|one| one.accepted.is_some()),
            reason: any(|one| !one.reason.is_empty()),
        },
        best: machines.iter().take(half).map(line).collect(),
        worst: worst.map(line).collect(),
        classes: document.classes.iter().take(LISTED).map(class_line).collect(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// The first screen: how many machines hold, which is the worst, and what stands out most.
fn card(document: &FleetDocument, parts: &[ListSection]) -> VerdictCard {
    let machines = &document.machines;
    let number = |outcome: &str| machines.iter().filter(|one| one.outcome == outcome).count() as u64;
    let (held, exceeded) = (number("held"), number("exceeded"));
    let open = machines.len() as u64 - held - exceeded;
    let (state, mark) = match (exceeded, open) {
        (0, 0) if held > 0 => ("ok", "✓"),
        (0, _) => ("unproven", "?"),
        _ => ("late", "✗"),
    };
    let all = machines.len() as u64;
    let words = match all {
        0 => "No machine is stored".to_string(),
        1 if held == 1 => "The machine holds its limit".to_string(),
        _ if held == all => format!("All {} machines hold their limits", text::count(all)),
        1 if exceeded == 0 => "The machine's limit is not proven".to_string(),
        1 => "The machine does not hold its limit".to_string(),
        _ => format!("{} of {} hold their limit", text::count(held), several(all, "machine", "machines")),
    };
    let share = |part: u64| format!("of {}", text::count(all.max(part)));
    let worst = machines.iter().filter(|one| one.max_ns.is_some()).max_by_key(|one| one.max_ns);
    let mut tiles = vec![
        Tile { name: "Held", value: text::count(held), note: share(held) },
        Tile { name: "Exceeded", value: text::count(exceeded), note: share(exceeded) },
        Tile { name: "Unproven", value: text::count(open), note: share(open) },
    ];
    // The first one bears the colour of the verdict.
    if state == "late" {
        tiles.swap(0, 1);
    }
    tiles.extend(worst.map(|one| Tile {
        name: "Largest maximum",
        value: text::page(Time::measured(one.max_ns.unwrap_or(0))),
        note: text::short(&one.hostname, 32),
    }));
    let days = machines.iter().filter_map(|one| one.started_at.as_deref()?.get(..10));
    let (first, last) = (days.clone().min(), days.max());
    let limits = machines.iter().filter_map(|one| one.limit_ns);
    let (least, most) = (limits.clone().min(), limits.max());
    let range = |from: String, to: String| if from == to { from } else { format!("{from} to {to}") };
    let mut facts = vec![("Machines", heading(document))];
    facts.extend(
        least
            .zip(most)
            .map(|(from, to)| ("Limit", range(text::page(Time::round(from)), text::page(Time::round(to))))),
    );
    facts.extend(first.zip(last).map(|(from, to)| ("Measured", range(from.to_string(), to.to_string()))));
    facts.push(("Store", text::clean(&document.store)));
    let reasons =
        parts.iter().flat_map(|part| part.lines.iter().take(2).map(|line| format!("{}: {line}", part.title)));
    VerdictCard {
        run: String::new(),
        name: "Each machine by its latest run whose clock is plausible".to_string(),
        state,
        mark,
        words,
        but: String::new(),
        purpose: None,
        grade: None,
        claim: "A verdict is about one run of a machine, under the loads of that run.".to_string(),
        tiles,
        facts,
        reasons: reasons.collect(),
        reasons_shown: 3,
    }
}

/// The parts that stand out, at most so many lines of each.
pub(crate) fn parts(document: &FleetDocument, listed: usize, sign: Sign) -> Vec<ListSection> {
    let part = |id, title, lead, none, lines: Vec<String>| ListSection {
        id,
        title,
        lead,
        none,
        count: lines.len(),
        more: lines.len().saturating_sub(listed),
        lines: lines.into_iter().take(listed).map(|line| text::clean(&line)).collect(),
    };
    vec![
        part(
            "unfit",
            "Unfit platforms",
            "Classes of which most machines exceed their limit even where the measured CPUs are isolated: isolation does not make them fit.",
            "No class has mostly machines that exceed their limit in spite of isolation.",
            document.unfit.iter().map(|one| unfit(one, sign)).collect(),
        ),
        part(
            "outliers",
            "Outliers of their class",
            "Machines with significantly higher latencies than others of the same hardware and kernel class.",
            "No machine is an outlier of its class.",
            document.outliers.iter().map(outlier).collect(),
        ),
        part(
            "settings",
            "Factors correlated with failure",
            "Machines with a setting against machines of the same class without it, all classes added up. Correlation is not causation: change the setting on one machine and measure.",
            "No setting is significantly correlated with failure.",
            document.settings.iter().map(setting).collect(),
        ),
        part(
            "drift",
            "Drift",
            "Machines whose latencies change from run to run, against their class; significance takes about eight runs.",
            "No machine shows a significant trend.",
            document.drift.iter().map(drift).collect(),
        ),
        part(
            "clocks",
            "Implausible clocks",
            "Runs that say they began in the future, before this program was made, or after their end. They are ranked, and stand in no order of time.",
            "All clocks are plausible.",
            document
                .clocks
                .iter()
                .map(|one| format!("{}: {} ({})", one.hostname, one.why, one.path))
                .collect(),
        ),
        part(
            "duplicates",
            "Ambiguous machine names",
            "The same name on other hardware, or in two runs at the same time. Machines are told apart by name and hardware.",
            "Each name belongs to one machine.",
            document.duplicates.iter().map(|one| format!("{}: {}", one.hostname, one.why)).collect(),
        ),
        part(
            "unread",
            "Not read",
            "Bundles in the store that no figure includes.",
            "All bundles were readable.",
            document.unread.iter().map(|one| format!("{}: {}", one.path, one.why)).collect(),
        ),
    ]
}

fn line(one: &FleetMachine) -> MachineLine {
    MachineLine {
        rank: text::count(one.rank),
        hostname: text::clean(&one.hostname),
        state: state(&one.outcome),
        outcome: one.outcome.clone(),
        late: late(one),
        p99_9: latency(one.p99_9_ns),
        max: latency(one.max_ns),
        against: one.against_class.map_or("-".to_string(), times),
        class: text::clean(&one.class),
        set_apart: if one.set_apart { "isolated" } else { "-" },
        runs: one.runs,
        grade: text::short(one.grade.as_deref().unwrap_or("-"), 40),
        accepted: accepted(one),
        reason: text::short(&one.reason, 120),
    }
}

fn class_line(class: &MachineClass) -> ClassLine {
    let share = |part| share(part, class.machines).percent();
    ClassLine {
        class: text::clean(&class.class),
        machines: text::count(class.machines),
        held: share(class.held),
        unproven: share(class.unproven),
        exceeded: share(class.exceeded),
        words: format!(
            "{} held, {} unproven, {} exceeded",
            text::count(class.held),
            text::count(class.unproven),
            text::count(class.exceeded)
        ),
        best: latency(class.best_p99_9_ns),
        median: latency(class.median_p99_9_ns),
        worst: latency(class.worst_p99_9_ns),
        worst_host: text::clean(class.worst.as_deref().unwrap_or("-")),
    }
}

fn state(outcome: &str) -> &'static str {
    match outcome {
        "held" => "ok",
        "exceeded" => "late",
        _ => "unproven",
    }
}

/// `12 machines of 3 classes, 14 bundles, 345 rows, 1,000,000 samples`.
pub(crate) fn heading(document: &FleetDocument) -> String {
    let totals = document.totals;
    format!(
        "{} of {}, {}, {}, {}",
        several(totals.machines, "machine", "machines"),
        several(totals.classes, "class", "classes"),
        several(totals.bundles, "bundle", "bundles"),
        several(totals.rows, "row", "rows"),
        several(totals.samples, "sample", "samples")
    )
}

/// A number with the word for what it counts.
fn several(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", text::count(number), if number == 1 { one } else { many })
}

/// Microseconds, where it is known.
pub(crate) fn latency(ns: Option<u64>) -> String {
    ns.map_or("-".to_string(), |ns| text::figure(ns as f64))
}

/// `1.23×`.
pub(crate) fn times(ratio: f64) -> String {
    format!("{ratio:.2}×")
}

/// Late cycles of a machine among those that were due, as a count where none is and a share where some are.
pub(crate) fn late(one: &FleetMachine) -> String {
    let late = Count::<Cycles>::exact(one.late);
    let due = Count::due(Count::exact(one.samples), Count::exact(one.missed));
    if one.late == 0 { text::page(late) } else { Share::of(late, due).in_a_million() }
}

/// Codes of the accepted taints of a machine.
pub(crate) fn accepted(one: &FleetMachine) -> String {
    text::short(&one.accepted.as_deref().unwrap_or("-").replace(',', ", "), 60)
}

fn share(part: u64, all: u64) -> Share {
    Share::of::<Machines>(Count::exact(part), Count::exact(all))
}

fn unfit(one: &Unfit, sign: Sign) -> String {
    let mut line = format!(
        "{}: {} of {} machines whose measured CPUs are isolated exceed their limit (at least {:.0} % do, at 95 %)",
        one.class,
        text::count(one.failed),
        text::count(one.set_apart),
        Share::stated(one.failed_share_at_least).percent()
    );
    if one.not_set_apart > 0 {
        line.push_str(&format!(", and {} of the {} others", one.not_set_apart_failed, one.not_set_apart));
    }
    if let (Some(best), Some(limit)) = (one.best_max_ns, one.limit_ns) {
        line.push_str(&format!(
            "; the best one's maximum is {} for a limit of {}",
            Time::measured(best).write(sign),
            Time::measured(limit).write(sign)
        ));
    }
    if let (Some(cause), Some(share)) = (&one.cause, one.cause_share) {
        line.push_str(&format!(
            "; {cause} took {} of the time that causes are known of",
            Share::stated(share).at_least()
        ));
    }
    line
}

fn outlier(one: &Outlier) -> String {
    format!(
        "{}: p99.9 {} the median of {} machines ({}), {} in {}; {:.0} deviations from it; {}",
        one.hostname,
        times(one.times_the_median),
        text::count(one.machines),
        one.class,
        times(one.worst_ratio),
        one.worst_cell,
        one.z,
        one.outcome
    )
}

fn setting(one: &FailingSetting) -> String {
    let share = |part, all| share(part, all).at_least();
    format!(
        "{}: {} of {} machines fail ({}), without it {} of {} ({}); {:.1} deviations, of {} differences looked at",
        one.settings.join(", "),
        text::count(one.with_failed),
        text::count(one.with_machines),
        share(one.with_failed, one.with_machines),
        text::count(one.without_failed),
        text::count(one.without_machines),
        share(one.without_failed, one.without_machines),
        one.z,
        text::count(one.tried)
    )
}

fn drift(one: &LatencyDrift) -> String {
    let kernels = if one.kernels > 1 { format!(", on {} kernels", one.kernels) } else { String::new() };
    format!(
        "{}: {} {} over {} runs from {} to {}{kernels}",
        one.hostname,
        times(one.times),
        if one.times > 1.0 { "later" } else { "as late: earlier" },
        one.runs,
        one.first_at,
        one.last_at
    )
}
