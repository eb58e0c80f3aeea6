// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows whose loop began no cycle for a good part of the run: for how long, and what had its CPU meanwhile.

use std::collections::BTreeMap;

use machine::units::exact_us;

use crate::cause::{Cause, CauseKind, Precedence};
use crate::kind::RowKind;
use crate::manifest::{Manifest, RowKey, Spike};
use crate::reader::Bundle;
use crate::taint::{CPU_OFFLINE, CPU_QUOTA, GRANT_LOST, MOVED, RT_THROTTLING, SUSPENDED};

/// A loop is reported that missed one period of so many.
const SHARE: u64 = 10;

/// Fewer missed periods are late cycles, and the table has them.
const FEWEST: u64 = 10;

/// The least part of the time without a cycle that its cause took.
const LEAST_PART: f64 = 0.05;

/// So many cycles show the loop's own period.
const SOME: u64 = 3;

/// The words of each line about its row.
pub const BEGAN_NO_CYCLE: &str = "began no cycle for";

/// Taints that stop a thread for long.
const STOPS: [&str; 6] = [CPU_QUOTA, RT_THROTTLING, SUSPENDED, CPU_OFFLINE, GRANT_LOST, MOVED];

/// A line for each row whose loop began no cycle for long.
pub(crate) fn starved(bundle: &Bundle) -> Vec<String> {
    let told = |key: &RowKey, missed: u64, count: u64| {
        let period_ns = key.period_ns?;
        let cycles = missed.saturating_add(count);
        let is_starved = missed >= FEWEST && missed.saturating_mul(SHARE) >= cycles;
        let seconds = |cycles: u64| cycles as f64 * period_ns as f64 / 1e9;
        is_starved.then(|| {
            format!(
                "{} under {} {BEGAN_NO_CYCLE} {:.1} of {:.1} s: {}",
                named(key),
                key.load,
                seconds(missed),
                seconds(cycles),
                because(key, (count, seconds(missed)), &bundle.spikes, &bundle.manifest)
            )
        })
    };
    let rows = bundle.rows.iter();
    rows.filter_map(|row| told(&row.entry.key, row.missed(), row.series.latency.count())).collect()
}

fn named(key: &RowKey) -> String {
    match &key.thread_name {
        Some(name) => format!("thread {name}"),
        None => format!("the measuring thread of cpu {}", key.cpu),
    }
}

/// The cause that took the row's CPU in its spikes; else what stopped it, or that its period is another one;
/// `seconds` is for how long it began no cycle.
fn because(key: &RowKey, (count, seconds): (u64, f64), spikes: &[Spike], manifest: &Manifest) -> String {
    // A cause that took a small part of that time is none of it.
    let missed: u64 = spikes.iter().filter(|spike| spike.key == *key).map(|spike| spike.missed).sum();
    let missed_ns = missed as f64 * key.period_ns.unwrap_or(0) as f64;
    let most = most(key, spikes).filter(|(_, ns)| *ns as f64 >= LEAST_PART * missed_ns);
    let stopped =
        manifest.taints.iter().find(|taint| STOPS.contains(&taint.code.as_str()) && key.is_tainted_by(taint));
    let is_more_than_half = |ns: u64| ns as f64 / 1e9 >= seconds / 2.0;
    match (most, stopped) {
        (Some((cause, ns)), _) if is_more_than_half(ns) => cause_text(cause),
        (_, Some(taint)) => taint.reason.clone(),
        (most, None) => {
            own_period(key, count, spikes).or(most.map(|(cause, _)| cause_text(cause))).unwrap_or_else(|| {
                "the bundle has no cause of it; measure again with --causes auto, as root".into()
            })
        }
    }
}

/// The period that the loop has, where nearly every cycle missed as many of those that it was judged by, with
/// what to do.
fn own_period(key: &RowKey, count: u64, spikes: &[Spike]) -> Option<String> {
    let of_row = spikes.iter().filter(|spike| spike.key == *key && spike.missed > 0);
    let mut missed: Vec<u64> = of_row.map(|spike| spike.missed).collect();
    missed.sort_unstable();
    let usual = *missed.get(missed.len() / 2)?;
    let alike = missed.iter().filter(|missed| missed.abs_diff(usual) <= (usual / 10).max(1)).count();
    let is_each = alike as u64 >= SOME && 4 * alike as u64 >= 3 * count;
    let period_ns = key.period_ns.filter(|_| is_each)?;
    let every = exact_us(period_ns.saturating_mul(usual + 1));
    Some(format!(
        "it begins a cycle about every {every}, and is judged by a period of {}; give its own --period",
        exact_us(period_ns)
    ))
}

