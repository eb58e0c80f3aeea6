// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of integrations/ for other programs: their own checkers accept them, the scripts run, and they
//! name metrics that the program exposes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::looping::{Looping, me};
use crate::common::*;
use crate::why::{pictured, with_spikes};
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

#[test]
fn the_dashboard_has_nothing_that_grafanas_types_lack() {
    let types = shipped("../.tools/python");
    if skipped(
        !types.join("grafana_foundation_sdk").exists(),
        "it needs Grafana's types: tools/bootstrap test",
    ) {
        return;
    }
    let folder = folder();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grafana.py");
    let lost = |dashboard: &Path| {
        let mut python = Command::new("python3");
        python.args(["-B".as_ref(), script.as_os_str(), dashboard.as_os_str()]).env("PYTHONPATH", &types);
        Ran::from(python.output().unwrap()).ended(0).json()
    };
    assert_eq!(lost(&shipped("grafana/isolator.json")), serde_json::json!([]));
    let wrong = text("grafana/isolator.json").replacen("\"legend\"", "\"legends\"", 1);
    fs::write(folder.path().join("wrong.json"), wrong).unwrap();
    let found = lost(&folder.path().join("wrong.json"));
    assert!(found[0].as_str().is_some_and(|path| path.ends_with("/options/legends")), "{found}");
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
    job_of(folder, shell, script, baseline, Path::new(PROGRAM))
}

/// The same with another program.
fn job_of(folder: &Path, shell: &str, script: &str, baseline: &str, program: &Path) -> Ran {
    let arguments = &short("-", &["--loads", "idle", "--limit", "1ns"])[3..];
    let mut command = Command::new(shell);
    command.args(["-e", "-c", script]).current_dir(folder);
    command.env("ISOLATOR", program).env("MODE", "latency").env("OUTPUT", "out").env("BASELINE", baseline);
    command.env("ARGUMENTS", arguments.join(" ")).env("GITHUB_STEP_SUMMARY", folder.join("summary.md"));
    command.output().unwrap().into()
}

#[test]
fn the_jobs_of_github_and_gitlab_measure_and_end_with_the_verdicts_status() {
    skip_if!(skipped_for_lack_of_cpus());
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
        // A bundle that is not there: the gate could not judge, and the limit does not hold.
        fs::rename(folder.path().join("out"), folder.path().join("first")).unwrap();
        let ran = job(folder.path(), shell, &script, "missing");
        assert_eq!(ran.status, Some(2), "{ran:#?}");
        assert!((ran.stdout.clone() + &ran.stderr).contains("missing"), "{ran:#?}");
        // A gate that passes, since the baseline was as late, leaves the verdict; one that fails fails.
        for (gate, status) in [(0, 2), (1, 2), (2, 2)] {
            fs::remove_dir_all(folder.path().join("out")).unwrap();
            let stub = format!("case $1 in gate) exit {gate};; *) exec {PROGRAM} \"$@\";; esac");
            tool(folder.path(), "stub", &stub);
            job_of(folder.path(), shell, &script, "first", &folder.path().join("tools/stub")).ended(status);
        }
    }
}

#[test]
fn perfetto_reads_each_span_of_a_trace_without_an_error() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    // Both begin within a nanosecond.
    with_spikes(folder.path(), "b", Some("bpf"), &[pictured(), pictured()]);
    isolator(folder.path(), &["export", "b", "--as", "trace", "-o", "trace.json"]).ended(0);
    let trace = read(&folder.path().join("trace.json"));
    let spans = "select ts, dur, slice.name, process.name, depth from slice join thread_track on track_id = thread_track.id \
                 join thread using (utid) join process using (upid) order by ts, dur, slice.name";
    let errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
    let Some(found) = perfetto::answers(&folder.path().join("trace.json"), &[spans, errors]) else { return };
    assert_eq!(found[1], serde_json::json!([]), "{found:#}");
    let events = trace["traceEvents"].as_array().unwrap();
    let row = &events.iter().find(|event| event["name"] == "process_name").unwrap()["args"]["name"];
    let ns = |value: &Value| (value.as_f64().unwrap() * 1e3).round() as u64;
    let written = events.iter().filter(|event| event["ph"] == "X");
    let mut written: Vec<_> =
        written.map(|event| (ns(&event["ts"]), ns(&event["dur"]), event["name"].as_str().unwrap())).collect();
    written.sort();
    assert_eq!(written.len(), 8, "{trace:#}");
    // None is part of another.
    let written: Vec<Value> =
        written.iter().map(|(ts, dur, name)| serde_json::json!([ts, dur, name, row, 0])).collect();
    assert_eq!(found[0], Value::from(written));
}

