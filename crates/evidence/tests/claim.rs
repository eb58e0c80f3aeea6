// SPDX-License-Identifier: MIT OR Apache-2.0
//! The claim of a verdict, and limits that allow some late cycles, on bundles in memory.

use evidence::boots::JoinedBoots;
use evidence::claim::{ClaimPer, ClaimUnit};
use evidence::document::ProveDocument;
use evidence::manifest::{Asked, Manifest, RowEntry, RowKey, Second, Spike};
use evidence::verdict::VerdictOutcome;
use evidence::{Bundle, Histogram, Row, Series};
use machine::snapshot::Preemption;

const MS: u64 = 1_000_000;

/// A late cycle: its number, its latency and the periods that it missed.
type Late = (u64, u64, u64);

fn key(cpu: u32) -> RowKey {
    RowKey::new("wakeup", "idle", cpu, Some(MS))
}

/// A row of 1 kHz, so many seconds long, with a limit of 100 us.
fn row(cpu: u32, length_s: u32, late: &[Late]) -> Row {
    let mut latency = Histogram::new();
    let mut seconds = Vec::new();
    for second in 0..length_s {
        let within = late.iter().filter(|(cycle, ..)| cycle / 1_000 == u64::from(second));
        let (number, missed) = within.clone().fold((0, 0), |(n, sum), (_, _, missed)| (n + 1, sum + missed));
        let max_ns = within.map(|(_, latency_ns, _)| *latency_ns).max().unwrap_or(5_000);
        let count = 1_000 - missed;
        latency.record_many(5_000, count - number);
        seconds.push(Second { second, count, min_ns: 5_000, sum_ns: 0, max_ns, missed });
    }
    late.iter().for_each(|(_, latency_ns, _)| latency.record(*latency_ns));
    let entry = RowEntry { limit_ns: Some(100_000), spikes: late.len() as u64, ..RowEntry::new(key(cpu)) };
    Row::new(entry, Series { latency, seconds, ..Series::default() })
}

fn spike(cpu: u32, &(cycle, latency_ns, missed): &Late) -> Spike {
    Spike { at_ns: cycle * MS, monotonic_ns: cycle * MS, missed, ..Spike::new(key(cpu), latency_ns) }
}

/// The document of a run of such rows, one for each list of late cycles.
fn document(length_s: u32, rows: &[&[Late]], asked: Asked) -> ProveDocument {
    ProveDocument::without_tails(&bundle(length_s, rows, asked))
}

fn bundle(length_s: u32, rows: &[&[Late]], asked: Asked) -> Bundle {
    let each = || (0..).zip(rows);
    let rows = each().map(|(cpu, late)| row(cpu, length_s, late)).collect::<Vec<_>>();
    let entries = rows.iter().map(|row| row.entry.clone()).collect();
    let mut manifest = Manifest { rows: entries, ..Manifest::new("isolator", asked) };
    manifest.machine.hostname = Some("robot".into());
    manifest.machine.kernel.preemption = Preemption::RealTime;
    let spikes = each().flat_map(|(cpu, late)| late.iter().map(move |one| spike(cpu, one))).collect();
    Bundle { rows, spikes, ..Bundle::new("run", manifest) }
}

fn allowing(text: &str) -> Asked {
    Asked { allow: Some(text.into()), ..Asked::default() }
}

#[test]
fn a_held_run_claims_fewer_than_three_late_episodes() {
    let document = document(20, &[&[], &[]], Asked::default());
    let claim = document.verdict.claim.clone().unwrap();
    assert_eq!(document.verdict.outcome, VerdictOutcome::Held);
    assert_eq!((claim.unit, claim.below, claim.per.as_str()), (ClaimUnit::Episode, 3.0, "20s"));
    assert!(claim.joint && claim.confidence == 0.95 && claim.boots == 1);
    assert_eq!(claim.horizon_ns, 2_000_000_000);
    let reason = "no late cycle in any row: fewer than 3 late episodes in 20 s in each, at 95 % confidence for all rows \
                  together, on this machine, under these loads";
    assert_eq!(document.verdict.reasons, [reason]);
}

