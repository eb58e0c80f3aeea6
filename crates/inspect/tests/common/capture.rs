// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captured machines, one file each, laid out as the folders that they were captured from.
//!
//! `machines/README.md` has the format. Lists in braces keep a machine of many CPUs short: a mistake in one
//! is a panic, since only tests read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Lays out the machine `name`; `change` may replace the content of any file.
pub fn lay_out(name: &str, change: impl Fn(&str) -> Option<Vec<u8>>) -> TempDir {
    let text = fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files(&text) {
        let place = root.path().join(&path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, change(&path).unwrap_or(content.into_bytes())).unwrap();
    }
    root
}

/// The names of all captured machines.
pub fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> =
        files.filter_map(|name| name.to_str()?.strip_suffix(".txt").map(str::to_string)).collect();
    names.sort();
    assert_eq!(names.len(), 9, "{names:?}");
    names
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/machines")
}

/// Paths and contents of a captured machine's files.
pub fn files(capture: &str) -> BTreeMap<String, String> {
    let mut files = BTreeMap::<String, String>::new();
    let mut folders = vec![String::new()];
    for line in capture.lines().filter(|line| !line.starts_with('#')) {
        if let Some(folder) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            folders = Pattern::new(folder).all();
            continue;
        }
        let (name, content) = line.split_once(':').unwrap();
        let content = Pattern::new(content.strip_prefix(' ').unwrap_or(content));
        let mut add = |folder: &str, line: String| {
            *files.entry(format!("{folder}/{name}")).or_default() += &(line + "\n");
        };
        match &folders[..] {
            [folder] => content.all().into_iter().for_each(|line| add(folder, line)),
            folders => {
                assert!(content.count() <= folders.len(), "{line}: more numbers than folders");
                folders.iter().enumerate().for_each(|(n, folder)| add(folder, content.item(n)));
            }
        }
    }
    files
}

/// A text with lists of numbers in braces: `cpu{0-3}`.
struct Pattern<'a> {
    /// Each literal with the list that follows it.
    parts: Vec<(&'a str, Vec<u64>)>,
    end: &'a str,
}

impl<'a> Pattern<'a> {
    fn new(mut text: &'a str) -> Self {
        let mut parts = Vec::new();
        while let Some((literal, rest)) = text.split_once('{') {
            let (list, end) = rest.split_once('}').unwrap_or_else(|| panic!("{rest}: no closing brace"));
            parts.push((literal, list.split(',').flat_map(numbers).collect()));
            text = end;
        }
        Pattern { parts, end: text }
    }

    /// The length of the longest list.
    fn count(&self) -> usize {
        self.parts.iter().map(|(_, list)| list.len()).max().unwrap_or(1)
    }

    /// The text with the `n`th number of each list; a shorter list starts again.
    fn item(&self, n: usize) -> String {
        let parts = self.parts.iter().map(|(literal, list)| format!("{literal}{}", list[n % list.len()]));
        parts.collect::<String>() + self.end
    }

    fn all(&self) -> Vec<String> {
        (0..self.count()).map(|n| self.item(n)).collect()
    }
}

/// The numbers of `7`, `0-3`, `0-12:4` (in steps of four), or one of these with `*2` (each twice).
fn numbers(item: &str) -> Vec<u64> {
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|why| panic!("{item}: {text}: {why}"));
    let (range, times) = item.split_once('*').unwrap_or((item, "1"));
    let (range, step) = range.split_once(':').unwrap_or((range, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let steps = (number(first)..=number(last)).step_by(number(step) as usize);
    steps.flat_map(|value| std::iter::repeat_n(value, number(times) as usize)).collect()
}
