// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator generate`: schemas, reference pages, man pages and completions, from the same types as
//! everything else.

mod library;
mod reference;
mod shapes;

use std::fs;
use std::path::Path;

use cause::rates::WatchDocument;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use compare::Comparison;
use compare::gate::Gated;
use evidence::document::{ProveDocument, VerdictFile};
use evidence::lab::{GateDocument, LabDocument, MatrixDocument};
use evidence::manifest::{Manifest, Spike};
use evidence::{Error, Result};
use exchange::export::WithBuckets;
use fleet::FleetDocument;
use fleet::ansible::FleetRunDocument;
use lab::build::Built;
use lint::LintDocument;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, schema_for};
use tune::change::{Applied, RolledBack, TuneStatus};
use tune::measure::MeasuredPlan;
use tune::plan::PlanAnswer;
use tune::task::{Set, TaskList};
use tune::verify::Verified;
use why::WhyDocument;

use crate::args::{Cli, GenerateArgs};
use crate::outcome::{Outcome, VerbResult};
use crate::verbs::ethercat::Simulated;
use crate::verbs::lab::LabList;
use crate::verbs::load::{Catalog, Loaded};
use crate::verbs::record::RecordCommands;

pub fn run(args: &GenerateArgs) -> VerbResult {
    schemas(&folder(&args.folder, "schema")?)?;
    let pages = folder(&args.folder, "reference")?;
    for (name, page) in reference::pages(&documents()) {
        evidence::writer::replace(&pages.join(name), page.as_bytes())?;
    }
    let man = folder(&args.folder, "man")?;
    clap_mangen::generate_to(Cli::command(), &man).map_err(|e| Error::io("write", &man, &e))?;
    for (name, page) in library::pages(library::HEADER) {
        evidence::writer::replace(&man.join(name), page.as_bytes())?;
    }
    let completions = folder(&args.folder, "completions")?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut Cli::command(), "isolator", &completions)
            .map_err(|e| Error::io("write", &completions, &e))?;
    }
    Ok(Outcome::Done)
}

/// Every document that another program may read.
fn documents() -> Vec<(&'static str, Schema)> {
    vec![
        ("prove", schema_for!(ProveDocument)),
        ("compare", schema_for!(Comparison)),
        ("doctor", schema_for!(doctor::Report)),
        ("ethercat-simulate", schema_for!(Simulated)),
        ("export", schema_for!(WithBuckets)),
        ("fleet", schema_for!(FleetDocument)),
        ("fleet-run", schema_for!(FleetRunDocument)),
        ("gate", schema_for!(Gated)),
        ("kernel", schema_for!(Built)),
        ("lab", schema_for!(LabDocument)),
        ("lab-gate", schema_for!(GateDocument)),
        ("lab-list", schema_for!(LabList)),
        ("lab-matrix", schema_for!(MatrixDocument)),
        ("lint", schema_for!(LintDocument)),
        ("load", schema_for!(Loaded)),
        ("load-list", schema_for!(Catalog)),
        ("manifest", schema_for!(Manifest)),
        ("record", schema_for!(RecordCommands)),
        ("task-list", schema_for!(TaskList)),
        ("task-set", schema_for!(Set)),
        ("tune-apply", schema_for!(Applied)),
        ("tune-measure", schema_for!(MeasuredPlan)),
        ("tune-plan", schema_for!(PlanAnswer)),
        ("tune-verify", schema_for!(Verified)),
        ("tune-rollback", schema_for!(RolledBack)),
        ("tune-status", schema_for!(TuneStatus)),
        ("verdict", schema_for!(VerdictFile)),
        ("spike", schema_for!(Spike)),
        ("watch", schema_for!(WatchDocument)),
        ("why", schema_for!(WhyDocument)),
    ]
}

/// How wide a comment is in the source has no place in a description: its paragraphs become lines.
fn join_lines(schema: &mut Schema) {
    if let Some(text) = schema.get("description").and_then(|text| text.as_str()) {
        let paragraphs: Vec<String> = text.split("\n\n").map(|text| text.replace('\n', " ")).collect();
        schema.insert("description".into(), paragraphs.join("\n\n").into());
    }
}

fn schemas(folder: &Path) -> std::result::Result<(), Box<dyn std::error::Error>> {
    for (name, mut schema) in documents() {
        RecursiveTransform(join_lines).transform(&mut schema);
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        evidence::writer::replace(&folder.join(format!("{name}.schema.json")), text.as_bytes())?;
    }
    Ok(())
}

fn folder(parent: &Path, name: &str) -> Result<std::path::PathBuf> {
    let folder = parent.join(name);
    fs::create_dir_all(&folder).map_err(|e| Error::io("make the folder", &folder, &e))?;
    Ok(folder)
}
