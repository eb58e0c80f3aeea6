// SPDX-License-Identifier: MIT OR Apache-2.0
//! From options and plan to what is asked of a run, complete: every default is filled in here and written into
//! the bundle.

use std::path::Path;

use evidence::limit;
use evidence::manifest::{Asked, ETHERCAT, Ethercat, LOOP, MESSAGE, RESPONSE, Response, RowKey};
use evidence::verdict::DEFAULT_CLAIM;
use evidence::{Error, Result};
use machine::{CpuSet, Snapshot};
use measure::response::Wiring;
use measure::row::Lane;
use measure::{control, message, response};
use rt::Policy;
use serde::Deserialize;

use crate::args::{EthercatOptions, ResponseOptions, RunOptions};

/// Longest plan that is read; a manifest has the machine's snapshot.
const LONGEST: u64 = 16 << 20;

/// Reads a plan: a manifest, or its `asked` part alone.
pub fn read_plan(path: &Path) -> Result<Asked> {
    #[derive(serde::Deserialize)]
    struct Manifest {
        asked: Asked,
    }
    let cure = "give a bundle's manifest.json, or a file with its 'asked' part";
    let wrong = |why: serde_json::Error| Error::on("read the plan", path.display(), why, cure);
    let text = untrusted::read(path, LONGEST).map_err(|e| Error::io("read the plan", path, &e))?;
    let document: serde_json::Value = serde_json::from_slice(&text).map_err(wrong)?;
    match document.get("asked") {
        Some(_) => Manifest::deserialize(document).map(|manifest| manifest.asked).map_err(wrong),
        None => Asked::deserialize(document).map_err(wrong),
    }
}

/// Lays the options over `asked`, fills in the defaults, and chooses CPUs on `machine` where none are named.
pub fn complete(mut asked: Asked, options: &RunOptions, machine: &Snapshot) -> Asked {
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    if !options.period.is_empty() {
        asked.periods_ns = options.period.iter().copied().map(ns).collect();
    }
    if asked.periods_ns.is_empty() {
        asked.periods_ns = vec![1_000_000];
    }
    without_repetition(&mut asked.periods_ns);
    asked.response = wired(asked.response, &options.response);
    asked.ethercat = driven(asked.ethercat, &options.ethercat);
    let responses = response::means(&asked).into_iter().map(str::to_string).collect::<Vec<_>>();
    let means = message::MEANS.map(|(name, _)| name.to_string());
    asked.probes = asked
        .probes
        .into_iter()
        .flat_map(|probe| match probe.as_str() {
            message::MESSAGE => means.to_vec(),
            response::PROBE => responses.clone(),
            _ => vec![probe],
        })
        .collect();
    without_repetition(&mut asked.probes);
    over(&mut asked.limit, &options.limit);
    asked.limit.get_or_insert_with(|| limit::DEFAULT.to_string());
    over(&mut asked.policy, &options.policy);
    asked.policy.get_or_insert_with(|| rt::policy::NAMES[0].to_string());
    over(&mut asked.timer, &options.timer);
    asked.timer.get_or_insert_with(|| measure::wakeup::TIMERS[0].to_string());
    over(&mut asked.priority, &options.priority);
    asked.priority.get_or_insert(80);
    over(&mut asked.duration_ns, &options.duration.map(ns));
    over(&mut asked.loops, &options.loops);
    over(&mut asked.warm_up_ns, &options.warm_up.map(ns));
    asked.warm_up_ns.get_or_insert(2_000_000_000);
    over(&mut asked.threshold_ns, &options.threshold.map(ns));
    over(&mut asked.claim, &options.claim);
    asked.claim.get_or_insert(DEFAULT_CLAIM);
    over(&mut asked.dma_latency_us, &options.dma_latency);
    over(&mut asked.isolate, &options.isolate);
    over(&mut asked.causes, &options.causes);
    if !options.accept.is_empty() {
        asked.accept = options.accept.clone();
    }
    if let Some(cpus) = &options.cpus {
        asked.cpus = cpus.clone();
    }
    if asked.cpus.is_empty() {
        asked.cpus = cpus_to_measure(machine);
    }
    if let Some(cpus) = &options.house_keeping {
        asked.house_keeping = cpus.clone();
    }
    if asked.house_keeping.is_empty() {
        asked.house_keeping = control::house_keeping(machine, &asked.cpus);
    }
    asked
}

