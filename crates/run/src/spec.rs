// SPDX-License-Identifier: MIT OR Apache-2.0
//! The specification of a run: text becomes types here, once, and what makes no sense ends here.

use std::num::NonZeroU64;
use std::path::Path;

use evidence::claim::{ClaimPer, THREE};
use evidence::kind::RowKind;
use evidence::limit::{self, Limits, Until};
use evidence::manifest::Asked;
use evidence::verdict::DEFAULT_CLAIM;
use evidence::weakly_hard::LateAllowance;
use evidence::{cause, taint};
use load::{EthercatDevice, Load};
use machine::units::exact_us;
use machine::{CpuSet, Snapshot, Use};
use measure::probes::ethercat::Wire;
use measure::probes::response::Wiring;
use measure::probes::wakeup::TimerKind;
use measure::probes::{self, ProbeKind};
use measure::schedule::Length;
use rt::isolation::Mask;
use rt::policy::{self, PolicyKind};
use serde::Deserialize;

use crate::control;
use crate::error::Result;
use crate::finding::{FindingEffect, PreflightFinding};

/// Longest plan that is read; a manifest has the machine's snapshot.
const LONGEST: u64 = 16 << 20;

/// A period of the measuring threads, and the limit that goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// In nanoseconds.
    pub ns: NonZeroU64,
    /// The limit, in nanoseconds.
    pub limit_ns: u64,
}

/// A run, resolved: every value has its type, and none is missing.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The same as the evidence states it.
    pub asked: Asked,
    /// The probes, one row each under each load.
    pub probes: Vec<ProbeKind>,
    /// The loads, one after the other.
    pub loads: Vec<Load>,
    /// Measured CPUs.
    pub cpus: CpuSet,
    /// CPUs for loads and for the control thread.
    pub house_keeping: CpuSet,
    /// The periods of periodic probes.
    pub periods: Vec<Period>,
    /// The limit of probes without a period, in nanoseconds.
    pub limit_ns: u64,
    /// The policy of the measuring threads.
    pub policy: PolicyKind,
    /// Their real-time priority, for policies that have one.
    pub priority: u32,
    /// How long each row lasts.
    pub length: Length,
    /// Thrown away at the start of each row.
    pub warm_up_ns: u64,
    /// Latency above which a spike is listed, where that is not the limit.
    pub threshold_ns: Option<u64>,
    /// `/dev/cpu_dma_latency` to request while measuring, in microseconds.
    pub dma_latency_us: Option<u32>,
    /// The kernel part's mask on the measured CPUs.
    pub isolate: Option<Mask>,
    /// The collector of causes of spikes.
    pub causes: cause::Choice,
    /// The wire that EtherCAT drives, as a probe or else as a load.
    pub wire: Wire,
}

/// Reads a plan: a manifest, or its `asked` part alone.
pub fn read_asked(path: &Path) -> evidence::Result<Asked> {
    #[derive(serde::Deserialize)]
    struct ManifestFile {
        asked: Asked,
    }
    let of_folder = path.join("manifest.json");
    let path = if path.is_dir() { of_folder.as_path() } else { path };
    let cure = "give the folder of a run, its manifest.json, or a file with its 'asked' part";
    let (task, subject) = ("read the options of the run", path.display());
    let wrong = |why: serde_json::Error| ::error::Error::on(task, &subject, why, cure);
    let text = untrusted::read(path, LONGEST).map_err(|e| ::error::Error::io(task, path, &e))?;
    let document: serde_json::Value = serde_json::from_slice(&text).map_err(wrong)?;
    match document.get("asked") {
        Some(_) => ManifestFile::deserialize(document).map(|manifest| manifest.asked).map_err(wrong),
        None => Asked::deserialize(document).map_err(wrong),
    }
}

