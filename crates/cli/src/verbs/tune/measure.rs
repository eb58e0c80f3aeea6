// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune measure`: what each knob of a plan is worth on this machine, one at a time, without and with it by turns.
//!
//! Each measurement is this program again (`measure`), so that it is the same as one by hand. A knob is turned on by a
//! transaction and off by undoing it: one that a dead process left on is undone by `tune rollback`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::tune::measure::{Effect, FEWEST_ROUNDS, Knob, Measured, MeasuredKnob, SCHEMA_VERSION, knobs, view};
use ::tune::plan::{MadeFor, Plan, Skipped, plan};
use ::tune::system::System;
use evidence::{Bundle, Error};

use super::held::{Held, nothing_else};
use super::here::Machine;
use super::plan::intent;
use super::verify;
use crate::args::TuneMeasureArgs;
use crate::output::{Exit, Outcome, tell};
use crate::signals::stop_on_signals;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Gaps below this are the spin loop's own.
const GAP_NS: u64 = 1000;

/// How the measurements are made.
struct Bench<'a> {
    args: &'a TuneMeasureArgs,
    cpu: u32,
    folder: PathBuf,
    stop: &'a AtomicBool,
}

/// A folder for the measurements' bundles, gone with the process.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::result::Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("isolator-measure-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Error::io("make the folder", &path, &error))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody misses it where it stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Figures of one measurement: wakeup p99 and mean in us, lost time in us a second.
type Figures = [f64; 3];
const FIGURES: [(&str, &str); 3] = [("wakeup-p99", "us"), ("wakeup-mean", "us"), ("spin-lost", "us/s")];

pub fn run(args: &TuneMeasureArgs) -> Outcome {
    args.out.ready()?;
    if (args.rounds as usize) < FEWEST_ROUNDS {
        let why = format!("{} rounds give no interval at 95 %", args.rounds);
        return Err(Error::on("measure", "the knobs", why, format!("ask for {FEWEST_ROUNDS} or more")).into());
    }
    let root = Path::new("/");
    let mut machine = Machine::open(root, "measure knobs", true)?;
    let plan = the_plan(args)?;
    let here = machine.here(root);
    let record = format!("{}-measure", here.stamp);
    let system = here.system;
    nothing_else(system, "measure", "the knobs")?;
    let stop = stop_on_signals()?;
    let folder = Scratch::new()?;
    let cpus = if plan.real_time.is_empty() { plan.housekeeping.clone() } else { plan.real_time.clone() };
    let cpu = cpus.iter().max().unwrap_or_default();
    let bench = Bench { args, cpu, folder: folder.0.clone(), stop: &stop };
    let (mut wanted, mut skipped) = knobs(&plan);
    chosen(args, &mut wanted)?;
    announce(args, wanted.len());
    let mut measured = Vec::new();
    for (at, knob) in wanted.iter().enumerate() {
        if !args.out.quiet {
            tell(&format!("isolator: {} ({} of {})", knob.name, at + 1, wanted.len()));
        }
        match bench.knob(system, &plan, knob, &record)? {
            Ok(one) => measured.push(one),
            Err(reason) => skipped.push(Skipped { what: knob.name.clone(), reason }),
        }
    }
    let measured = Measured {
        schema_version: SCHEMA_VERSION,
        plan: plan.digest.clone(),
        cpu,
        rounds: args.rounds,
        seconds: args.duration.as_secs_f64(),
        knobs: measured,
        skipped,
        before: bench.before()?,
    };
    args.out.say(view::text(&measured, args.out.style().width).trim_end());
    args.out.json(&measured)?;
    Ok(Exit::Held)
}