/// What the response probe polls and drives, the options over the plan; none where neither says anything.
fn wired(plan: Option<Response>, options: &ResponseOptions) -> Option<Response> {
    let mut wired = plan.unwrap_or_default();
    over(&mut wired.role, &options.role);
    over(&mut wired.signal, &options.signal);
    over(&mut wired.board, &options.board);
    over(&mut wired.chip, &options.chip);
    over(&mut wired.input, &options.line_in);
    over(&mut wired.output, &options.line_out);
    Some(wired).filter(|wired| *wired != Response::default())
}

/// What EtherCAT drives, likewise.
fn driven(plan: Option<Ethercat>, options: &EthercatOptions) -> Option<Ethercat> {
    let mut driven = plan.unwrap_or_default();
    over(&mut driven.device, &options.device);
    driven.forced |= options.force;
    Some(driven).filter(|driven| *driven != Ethercat::default())
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

fn over<T: Clone>(asked: &mut Option<T>, option: &Option<T>) {
    if option.is_some() {
        asked.clone_from(option);
    }
}

/// The isolated CPUs that are online; where there are none, the last CPU.
fn cpus_to_measure(machine: &Snapshot) -> CpuSet {
    let online = machine.online();
    let isolated = machine.isolation.isolated.and(&online);
    if isolated.is_empty() { online.iter().last().into_iter().collect() } else { isolated }
}

/// The measuring threads of one row: on each CPU one for each period, the shortest with the highest priority.
pub fn lanes(
    asked: &Asked,
    probe: &str,
    load: &str,
    machine: &Snapshot,
) -> std::result::Result<Vec<Lane>, Box<dyn std::error::Error>> {
    let mut periods = match probe {
        "wakeup" | "toggle" | LOOP => asked.periods_ns.iter().copied().map(Some).collect::<Vec<_>>(),
        // One question, one edge, one frame at a time.
        ETHERCAT => vec![asked.periods_ns.iter().copied().min()],
        probe if probe.starts_with(MESSAGE) || probe.starts_with(RESPONSE) => {
            vec![asked.periods_ns.iter().copied().min()]
        }
        _ => vec![None],
    };
    periods.sort_unstable();
    periods.dedup();
    let mut lanes = Vec::new();
    for (cpu, other) in pairs(asked, probe)? {
        for (rank, period_ns) in periods.iter().enumerate() {
            let priority = asked.priority.unwrap_or(0).saturating_sub(rank as u32).max(1);
            let limit_ns = limit::limit_ns(asked.limit.as_deref().unwrap_or(limit::DEFAULT), *period_ns)?;
            let period = period_ns.unwrap_or(1_000_000);
            let policy = Policy::named(
                asked.policy.as_deref().unwrap_or_default(),
                priority,
                (period / 4, period, period),
            )?;
            let affinity = match policy {
                Policy::Deadline { .. } => machine.deadline_cpus(cpu).iter().collect(),
                _ => vec![cpu],
            };
            lanes.push(Lane {
                key: RowKey { probe: probe.to_string(), load: load.to_string(), cpu, period_ns: *period_ns },
                policy,
                affinity,
                limit_ns: Some(limit_ns),
                threshold_ns: asked.threshold_ns.unwrap_or(limit_ns),
                // On a CPU for housekeeping it must not keep others from theirs.
                partner: other
                    .map(|cpu| (cpu, if asked.cpus.contains(cpu) { policy } else { Policy::Other })),
            });
        }
    }
    Ok(lanes)
}

/// The CPUs whose threads measure, each with its other one. With the message probe each is answered by the next measured one, with the
/// response probe it answers edges of the next one; the last of an odd number has one for housekeeping.
fn pairs(asked: &Asked, probe: &str) -> rt::Result<Vec<(u32, Option<u32>)>> {
    let cpus = asked.cpus.iter().collect::<Vec<_>>();
    let has_pairs = match probe {
        probe if response::is_one(probe) => Wiring::of(probe, asked)?.has_generator(),
        _ => probe.starts_with(MESSAGE),
    };
    if !has_pairs {
        return Ok(cpus.into_iter().map(|cpu| (cpu, None)).collect());
    }
    let helper = asked.house_keeping.iter().last();
    Ok(cpus.chunks(2).map(|pair| (pair[0], pair.get(1).copied().or(helper))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::snapshot::Cpu;

    fn machine(cpus: u32, isolated: &str) -> Snapshot {
        let cpu = |id| Cpu { id, online: true, siblings: [id].into_iter().collect(), ..Cpu::default() };
        let mut machine = Snapshot { cpus: (0..cpus).map(cpu).collect(), ..Snapshot::default() };
        machine.isolation.isolated = isolated.parse().unwrap();
        machine
    }

    #[test]
    fn messages_go_between_pairs_of_measured_cpus() {
        let asked = Asked { probes: vec!["message".into()], ..Asked::default() };
        let options = |cpus: &str| RunOptions { cpus: Some(cpus.parse().unwrap()), ..RunOptions::default() };
        let machine = machine(8, "");
        let asked = complete(asked, &options("3-5"), &machine);
        assert_eq!(asked.probes.len(), message::MEANS.len());
        let lanes = lanes(&asked, "message-futex", "idle", &machine).unwrap();
        let answers = lanes.iter().map(|lane| (lane.key.cpu, lane.partner)).collect::<Vec<_>>();
        // An ordinary thread on a CPU that does the housekeeping.
        assert_eq!(answers, [(3, Some((4, Policy::Fifo(80)))), (5, Some((7, Policy::Other)))]);
    }

    #[test]
    fn responses_are_to_edges_of_the_next_cpu_or_of_somebody_else() {
        let asked = |response| {
            let cpus = Some("3-5".parse().unwrap());
            let options = RunOptions { cpus, response, ..RunOptions::default() };
            complete(Asked { probes: vec!["response".into()], ..Asked::default() }, &options, &machine(8, ""))
        };
        let memory = asked(ResponseOptions::default());
        assert_eq!(
            (memory.probes.as_slice(), &memory.response),
            (&["response-shared".to_string()][..], &None)
        );
        let lanes = lanes(&memory, "response-shared", "idle", &machine(8, "")).unwrap();
        let edges = lanes.iter().map(|lane| (lane.key.cpu, lane.partner)).collect::<Vec<_>>();
        assert_eq!(edges, [(3, Some((4, Policy::Fifo(80)))), (5, Some((7, Policy::Other)))]);
        let file = asked(ResponseOptions {
            signal: Some("/dev/shm/words".into()),
            role: Some("generator".into()),
            ..ResponseOptions::default()
        });
        assert!(pairs(&file, "response-shared").unwrap().iter().all(|(_, other)| other.is_none()));
    }

    #[test]
    fn isolated_cpus_are_measured_where_none_are_named() {
        let asked = complete(Asked::default(), &RunOptions::default(), &machine(8, "5-6"));
        assert_eq!((asked.cpus.to_string(), asked.house_keeping.to_string()), ("5-6".into(), "0-4,7".into()));
        let asked = complete(Asked::default(), &RunOptions::default(), &machine(2, ""));
        assert_eq!((asked.cpus.to_string(), asked.house_keeping.to_string()), ("1".into(), "0".into()));
    }

    #[test]
    fn base_and_servo_threads_run_on_every_cpu_the_faster_one_above() {
        let options = RunOptions {
            period: vec![std::time::Duration::from_millis(1), std::time::Duration::from_micros(25)],
            ..RunOptions::default()
        };
        let asked = complete(Asked::default(), &options, &machine(4, "2-3"));
        let lanes = lanes(&asked, "wakeup", "idle", &machine(4, "2-3")).unwrap();
        let seen = lanes
            .iter()
            .map(|lane| (lane.key.cpu, lane.key.period_ns.unwrap(), lane.policy, lane.limit_ns.unwrap()));
        let (base, servo) = ((25_000, Policy::Fifo(80), 2_500), (1_000_000, Policy::Fifo(79), 100_000));
        let expected =
            [(2, base), (2, servo), (3, base), (3, servo)].map(|(cpu, (p, policy, l))| (cpu, p, policy, l));
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_deadline_thread_is_allowed_what_the_kernel_demands_and_others_are_pinned() {
        let affinity = |policy: &str| {
            let options = RunOptions { policy: Some(policy.into()), ..RunOptions::default() };
            let asked = complete(Asked::default(), &options, &machine(4, "2-3"));
            lanes(&asked, "wakeup", "idle", &machine(4, "2-3")).unwrap()[0].affinity.clone()
        };
        assert_eq!((affinity("deadline"), affinity("rr")), (vec![2, 3], vec![2]));
    }

    #[test]
    fn options_lie_over_the_plan() {
        let plan = Asked { periods_ns: vec![500_000], priority: Some(70), ..Asked::default() };
        let options = RunOptions { priority: Some(60), ..RunOptions::default() };
        let asked = complete(plan, &options, &machine(2, ""));
        assert_eq!(
            (asked.periods_ns, asked.priority, asked.limit.as_deref()),
            (vec![500_000], Some(60), Some("10%"))
        );
    }
}
