// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables in a page of the documentation, each between two comments that name it. The text around them is
//! written by hand.

use std::error::Error;
use std::fs;
use std::path::Path;

/// Whether the page has a place for the table of that name; checked before a long measurement.
pub fn has_place(page: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    page_with(page, name, "").map(drop)
}

/// Replaces the table of that name in a page.
pub fn put(page: &Path, name: &str, table: &str) -> Result<(), Box<dyn Error>> {
    Ok(evidence::writer::replace(page, page_with(page, name, table)?.as_bytes())?)
}

fn page_with(page: &Path, name: &str, table: &str) -> Result<String, Box<dyn Error>> {
    let text = fs::read_to_string(page)?;
    let lacks = || {
        format!("cannot write {}: it has no comments '{}' and '{}'", page.display(), begin(name), end(name))
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
    fn replaces_only_the_table_of_its_name() {
        let page = format!("A\n{}old\n{}B\n{}C\n{}", begin("x"), end("x"), begin("y"), end("y"));
        let once = with_table(&page, "x", "| new |\n").unwrap();
        assert!(once.contains("| new |") && !once.contains("old") && once.contains("C\n"), "{once}");
        assert_eq!(with_table(&once, "x", "| new |").unwrap(), once);
        assert_eq!(with_table(&page, "z", ""), None);
    }
}
