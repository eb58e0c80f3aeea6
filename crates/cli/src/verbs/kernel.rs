// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator kernel`: Linux with the kernel part.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Command;

use evidence::Error;
use lab::architecture::Architecture;
use lab::build::make::BuildProgress;
use lab::build::series::PatchSeries;
use lab::build::{self, BuildObserver, BuildSpec, Built, Configuration};
use lab::patience::Patience;

use crate::args::{KernelBuildArgs, KernelExportArgs, KernelVerb, Output};
use crate::outcome::{Outcome, VerbResult};
use crate::output::{draw, note};
use crate::signals::stop_on_signals;

pub fn run(verb: &KernelVerb) -> VerbResult {
    match verb {
        KernelVerb::Build(args) => build(args),
        KernelVerb::Export(args) => export(args),
    }
}

fn build(args: &KernelBuildArgs) -> VerbResult {
    args.out.ready()?;
    let architecture = args.arch.as_deref().map(Architecture::named).transpose()?;
    let asked = BuildSpec {
        version: args.linux.clone(),
        architecture: architecture.unwrap_or_else(Architecture::of_this_program),
        configuration: Configuration::named(&args.config),
        with: args.with.clone(),
        source: args.source.clone(),
        series: args.series.clone(),
        unpatched: args.unpatched,
        machine: args.machine.clone(),
        fresh: args.fresh,
    };
    let patience = Patience { limit: None, stop: stop_on_signals()? };
    let line = ProgressLine::new(&args.out);
    let built = build::build(
        &asked,
        &BuildObserver {
            say: &|text| line.print(text),
            step: &|progress| line.step(&progress),
            patience: &patience,
        },
    );
    line.end();
    let mut built = built?;
    if built.kept {
        line.print("taken from the cache: it was built before of the same content; --fresh builds it again");
    }
    if let Some(folder) = &args.output {
        copy(&built, folder)?;
        built.folder = folder.display().to_string();
    }
    args.out.json(&built)?;
    args.out.print_text(&built_paths(&built));
    Ok(Outcome::Done)
}

/// The path that was asked for: the image's, or those of the packages.
fn built_paths(built: &Built) -> String {
    let path = |name: &String| Path::new(&built.folder).join(name).display().to_string();
    match &built.packages[..] {
        [] => path(&built.image),
        packages => packages.iter().map(path).collect::<Vec<_>>().join("\n"),
    }
}

fn copy(built: &Built, folder: &Path) -> evidence::Result<()> {
    // By its descriptor: another user may rename what lies above it. cp writes through links that are there.
    let own = untrusted::Folder::ours(folder).map_err(|e| Error::io("write to the folder", folder, &e))?;
    let from = std::path::absolute(&built.folder).map_err(|e| Error::io("find", folder, &e))?;
    let mut copy = Command::new("cp");
    copy.args(["-a", "--remove-destination"]).arg(from.join(".")).arg(".").current_dir(own.by_descriptor());
    let copied = copy.status();
    if copied.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Error::on(
        "copy the kernel to",
        folder.display(),
        "cp failed",
        "free some space, or choose another folder with -o",
    ))
}

fn export(args: &KernelExportArgs) -> VerbResult {
    let series = args.series.as_deref().map_or_else(|| Ok(PatchSeries::own()), PatchSeries::read)?;
    let patches = series.export(&args.linux, &args.group, &args.output)?;
    let folder = args.output.display();
    note(&format!(
        "isolator: {} patches for Linux {} in {folder}; apply them with git quiltimport --patches {folder}",
        patches.len(),
        args.linux
    ));
    Ok(Outcome::Done)
}

/// How far the build is, for people who wait: one line on a terminal that changes, else a line each tenth.
struct ProgressLine {
    quiet: bool,
    terminal: bool,
    /// The tenth, or on a terminal the second, that was last told.
    told: Cell<u64>,
    open: Cell<bool>,
}

impl ProgressLine {
    fn new(out: &Output) -> ProgressLine {
        let terminal = std::io::stderr().is_terminal() && crate::output::terminal_moves();
        ProgressLine { quiet: out.quiet, terminal, told: Cell::new(0), open: Cell::new(false) }
    }

    fn print(&self, text: &str) {
        self.end();
        if !self.quiet {
            note(&format!("isolator: {text}"));
        }
    }

    fn step(&self, progress: &BuildProgress) {
        let BuildProgress { done, of, elapsed } = *progress;
        let now = match (self.terminal, of) {
            (true, _) => elapsed.as_secs() + 1,
            (false, 0) => done / 500,
            (false, of) => done * 10 / of,
        };
        if self.quiet || self.told.replace(now) == now || now == 0 {
            return;
        }
        let left = match progress.left() {
            Some(left) => format!(", about {} left", build::duration_text(left)),
            None => String::new(),
        };
        let of = if of == 0 { String::new() } else { format!(" of {of}") };
        let text = format!("isolator: {done}{of} steps{left}");
        if self.terminal {
            self.open.set(true);
            // What is left of a longer line is wiped.
            let _ = std::io::stderr().write_all(draw(0, &text, false).as_bytes());
        } else {
            note(&text);
        }
    }

    /// Leaves the changing line.
    fn end(&self) {
        if self.open.replace(false) {
            note("");
        }
    }
}
