// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface: the header declares what the sources export, describes all of it, and compilers accept it.
//! The shared library shows what the header declares and nothing else. `UPDATE=1 cargo test -p isolator-c
//! --test header` writes the symbol map.

mod common;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use common::{here, output, shared};

/// The number of the interface: raised when a program that was linked before would not work with the library.
const ABI: u32 = 1;

/// Functions that the header has no more, for programs that were linked before.
const FORMER: [&str; 1] = ["isolator_clock_ns"];

fn header() -> String {
    std::fs::read_to_string(here("include/isolator.h")).unwrap()
}

/// The exports of the sources, as declarations of C.
fn exported() -> String {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::generate_with_config(here("."), config).unwrap().write(&mut made);
    String::from_utf8(made).unwrap()
}

/// Declarations without comments, conditions and layout, and each constant as `NAME VALUE`.
fn declarations(header: &str) -> BTreeSet<String> {
    let (mut code, mut constants, mut in_condition) = (String::new(), BTreeSet::new(), false);
    for line in without_comments(header).lines() {
        match line.strip_prefix('#') {
            Some(directive) if directive.starts_with("ifdef __cplusplus") => in_condition = true,
            Some(directive) if directive.starts_with("endif") => in_condition = false,
            Some(directive) => constants
                .extend(directive.strip_prefix("define ").filter(|rest| rest.contains(' ')).map(plain)),
            None if in_condition => {}
            None => code = code + line + "\n",
        }
    }
    let mut found = constants;
    let (mut depth, mut declaration) = (0, String::new());
    for letter in code.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match letter {
            ';' if depth == 0 => {
                found.insert(plain(&std::mem::take(&mut declaration)));
            }
            _ => declaration.push(letter),
        }
    }
    assert_eq!(declaration.trim(), "");
    found
}

fn without_comments(header: &str) -> String {
    let mut parts = header.split("/*");
    let code = parts.next().unwrap().to_string();
    parts.fold(code, |code, part| code + part.split_once("*/").unwrap().1)
}

/// Words and signs with one space between.
fn plain(text: &str) -> String {
    let (mut out, mut in_word) = (String::new(), false);
    for letter in text.chars() {
        let is_word = letter.is_alphanumeric() || letter == '_';
        if !letter.is_whitespace() {
            if !(out.is_empty() || is_word && in_word) {
                out.push(' ');
            }
            out.push(letter);
        }
        in_word = is_word;
    }
    out
}

/// A function of the header, with the comment above it.
struct Function {
    name: String,
    returns_nothing: bool,
    parameters: Vec<String>,
    comment: String,
}

fn functions(header: &str) -> Vec<Function> {
    header.split("/**").skip(1).filter_map(function).collect()
}

fn function(text: &str) -> Option<Function> {
    let (comment, rest) = text.split_once("*/")?;
    let declaration = plain(rest.split(';').next()?);
    let (head, parameters) = declaration.split_once(" ( ")?;
    let name = head.rsplit(' ').next()?.to_string();
    let is_function = !head.starts_with("typedef") && name.starts_with("isolator_");
    let parameters = parameters.strip_suffix(" )")?;
    is_function.then(|| Function {
        returns_nothing: head == format!("void {name}"),
        name,
        parameters: names(parameters),
        comment: comment.into(),
    })
}

/// The names of parameters, of which one may be a pointer to a function.
fn names(parameters: &str) -> Vec<String> {
    let (mut names, mut depth, mut last) = (Vec::new(), 0, "");
    for word in parameters.split(' ') {
        match word {
            "(" => depth += 1,
            ")" => depth -= 1,
            "," if depth == 0 => names.push(std::mem::take(&mut last).to_string()),
            "*" | "," => {}
            // Of `void (*each)(...)` the first parentheses hold the name.
            _ if depth == 0 || last == "void" => last = word,
            _ => {}
        }
    }
    names.push(last.to_string());
    names.retain(|name| name != "void");
    names
}

#[test]
fn declares_what_the_sources_export() {
    let (declared, exported) = (declarations(&header()), declarations(&exported()));
    let missing = exported.difference(&declared).collect::<Vec<_>>();
    let unknown = declared.difference(&exported).collect::<Vec<_>>();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:#?}\nnot exported: {unknown:#?}");
}

