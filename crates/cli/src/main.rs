// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `isolator`: one file per verb.
#![forbid(unsafe_code)]

mod again;
mod args;
mod boots;
mod defect;
mod guide;
mod hidden;
mod judged;
mod keys;
mod live;
mod metrics;
mod named;
mod next;
mod outcome;
mod output;
mod program;
mod rights;
mod serve;
mod signals;
mod snapshot;
mod started;
mod unused;
mod usage;
mod values;
mod verbs;

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Verb};
use outcome::{Outcome, VerbResult};
use output::note;

/// Freed memory stays: giving it back would interrupt the measuring threads.
#[global_allocator]
static HEAP: rt::heap::KeepingHeap = rt::heap::KeepingHeap::new();

fn main() -> ExitCode {
    if let Err(error) = rights::give_up(std::env::args_os().nth(1).as_deref()) {
        let why = error::reason(&error.into());
        note(&format!("isolator: cannot give up the capabilities of the program's file: {why}; report this"));
        return Outcome::CouldNot.into();
    }
    defect::in_one_line();
    hidden::main().unwrap_or_else(|| defect::caught(|| by_verb(std::env::args_os())))
}

/// Parses the command line, carries out its verb, and reports how that ended.
fn by_verb(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args.peekable();
    let program = args.next();
    let (ended, has_reader) = if args.peek().is_none() {
        (guide::run(), true)
    } else {
        match Cli::try_parse_from(usage::join_json(program.into_iter().chain(args))) {
            Ok(cli) => {
                let has_reader = cli.verb.is_for_a_reader();
                (run(cli.verb), has_reader)
            }
            Err(error) => return wrong(&error),
        }
    };
    let lost = || output::lost(has_reader).map_or(Ok(()), |error| Err(error.clone().into()));
    match ended.and_then(|exit| lost().map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(error) => {
            note(&format!("isolator: {error}"));
            Outcome::CouldNot.into()
        }
    }
}

fn run(verb: Verb) -> VerbResult {
    if let Some(file) = verb.btf() {
        cause::bpf::use_types(file.to_path_buf())?;
    }
    match verb {
        Verb::Prove(args) => verbs::prove::run(args),
        Verb::Measure(args) => verbs::measure::run(args),
        Verb::Monitor(args) => verbs::monitor::run(&args),
        Verb::Lint(args) => verbs::lint::run(&args),
        Verb::Load(args) => verbs::load::run(&args),
        Verb::Report(args) => verbs::report::run(&args),
        Verb::Why(args) => verbs::why::run(&args),
        Verb::Record(args) => verbs::record::run(&args),
        Verb::Watch(args) => verbs::watch::run(&args),
        Verb::Compare(args) => verbs::compare::run(&args),
        Verb::Gate(args) => verbs::gate::run(&args),
        Verb::Fleet(verb) => verbs::fleet::run(verb),
        Verb::Import(args) => verbs::import::run(&args),
        Verb::Export(args) => verbs::export::run(&args),
        Verb::Lab(args) => verbs::lab::run(args),
        Verb::Ethercat(verb) => verbs::ethercat::run(&verb),
        Verb::Kernel(args) => verbs::kernel::run(&args),
        Verb::Run(args) => verbs::run::run(&args),
        Verb::Doctor(args) => verbs::doctor::run(&args),
        Verb::Task(verb) => verbs::task::run(verb),
        Verb::Tune(verb) => verbs::tune::run(verb),
        Verb::SetupUser(args) => verbs::setup_user::run(&args),
        #[cfg(feature = "generate")]
        Verb::Generate(args) => verbs::generate::run(&args),
    }
}

/// Help and version go out as they are; a wrong command line becomes one line and exit status 1.
fn wrong(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let text = error.render();
        let is_colored = std::io::stdout().is_terminal() && output::color_allowed();
        let printed = match is_colored {
            true => output::print(&text.ansi().to_string()),
            false => output::print(&text.to_string()),
        };
        return match printed.err().as_ref().or(output::lost(true)) {
            None => ExitCode::SUCCESS,
            Some(error) => {
                note(&format!("isolator: {error}"));
                Outcome::CouldNot.into()
            }
        };
    }
    let verb = std::env::args_os().nth(1);
    note(&format!("isolator: {}", usage::line(error, verb.as_deref().and_then(OsStr::to_str))));
    Outcome::CouldNot.into()
}
