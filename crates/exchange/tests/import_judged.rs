// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of judging that hold for every format: a figure that its tool cuts decides nothing at a limit, and
//! what a file does not state is not good. Each is tried on every fixture, and none names a tool.

use std::collections::BTreeSet;

use evidence::manifest::UNKNOWN_LOAD;
use evidence::taint::{KERNEL_UNKNOWN, LOAD_UNKNOWN, MACHINE_UNKNOWN, NOT_REAL_TIME_KERNEL};
use evidence::verdict::{RowVerdict, VerdictOutcome};
use evidence::{Bundle, Judge, Verdict};
use exchange::import::{ImportFormat, import, set_limit, set_load};
use machine::snapshot::Preemption;

use crate::common::{changed, codes, fixtures, imported, read, text};

/// A limit that no fixture exceeds.
const FAR_NS: u64 = 1_000_000_000_000_000;

/// All fixtures with their format.
fn each() -> Vec<(String, ImportFormat, Bundle)> {
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name.clone(), ImportFormat::of(&text(&name)).unwrap(), import(path).unwrap())
    };
    fixtures().iter().map(read).collect()
}

/// A row of the bundle by this limit, and all reasons of the verdict.
fn row_at(bundle: &Bundle, place: usize, limit_ns: u64) -> (RowVerdict, String) {
    let mut bundle = bundle.clone();
    set_limit(&mut bundle, Some(limit_ns));
    let verdict = Verdict::without_tails(&bundle);
    let reasons = verdict.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    (verdict.rows[place].clone(), reasons)
}

#[test]
fn a_cut_figure_decides_nothing_within_its_unit() {
    let mut tried = [0; 4];
    for (name, _, bundle) in each() {
        for (place, row) in bundle.rows.iter().enumerate().filter(|(_, row)| row.series.latency.count() > 0) {
            let max_ns = row.series.latency.max_ns();
            let coarse = row.entry.coarse.clone().unwrap();
            let missed = row.missed();
            let [least_ns, most_ns] = coarse.interval_ns(max_ns);
            let what = format!("{name}: {} of {max_ns} ns, {least_ns} to {most_ns}", row.entry.key);
            for limit_ns in [least_ns, max_ns, (max_ns + most_ns) / 2, (least_ns + max_ns) / 2] {
                if limit_ns >= most_ns || limit_ns < least_ns || limit_ns == 0 {
                    continue;
                }
                let (judged, reasons) = row_at(&bundle, place, limit_ns);
                assert_eq!(judged.late, missed, "{what}, limit {limit_ns}");
                assert!(!judged.held && judged.late_at_most > missed, "{what}, limit {limit_ns}: {judged:?}");
                let line = format!("{}: its maximum lies between ", row.entry.key);
                assert!(missed > 0 || reasons.contains(&line), "{what}, limit {limit_ns}: {reasons}");
            }
            let (judged, _) = row_at(&bundle, place, most_ns);
            let holds = missed == 0 && coarse.missed_known;
            assert_eq!((judged.held, judged.late_at_most), (holds, missed), "{what}");
            if least_ns > 1 {
                let (judged, _) = row_at(&bundle, place, least_ns - 1);
                assert!(!judged.held && judged.late > missed, "{what}: {judged:?}");
            }
            tried[usize::from(coarse.below_ns > 0) + 2 * usize::from(coarse.above_ns > 0)] += 1;
        }
    }
    // To the nanosecond, rounded up, cut, and a difference of cut times.
    assert!(tried.iter().all(|rows| *rows >= 5), "{tried:?}");
}

#[test]
fn each_format_says_what_it_does_to_digits() {
    let exact = ["Xenomai latency", "latmus histogram", "stress-ng --cyclic", "LinuxCNC latency-test"];
    let exact = [&exact[..], &["LinuxCNC latency-histogram"]].concat();
    for (name, format, bundle) in each() {
        for row in &bundle.rows {
            let coarse = row.entry.coarse.as_ref().unwrap();
            let is_open = coarse.below_ns > 0 || coarse.above_ns > 0;
            let is_whole = coarse.unit_ns == 1_000 && !exact.contains(&format.name());
            assert_eq!(is_open, is_whole, "{name}: {coarse:?}");
        }
    }
}

