// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structure of the workspace: the table of `docs/architecture.md` is that of the manifests, files of a
//! crate do not use each other in circles, and a name stands for one type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A module, as the names of its path.
type Module = Vec<String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Cargo's description of the workspace.
fn metadata() -> serde_json::Value {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The crates by folder, with those that each needs; what only tests need is left out.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
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
    let (_, table) = page.split_once("| Crate | Content | Depends on |\n|---|---|---|\n").unwrap();
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

/// Whether comments of this text have an example in Rust.
fn has_examples(text: &str) -> bool {
    let comments = text.lines().map(str::trim_start).filter_map(|line| {
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
    });
    let fences: Vec<&str> = comments.filter_map(|line| line.strip_prefix("```")).collect();
    let mut opening = fences.chunks(2).map(|pair| pair[0]);
    opening.any(|language| !["text", "toml", "json", "sh", "c"].contains(&language))
}

/// Cargo builds and starts a program for each library whose examples it tests: only where there are some.
#[test]
fn libraries_with_examples_test_them() {
    for package in metadata()["packages"].as_array().unwrap() {
        for target in package["targets"].as_array().unwrap() {
            let kinds = target["kind"].as_array().unwrap();
            if !kinds.iter().any(|kind| kind == "lib" || kind == "rlib") {
                continue;
            }
            let source = Path::new(target["src_path"].as_str().unwrap()).parent().unwrap();
            let mut files = sources(source);
            files.retain(|file| has_examples(&fs::read_to_string(file).unwrap()));
            assert_eq!(
                target["doctest"],
                !files.is_empty(),
                "{source:?}: doctest, and examples in {files:?}"
            );
        }
    }
}

/// The source files of a crate but its tests.
fn sources(source: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![source.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let entries = entries.filter(|path| path.file_stem().is_some_and(|stem| stem != "tests"));
        let (new, others): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        folders.extend(new);
        files.extend(
            others.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")),
        );
    }
    files
}

/// The files of a crate but its tests, by module.
fn files(source: &Path) -> BTreeMap<Module, String> {
    let mut files = BTreeMap::new();
    for path in sources(source) {
        let within = path.strip_prefix(source).unwrap().with_extension("");
        let mut module: Module = within.iter().map(|part| part.to_str().unwrap().to_string()).collect();
        module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
        files.entry(module).or_insert_with(String::new).push_str(&code(&path));
    }
    files
}

/// The text of a file without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// The paths that the text `rest` of a path, `a::{b, c::d}`, stands for; gives what follows it.
fn paths<'a>(mut rest: &'a str, begin: &[String], found: &mut Vec<Module>) -> &'a str {
    let mut path = begin.to_vec();
    loop {
        rest = rest.trim_start();
        if let Some(mut list) = rest.strip_prefix('{') {
            while !list.trim_start().starts_with('}') {
                list = paths(list, &path, found).trim_start().trim_start_matches(',');
                assert!(!list.is_empty(), "a list of paths that does not end");
            }
            return &list.trim_start()[1..];
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        path.push(name.to_string());
        rest = if name.is_empty() { rest.trim_start_matches('*') } else { &rest[end..] };
        match rest.trim_start().strip_prefix("::") {
            Some(after) => rest = after,
            None => {
                found.push(path);
                // `as` and a name.
                return rest
                    .find([',', '}', ';'])
                    .filter(|_| !begin.is_empty())
                    .map_or(rest, |at| &rest[at..]);
            }
        }
    }
}

/// The modules that a module uses, by paths that begin with `crate` or `super`.
fn uses(module: &Module, text: &str, all: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                paths(&text[at..], &[], &mut found);
            }
        }
    }
    let mut used = BTreeSet::new();
    for path in found {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let base = if ups == 0 { 0 } else { module.len().saturating_sub(ups) };
        let whole: Module = module[..base].iter().chain(path.iter().skip(ups.max(1))).cloned().collect();
        let known = (0..=whole.len()).rev().map(|length| whole[..length].to_vec());
        let target = known.into_iter().find(|target| all.contains_key(target)).unwrap_or_default();
        // A module and those within it are one idea.
        if !target.starts_with(module) && !module.starts_with(&target) {
            used.insert(target);
        }
    }
    used
}

/// Modules from which one comes back to them, in order of their names.
fn circles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let reached = |from: &Module| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&Module> = uses[from].iter().collect();
        while let Some(module) = open.pop() {
            if reached.insert(module) {
                open.extend(&uses[module]);
            }
        }
        reached
    };
    uses.keys().filter(|module| reached(module).contains(module)).map(|module| module.join("::")).collect()
}

