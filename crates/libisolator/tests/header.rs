// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface: the header is what the sources say, and one that compilers take; the shared library shows what the header names and
//! nothing else. `UPDATE=1 cargo test -p isolator-c --test header` writes header and symbol map anew: what the change of an ABI shows in.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{here, output, shared};

/// Compares a committed file with what it should be, or writes it.
#[track_caller]
fn committed(path: &str, made: &str) {
    let path = here(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(made == found, "{} is not what the sources say: write it with UPDATE=1", path.display());
}

fn header() -> String {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::generate_with_config(here("."), config).unwrap().write(&mut made);
    String::from_utf8(made).unwrap()
}

/// The functions that a header declares.
fn functions(header: &str) -> BTreeSet<String> {
    let mut code = String::new();
    for (n, part) in header.split("/*").enumerate() {
        code += if n == 0 { part } else { part.split_once("*/").unwrap().1 };
    }
    let (_, code) = code.split_once("extern \"C\" {").unwrap();
    let name = |declaration: &str| {
        let (head, _) = declaration.split_once('(')?;
        head.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_string)
    };
    code.split(';').filter_map(name).filter(|name| name.starts_with("isolator_")).collect()
}

#[test]
fn it_is_what_the_sources_say() {
    committed("include/isolator.h", &header());
}

#[test]
fn the_symbol_map_names_its_functions() {
    let names = functions(&header()).into_iter().map(|name| format!("    {name};\n")).collect::<String>();
    let map = format!(
        "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n/* What the shared library shows; made by tests/header.rs. */\nISOLATOR_0 {{\nglobal:\n{names}local:\n    *;\n}};\n"
    );
    committed("isolator.map", &map);
}

#[test]
fn the_shared_library_shows_its_functions_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = shared(folder.path()) else { return };
    let Some(shown) = output(Command::new("readelf").args(["--dyn-syms", "-dW"]).arg(library)) else {
        return;
    };
    assert!(shown.contains("Library soname: [libisolator.so.0]"), "{shown}");
    // Num: Value Size Type Bind Vis Ndx Name; what is undefined comes from other libraries.
    let defined = shown.lines().filter_map(|line| {
        let fields = line.split_whitespace().collect::<Vec<_>>();
        let [_, _, _, kind, bind, _, place, name, ..] = fields[..] else { return None };
        (matches!(bind, "GLOBAL" | "WEAK") && place != "UND" && place != "Ndx")
            .then(|| (kind.to_string(), name.to_string()))
    });
    let (versions, shown): (BTreeSet<_>, BTreeSet<_>) = defined.partition(|(_, name)| name == "ISOLATOR_0");
    let expected =
        functions(&header()).into_iter().map(|name| ("FUNC".to_string(), format!("{name}@@ISOLATOR_0")));
    assert_eq!((versions.len(), shown), (1, expected.collect()));
}

#[test]
fn compilers_take_it_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, standard, file) in [("cc", "-std=c99", "header.c"), ("c++", "-std=c++17", "header.cc")] {
        let source = folder.path().join(file);
        std::fs::write(
            &source,
            "#include <isolator.h>\nint main(void) { return isolator_version() == 0; }\n",
        )
        .unwrap();
        let mut compile = Command::new(compiler);
        compile.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]);
        output(compile.arg(here("include")).arg(&source));
    }
}