#[test]
fn a_rate_per_cycle_is_unproven_without_a_cluster_factor() {
    let asked = |claim_per| Asked { claim: Some(1e-3), claim_per: Some(claim_per), ..Asked::default() };
    let of = |claim_per| document(20, &[&[]], asked(claim_per)).verdict;
    let verdict = of(ClaimPer::Cycle);
    assert_eq!(verdict.outcome, VerdictOutcome::Unproven);
    assert!(verdict.reasons[0].contains("there is none: the row is too short"), "{:?}", verdict.reasons);
    let verdict = of(ClaimPer::Independent);
    let claim = verdict.claim.unwrap();
    assert_eq!(
        (verdict.outcome, claim.unit, claim.per.as_str()),
        (VerdictOutcome::Held, ClaimUnit::Cycle, "cycle")
    );
    assert_eq!((claim.below, claim.cluster_factor), (1.5e-4, Some(1.0)));
}

#[test]
fn late_cycles_are_counted_with_their_share_and_episodes() {
    // Three cycles in a row, then one that missed ten.
    let late = [(2_000, 200_000, 0), (2_001, 200_000, 0), (2_002, 200_000, 0), (15_000, 10_100_000, 10)];
    let document = document(20, &[&late], Asked::default());
    let row = &document.rows[0];
    assert_eq!((row.late, row.late_share, row.weakly_hard.clone()), (14, Some(14.0 / 20_000.0), None));
    assert_eq!(document.verdict.rows[0].late_episodes, 2);
    assert_eq!(document.verdict.outcome, VerdictOutcome::Exceeded);
}

#[test]
fn an_allowance_is_judged_over_every_window() {
    let alone: &[Late] = &[(100, 200_000, 0), (110, 200_000, 0), (9_000, 200_000, 0)];
    let two: &[Late] = &[(100, 200_000, 0), (109, 200_000, 0)];
    let missed: &[Late] = &[(100, 1_050_000, 1)];
    for (late, allow, violations, outcome) in [
        (alone, "1in10", 0, VerdictOutcome::Held),
        (alone, "1in11", 1, VerdictOutcome::Exceeded),
        (two, "1in10", 1, VerdictOutcome::Exceeded),
        (two, "2in10", 0, VerdictOutcome::Held),
        (missed, "1in10", 9, VerdictOutcome::Exceeded),
        (missed, "2in10", 0, VerdictOutcome::Held),
    ] {
        let document = document(20, &[late], allowing(allow));
        let limit = document.rows[0].weakly_hard.clone().unwrap();
        assert_eq!(
            (limit.violations, document.verdict.outcome),
            (Some(violations), outcome),
            "{late:?} {allow}"
        );
        assert_eq!(document.rows[0].is_late(), Some(outcome == VerdictOutcome::Exceeded));
    }
    let reasons = document(20, &[two], allowing("1in10")).verdict.reasons;
    let reason = "1 windows of 10 cycles have more than 1 late (2 late of 20,000)";
    assert!(reasons[0].ends_with(reason), "{reasons:?}");
}

#[test]
fn an_allowance_without_all_places_is_unproven() {
    let late = [(100, 200_000, 0), (9_000, 200_000, 0)];
    let rows = [row(0, 20, &late)];
    let whole = |spikes: Vec<Spike>| {
        let weakly_hard = evidence::weakly_hard::WeaklyHard::of(&rows[0], &spikes, "1in10".parse().unwrap());
        weakly_hard.violations
    };
    let spikes = late.iter().map(|one| spike(0, one)).collect::<Vec<_>>();
    assert_eq!(whole(spikes.clone()), Some(0));
    assert_eq!(whole(spikes[..1].to_vec()), None);
}

/// A run in the boot of that name.
fn in_boot(boot: &str, late: &[Late]) -> Bundle {
    let mut bundle = bundle(20, &[late], Asked::default());
    bundle.manifest.machine.boot_id = Some(boot.to_string());
    bundle
}

