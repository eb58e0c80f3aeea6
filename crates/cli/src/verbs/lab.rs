// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lab`: real kernels in an emulator, disturbed on purpose and looked at from outside.

use std::io::IsTerminal;

use ::lab::guest::storm;
use ::lab::kernel::{self, Architecture, Kernel};
use ::lab::{mode, run, scenario};
use evidence::Bundle;
use evidence::document::ProveDocument;
use evidence::lab::{LabDocument, LogVerdict};
use evidence::manifest::SCHEMA_VERSION;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{GuestOptions, LabListArgs, LabRunArgs, LabShellArgs, LabShowArgs, LabVerb};
use crate::output::{Exit, Outcome, print, tell};
use crate::session;

/// `isolator lab list --json`.
#[derive(Serialize, JsonSchema)]
pub struct LabList {
    /// Version of this document.
    schema_version: u32,
    /// The scenarios.
    scenarios: Vec<Named>,
    /// The boot lines, each with the ones before it.
    boot_lines: Vec<Named>,
}

/// Something with a name and a line about it.
#[derive(Serialize, JsonSchema)]
struct Named {
    /// Its name.
    name: String,
    /// What it is.
    about: String,
}

pub fn run(verb: LabVerb) -> Outcome {
    match verb {
        LabVerb::List(args) => list(&args),
        LabVerb::Show(args) => show(&args),
        LabVerb::Run(args) => experiment(&args),
        LabVerb::Shell(args) => shell(&args),
    }
}

fn list(args: &LabListArgs) -> Outcome {
    let scenarios = scenario::all()?.into_iter().map(|one| Named { name: one.name, about: one.about });
    let lines =
        run::BOOT_LINES.iter().map(|(name, line)| Named { name: name.to_string(), about: line.to_string() });
    let list = LabList {
        schema_version: SCHEMA_VERSION,
        scenarios: scenarios.collect(),
        boot_lines: lines.collect(),
    };
    for (title, entries) in
        [("scenarios", &list.scenarios), ("boot lines, each with those above it", &list.boot_lines)]
    {
        args.out.say(title);
        entries.iter().for_each(|one| args.out.say(&format!("  {:16} {}", one.name, one.about)));
    }
    args.out.json(&list)?;
    Ok(Exit::Held)
}

fn show(args: &LabShowArgs) -> Outcome {
    let scenarios = scenario::named(std::slice::from_ref(&args.scenario))?;
    let mut text = scenarios.iter().map(scenario::text).collect::<Vec<_>>().join("\n");
    for name in scenarios.iter().flat_map(|scenario| &scenario.storms) {
        if let Some(kind) = storm::kind(name) {
            let pace = kind.pace.as_millis();
            text += &format!("# {name}: {}; {} rounds, one each {pace} ms\n", kind.about, kind.rounds);
        }
    }
    print(&text)?;
    Ok(Exit::Held)
}

fn find_kernel(options: &GuestOptions) -> Result<Kernel, evidence::Error> {
    let architecture = match &options.arch {
        Some(name) => Architecture::named(name)?,
        None => Architecture::of_this_program(),
    };
    kernel::find(&options.kernel, architecture, &|text| tell(&format!("isolator: {text}")))
}

fn experiment(args: &LabRunArgs) -> Outcome {
    let scenarios = scenario::named(&args.scenarios)?;
    let kernel = find_kernel(&args.guest)?;
    let (mode, mode_reason) = mode::choose(args.mode.as_deref(), &kernel, &scenarios)?;
    let asked = run::Asked {
        kernel,
        boot: args.guest.boot.clone(),
        mode,
        mode_reason,
        loads: if args.loads.is_empty() { vec!["idle".to_string()] } else { args.loads.clone() },
        cpus: args.guest.cpus,
        duration: args.duration,
        seed: args.seed,
        witness: args.witness,
        fresh: args.fresh,
    };
    let folder = args.output.clone().unwrap_or_else(session::default_folder);
    let progress = !args.out.quiet && std::io::stderr().is_terminal();
    let document = run::run(&asked, &scenarios, &folder, &|text| {
        if progress {
            tell(&format!("isolator: {text}"));
        }
    })?;
    let bundle = Bundle::open(&folder)?;
    let report = session::finish(&bundle)?;
    if !bundle.rows.is_empty() {
        args.out.say(&report::terminal::table(&ProveDocument::of(&bundle), args.out.style()));
    }
    args.out.say(&report::terminal::lab(&document, args.out.style()));
    args.out.json(&document)?;
    args.out.say(&format!("Report: {}", report.display()));
    match complaint(&document) {
        Some(why) => Err(why.into()),
        None => Ok(Exit::Held),
    }
}

/// What makes a result none: a storm without effect, a kernel that complained.
fn complaint(document: &LabDocument) -> Option<String> {
    if let Some(storm) = document.storms.iter().find(|storm| !storm.took_effect) {
        let on = format!("{} in {}", storm.name, storm.scenario);
        return Some(format!(
            "cannot count the storm {on}: it took no effect: {}; run it on another kernel, or leave it out",
            storm.did
        ));
    }
    (document.guest_log.verdict == LogVerdict::Bad).then(|| {
        let first = document.guest_log.warnings.first().map_or("", String::as_str);
        format!(
            "cannot trust the guest: its kernel complained: {first}; see guest_log in lab.json of the bundle"
        )
    })
}

fn shell(args: &LabShellArgs) -> Outcome {
    ::lab::shell::run(&find_kernel(&args.guest)?, &args.guest.boot, args.guest.cpus)?;
    Ok(Exit::Held)
}
