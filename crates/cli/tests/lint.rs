// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lint`: what it prints and writes of a program with faults, of a clean one, and of one that
//! cannot be watched. Which faults it finds is tested in the crate `lint`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::stranger::{Stranger, all_bpf_programs, bpf_programs, cannot_follow, changes, has_in_map};
use crate::common::{Ran, command, conforms, folder, isolator, isolator_as_nobody, read, wait_for};

/// A program of the corpus, built in a folder.
fn built(folder: &Path, name: &str, is_seeded: bool) -> PathBuf {
    let sources =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../lint/tests/programs").canonicalize().unwrap();
    compiled(folder, &sources.join(name), &[if is_seeded { "-DSEEDED" } else { "-DTWIN" }])
}

fn compiled(folder: &Path, source: &Path, more: &[&str]) -> PathBuf {
    let program = folder.join("servo");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-pthread", "-o"]).args([&program, source]).args(more);
    let ran = compiler.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    program
}

#[test]
fn findings_go_into_json_junit_and_sarif() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = built(folder.path(), "malloc.c", true);
    let running = Stranger::start(&program, &[]);
    let process = running.process();
    let args = ["lint", &process, "--duration", "500ms", "--json", "--junit", "l.xml", "--sarif", "l.sarif"];
    let ran = isolator(folder.path(), &args).ended(2);
    let document = ran.json();
    conforms(&document, "lint");
    assert_eq!((&document["program"], &document["process"]), (&json!("servo"), &json!(running.0.id())));
    assert_eq!(document["threads"][0]["period_ns"], 2_000_000);
    let findings = document["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 2, "{document:#}");
    for finding in findings {
        assert_eq!((&finding["rule"], &finding["severity"]), (&json!("allocation"), &json!("error")));
        assert_eq!(finding["thread"]["name"], "servo");
        let place = finding["where"].as_str().unwrap();
        assert!(place.contains("malloc.c:"), "{place}");
        assert!(finding["count"].as_u64().unwrap() > 10, "{finding:#}");
        assert!(finding["advice"].as_str().unwrap().starts_with("allocate before"), "{finding:#}");
    }
    assert!(ran.stderr.contains("errors: 2, notes: 0"), "{}", ran.stderr);
    let junit = fs::read_to_string(folder.path().join("l.xml")).unwrap();
    assert!(junit.contains("failures=\"2\" errors=\"0\" skipped=\"0\""), "{junit}");
    assert!(junit.contains("<testcase classname=\"lint\" name=\"page-fault\"/>"), "{junit}");
    of_sarif(&read(&folder.path().join("l.sarif")));
}

fn of_sarif(log: &Value) {
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{log:#}");
    for result in results {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!((&rule["id"], &result["ruleId"]), (&json!("allocation"), &json!("allocation")));
        assert_eq!(result["level"], "error");
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("/malloc.c"), "{place:#}");
        assert!(place["region"]["startLine"].as_u64().unwrap() > 1, "{place:#}");
    }
}

#[test]
fn a_clean_program_that_is_started_here_breaks_no_rule() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = built(folder.path(), "malloc.c", false);
    let args = ["lint", "--duration", "500ms", "--junit", "l.xml", "--command", program.to_str().unwrap()];
    let ran = isolator(folder.path(), &args).ended(0);
    assert!(ran.stdout.contains("servo (process ") && ran.stdout.contains("no rule is broken"), "{ran:#?}");
    let junit = fs::read_to_string(folder.path().join("l.xml")).unwrap();
    assert!(junit.contains("failures=\"0\" errors=\"0\" skipped=\"0\""), "{junit}");
}

#[test]
fn a_program_without_a_real_time_thread_is_refused() {
    skip_if!(cannot_follow());
    let folder = folder();
    let running = Stranger::start(Path::new("sleep"), &["60"]);
    let process = running.process();
    isolator(folder.path(), &["lint", &process, "--junit", "l.xml"]).refused(&format!(
        "cannot lint the process {process}: its only thread has no real-time policy; start it with isolator run --priority 80, or name a --thread"
    ));
    let junit = fs::read_to_string(folder.path().join("l.xml")).unwrap();
    assert!(junit.contains("errors=\"1\"") && junit.contains("no real-time policy"), "{junit}");
    let line = isolator(folder.path(), &["lint", &process, "--thread", "servo"]).line();
    assert!(line.ends_with("it has no thread servo; choose one of sleep"), "{line}");
}

#[test]
fn a_program_that_ends_too_early_is_refused() {
    skip_if!(cannot_follow());
    let folder = folder();
    let args = ["lint", "--duration", "20s", "--command", "chrt", "-f", "50", "sleep", "1.5"];
    let line = isolator(folder.path(), &args).line();
    assert!(line.contains("cannot lint the process") && line.contains("the process ended before"), "{line}");
}

/// A program to which something happens at SIGUSR1, and lint at work on it.
struct Linted {
    program: Stranger,
    servo: u32,
    lint: Child,
    _folder: TempDir,
}

