// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that are killed at random moments: whatever is left of each is read without a panic and in little
//! memory, nothing of it holds, and of what was on disk nothing is missing. `KILLS=200` for more on a quiet
//! machine (`make proof-kills`), where moreover at most a second is missing of what was measured. With
//! `BUSY=1` every CPU has ordinary work meanwhile.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{self, *};
use rustix::process::Signal;
use serde_json::Value;

/// Samples of a second and of the quarter of one between two polls of the control thread, and some that fall
/// into the next.
const SECOND: u64 = 1000 + 250 + 50;

/// The most heap of a reader, in KiB.
const MEMORY_KIB: u32 = 256 << 10;

/// How many runs are killed; none where only the few of an ordinary test are wanted.
fn kills() -> Option<u64> {
    std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok())
}

/// Ordinary work on every CPU, where `BUSY` is set, until it is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn begin() -> Busy {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let many = if std::env::var_os("BUSY").is_some() { cpus } else { 0 };
        let work = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Busy((0..many).map(work).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Moments of a run of 5 s, the same ones each time (xorshift; Marsaglia, "Xorshift RNGs", 2003).
fn moments() -> impl Iterator<Item = Duration> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(Duration::from_millis(state % 5_000))
    })
}

/// Starts a run of 5 s that lists every sample as a spike, kills it, and says how many samples were on disk
/// before that: in finished seconds and in the list. `None` where the run ended before.
fn killed(folder: &Path, after: Duration) -> Option<(u64, u64)> {
    let policy = if may_be_real_time() { "fifo" } else { "other" };
    let args = ["measure", "wakeup", "-o", "run", "--duration", "5s", "--warm-up", "0", "--causes", "off"];
    let args = [&args[..], &["--policy", policy, "--threshold", "1ns", "--limit", "900us", "-q"]].concat();
    let going = Going::run(folder, &mut command(folder, &args));
    std::thread::sleep(after);
    let (seconds, listed) = (going.seconds_written() as u64, lines(&going.bundle.join("spikes.jsonl")));
    going.signal(Signal::KILL);
    going.end().status.is_none().then_some((seconds, listed))
}

fn lines(path: &Path) -> u64 {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The result of `report` on the bundle, with little memory.
fn reported(folder: &Path) -> (Ran, Value) {
    let script = format!("ulimit -d {MEMORY_KIB} && exec {PROGRAM} report run --json -");
    let output = Command::new("sh").args(["-c", &script]).current_dir(folder).stdin(Stdio::null()).output();
    let ran = Ran::from(output.unwrap());
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    let document = serde_json::from_str(&ran.stdout).unwrap_or_default();
    (ran, document)
}

#[test]
fn a_killed_run_never_holds_and_loses_a_second_at_most() {
    skip_if!(skipped_for_lack_of_cpus());
    let (mut read, mut ended, mut most) = (0, 0, 0);
    let times = kills().unwrap_or(4);
    let busy = Busy::begin();
    for (number, after) in moments().take(times as usize).enumerate() {
        let folder = folder();
        let Some((seconds, listed)) = killed(folder.path(), after) else {
            ended += 1;
            continue;
        };
        if !folder.path().join("run/manifest.json").exists() {
            assert_eq!((seconds, listed), (0, 0), "kill {number}");
            continue;
        }
        if common::read(&folder.path().join("run/manifest.json"))["state"] != "running" {
            // All was measured: killed while the report was made.
            ended += 1;
            continue;
        }
        let (ran, document) = reported(folder.path());
        let row = &document["rows"][0];
        let said = format!("kill {number} after {after:?}: {row:#} {}", ran.stderr);
        if seconds == 0 && row.is_null() {
            // Killed before anything was measured.
            assert!(matches!(ran.status, Some(1 | 2)), "{said}");
            continue;
        }
        assert_eq!(ran.status, Some(2), "{said}");
        assert_ne!(document["verdict"]["outcome"], "held", "{said}");
        let missing = document["missing"].to_string();
        assert!(missing.contains("did not end in order") && !missing.contains("histograms.csv:"), "{said}");
        let count = row["count"].as_u64().unwrap();
        let cycles = count + row["missed"].as_u64().unwrap();
        // On a busy machine the ring may overflow, and the control thread poll late.
        let is_quiet = kills().is_some() && busy.0.is_empty();
        assert!(
            !is_quiet || cycles + 20 * (seconds + 1) >= 1000 * seconds,
            "{seconds} s were on disk: {said}"
        );
        // Each sample is listed, and counted once its second is over.
        let listed = listed.max(lines(&folder.path().join("run/spikes.jsonl")));
        let lost = listed.saturating_sub(count);
        assert!(!is_quiet || lost <= SECOND, "{listed} samples were listed: {said}");
        (read, most) = (read + 1, most.max(lost));
    }
    println!(
        "{read} bundles of {times} kills read, {ended} runs had ended; at most {most} samples were lost"
    );
}
