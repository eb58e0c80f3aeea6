// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of facts, a column for each run: the machine, what was asked, what was granted.
//!
//! An unknown fact is called unknown; where runs differ the line is marked, since that is what a reader who
//! compares looks for.

use std::collections::BTreeSet;

use evidence::Bundle;
use evidence::manifest::{ResponseSetup, RowEntry, RunState};
use machine::quantity::{Sign, Time};
use machine::snapshot::Preemption;
use machine::{CpuSet, Snapshot, units};
use serde::Serialize;

use crate::runs::{ProbePeriod, ShownRun};
use crate::text;

/// One line: a name and a value for each run.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Fact {
    pub name: &'static str,
    pub values: Vec<String>,
    pub differ: bool,
}

/// The grants of some rows, or the work of their load.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Grant {
    pub rows: String,
    pub words: String,
}

const UNKNOWN: &str = "unknown";

/// Loads that a card names.
const LOADS: usize = 10;

pub(crate) fn machine(bundles: &[Bundle]) -> Vec<Fact> {
    facts(bundles, |bundle| machine_of(&bundle.manifest.machine))
}

pub(crate) fn asked(bundles: &[Bundle]) -> Vec<Fact> {
    facts(bundles, asked_of)
}

/// The facts on a verdict's card: machine, kernel, date, loads, and what measured.
pub(crate) fn card(run: &ShownRun) -> Vec<(&'static str, String)> {
    let (manifest, machine) = (&run.bundle.manifest, &run.bundle.manifest.machine);
    let asked = &manifest.asked;
    let joined = |parts: Vec<Option<String>>| parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let online = machine.online().len();
    let kernel = &machine.kernel;
    let loads = run.loads();
    let mut named: Vec<String> = loads.iter().take(LOADS).map(|load| text::short(load, 80)).collect();
    if loads.len() > LOADS {
        named.push(format!("and {} more", loads.len() - LOADS));
    }
    let probes = probes(run);
    let cpus: CpuSet = run.rows().map(|row| row.row.entry.key.cpu).collect();
    let policy = asked.policy.as_ref().map(|policy| {
        let priority = asked.priority.map(|priority| format!(" {priority}")).unwrap_or_default();
        format!("{policy}{priority}")
    });
    let measured = (!cpus.is_empty()).then(|| format!("{} on {}", probes.join("; "), text::cpus(&cpus)));
    let length = asked.duration_ns.map(|ns| format!("{} a row", text::duration(ns)));
    let by = &manifest.written_by;
    let by = (by.program != "isolator").then(|| format!("measured by {}", by.program));
    let facts = [
        (
            "Machine",
            joined(vec![
                machine.hostname.clone(),
                machine.cpu_model.clone(),
                (online > 0).then(|| text::plural(online, "CPU")),
                machine.hypervisor.as_ref().map(|name| format!("virtual ({name})")),
            ]),
        ),
        (
            "Kernel",
            joined(vec![
                kernel.release.clone(),
                (kernel.preemption != Preemption::Unknown).then(|| preemption(kernel.preemption).to_string()),
            ]),
        ),
        ("Date", joined(vec![manifest.started_at.as_deref().map(day), length, by])),
        ("Load", named.join(", ")),
        ("Measured", joined(vec![measured, policy])),
    ];
    let known = |(name, words): (&'static str, String)| match words.is_empty() {
        true => (name, UNKNOWN.to_string()),
        false => (name, text::clean(&words)),
    };
    facts.into_iter().map(known).collect()
}

/// The probes of a run; those of one loop together: `loop, execution of servo every 2 ms`.
fn probes(run: &ShownRun) -> Vec<String> {
    let mut groups: Vec<ProbePeriod> = Vec::new();
    for kind in run.kinds() {
        let same = |group: &&mut ProbePeriod| {
            group.thread_name == kind.thread_name && group.period_ns == kind.period_ns
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.probe = format!("{}, {}", group.probe, kind.probe),
            None => groups.push(kind),
        }
    }
    groups.iter().map(ToString::to_string).collect()
}

/// `2026-03-01 10:00 UTC` of RFC 3339 in UTC; anything else as it is.
fn day(time: &str) -> String {
    match (time.get(..10), time.get(10..11), time.get(11..16), time.ends_with('Z')) {
        (Some(date), Some("T"), Some(minutes), true) => format!("{date} {minutes} UTC"),
        _ => time.to_string(),
    }
}