impl Linted {
    fn start(what: &str) -> Linted {
        let folder = folder();
        let program = Stranger::start(changes(folder.path()), &[what]);
        let servo = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", program.0.id())).unwrap().flatten();
            let is_servo = |task: &fs::DirEntry| {
                fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| {
                    // Its policy, SCHED_FIFO.
                    stat.contains("(servo)") && stat.split(' ').nth(40) == Some("1")
                })
            };
            tasks.into_iter().find(is_servo)?.file_name().to_str()?.parse().ok()
        };
        wait_for("the loop", || servo().is_some());
        let (servo, process) = (servo().unwrap(), program.process());
        let mut lint = command(folder.path(), &["lint", "--duration", "5m", "--json", "-", &process]);
        let lint = lint.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Linted { program, servo, lint, _folder: folder }
    }

    /// How it ended; nothing is left of it.
    fn end(self) -> Ran {
        let programs = bpf_programs(self.lint.id());
        let ran = self.lint.wait_with_output().unwrap().into();
        wait_for("the end of the kernel part", || programs.is_disjoint(&all_bpf_programs()));
        ran
    }
}

#[test]
fn a_change_while_lint_watches_is_one_line() {
    skip_if!(cannot_follow());
    for (what, expected) in [
        ("becomes", "events after execve() of sleep: it is another program; only events before it count"),
        ("ends", "later events of the program: it ended during the watch"),
        ("thread", "later events of servo (thread N): it ended during the watch"),
        ("policy", "when servo (thread N) changed from SCHED_FIFO 40 to SCHED_OTHER: all its events count"),
    ] {
        let linted = Linted::start(what);
        let (lint, servo) = (linted.lint.id(), linted.servo);
        wait_for("the watch", || has_in_map::<[u32; 4]>(lint, "threads", servo));
        linted.program.signal(Signal::USR1);
        // The first two end it by themselves.
        let task = format!("/proc/{}/task/{servo}/stat", linted.program.0.id());
        match what {
            "thread" => wait_for("the thread's end", || !Path::new(&task).exists()),
            "policy" => {
                wait_for("the policy", || fs::read_to_string(&task).unwrap().split(' ').nth(40) == Some("0"))
            }
            _ => {}
        }
        if ["thread", "policy"].contains(&what) {
            kill_process(Pid::from_child(&linted.lint), Signal::INT).unwrap();
        }
        let ran = linted.end().ended(2);
        let document = ran.json();
        conforms(&document, "lint");
        assert_eq!(document["program"], "changes", "{document:#}");
        let findings = document["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["rule"] == "no-mlockall"), "{document:#}");
        let of_another = |finding: &&Value| finding.to_string().contains("sleep (thread");
        assert_eq!(findings.iter().find(of_another), None);
        let lines = document["not_seen"].as_array().unwrap().iter().filter_map(Value::as_str);
        let changes = lines.filter(|line| {
            ["events after ", "later events ", "when "].iter().any(|begin| line.starts_with(begin))
        });
        assert_eq!(changes.collect::<Vec<_>>(), [expected.replace('N', &servo.to_string())], "{what}");
    }
}

#[test]
fn a_program_that_executes_another_one_too_early_is_refused() {
    skip_if!(cannot_follow());
    let linted = Linted::start("becomes");
    let (lint, process) = (linted.lint.id(), linted.program.0.id());
    wait_for("the kernel part", || has_in_map::<u32>(lint, "processes", process));
    linted.program.signal(Signal::USR1);
    linted.end().refused(&format!(
        "cannot lint the process {process}: the process executed sleep before its cycles were watched; choose a program that runs for some seconds"
    ));
}

#[test]
fn processes_that_a_program_makes_are_not_judged() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = Stranger::start(changes(folder.path()), &["forks"]);
    let ran = isolator(folder.path(), &["lint", "--duration", "1s", "--json", "-", &program.process()]);
    let document = ran.ended(2).json();
    let threads = document["threads"].as_array().unwrap();
    assert_eq!((threads.len(), &threads[0]["name"]), (1, &json!("servo")), "{document:#}");
    let findings = document["findings"].as_array().unwrap();
    let forks: Vec<&Value> = findings.iter().filter(|finding| finding["rule"] == "fork").collect();
    let [fork] = forks[..] else { panic!("{document:#}") };
    assert_eq!(fork["thread"]["name"], "servo");
    assert!(fork["count"].as_u64().unwrap() > 1, "{document:#}");
}

#[test]
fn a_process_that_is_not_there_or_anothers_is_refused() {
    let folder = folder();
    isolator(folder.path(), &["lint"]).ended(1);
    let ran = isolator(folder.path(), &["lint", "1", "--json", "-", "--sarif", "-"]);
    ran.refused("only one of --json -, --junit - and --sarif - can be given; write the others to files");
    skip_if!(cannot_follow());
    isolator(folder.path(), &["lint", "4194305"]).refused(
        "cannot follow the process 4194305: there is no such process; give the number of one that runs",
    );
    let line = isolator_as_nobody(folder.path(), &["lint", "1", "--thread", "1"]).line();
    assert!(line.contains("CAP_BPF"), "{line}");
}
