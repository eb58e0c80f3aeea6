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
use std::path::{Path, PathBuf};

use lab::build::{self, Built};

use crate::claims::part::{ClaimLab, ClaimResult, Result};
use crate::claims::programs::{SelftestResult, Test, run, selftest};
use crate::claims::tree::ScratchTree;

const FOLDER: &str = "kernel/findings";

/// A mend that is undone.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    /// The patch's file.
    name: String,
    /// Fragments of the kernel's configuration, if the lab's own kernel does not have what the tests need.
    fragments: Option<String>,
    shown: Vec<Shown>,
    patch: Vec<u8>,
}

/// The fault of such a kernel: lines `Finding`, `Title` and `Fails` of the patch's head.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    /// The review's number, or the group of the series that the mend is.
    finding: String,
    title: String,
    program: String,
    /// Parts of the names of the cases that fail.
    cases: Vec<String>,
}

impl Fault {
    fn parse(name: &str, patch: &str) -> std::result::Result<Fault, String> {
        let head = patch.split_once("\n\n").map_or(patch, |(head, _)| head);
        let (mut finding, mut title, mut fragments, mut shown) = ("", "", None, Vec::new());
        for (key, value) in head.lines().filter_map(|line| line.split_once(": ")) {
            match key {
                "Finding" => finding = value,
                "Title" => title = value,
                "Kernel" => fragments = Some(value.to_string()),
                "Fails" => {
                    let (program, cases) = value.split_once(": ").unwrap_or((value, ""));
                    let [finding, title, program] = [finding, title, program].map(str::to_string);
                    let cases = cases.split("; ").map(str::to_string).collect();
                    shown.push(Shown { finding, title, program, cases });
                }
                _ => {}
            }
        }
        let is_whole = |one: &Shown| {
            ![&one.finding, &one.title, &one.program, &one.cases[0]].into_iter().any(String::is_empty)
        };
        if shown.is_empty() || !shown.iter().all(is_whole) {
            return Err(format!(
                "{FOLDER}/{name} needs lines 'Finding: …', 'Title: …' and 'Fails: PROGRAM: CASE; CASE'"
            ));
        }
        Ok(Fault { name: name.to_string(), fragments, shown, patch: patch.as_bytes().to_vec() })
    }
}

