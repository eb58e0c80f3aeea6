// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structure of the workspace: the table of `docs/architecture.md` is that of the manifests, files of a
//! crate, in Rust or C, do not use each other in circles, and a name stands for one type.

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
        // The examples of `tools` are in the workspace, and no crates of the program.
        if !manifest.starts_with(root().join("crates")) {
            continue;
        }
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

/// The names that each module re-exports, with the path in this crate that each stands for; none where
/// another crate defines it.
type ReExports = BTreeMap<Module, BTreeMap<String, Option<Module>>>;

/// A path as one from the crate's root; none for a path to another crate.
fn absolute(module: &[String], path: &[String], all: &BTreeMap<Module, String>) -> Option<Module> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&module[..0], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => (&module[..module.len().saturating_sub(ups)], &path[ups..]),
        name if all.contains_key(&[module, &[name.to_string()]].concat()) => (module, path),
        _ => return None,
    };
    let rest = rest.iter().filter(|name| *name != "self" && *name != "*");
    Some(base.iter().chain(rest).cloned().collect())
}

fn re_exports(all: &BTreeMap<Module, String>) -> ReExports {
    let of = |(module, text): (&Module, &String)| {
        let mut found = Vec::new();
        for line in ["pub use ", "pub(crate) use ", "pub(super) use "] {
            for (at, _) in text.match_indices(line) {
                paths(&text[at + line.len()..], &[], &mut found);
            }
        }
        let named = |path: Module| {
            let name = path.iter().rfind(|name| *name != "self" && *name != "*")?.clone();
            Some((name, absolute(module, &path, all)))
        };
        (module.clone(), found.into_iter().filter_map(named).collect())
    };
    all.iter().map(of).collect()
}

/// The module that defines the item of a path from the crate's root; none where another crate does.
fn definer(path: &[String], all: &BTreeMap<Module, String>, re_exports: &ReExports) -> Option<Module> {
    let mut path = path.to_vec();
    // A re-export of itself would go round for ever.
    for _ in 0..8 {
        let known = (0..=path.len()).rev().find(|length| all.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(known);
        match rest.first().and_then(|name| re_exports[module].get(name)) {
            Some(elsewhere) => path = [elsewhere.clone()?, rest[1..].to_vec()].concat(),
            None => return Some(module.to_vec()),
        }
    }
    None
}

/// The modules whose items a module uses, by paths that begin with `crate`, `super`, `self` or the name of a
/// module within it.
fn uses(module: &Module, all: &BTreeMap<Module, String>, re_exports: &ReExports) -> BTreeSet<Module> {
    let text = &all[module];
    let within = all.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
    let within = within.map(|other| format!("{}::", other[module.len()]));
    let mut found = Vec::new();
    for word in ["crate::", "super::", "self::"].map(String::from).into_iter().chain(within) {
        for (at, _) in text.match_indices(&word) {
            let before = text[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                paths(&text[at..], &[], &mut found);
            }
        }
    }
    let found = found.iter().filter_map(|path| absolute(module, path, all));
    found.filter_map(|path| definer(&path, all, re_exports)).collect()
}

/// Names from which one comes back to them, in order.
fn in_circles(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let comes_back = |from: &&String| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![*from]);
        while let Some(name) = open.pop() {
            open.extend(uses.get(name).into_iter().flatten().filter(|next| reached.insert(*next)));
        }
        reached.contains(*from)
    };
    uses.keys().filter(comes_back).cloned().collect()
}

