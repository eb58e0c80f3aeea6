// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part's result, short enough for a page: no output of programs, and the rows of long tables together.
//!
//! The whole result is a file beside the program. Figures are only added up, and rows only put together where
//! they say the same, so that the page states nothing that the whole does not.

use std::collections::BTreeSet;

/// A table of more rows has those together that differ in their first cell alone.
const LONG: usize = 20;

/// That many names are listed, more are counted.
const LISTED: usize = 8;

/// The page's form of a result in Markdown.
pub fn of(whole: &str) -> String {
    let mut short = String::new();
    let mut lines = whole.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let _end = lines.find(|line| line.starts_with("```"));
        } else if line.starts_with('|') {
            let mut rows = vec![line];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(row);
            }
            table(&rows).into_iter().for_each(|row| add(&mut short, &row));
        } else if line.starts_with('`') && line.contains(" passed, ") {
            add(&mut short, &format!("- {line}"));
        } else if line.starts_with("Skipped: ") {
            add(&mut short, &format!("  {line}"));
        } else {
            add(&mut short, line);
        }
    }
    short
}

/// Adds a line; of several empty ones there is one, and none between the items of a list.
fn add(text: &mut String, line: &str) {
    let last = text.trim_end().lines().last().unwrap_or_default();
    let in_list = last.starts_with("- ") || last.starts_with("  Skipped: ");
    if line.starts_with("- ") && in_list {
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    if !(line.is_empty() && (text.is_empty() || text.ends_with("\n\n"))) {
        text.push_str(line);
        text.push('\n');
    }
}

/// The cells of a row.
fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | ")).replace("  ", " ")
}

/// The rows of a table, its head and the line below it first.
fn table(rows: &[&str]) -> Vec<String> {
    let [head, line, body @ ..] = rows else { return rows.iter().map(|row| row.to_string()).collect() };
    let columns = cells(head);
    let split: Vec<Vec<String>> = body.iter().map(|row| cells(row)).collect();
    let short = match columns.starts_with(&["kernel".to_string(), "test".to_string()]) {
        true => sums(&split),
        false if body.len() > LONG => alike(&columns[0], &split),
        false => return rows.iter().map(|row| row.to_string()).collect(),
    };
    [head.to_string(), line.to_string()].into_iter().chain(short.iter().map(|cells| row(cells))).collect()
}

/// A row for each first cell: how many tests, the sums of their numbers, and every other text once.
fn sums(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut sums: Vec<Vec<String>> = Vec::new();
    let kernel = |row: &[String]| row[0].split(", series").next().map(str::to_string);
    for group in rows.chunk_by(|one, other| kernel(one) == kernel(other)) {
        let column = |n: usize| group.iter().map(move |row| row.get(n).map_or("", String::as_str));
        let sum = |n: usize| {
            let numbers: Option<Vec<u64>> =
                column(n).filter(|cell| !cell.is_empty()).map(|cell| cell.parse().ok()).collect();
            match numbers {
                Some(numbers) if !numbers.is_empty() => numbers.iter().sum::<u64>().to_string(),
                _ => {
                    let texts: BTreeSet<_> = column(n).filter(|cell| !cell.is_empty()).collect();
                    texts.into_iter().collect::<Vec<_>>().join("; ")
                }
            }
        };
        let tests = if group.len() > 1 { format!("{} programs", group.len()) } else { group[0][1].clone() };
        sums.push([group[0][0].clone(), tests].into_iter().chain((2..group[0].len()).map(sum)).collect());
    }
    sums
}

/// One row for all that differ in their first cell alone, where the first of them was.
fn alike(first: &str, rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut groups: Vec<(Vec<&str>, &[String])> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(_, rest)| *rest == &row[1..]) {
            Some((names, _)) => names.push(&row[0]),
            None => groups.push((vec![&row[0]], &row[1..])),
        }
    }
    let name = |names: &[&str]| match names.len() > LISTED {
        true => format!("{} times {first}", names.len()),
        false => names.join(", "),
    };
    groups.iter().map(|(names, rest)| [&[name(names)], *rest].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_programs_is_left_out() {
        let whole = "On x.\n\n`errors`, 2 CPUs: 1 passed, 0 failed.\nSkipped: y.\n\n```\nz\n```\n\n\
                     `ends`, 2 CPUs: 2 passed, 0 failed.\n\n```\n```\n\nNot built: w.\n";
        let short = "On x.\n\n- `errors`, 2 CPUs: 1 passed, 0 failed.\n  Skipped: y.\n\
                     - `ends`, 2 CPUs: 2 passed, 0 failed.\n\nNot built: w.\n";
        assert_eq!(of(whole), short);
    }

    #[test]
    fn tests_of_a_kernel_are_added_up() {
        let head = "| kernel | test | passed | failed | log |\n|---|---|--:|--:|---|\n";
        let whole = format!(
            "{head}| a, series 1 | `keys` | 7 | 0 | |\n| a | `x` | 1 | 2 | clean |\n| b | `x` | 1 | 0 | **WARN** |\n"
        );
        let short =
            format!("{head}| a, series 1 | 2 programs | 8 | 2 | clean |\n| b | `x` | 1 | 0 | **WARN** |\n");
        assert_eq!(of(&whole), short);
    }

    #[test]
    fn rows_that_say_the_same_are_counted_in_long_tables() {
        let row = |name: &str, ours: &str| format!("| {name} | ok | {ours} |\n");
        let head = "| test | stock | ours |\n|---|---|---|\n";
        let short = format!("{head}{}{}", row("a", "ok"), row("b", "ok"));
        assert_eq!(of(&short), short);
        let many: String = (0..LONG).map(|n| row(&n.to_string(), "ok")).collect();
        let whole = format!("{head}{}{many}{}", row("x", "not ok"), row("y", "not ok"));
        let counted = format!("{head}| x, y | ok | not ok |\n| {LONG} times test | ok | ok |\n");
        assert_eq!(of(&whole), counted);
    }
}
