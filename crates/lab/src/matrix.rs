// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrices: the same scenarios on several kernels and boot lines, side by side, with what changed.
//!
//! `matrices.toml` holds those that there are. A step becomes a bundle of its own; the table is made of all
//! of them.

use std::path::Path;
use std::time::Duration;

use evidence::lab::{LabDocument, LabRow, MatrixCell, MatrixDocument, Mode};
use evidence::manifest::SCHEMA_VERSION;
use evidence::{Bundle, Summary};
use machine::units::exact_us;
use serde::Deserialize;

use crate::architecture::Architecture;
use crate::kernel::{self, GuestKernel};
use crate::patience::Patience;
use crate::qemu::How;
use crate::run::{self, LabSpec};
use crate::{Error, Result, boot, mode, scenario};

/// CPUs of each guest.
const CPUS: u32 = 2;

/// A matrix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Its name.
    pub name: String,
    /// A description of it.
    pub about: String,
    /// Of the steps that name none.
    #[serde(default)]
    scenarios: Vec<String>,
    step: Vec<MatrixBundle>,
    /// An article's figures of the same places.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// One bundle of a matrix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixBundle {
    kernel: String,
    boot: String,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    isolate: Option<String>,
    #[serde(default)]
    scenarios: Vec<String>,
    #[serde(default = "idle")]
    loads: Vec<String>,
}

/// An article's figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The article's name for it.
    pub row: String,
    /// The kernel, as steps name it.
    pub kernel: String,
    /// The boot line, likewise.
    pub boot: String,
    /// The load.
    pub load: String,
    /// The largest latency on the article's machine.
    pub max_us: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixFile {
    matrix: Vec<Matrix>,
}

/// The user's choice of a matrix.
#[derive(Debug, Clone)]
pub struct MatrixChoice {
    /// The guests' architecture.
    pub architecture: Architecture,
    /// Length of each window.
    pub duration: Duration,
    /// Seed of storms.
    pub seed: u64,
    /// Further kernels, run as the first step is.
    pub also: Vec<String>,
    /// Whether guests that ran before with the same content are run again.
    pub fresh: bool,
    /// How long guests are waited for.
    pub patience: Patience,
}

fn idle() -> Vec<String> {
    vec![run::IDLE.to_string()]
}

/// The matrices that there are.
pub fn all() -> Result<Vec<Matrix>> {
    let file: std::result::Result<MatrixFile, _> = toml::from_str(include_str!("matrices.toml"));
    let why = |e: toml::de::Error| Error::on("read", "matrices.toml", e.message(), "report this");
    let mut all = file.map_err(why)?.matrix;
    for Matrix { scenarios, step, .. } in &mut all {
        let own = step.iter_mut().filter(|step| step.scenarios.is_empty());
        own.for_each(|step| step.scenarios.clone_from(scenarios));
    }
    Ok(all)
}

/// The matrix called `name`.
pub fn named(name: &str) -> Result<Matrix> {
    let all = all()?;
    let names = all.iter().map(|matrix| matrix.name.clone()).collect::<Vec<_>>().join(", ");
    let found = all.into_iter().find(|matrix| matrix.name == name);
    found.ok_or_else(|| {
        let (what, why) = ("run the matrix", "there is none of that name");
        Error::on(what, format!("'{name}'"), why, format!("choose from {names}"))
    })
}

