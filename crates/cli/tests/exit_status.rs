// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every verb ends with the status of what it shows, and its help and the reference state which.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::*;

/// The verbs that are run: those without verbs of their own, as the help has them.
pub fn verbs(before: &[&str]) -> Vec<String> {
    let help = isolator(Path::new("/"), &[before, &["--help"]].concat()).ended(0).stdout;
    let Some((_, commands)) = help.split_once("\nCommands:\n") else { return vec![before.join(" ")] };
    let lines = commands.lines().take_while(|line| line.starts_with("  "));
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").flat_map(|name| verbs(&[before, &[name]].concat())).collect()
}

#[test]
fn each_verb_states_its_statuses_in_help_and_reference() {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/exit-status.md");
    let reference = fs::read_to_string(reference).unwrap();
    let all = verbs(&[]);
    assert!(all.len() > 40 && all.contains(&"fleet report".to_string()), "{all:?}");
    for verb in &all {
        let words: Vec<&str> = verb.split(' ').collect();
        let help = isolator(Path::new("/"), &[&words[..], &["--help"]].concat()).ended(0).stdout;
        assert!(help.contains("Exit status: 0 "), "{verb}: {help}");
        let row = reference.lines().find(|line| line.starts_with(&format!("| `{verb}` |")));
        let cells = row.unwrap_or_else(|| panic!("{verb} is not in the reference")).split('|');
        let cells: Vec<&str> = cells.map(str::trim).collect();
        assert!(cells.len() == 6 && !cells[2].is_empty() && !cells[3].is_empty(), "{verb}: {row:?}");
        assert_eq!(help.contains("; 2 ") || help.contains("\n2 "), !cells[4].is_empty(), "{verb}: {row:?}");
    }
}

/// A summary of cyclictest's that has so many samples, and this maximum in microseconds.
fn summary(samples: u64, max_us: u64) -> String {
    format!("T: 0 ( 3407) P:99 I:1000 C: {samples} Min:      2 Act:    3 Avg:    3 Max:    {max_us}\n")
}

/// Bundles whose verdict is known: `held`, `exceeded`, `unproven`.
fn judged(folder: &Path) {
    for (name, samples, max_us) in [("held", 100_000, 20), ("exceeded", 100_000, 900), ("unproven", 50, 20)] {
        fs::write(folder.join(format!("{name}.txt")), summary(samples, max_us)).unwrap();
        let file = format!("{name}.txt");
        let status = if name == "held" { 0 } else { 2 };
        let known = ["--load", "idle", "--accept", "kernel-unknown,machine-unknown"];
        let args = ["import", &file, "--limit", "100us", "--unit", "us", "-o", name, "--quiet"];
        let args = [&args[..], &known].concat();
        isolator(folder, &args).ended(status);
        isolator(folder, &["import", &file, "--unit", "us", "-o", &format!("{name}-2"), "-q"]).ended(0);
    }
}

#[test]
fn a_verb_that_shows_a_verdict_ends_with_it() {
    let folder = folder();
    judged(folder.path());
    for (bundles, status) in [
        (&["held"][..], 0),
        (&["exceeded"], 2),
        (&["unproven"], 2),
        (&["held", "unproven"], 2),
        (&["held", "exceeded"], 2),
        (&["missing"], 1),
    ] {
        let args = [&["report"], bundles, &["-o", "r.html", "--quiet"]].concat();
        assert_eq!(isolator(folder.path(), &args).status, Some(status), "{args:?}");
    }
    // These show what there is, and judge nothing.
    for bundle in ["held", "exceeded", "unproven"] {
        isolator(folder.path(), &["why", bundle, "--quiet"]).ended(0);
        isolator(folder.path(), &["compare", "held", bundle, "--quiet"]).ended(0);
        isolator(folder.path(), &["export", bundle, "--as", "ktap", "-o", "k"]).ended(0);
    }
    // What has no seconds is not judged by a gate.
    isolator(folder.path(), &["gate", "--baseline", "held", "held", "--quiet"]).ended(1);
    isolator(folder.path(), &["gate", "--baseline", "held", "exceeded", "--quiet"]).ended(2);
}

