// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judging by the program: the judge's options, accepted taints on every output, gates that cannot judge, and
//! failures that say which share of cycles was late.

use std::fs;
use std::path::Path;

use evidence::manifest::{Asked, Granted, Manifest, RowEntry, RowKey, Second};
use evidence::taint::{self, Taint};
use evidence::{Bundle, Row, Series};
use machine::Snapshot;
use machine::snapshot::{Kernel, Preemption};

use crate::common::*;

/// A run of so many seconds at 1 kHz, 5 to 7 us, and above its limit of 100 us the first `late` of each
/// second.
pub fn run(seconds: u32, late: u64) -> Bundle {
    let scattered = |second: u32, n: u64| (n + u64::from(second) * 1_009) * 7_919 % 2_000;
    run_of(seconds, |second, n| if n < late { 150_000 } else { 5_000 + scattered(second, n) })
}

/// The same with the latency of each second's n-th cycle.
pub fn run_of(seconds: u32, latency_ns: impl Fn(u32, u64) -> u64) -> Bundle {
    let mut series = Series::default();
    for second in 0..seconds {
        let mut row = Second { second, count: 1_000, min_ns: u64::MAX, ..Second::default() };
        for n in 0..row.count {
            let value_ns = latency_ns(second, n);
            series.latency.record(value_ns);
            row.sum_ns += value_ns;
            (row.min_ns, row.max_ns) = (row.min_ns.min(value_ns), row.max_ns.max(value_ns));
        }
        series.seconds.push(row);
    }
    let entry = RowEntry {
        granted: Granted { memory_locked: Some(true), policy: Some("fifo".into()), ..Granted::default() },
        limit_ns: Some(100_000),
        ..RowEntry::new(RowKey::new("wakeup", "idle", 1, Some(1_000_000)))
    };
    let asked = Asked {
        probes: vec!["wakeup".into()],
        loads: vec!["idle".into()],
        cpus: "1".parse().unwrap(),
        periods_ns: vec![1_000_000],
        duration_ns: Some(u64::from(seconds) * 1_000_000_000),
        limit: Some("10%".into()),
        ..Asked::default()
    };
    let machine = Snapshot {
        hostname: Some("robot".into()),
        kernel: Kernel { preemption: Preemption::RealTime, ..Kernel::default() },
        ..Snapshot::default()
    };
    let manifest = Manifest { rows: vec![entry.clone()], machine, ..Manifest::new("isolator", asked) };
    Bundle { rows: vec![Row::new(entry, series)], ..Bundle::new("run", manifest) }
}

pub fn stored(folder: &Path, name: &str, bundle: &Bundle) {
    evidence::store(bundle, &folder.join(name)).unwrap();
}

/// The same with a taint that its request accepts.
fn accepting(mut bundle: Bundle) -> Bundle {
    let taint = Taint::new(taint::LOAD, "the load stood still for 19 s of 20 s", "run the load alone");
    bundle.manifest.taints = vec![Taint { accepted: true, ..taint }];
    bundle.manifest.asked.accept = vec!["load".into()];
    bundle
}

#[test]
fn an_accepted_taint_is_on_every_output() {
    let folder = folder();
    for name in ["before", "now"] {
        stored(folder.path(), name, &accepting(run(60, 0)));
    }
    for args in [
        &["report", "now"][..],
        &["report", "now", "--verbose"],
        &["report", "now", "--json"],
        &["compare", "before", "now"],
        &["compare", "before", "now", "--json"],
        &["gate", "--baseline", "before", "now"],
        &["gate", "--baseline", "before", "now", "--json"],
        &["gate", "--baseline", "before", "now", "--junit", "-"],
        &["export", "now", "--as", "ktap"],
        &["export", "now", "--as", "lava"],
        &["export", "now", "--as", "json"],
        &["export", "now", "--as", "openmetrics"],
    ] {
        let ran = isolator(folder.path(), args).ended(0);
        let said = ran.stdout.to_lowercase();
        let taint = said.find("stood still").or(said.find("accepted: load"));
        assert!(taint.is_some() && said.contains("accepted"), "{args:?}: {ran:#?}");
    }
    isolator(folder.path(), &["compare", "before", "now", "-o", "both.html"]).ended(0);
    for page in ["now/report.html", "both.html"] {
        let page = fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(page.contains("stood still"), "{page}");
    }
    let said = isolator(folder.path(), &["report", "now"]).ended(0).stdout;
    assert!(said.starts_with("==> HOLDS 100 us, accepted: load\n"), "{said}");
}

