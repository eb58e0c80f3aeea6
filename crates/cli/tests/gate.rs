// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator gate`: how it ends, and what it says where it fails.

mod common;

use std::fs;
use std::path::Path;

use common::*;

/// A bundle as measured, or, by `scale`, a copy in which every latency is so many times as long: the histogram's
/// and the seconds'.
fn copy(folder: &Path, from: &str, to: &str, scale: u64) {
    let (from, to) = (folder.join(from), folder.join(to));
    fs::create_dir_all(to.join("series")).unwrap();
    for file in ["manifest.json", "spikes.jsonl"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    for file in fs::read_dir(from.join("series")).unwrap() {
        let file = file.unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        let name = file.file_name().into_string().unwrap();
        let seconds = name.ends_with(".seconds.csv");
        let mut block = "";
        let mut out = String::new();
        for line in text.lines() {
            let times = |field: &str| (field.parse::<f64>().unwrap() * scale as f64).round().to_string();
            let fields = line.split(',').collect::<Vec<_>>();
            let line = match (seconds, fields.as_slice()) {
                (true, [second, count, min, mean, max, missed]) if *second != "second" => {
                    [*second, *count, &times(min), &times(mean), &times(max), *missed].join(",")
                }
                (false, [from, to, count]) if block == "latency" && !line.starts_with('#') => {
                    [&times(from), &times(to), *count].join(",")
                }
                _ => match line.strip_prefix("# ").and_then(|rest| rest.split_once(' ')) {
                    Some((word @ ("sum_ns" | "min_ns" | "max_ns"), value)) => {
                        format!("# {word} {}", times(value))
                    }
                    Some((word, _)) if word.ends_with(':') => {
                        block = if word == "latency:" { "latency" } else { "" };
                        line.to_string()
                    }
                    _ => line.to_string(),
                },
            };
            out.push_str(&line);
            out.push('\n');
        }
        fs::write(to.join("series").join(name), out).unwrap();
    }
}

/// Nine seconds of a row; whether it holds is no matter here.
fn measured(folder: &Path, name: &str) {
    let args = ["--duration", "9s", "--period", "2ms", "--limit", "2ms", "--warm-up", "100ms"];
    bundle(folder, name, &args);
}

#[test]
fn a_run_is_no_worse_than_itself_and_worse_than_one_a_third_as_late() {
    if skipped_for_lack_of_cpus() {
        return;
    }
    let folder = folder();
    measured(folder.path(), "now");
    copy(folder.path(), "now", "late", 3);
    let gate = |args: &[&str]| isolator(folder.path(), &[&["gate", "--baseline"], args].concat());

    let same = gate(&["now", "now", "--json", "-"]).ended(0);
    conforms(&same.json(), "gate");
    assert!(same.stderr.ends_with("==> NOTHING GOT WORSE\n"), "{same:#?}");
    assert_eq!(same.json()["reasons"], serde_json::json!([]));

    let worse = gate(&["now", "late", "--junit", "gate.xml", "--json", "gate.json"]).ended(2);
    let document = read(&folder.path().join("gate.json"));
    conforms(&document, "gate");
    let reasons = document["reasons"].as_array().unwrap();
    assert!(!reasons.is_empty() && worse.stderr.is_empty(), "{worse:#?}");
    let key = format!("wakeup under idle on cpu {} every 2000 us: ", document["figures"][0]["cpu"]);
    let rows =
        reasons.iter().map(|reason| reason.as_str().unwrap()).filter(|why| !why.starts_with("verdict: "));
    rows.for_each(|reason| assert!(reason.starts_with(&key), "{document:#}"));
    assert!(reasons.iter().any(|reason| reason.as_str().unwrap().contains(": p50: ")), "{document:#}");
    let last = format!("==> {} WORSE THAN THE BASELINE\n", reasons.len());
    assert!(worse.stdout.ends_with(&last), "{worse:#?}");

    let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    let count = |what: &str| xml.matches(what).count();
    assert_eq!(count("<failure "), reasons.len(), "{xml}");
    assert_eq!(count("<testcase "), document["figures"].as_array().unwrap().len() + 1);
    assert!(xml.contains(&format!(" failures=\"{}\" errors=\"0\" skipped=\"0\">", reasons.len())), "{xml}");
    let alone = gate(&["now", "late", "--junit", "-"]).ended(2);
    assert_eq!((alone.stdout, alone.stderr.as_str()), (xml, ""));

    // A run as late as one of the baselines is no news, and what got better neither.
    gate(&["now", "--baseline", "late", "late"]).ended(0);
    gate(&["late", "now"]).ended(0);
}

#[test]
fn what_cannot_be_judged_ends_with_status_1_and_one_line() {
    if skipped_for_lack_of_cpus() {
        return;
    }
    let folder = folder();
    bundle(folder.path(), "a", &[]);
    bundle(folder.path(), "b", &["--priority", "70"]);
    let gate = |args: &[&str]| isolator(folder.path(), &[&["gate", "--baseline", "a"], args].concat());
    let line = gate(&["a"]).line();
    let end = "1 seconds say nothing of how seconds differ, 8 would; measure both alike, each row for 8 s or longer";
    assert!(line.starts_with("cannot judge a: wakeup under idle on cpu ") && line.ends_with(end), "{line}");
    gate(&["b"]).refused(
        "cannot judge b by a: not the same was asked: priority 80 before but 70 after; measure both alike, or \
         judge unlike runs with --force",
    );
    gate(&["nothing"]).refused("cannot open the bundle nothing: no such file or directory; check the path");
    gate(&["a", "--tolerance", "10"])
        .refused("cannot use '10' for --tolerance: it has no unit; write 10% for a tenth");
    gate(&["a", "--json", "-", "--junit", "-"])
        .refused("--junit - cannot be given together with --json -; write one of them to a file");
    isolator(folder.path(), &["gate", "a"])
        .refused("isolator gate lacks --baseline <BUNDLE>; see isolator gate --help");
    let manifest = folder.path().join("a/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replacen("\"schema_version\": 1", "\"schema_version\": 9", 1)).unwrap();
    gate(&["b"]).refused(
        "cannot read a/manifest.json: its schema version is 9, this program reads 1; use the version of isolator \
         that wrote it",
    );
}
