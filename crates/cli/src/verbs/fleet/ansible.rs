// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator fleet prove`, `plan`, `apply`, `verify` and `rollback`: Ansible does it, and each machine's
//! outcome is reported.

use std::path::PathBuf;

use ::fleet::ansible::{self, AnsibleJob, AnsibleVerb};
use clap::Parser;
use evidence::Error;
use machine::Use;

use crate::args::{
    Cli, FleetApplyArgs, FleetHosts, FleetPlanArgs, FleetProveArgs, FleetRollbackArgs, FleetVerifyArgs,
};
use crate::next::{self, quoted};
use crate::outcome::{Document, VerbResult};
use crate::usage;

/// Architectures of which a program may lie beside this one.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

pub fn prove(args: FleetProveArgs) -> VerbResult {
    let mut job = job(AnsibleVerb::Prove, &args.on)?;
    job.check = args.check;
    job.prove = command_line(&["prove"], of_use(args.purpose.as_ref(), args.words))?;
    run(&job, &args.on)
}

pub fn plan(args: FleetPlanArgs) -> VerbResult {
    let mut job = job(AnsibleVerb::Plan, &args.on)?;
    job.reboot = args.reboot;
    job.plan = command_line(&["tune", "plan"], of_use(args.purpose.as_ref(), args.words))?;
    run(&job, &args.on)
}

pub fn apply(args: FleetApplyArgs) -> VerbResult {
    let mut job = job(AnsibleVerb::Apply, &args.on)?;
    job.check = args.check;
    job.reboot = args.reboot;
    job.batches = args.batches;
    job.prove = match &args.purpose {
        None => args.prove,
        Some(purpose) => Some(format!("--use {} {}", quoted(&purpose.asked), args.prove.unwrap_or_default()))
            .map(|words| words.trim_end().to_string()),
    };
    job.plan = command_line(&["tune", "plan"], of_use(args.purpose.as_ref(), args.words))?;
    run(&job, &args.on)
}

pub fn verify(args: FleetVerifyArgs) -> VerbResult {
    run(&job(AnsibleVerb::Verify, &args.on)?, &args.on)
}

pub fn rollback(args: FleetRollbackArgs) -> VerbResult {
    let mut job = job(AnsibleVerb::Rollback, &args.on)?;
    job.reboot = args.reboot;
    run(&job, &args.on)
}

fn job(verb: AnsibleVerb, on: &FleetHosts) -> Result<AnsibleJob, Error> {
    on.out.ready()?;
    let folder = on.output.clone().unwrap_or_else(run::default_folder);
    // A run that measures may be gone on with; what was applied is measured anew.
    if verb != AnsibleVerb::Prove && untrusted::is_there(folder.join("bundles")) {
        let why = "it holds the evidence of another run";
        return Err(Error::on("write to", folder.display(), why, "choose another folder"));
    }
    Ok(AnsibleJob {
        verb,
        inventory: on.inventory.clone(),
        hosts: on.hosts.clone(),
        folder,
        forks: on.forks,
        batches: None,
        reboot: false,
        check: false,
        force: on.force,
        prove: None,
        plan: None,
        programs: programs(),
        words: on.ansible.clone(),
        quiet: on.out.quiet,
    })
}

fn run(job: &AnsibleJob, on: &FleetHosts) -> VerbResult {
    let document = ansible::run(job)?;
    on.out.json(&document)?;
    on.out.print_text(&report::terminal::fleet_run(&document, on.out.style()));
    if !document.could_not() {
        next::say(next::after_fleet_run(job), &on.out);
    }
    document.ended()
}

/// Static programs that lie beside this one, and else this one for machines of its kind.
fn programs() -> Vec<(String, PathBuf)> {
    let own = std::env::current_exe().ok();
    let of = |architecture: &str| {
        let own = own.clone().filter(|_| architecture == std::env::consts::ARCH);
        lab::parts::find(&format!("isolator-{architecture}")).or(own)
    };
    ARCHITECTURES.iter().filter_map(|name| Some((name.to_string(), of(name)?))).collect()
}

/// Words for `verb` on each machine, as one text that a shell would take apart again. What this program does
/// not understand is refused here, before any machine is asked.
fn command_line(verb: &[&str], words: Vec<String>) -> Result<Option<String>, String> {
    if words.is_empty() {
        return Ok(None);
    }
    let all = ["isolator"].iter().chain(verb).map(ToString::to_string).chain(words.iter().cloned());
    Cli::try_parse_from(all).map_err(|error| usage::line(&error, verb.first().copied()))?;
    Ok(Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")))
}

/// Words for a machine, with its use before them.
fn of_use(purpose: Option<&Use>, words: Vec<String>) -> Vec<String> {
    let named = purpose.map(|purpose| ["--use".to_string(), purpose.asked.clone()]);
    named.into_iter().flatten().chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_joined_so_that_a_shell_takes_them_apart_again() {
        let all = ["--loads", "custom=sh -c 'true'", "--limit", "10%"].map(str::to_string);
        let text = command_line(&["prove"], all.to_vec()).unwrap().unwrap();
        assert_eq!(text, r"--loads 'custom=sh -c '\''true'\''' --limit 10%");
        assert_eq!(command_line(&["prove"], Vec::new()).unwrap(), None);
    }

    #[test]
    fn words_that_the_verb_does_not_know_are_refused_before_any_machine_is_asked() {
        let line = command_line(&["tune", "plan"], vec!["--coers".into(), "2".into()]).unwrap_err();
        assert_eq!(line, "isolator tune takes no '--coers'; did you mean --cores?; see isolator tune --help");
    }
}
