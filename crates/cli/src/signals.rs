// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends a run in order: by signals, and with the session that started it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use error::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::RunOptions;

/// The first SIGINT or SIGTERM sets the flag, the second ends the program at once.
pub fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::default();
    set_on_signals(&stop)?;
    Ok(stop)
}

/// The same with a flag that is there.
pub fn set_on_signals(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the second signal must find the flag that the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// The flag that stops a run: signals, and the end of its session where that is asked for.
pub fn stops(options: &RunOptions) -> Result<Arc<AtomicBool>, Error> {
    let stop =
        stop_on_signals().map_err(|error| Error::new("catch signals", error::reason(&error), "try again"))?;
    if options.end_with_session {
        stop_with_session(&stop).map_err(|error| {
            let cure = "leave --end-with-session out";
            Error::new("end with the session", error::reason(&error), cure)
        })?;
    }
    Ok(stop)
}

/// Sets the flag when a process that this one was started by ends, as sshd's does for a connection that is
/// lost; such a process sends no signal to what it started without a terminal. Services, which init started,
/// may be restarted meanwhile. The thread that waits for it sleeps, and so disturbs nothing.
fn stop_with_session(stop: &Arc<AtomicBool>) -> io::Result<()> {
    let started_by = ancestors(std::process::id(), &parent).into_iter().filter_map(Pid::from_raw);
    let watched =
        started_by.map(|pid| pidfd_open(pid, PidfdFlags::empty())).collect::<Result<Vec<OwnedFd>, _>>()?;
    if watched.is_empty() {
        return Err(io::Error::other("init started it, and no session"));
    }
    let stop = Arc::clone(stop);
    std::thread::Builder::new().name("session".into()).spawn(move || {
        let mut all = watched.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect::<Vec<_>>();
        while poll(&mut all, None).is_err_and(|error| error == rustix::io::Errno::INTR) {}
        stop.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}

/// The processes that `process` was started by, the nearest first, without init and what init started.
fn ancestors(process: u32, parent: &dyn Fn(i32) -> Option<i32>) -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = i32::try_from(process).ok().and_then(parent);
    while let Some(pid) = next.filter(|pid| *pid > 1) {
        next = parent(pid);
        if next.is_some_and(|above| above > 1) || found.is_empty() {
            found.push(pid);
        }
    }
    found
}

/// The parent of a process, as `/proc/PID/stat` has it behind the name.
fn parent(pid: i32) -> Option<i32> {
    let stat = untrusted::text(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_no_part_of_a_session() {
        // isolator 9 < sh 8 < python 7 < sshd of the connection 6 < sshd 5 < init.
        let chain = |pid: i32| Some(if pid == 5 { 1 } else { pid - 1 });
        assert_eq!(ancestors(9, &chain), [8, 7, 6]);
        assert_eq!(ancestors(5, &chain), [] as [i32; 0]);
        assert_eq!(ancestors(6, &chain), [5], "what started it directly is watched all the same");
        let own = ancestors(std::process::id(), &parent);
        assert_eq!(
            own.first().copied(),
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()).filter(|pid| *pid > 1)
        );
    }
}
