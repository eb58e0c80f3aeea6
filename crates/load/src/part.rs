// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control thread's order to the supervisor: the parts of a load, and how each becomes a process.
#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use machine::CpuSet;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use untrusted::Scratch;

use crate::figures::FigureSource;
use crate::{WORKER_VERB, cgroup, sys, why};

/// This program, whatever became of its file since.
pub const SELF: &str = "/proc/self/exe";

/// A load, as the supervisor gets it: one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// Where everything runs.
    pub house_keeping: CpuSet,
    /// The number of the descriptor under which the load's own folder is lent to the supervisor.
    pub folder: u32,
    /// The load's own cgroup, where one may be possible.
    pub cgroup: Option<PathBuf>,
    /// The programs, in the order of starting; ended in reverse.
    pub parts: Vec<LoadProgram>,
    /// Whether the housekeeping CPUs must hardly be idle under it.
    pub saturates: bool,
    /// Whether it is for GPUs, so that their utilisation is reported.
    pub loads_gpu: bool,
    /// Said of what it did: `direct I/O`, …
    pub remark: Option<String>,
}

/// One program of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadProgram {
    /// Its usual name.
    pub name: String,
    /// The program's path and arguments.
    pub command: Vec<String>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
    /// Whether it runs in the load's folder, to which its command's file names are relative; else it runs
    /// where the user is.
    pub is_in_folder: bool,
    /// Where its figures come from.
    pub source: FigureSource,
}

impl LoadProgram {
    /// The command that starts this part, by way of [`become_program`]; its death signal refers to the
    /// caller.
    pub fn command(&self, folder: &Scratch, cgroup: Option<&Path>) -> Command {
        let mut command = Command::new(SELF);
        command.arg0("isolator").args([WORKER_VERB, "exec", &std::process::id().to_string()]);
        command.arg(cgroup.unwrap_or(Path::new("-"))).args(&self.command).process_group(0);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.is_in_folder {
            command.current_dir(folder.path());
        }
        command
    }
}

/// `load-worker exec PARENT CGROUP|- PROGRAM ARGUMENTS…`: becomes that program, to be terminated when the
/// parent dies and to be the first that the kernel kills when memory runs out.
///
/// A process of its own between fork and exec keeps the supervisor free of code that must be
/// async-signal-safe.
pub fn become_program(args: &[String]) -> Result<(), String> {
    let [parent, group, program, arguments @ ..] = args else { return Err("no program given".to_string()) };
    let parent = parent.parse().ok().and_then(Pid::from_raw);
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| format!("no death signal: {}", why(e)))?;
    if getppid() != parent {
        return Ok(());
    }
    if group != "-" {
        cgroup::enter(Path::new(group));
    }
    // Where this is refused the load is merely no better a victim than others.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    // Blocked in the supervisor; a death signal that came already acts now.
    sys::unblock().map_err(|e| format!("cannot unblock signals: {}", why(e)))?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("cannot execute {program}: {}", why(error)))
}