#[test]
fn what_a_file_does_not_state_is_unproven_until_accepted() {
    let mut seen = BTreeSet::new();
    for (name, _, mut bundle) in each() {
        set_limit(&mut bundle, Some(FAR_NS));
        let machine = &bundle.manifest.machine;
        let states = [
            (KERNEL_UNKNOWN, machine.kernel.preemption != Preemption::Unknown, "the kernel's preemption"),
            (MACHINE_UNKNOWN, machine.hostname.is_some(), "the machine"),
            (LOAD_UNKNOWN, bundle.rows.iter().all(|row| row.entry.key.load != UNKNOWN_LOAD), "the load"),
        ];
        let verdict = Verdict::without_tails(&bundle);
        for (code, is_stated, what) in states {
            assert_eq!(!codes(&bundle).contains(&code), is_stated, "{name}: {code}");
            seen.extend((!is_stated).then_some(code));
            let is_reason = verdict.reasons.iter().any(|why| why.contains(&format!("{what} is not stated")));
            assert_eq!(is_reason, !is_stated, "{name}: {code}");
        }
        assert!(!verdict.held || states.iter().all(|state| state.1), "{name}");
        // A taint that is deleted is missed.
        let mut without = bundle.clone();
        without.manifest.taints.clear();
        let verdict = Verdict::without_tails(&without);
        let untold =
            verdict.reasons.iter().filter(|why| why.ends_with("is not stated, and no taint says so"));
        assert_eq!(untold.count(), states.iter().filter(|state| !state.1).count(), "{name}");
        // One that is accepted stays, and does not count.
        let accept = [KERNEL_UNKNOWN, MACHINE_UNKNOWN, LOAD_UNKNOWN].map(String::from).to_vec();
        Judge { accept: Some(accept), ..Judge::default() }.judge(&mut bundle).unwrap();
        let verdict = Verdict::without_tails(&bundle);
        assert!(!verdict.reasons.iter().any(|why| why.contains("is not stated")), "{name}: {verdict:#?}");
        assert!(states.iter().all(|(code, is_stated, _)| *is_stated || codes(&bundle).contains(code)));
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn a_file_that_states_all_holds_under_a_named_load() {
    let version = "#1 SMP PREEMPT_RT Debian";
    let json = changed("cyclictest-2.4.json", &version_of("cyclictest-2.4.json"), version);
    let mut bundle = read(&json.replace("\"return_code\": 1", "\"return_code\": 0"));
    set_limit(&mut bundle, Some(FAR_NS));
    assert!(codes(&bundle).contains(&LOAD_UNKNOWN));
    set_load(&mut bundle, "idle");
    let unknown = [KERNEL_UNKNOWN, MACHINE_UNKNOWN, LOAD_UNKNOWN, NOT_REAL_TIME_KERNEL];
    assert!(!codes(&bundle).iter().any(|code| unknown.contains(code)), "{:?}", codes(&bundle));
    set_load(&mut bundle, UNKNOWN_LOAD);
    assert_ne!(Verdict::without_tails(&bundle).outcome, VerdictOutcome::Held);
}

/// The build of the kernel that the file states.
fn version_of(name: &str) -> String {
    let text = text(name);
    let (_, rest) = text.split_once("\"version\": \"").unwrap();
    rest.split('"').next().unwrap().to_string()
}

#[test]
fn a_row_with_a_limit_of_its_own_has_it_after_an_import() {
    let judged = |limit: Option<&str>| {
        let mut bundle = imported("deadline_test-2.4.txt");
        let limit = limit.map(|limit| evidence::limit::Limits::parse(limit).unwrap());
        Judge { limit, ..Judge::default() }.judge(&mut bundle).unwrap();
        let limits = bundle.rows.iter().map(|row| row.entry.limit_ns).collect::<Vec<_>>();
        (limits, Verdict::without_tails(&bundle).kept)
    };
    // The time of execution is judged by the period, whatever the limit of latencies is.
    assert_eq!(judged(Some("100us")), (vec![Some(5_000_000), Some(5_500_000)], Some(true)));
    assert_eq!(judged(None), (vec![None, None], None));
}
