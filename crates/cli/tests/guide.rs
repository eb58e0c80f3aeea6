// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator` alone: led through a proof on a terminal, help without one.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::*;
use serde_json::Value;

/// Options that make a run short.
const SHORT: &str = "--loads idle --duration 1s --warm-up 100ms";

/// The program's output on a terminal where these lines are typed.
fn typed(folder: &Path, lines: &[&str]) -> Ran {
    let script = format!("stty cols 80 rows 24; exec '{PROGRAM}'");
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &script, "/dev/null"]).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("TERM", "dumb");
    let mut child = command.spawn().unwrap();
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

fn state(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("isolator-guide/guide.json")).unwrap()).unwrap()
}

fn skipped_here() -> bool {
    skipped_for_lack_of_cpus()
        || skipped_for_lack_of_root()
        || skipped(!installed("script"), "it needs script")
}

#[test]
fn without_a_terminal_it_prints_help() {
    let folder = folder();
    let ran = isolator(folder.path(), &[]).ended(0);
    assert_eq!(ran.stdout, isolator(folder.path(), &["-h"]).ended(0).stdout);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn leads_from_the_questions_to_a_proof_and_goes_on_later() {
    skip_if!(skipped_here());
    let folder = folder();
    // A wrong answer to each question, then the audit, the plan, and the end.
    let ran =
        typed(folder.path(), &["radio:1kHz", "control:500Hz", "perhaps", "n", "--only kernel", "", "q"]);
    let screen = ran.ended(0).stdout;
    for part in [
        "What is the machine for?",
        "Not understood: unknown use 'radio'",
        "Write y or n.",
        "Step 1 of 6",
        "isolator doctor --use control:500Hz",
        "isolator tune plan --use control:500Hz --no-reboot --json isolator-guide/plan.json",
        "Step 3 of 6",
        "To go on, type isolator in this folder again.",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    assert!(screen.lines().all(|line| line.trim_end().chars().count() <= 200), "{screen}");
    assert_eq!(state(folder.path())["done"], serde_json::json!(["doctor", "plan"]), "{screen}");

    // It asks nothing again, measures, and changes nothing where that is left out.
    let screen = typed(folder.path(), &["nonsense", SHORT, "s"]).ended(0).stdout;
    assert!(
        screen.contains("Goes on for control:500Hz") && !screen.contains("What is the machine"),
        "{screen}"
    );
    assert!(screen.contains("Not understood: write nothing, s, q, or options of isolator prove"), "{screen}");
    assert!(screen.contains("==> ") && screen.contains("Nothing was changed."), "{screen}");
    assert_eq!(state(folder.path())["before"], "before");
    let manifest = fs::read(folder.path().join("isolator-guide/before/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["asked"]["use"], "control:500Hz");

    // As if the plan had been applied, and its boot line needed a boot.
    let plan = folder.path().join("isolator-guide/plan.json");
    let boots: Value = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    let mut guide = state(folder.path());
    guide["applied_in"] = "another boot".into();
    fs::write(folder.path().join("isolator-guide/guide.json"), guide.to_string()).unwrap();
    let screen = typed(folder.path(), &["", ""]).ended(0).stdout;
    assert!(screen.contains("Step 5 of 6") && screen.contains("Step 6 of 6"), "{screen}");
    assert!(screen.contains("isolator compare isolator-guide/before isolator-guide/after"), "{screen}");
    assert!(
        screen.contains("next: isolator tune confirm keeps the changes; isolator tune rollback undoes"),
        "{screen}"
    );
    assert!(boots["boot_line"].as_str().is_none_or(str::is_empty), "--no-reboot plans no boot line");
}

#[test]
fn a_broken_state_is_one_line_and_nothing_runs() {
    skip_if!(skipped_here());
    let folder = folder();
    fs::create_dir(folder.path().join("isolator-guide")).unwrap();
    fs::write(folder.path().join("isolator-guide/guide.json"), "{\"purpose\": 1}").unwrap();
    let ran = typed(folder.path(), &[""]).ended(1);
    let line = ran.stdout.lines().find(|line| line.starts_with("isolator: ")).unwrap_or_default().trim_end();
    assert!(line.starts_with("isolator: cannot read isolator-guide/guide.json: "), "{ran:#?}");
    assert!(line.ends_with("; remove isolator-guide to begin anew"), "{ran:#?}");
    assert!(!ran.stdout.contains("Step "), "{ran:#?}");
}
