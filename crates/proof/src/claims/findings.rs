// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults that a review found in the series, and their tests: each mend is undone in a kernel of its own,
//! whose test must fail. Without that, a test that cannot fail would look like a mend.
//!
//! ```text
//! kernel/findings/gate.patch     the mend undone, and the cases that must fail for it
//!   └─► copy of the build tree ──► image ──► selftest in a guest ──► a row; as is, the kernel passes
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use lab::build::{self, Built};

use crate::claims::programs::{SelftestResult, Test, run, selftest};
use crate::claims::tree::ScratchTree;
use crate::claims::{ClaimLab, ClaimResult, Result};

const FOLDER: &str = "kernel/findings";

/// A mend that is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    name: String,
    /// Numbers of the review's findings, or the group of the series that the mend is.
    finding: String,
    title: String,
    /// Fragments of the kernel's configuration, if the lab's own kernel does not have what the test needs.
    fragments: Option<String>,
    /// Programs, and parts of the names of their cases that fail.
    fails: Vec<(String, Vec<String>)>,
    patch: Vec<u8>,
}

impl Fault {
    fn parse(name: &str, patch: &str) -> std::result::Result<Fault, String> {
        let head = patch.split_once("\n\n").map_or(patch, |(head, _)| head);
        let fields = |key: &'static str| head.lines().filter_map(move |line| line.strip_prefix(key));
        let field = |key| fields(key).next().map(str::to_string);
        let needed = |key| field(key).ok_or_else(|| format!("{FOLDER}/{name} has no line '{key}'"));
        let fails = fields("Fails: ").filter_map(|line| {
            let (program, cases) = line.split_once(": ")?;
            Some((program.to_string(), cases.split("; ").map(str::to_string).collect()))
        });
        let fault = Fault {
            name: name.to_string(),
            finding: needed("Finding: ")?,
            title: needed("Title: ")?,
            fragments: field("Kernel: "),
            fails: fails.collect(),
            patch: patch.as_bytes().to_vec(),
        };
        if fault.fails.is_empty() {
            return Err(format!("{FOLDER}/{name} has no line 'Fails: PROGRAM: CASE; CASE'"));
        }
        Ok(fault)
    }

    /// By number; groups of the series last.
    fn order(&self) -> (u32, &str, &str) {
        let number = self.finding.split(", ").next().and_then(|text| text.parse().ok());
        (number.unwrap_or(u32::MAX), &self.finding, &self.name)
    }
}

fn faults() -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        let file = entry?.path();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        faults.push(Fault::parse(&name, &fs::read_to_string(&file)?)?);
    }
    // One kernel's after the other: another configuration compiles everything anew.
    faults.sort_by(|a, b| (&a.fragments, a.order()).cmp(&(&b.fragments, b.order())));
    Ok(faults)
}

/// A row for each test of each fault.
pub fn findings(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let mut seen = ClaimResult { text: format!("On {}.\n\n{HEAD}", lab.kernel()?), ..ClaimResult::default() };
    let tree = ScratchTree::copy(&lab.built()?, lab.architecture, &lab.scratch.join("findings"))?;
    let mut mended = BTreeMap::new();
    let mut rows = Vec::new();
    for fault in faults()? {
        let version = match &fault.fragments {
            Some(fragments) => format!("{}+{fragments}", lab.version),
            None => lab.version.clone(),
        };
        let Some((built, _)) = build::last(&version, lab.architecture, false)? else {
            let text = format!("| {} | {} | `{version}` is not built | | |\n", fault.finding, fault.title);
            rows.push((fault, text));
            continue;
        };
        let image = undone(&tree, &fault, &built)?.display().to_string();
        let mut text = String::new();
        for (program, cases) in &fault.fails {
            let test = selftest(program, fault.fragments.is_some());
            let options = format!("{} --time-limit 1200s", test.options);
            let on = |kernel: &str| run(lab, &Test { kernel: Some(kernel), options: &options, ..test });
            let key = (program.clone(), version.clone());
            if !mended.contains_key(&key) {
                mended.insert(key.clone(), on(&format!("isolator:{version}"))?);
            }
            let (with, without) = (&mended[&key], on(&image)?);
            let found = compare(cases, with, &without);
            eprintln!("proof-kernel: findings: {}: {program}: {found:?}", fault.name);
            let Compared { numbers, with, without, is_shown } = found;
            let _ = writeln!(
                text,
                "| {} | {} | `{program}` {numbers} | {with} | {without} |",
                fault.finding, fault.title
            );
            if !is_shown {
                seen.wrong
                    .push(format!("{}: {program}: {with} with the mend, {without} without", fault.name));
            }
        }
        rows.push((fault, text));
    }
    rows.sort_by(|(a, _), (b, _)| a.order().cmp(&b.order()));
    seen.text.extend(rows.into_iter().map(|(_, text)| text));
    Ok(seen)
}