#[test]
fn describes_each_function_parameter_and_result() {
    let functions = functions(&header());
    assert!(functions.len() > 40, "found {} functions", functions.len());
    for Function { name, returns_nothing, parameters, comment } in functions {
        assert!(comment.contains("@brief "), "{name} has no @brief");
        let mut described =
            comment.split("@param ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        assert!(parameters.iter().map(String::as_str).eq(described.by_ref()), "{name} takes {parameters:?}");
        assert_eq!(comment.contains("@return "), !returns_nothing, "{name}: @return");
    }
}

#[test]
fn uses_the_words_of_c() {
    for word in ["Safety", "usize", "Option", "Result", "panic", "uintptr_t", "`Some", "`None"] {
        assert!(!header().contains(word), "the header says {word}");
    }
}

#[test]
fn the_symbol_map_names_its_functions() {
    let path = here("isolator.map");
    let names = functions(&header()).into_iter().map(|function| function.name);
    let names = names.chain(FORMER.map(String::from)).collect::<BTreeSet<_>>();
    let names = names.into_iter().map(|name| format!("    {name};\n")).collect::<String>();
    let map = format!(
        "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n/* What the shared library shows; made by tests/header.rs. */\nISOLATOR_{ABI} {{\nglobal:\n{names}local:\n    *;\n}};\n"
    );
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &map).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), map, "write it with UPDATE=1");
}

#[test]
fn the_shared_library_shows_its_functions_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = shared(folder.path()) else { return };
    let Some(shown) = output(Command::new("readelf").args(["--dyn-syms", "-dW"]).arg(library)) else {
        return;
    };
    assert!(shown.contains(&format!("Library soname: [libisolator.so.{ABI}]")), "{shown}");
    // Num: Value Size Type Bind Vis Ndx Name; what is undefined comes from other libraries.
    let defined = shown.lines().filter_map(|line| {
        let fields = line.split_whitespace().collect::<Vec<_>>();
        let [_, _, _, kind, bind, _, place, name, ..] = fields[..] else { return None };
        (matches!(bind, "GLOBAL" | "WEAK") && place != "UND" && place != "Ndx")
            .then(|| (kind.to_string(), name.to_string()))
    });
    let version = format!("ISOLATOR_{ABI}");
    let (versions, shown): (BTreeSet<_>, BTreeSet<_>) = defined.partition(|(_, name)| *name == version);
    let expected = functions(&header());
    let expected = expected.iter().map(|function| function.name.as_str()).chain(FORMER);
    let expected = expected.map(|name| ("FUNC".to_string(), format!("{name}@@{version}")));
    assert_eq!((versions.len(), shown), (1, expected.collect()));
}

/// Compiles a source of `lines` by each compiler and standard, all at once, with warnings as errors.
fn accepted(name: &str, lines: &str, compilers: &[&str], standards: &[&str], warnings: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(name);
    std::fs::write(&source, format!("{lines}\nint main(void) {{ return !isolator_version(); }}\n")).unwrap();
    let compile = |(compiler, standard): (&str, &str)| {
        let mut compile = Command::new(compiler);
        compile.args([&format!("-std={standard}"), "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic"]);
        compile.args(["-Wconversion", "-Wshadow", "-Werror"]).args(warnings);
        // The headers themselves are judged; those of the kernel, which have the masks, are not.
        compile.arg("-I").arg(here("include")).arg("-isystem").arg(here("../../kernel/include/uapi"));
        compile.arg(&source).stderr(Stdio::piped());
        (format!("{compiler} {standard}"), compile.spawn())
    };
    let pairs = compilers.iter().flat_map(|compiler| standards.iter().map(|standard| (*compiler, *standard)));
    for (what, running) in pairs.map(compile).collect::<Vec<_>>() {
        match running {
            Ok(running) => {
                let output = running.wait_with_output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && said.is_empty(), "{what}: {said}");
            }
            Err(error) => println!("skipped: no {what} here: {error}"),
        }
    }
}

const C: [&str; 4] = ["c99", "c11", "c17", "c2x"];
const CPP: [&str; 3] = ["c++17", "c++20", "c++2b"];

/// Findings of clang's -Weverything in any header: padding, constructs of newer or older standards, and
/// commands in comments that it does not know; in those of C++ alone, classes without a source file.
const EVERYTHING: [&str; 9] = [
    "-Weverything",
    "-Wno-unknown-warning-option",
    "-Wno-padded",
    "-Wno-c++98-compat",
    "-Wno-c++98-compat-pedantic",
    "-Wno-unsafe-buffer-usage",
    "-Wno-documentation-unknown-command",
    "-Wno-pre-c2x-compat",
    "-Wno-weak-vtables",
];

#[test]
fn compilers_of_c_accept_it_without_a_warning() {
    let lines = "#include <isolator.h>\n#include <linux/isolator.h>";
    accepted("header.c", lines, &["gcc"], &C, &["-Wstrict-prototypes"]);
    accepted("header.c", lines, &["clang"], &C, &EVERYTHING);
}

#[test]
fn compilers_of_cpp_accept_it_without_a_warning() {
    let lines = "#include <isolator.hpp>\n#include <linux/isolator.h>";
    accepted("header.cc", lines, &["g++"], &CPP, &[]);
    accepted("header.cc", lines, &["clang++"], &CPP, &EVERYTHING);
}
