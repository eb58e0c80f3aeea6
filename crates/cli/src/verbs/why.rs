// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator why`: the spikes of a bundle by their causes, from the evidence alone.

use evidence::Bundle;
use machine::CpuSet;
use report::terminal::WhyExtent;
use trace::choice::SourceChoice;
use why::{Question, TOP, WhyDocument};

use crate::args::{RunOptions, WhyArgs};
use crate::next;
use crate::outcome::{Outcome, VerbResult};
use crate::program::{self, ProgramChoice, ProgramTarget};
use crate::signals::stops;

/// The longest spikes among whose causes those of the screen are.
const LOOKED_AT: usize = 1_000;

pub fn run(args: &WhyArgs) -> VerbResult {
    let bundle = match ftrace::recorded::is_trace(&args.bundle) {
        true => of_trace(args)?,
        false => args.judge.open(&args.bundle)?,
    };
    let question = Question { top: args.top.unwrap_or(TOP), cpus: args.cpu.clone(), load: args.load.clone() };
    sensible(&bundle, &question)?;
    let document = WhyDocument::of(&bundle, &question);
    args.out.json(&document)?;
    if args.all || args.top.is_some() {
        args.out.print_text(&report::terminal::why(&document, WhyExtent::All, args.out.style()));
    } else {
        // One line is for the next command.
        let lines = args.out.lines().map_or(0, |lines| lines.saturating_sub(1));
        // A cause that comes often hides others among the longest spikes.
        let more = WhyDocument::of(&bundle, &Question { top: LOOKED_AT, ..question });
        args.out.print_text(&report::terminal::why(&more, WhyExtent::Screen(lines), args.out.style()));
    }
    next::say(next::after_why(&bundle, &document), &args.out);
    Ok(Outcome::Done)
}

/// The loops of a trace that another tool recorded, as evidence of their own.
fn of_trace(args: &WhyArgs) -> Result<Bundle, Box<dyn std::error::Error>> {
    let target = ProgramTarget::Trace(args.bundle.clone());
    let (threads, source) = (args.thread.clone(), SourceChoice::default());
    let choice = ProgramChoice { target, threads, period: None, bounds: None, source };
    let bundle =
        program::of_trace(&args.bundle, &choice, args.judge.asked()?, None, stops(&RunOptions::default())?)?;
    args.out.print_text(&format!("isolator: the loops of the trace are in {}", bundle.path.display()));
    Ok(bundle)
}

/// Refuses a question about what was not measured: an empty answer would read as "no spikes".
fn sensible(bundle: &Bundle, question: &Question) -> Result<(), String> {
    let rows = &bundle.manifest.rows;
    let measured: CpuSet = rows.iter().map(|row| row.key.cpu).collect();
    if let Some(cpus) = question.cpus.as_ref().filter(|cpus| !cpus.iter().any(|cpu| measured.contains(cpu))) {
        let has = if measured.is_empty() { "none".to_string() } else { measured.to_string() };
        return Err(format!(
            "cannot show cpu {cpus}: the bundle measured {has}; choose from these with --cpu"
        ));
    }
    if let (Some(load), false) = (&question.load, rows.iter().any(|row| question.is_load(&row.key.load))) {
        let mut loads: Vec<_> = rows.iter().map(|row| row.key.load.as_str()).collect();
        loads.dedup();
        let has = if loads.is_empty() { "none".to_string() } else { loads.join(", ") };
        return Err(format!(
            "cannot show load {load}: the bundle measured {has}; choose from these with --load"
        ));
    }
    Ok(())
}
