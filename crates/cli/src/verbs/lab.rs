// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lab`: real kernels in an emulator, disturbed on purpose and looked at from outside.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

use ::lab::architecture::Architecture;
use ::lab::guest::storm;
use ::lab::kernel::{self, GuestKernel};
use ::lab::patience::Patience;
use ::lab::qemu;
use ::lab::{boot, gate, matrix, mode, run, scenario};
use evidence::Bundle;
use evidence::document::ProveDocument;
use evidence::manifest::SCHEMA_VERSION;
use rt::isolation::Mask;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{
    GuestOptions, LabGateArgs, LabListArgs, LabMatrixArgs, LabProgramArgs, LabRunArgs, LabShellArgs,
    LabShowArgs, LabVerb, Output,
};
use crate::outcome::{Document, Outcome, VerbResult, done};
use crate::output::{note, note_lines, print};
use crate::signals::stop_on_signals;
use crate::verbs::tune::guest;

/// `isolator lab list --json`.
#[derive(Serialize, JsonSchema)]
pub struct LabList {
    /// Version of this document.
    schema_version: u32,
    /// The scenarios.
    scenarios: Vec<NamedItem>,
    /// The boot lines, each with the ones before it.
    boot_lines: Vec<NamedItem>,
    /// The matrices.
    matrices: Vec<NamedItem>,
}

done!(LabList);

/// Something with a name and a line about it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Named")]
struct NamedItem {
    /// Its name.
    name: String,
    /// Its description.
    about: String,
}

pub fn run(verb: LabVerb) -> VerbResult {
    match verb {
        LabVerb::List(args) => list(&args),
        LabVerb::Show(args) => show(&args),
        LabVerb::Run(args) => experiment(&args),
        LabVerb::Matrix(args) => table(&args),
        LabVerb::Gate(args) => gate(&args),
        LabVerb::Shell(args) => shell(&args),
        LabVerb::Program(args) => program(&args),
    }
}

fn list(args: &LabListArgs) -> VerbResult {
    let scenarios = scenario::all()?.into_iter().map(|one| NamedItem { name: one.name, about: one.about });
    let lines =
        boot::LINES.iter().map(|(name, line)| NamedItem { name: name.to_string(), about: line.to_string() });
    let matrices =
        matrix::all()?.into_iter().map(|one| NamedItem { name: one.name, about: one.about }).collect();
    let list = LabList {
        schema_version: SCHEMA_VERSION,
        scenarios: scenarios.collect(),
        boot_lines: lines.collect(),
        matrices,
    };
    for (title, entries) in [
        ("scenarios", &list.scenarios),
        ("boot lines, each with those above it", &list.boot_lines),
        ("matrices", &list.matrices),
    ] {
        args.out.print_text(title);
        entries.iter().for_each(|one| args.out.print_text(&format!("  {:16} {}", one.name, one.about)));
    }
    args.out.json(&list)?;
    Ok(Outcome::Done)
}

fn show(args: &LabShowArgs) -> VerbResult {
    let scenarios = scenario::named(std::slice::from_ref(&args.scenario))?;
    let mut text = scenarios.iter().map(scenario::text).collect::<Vec<_>>().join("\n");
    for name in scenarios.iter().flat_map(|scenario| &scenario.storms) {
        if let Some(kind) = storm::kind(name) {
            let pace = kind.pace.as_millis();
            text += &format!("# {name}: {}; {} rounds, one each {pace} ms\n", kind.about, kind.rounds);
        }
    }
    print(&text)?;
    Ok(Outcome::Done)
}

fn architecture(name: Option<&str>) -> evidence::Result<Architecture> {
    name.map_or_else(|| Ok(Architecture::of_this_program()), Architecture::named)
}

fn find_kernel(options: &GuestOptions, patience: &Patience) -> evidence::Result<GuestKernel> {
    let architecture = architecture(options.arch.as_deref())?;
    // Before a kernel is fetched for nothing.
    qemu::version(architecture)?;
    kernel::find(&options.kernel, architecture, patience, &|text| note(&format!("isolator: {text}")))
}

