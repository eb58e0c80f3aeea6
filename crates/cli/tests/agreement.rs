// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that one verb writes and another one reads: export and import, reports of several, plans and
//! comparisons.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::*;
use serde_json::Value;

#[test]
fn what_is_exported_for_other_tools_is_imported_with_the_same_counts() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    bundle(folder.path(), "b", &[]);
    let ours = isolator(folder.path(), &["export", "b", "--as", "json"]).ended(0).json();
    // A bucket of ours that lies in two of theirs goes to the higher one.
    let by_microsecond = |document: &Value| {
        let (mut counts, max_ns) =
            (BTreeMap::<u64, u64>::new(), document["rows"][0]["max_ns"].as_u64().unwrap());
        for bucket in document["histograms"][0].as_array().unwrap() {
            *counts.entry(bucket[1].as_u64().unwrap().min(max_ns) / 1000).or_default() +=
                bucket[2].as_u64().unwrap();
        }
        counts
    };
    for format in ["cyclictest", "rtla"] {
        let file = format!("{format}.txt");
        isolator(folder.path(), &["export", "b", "--as", format, "-o", &file]).ended(0);
        isolator(folder.path(), &["import", &file, "-o", format]).ended(0);
        let theirs = isolator(folder.path(), &["export", format, "--as", "json"]).ended(0).json();
        let (row, our_row) = (&theirs["rows"][0], &ours["rows"][0]);
        assert_eq!(row["count"], our_row["count"], "{format}");
        assert_eq!(
            row["max_ns"].as_u64().unwrap() / 1000,
            our_row["max_ns"].as_u64().unwrap() / 1000,
            "{format}"
        );
        assert_eq!(by_microsecond(&theirs), by_microsecond(&ours), "{format}");
    }
}

#[test]
fn a_bundle_packed_into_one_file_reads_like_its_folder() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    bundle(folder.path(), "b", &[]);
    isolator(folder.path(), &["export", "b", "--as", "archive"]).ended(0);
    let read = |bundle: &str| {
        let mut document = isolator(folder.path(), &["report", bundle, "--json"]).judged().json();
        document["bundle"] = Value::Null;
        document
    };
    assert_eq!(read("b.tar.zst"), read("b"));
}

#[test]
fn a_report_shows_our_bundle_beside_an_imported_one() {
    skip_if!(skipped_for_lack_of_cpus());
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exchange/tests/fixtures/import");
    let folder = folder();
    bundle(folder.path(), "ours", &[]);
    for (file, program) in
        [("cyclictest-2.6.json", "cyclictest"), ("oslat-2.4.json", "oslat"), ("timerlat-6.12.txt", "rtla")]
    {
        let path = fixtures.join(file).display().to_string();
        let args = ["import", &path, "--load", "idle", "--limit", "1ms", "-o", program];
        isolator(folder.path(), &args).ended(2);
    }
    let args = ["report", "ours", "cyclictest", "oslat", "rtla", "-o", "all.html", "--json", "-", "--quiet"];
    let documents = isolator(folder.path(), &args).ended(2).json();
    let programs = documents.as_array().unwrap().iter().map(|document| document["bundle"].as_str().unwrap());
    assert_eq!(programs.collect::<Vec<_>>(), ["ours", "cyclictest", "oslat", "rtla"]);
    assert!(
        documents.as_array().unwrap().iter().all(|document| !document["rows"].as_array().unwrap().is_empty())
    );
    let html = fs::read_to_string(folder.path().join("all.html")).unwrap();
    for program in ["isolator", "cyclictest", "oslat", "rtla"] {
        assert!(html.contains(program), "{program}");
    }
}

/// Taints for all that a text of another tool lacks.
const UNKNOWN: &str = "kernel-unknown,machine-unknown,load-unknown";

#[test]
fn an_import_judges_only_where_a_limit_is_given_and_then_as_its_report_does() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exchange/tests/fixtures/import");
    let folder = folder();
    // Held; above the limit; kept, but by too few samples to prove it.
    for (file, status) in
        [("cyclictest-2.4-h.txt", 0), ("cyclictest-2.6.json", 2), ("cyclictest-2.4-nanoseconds.json", 2)]
    {
        let path = fixtures.join(file).display().to_string();
        let args = ["import", &path, "--limit", "1ms", "-o", file, "--accept", UNKNOWN];
        isolator(folder.path(), &args).ended(status);
        isolator(folder.path(), &["report", file]).ended(status);
        let unjudged = format!("{file}-unjudged");
        isolator(folder.path(), &["import", &path, "-o", &unjudged]).ended(0);
    }
}

