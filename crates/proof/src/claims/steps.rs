// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds and boots a kernel after each patch of the series, and runs the selftests after each group.
//!
//! A copy of the kernel's build tree gets the patches as `isolator kernel export` writes them. Each group is
//! applied to a tree that has the groups that it needs, and no other.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lab::build::series::PatchSeries;
use lab::build::{Built, source};

use crate::claims::part::{ClaimLab, ClaimResult, Result};
use crate::claims::programs::{BY_TURNS, STARVED, Test, run, selftest};
use crate::claims::tree::ScratchTree;
use crate::guests;

const CLEAN: &str = "clean";

/// The selftests that tell what a kernel has. They skip what a part that is not there would do.
const PROGRAMS: [&str; 10] =
    ["sync", "errors", "exclusive", "calls", "refusals", "ends", "rings", "timers", "neighbours", "remote"];

/// A row for each patch, and one for each group.
pub fn steps(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let built = lab.built()?;
    let series = PatchSeries::own();
    let mut tree = StepTree::new(lab, &series, &built)?;
    let (mut patches, mut groups, mut wrong) = (String::new(), String::new(), Vec::new());
    for group in series.group_names(&built.version)? {
        let needs = tree.needs(&group)?;
        tree.keep_only(&needs)?;
        let on = match needs.is_empty() {
            true => "nothing".to_string(),
            false => needs.iter().map(|need| format!("`{need}`")).collect::<Vec<_>>().join(", "),
        };
        let mut image = None;
        for patch in tree.patches(&group)? {
            let name = patch.name.clone();
            tree.apply(patch)?;
            let (builds, boots) = match tree.copy.image(&built) {
                Ok(new) => {
                    let boots = boot(lab, &new)?;
                    image = Some(new);
                    ("yes".to_string(), boots)
                }
                Err(why) => (format!("**{why}**"), String::new()),
            };
            eprintln!("proof-kernel: steps: {name}: builds {builds}, log {boots}");
            if builds != "yes" || boots != CLEAN {
                wrong.push(format!("{name}: {builds} {boots}"));
            }
            let _ = writeln!(patches, "| {name} | {builds} | {boots} |");
        }
        let Some(image) = image else { continue };
        let ([passed, failed, skipped], log) = selftests(lab, &image, &group, &mut wrong)?;
        eprintln!("proof-kernel: steps: {group}: {passed} passed, {failed} failed, {skipped} skipped, {log}");
        let _ = writeln!(groups, "| `{group}` | {on} | {passed} | {failed} | {skipped} | {log} |");
    }
    let text = format!(
        "On {}.\n\n| patch | builds | boots, and the guest's log |\n|---|---|---|\n{patches}\n\
         | group | on top of | passed | failed | skipped | the guests' logs |\n|---|---|--:|--:|--:|---|\n\
         {groups}",
        lab.kernel()?
    );
    Ok(ClaimResult { text, wrong })
}

/// A patch of a group, as it is exported.
#[derive(Debug, Clone)]
struct Step {
    group: String,
    /// `core/0001-isolator-new-files.patch`.
    name: String,
    text: Vec<u8>,
}

/// A kernel tree that gets patches and loses them again.
struct StepTree<'a> {
    copy: ScratchTree,
    series: &'a PatchSeries,
    version: &'a str,
    /// Where the patches are exported to.
    exported: PathBuf,
    applied: Vec<Step>,
}

impl<'a> StepTree<'a> {
    /// A copy of the tree of a kernel, with its objects for this architecture and without the series.
    fn new(lab: &ClaimLab<'_>, series: &'a PatchSeries, built: &'a Built) -> Result<StepTree<'a>> {
        let copy = ScratchTree::copy(built, lab.architecture, &lab.scratch.join("steps"))?;
        source::remove(series, &built.version, copy.source())?;
        Ok(StepTree {
            copy,
            series,
            version: &built.version,
            exported: lab.scratch.join("exported"),
            applied: Vec::new(),
        })
    }

    /// The groups that a group needs, in their order.
    fn needs(&self, group: &str) -> Result<Vec<String>> {
        let needed = self.series.needed(self.version, &[group.to_string()])?;
        let mut names = self.series.group_names(self.version)?;
        names.retain(|name| name != group && needed.contains(name));
        Ok(names)
    }

    /// The patches of a group, for a tree that has what it needs.
    fn patches(&self, group: &str) -> Result<Vec<Step>> {
        let folder = self.exported.join(group);
        let names = self.series.export(self.version, &[group.to_string()], &folder)?;
        let step = |name: String| {
            let text = fs::read(folder.join(&name))?;
            Ok(Step { group: group.to_string(), name, text })
        };
        names.into_iter().map(step).collect()
    }

    fn apply(&mut self, step: Step) -> Result<()> {
        self.copy.patch(&step.name, &step.text, &[])?;
        self.applied.push(step);
        Ok(())
    }

    /// Takes out the patches of all groups but these, and applies those of these that lack.
    fn keep_only(&mut self, groups: &[String]) -> Result<()> {
        while let Some(step) = self.applied.pop_if(|step| !groups.contains(&step.group)) {
            self.copy.patch(&step.name, &step.text, &["-R"])?;
        }
        for group in groups {
            if self.applied.iter().all(|step| step.group != *group) {
                self.patches(group)?.into_iter().try_for_each(|step| self.apply(step))?;
            }
        }
        Ok(())
    }
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

/// The sums of all selftests, and the logs of their guests.
fn selftests(
    lab: &ClaimLab<'_>,
    image: &Path,
    group: &str,
    wrong: &mut Vec<String>,
) -> Result<([usize; 3], String)> {
    let kernel = image.display().to_string();
    let (mut sums, mut logs) = ([0; 3], Vec::new());
    let options = format!("{BY_TURNS} {STARVED}");
    for program in PROGRAMS {
        let test = Test { kernel: Some(&kernel), options: &options, ..selftest(program, false) };
        let mut ran = run(lab, &test)?;
        // A program that needs an owner ends so on a kernel that knows of none.
        if ran.said.lines().any(|line| line.starts_with("1..0 # SKIP")) {
            (ran.counts[2], ran.complaint) = (ran.counts[2] + 1, None);
            ran.wrong.clear();
        }
        sums.iter_mut().zip(ran.counts).for_each(|(sum, count)| *sum += count);
        logs.extend(ran.complaint.map(|why| format!("**{program}: {why}**")));
        wrong.extend(ran.wrong.into_iter().map(|what| format!("{group}: {what}")));
    }
    let log = if logs.is_empty() { CLEAN.to_string() } else { logs.join("; ") };
    Ok((sums, log))
}
