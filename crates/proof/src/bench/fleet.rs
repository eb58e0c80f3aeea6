// SPDX-License-Identifier: MIT OR Apache-2.0
//! A made-up fleet of 10,000 machines x 12 CPUs x 8 loads: stored, and asked for its report, by the program
//! itself.
//!
//! Times are of a whole process; its memory is the largest resident set of it and of DuckDB, which it runs,
//! each by itself.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use fleet::synthetic::{FleetSize, write};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MACHINES: u64 = 10_000;

const SIZE: FleetSize = FleetSize { cpus: 12, loads: 8, seconds: 20 };

/// The cost of a fleet.
#[derive(Debug, Clone)]
pub struct FleetCost {
    /// Machines.
    pub machines: u64,
    /// Rows of each.
    pub rows: u64,
    /// Size of all bundles.
    pub bundle_bytes: u64,
    /// Size of the store.
    pub store_bytes: u64,
    /// Time and memory of `fleet store`.
    pub store: Taken,
    /// Time and memory of `fleet report` with JSON and HTML.
    pub report: Taken,
    /// CPUs of this machine.
    pub cpus: usize,
}

/// The cost of one command.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// From its start to its end.
    pub seconds: f64,
    /// Largest resident set of any process in it.
    pub resident_bytes: u64,
}

/// Makes the fleet below `scratch`, stores it and has its report made.
pub fn run(isolator: &Path, scratch: &Path) -> Result<FleetCost> {
    let bundles = scratch.join("bundles");
    std::fs::create_dir_all(&bundles)?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    eprintln!("bench: making {MACHINES} bundles");
    std::thread::scope(|scope| {
        let one = |first: usize| {
            let bundles = &bundles;
            scope.spawn(move || {
                (first as u64..MACHINES).step_by(cpus).try_for_each(|number| {
                    write(&bundles.join(format!("host-{number:05}.tar.zst")), number, 0, 1.0, SIZE)
                })
            })
        };
        let all = (0..cpus).map(one).collect::<Vec<_>>();
        all.into_iter().try_for_each(|one| one.join().unwrap_or(Ok(())))
    })?;
    let store = scratch.join("store");
    eprintln!("bench: storing them");
    let stored = taken(isolator, &["fleet", "store", "--quiet", "-o"], &[&store, &bundles], scratch)?;
    eprintln!("bench: asking for the report");
    let (json, html) = (scratch.join("fleet.json"), scratch.join("fleet.html"));
    let args = [format!("--json={}", json.display()), format!("--output={}", html.display())];
    let args = ["fleet", "report", "--quiet", &args[0], &args[1]];
    let report = taken(isolator, &args, &[&store], scratch)?;
    Ok(FleetCost {
        machines: MACHINES,
        rows: u64::from(SIZE.cpus * SIZE.loads),
        bundle_bytes: size(&bundles)?,
        store_bytes: size(&store)?,
        store: stored,
        report,
        cpus,
    })
}

/// Runs the program under GNU time, which knows what a process and its children took.
fn taken(isolator: &Path, args: &[&str], paths: &[&Path], scratch: &Path) -> Result<Taken> {
    let figures = scratch.join("time");
    let mut command = Command::new("/usr/bin/time");
    command
        .arg("-f")
        .arg("%M")
        .arg("-o")
        .arg(&figures)
        .arg(std::path::absolute(isolator)?)
        .args(args)
        .args(paths);
    let began = Instant::now();
    let status =
        command.status().map_err(|e| format!("cannot run /usr/bin/time: {e}; install the package time"))?;
    let seconds = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("isolator {}: {:?} {:?}", args.join(" "), status.code(), status.signal()).into());
    }
    let text = std::fs::read_to_string(&figures)?;
    let kib: u64 = text.lines().last().unwrap_or_default().trim().parse()?;
    Ok(Taken { seconds, resident_bytes: kib * 1024 })
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