/// Sets the facts of all bundles side by side; drops what none of them has.
pub(crate) fn facts(bundles: &[Bundle], of: impl Fn(&Bundle) -> Vec<(&'static str, String)>) -> Vec<Fact> {
    let columns: Vec<_> = bundles.iter().map(of).collect();
    let names = columns.first().map(|column| column.iter().map(|(name, _)| *name)).into_iter().flatten();
    let fact = |(place, name): (usize, &'static str)| {
        let values: Vec<_> = columns.iter().map(|column| text::clean(&column[place].1)).collect();
        let differ = values.iter().any(|value| *value != values[0]);
        Fact { name, values, differ }
    };
    names.enumerate().map(fact).filter(|fact| fact.values.iter().any(|value| !value.is_empty())).collect()
}

fn machine_of(machine: &Snapshot) -> Vec<(&'static str, String)> {
    let known = *machine != Snapshot::default();
    let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| UNKNOWN.to_string());
    // What is only there on some machines is absent, not unknown, once the machine was looked at.
    let or_none = |value: &Option<String>| {
        value.clone().unwrap_or_else(|| (if known { "none seen" } else { UNKNOWN }).to_string())
    };
    let set = |set: &CpuSet| match (known, set.is_empty()) {
        (false, _) => UNKNOWN.to_string(),
        (true, true) => "none".to_string(),
        (true, false) => set.to_string(),
    };
    let kernel = &machine.kernel;
    let config = match (&kernel.config_sha256, &kernel.config_source) {
        (Some(digest), Some(source)) => format!("SHA-256 {digest} ({source})"),
        (Some(digest), None) => format!("SHA-256 {digest}"),
        (None, _) => UNKNOWN.to_string(),
    };
    let online = machine.cpus.iter().filter(|cpu| cpu.online && cpu.siblings.len() > 1);
    let cores: BTreeSet<&CpuSet> = online.map(|cpu| &cpu.siblings).collect();
    let cores = cores.iter().map(|core| core.to_string()).collect::<Vec<_>>().join("; ");
    let scheduler = &machine.scheduler;
    let throttle = match (scheduler.rt_runtime_us, scheduler.rt_period_us) {
        (Some(-1), _) => "none".to_string(),
        (Some(runtime), Some(period)) => format!("{} of every {}", whole_us(runtime), whole_us(period)),
        (Some(runtime), None) => whole_us(runtime),
        (None, _) => UNKNOWN.to_string(),
    };
    let fair = grouped(machine, |cpu| cpu.fair_server_runtime_ns.map(|ns| text::page(Time::round(ns))));
    vec![
        ("Host", or_unknown(&machine.hostname)),
        ("Product", or_unknown(&machine.product)),
        ("Firmware", or_unknown(&machine.firmware)),
        ("Hypervisor", or_none(&machine.hypervisor)),
        ("Container", or_none(&machine.container)),
        ("Processor", or_unknown(&machine.cpu_model)),
        ("Architecture", or_unknown(&machine.architecture)),
        ("CPUs online", set(&machine.online())),
        ("CPUs that share a core", filled(cores, known)),
        ("Memory", machine.memory_bytes.map_or(UNKNOWN.to_string(), mebibytes)),
        ("Kernel", or_unknown(&kernel.release)),
        ("Build", or_unknown(&kernel.version)),
        ("Preemption", preemption(kernel.preemption).to_string()),
        ("Configuration", config),
        ("Boot line", or_unknown(&kernel.command_line)),
        ("Isolated CPUs", set(&machine.isolation.isolated)),
        ("nohz_full CPUs", set(&machine.isolation.nohz_full)),
        ("CPUs for interrupts", set(&machine.isolation.irq_default)),
        ("Governor", filled(grouped(machine, |cpu| cpu.governor.clone()), known)),
        ("Idle states", filled(grouped(machine, idle_states), known)),
        ("Clocksource", or_unknown(&machine.clocksource)),
        ("Real-time throttling", throttle),
        ("Fair server per CPU", filled(fair, known)),
        (
            "Highest interrupt thread",
            scheduler.highest_irq_thread_priority.map_or(UNKNOWN.to_string(), |p| format!("priority {p}")),
        ),
        ("Could not be read", machine.unread.join("; ")),
    ]
}

fn filled(text: String, known: bool) -> String {
    match (text.is_empty(), known) {
        (false, _) => text,
        (true, true) => "none seen".to_string(),
        (true, false) => UNKNOWN.to_string(),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", text::count(bytes >> 20))
}

/// Whole microseconds as the machine states them.
fn whole_us(us: impl Into<i128>) -> String {
    format!("{} {}", units::whole(us), Sign::Page.us())
}

fn preemption(preemption: Preemption) -> &'static str {
    match preemption {
        Preemption::RealTime => "real-time (PREEMPT_RT)",
        Preemption::Full => "full (PREEMPT)",
        Preemption::Lazy => "lazy (PREEMPT_LAZY)",
        Preemption::Voluntary => "voluntary (PREEMPT_VOLUNTARY)",
        Preemption::None => "none (PREEMPT_NONE)",
        Preemption::Dynamic => "dynamic, the present choice is unknown",
        Preemption::Unknown => UNKNOWN,
    }
}