#[test]
fn boots_are_judged_together() {
    let late: &[Late] = &[(100, 200_000, 0)];
    for (boots, wanted, outcome, below, counted, more, reason) in [
        (
            vec![("a", false)],
            3,
            VerdictOutcome::Unproven,
            1.0,
            1,
            2,
            "1 of 3 boots held: 2 more boots are needed",
        ),
        // Two runs of one boot are one boot.
        (
            vec![("a", false), ("a", false)],
            2,
            VerdictOutcome::Unproven,
            1.0,
            1,
            1,
            "1 of 2 boots held: 1 more boot",
        ),
        (
            (0..20).map(|n| (["a", "b", "c", "d", "e"][n % 5], false)).collect(),
            5,
            VerdictOutcome::Held,
            0.6,
            5,
            0,
            "fewer than 60 % of boots with a late cycle, from 5 boots",
        ),
        (
            vec![("a", false), ("b", true)],
            2,
            VerdictOutcome::Exceeded,
            1.0,
            2,
            0,
            "1 of 2 boots had late cycles",
        ),
    ] {
        let mut joined = JoinedBoots::default();
        let runs = boots.iter().map(|(boot, is_late)| in_boot(boot, if *is_late { late } else { &[] }));
        let runs = runs.collect::<Vec<_>>();
        runs.iter().for_each(|run| joined.add(run, ProveDocument::without_tails(run).verdict.outcome));
        let verdict = ProveDocument::without_tails(&runs[0]).joined(&joined, wanted).verdict;
        let claim = verdict.claim.unwrap();
        assert_eq!((verdict.outcome, verdict.held), (outcome, outcome == VerdictOutcome::Held), "{boots:?}");
        assert_eq!(
            (claim.unit, claim.per.as_str(), claim.below),
            (ClaimUnit::Boot, "boot", below),
            "{boots:?}"
        );
        assert_eq!((claim.boots, claim.more_boots), (counted, Some(more)), "{boots:?}");
        assert!(verdict.reasons[0].starts_with(reason), "{:?}", verdict.reasons);
    }
}

#[test]
fn a_boot_that_is_unproven_is_not_left_out() {
    let runs = ["a", "b"].map(|boot| in_boot(boot, &[]));
    let joined_with = |other: VerdictOutcome| {
        let mut joined = JoinedBoots::default();
        joined.add(&runs[0], VerdictOutcome::Held);
        joined.add(&runs[1], other);
        ProveDocument::without_tails(&runs[0]).joined(&joined, 0).verdict
    };
    let verdict = joined_with(VerdictOutcome::Unproven);
    assert_eq!((verdict.outcome, verdict.kept), (VerdictOutcome::Unproven, Some(true)));
    assert!(verdict.reasons[0].starts_with("1 of 2 boots unproven"), "{:?}", verdict.reasons);
    let verdict = joined_with(VerdictOutcome::Exceeded);
    assert_eq!((verdict.outcome, verdict.kept), (VerdictOutcome::Exceeded, Some(false)));
    assert_eq!(joined_with(VerdictOutcome::Held).outcome, VerdictOutcome::Held);
    // Nor is one of which the boot is not known.
    let mut joined = JoinedBoots::default();
    joined.add(&runs[0], VerdictOutcome::Held);
    joined.add(&bundle(20, &[&[]], Asked::default()), VerdictOutcome::Held);
    let verdict = ProveDocument::without_tails(&runs[0]).joined(&joined, 0).verdict;
    assert_eq!(verdict.outcome, VerdictOutcome::Unproven);
}

#[test]
fn a_run_of_an_unknown_boot_counts_for_nothing() {
    let run = bundle(20, &[&[]], Asked::default());
    let mut joined = JoinedBoots::default();
    joined.add(&run, VerdictOutcome::Held);
    let verdict = ProveDocument::without_tails(&run).joined(&joined, 1).verdict;
    assert_eq!((verdict.outcome, verdict.claim.unwrap().boots), (VerdictOutcome::Unproven, 0));
    assert!(verdict.reasons.iter().any(|reason| reason.contains("does not say in which boot")));
}
