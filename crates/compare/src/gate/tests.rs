// SPDX-License-Identifier: MIT OR Apache-2.0
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::*;
use crate::runs::tests::{bundle, quiet};
use evidence::limit::Limits;
use evidence::manifest::{Asked, Manifest, RunState, Second};
use evidence::series::Series;
use evidence::{Row, Taint};

/// A run of one row, of `seconds` seconds at 200 Hz: 5 us and an exponential tail of 2 us, all of a second
/// scaled by a factor that follows the second before by `like` (AR(1) of its logarithm, of standard deviation
/// `drift`).
fn run(seed: u64, seconds: u32, like: f64, drift: f64, scale: f64) -> Bundle {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut series = Series::default();
    let mut state: f64 = StandardNormal.sample(&mut rng);
    for second in 0..seconds {
        let shock: f64 = StandardNormal.sample(&mut rng);
        state = like * state + (1.0 - like * like).sqrt() * shock;
        let factor = scale * (drift * state).exp();
        let mut row = Second { second, count: 200, min_ns: u64::MAX, ..Second::default() };
        for _ in 0..row.count {
            let value_ns = (factor * quiet(rng.random::<f64>())) as u64;
            series.latency.record(value_ns);
            row.sum_ns += value_ns;
            row.min_ns = row.min_ns.min(value_ns);
            row.max_ns = row.max_ns.max(value_ns);
        }
        series.seconds.push(row);
    }
    with(bundle(1, quiet), seed, series)
}

fn with(mut run: Bundle, seed: u64, series: Series) -> Bundle {
    run.path = format!("run-{seed}").into();
    let entry = run.rows[0].entry.clone();
    run.rows[0] = Row::new(entry, series);
    run
}

fn gate(before: &Bundle, after: &Bundle, tolerance: f64) -> Gated {
    judge(std::slice::from_ref(before), after, &GateOptions { tolerance, ..GateOptions::default() }).unwrap()
}