#[test]
fn files_of_a_crate_use_each_other_in_no_circle() {
    let mut all = Vec::new();
    for name in manifests().keys() {
        let files = files(&root().join("crates").join(name).join("src"));
        assert!(!files.is_empty(), "{name} has no files");
        let uses = files.iter().map(|(module, text)| (module.clone(), uses(module, text, &files))).collect();
        let circles = circles(&uses);
        if !circles.is_empty() {
            all.push(format!("{name}: {}", circles.join(", ")));
        }
    }
    assert!(all.is_empty(), "files that use each other in circles:\n{}", all.join("\n"));
}

#[test]
fn finds_a_circle_through_a_list_of_paths() {
    let module = |name: &str| vec![name.to_string()];
    let files = BTreeMap::from([
        (Vec::new(), String::new()),
        (module("a"), "use crate::{Error, b::{self, Thing as Other}, c};".to_string()),
        (module("b"), "use super::c::Item;".to_string()),
        (module("c"), "fn f() -> crate::a::Part { crate::Error }".to_string()),
        (module("d"), "use crate::a;".to_string()),
    ]);
    let uses = files.iter().map(|(module, text)| (module.clone(), uses(module, text, &files))).collect();
    assert_eq!(circles(&uses), ["a", "b", "c"]);
}

/// Names of types that several modules define, with the reason.
const SHARED_NAMES: &[(&str, &str)] = &[
    ("Result", "each module names its own error type with it"),
    ("Edges", "the measured edges of `cause`, and the same as a bundle states them"),
    ("Sender", "the sending end of messages, and the sender of an IPI"),
    ("Task", "a task that `tune` changes, and one that a kernel event names"),
];

/// The types that a text declares for other modules.
fn public_types(text: &str) -> Vec<String> {
    let declared = |line: &str| {
        let rest = line.trim_start().strip_prefix("pub")?;
        let rest = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => rest,
        };
        let (kind, rest) = rest.trim_start().split_once(' ')?;
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (["struct", "enum", "union", "trait", "type"].contains(&kind) && !name.is_empty()).then_some(name)
    };
    text.lines().filter_map(declared).collect()
}

/// Names that more than one module declares, with these modules.
fn declared_twice(modules: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (module, text) in modules {
        for name in public_types(text) {
            found.entry(name).or_default().push(module.clone());
        }
    }
    found.retain(|_, modules| modules.len() > 1);
    found
}

/// The modules of all crates, by path.
fn modules() -> Vec<(String, String)> {
    let of_crate = |name: &String| {
        let files = files(&root().join("crates").join(name).join("src"));
        let path = |module: Module| [vec![name.clone()], module].concat().join("::");
        files.into_iter().map(|(module, text)| (path(module), text)).collect::<Vec<_>>()
    };
    manifests().keys().flat_map(of_crate).collect()
}

#[test]
fn each_public_type_has_its_own_name() {
    let mut found = declared_twice(&modules());
    found.retain(|name, _| SHARED_NAMES.iter().all(|(shared, _)| shared != name));
    assert!(
        found.is_empty(),
        "types of several modules with one name; say in each name what the type is: {found:#?}"
    );
}

#[test]
fn finds_a_type_name_declared_twice() {
    let module = |name: &str, text: &str| (name.to_string(), text.to_string());
    let modules = [
        module("a", "pub struct Kind;\npub(crate) enum Row<'a> { A(&'a str) }\nstruct Line;"),
        module("b", "    pub(super) type Kind = u8;\npub fn row() {}\nstruct Line;"),
        module("c", "pub trait Row {}"),
    ];
    let found = declared_twice(&modules);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["Kind", "Row"]);
    assert_eq!(found["Row"], ["a", "c"]);
}

#[test]
fn no_function_is_named_told_or_words() {
    let mut folders = vec![root().join("crates")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let named = |line: &str| {
                    let line = line.trim_start();
                    let rest = line.split_once("fn ").filter(|_| !line.starts_with("//"))?.1;
                    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
                    ["told", "words"].contains(&name).then(|| format!("{}: {line}", path.display()))
                };
                found.extend(text.lines().filter_map(named));
            }
        }
    }
    assert!(found.is_empty(), "name a function by what it gives:\n{}", found.join("\n"));
}