/// The plan in the file, or the one that is wanted.
fn the_plan(args: &TuneMeasureArgs) -> Result<Plan> {
    let machine = machine::read(Path::new("/"));
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

/// Keeps the knobs that were named, where any were.
fn chosen(args: &TuneMeasureArgs, wanted: &mut Vec<Knob>) -> Result<()> {
    let names = wanted.iter().map(|knob| knob.name.clone()).collect::<Vec<_>>();
    if let Some(unknown) = args.only.iter().find(|name| !names.contains(name)) {
        let cure = format!("choose from {}", names.join(", "));
        return Err(Error::on("measure", format!("'{unknown}'"), "the plan has no such knob", cure).into());
    }
    if !args.only.is_empty() {
        wanted.retain(|knob| args.only.contains(&knob.name));
    }
    Ok(())
}

fn announce(args: &TuneMeasureArgs, knobs: usize) {
    let each = (args.duration + args.warm_up).as_secs_f64() + 0.5;
    let minutes = knobs as f64 * f64::from(args.rounds) * 4.0 * each / 60.0;
    if !args.out.quiet {
        tell(&format!(
            "isolator: {knobs} knobs, {} rounds: about {minutes:.0} min; Ctrl-C ends it",
            args.rounds
        ));
    }
}

impl Bench<'_> {
    /// All rounds of one knob; the inner error is why it was not measured, with the machine as it was.
    fn knob(
        &self,
        system: &mut dyn System,
        plan: &Plan,
        knob: &Knob,
        id: &str,
    ) -> Result<std::result::Result<MeasuredKnob, String>> {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for round in 0..self.args.rounds {
            // Who is first alternates, so that what drifts within a round favours neither.
            for on in if round % 2 == 0 { [false, true] } else { [true, false] } {
                if self.stop.load(Ordering::SeqCst) {
                    return Ok(Err("interrupted".to_string()));
                }
                if !on {
                    without.push(self.figures()?);
                    continue;
                }
                // A knob that changes nothing here is none to measure.
                let held = match Held::hold(system, id, &plan.digest, &knob.actions)? {
                    Ok(held) => held,
                    Err(reason) => return Ok(Err(reason)),
                };
                let figures = self.figures();
                held.release(system)?;
                with.push(figures?);
            }
        }
        let effects = FIGURES.iter().enumerate().filter_map(|(at, (name, unit))| {
            let of = |all: &[Figures]| all.iter().map(|figures| figures[at]).collect::<Vec<_>>();
            Effect::of(name, unit, &of(&without), &of(&with))
        });
        Ok(Ok(MeasuredKnob::new(knob, effects.collect())))
    }

    fn figures(&self) -> Result<Figures> {
        let wakeup = self.probe("wakeup")?;
        let spin = self.probe("spin")?;
        let histogram =
            |bundle: &Bundle| bundle.rows.first().map(|row| row.series.latency.clone()).unwrap_or_default();
        let (slept, spun) = (histogram(&wakeup), histogram(&spin));
        let lost: f64 = spun
            .buckets()
            .filter(|bucket| bucket.from_ns >= GAP_NS)
            .map(|bucket| bucket.count as f64 * (bucket.from_ns + bucket.to_ns) as f64 / 2.0)
            .sum();
        let seconds = self.args.duration.as_secs_f64();
        Ok([slept.quantile_ns(0.99) as f64 / 1e3, slept.mean_ns() / 1e3, lost / 1e3 / seconds])
    }

    /// One measurement, by this program.
    fn probe(&self, probe: &str) -> Result<Bundle> {
        let folder = self.folder.join(probe);
        // The last one's.
        let _ = std::fs::remove_dir_all(&folder);
        let of = |time: Duration| format!("{}us", time.as_micros());
        let ran = self
            .program()?
            .args(["measure", probe, "--quiet", "--cpus", &self.cpu.to_string()])
            .args(["--duration", &of(self.args.duration), "--warm-up", &of(self.args.warm_up), "--output"])
            .arg(&folder)
            .stdout(Stdio::null())
            .output()
            .map_err(|error| Error::on("start", "this program again", error, "try again"))?;
        // 2: some limit does not hold, which is not asked here.
        if !matches!(ran.status.code(), Some(0 | 2)) {
            let why =
                String::from_utf8_lossy(&ran.stderr).lines().last().unwrap_or("it said nothing").to_string();
            return Err(Error::on(
                "measure with",
                probe,
                why.trim_start_matches("isolator: "),
                "see what it says",
            )
            .into());
        }
        Ok(Bundle::open(&folder)?)
    }

    /// A bundle to compare with one after the reboot, where one is wanted.
    fn before(&self) -> Result<Option<String>> {
        let Some(folder) = self.args.before.as_ref().filter(|_| !self.stop.load(Ordering::SeqCst)) else {
            return Ok(None);
        };
        let ran = self
            .program()?
            .args(["prove", "--quiet", "--cpus", &self.cpu.to_string(), "--output"])
            .arg(folder)
            .stdout(Stdio::null())
            .status()
            .map_err(|error| Error::on("start", "this program again", error, "try again"))?;
        if !matches!(ran.code(), Some(0 | 2)) {
            return Err(Error::on("measure into", folder.display(), "it failed", "see what it says").into());
        }
        Ok(Some(folder.display().to_string()))
    }

    fn program(&self) -> Result<Command> {
        let program = std::env::current_exe()
            .map_err(|error| Error::on("find", "this program", error, "start it by its path"))?;
        Ok(Command::new(program))
    }
}