/// The circles of a crate: for each folder, those of its modules that use each other in circles. A module and
/// those within it count as one, so that a circle through a parent, or through a folder, is one of its
/// neighbours. Between a module and its own parts there is no order: they are one idea.
fn circles(all: &BTreeMap<Module, String>) -> Vec<String> {
    let re_exports = re_exports(all);
    let mut folders: BTreeMap<&[String], BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for module in all.keys() {
        for used in uses(module, all, &re_exports) {
            let common = module.iter().zip(&used).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (module.get(common), used.get(common)) {
                let folder = folders.entry(&module[..common]).or_default();
                folder.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    let within = folders.iter().map(|(folder, uses)| (folder.join("::"), in_circles(uses)));
    within
        .filter(|(_, circle)| !circle.is_empty())
        .map(|(folder, circle)| format!("{folder}::{{{}}}", circle.join(", ")))
        .collect()
}

#[test]
fn files_of_a_crate_use_each_other_in_no_circle() {
    let mut all = Vec::new();
    for name in manifests().keys() {
        let files = files(&root().join("crates").join(name).join("src"));
        assert!(!files.is_empty(), "{name} has no files");
        let circles = circles(&files);
        if !circles.is_empty() {
            all.push(format!("{name}: {}", circles.join("; ")));
        }
    }
    assert!(all.is_empty(), "files that use each other in circles:\n{}", all.join("\n"));
}

/// The circles of a crate of these modules.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let module = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(str::to_string).collect();
    circles(&files.iter().map(|(name, text)| (module(name), text.to_string())).collect())
}

#[test]
fn finds_a_circle_through_a_list_of_paths() {
    let found = circles_of(&[
        ("", ""),
        ("a", "use crate::{Error, b::{self, Thing as Other}, c};"),
        ("b", "use super::c::Item;"),
        ("c", "fn f() -> crate::a::Part { crate::Error }"),
        ("d", "use crate::a;"),
    ]);
    assert_eq!(found, ["::{a, b, c}"]);
}

#[test]
fn finds_a_circle_through_a_parent() {
    let store = ("log::store", "use crate::allowed::is_allowed;");
    let files = [("", ""), ("log", "mod store;\nfn write() { store::write() }"), store];
    assert_eq!(circles_of(&[&files[..], &[("allowed", "use crate::log;")]].concat()), ["::{allowed, log}"]);
    assert!(circles_of(&[&files[..], &[("allowed", "")]].concat()).is_empty());
}

#[test]
fn finds_a_circle_within_a_folder() {
    let files = [
        ("", ""),
        ("boot", "mod pi;\nmod read;"),
        ("boot::read", "use super::pi;"),
        ("boot::pi", "mod filter;"),
        ("boot::pi::filter", "use crate::boot::read::text;"),
    ];
    assert_eq!(circles_of(&files), ["boot::{pi, read}"]);
}

#[test]
fn finds_a_circle_through_a_re_export() {
    let root = "mod a;\nmod b;\npub use b::Item;\npub use error::Error;";
    let b = ("b", "fn f() { crate::a::g() }");
    assert_eq!(circles_of(&[("", root), ("a", "use crate::Item;"), b]), ["::{a, b}"]);
    assert!(circles_of(&[("", root), ("a", "use crate::Error;"), b]).is_empty());
}

/// The functions that a text in C defines for other files, and all names that it calls.
fn functions_of_c(text: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut defined, mut called) = (BTreeSet::new(), BTreeSet::new());
    let mut head = "";
    for line in text.lines() {
        for (at, _) in line.match_indices('(') {
            let name = &line[..at];
            let name = &name[name.rfind(|c| !is_name(c)).map_or(0, |before| before + 1)..];
            if !name.is_empty() && line.starts_with(|c: char| c.is_whitespace()) {
                called.insert(name);
            }
        }
        // In Linux's style a function's head begins its line, and `{` alone begins the body.
        if line == "{" && !head.starts_with("static ") {
            let name = head.split('(').next().unwrap_or_default();
            let name = &name[name.rfind(|c| !is_name(c)).map_or(0, |before| before + 1)..];
            defined.insert(name);
        }
        if line.starts_with(|c: char| c.is_alphabetic()) && line.contains('(') {
            head = line;
        }
    }
    (defined, called)
}

/// The circles of files in C, each with its text: a file uses another where it calls a function of it.
fn circles_of_c(files: &[(String, String)]) -> Vec<String> {
    let functions = || files.iter().map(|(name, text)| (name, functions_of_c(text)));
    let uses = functions().map(|(name, (_, called))| {
        let others =
            functions().filter(|(other, (defined, _))| *other != name && !defined.is_disjoint(&called));
        (name.clone(), others.map(|(other, _)| other.clone()).collect())
    });
    in_circles(&uses.collect())
}

#[test]
fn files_in_c_call_each_other_in_no_circle() {
    for folder in ["kernel/isolator", "lab/scope"] {
        let paths = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_string();
        let files: Vec<_> = paths.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect();
        let count = files.iter().map(|(_, text)| functions_of_c(text).0.len()).sum::<usize>();
        assert!(count > 20, "{folder}: only {count} functions were found");
        let circles = circles_of_c(&files);
        assert!(circles.is_empty(), "{folder}: files that call each other: {circles:?}");
    }
}

#[test]
fn finds_files_in_c_that_call_each_other() {
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let owner = file("owner.c", "void owner_end(struct owner *o)\n{\n\twatchdog_stop(o);\n}\n");
    let static_one = "static void owner_end(void)\n{\n}\n";
    let watchdog =
        |text: &str| file("watchdog.c", &format!("{text}int watchdog_stop(void)\n{{\n\tmore();\n}}\n"));
    assert!(circles_of_c(&[owner.clone(), watchdog(static_one)]).is_empty());
    let calls = "static int bite(void)\n{\n\tif (x)\n\t\treturn owner_end(y);\n}\n";
    assert_eq!(circles_of_c(&[owner, watchdog(calls)]), ["owner.c", "watchdog.c"]);
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