fn lines<T: ToString>(of: &[T]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

fn worse(gated: &Gated) -> Vec<GateFigure> {
    gated.figures.iter().filter(|one| one.worse).map(|one| one.figure).collect()
}

/// Gates out of `times` that find something worse where the candidate is `scale` times as late.
fn alarms(times: u64, seconds: u32, like: f64, drift: f64, scale: f64, tolerance: f64) -> u64 {
    let alarm = |seed: &u64| {
        let before = run(2 * seed, seconds, like, drift, 1.0);
        let after = run(2 * seed + 1, seconds, like, drift, scale);
        rows(&[before], &after, &GateOptions { tolerance, ..GateOptions::default() })
            .figures
            .iter()
            .any(|one| one.worse)
    };
    (0..times).filter(alarm).count() as u64
}

/// The number of wrong verdicts that ALPHA allows in `times` gates, and three standard deviations.
fn stated(times: u64) -> u64 {
    let n = times as f64;
    (n * ALPHA + 3.0 * (n * ALPHA * (1.0 - ALPHA)).sqrt()) as u64
}

#[test]
fn runs_of_the_same_machine_raise_no_more_alarms_than_stated_even_without_a_tolerance() {
    for seconds in [8, 20, 60] {
        let seen = alarms(200, seconds, 0.0, 0.0, 1.0, 0.0);
        assert!(seen <= stated(200), "{seen} of 200 at {seconds} s");
    }
}

#[test]
fn seconds_that_are_like_their_neighbours_raise_no_more_alarms_than_stated_in_rows_of_a_minute() {
    for seconds in [60, 120] {
        let seen = alarms(200, seconds, 0.6, 0.05, 1.0, 0.0);
        assert!(seen <= stated(200), "{seen} of 200 at {seconds} s");
    }
    // Seven blocks know too little of how long seconds stay alike: without a tolerance up to twice as many.
    let seen = alarms(200, 20, 0.6, 0.05, 1.0, 0.0);
    assert!(seen <= 2 * stated(200), "{seen} of 200 at 20 s");
}

#[test]
fn a_tolerance_leaves_hardly_an_alarm() {
    let seen = alarms(100, 20, 0.6, 0.05, 1.0, TOLERANCE);
    assert!(seen <= 1);
}

#[test]
fn a_shift_that_matters_is_found() {
    let seen = alarms(50, 20, 0.0, 0.02, 1.4, TOLERANCE);
    assert!(seen >= 48, "{seen} of 50");
    let seen = alarms(50, 120, 0.6, 0.05, 1.3, TOLERANCE);
    assert!(seen >= 45, "{seen} of 50 where seconds are alike");
}

/// Twenty seconds of a steady latency, but for five of them.
fn burst(seed: u64, steady_ns: u64, burst_ns: u64) -> Bundle {
    let mut series = Series::default();
    for second in 0..20 {
        let (count, ns) = (1_000, if second < 5 { burst_ns } else { steady_ns });
        series.latency.record_many(ns, count);
        series.seconds.push(Second { second, count, min_ns: ns, max_ns: ns, sum_ns: ns * count, missed: 0 });
    }
    with(bundle(1, quiet), seed, series)
}

#[test]
fn bursts_of_the_candidate_raise_the_alarm() {
    let before = burst(1, 7_000, 7_000);
    let gated = gate(&before, &burst(2, 7_000, 99_000), TOLERANCE);
    assert_eq!(worse(&gated), [GateFigure::P99, GateFigure::P99_9, GateFigure::SecondMax], "{gated:#?}");
    assert!(!gated.held && gated.refusal().is_none(), "{gated:#?}");
    // Within what is allowed, or below the baseline, they leave nothing open.
    for burst_ns in [7_500, 3_000] {
        let gated = gate(&before, &burst(2, 7_000, burst_ns), TOLERANCE);
        assert!(gated.held && gated.errors.is_empty(), "{gated:#?}");
    }
}

#[test]
fn bursts_of_the_baseline_leave_the_gate_blind() {
    let [bursts, candidate] = [3, 2].map(|seed| burst(seed, 7_000, 99_000));
    for baselines in [vec![bursts.clone()], vec![burst(1, 7_000, 7_000), bursts]] {
        let gated = judge(&baselines, &candidate, &GateOptions::default()).unwrap();
        assert!(!gated.held && gated.reasons.is_empty(), "{gated:#?}");
        let line = gated.refusal().unwrap().to_string();
        for words in ["; both runs need ", "; measure both alike, each row for "] {
            assert!(line.contains(words), "{line}");
        }
        let open = gated.not_judged.iter().filter_map(|one| one.figure).collect::<Vec<_>>();
        assert!(open.contains(&GateFigure::P99) && open.contains(&GateFigure::SecondMax), "{open:?}");
        assert!(gated.not_judged.iter().all(|one| one.needs_s > Some(20)), "{:?}", gated.not_judged);
    }
}

#[test]
fn a_figure_above_what_is_allowed_is_never_ok() {
    let mut seen = 0;
    for seed in 0..40 {
        let gated = gate(&run(2 * seed, 20, 0.6, 0.3, 1.0), &run(2 * seed + 1, 20, 0.6, 0.3, 1.3), TOLERANCE);
        for one in &gated.figures {
            let is_above = one.after > one.allowed;
            assert!(!is_above || one.outcome() != FigureOutcome::Ok, "{one:?}");
            assert_eq!(one.outcome() == FigureOutcome::Worse, one.worse);
            seen += usize::from(one.outcome() == FigureOutcome::Unclear);
        }
    }
    assert!(seen > 0);
}

#[test]
fn a_gate_with_anything_not_judged_never_passes() {
    let whole = bundle(1, quiet);
    let more = |edit: &dyn Fn(&mut Bundle)| {
        let mut run = bundle(2, quiet);
        edit(&mut run);
        run
    };
    let not_run = |load: &str| NotRun {
        probe: "wakeup".into(),
        load: load.into(),
        reason: "there is no display".into(),
        optional: false,
    };
    let candidates = [
        more(&|run| run.rows[0].series.seconds.truncate(7)),
        more(&|run| run.rows[0].series.seconds.clear()),
        more(&|run| run.rows[0].entry.limit_ns = None),
        more(&|run| run.manifest.not_run = vec![not_run("gpu")]),
        more(&|run| run.missing = vec!["series/a is missing".into()]),
        more(&|run| {
            let mut row = run.rows[0].clone();
            row.entry.key.load = "cpu".into();
            run.rows.push(row);
        }),
        run(2, 10, 0.0, 0.0, 1.0),
        more(&|run| run.rows[0].series.seconds[3].missed = 1),
    ];
    for candidate in candidates {
        let gated = gate(&whole, &candidate, TOLERANCE);
        assert!(!gated.held, "{gated:#?}");
        assert!(!gated.reasons.is_empty() || gated.refusal().is_some(), "{gated:#?}");
    }
}

#[test]
fn the_judge_chooses_limit_claim_and_accepted_taints() {
    let mut before = bundle(1, quiet);
    before.manifest.asked.accept = vec!["smt-sibling".into()];
    let mut after = bundle(2, |u| if u > 0.999 { 150_000.0 } else { quiet(u) });
    after.rows[0].entry.limit_ns = Some(10_000_000);
    after.manifest.asked.claim = Some(0.9);
    after.manifest.asked.accept = vec!["steal".into(), "smt-sibling".into()];
    let taint = Taint { accepted: true, ..Taint::new(evidence::taint::STEAL, "3 ms", "") };
    after.manifest.taints = vec![taint];
    let gated =
        |by: &Judge| super::gate(vec![before.clone()], after.clone(), by, &GateOptions::default()).unwrap();
    let own = gated(&Judge::strictest([&before]));
    assert_eq!(
        (own.candidate.verdict.outcome, own.candidate.verdict.limit_ns),
        (VerdictOutcome::Exceeded, Some(100_000))
    );
    assert!(!own.candidate.verdict.taints[0].accepted);
    assert_eq!(
        own.judging,
        [
            "limit: judged by 100 us, asked was 10,000 us",
            "claim: judged by 0.001, asked was 0.9",
            "accepted taints: judged by smt-sibling, asked was steal,smt-sibling"
        ]
    );
    let given = Judge { limit: Some(Limits::parse("1ms").unwrap()), ..Judge::strictest([&before]) };
    assert_eq!(gated(&given).candidate.verdict.limit_ns, Some(1_000_000));
    let accept = Judge { accept: Some(vec!["steal".into()]), ..given };
    assert!(gated(&accept).candidate.verdict.taints[0].accepted);
}

#[test]
fn what_got_better_passes() {
    assert_eq!(alarms(50, 20, 0.0, 0.02, 0.6, TOLERANCE), 0);
}

#[test]
fn a_longer_tail_alone_is_named_by_what_is_longer() {
    let tail = |uniform: f64| if uniform > 0.995 { 3.0 * quiet(uniform) } else { quiet(uniform) };
    let gated = gate(&bundle(1, quiet), &bundle(2, tail), TOLERANCE);
    let found = worse(&gated);
    assert!(found.contains(&GateFigure::P99_9) && found.contains(&GateFigure::SecondMax), "{found:?}");
    assert!(!found.contains(&GateFigure::P50) && !gated.held);
    let lines = lines(&gated.reasons);
    let line = lines.iter().find(|line| line.contains("p99.9")).unwrap();
    assert!(line.starts_with("wakeup under idle on cpu 1 every 1,000 us: p99.9: "), "{line}");
    assert!(line.contains(" us before, ") && line.contains(" us now (between "), "{line}");
}

#[test]
fn late_seconds_and_missed_periods_are_judged_where_there_are_any() {
    let judged = |gated: &Gated| gated.figures.iter().map(|one| one.figure).collect::<Vec<_>>();
    let (mut before, mut after) = (bundle(1, quiet), bundle(2, quiet));
    assert_eq!(
        judged(&gate(&before, &after, 0.1)),
        [GateFigure::P50, GateFigure::P99, GateFigure::P99_9, GateFigure::SecondMax]
    );
    before.rows[0].series.seconds[3].missed = 1;
    after.rows[0].series.seconds.iter_mut().for_each(|second| second.missed = 40);
    let gated = gate(&before, &after, 0.1);
    assert_eq!(judged(&gated)[4..], [GateFigure::LateSeconds, GateFigure::MissedRate]);
    assert_eq!(worse(&gated), [GateFigure::LateSeconds, GateFigure::MissedRate]);
    let back = gate(&after, &before, 0.1);
    assert_eq!((worse(&back), back.held), (vec![], true));
}

#[test]
fn a_verdict_that_no_longer_holds_fails_by_itself() {
    let before = bundle(1, quiet);
    let mut after = bundle(2, quiet);
    after.rows[0].series.latency.record(150_000);
    let gated = gate(&before, &after, 0.1);
    let held = "verdict: held before, exceeded now: wakeup under idle on cpu 1 every 1,000 us: maximum 150 us exceeds \
                100 us (1 late of 20,001)";
    assert_eq!(lines(&gated.reasons), [held]);
    assert!(gate(&after, &before, 0.1).held, "and one that holds again is no harm");
}

#[test]
fn a_limit_or_claim_that_is_given_is_asked_of_the_candidate() {
    let (before, after) = (bundle(1, quiet), bundle(2, quiet));
    let own = Judge::strictest([&before]);
    let tight = Judge { limit: Some(Limits::parse("1us").unwrap()), ..own.clone() };
    let rare = Judge { claim: Some(1e-9), ..own.clone() };
    let none = GateOptions::default();
    let limit = GateOptions { limit_given: true, ..none };
    let claim = GateOptions { claim_given: true, ..none };
    // (judge, options, reasons, whether it could not be judged); both runs are alike.
    for (by, choice, reasons, is_open) in [
        (&own, &limit, 0, false),
        (&own, &claim, 0, false),
        (&tight, &none, 0, false),
        (&tight, &limit, 1, false),
        (&rare, &none, 0, false),
        (&rare, &limit, 0, false),
        (&rare, &claim, 0, true),
    ] {
        let gated = super::gate(vec![before.clone()], after.clone(), by, choice).unwrap();
        assert_eq!((gated.reasons.len(), gated.errors.len()), (reasons, usize::from(is_open)), "{gated:#?}");
        assert_eq!((gated.refusal().is_some(), gated.held), (is_open, reasons == 0 && !is_open));
        assert_eq!(
            (gated.fails_its_limit_alone(), gated.verdict_changed().is_some()),
            (reasons > 0, reasons > 0)
        );
    }
}

#[test]
fn what_was_measured_before_and_is_not_now_fails() {
    let before = bundle(1, quiet);
    let mut after = bundle(2, quiet);
    let mut more = before.rows[0].clone();
    more.entry.key.load = "cpu".into();
    let both = Bundle { rows: vec![before.rows[0].clone(), more], ..before.clone() };
    let gated = gate(&both, &after, 0.1);
    assert_eq!(lines(&gated.reasons), ["wakeup under cpu on cpu 1 every 1,000 us: measured before, not now"]);
    after.rows.clear();
    after.manifest.state = RunState::Interrupted;
    assert!(!gate(&before, &after, 0.1).held);
}

#[test]
fn rows_without_a_baseline_loads_that_did_not_run_and_missing_limits_are_listed() {
    let before = bundle(1, quiet);
    let mut after = bundle(2, quiet);
    let mut more = after.rows[0].clone();
    more.entry.key.load = "cpu".into();
    after.rows.push(more);
    after.rows[0].entry.limit_ns = None;
    let not_run = |load: &str| NotRun {
        probe: "wakeup".into(),
        load: load.into(),
        reason: "there is no display".into(),
        optional: false,
    };
    after.manifest.not_run = vec![not_run("gpu")];
    let gated = gate(&before, &after, TOLERANCE);
    let open = gated.not_judged.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        open,
        [
            "wakeup under idle on cpu 1 every 1,000 us: seconds with a late cycle: the row has no limit; give one \
             with --limit",
            "wakeup under cpu on cpu 1 every 1,000 us: no baseline has this row",
        ]
    );
    assert_eq!(gated.not_run, [not_run("gpu")]);
    let row = &gated.rows[0];
    assert_eq!((gated.rows.len(), row.limit_ns, row.margin_ns), (1, None, None));
    assert!(row.to_string().ends_with("no limit"), "{row}");
    // What a baseline did not run and the candidate measured leaves nothing open.
    let both = [not_run("gpu"), not_run("cpu")];
    let earlier =
        Bundle { manifest: Manifest { not_run: both.to_vec(), ..before.manifest.clone() }, ..before };
    let gated = gate(&earlier, &after, TOLERANCE);
    assert_eq!(gated.not_run, [not_run("gpu")]);
}

