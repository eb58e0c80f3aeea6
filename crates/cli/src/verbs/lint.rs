// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lint`: what a program does that a real-time thread must not.

use std::path::Path;
use std::process::Stdio;

use lint::{LintChoice, LintDocument, lint};

use crate::args::LintArgs;
use crate::next;
use crate::outcome::{Document, Outcome, VerbResult};
use crate::output::{can_write, print};
use crate::signals::stop_on_signals;
use crate::started::MeasuredProgram;

pub fn run(args: &LintArgs) -> VerbResult {
    let files = [&args.junit, &args.sarif, &args.out.json];
    files.into_iter().flatten().try_for_each(|file| can_write(file))?;
    if files.iter().filter(|file| is_stdout(file.as_deref())).count() > 1 {
        return Err(
            "only one of --json -, --junit - and --sarif - can be given; write the others to files".into()
        );
    }
    let document = match watched(args) {
        Ok(Some(document)) => document,
        Ok(None) => return Ok(Outcome::CouldNot),
        Err(error) => {
            // A CI system learns the reason from the file too.
            let program = args.process.map(|process| process.to_string());
            let program = program.or(args.command.first().cloned()).unwrap_or_default();
            let why = report::junit_lint_error(&program, &error.to_string());
            write(args.junit.as_deref(), &why)?;
            return Err(error);
        }
    };
    args.out.json(&document)?;
    write(args.junit.as_deref(), &report::junit_lint(&document))?;
    if args.sarif.is_some() {
        let root = std::env::current_dir().unwrap_or_default();
        let log = report::sarif(&document, &root, env!("CARGO_PKG_VERSION"));
        let text = serde_json::to_string_pretty(&log)? + "\n";
        write(args.sarif.as_deref(), &untrusted::text::json(&text))?;
    }
    if !is_stdout(args.junit.as_deref()) && !is_stdout(args.sarif.as_deref()) {
        args.out.print_text(report::terminal::lint(&document, args.out.style()).trim_end());
        next::say(next::after_lint(args, &document), &args.out);
    }
    document.ended()
}

fn is_stdout(file: Option<&Path>) -> bool {
    file == Some(Path::new("-"))
}

fn write(file: Option<&Path>, text: &str) -> evidence::Result<()> {
    match file {
        Some(_) if is_stdout(file) => print(text),
        Some(path) => evidence::writer::replace(path, text.as_bytes()),
        None => Ok(()),
    }
}

/// The findings; `None` where a signal came before.
fn watched(args: &LintArgs) -> Result<Option<LintDocument>, Box<dyn std::error::Error>> {
    let stop = stop_on_signals()?;
    // What the program prints must not stand within a document.
    let has_document =
        [&args.junit, &args.sarif, &args.out.json].iter().any(|file| is_stdout(file.as_deref()));
    let stdout = if has_document { std::io::stderr().into() } else { Stdio::inherit() };
    let started = match args.command.is_empty() {
        true => None,
        false => Some(MeasuredProgram::start(&args.command, stdout)?),
    };
    let process = started.as_ref().map(MeasuredProgram::process).or(args.process).unwrap_or_default();
    let choice = LintChoice {
        process,
        threads: args.thread.clone(),
        duration: args.duration,
        is_new: started.is_some(),
    };
    Ok(lint(&choice, &stop)?)
}