/// The first Ctrl-C ends the guests and the run, the second one this program at once; no guest outlives it.
fn patience(limit: Option<Duration>) -> Result<Patience, Box<dyn std::error::Error>> {
    Ok(Patience { limit, stop: stop_on_signals()? })
}

/// Tells a person who waits what is done; a log file has no use for that.
fn progress(out: &Output) -> impl Fn(&str) + Sync {
    let wanted = !out.quiet && std::io::stderr().is_terminal();
    move |text| {
        if wanted {
            note(&format!("isolator: {text}"));
        }
    }
}

/// The boot line that was asked for, by a name of the lab's, as text, or as a plan for the guest.
fn boot_line(options: &GuestOptions, kernel: &GuestKernel) -> Result<String, Box<dyn std::error::Error>> {
    match guest::profile(&options.boot) {
        Some(profile) => guest::boot_line(profile, kernel, options.cpus),
        None => Ok(boot::line(&options.boot, options.cpus)?),
    }
}

/// Refuses a name that there is not, before a kernel is fetched for nothing.
fn check_boot(options: &GuestOptions) -> evidence::Result<()> {
    if guest::profile(&options.boot).is_none() {
        boot::line(&options.boot, options.cpus)?;
    }
    Ok(())
}

fn experiment(args: &LabRunArgs) -> VerbResult {
    args.how.out.ready()?;
    let scenarios = scenario::named(&args.scenarios)?;
    args.isolate.as_deref().map(Mask::named).transpose()?;
    check_boot(&args.guest)?;
    let patience = patience(args.how.time_limit)?;
    let kernel = find_kernel(&args.guest, &patience)?;
    let (mode, mode_reason) =
        mode::choose(args.mode.as_deref(), &kernel, &scenarios, args.witness, &patience)?;
    let asked = run::LabSpec {
        boot_line: boot_line(&args.guest, &kernel)?,
        kernel,
        mode,
        mode_reason,
        loads: if args.loads.is_empty() { vec!["idle".to_string()] } else { args.loads.clone() },
        cpus: args.guest.cpus,
        duration: args.how.window(),
        seed: args.seed,
        witness: args.witness,
        isolate: args.isolate.clone(),
        how: qemu::How { nmi_every: args.nmi, ..qemu::How::default() },
        causes: args.causes.to_string(),
        known: args.known.clone(),
        fresh: args.how.fresh,
        patience,
    };
    let folder = args.how.output.clone().unwrap_or_else(::run::default_folder);
    let document = run::run(&asked, &scenarios, &folder, &progress(&args.how.out))?;
    let bundle = Bundle::open(&folder)?;
    let judged = ProveDocument::of(&bundle);
    let report = report::write_into(&bundle, &judged)?;
    if !bundle.rows.is_empty() {
        args.how.out.print_text(&report::terminal::table(&judged, args.how.out.style()));
    }
    args.how.out.print_text(&report::terminal::lab(&document, args.how.out.style()));
    args.how.out.json(&document)?;
    args.how.out.print_text(&format!("Report: {}", report.display()));
    document.ended()
}

