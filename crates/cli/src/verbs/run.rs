// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator run`: a command with affinity, policy and priority set up in the right order.
//!
//! The command takes this program's place, but where the kernel has no isolator and a best effort is asked
//! for ([`best_effort`]).
//!
//! Locked memory does not survive execve(2): the command must lock its own, for which the limit is raised
//! where that is allowed.

mod best_effort;
mod isolate;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use machine::units::whole_us;
use rt::power::DmaLatency;
use rt::{isolation, thread};

use crate::args::RunArgs;
use crate::outcome::VerbResult;
use crate::output::note;
use crate::values::policy_named;

pub fn run(args: &RunArgs) -> VerbResult {
    if args.best_effort && !untrusted::is_there(isolation::DEVICE) {
        let cpus = args.cpus.as_ref().ok_or("cannot isolate by settings: no CPUs are named; give --cpus")?;
        std::process::exit(best_effort::run(cpus)?.into());
    }
    let say = |text: &str| {
        if args.verbose {
            note(&format!("isolator: {text}"));
        }
    };
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let period_ns = ns(args.period);
    let deadline = (ns(args.runtime), args.deadline.map_or(period_ns, ns), period_ns);
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    if let Some(names) = &args.isolate {
        isolate::prepare(&mut command, &args.command[0], names)?;
        say(
            "the command's main thread starts a session with the kernel part; its threads and children do not",
        );
    }
    let policy = policy_named(&args.policy, args.priority, deadline)?;
    match thread::raise_memory_lock_limit() {
        Ok(()) => say("the command may lock all its memory; it must do so itself (mlockall)"),
        Err(error) => say(&error.to_string()),
    }
    if let Some(latency_us) = args.dma_latency {
        DmaLatency::request(latency_us)?.keep_across_exec()?;
        let latency = whole_us(latency_us);
        note(&format!("isolator: {latency} requested in /dev/cpu_dma_latency until the command ends"));
    }
    if let Some(cpus) = &args.cpus {
        // The kernel takes a list of which it knows but one CPU, and runs the command there.
        let online = inspect::read(Path::new("/")).online();
        let unknown = cpus.without(&online);
        if !unknown.is_empty() && !online.is_empty() {
            return Err(
                format!("cannot run on cpus {unknown}: they are not online; choose from {online}").into()
            );
        }
        thread::set_affinity(&cpus.iter().collect::<Vec<_>>())?;
        say(&format!("runs on cpus {cpus}"));
    }
    policy.apply(args.reset_on_fork)?;
    say(&format!("runs with {policy}"));
    let error = command.exec();
    let why = error::reason(&error);
    Err(format!("cannot run {}: {why}; check the command after --", args.command[0].display()).into())
}