const HEAD: &str = "| finding | fault | test | with the mend | without |\n|---|---|---|---|---|\n";

/// The image of a kernel with the fault; the tree stays as it was.
fn undone(tree: &ScratchTree, fault: &Fault, built: &Built) -> Result<std::path::PathBuf> {
    let name = Path::new(FOLDER).join(&fault.name).display().to_string();
    tree.patch(&name, &fault.patch, &[])?;
    let image = tree.image(built);
    tree.patch(&name, &fault.patch, &["-R"])?;
    Ok(image.map_err(|why| format!("{name}: {why}"))?)
}

/// What two kernels said of some cases.
#[derive(Debug, PartialEq, Eq)]
struct Compared {
    /// The cases, as the program counts them.
    numbers: String,
    with: String,
    without: String,
    /// Whether each case passes with the mend alone.
    is_shown: bool,
}

fn compare(cases: &[String], with: &SelftestResult, without: &SelftestResult) -> Compared {
    let found = |ran: &SelftestResult| -> Vec<(String, String)> {
        let none = || (String::new(), "no result".to_string());
        cases.iter().map(|case| result_of(&ran.said, case).unwrap_or_else(none)).collect()
    };
    let all = |results: &[(String, String)]| {
        let mut words = results.iter().map(|(_, result)| result.as_str()).collect::<Vec<_>>();
        words.dedup();
        words.join(", ")
    };
    let (with, without) = (found(with), found(without));
    let numbers = with.iter().map(|(number, _)| number.as_str()).collect::<Vec<_>>().join(", ");
    let (with, without) = (all(&with), all(&without));
    Compared { numbers, is_shown: with == "ok" && without == "not ok", with, without }
}

/// The number and the result of the case with these words in its name.
fn result_of(said: &str, case: &str) -> Option<(String, String)> {
    said.lines().find_map(|line| {
        let (result, name) = line.split_once(" - ").filter(|(_, name)| name.contains(case))?;
        let (result, number) = result.rsplit_once(' ').filter(|(result, _)| result.ends_with("ok"))?;
        let result = if name.contains("# SKIP") { "skipped" } else { result };
        Some((number.to_string(), result.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_its_finding_and_the_cases_that_fail() {
        let text = "# SPDX\nFinding: 11, 12\nTitle: they wait\nFault: all.\nKernel: sched-ext\n\
                    Fails: neighbours: FIFO sleeps; DEADLINE gets\n\
                    Fails: timers: each\n\n--- a/x\nFails: no\n";
        let fault = Fault::parse("timers.patch", text).unwrap();
        assert_eq!((fault.finding.as_str(), fault.fragments.as_deref()), ("11, 12", Some("sched-ext")));
        let cases = ["FIFO sleeps".to_string(), "DEADLINE gets".to_string()].to_vec();
        assert_eq!(
            fault.fails,
            [("neighbours".to_string(), cases), ("timers".to_string(), vec!["each".to_string()])]
        );
        let why = Fault::parse("x.patch", "Finding: 1\nTitle: none\n\n").unwrap_err();
        assert!(why.contains("has no line 'Fails: "), "{why}");
    }

    #[test]
    fn a_fault_is_shown_where_each_case_passes_with_the_mend_alone() {
        let said = |text: &str| SelftestResult { said: text.to_string(), ..SelftestResult::default() };
        let cases = ["naps".to_string(), "comes".to_string()];
        let mended = said("ok 1 - naps go on\n# a - comes\nok 2 - comes\n");
        let found = compare(&cases, &mended, &said("not ok 1 - naps go on\nnot ok 2 - comes\n"));
        let shown = |with: &str, without: &str, is_shown| Compared {
            numbers: "1, 2".into(),
            with: with.into(),
            without: without.into(),
            is_shown,
        };
        assert_eq!(found, shown("ok", "not ok", true));
        let found = compare(&cases, &mended, &said("not ok 1 - naps go on\nok 2 - comes\n"));
        assert_eq!(found, shown("ok", "not ok, ok", false));
        let found = compare(&cases, &mended, &said("not ok 1 - naps go on\nok 2 - comes # SKIP no\n"));
        assert_eq!(found, shown("ok", "not ok, skipped", false));
        let found = compare(&cases, &mended, &said("ok 2 - comes\n"));
        assert_eq!(found, shown("ok", "no result, ok", false));
    }
}
