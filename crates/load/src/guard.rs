// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process above a supervisor. It has nothing to do but to wait: where the supervisor is killed, alone or
//! with the control thread, what that started comes to the guard as orphans, and is killed here. Its folder,
//! which the control thread lent to both, is removed here, too.
#![forbid(unsafe_code)]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use untrusted::Scratch;

use crate::part::SELF;
use crate::{WORKER_VERB, cgroup, process, supervisor, sys, why};

/// How long killed processes may take to go.
const KILL: Duration = Duration::from_secs(5);

/// `load-worker guard PARENT FOLDER CGROUP|-`
pub fn main(args: &[String]) -> Result<(), String> {
    let [parent, folder, group] = args else { return Err("no order given".to_string()) };
    supervisor::stand_apart()?;
    let folder = supervisor::borrowed(folder.parse().map_err(|_| "no folder given")?)?;
    let signals = sys::signals().map_err(|e| format!("no signal descriptor: {}", why(e)))?;
    let mut command = Command::new(SELF);
    command.arg0("isolator").args([WORKER_VERB, "supervise", parent]);
    let child = command.spawn().map_err(|e| format!("no supervisor: {}", why(e)))?;
    let supervisor = Pid::from_child(&child);
    loop {
        // Whatever woke it: a child's end, or a word to end, which is the supervisor's to heed.
        let mut info = [0; 128];
        let _ = rustix::event::poll(
            &mut [rustix::event::PollFd::new(&signals, rustix::event::PollFlags::IN)],
            None,
        );
        while let Ok(128) = rustix::io::read(&signals, &mut info) {
            if sys::signal_number(&info) != Signal::CHILD.as_raw() {
                let _ = kill_process(supervisor, Signal::TERM);
            }
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == supervisor {
                let ended = ExitStatus::from_raw(status.as_raw());
                if !ended.success() {
                    sweep(&folder, Some(group).filter(|group| *group != "-").map(Path::new));
                }
                return Ok(());
            }
        }
    }
}

/// Removes what a supervisor left that was killed.
fn sweep(folder: &Scratch, group: Option<&Path>) {
    let began = Instant::now();
    loop {
        if let Some(group) = group {
            cgroup::kill(group);
        }
        let family = process::descendants(std::process::id());
        family.iter().for_each(|member| member.signal(Signal::KILL));
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if family.is_empty() || began.elapsed() > KILL {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // Either may be gone already.
    let _ = folder.remove();
    if let Some(group) = group {
        cgroup::remove(group);
    }
}
