// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that die with the thread that started them: the emulator and other programs for a guest.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};

use crate::{Error, Result};

/// The hidden verb under which this program becomes the emulator, or another program, to die with its
/// parent.
pub const VERB: &str = "lab-emulator";

/// The most that an emulator may write into one file, unless one of them is a disk: a kernel that complains
/// without end must not fill the memory.
pub(crate) const MOST_BYTES: u64 = 256 << 20;

/// This program's file.
pub(crate) fn own() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| Error::io("find", Path::new("this program"), &e))
}

/// The command that becomes a program which dies with the thread that starts it; its arguments are to follow.
pub(crate) fn command(program: &Path, most_bytes: u64) -> Result<Command> {
    let mut command = Command::new(own()?);
    command.arg(VERB).args([std::process::id().to_string(), most_bytes.to_string()]).arg(program);
    Ok(command)
}

/// Becomes another program, which the kernel ends as soon as the starting thread is gone. Arguments: the
/// process that started it, the most bytes of a file, the program, its arguments.
pub fn become_child(mut args: impl Iterator<Item = String>) -> ExitCode {
    let parent = args.next().and_then(|id| Pid::from_raw(id.parse().ok()?));
    let most = args.next().and_then(|bytes| bytes.parse().ok()).unwrap_or(MOST_BYTES);
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    // One that is gone already sends no signal any more.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
        && setrlimit(Resource::Fsize, limit).is_ok()
        && getppid() == parent
        && let Some(program) = args.next()
    {
        let error = Command::new(&program).args(args).exec();
        eprintln!("cannot run {program}: {error}");
    }
    ExitCode::FAILURE
}