#[test]
fn a_row_is_judged_with_its_limit_and_margin() {
    let (before, after) = (bundle(1, quiet), bundle(2, quiet));
    let gated = gate(&before, &after, TOLERANCE);
    let [row] = &gated.rows[..] else { panic!("{:?}", gated.rows) };
    let (max, limit) = (after.rows[0].series.latency.max_ns(), after.rows[0].entry.limit_ns.unwrap());
    assert_eq!((row.max_ns, row.limit_ns), (max, Some(limit)));
    assert_eq!(row.margin_ns, Some(limit as i64 - max as i64));
    assert!(row.to_string().contains(" below the limit of 100 us"), "{row}");
    let late = GatedRow { max_ns: 150_000, margin_ns: Some(-50_000), ..row.clone() };
    assert_eq!(late.to_string(), "maximum 150 us, 50.0 us above the limit of 100 us");
    let p50 = &gated.figures[0];
    let [change, low, high] = p50.change().unwrap();
    assert!(low <= change && change <= high && (change - (p50.after / p50.before - 1.0)).abs() < 1e-9);
}

#[test]
fn of_several_baselines_the_candidate_must_be_worse_than_each() {
    let (good, bad, after) = (bundle(1, quiet), bundle(2, |u| 2.0 * quiet(u)), bundle(3, |u| 2.0 * quiet(u)));
    assert!(!gate(&good, &after, 0.1).held);
    let choice = GateOptions::default();
    for baselines in [[good.clone(), bad.clone()], [bad.clone(), good.clone()]] {
        let gated = judge(&baselines, &after, &choice).unwrap();
        assert!(gated.held, "{:?}", gated.reasons);
        assert!(gated.figures.iter().all(|one| one.baseline == "run-2"), "{:?}", gated.figures);
        assert_eq!((gated.figures.len(), gated.comparisons, gated.baselines.len()), (4, 4, 2));
    }
}

