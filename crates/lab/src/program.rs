// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lab program`: a program, with its libraries, alone in a guest; its output, its status, and the
//! kernel's log, judged.

use std::path::Path;
use std::time::Duration;

use evidence::lab::{GuestLog, Mode};

use crate::initramfs::Parts;
use crate::job::{ForeignProgram, GuestJob, GuestTask, PORT_MODULES};
use crate::kernel::GuestKernel;
use crate::patience::Patience;
use crate::qemu::{Guest, How, LostGuest};
use crate::{Error, boot, initramfs, log, qemu, scope, symbols};

/// Given up after this time, where none is given: a selftest on a busy host takes minutes.
const LIMIT: Duration = Duration::from_secs(600);

/// The result of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    /// Its output.
    pub output: String,
    /// Its exit status; 128 and the signal's number where one ended it.
    pub status: i32,
    /// The kernel's log meanwhile, judged.
    pub log: GuestLog,
    /// The same, from the first line on that says that something is wrong; empty where none does.
    pub complaint: String,
    /// The scope's record, where it looked on.
    pub scope: String,
}

/// A program for a guest.
#[derive(Debug)]
pub struct ProgramSpec<'a> {
    /// The kernel.
    pub kernel: &'a GuestKernel,
    /// The boot line, as [`boot::line`] gives it.
    pub boot_line: &'a str,
    /// CPUs of the guest; the last one is isolated.
    pub cpus: u32,
    /// The program and its arguments.
    pub command: &'a [String],
    /// A folder whose files lie in the guest's root as they lie in it.
    pub files: Option<&'a Path>,
    /// How the guest runs.
    pub mode: Mode,
    /// Whether the scope looks on; the program says when, by its markers.
    pub watched: bool,
    /// The guest's further equipment.
    pub how: How,
    /// Complaints that are not held against it: a text of each.
    pub known: &'a [String],
    /// How long it is waited for.
    pub patience: &'a Patience,
}

/// Runs a program in a guest, with the last CPU isolated.
pub fn run(asked: &ProgramSpec<'_>) -> std::result::Result<ProgramOutput, LostGuest> {
    if asked.watched && asked.mode != Mode::Count {
        let why = format!("there is no scope in the mode {}", asked.mode.name());
        return Err(Error::on("record", "a program", why, "use --mode count").into());
    }
    let ProgramSpec { kernel, boot_line, cpus, command, patience, .. } = *asked;
    let (file, arguments) =
        command.split_first().ok_or_else(|| Error::on("run", "a program", "none is named", "name one"))?;
    let path = Path::new(file).canonicalize().map_err(|e| Error::io("find", Path::new(file), &e))?;
    let task = ForeignProgram { arguments: arguments.to_vec() };
    let parts = Parts {
        program: &initramfs::guest_program(kernel.architecture)?,
        modules: initramfs::modules(kernel.modules.as_deref(), PORT_MODULES),
        // For programs that load a module themselves.
        carried: initramfs::modules(kernel.modules.as_deref(), &["crc7"]),
        programs: Vec::new(),
        run: Some(&path),
        laid: asked.files,
    };
    let scope = if asked.watched {
        let symbols = symbols::of(kernel, patience, &|_| ())?;
        let cpus = boot::isolated(cpus);
        Some(format!("{},symbols={},cpus={cpus}", scope::plugin()?.display(), symbols.display()))
    } else {
        None
    };
    let left = qemu::run(&Guest {
        kernel,
        initramfs: &initramfs::build(
            &parts,
            &GuestJob { modules: Vec::new(), disk: false, task: GuestTask::Program(task) },
        )?,
        boot_line: boot::whole(kernel.architecture, boot_line),
        mode: asked.mode,
        cpus,
        scope,
        disk: false,
        how: asked.how,
        patience: patience.or(LIMIT),
    })?;
    let frame = |wanted: &str| {
        let (_, bytes) = left.frames.iter().find(|(name, _)| name == wanted)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    match (frame("output"), frame("status").and_then(|text| text.parse().ok())) {
        (Some(output), Some(status)) => {
            let whole = frame("kernel-log").unwrap_or(left.console);
            let log = log::judge(&whole, asked.known);
            let first = log.warnings.first().and_then(|line| whole.find(line.as_str()));
            let complaint = first.map_or(String::new(), |at| whole[at..].to_string());
            Ok(ProgramOutput { output, status, log, complaint, scope: left.scope })
        }
        _ => {
            let (why, cure) = without_result(&left.console, asked.known);
            Err(Error::on("run in a guest", file, why, cure).into())
        }
    }
}

/// Why a guest ended without a result, and the cure.
fn without_result(console: &str, known: &[String]) -> (String, &'static str) {
    match log::own_words(console) {
        Some(said) => (
            said.trim_start_matches("isolator-guest: ").to_string(),
            "build it for the guest's architecture, and static where that is not this machine's",
        ),
        None => (
            log::without_words(console, known),
            "run it again; if it ends so again, run another kernel (--kernel), or report this",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_without_a_result_is_told_by_its_console() {
        let why = |console: &str| without_result(console, &[]).0;
        assert_eq!(why("x\nisolator-guest: cannot run /p: no such file\n"), "cannot run /p: no such file");
        let told = "the guest ended without a result; its console says: ";
        assert_eq!(why("booted\nreboot: Restarting system\n \n"), format!("{told}reboot: Restarting system"));
        assert!(
            why("WARNING: CPU: 1 PID: 2 at kernel/smp.c:3 f+0x1\nend\n").contains("says: WARNING: CPU: 1")
        );
        assert_eq!(why(""), format!("{told}nothing"));
    }
}
