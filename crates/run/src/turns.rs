// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of a plan's setting on this machine: measured without it and with it, by turns.
//!
//! Each measurement is the program `isolator` again (`measure`), so that it is the same as one by hand: a
//! process that has measured keeps its locked memory and its CPUs. A setting is set by a transaction and
//! off by undoing it: one that a dead process left on is undone by `tune rollback`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use error::{Error, Result};
use evidence::Bundle;
use tune::measure::{MeasuredSetting, PlanSetting, SettingEffect};
use tune::plan::Plan;
use tune::system::System;
use untrusted::Scratch;

use crate::held::Held;

/// Gaps below this are the spin loop's own.
const GAP_NS: u64 = 1000;

/// Figures of one measurement: wakeup p99 and mean in us, lost time in us a second.
type TurnFigures = [f64; 3];
const FIGURES: [(&str, &str); 3] = [("wakeup-p99", "us"), ("wakeup-mean", "us"), ("spin-lost", "us/s")];

/// How the measurements are made.
pub struct Turns<'a> {
    cpu: u32,
    rounds: u32,
    duration: Duration,
    warm_up: Duration,
    stop: &'a AtomicBool,
    program: PathBuf,
    /// For the measurements' bundles.
    folder: Scratch,
}

impl<'a> Turns<'a> {
    /// Measurements on `cpu` by this program, each of that duration after a warm-up; `stop` ends them.
    pub fn new(
        cpu: u32,
        rounds: u32,
        duration: Duration,
        warm_up: Duration,
        stop: &'a AtomicBool,
    ) -> Result<Turns<'a>> {
        let program = std::env::current_exe()
            .map_err(|error| Error::on("find", "this program", error, "start it by its path"))?;
        let folder = Scratch::temporary("isolator-measure-").map_err(|error| {
            Error::on(
                "make",
                "a temporary folder",
                error::reason(&error),
                "set TMPDIR to a folder of this user",
            )
        })?;
        Ok(Turns { cpu, rounds, duration, warm_up, stop, program, folder })
    }

    /// All rounds of one setting, its changes under the record `id`; the inner error is why it was not
    /// measured, with the machine as it was. Settings that cannot be restored go to `left`.
    pub fn setting(
        &self,
        system: &mut dyn System,
        plan: &Plan,
        setting: &PlanSetting,
        id: &str,
        left: &mut dyn FnMut(&str),
    ) -> Result<std::result::Result<MeasuredSetting, String>> {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            // Which is first alternates, so that what drifts within a round favours neither.
            for on in if round % 2 == 0 { [false, true] } else { [true, false] } {
                if self.stop.load(Ordering::SeqCst) {
                    return Ok(Err("interrupted".to_string()));
                }
                if !on {
                    without.push(self.figures()?);
                    continue;
                }
                // A setting that changes nothing here is none to measure.
                let held = match Held::hold(system, id, &plan.digest, &setting.actions)? {
                    Ok(held) => held,
                    Err(reason) => return Ok(Err(reason)),
                };
                let figures = self.figures();
                held.release(system).iter().for_each(|what| left(what));
                with.push(figures?);
            }
        }
        let effects = FIGURES.iter().enumerate().filter_map(|(at, (name, unit))| {
            let of = |all: &[TurnFigures]| all.iter().map(|figures| figures[at]).collect::<Vec<_>>();
            SettingEffect::of(name, unit, &of(&without), &of(&with))
        });
        Ok(Ok(MeasuredSetting::new(setting, effects.collect())))
    }

    /// A bundle in `folder`, to compare with one after the reboot; its name.
    pub fn prove_into(&self, folder: &Path) -> Result<String> {
        let args = ["prove", "--quiet", "--cpus", &self.cpu.to_string(), "--output"];
        self.run(&args, Path::new("."), folder, folder.display())?;
        Ok(folder.display().to_string())
    }

    fn figures(&self) -> Result<TurnFigures> {
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
        let seconds = self.duration.as_secs_f64();
        Ok([slept.quantile_ns(0.99) as f64 / 1e3, slept.mean_ns() / 1e3, lost / 1e3 / seconds])
    }

    /// One measurement.
    fn probe(&self, probe: &str) -> Result<Bundle> {
        let folder = Scratch::below(&self.folder.path(), "bundle-")
            .map_err(|error| Error::io("make a folder in", &self.folder.path(), &error))?;
        let of = |time: Duration| format!("{}us", time.as_micros());
        let (cpu, duration, warm_up) = (self.cpu.to_string(), of(self.duration), of(self.warm_up));
        let args = [
            "measure",
            probe,
            "--quiet",
            "--cpus",
            &cpu,
            "--duration",
            &duration,
            "--warm-up",
            &warm_up,
            "--output",
        ];
        self.run(&args, &folder.path(), Path::new("."), probe)?;
        Bundle::open(&folder.path())
    }

    /// Runs this program in the folder `at`; `folder` is its last argument.
    fn run(&self, args: &[&str], at: &Path, folder: &Path, what: impl std::fmt::Display) -> Result<()> {
        let mut command = Command::new(&self.program);
        let ran = command.args(args).arg(folder).current_dir(at).stdout(Stdio::null()).output();
        let ran = ran.map_err(|error| Error::on("start", "this program again", error, "try again"))?;
        // 2: some limit does not hold, which is not asked here.
        if matches!(ran.status.code(), Some(0 | 2)) {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&ran.stderr);
        let why = words.lines().last().unwrap_or("it printed nothing").trim_start_matches("isolator: ");
        Err(Error::on("measure", what, why, "see what it says"))
    }
}