/// Python with the ROS 2 package, of which nothing is written into the sources.
fn of_ros(folder: &Path, args: &[&str]) -> Command {
    let mut python = Command::new("python3");
    python.arg("-B").args(args).current_dir(folder).env("PYTHONPATH", shipped("ros2/isolator_ros"));
    python.env("ISOLATOR", PROGRAM);
    python
}

#[test]
fn the_ros_package_passes_its_own_tests() {
    skip_if!(skipped(!installed("python3"), "it needs python3"));
    // Those that need ROS 2 skip here; make proof-ros2 runs them.
    let tests = shipped("ros2/isolator_ros/test");
    let ran = of_ros(&tests, &["-m", "unittest", "discover", "--verbose"]).output().unwrap();
    let ran = Ran::from(ran).ended(0);
    assert!(ran.stderr.contains("test_a_level_is_of_what_is_new") && ran.stderr.contains("\nOK"), "{ran:#?}");
}

#[test]
fn the_ros_package_has_the_programs_version() {
    let package = text("ros2/isolator_ros/package.xml");
    let version = env!("CARGO_PKG_VERSION");
    assert!(package.contains(&format!("<version>{version}</version>")), "{package}");
    assert!(text("ros2/isolator_ros/setup.py").contains(&format!("version='{version}'")));
}

#[test]
fn a_monitors_figures_become_diagnostics_of_ros() {
    skip_if!(skipped(!installed("python3"), "it needs python3"));
    let folder = folder();
    let _looping = Looping::start("ros", u64::MAX);
    let args = ["monitor", &me("ros"), "--loops", "400", "--prometheus", "loop.prom", "--json"];
    let document = isolator(folder.path(), &args).judged().json();
    let script = "import json, sys
from isolator_ros import diagnostics, status
judge = status.Judge()
print(json.dumps([diagnostics.statuses(sys.argv[1], judge) for _ in range(2)]))";
    let figures = folder.path().join("loop.prom");
    let ran = of_ros(folder.path(), &["-c", script, figures.to_str().unwrap()]).output().unwrap();
    let statuses = Ran::from(ran).ended(0).json();
    let rows = document["rows"].as_array().unwrap();
    let first = statuses[0].as_array().unwrap();
    assert_eq!(first.len(), rows.len(), "{statuses:#}");
    for row in rows {
        let name =
            format!("isolator: {} of ros under idle on cpu {}", row["probe"].as_str().unwrap(), row["cpu"]);
        let status =
            first.iter().find(|status| status[0] == name).unwrap_or_else(|| panic!("{name}: {statuses:#}"));
        let late = row["over_limit"].as_u64().unwrap();
        let missed = if row["probe"] == "loop" { row["missed"].as_u64().unwrap() } else { 0 };
        assert_eq!(status[1] == 2, late + missed > 0, "an error where cycles were late: {status:#} {row:#}");
        let value = |key: &str| {
            let values = status[3].as_array().unwrap().iter();
            values.clone().find(|value| value[0] == key).map(|value| value[1].clone()).unwrap()
        };
        assert_eq!(value("samples"), row["count"].to_string());
        assert_eq!(value("late cycles"), late.to_string());
        assert_eq!(value("missed periods"), missed.to_string());
    }
    // Nothing is new the second time.
    assert!(statuses[1].as_array().unwrap().iter().all(|status| status[1] != 2), "{statuses:#}");
}
