// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune measure`: what each setting of a plan is worth on this machine.

use std::path::Path;
use std::sync::atomic::Ordering;

use ::tune::measure::{FEWEST_ROUNDS, MeasuredPlan, PlanSetting, SCHEMA_VERSION, settings};
use ::tune::plan::{MadeFor, Plan, Skipped, plan};
use evidence::Error;
use run::held::nothing_else;
use run::turns::Turns;

use super::here::LocalMachine;
use super::plan::intent;
use super::verify;
use crate::args::TuneMeasureArgs;
use crate::outcome::{Outcome, VerbResult};
use crate::output::note;
use crate::signals::stop_on_signals;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

pub fn run(args: &TuneMeasureArgs) -> VerbResult {
    args.out.ready()?;
    if (args.rounds as usize) < FEWEST_ROUNDS {
        let why = format!("{} rounds give no interval at 95 %", args.rounds);
        return Err(
            Error::on("measure", "the settings", why, format!("ask for {FEWEST_ROUNDS} or more")).into()
        );
    }
    let root = Path::new("/");
    let mut machine = LocalMachine::open(root, "measure settings", true)?;
    let plan = the_plan(args)?;
    let here = machine.here(root);
    let record = format!("{}-measure", here.stamp);
    let system = here.system;
    nothing_else(system, "measure", "the settings")?;
    let stop = stop_on_signals()?;
    let cpus = if plan.real_time.is_empty() { plan.housekeeping.clone() } else { plan.real_time.clone() };
    let cpu = cpus.iter().max().unwrap_or_default();
    let turns = Turns::new(cpu, args.rounds, args.duration, args.warm_up, &stop)?;
    let (mut wanted, mut skipped) = settings(&plan);
    chosen(args, &mut wanted)?;
    announce(args, wanted.len());
    let mut measured = Vec::new();
    for (at, setting) in wanted.iter().enumerate() {
        if !args.out.quiet {
            note(&format!("isolator: {} ({} of {})", setting.name, at + 1, wanted.len()));
        }
        let left = &mut |what: &str| note(&format!("isolator: left as it is: {what}"));
        match turns.setting(system, &plan, setting, &record, left)? {
            Ok(one) => measured.push(one),
            Err(reason) => skipped.push(Skipped { what: setting.name.clone(), reason }),
        }
    }
    let before = args.before.as_ref().filter(|_| !stop.load(Ordering::SeqCst));
    let measured = MeasuredPlan {
        schema_version: SCHEMA_VERSION,
        plan: plan.digest.clone(),
        cpu,
        rounds: args.rounds,
        seconds: args.duration.as_secs_f64(),
        settings: measured,
        skipped,
        before: before.map(|folder| turns.prove_into(folder)).transpose()?,
    };
    args.out.print_text(report::terminal::tune::settings(&measured, args.out.style()).trim_end());
    args.out.json(&measured)?;
    Ok(Outcome::Done)
}

/// The plan in the file, or the one that is wanted.
fn the_plan(args: &TuneMeasureArgs) -> Result<Plan> {
    let machine = inspect::read(Path::new("/"));
    let here = MadeFor::here(Path::new("/"), &machine);
    let Some(path) = &args.plan else {
        return Ok(plan(&machine, &here, &intent(&args.wanted)?)?);
    };
    let plan = verify::read(path)?;
    match plan.made_for.refuses(&here) {
        Some(refusal) => Err(Error::on("use the plan", path.display(), refusal.reason, refusal.cure).into()),
        None => Ok(plan),
    }
}

/// Keeps the settings that were named, where any were.
fn chosen(args: &TuneMeasureArgs, wanted: &mut Vec<PlanSetting>) -> Result<()> {
    let names = wanted.iter().map(|setting| setting.name.clone()).collect::<Vec<_>>();
    if let Some(unknown) = args.only.iter().find(|name| !names.contains(name)) {
        let cure = format!("choose from {}", names.join(", "));
        return Err(Error::on("measure", format!("'{unknown}'"), "the plan has no such setting", cure).into());
    }
    if !args.only.is_empty() {
        wanted.retain(|setting| args.only.contains(&setting.name));
    }
    Ok(())
}

fn announce(args: &TuneMeasureArgs, settings: usize) {
    let each = (args.duration + args.warm_up).as_secs_f64() + 0.5;
    let minutes = settings as f64 * f64::from(args.rounds) * 4.0 * each / 60.0;
    if !args.out.quiet {
        note(&format!(
            "isolator: {settings} settings, {} rounds: about {minutes:.0} min; Ctrl-C ends it",
            args.rounds
        ));
    }
}
