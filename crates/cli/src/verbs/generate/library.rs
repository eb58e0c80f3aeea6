// SPDX-License-Identifier: MIT OR Apache-2.0
//! A man page in section 3 for each function of libisolator, made of the comments in its header.

use roff::{Inline, Roff, bold, italic, roman};

/// Comments, types, and functions, each with its comment before it.
pub const HEADER: &str = include_str!("../../../../libisolator/include/isolator.h");

/// The text that a page of a function that gives a number adds to its result.
const MESSAGE: &str =
    "After a failure isolator_last_error() gives what failed, on what, why and what to do, unless noted.";

/// A function as the header has it.
struct Function<'a> {
    name: &'a str,
    declaration: &'a str,
    /// Paragraphs that hold for all functions of its group.
    group: Vec<String>,
    comment: Comment,
}

/// A comment by its commands: `@brief`, `@param NAME`, `@return`, `@note`.
#[derive(Default)]
struct Comment {
    brief: String,
    paragraphs: Vec<String>,
    parameters: Vec<(String, String)>,
    returns: Option<String>,
    notes: Vec<String>,
    /// Of a comment that begins a group: its name.
    group: Option<String>,
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
    let mut group = Vec::new();
    let mut functions = Vec::new();
    for text in header.split("/**").skip(1) {
        let Some((comment, rest)) = text.split_once("*/") else { continue };
        let comment = self::comment(comment);
        if let Some(name) = &comment.group {
            group = [vec![name.clone()], comment.paragraphs].concat();
        } else if let Some((declaration, name)) = declared(rest) {
            functions.push(Function { name, declaration, group: group.clone(), comment });
        }
    }
    functions
}

/// The declaration that follows a comment, and the name of its function.
fn declared(text: &str) -> Option<(&str, &str)> {
    let declaration = text.split_once(';')?.0.trim();
    let name = declaration.split_once('(')?.0.rsplit([' ', '*']).next()?;
    (!declaration.starts_with("typedef") && name.starts_with("isolator_")).then_some((declaration, name))
}

fn comment(text: &str) -> Comment {
    let mut comment = Comment::default();
    for paragraph in blocks(text) {
        let (command, rest) = match paragraph.strip_prefix('@') {
            Some(command) => command.split_once(' ').unwrap_or((command, "")),
            None => ("", paragraph.as_str()),
        };
        match command {
            "" => comment.paragraphs.push(rest.into()),
            "brief" => comment.brief = rest.into(),
            "param" => {
                let (name, what) = rest.split_once(' ').unwrap_or((rest, ""));
                comment.parameters.push((name.into(), what.into()));
            }
            "return" => comment.returns = Some(rest.into()),
            "note" => comment.notes.push(rest.into()),
            "defgroup" => comment.group = Some(rest.split_once(' ').unwrap_or((rest, "")).1.into()),
            _ => {}
        }
    }
    comment
}

/// The paragraphs of a comment, each in one line; a command begins one.
fn blocks(comment: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut begins = true;
    for line in comment.lines().map(|line| line.trim_start_matches([' ', '\t', '*']).trim_end()) {
        match blocks.last_mut() {
            _ if line.is_empty() => begins = true,
            Some(block) if !begins && !line.starts_with('@') => *block = format!("{block} {line}"),
            _ => {
                blocks.push(line.into());
                begins = false;
            }
        }
    }
    blocks
}

