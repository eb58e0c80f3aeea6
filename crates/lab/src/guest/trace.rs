// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest as a witness: what our own collector names of the measured CPUs, from before the window until
//! after it. A ring forgets, so it is read over and over, by a thread on housekeeping CPUs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cause::{Collect, Depth, Started};
use machine::CpuSet;

use evidence::kind::RowKind;

use crate::guest::Result;

/// How often the rings are read; it takes time from the storms, which share the housekeeping CPUs.
const READ_EVERY: Duration = Duration::from_millis(250);

/// A collector under way.
pub struct GuestTrace {
    stop: Arc<AtomicBool>,
    records: JoinHandle<cause::Result<Vec<(u32, String)>>>,
}

impl GuestTrace {
    /// Starts the collector of that name.
    pub fn start(cpus: &CpuSet, collector: &str) -> Result<GuestTrace> {
        let asked = cause::WatchSpec { cpus: cpus.clone(), depth: Depth::Busy };
        let collector = match cause::start(collector.parse()?, &asked, &inspect::read(Path::new("/")))? {
            Started::Events(collector) => collector,
            Started::Counters { because } => {
                return Err(format!("cannot be a witness: {}", because.join("; ")).into());
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (told, cpus) = (Arc::clone(&stop), cpus.clone());
        let records = std::thread::spawn(move || record(collector, &cpus, &told));
        Ok(GuestTrace { stop, records })
    }

    /// The names that it recorded of each CPU, a line each in the order of time.
    pub fn stop(self) -> Result<Vec<(u32, String)>> {
        self.stop.store(true, Ordering::SeqCst);
        Ok(self.records.join().map_err(|_| "the witness panicked")??)
    }
}

fn record(
    mut collector: Box<dyn Collect>,
    cpus: &CpuSet,
    stop: &AtomicBool,
) -> cause::Result<Vec<(u32, String)>> {
    let mut records = cpus.iter().map(|cpu| (cpu, String::new())).collect::<BTreeMap<_, _>>();
    let mut armed = false;
    loop {
        let over = stop.load(Ordering::SeqCst);
        if !armed {
            let own = measuring();
            armed = !own.is_empty();
            for (cpu, threads) in &own {
                collector.own(*cpu, threads)?;
            }
        }
        for (cpu, text) in &mut records {
            for event in collector.take(*cpu)?.0.iter().filter(|event| event.cpu == *cpu) {
                if let Some(name) = event.kind.excursion() {
                    let _ = writeln!(text, "{} {name}", event.monotonic_ns);
                }
            }
        }
        if over {
            return Ok(records.into_iter().collect());
        }
        std::thread::sleep(READ_EVERY);
    }
}

/// The measuring threads by CPU; their names are those of probe and CPU.
fn measuring() -> BTreeMap<u32, Vec<u32>> {
    let names =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = BTreeMap::<u32, Vec<u32>>::new();
    for process in names(Path::new("/proc")) {
        for thread in names(&process.join("task")) {
            let comm = fs::read_to_string(thread.join("comm")).unwrap_or_default();
            let named = comm.trim().rsplit_once('-');
            let named = named.filter(|(probe, _)| RowKind::of(probe).has_own_threads());
            let cpu = named.and_then(|(_, cpu)| cpu.parse().ok());
            let number = thread.file_name().and_then(|name| name.to_str()?.parse().ok());
            if let Some((cpu, number)) = cpu.zip(number) {
                found.entry(cpu).or_default().push(number);
            }
        }
    }
    found
}
