// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads whose waits are no plain loop: two sleeps in a cycle, bursts, two timers, a period that changes.
//! Each is described as what it is, or refused with the next step.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::looping::{Looping, PERIOD_NS, me};
use crate::common::stranger::{Stranger, accounts_for, built, cannot_follow, unseen};
use crate::common::{Going, command, conforms, folder, isolator};

/// The program that has such cycles.
fn start(folder: &Path, what: &str) -> Stranger {
    Stranger::start(built("cycles", folder), &[what])
}

/// The result of `monitor` with these words.
fn monitored(folder: &Path, program: &Stranger, words: &str) -> Value {
    let process = program.process();
    let args = ["monitor", &process, "--thread", "cycles", "--limit", "100%", "--json", "-"];
    let args: Vec<&str> = args.into_iter().chain(words.split_whitespace()).collect();
    let document = isolator(folder, &args).judged().json();
    conforms(&document, "prove");
    document
}

/// The same of a program to which SIGUSR1 is sent after a second, and then every other one.
fn signalled(what: &str, signals: usize, words: &str) -> Value {
    let folder = folder();
    let program = start(folder.path(), what);
    let process = program.process();
    let args = ["monitor", &process, "--limit", "100%", "-o", "run", "--json", "-"];
    let args: Vec<&str> = args.into_iter().chain(words.split_whitespace()).collect();
    let going = Going::run(folder.path(), &mut command(folder.path(), &args));
    going.wait_for_seconds(1);
    for n in 0..signals {
        std::thread::sleep(Duration::from_secs(if n == 0 { 0 } else { 2 }));
        program.signal(Signal::USR1);
    }
    let document = going.end().judged().json();
    conforms(&document, "prove");
    document
}

/// Period, cycles and missed periods of each row `loop`.
fn loops(document: &Value) -> Vec<[u64; 3]> {
    let rows = document["rows"].as_array().unwrap().iter().filter(|row| row["probe"] == "loop");
    rows.map(|row| ["period_ns", "count", "missed"].map(|field| row[field].as_u64().unwrap())).collect()
}

fn taint(document: &Value, code: &str) -> Option<String> {
    let taints = document["taints"].as_array().unwrap();
    let taint = taints.iter().find(|taint| taint["code"] == code)?;
    Some(taint["reason"].as_str().unwrap().to_string())
}

/// Whether these loops took the time of the run between them: a changed period was taken for none that was
/// missed. The machine itself may make the loop miss some.
fn took_ms(document: &Value, loops: &[[u64; 3]], ms: u64) -> bool {
    const ABOUT_MS: u64 = 80;
    let took_ns = loops.iter().map(|[period_ns, count, missed]| period_ns * (count + missed)).sum::<u64>();
    let longest_ns = loops.iter().map(|[period_ns, ..]| *period_ns).max().unwrap();
    let took_ms = took_ns / 1_000_000;
    took_ms < ms + ABOUT_MS && took_ms + unseen(document) * longest_ns / 1_000_000 + ABOUT_MS > ms
}

/// The period of a row, within a tenth.
fn is_about(row: [u64; 3], ms: u64) -> bool {
    row[0].abs_diff(ms * 1_000_000) * 10 <= ms * 1_000_000
}

#[test]
fn two_sleeps_are_one_cycle() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = start(folder.path(), "two-sleeps");
    for words in ["--duration 2s", "--duration 2s --period 2ms"] {
        let document = monitored(folder.path(), &program, words);
        let [found] = loops(&document)[..] else { panic!("{document:#}") };
        assert!(is_about(found, 2) && accounts_for(&document, &document["rows"][0], 1_000), "{document:#}");
        let waits_with = "clock_nanosleep (absolute, CLOCK_MONOTONIC), the longest of 2 in a cycle";
        assert_eq!(document["rows"][0]["waits_with"], waits_with);
    }
}

#[test]
fn bursts_are_refused_with_the_next_step() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = start(folder.path(), "bursts");
    let process = program.process();
    let line = isolator(folder.path(), &["monitor", &process, "--thread", "cycles"]).line();
    assert!(line.contains("cycles waits with read (descriptor "), "{line}");
    assert!(line.contains(" at no regular time: ") && line.contains("name the begin of its cycle"), "{line}");
    let document = monitored(folder.path(), &program, "--duration 2s --period 10ms");
    let note = "each wait counts as a cycle of the given period";
    assert!(document["notes"].to_string().contains(note), "{document:#}");
    assert_eq!(loops(&document)[0][2], 0, "{document:#}");
}

#[test]
fn two_timers_are_not_one_loop() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = start(folder.path(), "two-timers");
    let document = monitored(folder.path(), &program, "--duration 2s");
    let [found] = loops(&document)[..] else { panic!("{document:#}") };
    assert!(is_about(found, 2) && accounts_for(&document, &document["rows"][0], 1_000), "{document:#}");
    let note = "cycles waits in one place for other timers too, every 20,700 us: their work is in no cycles";
    assert!(document["notes"].to_string().contains(note), "{document:#}");
}

#[test]
fn each_period_of_a_loop_has_rows() {
    skip_if!(cannot_follow());
    let document = signalled("changes", 2, "--duration 5s");
    let [fast, slow] = loops(&document)[..] else { panic!("{document:#}") };
    assert!(is_about(fast, 2) && is_about(slow, 4), "{document:#}");
    assert!(fast[1] > 800 && slow[1] > 200 && took_ms(&document, &[fast, slow], 5_000), "{document:#}");
    let taint = taint(&document, "period-changed").unwrap();
    assert!(
        taint.contains("cycles was due every 2,000 us, from ") && taint.contains(" on every 4,000 us, from ")
    );
    assert_ne!(document["verdict"]["outcome"], "held");
}

#[test]
fn a_given_period_is_missed() {
    skip_if!(cannot_follow());
    let document = signalled("changes", 1, "--duration 4s --period 2ms");
    let [found] = loops(&document)[..] else { panic!("{document:#}") };
    assert!(found[2] > 300, "{document:#}");
    assert_eq!(document["verdict"]["outcome"], "exceeded");
}

#[test]
fn a_loop_that_works_for_longer_is_late() {
    skip_if!(cannot_follow());
    for words in ["--duration 5s", "--duration 5s --period 10ms"] {
        let document = signalled("slows", 1, words);
        let [found] = loops(&document)[..] else { panic!("{document:#}") };
        assert!(found[1] > 200 && found[2] > 50, "{document:#}");
        assert_eq!(taint(&document, "period-changed"), None);
        assert_eq!(document["verdict"]["outcome"], "exceeded");
    }
}

#[test]
fn a_stamped_loop_has_rows_for_each_period() {
    let folder = folder();
    let _looping = Looping::changes_after("changing", 800);
    std::thread::sleep(Duration::from_millis(200));
    let args = ["monitor", &me("changing"), "--duration", "4s", "--limit", "100%", "--json"];
    let document = isolator(folder.path(), &args).judged().json();
    let [fast, slow] = loops(&document)[..] else { panic!("{document:#}") };
    assert_eq!([fast[0], slow[0]], [PERIOD_NS, 2 * PERIOD_NS]);
    assert!(slow[1] > 300 && fast[2] + slow[2] < 20, "{document:#}");
    assert!(
        taint(&document, "period-changed").unwrap().starts_with("the loop was due every 2,000 us, from ")
    );
}