#[test]
fn an_import_takes_the_unit_that_it_is_told() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exchange/tests/fixtures/import");
    let folder = folder();
    let line = "T: 0 ( 3407) P:99 I:1000 C: 100000 Min:   7012 Act:  10100 Avg:  10920 Max:   18730\n";
    fs::write(folder.path().join("n.txt"), line).unwrap();
    let import = |args: &[&str]| {
        let known = ["import", "n.txt", "--limit", "1ms", "--accept", UNKNOWN];
        isolator(folder.path(), &[&known[..], args].concat())
    };
    import(&["--unit", "ns", "-o", "ns"]).ended(0);
    import(&["-o", "us"]).ended(2);
    let path = fixtures.join("others/xenomai-3-overrun.txt").display().to_string();
    let why = "the unit of a Xenomai latency is stated in it, and was told besides; give the whole output of one run \
               of a tool that `isolator import --help` lists";
    isolator(folder.path(), &["import", &path, "--unit", "ns"])
        .refused(&format!("cannot import {path}: {why}"));
}

#[test]
fn an_import_shows_the_periods_that_another_tool_missed() {
    let folder = folder();
    let summary = "---|-----------|-----------|-----------|--------|------|-------------------------\n\
                   RTS|      0.100|      2.000|     19.000|       7|     0|    00:10:00/00:10:00\n";
    fs::write(folder.path().join("x.txt"), summary).unwrap();
    let shown = isolator(folder.path(), &["import", "x.txt", "--limit", "1s"]).ended(2);
    let row = shown.stdout.lines().find(|line| line.starts_with("wakeup")).unwrap().to_string();
    assert!(row.split_whitespace().any(|word| word == "7"), "{row}");
    let document = isolator(folder.path(), &["report", "evidence/x", "--json"]).ended(2).json();
    assert_eq!(document["rows"][0]["missed"], 7);
}

#[test]
fn a_run_like_another_is_comparable() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let more = [
        "--loads",
        "idle,custom=echo 1, 2; sleep 60",
        "--period",
        "2ms",
        "--limit",
        "20%",
        "--priority",
        "42",
    ];
    bundle(folder.path(), "before", &more);
    let again = ["prove", "--like", "before", "--allow-commands", "-o", "after"];
    isolator(folder.path(), &again).judged();
    let manifest = |name: &str| {
        let text = fs::read_to_string(folder.path().join(name).join("manifest.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!(manifest("before")["asked"], manifest("after")["asked"]);
    let ran = isolator(folder.path(), &["compare", "before", "after", "-o", "both.html"]).ended(0);
    assert!(ran.stdout.contains("Report: both.html") && folder.path().join("both.html").exists(), "{ran:#?}");

    // An option goes before the earlier run's; the file may hold the 'asked' part alone.
    fs::write(folder.path().join("asked.json"), manifest("before")["asked"].to_string()).unwrap();
    let args = ["prove", "--like", "asked.json", "--loads", "idle", "--duration", "900ms", "-o", "other"];
    isolator(folder.path(), &args).judged();
    let line = isolator(folder.path(), &["compare", "before", "other"]).line();
    let differences = "not the same was asked: duration 1s before but 900ms after, loads custom=echo 1, 2; sleep 60,idle before but idle after";
    assert!(line.contains(differences), "{line}");
    let ran = isolator(folder.path(), &["compare", "before", "other", "--force"]).ended(0);
    let said = ran.stdout.to_lowercase();
    assert!(said.contains("unlike") || said.contains("not the same"), "{ran:#?}");
}

#[test]
fn a_table_for_another_tool_holds_one_load_and_the_line_says_which_there_are() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    bundle(folder.path(), "b", &["--loads", "idle,timers"]);
    isolator(folder.path(), &["export", "b", "--as", "cyclictest"]).refused(
        "cannot export as cyclictest b: a table holds one load; choose one of: --load idle --probe wakeup, --load timers --probe wakeup",
    );
    isolator(folder.path(), &["export", "b", "--as", "cyclictest", "--load", "net"]).refused(
        "cannot export as cyclictest b: no row is left by the choice; choose one of: --load idle --probe wakeup, --load timers --probe wakeup",
    );
    let table = isolator(folder.path(), &["export", "b", "--as", "cyclictest", "--load", "timers"]).ended(0);
    assert!(table.stdout.contains("# Max Latencies:"), "{}", table.stdout);
}