#[test]
fn fleet_report_ends_with_2_where_machines_fail() {
    let folder = folder();
    skip_if!(skipped(!installed("duckdb"), "it needs duckdb: tools/bootstrap test"));
    judged(folder.path());
    for (bundles, status) in [(&["held"][..], 0), (&["held", "unproven"], 2), (&["exceeded"], 2)] {
        let _ = fs::remove_dir_all(folder.path().join("store"));
        for (number, bundle) in bundles.iter().enumerate() {
            named(&folder.path().join(bundle), number);
        }
        isolator(folder.path(), &[&["fleet", "store", "-o", "store"], bundles].concat()).ended(0);
        isolator(folder.path(), &["fleet", "report", "store", "--quiet"]).ended(status);
    }
    isolator(folder.path(), &["fleet", "report", "nothing"]).ended(1);
}

/// Gives a bundle the name of a machine: one without is not stored.
fn named(bundle: &Path, number: usize) {
    let path = bundle.join("manifest.json");
    let mut manifest = read(&path);
    manifest["machine"]["hostname"] = format!("robot-{number}").into();
    manifest["started_at"] = "2026-03-01T10:00:00Z".into();
    fs::write(&path, manifest.to_string()).unwrap();
}

/// Arguments for each verb that cannot be carried out, so that it ends with 1 and a line.
fn impossible() -> BTreeMap<&'static str, Vec<&'static str>> {
    let given = [
        ("prove", "--like missing"),
        ("measure", "nonsense"),
        ("monitor", "999999999"),
        ("lint", "999999999"),
        ("load", "nonsense"),
        ("report", "missing"),
        ("why", "missing"),
        ("record", "--duration nonsense"),
        ("watch", "--count 0"),
        ("compare", "missing missing"),
        ("gate", "--baseline missing missing"),
        ("fleet prove", "-i missing"),
        ("fleet plan", "-i missing"),
        ("fleet apply", "-i missing"),
        ("fleet verify", "-i missing"),
        ("fleet rollback", "-i missing"),
        ("fleet store", "-o store missing"),
        ("fleet report", "missing"),
        ("fleet query", "nonsense"),
        ("import", "missing"),
        ("export", "missing --as csv"),
        ("lab list", "nonsense"),
        ("lab show", "nonsense"),
        ("lab run", "nonsense"),
        ("lab matrix", "nonsense"),
        ("lab gate", "missing"),
        ("lab shell", "--boot nonsense{ --kernel missing"),
        ("lab program", "--kernel missing -- true"),
        ("ethercat simulate", "--interface nonsense"),
        ("kernel build", "--arch nonsense"),
        ("kernel export", "--series missing -o patches"),
        ("run", "-- /nonsense"),
        ("doctor", "--root missing"),
        ("task list", "--root missing"),
        ("task show", "999999999"),
        ("task set", "999999999"),
        ("tune plan", "--root missing"),
        ("tune verify", "missing"),
        ("tune apply", "missing"),
        ("tune confirm", "--root missing"),
        ("tune status", "--root missing"),
        ("tune rollback", "--root missing"),
        ("tune measure", "missing"),
        ("tune export", "missing --as tuned -o profile"),
        ("setup-user", "--root missing"),
    ];
    given.map(|(verb, words)| (verb, words.split(' ').collect())).into()
}

#[test]
fn each_verb_that_fails_says_one_line() {
    let (folder, impossible) = (folder(), impossible());
    for verb in verbs(&[]) {
        let given = impossible.get(verb.as_str()).unwrap_or_else(|| panic!("{verb} has no such case"));
        let args = [verb.split(' ').collect(), given.clone()].concat();
        let ran = isolator(folder.path(), &args);
        let last = ran.stderr.lines().last().unwrap_or_default().to_string();
        assert!(ran.status == Some(1) && last.starts_with("isolator: "), "{args:?}: {ran:#?}");
    }
}