/// The cause that took most of the spikes of the row, or, where that says more, of its response.
fn most<'a>(key: &RowKey, spikes: &'a [Spike]) -> Option<(&'a Cause, u64)> {
    let of = |probe: &str| {
        let is_of = |spike: &&Spike| {
            let other = &spike.key;
            let is_same =
                (other.cpu, &other.load, &other.thread_name) == (key.cpu, &key.load, &key.thread_name);
            is_same && other.period_ns == key.period_ns && other.probe == probe
        };
        let mut sums = BTreeMap::<(CauseKind, &str), (&Cause, u64)>::new();
        for cause in spikes.iter().filter(is_of).flat_map(|spike| &spike.causes) {
            if let Some(ns) = cause.duration_ns.filter(|_| cause.kind != CauseKind::Unexplained) {
                let sum = sums.entry((cause.kind, &cause.name)).or_insert((cause, 0));
                sum.1 = sum.1.saturating_add(ns);
            }
        }
        sums.into_values().max_by_key(|(_, ns)| *ns)
    };
    let is_loop = key.kind() == RowKind::Loop;
    let response = if is_loop { of(RowKind::LoopResponse.name()) } else { None };
    of(&key.probe).into_iter().chain(response).max_by_key(|(_, ns)| *ns)
}

fn cause_text(cause: &Cause) -> String {
    let (name, named) = (&cause.name, cause.kind.named(&cause.name));
    match cause.kind {
        kind if kind.precedence() == Precedence::Yields => {
            let owner = cause.owner.as_ref().map(|owner| format!(" (thread {})", owner.tid));
            format!("preempted by {named}{}", owner.unwrap_or_default())
        }
        CauseKind::Execution => "its own cycles took most of that time".to_string(),
        CauseKind::Stolen => "the hypervisor took its cpu".to_string(),
        CauseKind::Firmware => "firmware took its cpu".to_string(),
        CauseKind::Throttled => format!("throttled by the {name}"),
        CauseKind::Stopped => named,
        CauseKind::Lock => format!("it waited for the lock at {name}"),
        CauseKind::Wait => format!("it waited in {name}"),
        kind if kind.precedence() == Precedence::Own => format!("held up by {named}"),
        _ => format!("interrupted by {named}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Asked;

    fn key(probe: &str) -> RowKey {
        RowKey { thread_name: Some("servo".into()), ..RowKey::new(probe, "idle", 1, Some(1_000_000)) }
    }

    fn spike(probe: &str, causes: Vec<Cause>) -> Spike {
        Spike { missed: 4, causes, ..Spike::new(key(probe), 5_000_000) }
    }

    #[test]
    fn the_cause_that_took_most_is_named() {
        let of = |kind, name: &str, ns| Cause::timed(kind, name, 0, ns);
        let spikes = [
            spike(RowKind::Loop.name(), vec![of(CauseKind::Timer, "45", 9_000)]),
            spike(
                RowKind::LoopResponse.name(),
                vec![of(CauseKind::Thread, "base", 700), of(CauseKind::Execution, "the program", 900)],
            ),
            spike(
                RowKind::LoopResponse.name(),
                vec![of(CauseKind::Thread, "base", 9_000), Cause::suspect(CauseKind::Irq, "1", 9)],
            ),
        ];
        let (cause, ns) = most(&key(RowKind::Loop.name()), &spikes).unwrap();
        assert_eq!((cause_text(cause).as_str(), ns), ("preempted by thread base", 9_700));
        assert_eq!(
            cause_text(most(&key(RowKind::Loop.name()), &spikes[..1]).unwrap().0),
            "interrupted by timer 45"
        );
        let other = RowKey { cpu: 2, ..key(RowKind::Loop.name()) };
        assert!(
            most(&other, &spikes).is_none()
                && most(&key(RowKind::Loop.name()), &[spike(RowKind::Loop.name(), Vec::new())]).is_none()
        );
    }

    #[test]
    fn a_cause_of_a_small_part_is_not_named() {
        let told = |ns| {
            let cause = Cause::timed(CauseKind::Timer, "45", 0, ns);
            let manifest = Manifest::new("isolator", Asked::default());
            because(&key("loop"), (10, 1.0), &[spike("loop", vec![cause])], &manifest)
        };
        assert!(told(5_000).starts_with("the bundle has no cause of it"));
        assert_eq!(told(3_000_000), "interrupted by timer 45");
    }

    #[test]
    fn a_slow_loop_is_told_its_own_period() {
        let manifest = Manifest::new("isolator", Asked::default());
        let hog = || vec![Cause::timed(CauseKind::Thread, "innocent", 0, 3_000_000)];
        let told = |count| {
            because(&key("loop"), (count, 1.0), &[hog(), hog(), hog()].map(|it| spike("loop", it)), &manifest)
        };
        let own = "it begins a cycle about every 5,000 us, and is judged by a period of 1,000 us; give its own --period";
        assert_eq!(told(4), own, "four of five periods are missed by nearly each");
        assert_eq!(told(40), "preempted by thread innocent");
    }
}
