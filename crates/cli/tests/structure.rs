// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structure of the workspace: the table of `docs/architecture.md` is that of the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The crates by folder, with those that each needs; what only tests need is left out.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let folder = |path: &str| Path::new(path).file_name().unwrap().to_str().unwrap().to_string();
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let needs = package["dependencies"].as_array().unwrap().iter();
        let needs = needs.filter(|need| need["kind"] != "dev").filter_map(|need| need["path"].as_str());
        crates.insert(folder(manifest.parent().unwrap().to_str().unwrap()), needs.map(folder).collect());
    }
    crates
}

/// The table of the page: the crate, and those that it stands on, without what is in brackets.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, table) = page.split_once("| Crate | Is about | Stands on |\n|---|---|---|\n").unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let mut names = String::new();
        let mut depth = 0;
        for c in cells[2].chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                c if depth == 0 => names.push(c),
                _ => {}
            }
        }
        let names = names.split(',').map(|name| name.trim().to_string());
        (cells[0].trim_matches('`').to_string(), names.filter(|name| name != "nothing").collect())
    };
    table.lines().take_while(|line| line.starts_with('|')).map(row).collect()
}

#[test]
fn the_table_of_crates_is_that_of_the_manifests() {
    let (manifests, table) = (manifests(), table());
    let names = |crates: &BTreeMap<String, _>| crates.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&table), names(&manifests), "crates in docs/architecture.md, and in the workspace");
    for (name, needs) in &manifests {
        assert_eq!(&table[name], needs, "`{name}` stands on, in docs/architecture.md and in its manifest");
    }
}