/// Fills in the defaults, and chooses CPUs on `machine` where none are named.
pub fn complete(mut asked: Asked, machine: &Snapshot) -> Asked {
    if asked.periods_ns.is_empty() {
        asked.periods_ns = vec![1_000_000];
    }
    without_repetition(&mut asked.periods_ns);
    let probes = std::mem::take(&mut asked.probes);
    asked.probes = probes.iter().flat_map(|name| ProbeKind::expand(name, &asked)).collect();
    without_repetition(&mut asked.probes);
    asked.limit.get_or_insert_with(|| limit::DEFAULT.to_string());
    asked.policy.get_or_insert_with(|| PolicyKind::default().name().to_string());
    asked.timer.get_or_insert_with(|| TimerKind::NAMES[0].0.to_string());
    asked.priority.get_or_insert(80);
    asked.warm_up_ns.get_or_insert(2_000_000_000);
    let claim = *asked.claim.get_or_insert(DEFAULT_CLAIM);
    if asked.until.contains(&Until::Held) && claim > 0.0 {
        // The least cycles that support the claim; more would be looks at the same data.
        let needed = (THREE / claim).ceil() as u64;
        asked.loops = Some(asked.loops.map_or(needed, |loops| loops.min(needed)));
    }
    if asked.cpus.is_empty() {
        asked.cpus = cpus_to_measure(machine);
    }
    if asked.house_keeping.is_empty() {
        asked.house_keeping = control::house_keeping(machine, &asked.cpus);
        // Another program runs where it likes, and may leave none.
        if asked.house_keeping.is_empty() && asked.is_of_program() {
            asked.house_keeping = machine.online();
        }
    }
    asked
}

fn without_repetition<T: PartialEq + Clone>(list: &mut Vec<T>) {
    let mut seen: Vec<T> = Vec::new();
    list.retain(|item| {
        !seen.contains(item) && {
            seen.push(item.clone());
            true
        }
    });
}

/// The isolated CPUs that are online; where there are none, the last CPU.
fn cpus_to_measure(machine: &Snapshot) -> CpuSet {
    let online = machine.online();
    let isolated = machine.isolation.isolated.and(&online);
    if isolated.is_empty() { online.iter().last().into_iter().collect() } else { isolated }
}

impl RunSpec {
    /// Whether one of its probes has rows of which `is` is true.
    pub fn has_kind(&self, is: fn(RowKind) -> bool) -> bool {
        self.probes.iter().any(|probe| is(probe.row_kind()))
    }

    /// Resolves what was asked; the first thing that makes no sense is refused, with the cure.
    pub fn of(asked: Asked) -> Result<RunSpec> {
        let loads = loads(&asked)?;
        let length = Length { duration_ns: asked.duration_ns, loops: asked.loops };
        fits(&asked, length, loads.len())?;
        let limits = Limits::parse(asked.limit.as_deref().unwrap_or(limit::DEFAULT))?;
        let timer = named(
            "timer",
            &TimerKind::NAMES.map(|(name, _)| name),
            asked.timer.as_deref(),
            TimerKind::named,
        )?;
        let probes = probes(&asked, timer)?;
        let policy = named("policy", &policy::NAMES, asked.policy.as_deref(), PolicyKind::named)?;
        accepted(&asked)?;
        lengths(&asked, &probes)?;
        let periods = periods(&asked, &limits, probes.iter().any(|probe| probe.row_kind().has_period()))?;
        used(&asked)?;
        Ok(RunSpec {
            limit_ns: limits.ns(None)?,
            priority: priority(&asked, policy)?,
            length,
            isolate: asked.isolate.as_deref().map(Mask::named).transpose()?,
            wire: Wire::of(&asked),
            cpus: asked.cpus.clone(),
            house_keeping: asked.house_keeping.clone(),
            warm_up_ns: asked.warm_up_ns.unwrap_or(0),
            threshold_ns: asked.threshold_ns,
            dma_latency_us: asked.dma_latency_us,
            causes: asked.causes.unwrap_or_default(),
            probes,
            loads,
            periods,
            policy,
            asked,
        })
    }

    /// Refuses, before anything is written, devices that cannot be opened or driven here.
    pub fn try_devices(&self) -> Result<()> {
        Wiring::check(&self.asked)?;
        for probe in &self.probes {
            if let ProbeKind::Response(wiring) = probe {
                wiring.try_open()?;
            }
        }
        Ok(Wire::check(&self.asked)?)
    }