/// Runs a matrix into `folder`, a bundle for each step, and gives the table.
pub fn run(
    matrix: &Matrix,
    choice: &MatrixChoice,
    folder: &Path,
    say: &(dyn Fn(&str) + Sync),
) -> Result<MatrixDocument> {
    let steps = matrix.steps(&choice.also);
    // A kernel that is missing ends the matrix before its first guest.
    let find = |step: &MatrixBundle| {
        kernel::find(&step.kernel, choice.architecture, &choice.patience, &|text| say(text))
    };
    let kernels = steps.iter().map(find).collect::<Result<Vec<_>>>()?;
    let mut cells = Vec::new();
    let (mut complaint, mut not_run_again) = (None, Vec::new());
    for (n, (step, kernel)) in steps.iter().zip(kernels).enumerate() {
        say(&format!(
            "step {} of {}: {} with the boot line {}{}",
            n + 1,
            steps.len(),
            step.kernel,
            step.boot,
            if step.isolate.is_some() { ", isolated" } else { "" }
        ));
        let scenarios = scenario::named(&step.scenarios)?;
        let mode = step.mode.as_deref().or(Some("count"));
        let (mode, mode_reason) = mode::choose(mode, &kernel, &scenarios, false, &choice.patience)?;
        let asked = LabSpec {
            kernel,
            boot_line: boot::line(&step.boot, CPUS)?,
            mode,
            mode_reason,
            cpus: CPUS,
            duration: choice.duration,
            seed: choice.seed,
            loads: step.loads.clone(),
            witness: false,
            isolate: step.isolate.clone(),
            how: How::default(),
            causes: run::NO_CAUSES.into(),
            known: Vec::new(),
            fresh: choice.fresh,
            patience: choice.patience.clone(),
        };
        let also = n.checked_sub(matrix.step.len());
        let bundle = folder.join(bundle_name(step, &asked.kernel, mode, also));
        let document = run::run(&asked, &scenarios, &bundle, say)?;
        complaint = complaint.or_else(|| run::complaint(&document));
        let cached = document.not_run_again.iter();
        not_run_again.extend(cached.map(|cached| format!("{} with {}: {cached}", step.kernel, step.boot)));
        let name = if step.kernel.contains('/') { &document.kernel } else { &step.kernel };
        cells.extend(step_cells(matrix, step, name, &document, &Bundle::open(&bundle)?));
    }
    set_changes(&mut cells);
    Ok(MatrixDocument {
        schema_version: SCHEMA_VERSION,
        matrix: matrix.name.clone(),
        about: matrix.about.clone(),
        cells,
        complaint,
        not_run_again,
    })
}

impl Matrix {
    /// Its steps, and the first one again on each of the kernels `also`.
    fn steps(&self, also: &[String]) -> Vec<MatrixBundle> {
        let first = self.step.first();
        let again =
            |kernel: &String| first.map(|first| MatrixBundle { kernel: kernel.clone(), ..first.clone() });
        self.step.iter().cloned().chain(also.iter().filter_map(again)).collect()
    }
}

/// The folder of a step; a kernel of the user's has a number too, and no path in it.
fn bundle_name(step: &MatrixBundle, kernel: &GuestKernel, mode: Mode, also: Option<usize>) -> String {
    let isolated = if step.isolate.is_some() { "-isolated" } else { "" };
    let kernel = match also {
        Some(n) => format!("also-{}-{}", n + 1, kernel.release),
        None => step.kernel.replace(':', "-"),
    };
    format!("{kernel}-{}-{}{isolated}", step.boot, mode.name())
}

/// A cell for each scenario under each load of a step, whose kernel is called `kernel`.
fn step_cells(
    matrix: &Matrix,
    step: &MatrixBundle,
    kernel: &str,
    document: &LabDocument,
    bundle: &Bundle,
) -> Vec<MatrixCell> {
    let labels = step
        .scenarios
        .iter()
        .flat_map(|scenario| step.loads.iter().map(move |load| (scenario, load, run::label(scenario, load))));
    let cell = |(scenario, load, label): (&String, &String, String)| {
        let row = document.rows.iter().find(|row| row.scenario == label);
        let latency = bundle.rows.iter().map(Summary::of).find(|summary| summary.key.load == label);
        let latency = latency.filter(|_| document.mode != Mode::Count);
        let published = matrix.published.iter().find(|published| {
            (&published.kernel, &published.boot, &published.load) == (&step.kernel, &step.boot, load)
        });
        MatrixCell {
            scenario: scenario.clone(),
            load: load.clone(),
            kernel: kernel.to_string(),
            boot: step.boot.clone(),
            isolate: step.isolate.clone(),
            mode: document.mode,
            breaches: row.and_then(LabRow::breaches),
            deferred: row.and_then(LabRow::deferred),
            excursions: row.map(|row| row.excursions),
            kernel_instructions: row.map(|row| row.kernel_instructions),
            max_kernel_instructions: row.map(|row| row.max_kernel_instructions),
            max_ns: latency.map(|summary| summary.max_ns),
            change_percent: None,
            published: published.map(|published| {
                format!("{}: {}", published.row, exact_us((published.max_us * 1e3).round() as u64))
            }),
            bundle: document.bundle.clone(),
        }
    };
    labels.map(cell).collect()
}

