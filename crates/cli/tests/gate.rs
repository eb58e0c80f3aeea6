// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator gate`: how it ends, and what it says where it fails.

use std::fs;
use std::path::Path;

use crate::common::*;
use crate::judge::{run_of, stored};

/// A bundle in which every latency is `ns`: how a shared machine's seconds differ must not decide here.
fn steady(folder: &Path, name: &str, ns: u64) {
    stored(folder, name, &run_of(9, |_, _| ns));
}

#[test]
fn a_run_is_no_worse_than_itself_and_worse_than_one_a_third_as_late() {
    let folder = folder();
    steady(folder.path(), "now", 20_000);
    steady(folder.path(), "late", 60_000);
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
    let key = "wakeup under idle on cpu 1 every 1,000 us: ";
    let rows =
        reasons.iter().map(|reason| reason.as_str().unwrap()).filter(|why| !why.starts_with("verdict: "));
    rows.for_each(|reason| assert!(reason.starts_with(key), "{document:#}"));
    assert!(reasons.iter().any(|reason| reason.as_str().unwrap().contains(": p50: ")), "{document:#}");
    let next = "next: isolator compare now late -o change.html";
    let last = format!("==> {} WORSE THAN THE BASELINE\n{next}\n", reasons.len());
    assert!(worse.stdout.ends_with(&last), "{worse:#?}");

    let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    let count = |what: &str| xml.matches(what).count();
    assert_eq!(count("<failure "), reasons.len(), "{xml}");
    // A case for each figure, one for the row's limit, one for the verdict.
    assert_eq!(count("<testcase "), document["figures"].as_array().unwrap().len() + 2);
    assert!(xml.contains("name=\"limit\">\n    <system-out>maximum 60.0 us, "), "{xml}");
    let words = worse.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [": maximum 60.0 us, ", " p50 20.0 us 60.0 us ", " +200.0 % to +200.0 % WORSE "] {
        assert!(words.contains(part), "{part}: {}", worse.stdout);
    }
    assert!(xml.contains(&format!(" failures=\"{}\" errors=\"0\" skipped=\"0\">", reasons.len())), "{xml}");
    let alone = gate(&["now", "late", "--junit", "-"]).ended(2);
    assert_eq!((alone.stdout, alone.stderr.as_str()), (xml, ""));

    // A run as late as one of the baselines is no news, and what got better neither.
    gate(&["now", "--baseline", "late", "late"]).ended(0);
    gate(&["late", "now"]).ended(0);
}

#[test]
fn nothing_passes_with_or_against_a_damaged_bundle() {
    let folder = folder();
    steady(folder.path(), "whole", 20_000);
    steady(folder.path(), "cut", 20_000);
    let seconds = fs::read_dir(folder.path().join("cut/series")).unwrap().flatten().map(|file| file.path());
    let seconds = seconds.into_iter().find(|path| path.to_string_lossy().ends_with("seconds.csv")).unwrap();
    let text = fs::read_to_string(&seconds).unwrap();
    let half = text.lines().take(5).map(|line| format!("{line}\n")).collect::<String>();
    fs::write(&seconds, half).unwrap();
    let gate = |args: &[&str]| {
        let out = ["--junit", "gate.xml", "--json", "gate.json"];
        isolator(folder.path(), &[&["gate", "--baseline"], args, &out].concat()).line()
    };
    for (args, which) in [(["whole", "cut"], "the candidate cut"), (["cut", "whole"], "the baseline cut")] {
        let line = gate(&args);
        assert!(
            line.starts_with(&format!("cannot judge {}: {which} is damaged: series/", args[1])),
            "{line}"
        );
        let document = read(&folder.path().join("gate.json"));
        conforms(&document, "gate");
        assert_eq!((&document["held"], &document["figures"]), (&false.into(), &serde_json::json!([])));
        assert!(document["errors"][0].as_str().unwrap().contains("the rest was cut off"), "{document:#}");
        let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
        assert!(xml.contains("<error message=\"the "), "{xml}");
    }
    // What is kept beside is an output: nothing changes with it.
    fs::write(folder.path().join("whole/verdict.json"), "{\"held\": true}").unwrap();
    isolator(folder.path(), &["gate", "--baseline", "whole", "whole"]).ended(0);
    let manifest = folder.path().join("cut/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"state\": \"finished\"", "\"state\": \"running\"")).unwrap();
    assert!(gate(&["whole", "cut"]).contains("killed, or still running"));
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    let line = gate(&["whole", "cut"]);
    assert!(line.starts_with("cannot read cut/manifest.json: "), "{line}");
    let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    assert!(xml.contains("errors=\"1\"") && xml.contains("cannot read cut/manifest.json"), "{xml}");
    isolator(folder.path(), &["compare", "whole", "cut"]).ended(1);
}

#[test]
fn what_cannot_be_judged_ends_with_status_1_and_one_line() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    bundle(folder.path(), "a", &[]);
    bundle(folder.path(), "b", &["--priority", "70"]);
    let gate = |args: &[&str]| isolator(folder.path(), &[&["gate", "--baseline", "a"], args].concat());
    let ran = gate(&["a", "--junit", "gate.xml", "--json", "gate.json"]);
    assert!(ran.stdout.contains("\n==> NOT PASSED: 1 NOT JUDGED\n"), "{ran:#?}");
    let line = ran.line();
    let end = "1 seconds are too few to estimate the variation; both runs need 8 s; measure both alike, each row for 8 s or \
               longer";
    assert!(line.starts_with("cannot judge a: wakeup under idle on cpu ") && line.ends_with(end), "{line}");
    // A CI system has the reason from the files.
    let document = read(&folder.path().join("gate.json"));
    conforms(&document, "gate");
    assert_eq!((&document["held"], &document["not_judged"][0]["needs_s"]), (&false.into(), &8.into()));
    let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    assert!(xml.contains("<error message=\"1 seconds are too few") && xml.contains(" errors=\"1\""), "{xml}");
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