#[test]
fn a_gate_judges_by_its_baseline_and_not_by_the_candidate() {
    let folder = folder();
    let mut lax = accepting(run(60, 0));
    lax.rows[0].entry.limit_ns = Some(10_000_000);
    lax.manifest.rows[0].limit_ns = Some(10_000_000);
    (lax.manifest.asked.limit, lax.manifest.asked.claim) = (Some("10ms".into()), Some(0.9));
    stored(folder.path(), "before", &run(60, 0));
    stored(folder.path(), "lax", &lax);
    let gate = |args: &[&str]| isolator(folder.path(), &[&["gate", "--baseline", "before"], args].concat());
    let ran = gate(&["lax"]).ended(2);
    for line in [
        "judged by: limit: judged by 100 us, asked was 10,000 us",
        "judged by: claim: judged by 0.001, asked was 0.9",
        "judged by: accepted taints: judged by none, asked was load",
        "- verdict: held before, unproven now: tainted by load",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {ran:#?}");
    }
    let ran = gate(&["lax", "--accept", "load", "--limit", "1ms", "--json"]).ended(0);
    assert_eq!(ran.json()["candidate"]["limit_ns"], 1_000_000);
    gate(&["lax", "--accept", "laod"])
        .refused("cannot accept 'laod': there is no such taint; did you mean load?");
    gate(&["lax", "--claim", "2"])
        .refused("cannot use '2' for --claim: it is not a rate between 0 and 1; write 0.001");
    // A judge of one run, likewise.
    isolator(folder.path(), &["report", "lax"]).ended(0);
    isolator(folder.path(), &["report", "lax", "--limit", "6us"]).ended(2);
    isolator(folder.path(), &["report", "lax", "--accept", "steal"]).ended(2);
}

#[test]
fn a_gate_that_is_blind_says_how_long_to_measure() {
    let folder = folder();
    // A third of the baseline's seconds are ten times as late.
    let mut bursts = run(12, 0);
    let mut series = Series::default();
    for line in &bursts.rows[0].series.seconds {
        let ns = if line.second % 6 < 2 { 60_000 } else { 6_000 };
        series.latency.record_many(ns, line.count);
        series.seconds.push(Second { min_ns: ns, max_ns: ns, sum_ns: ns * line.count, ..*line });
    }
    bursts.rows[0] = Row::new(bursts.rows[0].entry.clone(), series);
    stored(folder.path(), "before", &bursts);
    stored(folder.path(), "now", &run(12, 0));
    let ran =
        isolator(folder.path(), &["gate", "--baseline", "before", "now", "--junit", "gate.xml"]).ended(1);
    assert!(ran.stderr.contains("; measure both alike, each row for "), "{ran:#?}");
    assert!(ran.stdout.contains("\nnot judged: wakeup under idle on cpu 1 "), "{ran:#?}");
    assert!(ran.stdout.contains("==> NOT PASSED: ") && !ran.stdout.contains("NOTHING GOT WORSE"), "{ran:#?}");
    let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    assert!(xml.contains("<error message=") && xml.contains("both runs need "), "{xml}");
}

#[test]
fn a_failure_says_which_share_of_cycles_was_late() {
    let folder = folder();
    stored(folder.path(), "late", &run(60, 170));
    let ran = isolator(folder.path(), &["report", "late"]).ended(2);
    assert!(ran.stdout.starts_with("==> DOES NOT HOLD 100 us: 17.0 % of cycles were late\n"), "{ran:#?}");
    let page = fs::read_to_string(folder.path().join("late/report.html")).unwrap();
    assert!(page.contains("17.0 % of cycles were late") && !page.contains("fewer than any"), "{page}");
}

#[test]
fn a_comparison_ends_with_its_figures() {
    let folder = folder();
    stored(folder.path(), "before", &accepting(run(60, 0)));
    stored(folder.path(), "now", &run(60, 0));
    let said = isolator(folder.path(), &["compare", "before", "now"]).ended(0).stdout;
    let lines = said.lines().rev().take(14).collect::<Vec<_>>();
    for figure in ["p50 ", "p99 ", "p99.9 ", "max ", "mean "] {
        assert!(lines.iter().any(|line| line.starts_with(figure)), "{figure}: {said}");
    }
    assert!(
        said.contains("note: judged by other options: accept load before but not stated after"),
        "{said}"
    );
}

#[test]
fn an_import_holds_only_what_it_states_or_its_judge_accepts() {
    let folder = folder();
    let line = "T: 0 ( 3407) P:99 I:1000 C: 100000 Min:      2 Act:    3 Avg:    3 Max:      50\n";
    fs::write(folder.path().join("c.txt"), line).unwrap();
    let import = |name: &str, args: &[&str]| {
        isolator(folder.path(), &[&["import", "c.txt", "-o", name], args].concat())
    };
    let unknown = "kernel-unknown,machine-unknown,load-unknown";
    let ran = import("a", &["--limit", "60us"]).ended(2);
    for code in unknown.split(',') {
        assert!(ran.stdout.contains(code), "{code}: {ran:#?}");
    }
    import("b", &["--limit", "60us", "--load", "idle", "--accept", "kernel-unknown,machine-unknown"])
        .ended(0);
    import("c", &["--limit", "60us", "--accept", unknown, "--claim", "1e-6"]).ended(2);
    let ran = import("d", &["--limit", "50us", "--accept", unknown]).ended(2);
    assert!(ran.stdout.starts_with("==> UNPROVEN: whether 50 us was kept is unknown"), "{ran:#?}");
    let row = ran.stdout.lines().find(|line| line.starts_with("wakeup")).unwrap();
    assert!(row.ends_with("unknown") && row.contains("0 to 100,000"), "{row}");
    import("e", &["--limit", "49us", "--accept", unknown]).ended(2);
    import("f", &["--limit", "51us", "--accept", unknown]).ended(0);
    // A deleted taint is missed.
    let path = folder.path().join("f/manifest.json");
    let mut manifest = read(&path);
    manifest["taints"] = serde_json::json!([]);
    fs::write(&path, manifest.to_string()).unwrap();
    isolator(folder.path(), &["report", "f"]).ended(2);
}
