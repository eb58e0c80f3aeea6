// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published matrix: what the lab counts where an article measured, and whether both went the same way.

use std::fmt::Write;

use evidence::lab::{MatrixCell, MatrixDocument, Mode};
use lab::matrix::Published;

/// Both tables, in Markdown.
pub fn tables(document: &MatrixDocument, published: &[Published]) -> String {
    let mut out = String::from(
        "| kernel | boot line | load | scenario | excursions | kernel instructions | longest | worst, virtual us | change |\n\
         |---|---|---|---|--:|--:|--:|--:|--:|\n",
    );
    let number = |figure: Option<u64>| figure.map_or(String::new(), |figure| figure.to_string());
    for cell in &document.cells {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            cell.kernel,
            cell.boot,
            cell.load,
            cell.scenario,
            number(cell.excursions),
            number(cell.kernel_instructions),
            number(cell.max_kernel_instructions),
            cell.max_ns.map_or(String::new(), |ns| format!("{:.2}", ns as f64 / 1e3)),
            cell.change_percent.map_or(String::new(), |change| format!("{change:+.1} %")),
        );
    }
    out.push_str(
        "\n| from → to | what changed | load | the article's worst, us | the lab's excursions | same direction |\n\
         |---|---|---|--:|--:|---|\n",
    );
    for (n, before) in published.iter().enumerate() {
        for after in &published[n + 1..] {
            let _ = compare(&mut out, document, before, after);
        }
    }
    out
}

/// A line where two rows differ in their kernel or in their boot line; none where they differ in more.
fn compare(out: &mut String, document: &MatrixDocument, before: &Published, after: &Published) -> Option<()> {
    let what = match (before.kernel != after.kernel, before.boot != after.boot) {
        _ if before.load != after.load => return None,
        (true, false) => format!("{} → {}", before.kernel, after.kernel),
        (false, true) => format!("boot line {} → {}", before.boot, after.boot),
        _ => return None,
    };
    let (then, now) = (counted(document, before)?, counted(document, after)?);
    let same = (after.max_us - before.max_us).signum() == (now as f64 - then as f64).signum();
    let (same, load) = (if same { "yes" } else { "**no**" }, &before.load);
    let (rows, us) = (format!("{} → {}", before.row, after.row), [before.max_us, after.max_us]);
    writeln!(out, "| {rows} | {what} | {load} | {} → {} | {then} → {now} | {same} |", us[0], us[1]).ok()
}

/// What the lab counted in the place of a row.
fn counted(document: &MatrixDocument, row: &Published) -> Option<u64> {
    let place = |cell: &&MatrixCell| {
        cell.mode == Mode::Count
            && (&cell.kernel, &cell.boot, &cell.load) == (&row.kernel, &row.boot, &row.load)
    };
    document.cells.iter().find(place)?.excursions
}

#[cfg(test)]
mod tests {
    use evidence::manifest::SCHEMA_VERSION;

    use super::*;

    fn cell(kernel: &str, boot: &str, excursions: u64) -> MatrixCell {
        MatrixCell {
            scenario: "quiet".into(),
            load: "l2".into(),
            kernel: kernel.into(),
            boot: boot.into(),
            isolate: None,
            mode: Mode::Count,
            breaches: None,
            deferred: None,
            excursions: Some(excursions),
            kernel_instructions: Some(1),
            max_kernel_instructions: Some(1),
            max_ns: None,
            change_percent: None,
            published: None,
            bundle: String::new(),
        }
    }

    #[test]
    fn directions_are_told_between_rows_that_differ_in_one_thing() {
        let document = MatrixDocument {
            schema_version: SCHEMA_VERSION,
            matrix: "published".into(),
            about: String::new(),
            cells: vec![
                cell("debian", "none", 1200),
                cell("debian-rt", "none", 1300),
                cell("debian-rt", "full", 3),
            ],
            complaint: None,
        };
        let row = |row: &str, kernel: &str, boot: &str, max_us| Published {
            row: row.into(),
            kernel: kernel.into(),
            boot: boot.into(),
            load: "l2".into(),
            max_us,
        };
        let published = [
            row("M2", "debian", "none", 318.0),
            row("M4", "debian-rt", "none", 56.0),
            row("M6", "debian-rt", "full", 24.0),
        ];
        let tables = tables(&document, &published);
        let told =
            tables.lines().filter(|line| line.contains(" → ") && line.contains("M")).collect::<Vec<_>>();
        assert_eq!(
            told,
            [
                "| M2 → M4 | debian → debian-rt | l2 | 318 → 56 | 1200 → 1300 | **no** |",
                "| M4 → M6 | boot line none → full | l2 | 56 → 24 | 1300 → 3 | yes |",
            ]
        );
    }
}
