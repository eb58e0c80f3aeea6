// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads on housekeeping CPUs: verified, and gone after the run.
//!
//! A load is one or more programs (stress-ng, fio, glmark2, a given command) or an engine of our own (`net`,
//! `timers`, `ipi`, `ethercat`), run by a *supervisor*: this very program, executed again with the hidden
//! verb [`WORKER_VERB`].
//!
//! ```text
//! control thread ─ stdin: order, then held open ─► supervisor ─ spawns ─► load-worker exec ─► stress-ng …
//!   Load::start  ◄─ stdout: started, loading, did ──  below its guard, subreapers  death signal, cgroup
//! ```
//!
//! The supervisor stands on the housekeeping CPUs at SCHED_OTHER and nice 0, and everything below it inherits
//! that. It ends the load when its stdin ends, when its parent dies or when it is told to terminate: whatever
//! became of the control thread, no process and no file stays. It is a subreaper, so a program that detaches
//! itself is still found. Where the supervisor itself is killed, its programs get their death signal and the
//! control thread removes the rest.
//!
//! That a load really loads is measured, not assumed: see [`LoadOutcome`], and [`Worked`] for each second.
//!
//! Above the supervisor stands its *guard*, a process that only waits: where the supervisor is killed, with
//! the control thread or alone, the guard inherits all orphans, kills them and removes the files.
//!
//! Limits: where guard, supervisor and control thread are killed in the same moment, the programs end but the
//! scratch folder stays, and a given command that detached itself survives.
//!
//! References: prctl(2) PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER, cgroups(7), stress-ng(1), fio(1).

mod catalog;
mod cgroup;
mod did;
mod display;
mod engine;
pub mod figures;
mod gpu;
mod guard;
mod part;
mod plan;
mod process;
mod program;
mod room;
mod running;
mod supervisor;
mod sys;
mod utilisation;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use machine::CpuSet;

pub use catalog::{CatalogEntry, Load, catalog, names, parse, unnamed};
pub use did::LoadOutcome;
pub use room::scratch_folder;
pub use running::Running;
pub use utilisation::Utilisation;
pub use work::Worked;

/// The hidden verb under which the program must call [`worker_main`] before it does anything else.
pub const WORKER_VERB: &str = "load-worker";

/// Where a load runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The CPUs that may be loaded; not empty.
    pub house_keeping: CpuSet,
    /// The CPUs that are measured: never loaded, but `ipi` sends to them. Empty: all CPUs that are not
    /// housekeeping.
    pub measured: CpuSet,
    /// An existing folder for scratch files, better on a disk than in memory (see [`scratch_folder`]). Every
    /// load makes a folder of its own in it and removes that again.
    pub scratch: PathBuf,
    /// The interface that `ethercat` drives; absent: it simulates a segment.
    pub device: Option<EthercatDevice>,
}

/// An interface with EtherCAT SubDevices on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EthercatDevice {
    /// Its name.
    pub name: String,
    /// It is used although it carries an address or the default route.
    pub is_forced: bool,
}

/// Why a load does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The list of loads names none that exists.
    #[error("cannot load the machine with '{name}': there is no such load; {cure}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The likely name, or those that exist.
        cure: String,
    },
    /// This machine cannot run it as it is: the row is *not run*, the others go on.
    #[error("cannot run the load {load} here: {reason}; {cure}")]
    NotAvailable {
        /// The load's name.
        load: String,
        /// `package stress-ng missing`, …
        reason: String,
        /// `apt-get install stress-ng`, …
        cure: String,
    },
    /// It should have run but did not start.
    #[error("cannot start the load {load}: {reason}; {cure}")]
    Failed {
        /// The load's name.
        load: String,
        /// The reason.
        reason: String,
        /// The cure.
        cure: String,
    },
}

/// The hidden verb's main function; `args` are those after [`WORKER_VERB`].
pub fn worker_main(args: impl IntoIterator<Item = String>) -> ExitCode {
    let args: Vec<String> = args.into_iter().collect();
    let result = match args.split_first().map(|(verb, rest)| (verb.as_str(), rest)) {
        Some(("guard", rest)) => guard::main(rest),
        Some(("supervise", rest)) => supervisor::main(rest),
        Some(("exec", rest)) => part::become_program(rest),
        Some(("engine", rest)) => engine::main(rest),
        _ => Err("this verb is for the program's own use".to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{WORKER_VERB}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The program file that `name` means on the search path.
pub fn find_program(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let executable = |file: &Path| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name.as_ref()))
        .find(|file| file.is_file() && executable(file))
}

/// The system's text for a failure, in lower case and without its number.
pub(crate) fn why(error: impl Into<std::io::Error>) -> String {
    error::reason(&error.into())
}
