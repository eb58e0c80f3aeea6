// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the program ends: 0 the limit holds, 1 it could not be done, 2 it does not hold or is not proven to.

use std::fs;
use std::path::Path;

use crate::common::*;
use serde_json::Value;

/// Five cycles in a second with 199 ms to spare: holds on every machine that is alive.
const EASY: [&str; 6] = ["--period", "200ms", "--limit", "199ms", "--claim", "0.7"];

#[test]
fn a_limit_that_holds_ends_with_status_0_where_every_taint_is_accepted() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let measured = |bundle, more: &[&str]| {
        let args = [&EASY[..], &["--json", "-"], more].concat();
        let ran = isolator(folder.path(), &short(bundle, &args)).judged();
        let late = ran.json()["verdict"]["outcome"] == "exceeded";
        let why = "a thread with a real-time policy was 199 ms late: the machine was not alive";
        (!skipped(late, why)).then_some(ran)
    };
    let Some(first) = measured("first", &[]) else { return };
    let first = first.json();
    let (taints, held) = (first["taints"].as_array().unwrap(), first["verdict"]["held"].as_bool().unwrap());
    assert_eq!(held, taints.is_empty(), "nothing but taints speaks against it: {first:#}");
    assert_eq!(first["verdict"]["outcome"], if held { "held" } else { "unproven" });

    // The second run may be disturbed by more than the first.
    let all = evidence::taint::CODES.join(",");
    let Some(second) = measured("second", &["--accept", &all]) else { return };
    let second = second.ended(0).json();
    assert_eq!((&second["verdict"]["held"], &second["verdict"]["outcome"]), (&true.into(), &"held".into()));
    assert!(second["taints"].as_array().unwrap().iter().all(|taint| taint["accepted"] == true));
    assert!(second["taints"].as_array().unwrap().len() >= taints.len().min(1), "they are shown all the same");
    isolator(folder.path(), &["report", "second"]).ended(0);
    isolator(folder.path(), &["report", "second", "first"]).ended(if held { 0 } else { 2 });
}

#[test]
fn a_limit_that_does_not_hold_ends_with_status_2_and_says_why() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let ran = isolator(folder.path(), &short("b", &["--limit", "1ns"])).ended(2);
    let last = ran.stdout.lines().rev().find(|line| line.starts_with("==>")).unwrap_or_default();
    assert_eq!(last, "==> DOES NOT HOLD 1 ns: 100.0 % of cycles were late", "{ran:#?}");
    assert!(ran.stdout.ends_with("Report: b/report.html\nnext: isolator why b\n"), "{ran:#?}");
    for file in ["manifest.json", "verdict.json", "report.html", "spikes.jsonl"] {
        assert!(folder.path().join("b").join(file).metadata().unwrap().len() > 0, "{file}");
    }
    isolator(folder.path(), &["report", "b"]).ended(2);
}

#[test]
fn too_few_samples_for_the_claim_prove_nothing() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let args = [&EASY[..4], &["--loops", "3", "--duration", "60s", "--json", "-"]].concat();
    let document = isolator(folder.path(), &short("b", &args)).ended(2).json();
    let row = &document["rows"][0];
    assert_eq!(row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap(), 3, "{document:#}");
    let late = document["verdict"]["outcome"] == "exceeded";
    skip_if!(skipped(late, "a thread was 199 ms late: the machine was not alive"));
    let reasons = document["verdict"]["reasons"].to_string();
    let reason =
        "3 samples cannot support a rate of late episodes below 0.001; 3000 without a late one would";
    assert!(reasons.contains(reason), "{reasons}");
}

#[test]
fn until_held_measures_the_cycles_that_the_claim_needs() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    // 3 / 0.7 cycles.
    let args = [&EASY[..], &["--until", "held", "--json", "-"]].concat();
    let args = [&["prove", "-o", "b", "--warm-up", "0", "--causes", "off"], &args[..]].concat();
    let document = isolator(folder.path(), &args).judged().json();
    let row = &document["rows"][0];
    assert_eq!(row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap(), 5, "{document:#}");
}

#[test]
fn two_runs_of_one_boot_are_one_boot() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    isolator(folder.path(), &short("a", &EASY)).judged();
    let args = [&EASY[..], &["--boots", "2", "--join", "a", "--json", "-"]].concat();
    let claim = isolator(folder.path(), &short("b", &args)).judged().json()["verdict"]["claim"].clone();
    assert_eq!((&claim["unit"], &claim["per"]), (&"boot".into(), &"boot".into()), "{claim}");
    assert!(claim["boots"].as_u64().unwrap() <= 1 && claim["more_boots"].as_u64().unwrap() >= 1, "{claim}");
}

