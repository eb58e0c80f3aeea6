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

/// Everything that judges `run` by given options, with the way to its verdict: the command before these
/// options, the JSON on its standard output, and where in it the verdict stands.
const JUDGES: [(&[&str], &str); 6] = [
    (&["report", "run", "--json"], ""),
    (&["why", "run", "--json"], "/verdict"),
    (&["compare", "run", "run", "--json"], "/before"),
    (&["compare", "run", "run", "--json"], "/after"),
    (&["gate", "--baseline", "run", "run", "--json"], "/candidate"),
    (&["export", "run", "--as", "json"], ""),
];

/// The verdict in a document: outcome, limit, whether it was kept, reasons, codes of accepted taints, grade,
/// late cycles.
fn verdict_in(document: &serde_json::Value) -> serde_json::Value {
    // A report has the figures of the rows, whose sum the others state.
    let of = document.get("verdict").unwrap_or(document);
    let rows = document["rows"].as_array().filter(|_| document.get("verdict").is_some());
    let late = match rows {
        Some(rows) => rows.iter().map(|row| row["late"].as_u64().unwrap()).sum(),
        None => document["late"].as_u64().unwrap(),
    };
    let taints = document["taints"].as_array().unwrap().iter();
    let accepted = taints.filter(|taint| taint["accepted"] == true).map(|taint| taint["code"].clone());
    serde_json::json!({
        "outcome": of["outcome"], "limit_ns": of["limit_ns"], "kept": of["kept"], "reasons": of["reasons"],
        "accepted": accepted.collect::<Vec<_>>(), "grade": document["use"]["grade"], "late": late,
    })
}

#[test]
fn every_verb_judges_by_the_same_options_alike() {
    let folder = folder();
    let mut run = accepting(run(60, 17));
    run.manifest.asked.purpose = Some("linuxcnc:1ms".into());
    stored(folder.path(), "run", &run);
    let options: [&[&str]; 9] = [
        &[],
        &["--limit", "150us"],
        &["--limit", "1ms"],
        &["--limit", "1ms", "--accept", "steal"],
        &["--limit", "1ms", "--claim", "1e-6"],
        &["--limit", "1ms", "--claim-per", "independent"],
        &["--limit", "5%", "--accept", "steal"],
        &["--allow", "17in1000"],
        &["--allow", "16in1000"],
    ];
    let mut outcomes = std::collections::BTreeSet::new();
    for (place, given) in options.into_iter().enumerate() {
        let said = |verb: &[&str], at: &str| {
            let document = isolator(folder.path(), &[verb, given].concat()).json();
            verdict_in(document.pointer(at).unwrap_or_else(|| panic!("{verb:?} lacks {at}")))
        };
        let first = said(JUDGES[0].0, JUDGES[0].1);
        outcomes.insert(first["outcome"].to_string());
        for (verb, at) in &JUDGES[1..] {
            assert_eq!(said(verb, at), first, "{verb:?} {given:?}");
        }
        // The formats of other tools have the words alone.
        let exported = |format: &str| {
            isolator(folder.path(), &[&["export", "run", "--as", format], given].concat()).ended(0).stdout
        };
        let outcome = first["outcome"].as_str().unwrap();
        let metrics = exported("openmetrics");
        assert!(metrics.contains(&format!("isolator_verdict{{outcome=\"{outcome}\"}} 1")), "{metrics}");
        assert!(metrics.contains(&format!("isolator_verdict_late_cycles {}", first["late"])), "{metrics}");
        let ktap = exported("ktap");
        let word = if outcome == "held" { "\nok 2 verdict\n" } else { "\nnot ok 2 verdict\n" };
        assert!(ktap.contains(&format!("# {outcome} ")) && ktap.contains(word), "{outcome}: {ktap}");
        let junit = [&["gate", "--baseline", "run", "run", "--junit", "-"], given].concat();
        let junit = isolator(folder.path(), &junit).stdout;
        assert!(junit.contains(&format!("name=\"verdict\" value=\"{outcome}\"")), "{junit}");
        if !installed("duckdb") {
            continue;
        }
        let at = format!("store{place}");
        let store = [&["fleet", "store", "run", "-o", &at, "--quiet"], given].concat();
        isolator(folder.path(), &store).ended(0);
        let fleet = isolator(folder.path(), &["fleet", "report", &at, "--json"]).json();
        let machine = &fleet["machines"][0];
        assert_eq!(machine["outcome"], first["outcome"], "fleet {given:?}");
        assert_eq!(machine["late"], first["late"], "fleet {given:?}");
        let accepted = first["accepted"].as_array().unwrap().iter().filter_map(|code| code.as_str());
        let accepted = accepted.collect::<Vec<_>>().join(",");
        assert_eq!(machine["accepted"].as_str().unwrap_or_default(), accepted, "fleet {given:?}");
        let grade = first["grade"].as_str().unwrap();
        assert_eq!(machine["grade"], format!("{grade} for linuxcnc:1ms"), "fleet {given:?}");
    }
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
}

