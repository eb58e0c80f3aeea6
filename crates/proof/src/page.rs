// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables in a page of the documentation, each between two comments that name it. The text around them is
//! written by hand. Whatever makes a table, here or as a program of its own, it comes into its page by
//! [`put`].

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether the page has a place for the table of that name; checked before a long measurement.
pub fn has_place(page: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    page_with(page, name, "").map(drop)
}

/// Replaces the table of that name in a page.
pub fn put(page: &Path, name: &str, table: &str) -> Result<(), Box<dyn Error>> {
    Ok(evidence::writer::replace(page, page_with(page, name, table)?.as_bytes())?)
}

/// Refuses parts of a page that there are not.
pub fn must_have_parts(known: &[&str], names: &[&str]) -> Result<(), Box<dyn Error>> {
    match names.iter().find(|name| !known.contains(name)) {
        Some(unknown) => {
            Err(format!("there is no part '{unknown}'; choose from {}", known.join(", ")).into())
        }
        None => Ok(()),
    }
}

/// The status of a command whose table is whole, but shows something that is not as claimed.
const NOT_AS_CLAIMED: i32 = 2;

/// The status of a command that cannot do its work here.
const SKIPPED: i32 = 77;

/// Puts the table of that name, which a command prints, into a page, and shows it as it comes. A command that
/// fails leaves the page as it is.
pub fn put_printed(page: &Path, name: &str, command: &[&str]) -> Result<(), Box<dyn Error>> {
    has_place(page, name)?;
    let [program, arguments @ ..] = command else { return Err("no command was given".into()) };
    let failed = |why: &dyn std::fmt::Display| format!("{name}: {program}: {why}");
    let mut child =
        Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().map_err(|why| failed(&why))?;
    let mut printed = String::new();
    for line in BufReader::new(child.stdout.take().ok_or("no standard output")?).lines() {
        let line = line?;
        println!("{line}");
        printed.extend([&line, "\n"]);
    }
    let status = child.wait()?;
    match status.code() {
        Some(0) => put(page, name, &printed),
        Some(NOT_AS_CLAIMED) => {
            put(page, name, &printed)?;
            Err(failed(&"not all is as claimed").into())
        }
        Some(SKIPPED) => Ok(()),
        _ => Err(failed(&status).into()),
    }
}

fn page_with(page: &Path, name: &str, table: &str) -> Result<String, Box<dyn Error>> {
    let text = fs::read_to_string(page)?;
    let lacks = || {
        let (begin, end) = (begin(name), end(name));
        format!("cannot write {}: it has no comments '{}' and '{}'", page.display(), begin.trim(), end.trim())
    };
    Ok(with_table(&text, name, table).ok_or_else(lacks)?)
}

/// A command may write several tables, whose names go on behind a comma.
fn begin(name: &str) -> String {
    let command = name.split(',').next().unwrap_or(name);
    format!("<!-- {name}: written by make {command}, not to be edited -->\n")
}

fn end(name: &str) -> String {
    format!("<!-- end of {name} -->\n")
}

fn with_table(text: &str, name: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(&begin(name))?;
    let (_, after) = rest.split_once(&end(name))?;
    Some([before, &begin(name), "\n", table.trim_end(), "\n\n", &end(name), after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_leaves_the_page() {
        let page = tempfile::NamedTempFile::new().unwrap();
        let before = format!("A\n{}\nold\n\n{}B\n", begin("x"), end("x"));
        fs::write(page.path(), &before).unwrap();
        let put = |status: &str, name: &str| {
            let script = format!("echo '| {status} |'; exit {status}");
            let result = put_printed(page.path(), name, &["sh", "-c", &script]);
            (fs::read_to_string(page.path()).unwrap(), result.map_err(|why| why.to_string()))
        };
        assert_eq!(put("1", "x"), (before.clone(), Err("x: sh: exit status: 1".to_string())));
        assert_eq!(put("77", "x"), (before.clone(), Ok(())));
        let lacks = put("0", "y").1.unwrap_err();
        let comments = "'<!-- y: written by make y, not to be edited -->' and '<!-- end of y -->'";
        assert!(lacks.ends_with(comments), "{lacks}");
        assert_eq!(put("0", "x"), (before.replace("old", "| 0 |"), Ok(())));
        let wrong = Err("x: sh: not all is as claimed".to_string());
        assert_eq!(put("2", "x"), (before.replace("old", "| 2 |"), wrong));
    }

    #[test]
    fn replaces_only_the_table_of_its_name() {
        let page = format!("A\n{}old\n{}B\n{}C\n{}", begin("x"), end("x"), begin("y"), end("y"));
        let once = with_table(&page, "x", "| new |\n").unwrap();
        assert!(once.contains("| new |") && !once.contains("old") && once.contains("C\n"), "{once}");
        assert_eq!(with_table(&once, "x", "| new |").unwrap(), once);
        assert_eq!(with_table(&page, "z", ""), None);
    }
}
