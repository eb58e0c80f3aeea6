// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each public function and type of this crate has an example in its documentation; `cargo test --doc` runs
//! them.

use std::path::{Path, PathBuf};

/// The crate's source files without those that hold tests alone.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_source = |path: &Path| {
        path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
            && !path.ends_with("model.rs")
    };
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| is_source(path))
        .collect()
}

/// Whether a line begins a public function or type; the lint `unreachable_pub` holds that `pub` says no more
/// than is true.
fn is_public_item(line: &str) -> bool {
    let Some(item) = line.trim_start().strip_prefix("pub ") else { return false };
    item.contains("fn ") || ["struct ", "enum ", "trait ", "union "].iter().any(|kind| item.starts_with(kind))
}

/// The lines of documentation and attributes above an item.
fn above<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let belongs = |line: &&&str| line.starts_with("///") || line.starts_with("#[");
    lines.iter().rev().take_while(belongs).copied().collect()
}

#[test]
fn each_public_item_has_an_example() {
    let mut items = 0;
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code.lines().map(str::trim).collect::<Vec<_>>();
        for (number, line) in lines.iter().enumerate().filter(|(_, line)| is_public_item(line)) {
            let fences = above(&lines[..number]).into_iter().filter_map(|line| line.strip_prefix("/// ```"));
            let fences = fences.collect::<Vec<_>>();
            let skipped = fences.iter().any(|kind| kind.contains("text") || kind.contains("ignore"));
            assert!(
                fences.len() >= 2 && !skipped,
                "{}:{}: no example above: {line}",
                path.display(),
                number + 1
            );
            items += 1;
        }
    }
    assert!(items > 100, "found {items} public items");
}
