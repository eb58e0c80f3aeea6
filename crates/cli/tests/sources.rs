// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source files: each file of tests is part of a test program, and no line is wider than `.editorconfig`
//! says, where the formatter does not see to it: in comments, macros and other languages. Text in quotes may
//! be wider: broken up it could not be searched for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ra_ap_rustc_lexer::{FrontmatterAllowed, TokenKind, tokenize};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files that git knows and the patterns name, without captured ones.
fn files(patterns: &[&str]) -> Vec<PathBuf> {
    let root = root();
    let output = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard", "--"])
        .args(patterns)
        .args([":!*/fixtures/*", ":!*/vendor/*", ":!*.sum"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| root.join(line)).filter(|path| path.is_file()).collect()
}

/// `max_line_length` below the section `[section]` of `.editorconfig`.
fn configured(section: &str) -> usize {
    let text = fs::read_to_string(root().join(".editorconfig")).unwrap();
    let (_, rest) = text.split_once(&format!("\n[{section}]\n")).expect(section);
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    let value = lines.filter_map(|line| line.strip_prefix("max_line_length = ")).last();
    value.expect(section).parse().unwrap()
}

/// The lines of Rust, from 1, that text in quotes is on.
fn quoted(text: &str) -> BTreeSet<usize> {
    let (mut lines, mut at, mut line) = (BTreeSet::new(), 0, 1);
    for token in tokenize(text, FrontmatterAllowed::No) {
        let source = &text[at..at + token.len as usize];
        let last = line + source.matches('\n').count();
        if matches!(token.kind, TokenKind::Literal { .. }) && source.contains('"') {
            lines.extend(line..=last);
        }
        (at, line) = (at + source.len(), last);
    }
    lines
}

/// The columns of a line without what quotes enclose.
fn unquoted_columns(line: &str) -> usize {
    let (mut columns, mut open) = (0, None);
    for c in line.chars() {
        match open {
            Some(quote) if c == quote => open = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => open = Some(c),
            None => columns += 1,
        }
    }
    columns
}

/// The lines that are wider than `most` by `columns`, as `FILE:LINE`.
fn wide(path: &Path, text: &str, most: usize, columns: impl Fn(usize, &str) -> usize) -> Vec<String> {
    let name = path.strip_prefix(root()).unwrap_or(path).display();
    // Neither an address nor a row of a table can be broken.
    let is_bound = |line: &str| line.contains("://") || line.trim_start().starts_with("//! |");
    let is_wide = |number: usize, line: &str| columns(number, line) > most && !is_bound(line);
    let lines = (1..).zip(text.lines()).filter(|(number, line)| is_wide(*number, line));
    lines.map(|(number, _)| format!("{name}:{number}")).collect()
}

fn of_rust(path: &Path, text: &str, most: usize) -> Vec<String> {
    let quoted = quoted(text);
    let columns = |number: usize, line: &str| if quoted.contains(&number) { 0 } else { line.chars().count() };
    wide(path, text, most, columns)
}

#[test]
fn no_line_of_rust_is_wider_than_configured() {
    let most = configured("*.rs");
    let rustfmt = fs::read_to_string(root().join("rustfmt.toml")).unwrap();
    assert!(rustfmt.contains(&format!("max_width = {most}\n")), "rustfmt.toml and .editorconfig differ");
    let mut found = Vec::new();
    for path in files(&["*.rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        found.extend(of_rust(&path, &text, most));
    }
    assert!(found.is_empty(), "{} lines are wider than {most} columns:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_line_of_another_language_is_wider_than_configured() {
    let most = configured("*");
    let mut found = Vec::new();
    for path in files(&[
        "*.c", "*.h", "*.cpp", "*.hpp", "*.py", "*.sh", "*.pml", "*.litmus", "*.go", "*.js", "*.yml",
        "*.yaml", "tools/*", ".ci/*",
    ]) {
        let text = fs::read_to_string(&path).unwrap();
        found.extend(wide(&path, &text, most, |_, line| unquoted_columns(line)));
    }
    assert!(found.is_empty(), "{} lines are wider than {most} columns:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_wide_comment_is_found_and_a_wide_text_is_not() {
    let text = "/// A sentence that is too wide.\nfn f() { g(\"as wide\") }\n// Another sentence that is.\n";
    assert_eq!(of_rust(Path::new("a.rs"), text, 20), ["a.rs:1", "a.rs:3"]);
}

/// The places in `text` that write a number of microseconds by themselves, as `FILE:LINE`.
fn own_microseconds(path: &Path, text: &str) -> Vec<String> {
    let name = path.strip_prefix(root()).unwrap_or(path).display();
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains("} us"));
    lines.map(|(number, _)| format!("{name}:{number}")).collect()
}

/// `rt` and `libisolator` depend on no other crate, `bench` and `proof` write the pages of results.
#[test]
fn figures_for_people_are_formatted_in_one_place() {
    let apart = ["rt", "libisolator", "bench", "proof"].map(|name| root().join("crates").join(name));
    let is_judged = |path: &PathBuf| {
        !apart.iter().any(|apart| path.starts_with(apart)) && !path.ends_with("machine/src/units.rs")
    };
    let sources = files(&["crates/*/src/*.rs"]).into_iter().filter(is_judged);
    let found: Vec<_> =
        sources.flat_map(|path| own_microseconds(&path, &fs::read_to_string(&path).unwrap())).collect();
    assert!(
        found.is_empty(),
        "machine::units writes figures; these lines do so themselves:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_figure_with_its_own_format_is_found() {
    let text = "format!(\"{late} us late\")\nformat!(\"{}\", us(late))\nformat!(\"--period {}us\", period)\n";
    assert_eq!(own_microseconds(Path::new("a.rs"), text), ["a.rs:1"]);
}

#[test]
fn each_file_of_tests_is_part_of_a_test_program() {
    for main in files(&["crates/*/tests/main.rs"]) {
        let here = fs::read_to_string(&main).unwrap();
        let manifest = fs::read_to_string(main.parent().unwrap().join("../Cargo.toml")).unwrap();
        for entry in fs::read_dir(main.parent().unwrap()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(stem) = name.strip_suffix(".rs").filter(|stem| *stem != "main") else { continue };
            let is_named =
                here.contains(&format!("mod {stem};")) || manifest.contains(&format!("\"tests/{name}\""));
            assert!(is_named, "{} lacks: mod {stem};", main.display());
        }
    }
}