    /// The interface that the load ethercat drives. One that the probe drives has its MainDevice: the load
    /// simulates then.
    pub fn device_of_loads(&self) -> Option<EthercatDevice> {
        let is_free = !self.probes.iter().any(|probe| matches!(probe, ProbeKind::Ethercat(_)));
        let Wire { device, is_forced } = self.wire.clone();
        device.filter(|_| is_free).map(|name| EthercatDevice { name, is_forced })
    }
}

/// The loads asked for. Rows are told apart by the load's name alone, whatever command goes with it.
fn loads(asked: &Asked) -> Result<Vec<Load>> {
    let named = asked.loads.iter().map(|name| load::parse(name));
    let named = named.collect::<std::result::Result<Vec<_>, _>>()?;
    let mut loads: Vec<Load> = Vec::new();
    for load in named.concat() {
        if let Some(other) = loads.iter().find(|other| other.name() == load.name() && **other != load) {
            let what = format!("under '{other}' and '{load}' in one run");
            let why = format!("both rows would be called {}", load.name());
            return Err(::error::Error::on("measure", what, why, "measure them one after the other").into());
        }
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    Ok(loads)
}

/// Refuses a run whose bundle would be too large to be read: its evidence would be lost to its length.
fn fits(asked: &Asked, length: Length, loads: usize) -> evidence::Result<()> {
    let longest_ns = asked.periods_ns.iter().max().copied().unwrap_or(0);
    let length_ns = length.at_most_ns(longest_ns).unwrap_or(0) / if asked.flight { 60 } else { 1 };
    let rows = [asked.probes.len(), asked.cpus.len(), asked.periods_ns.len().max(1)];
    let rows = rows.into_iter().fold(loads, usize::saturating_mul);
    evidence::reader::fits(rows, length_ns / 1_000_000_000)
}

fn refuse(
    code: &'static str,
    reason: impl std::fmt::Display,
    cure: impl std::fmt::Display,
) -> PreflightFinding {
    PreflightFinding::new(FindingEffect::Refuse, code, reason, cure)
}

fn unknown(what: &str, name: &str, known: &[&str]) -> PreflightFinding {
    refuse("unknown-name", format!("there is no {what} '{name}'"), choose(name, known))
}

/// The likely name, or those that exist.
fn choose(name: &str, known: &[&str]) -> String {
    match machine::likely(name, known.iter().copied()) {
        Some(likely) => format!("did you mean {likely}?"),
        None => format!("choose from {}", known.join(", ")),
    }
}

/// The value named `name`, the default where none is given.
fn named<T: Default>(
    what: &str,
    known: &[&str],
    name: Option<&str>,
    find: fn(&str) -> Option<T>,
) -> std::result::Result<T, PreflightFinding> {
    name.map_or_else(|| Ok(T::default()), |name| find(name).ok_or_else(|| unknown(what, name, known)))
}

fn probes(asked: &Asked, timer: TimerKind) -> Result<Vec<ProbeKind>> {
    let probe = |name: &String| -> Result<ProbeKind> {
        let probe = ProbeKind::named(name, timer, asked)?;
        Ok(probe.ok_or_else(|| unknown("probe", name, &probes::NAMES))?)
    };
    asked.probes.iter().map(probe).collect()
}

/// Refuses a use of a plan that there is not; one of the command line was read before.
fn used(asked: &Asked) -> std::result::Result<(), PreflightFinding> {
    let Some(Err(why)) = asked.purpose.as_deref().map(str::parse::<Use>) else { return Ok(()) };
    let (reason, cure) = why.split_once("; ").unwrap_or((&why, "give another"));
    Err(refuse("unknown-name", format!("the use cannot be read: {reason}"), cure))
}

/// Refuses to accept a taint that there is not.
fn accepted(asked: &Asked) -> std::result::Result<(), PreflightFinding> {
    let Some(code) = asked.accept.iter().find(|code| !taint::CODES.contains(&code.as_str())) else {
        return Ok(());
    };
    let cure = choose(code, taint::CODES);
    Err(refuse("unknown-name", format!("there is no taint '{code}' to accept"), cure))
}

/// Refuses numbers with which nothing would be measured, or nothing shown.
fn lengths(asked: &Asked, probes: &[ProbeKind]) -> std::result::Result<(), PreflightFinding> {
    if asked.duration_ns == Some(0) {
        return Err(refuse("duration", "a duration of 0 measures nothing", "give --duration such as 20s"));
    }
    if asked.loops == Some(0) {
        return Err(refuse("loops", "0 loops measure nothing", "give --loops such as 100000"));
    }
    let without_cycles = probes.iter().find(|probe| !probe.row_kind().has_period());
    if let (Some(_), None, Some(probe)) = (asked.loops, asked.duration_ns, without_cycles) {
        let reason = format!("the {} probe has no cycles, so --loops does not end it", probe.name());
        return Err(refuse("loops", reason, "give --duration as well"));
    }
    if asked.threshold_ns == Some(0) {
        let reason = "a threshold of 0 makes a spike of every sample";
        return Err(refuse("threshold", reason, "give --threshold such as 100us"));
    }
    if let Some(claim) = asked.claim.filter(|claim| !(*claim > 0.0 && *claim < 1.0)) {
        let cure = "give --claim such as 0.001: fewer than one cycle in a thousand is late";
        return Err(refuse("claim", format!("the claim {claim} is not a rate between 0 and 1"), cure));
    }
    if asked.until.contains(&Until::Held) && asked.claim_per == Some(ClaimPer::Cycle) {
        let reason =
            "the cycles that a rate per cycle needs are known only afterwards, by the cluster factor";
        return Err(refuse("until", reason, "leave out --until held, or claim episodes"));
    }
    if asked.until.contains(&Until::Exceeded) && asked.allow.is_some() {
        let reason = "one late cycle does not exceed a limit that allows some";
        return Err(refuse("until", reason, "leave out --until exceeded, or --allow"));
    }
    if let Some(Err(why)) = asked.allow.as_deref().map(str::parse::<LateAllowance>) {
        let (reason, cure) = why.split_once("; ").unwrap_or((&why, "give --allow such as 1in10"));
        return Err(refuse("allow", reason, cure));
    }
    if asked.allow.is_some() && (asked.flight || asked.threshold_ns.is_some()) {
        let reason =
            "an allowance needs the place of each late cycle, which a threshold and --flight leave out";
        return Err(refuse("allow", reason, "leave out --threshold and --flight, or --allow"));
    }
    Ok(())
}

/// The periods, each with its limit; limits count where a probe `is_periodic`.
fn periods(asked: &Asked, limits: &Limits, is_periodic: bool) -> Result<Vec<Period>> {
    limits.fit(&asked.periods_ns)?;
    let period = |period_ns: &u64| -> Result<Period> {
        let cure = "give a period such as 1ms";
        let ns =
            NonZeroU64::new(*period_ns).ok_or_else(|| refuse("period", "a period of 0 was asked", cure))?;
        let limit_ns = limits.ns(Some(*period_ns))?;
        if limit_ns > *period_ns && is_periodic {
            let reason =
                format!("the limit {} is above the period {}", exact_us(limit_ns), exact_us(*period_ns));
            let cure = "a cycle that late is a missed period: give a limit up to the period";
            return Err(refuse("limit", reason, cure).into());
        }
        Ok(Period { ns, limit_ns })
    };
    asked.periods_ns.iter().map(period).collect()
}

fn priority(asked: &Asked, policy: PolicyKind) -> std::result::Result<u32, PreflightFinding> {
    let priority = asked.priority;
    if !policy.has_priority() || priority.is_some_and(|priority| (1..=99).contains(&priority)) {
        return Ok(priority.unwrap_or(0));
    }
    let found = priority.map_or("no priority".to_string(), |priority| format!("priority {priority}"));
    let reason = format!("{found} was given for SCHED_{}", policy.name().to_uppercase());
    Err(refuse("priority", reason, "give --priority from 1 to 99"))
}

#[cfg(test)]
pub(crate) mod tests;