/// Gives the run in `bundle` another boot, as if it had been measured before a reboot.
fn in_another_boot(bundle: &Path) {
    let path = bundle.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["machine"]["boot_id"] = "11111111-2222-3333-4444-555555555555".into();
    manifest["by_boot"]["interrupt eth0-rx"] = "cpu 63".into();
    fs::write(path, manifest.to_string()).unwrap();
}

#[test]
fn boots_finds_the_runs_beside_it() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let all = evidence::taint::CODES.join(",");
    let easy = [&EASY[..], &["--accept", &all]].concat();
    let other = [&["--period", "100ms", "--limit", "99ms", "--claim", "0.7", "--accept", &all][..]].concat();
    isolator(folder.path(), &short("run", &easy)).judged();
    in_another_boot(&folder.path().join("run"));
    // Of another request, it is no boot of this one.
    isolator(folder.path(), &short("unlike", &other)).judged();
    in_another_boot(&folder.path().join("unlike"));
    let args = [&easy[..], &["--boots", "3", "--json=b.json"]].concat();
    let ran = isolator(folder.path(), &short("run-2", &args)).judged();
    let document: Value = serde_json::from_slice(&fs::read(folder.path().join("b.json")).unwrap()).unwrap();
    if skipped(document["verdict"]["outcome"] == "exceeded", "a thread was 199 ms late") {
        return;
    }
    let claim = &document["verdict"]["claim"];
    assert_eq!((&claim["boots"], &claim["more_boots"]), (&2.into(), &1.into()), "{document:#}");
    assert!(
        ran.stdout.ends_with("next: reboot; then: isolator prove --like run-2 --boots 3 -o run-3\n"),
        "{ran:#?}"
    );
    let notes = document["notes"].to_string();
    let differs = "boots differ: interrupt eth0-rx cpu 63 before but not stated after";
    assert!(notes.contains(differs), "{notes}");
    // The same of bundles that are there.
    let joined = isolator(folder.path(), &["report", "run", "--join", "run-2", "--json=r.json"]).judged();
    assert!(joined.stdout.contains("from 2 boots"), "{joined:#?}");
    isolator(folder.path(), &["report", "run", "run-2", "--boots", "3"]).ended(1);
}

#[test]
fn what_cannot_run_here_is_said_and_nothing_is_proven() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let mut command = command(folder.path(), &short("b", &["--loads", "cpu,idle", "--json", "-"]));
    let ran: Ran = command.env("PATH", "").output().unwrap().into();
    let document = ran.ended(2).json();
    let not_run = &document["not_run"][0];
    assert_eq!((&not_run["probe"], &not_run["load"]), (&"wakeup".into(), &"cpu".into()), "{document:#}");
    let reason = "package stress-ng missing; apt-get install stress-ng";
    assert!(not_run["reason"].as_str().unwrap().contains(reason), "{document:#}");
    assert_eq!(
        document["rows"].as_array().map(Vec::len),
        Some(1),
        "the other row was measured: {document:#}"
    );
}

#[test]
fn the_verdict_needs_a_missing_load_only_by_name() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    for (bundle, loads, needed) in [("all", "all", false), ("named", "all,cpu", true)] {
        let mut command = command(folder.path(), &short(bundle, &["--loads", loads, "--json", "-"]));
        let ran: Ran = command.env("PATH", "").output().unwrap().into();
        let document = ran.json();
        let not_run = document["not_run"].as_array().unwrap();
        let cpu = not_run.iter().find(|row| row["load"] == "cpu").unwrap();
        assert_eq!(cpu["optional"].as_bool().unwrap_or(false), !needed, "{document:#}");
        let reasons = document["verdict"]["reasons"].as_array().unwrap().iter().filter_map(|r| r.as_str());
        let reasons: Vec<_> = reasons.filter(|reason| reason.contains("was not run")).collect();
        assert_eq!(reasons.iter().any(|reason| reason.contains("under cpu")), needed, "{reasons:?}");
        assert_eq!(reasons.len(), usize::from(needed), "{reasons:?}");
    }
}

#[test]
fn where_nothing_at_all_could_be_measured_the_line_says_why() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let mut command = command(folder.path(), &short("b", &["--loads", "cpu", "--quiet"]));
    let ran: Ran = command.env("PATH", "").output().unwrap().into();
    ran.refused(
        "cannot measure wakeup under cpu: package stress-ng missing; apt-get install stress-ng, or leave this load out of --loads",
    );
}
