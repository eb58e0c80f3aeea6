// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator monitor`: the loop of another program, from outside. The program is this test, whose loop is a
//! thread.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::looping::{Looping, PERIOD_NS, me};
use crate::common::stranger::{Stranger, cannot_follow};
use crate::common::{Ran, command, conforms, folder, installed, isolator, read, skipped};
use serde_json::Value;

fn rows(document: &Value) -> Vec<(String, u64)> {
    let rows = document["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["probe"].as_str().unwrap().to_string(), row["count"].as_u64().unwrap())).collect()
}

#[test]
fn a_loop_becomes_evidence_and_what_was_lost_is_said() {
    let folder = folder();
    let _looping = Looping::start("evident", u64::MAX);
    let ran =
        isolator(folder.path(), &["monitor", &me("evident"), "--loops", "400", "--json", "-o", "bundle"])
            .judged();
    let document = ran.json();
    let counts = ["loop", "execution", "mark-1"].map(|probe| (probe.to_string(), 400));
    assert_eq!(rows(&document), counts);
    let taints = document["taints"].as_array().unwrap();
    let lost = taints.iter().find(|taint| taint["code"] == "samples-lost").unwrap();
    assert!(lost["reason"].as_str().unwrap().contains("cycles were lost: they never ended"), "{lost}");
    let manifest = read(&folder.path().join("bundle/manifest.json"));
    assert_eq!(manifest["asked"]["probes"], serde_json::json!(["loop"]));
    assert_eq!(manifest["rows"][0]["granted"]["policy"], "other");
    // The loop's row is judged by the limit, the others by the period.
    let limits =
        manifest["rows"].as_array().unwrap().iter().map(|row| row["limit_ns"].clone()).collect::<Vec<_>>();
    assert_eq!(limits, [PERIOD_NS / 10, PERIOD_NS, PERIOD_NS]);
    isolator(folder.path(), &["report", "bundle", "--json"]).judged();
}

#[test]
fn a_loop_that_ends_ends_the_run_in_order() {
    let folder = folder();
    let _looping = Looping::start("brief", 8000);
    let document =
        isolator(folder.path(), &["monitor", &me("brief"), "--loads", "idle,cpu", "--json"]).judged().json();
    assert!(document["notes"].to_string().contains("closed its loop's monitor"), "{}", document["notes"]);
    let reason = "the loop had ended";
    let not_run = serde_json::json!({ "probe": "loop", "load": "cpu", "reason": reason, "optional": false });
    assert_eq!(document["not_run"], serde_json::json!([not_run]));
}

#[test]
fn a_loop_that_begins_only_now_is_waited_for_and_one_of_a_descriptor_is_not_verified() {
    let folder = folder();
    let mut monitor = command(folder.path(), &["monitor", &me("late"), "--loops", "10", "--json"]);
    let monitor = monitor.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let _looping = Looping::start("late", u64::MAX);
    let document = Ran::from(monitor.wait_with_output().unwrap()).judged().json();
    assert!(!document["notes"].to_string().contains("is not verified"), "{}", document["notes"]);
    let path = rt::monitor::choose(std::process::id(), Some("late")).unwrap();
    let ran = isolator(folder.path(), &["monitor", path.to_str().unwrap(), "--loops", "10", "--json"]);
    let document = ran.judged().json();
    assert!(document["notes"].to_string().contains("is not verified"), "{}", document["notes"]);
}

#[test]
fn a_loop_that_hangs_does_not_hold() {
    let folder = folder();
    let _looping = Looping::hang_after("hung", 300);
    let ran =
        isolator(folder.path(), &["monitor", &me("hung"), "--duration", "3s", "--limit", "100%", "--json"]);
    let document = ran.ended(2).json();
    assert_eq!(document["verdict"]["outcome"], "exceeded");
    // 1,500 periods, of which it may have run the first 300.
    let missed = document["rows"][0]["missed"].as_u64().unwrap();
    assert!((1190..=1500).contains(&missed), "{missed}");
}

#[test]
fn what_cannot_be_monitored_names_the_cure() {
    let folder = folder();
    let refused = |program: &str, line: &str| isolator(folder.path(), &["monitor", program]).refused(line);
    refused(
        "4294967295",
        "cannot look for loops of process 4294967295: no such file or directory; give a process that runs, and be its user or root",
    );
    refused(
        "/dev/null",
        "cannot read the loop at /dev/null: it is no memory of a program (memfd); give a process with a loop, or the path of its \
         descriptor, and be its user or root",
    );
    let _looping = Looping::start("other", u64::MAX);
    let own = std::process::id().to_string();
    isolator(folder.path(), &["monitor", &own, "--begin", "main"]).refused(&format!(
        "cannot cut cycles of {own} at main: it stamps its own cycles with libisolator; leave out --begin; isolator reads its stamps"
    ));
    let line = isolator(folder.path(), &["monitor", &me("none")]).line();
    assert!(line.contains("it has no loop 'none'; name one of "), "{line}");
    isolator(folder.path(), &["prove", "--probe", "loop"])
        .refused("cannot measure a loop: no program was named that has one; use isolator monitor");
}

/// cyclictest, as a foreign program with one real-time thread of 2 ms.
const CYCLICTEST: [&str; 8] = ["-q", "-t", "1", "-i", "2000", "-p", "80", "-D"];

fn cannot_follow_cyclictest() -> bool {
    cannot_follow() || skipped(!installed("cyclictest"), "it needs cyclictest")
}

fn of_cyclictest(document: &serde_json::Value) {
    conforms(document, "prove");
    let rows = document["rows"].as_array().unwrap();
    let probes: Vec<&str> = rows.iter().map(|row| row["probe"].as_str().unwrap()).collect();
    assert_eq!(probes, ["loop", "execution", "response"], "{document:#}");
    for row in rows {
        assert_eq!(row["period_ns"], 2_000_000, "{row:#}");
        assert_eq!(row["period_from"], "inferred");
        assert_eq!(row["waits_with"], "clock_nanosleep (absolute, CLOCK_MONOTONIC)");
        assert_eq!(
            (&row["thread"]["name"], &row["thread"]["policy"]),
            (&"cyclictest".into(), &"fifo".into())
        );
        assert_eq!(row["thread"]["priority"], 80);
    }
    let count = |row: &serde_json::Value| row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap();
    // Two seconds of 2 ms; a busy machine may end the row a cycle late, and begins it within one.
    assert!((980..=1_001).contains(&count(&rows[0])), "{document:#}");
    assert_eq!(rows[0]["count"], rows[1]["count"]);
    assert_eq!(rows[0]["count"], rows[2]["count"]);
}

#[test]
fn a_program_that_knows_nothing_is_followed() {
    skip_if!(cannot_follow_cyclictest());
    let folder = folder();
    let stranger = Stranger::start("cyclictest", &[&CYCLICTEST[..], &["60"]].concat());
    let args =
        ["monitor", &stranger.process(), "--duration", "2s", "--limit", "1ms", "-o", "b", "--json", "-"];
    let ran = isolator(folder.path(), &args).judged();
    of_cyclictest(&ran.json());
    assert!(ran.stderr.contains("cyclictest (thread "), "{ran:#?}");
    let page = fs::read_to_string(folder.path().join("b/report.html")).unwrap();
    assert!(page.contains("cyclictest"), "the page names no thread");
    // The bundle is read as any other.
    let again = isolator(folder.path(), &["report", "b", "--json", "-"]).judged();
    of_cyclictest(&again.json());
    let unknown = isolator(folder.path(), &["monitor", &stranger.process(), "--thread", "servo"]).line();
    let process = stranger.process();
    assert_eq!(
        unknown,
        format!("cannot follow the process {process}: it has no thread servo; choose one of cyclictest")
    );
}

#[test]
fn a_program_that_is_started_here_ends_with_the_run() {
    skip_if!(cannot_follow_cyclictest());
    let folder = folder();
    let args = [
        "monitor",
        "--duration",
        "2s",
        "--limit",
        "1ms",
        "-o",
        "b",
        "--json",
        "-",
        "--command",
        "cyclictest",
    ];
    let ran = isolator(folder.path(), &[&args[..], &CYCLICTEST[..], &["3600"]].concat()).judged();
    let document = read(&folder.path().join("b/verdict.json"));
    assert!(document.is_object(), "{ran:#?}");
    let manifest = read(&folder.path().join("b/manifest.json"));
    let thread = manifest["rows"][0]["thread"]["tid"].as_u64().unwrap();
    assert!(!Path::new(&format!("/proc/{thread}")).exists(), "cyclictest still runs");
}

#[test]
fn a_program_without_a_loop_is_refused_in_one_line() {
    skip_if!(cannot_follow());
    let folder = folder();
    let stranger = Stranger::start("sleep", &["60"]);
    let line = isolator(folder.path(), &["monitor", &stranger.process()]).line();
    let process = stranger.process();
    assert_eq!(
        line,
        format!(
            "cannot follow the process {process}: none of its 1 threads waited for anything 8 times; give its --period, or name a --thread"
        )
    );
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "something was left");
}
