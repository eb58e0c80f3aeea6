// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator task`: policy, priority and CPUs of tasks.

use std::path::Path;

use ::tune::system::{Real, failed};
use ::tune::task::{self, SCHEMA_VERSION, TaskChange, TaskList};
use error::Error;
use report::terminal::tune;
use rt::policy::Policy;

use crate::args::{TaskListArgs, TaskSetArgs, TaskShowArgs, TaskVerb};
use crate::outcome::{Outcome, VerbResult};
use crate::values::policy_named;

pub fn run(verb: TaskVerb) -> VerbResult {
    match verb {
        TaskVerb::List(args) => list(&args),
        TaskVerb::Show(args) => show(&args),
        TaskVerb::Set(args) => set(&args),
    }
}

fn list(args: &TaskListArgs) -> VerbResult {
    args.out.ready()?;
    let mut tasks = task::all(&open(&args.root)?, args.threads);
    tasks.retain(|task| {
        let real_time = matches!(task.policy.as_str(), "fifo" | "rr" | "deadline");
        let here = args
            .cpus
            .as_ref()
            .is_none_or(|wanted| task.cpus.as_ref().is_some_and(|cpus| !cpus.and(wanted).is_empty()));
        (real_time || !args.real_time) && (task.kernel || !args.kernel) && here
    });
    args.out.print_text(tune::tasks(&tasks).trim_end());
    args.out.json(&TaskList { schema_version: SCHEMA_VERSION, tasks })?;
    Ok(Outcome::Done)
}

fn show(args: &TaskShowArgs) -> VerbResult {
    args.out.ready()?;
    let which = &args.which;
    let tasks = task::find(&open(&args.root)?, &which.task, which.threads, which.children)?;
    args.out.print_text(tune::tasks(&tasks).trim_end());
    args.out.json(&TaskList { schema_version: SCHEMA_VERSION, tasks })?;
    Ok(Outcome::Done)
}

fn set(args: &TaskSetArgs) -> VerbResult {
    args.out.ready()?;
    let mut system = open(Path::new("/"))?;
    let policy = args.policy.as_deref().map(|name| policy(name, args)).transpose()?;
    let which = &args.which;
    let tasks = task::find(&system, &which.task, which.threads, which.children)?;
    let wanted = TaskChange { policy, cpus: args.cpus.clone(), force: args.force };
    let set = task::set(&mut system, tasks, &wanted)?;
    args.out.print_text(tune::tasks_set(&set).trim_end());
    args.out.json(&set)?;
    Ok(Outcome::Done)
}

fn policy(name: &str, args: &TaskSetArgs) -> Result<Policy, Box<dyn std::error::Error>> {
    let times = match &args.deadline {
        None if name == "deadline" => {
            let cure = "give it by --deadline 200:1000:1000, in microseconds";
            return Err(Error::new("set a deadline policy", "its runtime is not given", cure).into());
        }
        None => (0, 0, 0),
        Some(text) => {
            let numbers: Vec<u64> = text.split(':').filter_map(|number| number.parse().ok()).collect();
            match numbers[..] {
                [runtime, deadline, period] => (runtime * 1000, deadline * 1000, period * 1000),
                _ => {
                    let what = format!("read the deadline '{text}'");
                    let cure = "write runtime, deadline and period in microseconds, 200:1000:1000";
                    return Err(Error::new(what, "it is not three numbers", cure).into());
                }
            }
        }
    };
    Ok(policy_named(name, u32::try_from(args.priority).unwrap_or(0), times)?)
}

fn open(root: &Path) -> Result<Real, Error> {
    Real::new(root).map_err(|error| failed("open", &root.display().to_string(), &error))
}
