// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that is started here to be measured, and ends with this one, however that ends.
//!
//! The kernel sends a death signal (prctl(2) PR_SET_PDEATHSIG) to a process that asked for it itself, so this
//! program starts itself under a hidden verb, asks, and becomes the other one. A pipe says when that is done:
//! it closes with execve(2), and else carries the reason. The program has a process group of its own, so that
//! Ctrl-C ends the run in order instead of the program.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use error::Error;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process_group, set_parent_process_death_signal, waitid,
};

/// The hidden verb under which this program becomes the one that is measured.
pub const VERB: &str = "measured-program";

/// How long the program may take to end, and how often that is looked for.
const ENDS: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

const CURE: &str = "give its path, and its arguments after it";

/// A program that was started here, and ends with the run.
#[derive(Debug)]
pub struct MeasuredProgram(Child);

impl MeasuredProgram {
    /// Starts `command`, a program and its arguments; what it prints goes to `stdout`.
    pub fn start(command: &[String], stdout: Stdio) -> error::Result<MeasuredProgram> {
        let Some(program) = command.first() else {
            return Err(Error::new("start the program", "none is named", CURE));
        };
        let cannot = |why: String| Error::on("start the program", program, why, CURE);
        let failed = |error: std::io::Error| cannot(error::reason(&error));
        let (mut said, says) = std::io::pipe().map_err(failed)?;
        let own = std::env::current_exe().map_err(failed)?;
        let mut starts = Command::new(own);
        starts.arg(VERB).arg(std::process::id().to_string()).args(command).process_group(0);
        let child = starts.stdin(OwnedFd::from(says)).stdout(stdout).spawn().map_err(failed)?;
        // The command holds the pipe's other end.
        drop(starts);
        let started = MeasuredProgram(child);
        let mut why = String::new();
        said.read_to_string(&mut why).map_err(failed)?;
        if why.is_empty() { Ok(started) } else { Err(cannot(why)) }
    }

    /// Its number.
    pub fn process(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended. It is not waited for, so that its number stays its own.
    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.0)), look), Ok(None))
    }
}

impl Drop for MeasuredProgram {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.0);
        // In order, if it can.
        let _ = kill_process_group(group, Signal::TERM);
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < ENDS {
            std::thread::sleep(LOOK_AGAIN);
        }
        // What it started itself ends too.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Becomes the program that is measured. Arguments: the process that started this one, the program, its
/// arguments.
pub fn main(args: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let mut args = args;
    let parent = args.next().and_then(|id| Pid::from_raw(id.to_str()?.parse().ok()?));
    let Ok(says) = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3) else { return ExitCode::FAILURE };
    let is_bound = set_parent_process_death_signal(Some(Signal::TERM)).is_ok();
    // One that is gone already sends no signal any more.
    if let (true, true, Some(program)) = (is_bound, getppid() == parent, args.next()) {
        let error = Command::new(program).args(args).stdin(Stdio::null()).exec();
        let _ = std::fs::File::from(says).write_all(error::reason(&error).as_bytes());
    }
    ExitCode::FAILURE
}
