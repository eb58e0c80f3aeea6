// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same work by isolator and by its peers, in turn, in one run.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::middle::median;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// User-space instructions of one wakeup sample.
#[derive(Debug, Clone, Copy)]
pub struct Instructions {
    /// Of the measuring thread.
    pub thread: f64,
    /// Of the whole process: with what the control thread does for a sample.
    pub process: f64,
}

/// Instructions of `isolator measure wakeup` by callgrind: the difference of two lengths, so that start and
/// end fall out. Cycles that a busy machine missed are no samples, and no collector is part of the loop.
pub fn isolator_instructions(isolator: &Path, scratch: &Path) -> Result<Instructions> {
    let samples = |_, folder: &Path| {
        let verdict: Value = serde_json::from_str(&fs::read_to_string(folder.join("verdict.json"))?)?;
        Ok(verdict["rows"][0]["count"].as_u64().ok_or("isolator counted no samples")?)
    };
    per_sample(scratch, "isolator", samples, |loops, folder| {
        let mut command = callgrind(scratch);
        command.arg(isolator).args([
            "measure",
            "wakeup",
            "--period",
            "1ms",
            "--cpus",
            "1",
            "--warm-up",
            "0s",
            "--causes",
            "off",
            "--quiet",
        ]);
        command.args(["--loops", &loops.to_string()]).arg("-o").arg(folder);
        command
    })
}

/// Instructions of cyclictest with a histogram, likewise.
pub fn cyclictest_instructions(scratch: &Path) -> Result<Instructions> {
    per_sample(
        scratch,
        "cyclictest",
        |loops, _| Ok(loops),
        |loops, _| {
            let mut command = callgrind(scratch);
            command.args([
                "cyclictest",
                "-p",
                "80",
                "-i",
                "1000",
                "-m",
                "-a",
                "1",
                "-t",
                "1",
                "-q",
                "-h",
                "1000",
            ]);
            command.args(["-l", &loops.to_string()]);
            command
        },
    )
}

fn callgrind(scratch: &Path) -> Command {
    let mut command = Command::new("valgrind");
    let out = format!("--callgrind-out-file={}/callgrind.out", scratch.display());
    command.args(["--tool=callgrind", "--separate-threads=yes", &out]);
    command
}

/// Cycles of the two runs whose difference counts.
pub const SHORT: u64 = 4_000;
/// See [`SHORT`].
pub const LONG: u64 = 12_000;

/// `samples` says how many a run of so many cycles took.
fn per_sample(
    scratch: &Path,
    name: &str,
    samples: impl Fn(u64, &Path) -> Result<u64>,
    command: impl Fn(u64, &Path) -> Command,
) -> Result<Instructions> {
    let (mut counts, mut taken) = (Vec::new(), Vec::new());
    for loops in [SHORT, LONG] {
        let folder = scratch.join(format!("{name}-{loops}"));
        clear(scratch)?;
        let output = command(loops, &folder).stdin(Stdio::null()).output()?;
        // 2: the limit did not hold, which is no concern here.
        if !matches!(output.status.code(), Some(0 | 2)) {
            return Err(format!("{name} under callgrind: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        counts.push(totals(scratch)?);
        taken.push(samples(loops, &folder)? as f64);
    }
    let samples = taken[1] - taken[0];
    let all = |threads: &[u64]| threads.iter().sum::<u64>() as f64;
    // Thread 1 is the main one; the measuring thread is the one that it starts, in both programs.
    let measuring = |threads: &[u64]| threads.get(1).copied().ok_or("callgrind saw no measuring thread");
    let thread = measuring(&counts[1])? as f64 - measuring(&counts[0])? as f64;
    Ok(Instructions { thread: thread / samples, process: (all(&counts[1]) - all(&counts[0])) / samples })
}

fn clear(scratch: &Path) -> Result<()> {
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("callgrind.out")) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Instructions of each thread, by callgrind's numbering.
fn totals(scratch: &Path) -> Result<Vec<u64>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(thread) =
            name.strip_prefix("callgrind.out-").and_then(|number| number.parse::<usize>().ok())
        else {
            continue;
        };
        let text = fs::read_to_string(&path)?;
        let total =
            text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        let total = total.and_then(|total| total.trim().parse().ok()).ok_or("callgrind wrote no totals")?;
        threads.push((thread, total));
    }
    threads.sort_unstable();
    Ok(threads.into_iter().map(|(_, total)| total).collect())
}

/// Nanoseconds per iteration of both busy loops: medians of `runs` alternating runs, isolator first.
pub fn spin(isolator: &Path, scratch: &Path, runs: usize) -> Result<(f64, f64)> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..runs {
        ours.push(spin_ns(isolator, &scratch.join(format!("spin-{run}")))?);
        let json = scratch.join("oslat.json");
        let json_arg = format!("--json={}", json.display());
        Command::new("oslat")
            .args(["-q", "--cpu-list", "1", "--rtprio", "80", "-D", "3", &json_arg])
            .output()?;
        let document: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
        let thread = &document["thread"]["0"];
        let iterations: f64 = thread["histogram"]
            .as_object()
            .ok_or("oslat wrote no histogram")?
            .values()
            .filter_map(Value::as_f64)
            .sum();
        theirs.push(thread["duration"].as_f64().ok_or("oslat wrote no duration")? * 1e9 / iterations);
    }
    Ok((median(ours), median(theirs)))
}

