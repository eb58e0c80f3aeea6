// SPDX-License-Identifier: MIT OR Apache-2.0
//! A man page in section 3 for each function of libisolator, made of its header: which is made of the library's sources.

use roff::{Inline, Roff, bold, italic, roman};

/// Comments, types, and functions, each with its comment before it.
pub const HEADER: &str = include_str!("../../../../libisolator/include/isolator.h");

/// What every page of a function that gives a number says of it.
const RESULT: &str = "0 or a positive result, or a negative errno: `isolator_last_error` then says what failed, on what, why and what to do.";

/// A function as the header has it.
struct Function<'a> {
    name: &'a str,
    declaration: &'a str,
    /// What it does, in paragraphs.
    does: String,
    /// What it relies on, likewise.
    relies_on: String,
}

/// Name and text of each page's file.
pub fn pages(header: &str) -> Vec<(String, String)> {
    let functions = functions(header);
    functions
        .iter()
        .map(|function| (format!("{}.3", function.name), page(function, &functions, header)))
        .collect()
}

fn functions(header: &str) -> Vec<Function<'_>> {
    let (_, declared) = header.split_once("extern \"C\" {").unwrap_or_default();
    declared.split("/*").skip(1).filter_map(function).collect()
}

/// A comment, from behind its beginning, and the declaration that follows.
fn function(text: &str) -> Option<Function<'_>> {
    let (comment, rest) = text.split_once("*/")?;
    let declaration = rest.split_once(';')?.0.trim();
    let name = declaration.split_once('(')?.0.rsplit([' ', '*']).next()?;
    let comment = comment.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let (does, relies_on) = comment.split_once("# Safety").unwrap_or((&comment, ""));
    Some(Function { name, declaration, does: does.trim().into(), relies_on: relies_on.trim().into() })
}

fn page(function: &Function, all: &[Function], header: &str) -> String {
    let mut page = Roff::new();
    let version = concat!("libisolator ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [function.name, "3", "", version]);
    page.control("SH", ["NAME"]);
    let summary = function.does.split(". ").next().unwrap_or_default().replace('\n', " ").replace('`', "");
    page.text([roman(format!("{} - {}", function.name, summary.trim_end_matches('.')))]);
    page.control("SH", ["LIBRARY"]);
    page.text([roman("libisolator ("), italic("-lisolator"), roman(")")]);
    page.control("SH", ["SYNOPSIS"]);
    verbatim(&mut page, &format!("#include <isolator.h>\n\n{};", function.declaration));
    for kind in types(function.declaration, header) {
        page.text([]);
        verbatim(&mut page, kind);
    }
    page.control("SH", ["DESCRIPTION"]);
    paragraphs(&mut page, &function.does);
    if function.declaration.starts_with("int ") {
        page.control("SH", ["RETURN VALUE"]);
        paragraphs(&mut page, RESULT);
    }
    if !function.relies_on.is_empty() {
        page.control("SH", ["WHAT IT RELIES ON"]);
        paragraphs(&mut page, &function.relies_on);
    }
    page.control("SH", ["SEE ALSO"]);
    let family = |name: &str| name.splitn(3, '_').take(2).collect::<Vec<_>>().join("_");
    let others =
        all.iter().filter(|other| other.name != function.name && family(other.name) == family(function.name));
    let others = others
        .map(|other| other.name)
        .chain((function.name != "isolator_last_error").then_some("isolator_last_error"));
    let mut see = others.flat_map(|name| [bold(name), roman("(3), ")]).collect::<Vec<_>>();
    see.extend([bold("isolator"), roman("(1)")]);
    page.text(see);
    page.render()
}

/// The types with fields that a declaration names.
fn types<'a>(declaration: &str, header: &'a str) -> Vec<&'a str> {
    let named = declaration.split("struct ").skip(1).filter_map(|rest| rest.split([' ', ')', ',']).next());
    named
        .filter_map(|name| {
            let begin = header.find(&format!("struct {name} {{"))?;
            let length = header[begin..].find("};")? + 2;
            Some(&header[begin..begin + length])
        })
        .collect()
}

fn verbatim(page: &mut Roff, text: &str) {
    page.control("nf", []);
    for line in text.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
}

/// Paragraphs, of which what stands between backticks is set apart.
fn paragraphs(page: &mut Roff, text: &str) {
    for paragraph in text.split("\n\n") {
        page.control("PP", []);
        let set = |(n, part): (usize, &str)| if n % 2 == 0 { roman(part) } else { italic(part) };
        let inlines: Vec<Inline> = paragraph.replace('\n', " ").split('`').enumerate().map(set).collect();
        page.text(inlines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_a_page_with_its_declaration_and_what_it_relies_on() {
        let header = "int outside(void);\nstruct isolator_cycle {\n  /*\n   Its number.\n   */\n  uint64_t number;\n};\nextern \"C\" {\n/*\n Does `this`, now. And\n that.\n\n As well.\n\n # Safety\n On you.\n */\nint isolator_do(const struct isolator_cycle *cycle,\n                int n);\n\n/*\n Says it.\n */\nconst char *isolator_last_error(void);\n}";
        let pages = pages(header);
        assert_eq!(
            pages.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["isolator_do.3", "isolator_last_error.3"]
        );
        let text = &pages[0].1;
        let order = [
            "isolator_do \\- Does this, now",
            "int isolator_do(const struct isolator_cycle *cycle,",
            "uint64_t number;",
            "Does \\fIthis\\fR, now. And that.",
            "As well.",
            ".SH \"RETURN VALUE\"",
            "On you.",
            "\\fBisolator_last_error\\fR(3)",
        ];
        let found = order
            .iter()
            .map(|part| text.find(part).unwrap_or_else(|| panic!("no '{part}' in {text}")))
            .collect::<Vec<_>>();
        assert!(found.is_sorted(), "{found:?} in {text}");
        assert!(!pages[1].1.contains("RETURN VALUE"), "{}", pages[1].1);
    }

    #[test]
    fn the_header_has_a_page_for_each_function() {
        let names = pages(HEADER).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        for name in
            ["isolator_monitor_begin.3", "isolator_rt_setup.3", "isolator_poll.3", "isolator_version.3"]
        {
            assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
        }
    }
}
