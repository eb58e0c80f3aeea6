// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of rows is the only place that knows a row by its name, and a probe touches few places: both by
//! a look into the sources of all crates.

use std::fs;
use std::path::{Path, PathBuf};

use evidence::kind::RowKind;

/// Files that compare such words where they are no names of rows.
const OTHER_WORDS: [(&str, &str); 6] = [
    ("lab/src/scenario.rs", "what a scenario of the lab runs, some of it with an end outside of the guest"),
    ("lab/src/run.rs", "the same"),
    ("lab/src/mode.rs", "the same"),
    ("lab/src/scope.rs", "records of the lab's scope"),
    ("load/src/engine.rs", "names of loads"),
    ("machine/src/purpose.rs", "names of uses"),
];

/// Files below `folder`, but tests.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        match path.is_dir() {
            true => sources(&path, files),
            false if path.extension().is_some_and(|extension| extension == "rs") => files.push(path),
            false => {}
        }
    }
}

/// The code of each source file of the workspace, without its tests, by `CRATE/src/FILE`.
fn code() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for one in fs::read_dir(&crates).unwrap() {
        let source = one.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let text = |path: &PathBuf| {
        let name = path.strip_prefix(&crates).unwrap().to_str().unwrap().to_string();
        let text = fs::read_to_string(path).unwrap();
        let (code, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
        (name, code.to_string())
    };
    files.iter().map(text).collect()
}

/// Whether a text between quotes names a row, or a family of rows.
fn names_a_row(word: &str) -> bool {
    let family = |kind: &RowKind| kind.name().ends_with('-') && word == kind.name().trim_end_matches('-');
    RowKind::of(word) != RowKind::Unknown || (word.ends_with('-') && RowKind::ALL.iter().any(family))
}

/// Comparisons in a line of code with the name of a row.
fn compares(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    let parts: Vec<&str> = code.split('"').collect();
    let by_text = (1..parts.len()).step_by(2).any(|at| {
        let (before, after) =
            (parts[at - 1].trim_end(), parts.get(at + 1).map_or("", |after| after.trim_start()));
        let is_compared = ["==", "!=", "|", "starts_with(", "ends_with(", "strip_prefix(", "contains(&"]
            .iter()
            .any(|sign| before.ends_with(sign))
            || ["==", "!=", "=>", "|"].iter().any(|sign| after.starts_with(sign))
            || code.contains("].contains(")
            || code.contains("matches!(");
        names_a_row(parts[at]) && is_compared
    });
    let by_constant = ["==", "!=", "starts_with("].iter().any(|sign| {
        code.match_indices(sign).any(|(at, _)| {
            let (before, after) = (code[..at].trim_end(), code[at + sign.len()..].trim_start());
            let word = |text: &str| text.chars().take_while(|c| !" ,;){".contains(*c)).collect::<String>();
            let is_probe = |text: &str| {
                text.trim_end_matches('.').ends_with("probe") || text.ends_with("probe.as_str()")
            };
            let left = before.rsplit([' ', '(', '{']).next().unwrap_or("").to_string();
            let right = word(after);
            let named = |text: &str| text.starts_with("RowKind::") && text.contains(".name(");
            let constant = |text: &str| {
                let last = text.rsplit("::").next().unwrap_or("");
                !last.is_empty()
                    && last.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
            };
            named(&left)
                || named(&right)
                || (is_probe(&left) && constant(&right))
                || (is_probe(&right) && constant(&left))
        })
    });
    by_text || by_constant
}

#[test]
fn only_the_table_compares_names_of_rows() {
    let mut found = Vec::new();
    for (file, code) in code() {
        if file == "evidence/src/kind.rs" || OTHER_WORDS.iter().any(|(other, _)| *other == file) {
            continue;
        }
        let lines = code.lines().enumerate().filter(|(_, line)| compares(line));
        found.extend(lines.map(|(at, line)| format!("{file}:{}: {}", at + 1, line.trim())));
    }
    assert!(found.is_empty(), "ask evidence::kind::RowKind instead:\n{}", found.join("\n"));
}

#[test]
fn comparisons_are_seen_in_every_form() {
    for line in [
        r#"if key.probe == "hardware" {"#,
        r#"match key.probe.as_str() { "spin" | "hardware" => "gap","#,
        r#"    "timerlat-user" => "Usr","#,
        r#"probe.starts_with("message-")"#,
        r#"["wakeup", LOOP].contains(&probe.as_str())"#,
        r#"matches!(probe, "toggle")"#,
        "row.key.probe == LOOP",
        "key.probe != manifest::EXECUTION",
        "kind.probe.starts_with(RESPONSE)",
        "probe == RowKind::Loop.name()",
    ] {
        assert!(compares(line), "{line}");
    }
    for line in [
        r#"probe: "wakeup".into(),"#,
        "row.probe == *probe",
        "RowKind::of(probe) == RowKind::Loop",
        "// key.probe == LOOP",
        r#"println!("spin")"#,
    ] {
        assert!(!compares(line), "{line}");
    }
}

/// A probe is its file, an entry of the table, and its variant with the arms beside it.
#[test]
fn a_probe_touches_three_files() {
    let others = ["proof/src/bench/", "lab/", "exchange/src/import/"];
    for (variant, own) in [("Toggle", "measure/src/probes/toggle.rs"), ("Spin", "measure/src/probes/spin.rs")]
    {
        let names =
            [format!("RowKind::{variant}"), format!("ProbeKind::{variant}"), format!("{variant}Probe")];
        let mentions = |code: &str| names.iter().any(|name| code.contains(name.as_str()));
        let files: Vec<String> =
            code().into_iter().filter(|(_, code)| mentions(code)).map(|(file, _)| file).collect();
        // The lab and the benchmark of stalls measure with probes of their own choice; an importer states
        // the kind of its rows.
        let files: Vec<&String> =
            files.iter().filter(|file| !others.iter().any(|other| file.starts_with(other))).collect();
        let table = "evidence/src/kind.rs".to_string();
        assert!(
            files.iter().all(|file| ["measure/src/probes.rs", own].contains(&file.as_str())),
            "{files:?}"
        );
        assert!(code().iter().any(|(file, code)| *file == table && code.contains(variant)));
        let (_, probes) = code().into_iter().find(|(file, _)| file == "measure/src/probes.rs").unwrap();
        let arms = probes.lines().filter(|line| names.iter().any(|name| line.contains(name.as_str())));
        assert!(arms.clone().count() <= 5, "{:?}", arms.collect::<Vec<_>>());
    }
}