#[test]
fn the_same_bundles_and_seed_give_the_same_document_and_json_keeps_it() {
    let (before, after) = (bundle(1, quiet), bundle(2, |u| 1.5 * quiet(u)));
    let gated = gate(&before, &after, 0.1);
    assert_eq!(gated, gate(&before, &after, 0.1));
    let other = judge(&[before], &after, &GateOptions { seed: 2, ..GateOptions::default() }).unwrap();
    assert_ne!(gated.figures, other.figures);
    let json = serde_json::to_value(&gated).unwrap();
    assert_eq!((&json["seed"], &json["figures"][0]["figure"]), (&1.into(), &"p50_ns".into()));
    assert_eq!(json["reasons"], serde_json::json!(lines(&gated.reasons)));
    let figures: Vec<Judged> = serde_json::from_value(json["figures"].clone()).unwrap();
    assert_eq!((figures, gated.reasons.len()), (gated.figures, 4));
}

#[test]
fn what_cannot_be_judged_is_said() {
    let short = |seed| run(seed, 7, 0.0, 0.0, 1.0);
    let gated = judge(&[short(1)], &short(2), &GateOptions::default()).unwrap();
    assert!(!gated.held && gated.not_judged.len() == 1, "{gated:?}");
    let error = gated.refusal().unwrap();
    assert_eq!(
        error.to_string(),
        "cannot judge run-2: wakeup under idle on cpu 1 every 1,000 us: 7 seconds are too few to estimate the \
         variation; both runs need 8 s; measure both alike, each row for 8 s or longer"
    );
    let mut unlike = bundle(2, quiet);
    unlike.manifest.asked = Asked { priority: Some(70), ..unlike.manifest.asked };
    let error = judge(&[bundle(1, quiet)], &unlike, &GateOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot judge run-2 by run-1: not the same was asked: priority 80 before but 70 after; measure both \
         alike, or judge unlike runs with --force"
    );
    let forced =
        judge(&[bundle(1, quiet)], &unlike, &GateOptions { force: true, ..GateOptions::default() }).unwrap();
    assert_eq!(forced.differences.len(), 1);
    assert!(judge(&[], &unlike, &GateOptions::default()).is_err());
}