#[test]
fn the_next_command_judges_by_the_same_options() {
    let folder = folder();
    stored(folder.path(), "run", &run(60, 17));
    stored(folder.path(), "late", &run_of(60, |_, _| 900_000));
    let judge = "--limit 5us --claim 0.1 --claim-per independent --allow 1in10 --accept load";
    let given = judge.split(' ').collect::<Vec<_>>();
    for verb in [&["compare", "run", "late"][..], &["gate", "--baseline", "run", "late"]] {
        let said = isolator(folder.path(), &[verb, &given].concat()).stdout;
        let next = format!("next: isolator compare run late {judge} -o change.html");
        assert!(said.lines().any(|line| line == next), "{verb:?}: {said}");
    }
}

#[test]
fn a_store_refuses_another_verdict_on_a_run_that_it_has() {
    let folder = folder();
    stored(folder.path(), "run", &run(60, 17));
    let store = |given: &[&str]| {
        isolator(folder.path(), &[&["fleet", "store", "run", "-o", "store"], given].concat())
    };
    store(&[]).ended(0);
    assert!(store(&["--limit", "10%"]).ended(0).stdout.contains("0 added, 1 known already"));
    store(&["--limit", "1ms"]).refused(
        "cannot store run: the store has another verdict on it, by the options of before; judge by the same \
         options, or store it into another folder",
    );
}

#[test]
fn a_figure_cut_at_the_limit_is_unknown_on_every_output() {
    let folder = folder();
    let line = "T: 0 ( 3407) P:99 I:1000 C: 100000 Min:      2 Act:    3 Avg:    3 Max:      50\n";
    fs::write(folder.path().join("c.txt"), line).unwrap();
    let judge = ["--limit", "50us", "--accept", "kernel-unknown,machine-unknown,load-unknown"];
    let ran = |verb: &[&str], status: i32| {
        let ran = isolator(folder.path(), &[verb, &judge].concat()).ended(status);
        ran.stdout + &ran.stderr
    };
    let import = ran(&["import", "c.txt", "-o", "run"], 2);
    let why = "its maximum lies between 49.001 us and 50.999 us, and 50 us is undecided; take finer figures, or a limit \
               of 50.999 us";
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (verb, status, words) in [
        (&["report", "run"][..], 2, ["==> UNPROVEN: whether 50 us was kept is unknown", why]),
        (&["report", "run", "--json"], 2, ["\"kept\": null", why]),
        (
            &["compare", "run", "run"],
            0,
            ["UNPROVEN: whether 50 us was kept is unknown", "0 to 100,000 of 100,000"],
        ),
        (&["compare", "run", "run", "--json"], 0, ["\"kept\": null", why]),
        (&["gate", "--baseline", "run", "run", "--json"], 1, ["\"kept\": null", why]),
        (
            &["gate", "--baseline", "run", "run"],
            1,
            ["Unproven: whether 50 us was kept is unknown", "NOT PASSED"],
        ),
        (
            &["gate", "--baseline", "run", "run", "--junit", "-"],
            1,
            ["name=\"limit kept\" value=\"unknown\"", why],
        ),
        (&["why", "run"], 0, ["verdict: Unproven: whether 50 us was kept is unknown", "accepted: "]),
        (&["why", "run", "--json"], 0, ["\"kept\": null", why]),
        (&["export", "run", "--as", "ktap"], 0, ["not ok 1 wakeup/", why]),
        (&["export", "run", "--as", "lava"], 0, ["RESULT=unknown", "verdict RESULT=unknown"]),
        (&["export", "run", "--as", "json"], 0, ["\"max_at_most_ns\": 50999", why]),
        (
            &["export", "run", "--as", "openmetrics"],
            0,
            ["isolator_verdict_late_cycles 0", "isolator_verdict_late_cycles_at_most 100000"],
        ),
    ] {
        let said = flat(&ran(verb, status));
        assert!(words.iter().all(|words| said.contains(&flat(words))), "{verb:?} lacks {words:?}: {said}");
        assert!(
            !said.contains("isolator_verdict_kept") && !said.contains("was kept, but"),
            "{verb:?}: {said}"
        );
    }
    assert!(flat(&import).contains("whether 50 us was kept is unknown"), "{import}");
    let page = fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    for words in ["whether 50 µs was kept is unknown", "? unknown", "whether it exceeds its limit is unknown"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains(" ✓"), "{page}");
}

#[test]
fn a_pack_takes_no_options_of_a_judge() {
    let folder = folder();
    stored(folder.path(), "run", &run(5, 0));
    isolator(folder.path(), &["export", "run", "--as", "archive", "--limit", "1us"]).refused(
        "cannot judge while packing run: it has the run as it was asked; give the options to the verb that judges it",
    );
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
