// SPDX-License-Identifier: MIT OR Apache-2.0
//! What integrations/ ships for other programs: their own checkers accept it, its scripts run, and it names
//! metrics that the program exposes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;
use serde_json::Value;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(shipped(name)).unwrap()
}

/// Names of metrics in a text, without what a histogram's series end with.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let series = words.filter(|word| word.starts_with("isolator_"));
    let family = |word: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_string()
    };
    series.map(family).collect()
}

#[test]
fn alerts_and_dashboard_name_metrics_that_the_program_exposes() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/src/prometheus");
    let read = |name: &str| fs::read_to_string(source.join(name)).unwrap();
    let exposed = metrics(&(read("monitor.rs") + &read("watch.rs")));
    assert!(exposed.len() >= 10, "{exposed:?}");
    for name in ["prometheus/alerts.yml", "prometheus/alerts.test.yml", "grafana/isolator.json"] {
        let used = metrics(&text(name));
        assert!(used.len() >= 4, "{name}: {used:?}");
        let unknown: Vec<_> = used.difference(&exposed).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?} of {exposed:?}");
    }
}

/// Prometheus' own checker.
fn promtool() -> Option<PathBuf> {
    let found = of_prometheus("promtool");
    skipped(found.is_none(), "it needs promtool: apt-get install prometheus");
    found
}

#[test]
fn promtool_accepts_the_alerts_and_they_fire_as_they_should() {
    let Some(promtool) = promtool() else { return };
    for args in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let ran = Command::new(&promtool).args(args).current_dir(shipped("prometheus")).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{args:?}: {said}");
    }
}

#[test]
fn each_query_of_the_dashboard_is_one_that_prometheus_parses() {
    let Some(promtool) = promtool() else { return };
    let dashboard: Value = serde_json::from_str(&text("grafana/isolator.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() >= panels.len());
    // As recording rules: every version of promtool checks those. Grafana's variables have values there.
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_string();
    for (number, query) in queries.iter().enumerate() {
        let query = query.replace("$__rate_interval", "1m").replace("$__range", "1h");
        let query = query.replace("$instance", ".*").replace("$loop", ".*").replace("$probe", ".*");
        assert!(!query.contains('$'), "{query}");
        rules += &format!(
            "  - {{record: \"panel:{number}\", expr: {}}}\n",
            serde_json::to_string(&query).unwrap()
        );
    }
    let folder = folder();
    fs::write(folder.path().join("rules.yml"), &rules).unwrap();
    let ran =
        Command::new(promtool).args(["check", "rules", "rules.yml"]).current_dir(folder.path()).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{rules}\n{}", String::from_utf8_lossy(&ran.stderr));
}

/// The text of the first block after a line that ends with `|`, without its indentation.
fn block<'a>(text: &'a str, after: &str) -> String {
    let mut lines = text.lines().skip_while(|line| line.trim() != after).skip(1).peekable();
    let indent = lines.peek().map_or(0, |line: &&'a str| line.len() - line.trim_start().len());
    assert!(indent > 0, "{after} is not in {text}");
    let belongs = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() >= indent;
    lines.take_while(belongs).map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect()
}

/// Runs a job's script with variables as a runner sets them.
fn job(folder: &Path, shell: &str, script: &str, baseline: &str) -> Ran {
    let arguments = &short("-", &["--loads", "idle", "--limit", "1ns"])[3..];
    let mut command = Command::new(shell);
    command.args(["-e", "-c", script]).current_dir(folder);
    command.env("ISOLATOR", PROGRAM).env("MODE", "latency").env("OUTPUT", "out").env("BASELINE", baseline);
    command.env("ARGUMENTS", arguments.join(" ")).env("GITHUB_STEP_SUMMARY", folder.join("summary.md"));
    command.output().unwrap().into()
}

#[test]
fn the_jobs_of_github_and_gitlab_measure_and_end_with_the_verdicts_status() {
    if skipped_for_lack_of_cpus() {
        return;
    }
    let scripts = [
        ("bash", block(&text("github/action.yml"), "run: |")),
        ("sh", block(&text("gitlab/isolator.yml"), "- |")),
    ];
    for (shell, script) in scripts {
        let folder = folder();
        // No latency is below a nanosecond.
        let ran = job(folder.path(), shell, &script, "").ended(2);
        let results = fs::read_to_string(folder.path().join("out/results.ktap")).unwrap();
        assert!(results.starts_with("KTAP version 1\n1..") && results.contains("not ok "), "{ran:#?}");
        if shell == "bash" {
            let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
            assert!(summary.contains("==> DOES NOT HOLD"), "{summary}");
        }
        // A bundle that is not there: the gate could not judge.
        fs::rename(folder.path().join("out"), folder.path().join("first")).unwrap();
        let ran = job(folder.path(), shell, &script, "missing");
        assert_eq!(ran.status, Some(1), "{ran:#?}");
        assert!((ran.stdout.clone() + &ran.stderr).contains("missing"), "{ran:#?}");
    }
}