#[test]
fn a_long_row_is_judged_by_joined_seconds() {
    let long = |seed: u64, scale: f64| {
        let day = run(seed, 40, 0.0, 0.02, scale);
        let seconds = day.rows[0].series.seconds.iter().cycle().take(86_400).copied();
        let mut series = Series { seconds: seconds.collect(), ..Series::default() };
        for bucket in day.rows[0].series.latency.buckets() {
            series.latency.record_many(bucket.from_ns, bucket.count * 2_160);
        }
        with(bundle(1, quiet), seed, series)
    };
    assert!(gate(&long(1, 1.0), &long(1, 1.0), 0.0).held);
    assert!(!gate(&long(1, 1.0), &long(2, 1.3), 0.1).held);
}

#[test]
fn a_damaged_bundle_is_neither_candidate_nor_baseline() {
    let (whole, worse) = (bundle(1, quiet), bundle(2, |u| 3.0 * quiet(u)));
    let cut = Bundle { missing: vec!["the rest was cut off".into()], ..worse.clone() };
    for (baselines, candidate, which) in [
        (vec![whole.clone()], &cut, "the candidate run-2"),
        (vec![whole.clone(), cut.clone()], &whole, "the baseline run-2"),
    ] {
        let gated =
            judge(&baselines, candidate, &GateOptions { force: true, ..GateOptions::default() }).unwrap();
        assert_eq!(lines(&gated.errors), [format!("{which} is damaged: the rest was cut off")]);
        assert!(!gated.held && gated.figures.is_empty() && gated.reasons.is_empty(), "{gated:?}");
        let line = gated.refusal().unwrap().to_string();
        assert!(line.contains(&gated.errors[0].to_string()) && line.ends_with("or measure again"), "{line}");
    }
    let spikes = |run: &Bundle| Bundle { missing: vec!["spikes.jsonl is missing".into()], ..run.clone() };
    let gated = gate(&spikes(&whole), &spikes(&worse), TOLERANCE);
    assert!(
        gated.figures.iter().any(|one| one.worse) && gated.errors.len() == 2 && gated.refusal().is_none(),
        "{gated:?}"
    );
    let gated = gate(&whole, &spikes(&whole), TOLERANCE);
    assert!(!gated.held && gated.reasons.is_empty() && gated.refusal().is_some(), "{gated:?}");
}

#[test]
fn a_percentile_with_too_few_samples_beyond_is_not_passed() {
    let (before, after) = (run(1, 10, 0.0, 0.0, 1.0), run(2, 10, 0.0, 0.0, 1.0));
    let gated = gate(&before, &after, TOLERANCE);
    let open = gated.not_judged.iter().map(|one| one.figure).collect::<Vec<_>>();
    assert!(!gated.held && open.contains(&Some(GateFigure::P99_9)), "{open:?}");
    let line = gated.not_judged.iter().find(|one| one.figure == Some(GateFigure::P99_9)).unwrap().to_string();
    assert!(line.starts_with("wakeup under idle on cpu 1 every 1,000 us: p99.9: "), "{line}");
    assert!(line.contains("independent samples lie beyond it, 3 are needed; both runs need "), "{line}");
}
