// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator monitor`: a program's own loops as a probe, whether it hands them over or knows nothing of it.

use std::num::NonZeroU64;

use evidence::manifest::Asked;
use machine::Use;
use machine::purpose::UseKind;

use crate::args::{LoopPeriod, MonitorArgs, RunOptions};
use crate::live::View;
use crate::outcome::VerbResult;
use crate::program::{self, ProgramChoice, ProgramTarget, Shown};
use crate::verbs::prove::under;

pub fn run(args: &MonitorArgs) -> VerbResult {
    let asked = Asked { flight: args.flight, ..Asked::default() };
    let asked = under(asked, args.loads.as_deref().unwrap_or("idle"))?;
    let options = RunOptions {
        purpose: args.purpose.clone(),
        detail: args.detail,
        house_keeping: args.house_keeping.clone(),
        duration: args.duration,
        loops: args.loops,
        causes: args.causes,
        verdict: args.verdict.clone(),
        boots: args.boots.clone(),
        spikes: args.spikes.clone(),
        output: args.output.clone(),
        ..RunOptions::default()
    };
    let target = match (&args.program, &args.from) {
        (Some(program), _) => ProgramTarget::Running(program.clone()),
        (None, Some(trace)) => ProgramTarget::Trace(trace.clone()),
        (None, None) => ProgramTarget::Command(args.command.clone()),
    };
    let bounds = program::bounds(&args.begin, &args.end)?;
    let choice = ProgramChoice {
        target,
        threads: args.thread.clone(),
        period: args.period.or_else(|| period_of(args.purpose.as_ref())),
        bounds,
        source: args.source.unwrap_or_default(),
    };
    let shown = Shown { view: View::Threads, prometheus: args.prometheus.as_deref() };
    program::measure(&choice, asked, &options, shown, &args.out)
}

/// The period of a use whose program is woken by a device: nothing in the program tells it.
fn period_of(purpose: Option<&Use>) -> Option<LoopPeriod> {
    let purpose = purpose.filter(|purpose| purpose.kind == UseKind::Audio)?;
    purpose.period_ns.and_then(NonZeroU64::new).map(LoopPeriod::Given)
}
