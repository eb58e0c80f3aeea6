// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tutorial, the how-tos and the questions do what they say: blocks that need nothing are run, and a page
//! tells why others are not. That each command can be parsed, a test of `usage` shows.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::pages::{Page, all_pages, pages};
use crate::common::{PROGRAM, Ran, folder, isolator, skipped};

fn marked(page: &Page) -> bool {
    page.name != "README.md"
}

#[test]
fn blocks_that_are_not_run_name_the_reason() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in pages().iter().filter(|page| marked(page)) {
        for block in &page.blocks {
            seen += 1;
            let reason = match block.mark.as_str() {
                "run" => continue,
                "root" => "Root: ",
                "hardware" => "Hardware: ",
                "long" => "Long: ",
                _ => {
                    wrong.push(format!("{}: mark it run, root, hardware or long", block.place));
                    continue;
                }
            };
            if !page.text.lines().any(|line| line.trim_start_matches("- ").starts_with(reason)) {
                wrong.push(format!("{}: no line begins with '{reason}' and the reason", block.place));
            }
        }
    }
    assert!(seen > 0, "no block was found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn blocks_marked_run_succeed_without_privilege() {
    let planned = isolator(folder().path(), &["tune", "plan", "--quiet"]);
    skip_if!(skipped(
        planned.status != Some(0),
        "the pages plan, and no plan is made for a machine of one core"
    ));
    let mut ran = 0;
    for page in pages().iter().filter(|page| marked(page)) {
        // One folder a page: a later block finds the files of an earlier one.
        let folder = folder();
        let programs = folder.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        symlink(PROGRAM, programs.join("isolator")).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        for block in page.blocks.iter().filter(|block| block.mark == "run") {
            let mut shell = Command::new("sh");
            shell.args(["-euc", &block.script]).current_dir(folder.path()).env("PATH", &path);
            let end = Ran::from(shell.stdin(Stdio::null()).output().unwrap());
            assert_eq!(end.status, Some(0), "{}: {end:#?}", block.place);
            ran += 1;
        }
    }
    assert!(ran > 0, "no block is marked run");
}

#[test]
fn links_of_a_page_lead_to_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    for page in all_pages() {
        let here = root.join(&page.name);
        for (at, open) in page.text.match_indices("](") {
            let link = page.text[at + open.len()..].split(')').next().unwrap();
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") {
                continue;
            }
            let file = if target.is_empty() { here.clone() } else { here.parent().unwrap().join(target) };
            if !file.exists() {
                wrong.push(format!("{}: there is no {target}", page.name));
            } else if !heading.is_empty() && !headings(&file).contains(heading) {
                wrong.push(format!("{}: {} has no heading #{heading}", page.name, file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The headings of a page, as a link names them.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let slug = |heading: &str| {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        kept.trim().replace(' ', "-")
    };
    text.lines().filter(|line| line.starts_with('#')).map(slug).collect()
}