fn page(function: &Function, all: &[Function], header: &str) -> String {
    let mut page = Roff::new();
    let Function { name, declaration, group, comment } = function;
    page.control("TH", [name, "3", "", concat!("libisolator ", env!("CARGO_PKG_VERSION"))]);
    page.control("SH", ["NAME"]);
    let brief = comment.brief.split(". ").next().unwrap_or_default().trim_end_matches('.');
    page.text([roman(format!("{name} - {brief}"))]);
    page.control("SH", ["LIBRARY"]);
    page.text([roman("libisolator ("), italic("-lisolator"), roman(")")]);
    page.control("SH", ["SYNOPSIS"]);
    verbatim(&mut page, &format!("#include <isolator.h>\n\n{declaration};"));
    for kind in types(declaration, header) {
        page.text([]);
        verbatim(&mut page, kind);
    }
    page.control("SH", ["DESCRIPTION"]);
    paragraphs(&mut page, std::iter::once(&comment.brief).chain(&comment.paragraphs));
    for (name, what) in &comment.parameters {
        page.control("TP", []);
        page.text([italic(name)]);
        page.text([roman(what)]);
    }
    if let Some(returns) = &comment.returns {
        page.control("SH", ["RETURN VALUE"]);
        let message =
            (declaration.starts_with("int ") && returns.contains("errno")).then(|| MESSAGE.to_string());
        paragraphs(&mut page, [returns].into_iter().chain(&message));
    }
    if !comment.notes.is_empty() || group.len() > 1 {
        page.control("SH", ["NOTES"]);
        paragraphs(&mut page, comment.notes.iter().chain(group.iter().skip(1)));
    }
    page.control("SH", ["SEE ALSO"]);
    page.text(see_also(function, all));
    page.render()
}

/// The other functions of the group, and where errors are explained.
fn see_also(function: &Function, all: &[Function]) -> Vec<Inline> {
    let others = all.iter().filter(|other| other.group.first() == function.group.first());
    let mut names = others.map(|other| other.name).filter(|name| *name != function.name).collect::<Vec<_>>();
    if function.name != "isolator_last_error" && !names.contains(&"isolator_last_error") {
        names.push("isolator_last_error");
    }
    let mut see = names.into_iter().flat_map(|name| [bold(name), roman("(3), ")]).collect::<Vec<_>>();
    see.extend([bold("isolator"), roman("(1)")]);
    see
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

/// Paragraphs; what stands between backticks is set in italics.
fn paragraphs<'a>(page: &mut Roff, texts: impl Iterator<Item = &'a String>) {
    for text in texts {
        page.control("PP", []);
        let set = |(n, part): (usize, &str)| if n % 2 == 0 { roman(part) } else { italic(part) };
        page.text(text.split('`').enumerate().map(set).collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = "struct isolator_cycle {
	/** Its number. */
	uint64_t number;
};
/**
 * @defgroup doing Doing things
 *
 * By one thread.
 * @{
 */
/**
 * @brief Do `this`, now
 *        and later. More.
 *
 * Another paragraph.
 *
 * @param cycle Cycle to
 *        do.
 * @param each Called.
 * @return 0, or a negative errno.
 * @note No system call.
 */
int isolator_do(const struct isolator_cycle *cycle,
		void (*each)(void *data));
/** @brief Say it. */
void isolator_say(void);
/** @} */
";

    #[test]
    fn each_function_has_a_page_with_all_its_comment_says() {
        let pages = pages(SHORT);
        let names = pages.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["isolator_do.3", "isolator_say.3"]);
        let text = &pages[0].1;
        let order = [
            "isolator_do \\- Do `this`, now and later",
            "int isolator_do(const struct isolator_cycle *cycle,",
            "uint64_t number;",
            "Do \\fIthis\\fR, now and later. More.",
            "Another paragraph.",
            "\\fIcycle\\fR\nCycle to do.",
            "\\fIeach\\fR\nCalled.",
            ".SH \"RETURN VALUE\"\n.PP\n0, or a negative errno.",
            ".SH NOTES\n.PP\nNo system call.\n.PP\nBy one thread.",
            "\\fBisolator_say\\fR(3), \\fBisolator_last_error\\fR(3)",
        ];
        let found = order
            .iter()
            .map(|part| text.find(part).unwrap_or_else(|| panic!("no '{part}' in {text}")))
            .collect::<Vec<_>>();
        assert!(found.is_sorted(), "{found:?} in {text}");
        assert!(!pages[1].1.contains("RETURN VALUE"), "{}", pages[1].1);
    }

    #[test]
    fn no_page_uses_words_of_rust() {
        let pages = pages(HEADER);
        assert!(pages.len() > 40, "{} pages", pages.len());
        for (name, text) in pages {
            for word in ["Safety", "usize", "Option", "Result", "panic", "uintptr_t", "@"] {
                assert!(!text.contains(word), "{name} says {word}");
            }
        }
    }
}
