// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest as a witness: the kernel's own tracepoints of interrupts and system calls on the measured CPUs, in a
//! tracing instance of its own.

use std::fs;
use std::path::{Path, PathBuf};

use machine::CpuSet;

use crate::guest::Result;

const TRACING: &str = "/sys/kernel/tracing";

/// Events that begin an excursion; those that this kernel lacks are left out.
const EVENTS: &[&str] = &["irq_vectors/*_entry", "irq/irq_handler_entry", "raw_syscalls/sys_enter"];

/// Tracing under way.
pub struct Witness {
    folder: PathBuf,
    cpus: CpuSet,
}

impl Witness {
    pub fn start(cpus: &CpuSet) -> Result<Witness> {
        let folder = Path::new(TRACING).join("instances/isolator-lab");
        fs::create_dir_all(&folder)?;
        for event in EVENTS {
            let (group, name) = event.split_once('/').unwrap_or((event, "*"));
            let Ok(entries) = fs::read_dir(folder.join("events").join(group)) else { continue };
            for entry in entries.flatten() {
                let found = entry.file_name().to_string_lossy().into_owned();
                if found == name || name.strip_prefix('*').is_some_and(|end| found.ends_with(end)) {
                    fs::write(entry.path().join("enable"), "1")?;
                }
            }
        }
        Ok(Witness { folder, cpus: cpus.clone() })
    }

    /// What each CPU recorded, as tracefs prints it.
    pub fn stop(self) -> Result<Vec<(u32, String)>> {
        fs::write(self.folder.join("tracing_on"), "0")?;
        let read = |cpu| Ok((cpu, fs::read_to_string(self.folder.join(format!("per_cpu/cpu{cpu}/trace")))?));
        self.cpus.iter().map(read).collect()
    }
}