impl Shown {
    /// By number; groups of the series last.
    fn order(&self) -> (u32, &str) {
        (self.finding.parse().unwrap_or(u32::MAX), &self.finding)
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
    faults.sort_by(|a, b| (&a.fragments, &a.name).cmp(&(&b.fragments, &b.name)));
    Ok(faults)
}

/// A row for each test of each fault.
pub fn findings(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let mut seen = ClaimResult { text: format!("On {}.\n\n{HEAD}", lab.kernel()?), ..ClaimResult::default() };
    let tree = ScratchTree::copy(&lab.built()?, lab.architecture, &lab.scratch.join("findings"))?;
    let mut mended = BTreeMap::new();
    let mut rows = Vec::new();
    for Fault { name, fragments, shown, patch } in faults()? {
        let version =
            [Some(lab.version.clone()), fragments].into_iter().flatten().collect::<Vec<_>>().join("+");
        let more = version != lab.version;
        let Some((built, _)) = build::last(&version, lab.architecture, false)? else {
            let with = version.split('+').skip(1).map(|fragment| format!(" --with {fragment}"));
            let cure = format!("isolator kernel build{}", with.collect::<String>());
            seen.wrong.push(format!("{name}: {version} is not built; {cure} makes it"));
            continue;
        };
        let image = undone(&tree, &name, &patch, &built)?.display().to_string();
        for one in shown {
            let test = selftest(&one.program, more);
            let options = format!("{} --time-limit 1200s", test.options);
            let on = |kernel: &str| run(lab, &Test { kernel: Some(kernel), options: &options, ..test });
            let key = (one.program.clone(), version.clone());
            if !mended.contains_key(&key) {
                mended.insert(key.clone(), on(&format!("isolator:{version}"))?);
            }
            let found = compare(&one.cases, &mended[&key], &on(&image)?);
            eprintln!("proof-kernel: findings: {name}: {}: {found:?}", one.program);
            if !found.is_shown() {
                let Compared { with, without, .. } = &found;
                seen.wrong.push(format!("{name}: {}: {with} with the mend, {without} without", one.program));
            }
            rows.push((one, found));
        }
    }
    rows.sort_by(|(a, _), (b, _)| a.order().cmp(&b.order()));
    for (Shown { finding, title, program, .. }, Compared { numbers, with, without }) in rows {
        let _ = writeln!(seen.text, "| {finding} | {title} | `{program}` {numbers} | {with} | {without} |");
    }
    Ok(seen)
}

const HEAD: &str = "| finding | fault | test | with the mend | without |\n|---|---|---|---|---|\n";

/// The image of a kernel with the fault; the tree stays as it was.
fn undone(tree: &ScratchTree, name: &str, patch: &[u8], built: &Built) -> Result<PathBuf> {
    let name = Path::new(FOLDER).join(name).display().to_string();
    tree.patch(&name, patch, &[])?;
    let image = tree.image(built);
    tree.patch(&name, patch, &["-R"])?;
    Ok(image.map_err(|why| format!("{name}: {why}"))?)
}

/// The results of two kernels for some cases.
#[derive(Debug, PartialEq, Eq)]
struct Compared {
    /// The cases, as the program counts them.
    numbers: String,
    with: String,
    without: String,
}

impl Compared {
    /// Whether each case passes with the mend, and none without.
    fn is_shown(&self) -> bool {
        self.with == "ok" && self.without == "not ok"
    }
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
    Compared { numbers, with: all(&with), without: all(&without) }
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
    fn a_patch_names_its_findings_and_the_cases_that_fail() {
        let text = "# SPDX\nFinding: 11\nTitle: they wait\nFails: neighbours: FIFO sleeps; DEADLINE gets\n\
                    Finding: 12\nTitle: bimodal\nFails: timers: each\nKernel: sched-ext\n\n--- a/x\nFails: no\n";
        let fault = Fault::parse("timers.patch", text).unwrap();
        let shown = |finding: &str, title: &str, program: &str, cases: &[&str]| Shown {
            finding: finding.into(),
            title: title.into(),
            program: program.into(),
            cases: cases.iter().map(ToString::to_string).collect(),
        };
        let first = shown("11", "they wait", "neighbours", &["FIFO sleeps", "DEADLINE gets"]);
        assert_eq!(fault.shown, [first, shown("12", "bimodal", "timers", &["each"])]);
        assert_eq!(fault.fragments.as_deref(), Some("sched-ext"));
        for wrong in
            ["Finding: 1\nTitle: x\n\n", "Finding: 1\nFails: a: b\n\n", "Finding: 1\nTitle: x\nFails: a\n"]
        {
            assert!(Fault::parse("x.patch", wrong).unwrap_err().contains("x.patch needs lines"));
        }
    }

    #[test]
    fn each_patch_names_selftests_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for entry in fs::read_dir(root.join(FOLDER)).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            for Shown { program, cases, .. } in Fault::parse("it", &text).unwrap().shown {
                let source = root.join(format!("kernel/selftests/{program}.c"));
                let source = fs::read_to_string(source).unwrap();
                // KUnit's cases are the kernel's own.
                let tests = fs::read_to_string(root.join("kernel/isolator/owner_test.c")).unwrap();
                for case in cases {
                    assert!(
                        source.contains(&case) || tests.contains(&case),
                        "{program} has no case '{case}'"
                    );
                }
            }
        }
    }

    #[test]
    fn a_fault_is_shown_where_each_case_passes_with_the_mend_alone() {
        let said = |text: &str| SelftestResult { said: text.to_string(), ..SelftestResult::default() };
        let cases = ["naps".to_string(), "comes".to_string()];
        let mended = said("ok 1 - naps go on\n# a - comes\nok 2 - comes\n");
        for (without, results, is_shown) in [
            ("not ok 1 - naps go on\nnot ok 2 - comes\n", "not ok", true),
            ("not ok 1 - naps go on\nok 2 - comes\n", "not ok, ok", false),
            ("not ok 1 - naps go on\nok 2 - comes # SKIP no\n", "not ok, skipped", false),
            ("ok 2 - comes\n", "no result, ok", false),
        ] {
            let found = compare(&cases, &mended, &said(without));
            assert_eq!((found.numbers.as_str(), found.with.as_str()), ("1, 2", "ok"));
            assert_eq!((found.without.as_str(), found.is_shown()), (results, is_shown));
        }
        assert!(!compare(&cases, &said("not ok 1 - naps\n"), &said("not ok 1 - naps\n")).is_shown());
    }
}
