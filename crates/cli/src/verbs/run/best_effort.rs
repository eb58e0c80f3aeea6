// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the kernel has no isolator: what can be kept off a command's CPUs by settings, for as long as it
//! runs. They are those of a plan for these CPUs that needs no reboot (`isolator tune plan --cpus LIST
//! --no-reboot`): an isolated partition, and interrupts, kernel threads and workqueues elsewhere.
//!
//! This process stays, to give them back; the command is run by this program again, without them. The
//! partition takes only who is in it: this process enters before it starts the other, which is born there,
//! and leaves again.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::run::held::{Held, nothing_else};
use ::tune::plan::{Action, ActionKind, Intent, MadeFor, Profile, WantedCpus, plan};
use evidence::Error;
use machine::CpuSet;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::output::note;
use crate::verbs::tune::here::LocalMachine;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Its name in messages.
const WHAT: &str = "isolate by settings";

/// How often it is looked whether the command has ended, or is to.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs this program's own command line, but for what brought it here, with the settings for `cpus` in force;
/// the command's exit status, as a shell says it.
pub fn run(cpus: &CpuSet) -> Result<u8> {
    let root = Path::new("/");
    let mut machine = LocalMachine::open(root, WHAT, true)?;
    let here = machine.here(root);
    let apart = here.machine.isolation.set_apart();
    // What is kept off these goes to none that others are kept off already.
    let intent =
        Intent { no_reboot: true, ..Intent::new(Profile::Periodic, WantedCpus::Cpus(cpus.or(&apart))) };
    let plan = plan(here.machine, &MadeFor::here(root, here.machine), &intent)?;
    let actions = plan.actions.iter().filter_map(|action| of_these(action, cpus, &apart)).collect::<Vec<_>>();
    let record = format!("{}-run", here.stamp);
    let system = here.system;
    nothing_else(system, WHAT, &format!("cpus {cpus}"))?;
    // Before the first change: from now on a signal is the command's, and its end gives back what was there.
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    let held = Held::hold(system, &record, &plan.digest, &actions)?;
    print_summary(cpus, &held);
    let partition = actions.iter().find(|action| action.kind == ActionKind::Partition);
    let ended = within(partition).and_then(|mut child| wait(&mut child, &asked));
    if let Ok(held) = held {
        for what in held.release(system) {
            note(&format!("isolator: left as it is: {what}"));
        }
    }
    let status = ended?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// Waits for the command's end, which is asked for by a signal, and a second time is not asked.
fn wait(child: &mut Child, asked: &AtomicBool) -> Result<ExitStatus> {
    let process = Pid::from_child(child);
    let mut signal = Signal::TERM;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if asked.swap(false, Ordering::SeqCst) {
            // It may have ended by itself: a terminal's Ctrl-C reaches both.
            let _ = kill_process(process, signal);
            signal = Signal::KILL;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// An action of a plan for these CPUs and those that are `apart` already, as it is for these alone; none for
/// what keeps nothing off them.
fn of_these(action: &Action, cpus: &CpuSet, apart: &CpuSet) -> Option<Action> {
    use ActionKind::*;
    let new = cpus.without(apart);
    match action.kind {
        IrqDefault | Irqs | IrqBalance | KernelThreads | Workqueues => Some(action.clone()),
        Slice if !new.is_empty() => Some(action.clone()),
        Partition if !new.is_empty() => Some(Action { value: new.to_string(), ..action.clone() }),
        _ => None,
    }
}

/// Prints the settings made, those not made, and the limits of any setting.
fn print_summary(cpus: &CpuSet, held: &std::result::Result<Held, String>) {
    match held {
        Ok(held) => {
            note(&format!(
                "isolator: best effort: while the command runs, interrupts, kernel threads, workqueues and other programs leave cpus {cpus}"
            ));
            for (what, why) in held.refused() {
                note(&format!("isolator: but not {what}: {why}"));
            }
        }
        Err(why) => note(&format!("isolator: best effort: nothing can be set for cpus {cpus}: {why}")),
    }
    note(
        "isolator: missing: timers, reschedules and function calls interrupt as ever, which only a kernel with the kernel part can defer",
    );
}

/// Starts the command in the partition, where there is one.
fn within(partition: Option<&Action>) -> Result<Child> {
    let members = partition.map(|action| Path::new(&action.target).join("cgroup.procs"));
    let Some(members) = members.filter(|file| file.is_file()) else { return start() };
    let own = untrusted::text("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let back = Path::new("/sys/fs/cgroup").join(own).join("cgroup.procs");
    let this = std::process::id().to_string();
    if let Err(error) = fs::write(&members, &this) {
        note(&format!("isolator: the command does not run in the partition: {}", error::reason(&error)));
        return start();
    }
    let child = start();
    fs::write(&back, &this).map_err(|error| Error::io("write", &back, &error))?;
    child
}

/// This program again, asked for the same but for the best effort.
fn start() -> Result<Child> {
    let program =
        std::env::current_exe().map_err(|error| Error::io("find", Path::new("this program"), &error))?;
    let mut ours = true;
    let arguments = std::env::args_os().skip(1).filter(|word| {
        ours = ours && word != "--";
        !(ours && (word == "--best-effort" || word.to_string_lossy().starts_with("--isolate")))
    });
    let mut command = Command::new(&program);
    let child = command.args(arguments).spawn();
    Ok(child.map_err(|error| Error::io("start", &program, &error))?)
}