fn idle_states(cpu: &machine::snapshot::Cpu) -> Option<String> {
    let state = |state: &machine::snapshot::IdleState| {
        let off = if state.disabled { ", disabled" } else { "" };
        format!("{} ({}{off})", state.name, whole_us(state.exit_latency_us))
    };
    (!cpu.idle_states.is_empty()).then(|| cpu.idle_states.iter().map(state).collect::<Vec<_>>().join(", "))
}

/// A fact of each online CPU, equal ones named once: `performance (cpus 0-3); schedutil (cpus 4-7)`.
fn grouped(machine: &Snapshot, of: impl Fn(&machine::snapshot::Cpu) -> Option<String>) -> String {
    let mut groups: Vec<(String, CpuSet)> = Vec::new();
    for cpu in machine.cpus.iter().filter(|cpu| cpu.online) {
        let Some(fact) = of(cpu) else { continue };
        match groups.iter_mut().find(|(text, _)| *text == fact) {
            Some((_, cpus)) => cpus.insert(cpu.id),
            None => groups.push((fact, CpuSet::from_iter([cpu.id]))),
        }
    }
    let group = |(fact, set): &(String, CpuSet)| format!("{fact} ({})", text::cpus(set));
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}

fn asked_of(bundle: &Bundle) -> Vec<(&'static str, String)> {
    let (manifest, asked) = (&bundle.manifest, &bundle.manifest.asked);
    let by = &manifest.written_by;
    let program = [Some(&by.program), by.version.as_ref(), by.commit.as_ref()];
    let thread = [
        asked.policy.as_ref().map(|policy| format!("policy {policy}")),
        asked.priority.map(|priority| format!("priority {priority}")),
        asked.timer.as_ref().map(|timer| format!("timer {timer}")),
    ];
    let length = asked.duration_ns.map(text::duration);
    let loops = asked.loops.map(|loops| format!("{} cycles", text::count(loops)));
    let state = match manifest.state {
        RunState::Running => "did not end in order",
        RunState::Finished => "ended as asked",
        RunState::Interrupted => "interrupted, with what it had",
    };
    let lines = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    vec![
        ("Bundle", bundle.path.display().to_string()),
        ("Measured by", program.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")),
        ("Command line", by.command_line.clone().unwrap_or_default()),
        ("Began", manifest.started_at.clone().unwrap_or_else(|| UNKNOWN.to_string())),
        ("Ended", manifest.ended_at.clone().unwrap_or_else(|| UNKNOWN.to_string())),
        ("State", state.to_string()),
        ("Probes", asked.probes.join(", ")),
        ("Loads", asked.loads.join(", ")),
        ("Measured CPUs", asked.cpus.to_string()),
        ("Housekeeping CPUs", asked.house_keeping.to_string()),
        (
            "Periods",
            asked.periods_ns.iter().map(|ns| text::page(Time::round(*ns))).collect::<Vec<_>>().join(", "),
        ),
        ("Measuring threads", lines(&thread)),
        ("Each row", lines(&[length, loops])),
        ("Warm-up, thrown away", asked.warm_up_ns.map(text::duration).unwrap_or_default()),
        ("Limit", asked.limit.clone().unwrap_or_default()),
        ("Spikes listed above", asked.threshold_ns.map(|ns| text::page(Time::round(ns))).unwrap_or_default()),
        (
            "Claim: rate of late episodes below",
            asked.claim.map(|claim| format!("{claim}")).unwrap_or_default(),
        ),
        (
            "cpu_dma_latency",
            asked.dma_latency_us.map_or("left alone".to_string(), |us| format!("held at {}", whole_us(us))),
        ),
        ("Isolator asked to defer", asked.isolate.clone().unwrap_or_default()),
        ("Response probe", asked.response.as_ref().map(wired).unwrap_or_default()),
        ("EtherCAT on", asked.ethercat.as_ref().and_then(|wire| wire.device.clone()).unwrap_or_default()),
        ("Taints accepted", asked.accept.join(", ")),
    ]
}

/// The wiring of the response probe.
fn wired(response: &ResponseSetup) -> String {
    let line = |what: &str, line: Option<u32>| line.map(|line| format!("{what} line {line}"));
    let named = |what: &str, value: &Option<String>| value.as_ref().map(|value| format!("{what} {value}"));
    let parts = [
        named("role", &response.role),
        named("signal", &response.signal),
        named("board", &response.board),
        named("chip", &response.chip),
        line("reads", response.input),
        line("drives", response.output),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The grants of the measuring threads, equal rows named together.
pub(crate) fn granted(bundle: &Bundle) -> Vec<Grant> {
    merged(bundle, |entry| Some(granted_of(entry)))
}

/// The work of the loads.
pub(crate) fn loads(bundle: &Bundle) -> Vec<Grant> {
    merged(bundle, |entry| entry.load_did.clone())
}

fn granted_of(entry: &RowEntry) -> String {
    let granted = &entry.granted;
    let own = CpuSet::from_iter([entry.key.cpu]);
    let affinity = granted.affinity.as_ref().map(|affinity| match *affinity == own {
        true => "bound to its cpu".to_string(),
        false => format!("may use {}", text::cpus(affinity)),
    });
    let coarse = entry.coarse.as_ref().map(|coarse| {
        let overflow = coarse.overflow_from_ns.filter(|_| coarse.overflow_count > 0).map(|from| {
            let from = text::page(Time::round(from));
            format!("; {} values from {from} on were only counted", text::count(coarse.overflow_count))
        });
        let width = text::page(Time::round(coarse.resolution_ns));
        format!("the source has a resolution of {width}{}", overflow.unwrap_or_default())
    });
    let parts = [
        granted.policy.as_ref().map(|policy| format!("policy {policy}")),
        granted.priority.map(|priority| format!("priority {priority}")),
        affinity,
        granted.memory_locked.map(|yes| if yes { "memory locked" } else { "memory not locked" }.to_string()),
        granted.page_faults.map(|faults| text::plural(faults as usize, "page fault")),
        granted.steal_ns.map(|ns| match ns {
            0 => "no steal".to_string(),
            _ => format!("{} stolen by the hypervisor", text::page(Time::round(ns))),
        }),
        granted.counter_hz.map(|hz| format!("counter at {:.3} MHz", hz as f64 / 1e6)),
        coarse,
        (entry.state != RunState::Finished).then(|| "did not run to its end".to_string()),
    ];
    let words = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if words.is_empty() { UNKNOWN.to_string() } else { words }
}

/// Rows of one probe that share their words.
struct RowGroup {
    probe: String,
    loads: Vec<String>,
    cpus: CpuSet,
    words: String,
}

/// Words on each row: said once for the CPUs of a load that share them, and once for the loads whose CPUs do.
fn merged(bundle: &Bundle, of: impl Fn(&RowEntry) -> Option<String>) -> Vec<Grant> {
    let mut by_load: Vec<RowGroup> = Vec::new();
    for entry in bundle.rows.iter().map(|row| &row.entry) {
        let Some(words) = of(entry) else { continue };
        let key = &entry.key;
        let same = |group: &&mut RowGroup| {
            group.probe == key.probe && group.loads[0] == key.load && group.words == words
        };
        match by_load.iter_mut().find(same) {
            Some(group) => group.cpus.insert(key.cpu),
            None => by_load.push(RowGroup {
                probe: key.probe.clone(),
                loads: vec![key.load.clone()],
                cpus: CpuSet::from_iter([key.cpu]),
                words,
            }),
        }
    }
    let mut groups: Vec<RowGroup> = Vec::new();
    for group in by_load {
        let same = |other: &&mut RowGroup| {
            other.probe == group.probe && other.cpus == group.cpus && other.words == group.words
        };
        match groups.iter_mut().find(same) {
            Some(other) => other.loads.extend(group.loads),
            None => groups.push(group),
        }
    }
    let grant = |group: RowGroup| Grant {
        rows: text::clean(&format!(
            "{} under {} on {}",
            group.probe,
            group.loads.join(", "),
            text::cpus(&group.cpus)
        )),
        words: text::clean(&group.words),
    };
    groups.into_iter().map(grant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::snapshot::Cpu;

    #[test]
    fn equal_facts_of_cpus_are_named_once() {
        let cpu =
            |id, governor: &str| Cpu { id, online: true, governor: Some(governor.into()), ..Cpu::default() };
        let cpus = vec![cpu(0, "schedutil"), cpu(1, "performance"), cpu(2, "performance")];
        let machine = Snapshot { cpus, ..Snapshot::default() };
        let words = grouped(&machine, |cpu| cpu.governor.clone());
        assert_eq!(words, "schedutil (cpu 0); performance (cpus 1-2)");
    }

    #[test]
    fn claims_nothing_of_a_machine_without_a_snapshot() {
        let facts = machine_of(&Snapshot::default());
        let said = facts.iter().filter(|(_, value)| !value.is_empty() && value != UNKNOWN);
        assert_eq!(said.count(), 0, "{facts:?}");
    }
}