fn table(args: &LabMatrixArgs) -> VerbResult {
    args.how.out.ready()?;
    let matrix = matrix::named(&args.matrix)?;
    let choice = matrix::MatrixChoice {
        architecture: architecture(args.arch.as_deref())?,
        duration: args.how.window(),
        seed: args.seed,
        also: args.also.clone(),
        fresh: args.how.fresh,
        patience: patience(args.how.time_limit)?,
    };
    qemu::version(choice.architecture)?;
    let folder = args.how.output.clone().unwrap_or_else(::run::default_folder);
    let document = matrix::run(&matrix, &choice, &folder, &progress(&args.how.out))?;
    let bundles = document.cells.iter().map(|cell| cell.bundle.clone()).collect::<BTreeSet<_>>();
    let bundles = bundles.iter().map(|path| Bundle::open(path.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let judged = bundles.iter().map(ProveDocument::of).collect::<Vec<_>>();
    for (bundle, judged) in bundles.iter().zip(&judged) {
        report::write_into(bundle, judged)?;
    }
    let report = folder.join("report.html");
    evidence::writer::replace(&report, report::html_of(&bundles, &judged)?.as_bytes())?;
    args.how.out.print_text(&report::terminal::matrix(&document, args.how.out.style()));
    args.how.out.json(&document)?;
    args.how.out.print_text(&format!("Report: {}", report.display()));
    document.ended()
}

fn gate(args: &LabGateArgs) -> VerbResult {
    args.how.out.ready()?;
    let baseline = gate::read(&args.baseline)?;
    let duration = gate::window(&baseline, &args.baseline, args.how.duration)?;
    let (scenarios, loads) = gate::asked(&baseline);
    let scenarios = scenario::named(&scenarios)?;
    // `6.12.117+deb12-rt-amd64 (debian-rt)`: the same is asked for again, and may be a newer one.
    let kernel =
        baseline.kernel.split_once('(').map_or("debian-rt", |(_, asked)| asked.trim_end_matches(')'));
    let kernel = args.kernel.as_deref().unwrap_or(kernel);
    let architecture = architecture(Some(&baseline.architecture))?;
    qemu::version(architecture)?;
    let patience = patience(args.how.time_limit)?;
    let kernel = kernel::find(kernel, architecture, &patience, &progress(&args.how.out))?;
    let (mode, mode_reason) = mode::choose(Some("count"), &kernel, &scenarios, false, &patience)?;
    let asked = run::LabSpec {
        kernel,
        boot_line: baseline.boot_line.clone(),
        mode,
        mode_reason,
        cpus: baseline.cpus,
        duration,
        seed: baseline.seed,
        loads,
        witness: false,
        isolate: baseline.isolate.clone(),
        how: qemu::How::default(),
        causes: run::NO_CAUSES.into(),
        known: args.known.clone(),
        // A test that did not run never passes.
        fresh: true,
        patience,
    };
    let folder = args.how.output.clone().unwrap_or_else(::run::default_folder);
    let now = run::run(&asked, &scenarios, &folder, &progress(&args.how.out))?;
    let bundle = Bundle::open(&folder)?;
    report::write_into(&bundle, &ProveDocument::of(&bundle))?;
    now.ended()?;
    let judged = gate::judge(&baseline, &now);
    args.how.out.print_text(&report::terminal::gate(&judged, args.how.out.style()));
    args.how.out.json(&judged)?;
    judged.ended()
}

fn program(args: &LabProgramArgs) -> VerbResult {
    check_boot(&args.guest)?;
    let patience = patience(args.time_limit)?;
    let kernel = find_kernel(&args.guest, &patience)?;
    let (mode, _) = mode::choose(args.mode.as_deref().or(Some("count")), &kernel, &[], false, &patience)?;
    let ran = ::lab::program::run(&::lab::program::ProgramSpec {
        kernel: &kernel,
        boot_line: &boot_line(&args.guest, &kernel)?,
        cpus: args.guest.cpus,
        command: &args.command,
        files: args.files.as_deref(),
        mode,
        watched: args.record.is_some(),
        how: qemu::How {
            nmi_every: args.nmi,
            by_turns: args.by_turns,
            siblings: args.siblings,
            ..qemu::How::default()
        },
        known: &args.known,
        patience: &patience,
    });
    let ran = ran.map_err(|lost| {
        // How far it came, and all complaints: the error has the last words and the first complaint alone.
        if !lost.program_output().is_empty() {
            note_lines(lost.program_output());
        }
        lost.error
    })?;
    print(&ran.output)?;
    if let Some(file) = &args.record {
        evidence::writer::replace(file, ran.scope.as_bytes())?;
    }
    if let Some(first) = ran.log.warnings.first() {
        note_lines(ran.complaint.trim_end());
        return Err(format!("cannot trust the guest: its kernel complained: {first}").into());
    }
    match ran.status {
        0 => Ok(Outcome::Done),
        4 | 77 => Err("the program was skipped in the guest; it printed why".into()),
        status => Err(format!("the program failed in the guest with status {status}").into()),
    }
}

fn shell(args: &LabShellArgs) -> VerbResult {
    check_boot(&args.guest)?;
    let patience = patience(None)?;
    let kernel = find_kernel(&args.guest, &patience)?;
    ::lab::shell::run(&kernel, &boot_line(&args.guest, &kernel)?, args.guest.cpus, patience)?;
    Ok(Outcome::Done)
}
