// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator-bench ISOLATOR PAGE [PART...]`: the figures of `docs/results/performance.md`, all or those of
//! some parts, each part in one run. `isolator-bench side-by-side BEFORE AFTER`: what the hot loops of two
//! builds of the program cost.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use proof::bench::{calls, day, fleet, ground_truth, messages, peers, scope, tables};
use proof::page;

/// The heap of the program that is measured.
#[global_allocator]
static HEAP: rt::heap::KeepingHeap = rt::heap::KeepingHeap::new();

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DAY_S: u64 = 86_400;

/// Seconds of each ground-truth run, and how many.
const TRUTH_S: u64 = 15;
const TRUTH_RUNS: u64 = 2;

fn main() -> Result<()> {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        // Recording in a process of its own makes its memory the recorder's alone.
        ["record-a-day", folder] => record_a_day(Path::new(folder)),
        ["calls"] => calls::in_rust(),
        ["side-by-side", before, after] => {
            let scratch = tempfile::tempdir()?;
            print!("{}", peers::side_by_side(Path::new(before), Path::new(after), scratch.path())?);
            Ok(())
        }
        [isolator, page, parts @ ..] => bench(Path::new(isolator), Path::new(page), parts),
        _ => Err("usage: isolator-bench PROGRAM PAGE [PART...], or side-by-side BEFORE AFTER".into()),
    }
}

/// A part of `docs/results/performance.md`: its name, and what measures it and makes its tables, each with
/// the name of its place.
type PagePart = (&'static str, fn(&Path, &Path) -> Result<Vec<(&'static str, String)>>);

const PARTS: &[PagePart] = &[
    ("program", |isolator, scratch| Ok(vec![("program", program(isolator, scratch)?)])),
    ("messages", |_, scratch| Ok(tables::messages(&messages::run(scratch)?))),
    ("calls", |isolator, scratch| {
        let (in_c, in_rust) = calls::run(isolator, scratch)?;
        Ok(vec![("calls", tables::calls(in_c, in_rust))])
    }),
    ("fleet", |isolator, scratch| Ok(vec![("fleet", tables::fleet(&fleet::run(isolator, scratch)?))])),
];

/// Measures the parts called so, all if none is named, and puts their tables into the page.
fn bench(isolator: &Path, page: &Path, names: &[&str]) -> Result<()> {
    page::must_have_parts(&PARTS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names)?;
    for (name, part) in PARTS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        eprintln!("bench: {name}");
        let scratch = tempfile::tempdir()?;
        for (place, table) in part(isolator, scratch.path())? {
            print!("{table}");
            page::put(page, &format!("bench PART={place}"), &table)?;
        }
    }
    Ok(())
}

/// The program itself: against its peers, over a long day, and against stalls of known length.
fn program(isolator: &Path, scratch: &Path) -> Result<String> {
    let say = |what: &str| eprintln!("bench: {what}");
    say("instructions of a wakeup sample (callgrind, twice two runs)");
    let ours = peers::isolator_instructions(isolator, scratch)?;
    let cyclictest = peers::cyclictest_instructions(scratch)?;
    say("busy loops, alternating");
    let (spin, oslat) = peers::spin(isolator, scratch, 5)?;
    let counter_ns = peers::counter_ns();
    say("a day of twelve CPUs");
    let day = a_day(&scratch.join("day"))?;
    say("stalls of known length");
    let mut truth = Vec::new();
    for probe in ["spin", "wakeup"] {
        for seed in 0..TRUTH_RUNS {
            truth.push((probe, ground_truth::run(probe, 1, TRUTH_S, seed)?));
        }
    }
    say("audits");
    let audit_s = peers::audit(isolator, 11)?;
    say("a guest with and without the scope, in turns");
    let scope = scope::slow_down();
    Ok(tables::program(&tables::PageFigures {
        ours,
        cyclictest,
        spin_ns: spin,
        counter_ns,
        oslat_ns: oslat,
        day,
        truth,
        audit_s,
        scope,
    }))
}

/// Records in a process of its own, reports in this one.
fn a_day(folder: &PathBuf) -> Result<day::Day> {
    let output = Command::new(std::env::current_exe()?).arg("record-a-day").arg(folder).output()?;
    if !output.status.success() {
        return Err(format!("recording a day: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let figures = String::from_utf8(output.stdout)?;
    let mut figures = figures.split_whitespace().map(str::parse::<f64>);
    let mut next = || figures.next().ok_or("a figure of the recorded day is missing");
    let (samples, ns_per_sample, resident) = (next()??, next()??, next()??);
    let bundle_bytes = day::size(folder)?;
    let (report_s, report_bytes) = day::report(folder)?;
    let (samples, resident_bytes) = (samples as u64, resident as u64);
    Ok(day::Day { samples, resident_bytes, bundle_bytes, report_bytes, report_s, ns_per_sample })
}

fn record_a_day(folder: &Path) -> Result<()> {
    rt::setup::lock_memory()?;
    let (samples, ns_per_sample) = day::record(folder, DAY_S)?;
    println!("{samples} {ns_per_sample} {}", day::peak_resident_bytes());
    Ok(())
}
