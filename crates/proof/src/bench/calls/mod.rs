// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of libisolator's shortest calls: `isolator_session_pending()`, and a cycle of the monitor. A
//! program in C calls the shared library (`program.c`), this program has the same in line (`rt`); both with a
//! stand-in for the kernel's device (`device.c`), since the machine that measures need not have the isolator.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rt::isolation::{self, Mask};
use rt::monitor::{Monitor, Reader, choose};

use crate::middle::median;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The CPU that calls, and the one that reads.
const CPUS: [u32; 2] = [1, 0];

/// As in `program.c`.
const BATCHES: u64 = 401;
const CALLS: u64 = 20_000;
const CYCLES: u64 = 1_000;

/// Nanoseconds of a call: medians of batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calls {
    /// A look whether work waits.
    pub pending_ns: f64,
    /// A cycle's begin and end.
    pub monitor_ns: f64,
}

/// In C, by the shared library that lies beside the program; and in Rust.
pub fn run(isolator: &Path, scratch: &Path) -> Result<(Calls, Calls)> {
    const HERE: &str = "crates/proof/src/bench/calls";
    let library = isolator.with_file_name("libisolator.so");
    let (device, program) = (scratch.join("device.so"), scratch.join("calls"));
    let source = |name: &str| format!("{HERE}/{name}");
    let mut shared = compiler(&device);
    compile(shared.args(["-shared", "-fPIC", "-I", "kernel/include/uapi", &source("device.c")]))?;
    let mut linked = compiler(&program);
    compile(
        linked
            .args(["-I", "crates/libisolator/include", &source("program.c")])
            .arg(&library)
            .arg("-lpthread"),
    )?;
    // The library's own name, under which the program looks for it.
    std::os::unix::fs::symlink(library.canonicalize()?, scratch.join("libisolator.so.1"))?;
    let mut in_c = Command::new(&program);
    in_c.args(CPUS.map(|cpu| cpu.to_string())).env("LD_LIBRARY_PATH", scratch);
    let mut in_rust = Command::new(std::env::current_exe()?);
    in_rust.arg("calls");
    Ok((figures(&mut in_c, &device)?, figures(&mut in_rust, &device)?))
}

fn compiler(output: &Path) -> Command {
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(output);
    compiler
}

fn compile(command: &mut Command) -> Result<()> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed").into()),
    }
}

fn figures(command: &mut Command, device: &Path) -> Result<Calls> {
    let output = command.env("LD_PRELOAD", device).output()?;
    let (said, wrong) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    let missing = || format!("{command:?} gave no figures: {}", wrong.trim());
    read(&said).filter(|_| output.status.success()).ok_or_else(|| missing().into())
}

fn read(said: &str) -> Option<Calls> {
    let figure = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Calls { pending_ns: figure("pending ")?, monitor_ns: figure("monitor ")? })
}

/// Measures in this process, and prints what `program.c` prints.
pub fn in_rust() -> Result<()> {
    rt::thread::set_affinity(&CPUS[..1])?;
    println!("pending {:.3}", pending()?);
    println!("monitor {:.3}", monitor()?);
    Ok(())
}

fn pending() -> Result<f64> {
    let session = isolation::start(Mask::DEFAULT)?;
    let page = session.page();
    let looks = || (0..CALLS).filter(|_| black_box(page).waits()).count();
    let mut took_ns = Vec::new();
    for _ in 0..BATCHES {
        let began = Instant::now();
        if looks() > 0 {
            return Err("work waits, and there is no kernel that could have any".into());
        }
        took_ns.push(began.elapsed().as_nanos() as f64 / CALLS as f64);
    }
    Ok(median(took_ns))
}

fn monitor() -> Result<f64> {
    let mut monitor = Monitor::create("bench", Duration::from_millis(1))?;
    let mut reader = Reader::open(&choose(std::process::id(), Some("bench"))?)?;
    reader.start()?;
    let (ended, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let reading = scope.spawn(|| -> rt::Result<u64> {
            rt::thread::set_affinity(&CPUS[1..])?;
            while seen.load(Ordering::Acquire) < BATCHES * CYCLES {
                if seen.load(Ordering::Acquire) < ended.load(Ordering::Acquire) {
                    reader.poll(|cycle| seen.store(cycle.number, Ordering::Release))?;
                } else {
                    thread::yield_now();
                }
            }
            Ok(reader.lost())
        });
        let mut took_ns = Vec::new();
        for batch in 1..=BATCHES {
            let began = Instant::now();
            for _ in 0..CYCLES {
                monitor.begin(0);
                monitor.end();
            }
            took_ns.push(began.elapsed().as_nanos() as f64 / CYCLES as f64);
            ended.store(batch * CYCLES, Ordering::Release);
            while seen.load(Ordering::Acquire) < batch * CYCLES && !reading.is_finished() {
                thread::yield_now();
            }
        }
        match reading.join().map_err(|_| "the reader ended early")?? {
            0 => Ok(median(took_ns)),
            lost => Err(format!("the reader lost {lost} cycles of a loop that waits for it").into()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_their_names_and_none_may_lack() {
        let calls = Calls { pending_ns: 1.5, monitor_ns: 20.25 };
        assert_eq!(read("pending 1.500\nmonitor 20.250\n"), Some(calls));
        assert_eq!(read("pending 1.500\n"), None);
    }
}