/// Nanoseconds per iteration of the spin probe, in one run into `folder`.
fn spin_ns(isolator: &Path, folder: &Path) -> Result<f64> {
    let args = [
        "measure",
        "spin",
        "--cpus",
        "1",
        "--duration",
        "3s",
        "--warm-up",
        "0s",
        "--causes",
        "off",
        "--quiet",
    ];
    let output = Command::new(isolator).args(args).args(["--json", "-"]).arg("-o").arg(folder).output()?;
    let document: Value = serde_json::from_slice(&output.stdout)?;
    Ok(document["rows"][0]["mean_ns"].as_f64().ok_or("isolator reported no mean")?)
}

/// Two builds of isolator side by side: what a sample of each hot loop costs, as a table.
pub fn side_by_side(before: &Path, after: &Path, scratch: &Path) -> Result<String> {
    let mut wakeup = Vec::new();
    for (name, program) in [("before", before), ("after", after)] {
        let folder = scratch.join(name);
        fs::create_dir(&folder)?;
        wakeup.push(isolator_instructions(program, &folder)?);
    }
    let mut spin = [Vec::new(), Vec::new()];
    for run in 0..SIDE_BY_SIDE_RUNS {
        for (place, program) in [before, after].into_iter().enumerate() {
            spin[place].push(spin_ns(program, &scratch.join(format!("spin-{run}-{place}")))?);
        }
    }
    let [spin_before, spin_after] = spin.map(median);
    let line = |what: &str, before: f64, after: f64| {
        format!("| {what} | {before:.1} | {after:.1} | {:.3} |\n", after / before)
    };
    let head = "| | before | after | ratio |\n|---|---|---|---|\n".to_string();
    Ok(head
        + &line("wakeup: instructions of the measuring thread", wakeup[0].thread, wakeup[1].thread)
        + &line("wakeup: instructions of the process", wakeup[0].process, wakeup[1].process)
        + &line("spin: ns an iteration", spin_before, spin_after))
}

/// Runs of each build, by turns.
const SIDE_BY_SIDE_RUNS: usize = 5;

/// Nanoseconds of reading the processor's counter and nothing else: what no busy loop can be faster than.
pub fn counter_ns() -> f64 {
    const READS: u64 = 20_000_000;
    let read = || {
        let began = std::time::Instant::now();
        (0..READS).for_each(|_| {
            std::hint::black_box(rt::clock::counter());
        });
        began.elapsed().as_secs_f64() * 1e9 / READS as f64
    };
    median((0..5).map(|_| read()))
}

/// Seconds of a whole audit of this machine, the median of `runs`.
pub fn audit(isolator: &Path, runs: usize) -> Result<f64> {
    let mut seconds = Vec::with_capacity(runs);
    for _ in 0..runs {
        let began = std::time::Instant::now();
        let status = Command::new(isolator).args(["doctor", "--quiet"]).status()?;
        if !status.success() {
            return Err("isolator doctor failed".into());
        }
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(median(seconds))
}
