// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds and boots each step of the series.
//!
//! In a copy of the kernel's build tree, with its objects, the hooks are removed from the last to the first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::build;
use lab::build::make::KernelTree;
use lab::build::series::PatchSeries;
use lab::build::source;

use crate::claims::{ClaimLab, ClaimResult, Result};
use crate::guests;

/// Removes the hooks one after the other; a row for each state of the tree.
pub fn steps(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let built = lab.built()?;
    let number = &built.version;
    let series = PatchSeries::own();
    let hooks = series.hooks(number)?;
    let tree = copy(&build::tree(number)?, &lab.scratch.join("steps"))?;
    let make = KernelTree {
        objects: tree.join(format!("objects-lab-{}", lab.architecture)),
        architecture: lab.architecture,
        variables: Vec::new(),
        tree,
    };
    fs::create_dir_all(&make.objects)?;
    fs::copy(Path::new(&built.folder).join("config"), make.objects.join(".config"))?;
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for step in (0..=hooks.len()).rev() {
        if let Some((name, text)) = hooks.get(step) {
            source::patch(&make.tree, text, &["-R"])
                .map_err(|why| format!("cannot take {name} out: {why}"))?;
        }
        let name = step.checked_sub(1).map_or("new files alone", |last| hooks[last].0);
        let (builds, boots) = match image(&make, &built.image) {
            Ok(image) => ("yes".to_string(), boot(lab, &image)?),
            Err(why) => (format!("**{why}**"), String::new()),
        };
        eprintln!("proof-kernel: steps: {name}: {builds}, {boots}");
        if builds != "yes" || boots != CLEAN {
            wrong.push(format!("{name}: {builds} {boots}"));
        }
        rows.push(format!("| {name} | {builds} | {boots} |\n"));
    }
    let mut text = format!(
        "On {}.\n\n| the series up to | builds | boots, and the guest's log |\n|---|---|---|\n",
        lab.kernel()?
    );
    rows.iter().rev().for_each(|row| text += row);
    Ok(ClaimResult { text, wrong })
}

const CLEAN: &str = "clean";

/// A copy of the tree with the objects of this architecture and configuration, with their times for make.
fn copy(from: &Path, to: &Path) -> Result<PathBuf> {
    let done = Command::new("cp").args(["-a", "--reflink=auto"]).args([from, to]).status()?;
    done.success().then(|| to.to_path_buf()).ok_or_else(|| format!("cannot copy {}", from.display()).into())
}

/// Builds the tree as it is.
fn image(make: &KernelTree, name: &str) -> lab::Result<PathBuf> {
    make.ask(&["olddefconfig"])?;
    make.run(&[name], 0, &make.objects.join("steps.log"), &|_| {})?;
    Ok(make.objects.join(build::image(make.architecture).0))
}

/// The kernel's log of a few quiet seconds.
fn boot(lab: &ClaimLab<'_>, image: &Path) -> Result<String> {
    let (kernel, architecture) = (image.display().to_string(), lab.architecture.to_string());
    let args = ["run", "quiet", "--kernel", &kernel, "--arch", &architecture, "--mode", "count"];
    let folder = tempfile::tempdir_in(lab.scratch)?;
    let document = guests::run(lab.isolator, &args, &folder.path().join("bundle"))?;
    let said = document.failures().join(" ");
    Ok(if said.is_empty() { CLEAN.to_string() } else { format!("**{said}**") })
}
