// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--every`: the same command again and again, each time in a process of its own.
//!
//! A process that has measured is not as it was: its memory is locked, and it stays on housekeeping CPUs. So
//! each run is this program, called as it was called but for `--every`. Each SIGINT, SIGTERM and SIGUSR1 is
//! passed on; the run has a process group of its own, so that it gets a terminal's Ctrl-C no second time.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::outcome::{Outcome, VerbResult};

const OPTION: &str = "--every";

/// A signal may have to wait for this long.
const SLICE: Duration = Duration::from_millis(100);

/// Runs this program without `--every`, from one beginning to the next `every`, until a signal or a run that
/// cannot measure; how the worst one ended.
pub fn and_again(every: Duration) -> VerbResult {
    let program =
        std::env::current_exe().map_err(|error| format!("cannot find this program: {error}; mount /proc"))?;
    let args = once(std::env::args_os().skip(1));
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&signalled))?;
    }
    let snapshot = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&snapshot))?;
    let mut worst = Outcome::Done;
    loop {
        let began = Instant::now();
        let mut run = Command::new(&program).args(&args).process_group(0).spawn().map_err(|error| {
            format!(
                "cannot run {}: {}; see whether it is still there",
                program.display(),
                error::reason(&error)
            )
        })?;
        let (ended, stopped) = wait(&mut run, &signalled, &snapshot)?;
        let exit = match ended.code() {
            Some(status) => Outcome::of_status(status),
            None => {
                return Err(format!(
                    "cannot go on: the run was killed by signal {}",
                    ended.signal().unwrap_or(0)
                )
                .into());
            }
        };
        // One that could not measure said why itself.
        if stopped || exit == Outcome::CouldNot {
            return Ok(worst.max(exit));
        }
        worst = worst.max(exit);
        while began.elapsed() < every {
            if signalled.load(Ordering::SeqCst) {
                return Ok(worst);
            }
            std::thread::sleep(SLICE.min(every.saturating_sub(began.elapsed())));
        }
    }
}

/// Waits for the end of `run`, which gets each signal that comes meanwhile; whether one came.
fn wait(
    run: &mut Child,
    signalled: &AtomicBool,
    snapshot: &AtomicBool,
) -> std::io::Result<(ExitStatus, bool)> {
    let mut stopped = false;
    loop {
        if let Some(ended) = run.try_wait()? {
            return Ok((ended, stopped));
        }
        if snapshot.swap(false, Ordering::SeqCst) {
            let _ = kill_process(Pid::from_child(run), Signal::USR1);
        }
        if signalled.swap(false, Ordering::SeqCst) {
            stopped = true;
            // Not waited for yet, so that the number is still its own; that it just ended is no failure.
            let _ = kill_process(Pid::from_child(run), Signal::TERM);
        }
        std::thread::sleep(SLICE);
    }
}

/// The command line without the option.
fn once(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.peekable();
    let mut left = Vec::new();
    while let Some(arg) = args.next() {
        if arg == OPTION {
            args.next();
        } else if !arg.to_string_lossy().starts_with("--every=") {
            left.push(arg);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_as_the_program_was_but_for_the_interval() {
        for (given, left) in [
            ("prove --every 6h --limit 1ms", "prove --limit 1ms"),
            ("prove --limit 1ms --every=6h", "prove --limit 1ms"),
            ("prove --every 6h", "prove"),
        ] {
            let words = given.split(' ').map(OsString::from);
            assert_eq!(once(words), left.split(' ').map(OsString::from).collect::<Vec<_>>(), "{given}");
        }
    }
}