/// Sets each cell's change against the first one of the same scenario, load and mode: excursions, or the
/// latency.
fn set_changes(cells: &mut [MatrixCell]) {
    let figure = |cell: &MatrixCell| cell.excursions.or(cell.max_ns).map(|figure| figure as f64);
    for n in 0..cells.len() {
        let alike = |other: &&MatrixCell| {
            (&other.scenario, &other.load, other.mode) == (&cells[n].scenario, &cells[n].load, cells[n].mode)
        };
        let first = cells[..n].iter().find(alike).and_then(figure).filter(|first| *first > 0.0);
        cells[n].change_percent =
            first.zip(figure(&cells[n])).map(|(before, after)| (after / before - 1.0) * 100.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_matrix_names_scenarios_boot_lines_and_modes_that_exist() {
        for matrix in all().unwrap() {
            for step in &matrix.step {
                scenario::named(&step.scenarios).unwrap();
                boot::line(&step.boot, CPUS).unwrap();
                assert!(matches!(step.mode.as_deref(), None | Some("count" | "virtual")));
            }
        }
        let error = named("long").unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot run the matrix 'long': there is none of that name; choose from short, published, isolator, deferral"
        );
    }

    #[test]
    fn further_kernels_repeat_the_first_step() {
        let matrix = named("deferral").unwrap();
        let steps = matrix.steps(&["/boot/bzImage".to_string(), "debian".to_string()]);
        let kernels = steps.iter().map(|step| step.kernel.as_str()).collect::<Vec<_>>();
        assert_eq!(kernels, ["unpatched", "isolator:6.12+core", "isolator", "/boot/bzImage", "debian"]);
        assert_eq!(steps[2].isolate.as_deref(), Some("default"));
        for step in &steps[3..] {
            assert_eq!((&step.boot, &step.scenarios), (&steps[0].boot, &steps[0].scenarios));
            assert_eq!(step.isolate, None);
        }
    }

    #[test]
    fn a_bundle_is_not_named_by_the_path_of_its_kernel() {
        let steps = named("deferral").unwrap().steps(&["/boot/bzImage".to_string()]);
        let kernel = |asked: &str| GuestKernel {
            asked: asked.into(),
            release: "6.12.117".into(),
            architecture: Architecture::X86_64,
            image: asked.into(),
            modules: None,
            digest: String::new(),
        };
        let name = |n: usize, also| bundle_name(&steps[n], &kernel(&steps[n].kernel), Mode::Count, also);
        assert_eq!(name(1, None), "isolator-6.12+core-full-count");
        assert_eq!(name(2, None), "isolator-full-count-isolated");
        assert_eq!(name(3, Some(0)), "also-1-6.12.117-full-count");
    }

    #[test]
    fn changes_are_against_the_first_cell_of_the_same_scenario_load_and_mode() {
        let cell = |scenario: &str, mode, excursions, max_ns| MatrixCell {
            scenario: scenario.into(),
            load: "idle".into(),
            kernel: String::new(),
            boot: String::new(),
            isolate: None,
            mode,
            breaches: None,
            deferred: None,
            excursions,
            kernel_instructions: None,
            max_kernel_instructions: None,
            max_ns,
            change_percent: None,
            published: None,
            bundle: String::new(),
        };
        let mut cells = [
            cell("quiet", Mode::Count, Some(1000), None),
            cell("cyclic", Mode::Virtual, None, Some(200)),
            cell("quiet", Mode::Count, Some(10), None),
            cell("cyclic", Mode::Virtual, None, Some(300)),
            cell("cyclic", Mode::Count, Some(7), None),
        ];
        set_changes(&mut cells);
        let changes = cells.map(|cell| cell.change_percent);
        assert_eq!(changes, [None, None, Some(-99.0), Some(50.0), None]);
    }
}
