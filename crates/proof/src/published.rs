// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published matrix: the lab's results for the kernels of an article, and whether both changed in the
//! same direction.
//!
//! The article's figure is a worst latency. The nearest results of the lab: at rest, the worst latency in
//! virtual time; under a load, which virtual time refuses, the longest interruption in kernel instructions.

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
        "\n| from → to | what changed | load | the article's worst, us | the lab's nearest | excursions | same direction |\n\
         |---|---|---|--:|--:|--:|---|\n",
    );
    for (n, before) in published.iter().enumerate() {
        for after in &published[n + 1..] {
            let _ = compare(&mut out, document, before, after);
        }
    }
    out
}

/// A line if two rows differ in either their kernel or their boot line; none if they differ in more.
fn compare(out: &mut String, document: &MatrixDocument, before: &Published, after: &Published) -> Option<()> {
    let what = match (before.kernel != after.kernel, before.boot != after.boot) {
        _ if before.load != after.load => return None,
        (true, false) => format!("{} → {}", before.kernel, after.kernel),
        (false, true) => format!("boot line {} → {}", before.boot, after.boot),
        _ => return None,
    };
    let (then, now) = (seen(document, before)?, seen(document, after)?);
    let (worst_then, unit) = then.worst?;
    let (worst_now, _) = now.worst.filter(|(_, other)| *other == unit)?;
    let same = (after.max_us - before.max_us).signum() == (worst_now - worst_then).signum();
    let rows = format!("{} → {}", before.row, after.row);
    let article = format!("{} → {}", before.max_us, after.max_us);
    let counted = format!("{} → {}", then.excursions?, now.excursions?);
    let (same, load) = (if same { "yes" } else { "**no**" }, &before.load);
    writeln!(
        out,
        "| {rows} | {what} | {load} | {article} | {worst_then} → {worst_now} {unit} | {counted} | {same} |"
    )
    .ok()
}

/// The lab's results for a row.
struct LabFigures {
    /// The figure nearest to a worst latency, with its unit.
    worst: Option<(f64, &'static str)>,
    excursions: Option<u64>,
}

fn seen(document: &MatrixDocument, row: &Published) -> Option<LabFigures> {
    let in_mode = |mode| {
        let place = |cell: &&MatrixCell| {
            cell.mode == mode && (&cell.kernel, &cell.boot, &cell.load) == (&row.kernel, &row.boot, &row.load)
        };
        document.cells.iter().find(place)
    };
    let counted = in_mode(Mode::Count)?;
    let at_rest =
        in_mode(Mode::Virtual).and_then(|cell| cell.max_ns).map(|ns| (ns as f64 / 1e3, "virtual us"));
    let longest = counted.max_kernel_instructions.map(|longest| (longest as f64, "instructions"));
    Some(LabFigures { worst: at_rest.or(longest), excursions: counted.excursions })
}

#[cfg(test)]
mod tests {
    use evidence::manifest::SCHEMA_VERSION;

    use super::*;

    fn cell(kernel: &str, boot: &str, longest: u64) -> MatrixCell {
        MatrixCell {
            scenario: "quiet".into(),
            load: "l2".into(),
            kernel: kernel.into(),
            boot: boot.into(),
            isolate: None,
            mode: Mode::Count,
            breaches: None,
            deferred: None,
            excursions: Some(7),
            kernel_instructions: Some(1),
            max_kernel_instructions: Some(longest),
            max_ns: None,
            change_percent: None,
            published: None,
            bundle: String::new(),
        }
    }

    #[test]
    fn compares_rows_that_differ_in_one_property() {
        let at_rest = |kernel: &str, max_ns| MatrixCell {
            load: "idle".into(),
            mode: Mode::Virtual,
            excursions: None,
            max_ns: Some(max_ns),
            ..cell(kernel, "none", 0)
        };
        let idle = |kernel: &str| MatrixCell { load: "idle".into(), ..cell(kernel, "none", 5) };
        let document = MatrixDocument {
            schema_version: SCHEMA_VERSION,
            matrix: "published".into(),
            about: String::new(),
            cells: vec![
                cell("debian", "none", 1200),
                cell("debian-rt", "none", 1300),
                cell("debian-rt", "full", 3),
                idle("debian"),
                idle("debian-rt"),
                at_rest("debian", 154_400),
                at_rest("debian-rt", 37_700),
            ],
            complaint: None,
            not_run_again: Vec::new(),
        };
        let row = |row: &str, kernel: &str, boot: &str, max_us| Published {
            row: row.into(),
            kernel: kernel.into(),
            boot: boot.into(),
            load: if ["M1", "M3"].contains(&row) { "idle" } else { "l2" }.into(),
            max_us,
        };
        let published = [
            row("M1", "debian", "none", 53.0),
            row("M2", "debian", "none", 318.0),
            row("M3", "debian-rt", "none", 23.0),
            row("M4", "debian-rt", "none", 56.0),
            row("M6", "debian-rt", "full", 24.0),
        ];
        let tables = tables(&document, &published);
        let told =
            tables.lines().filter(|line| line.contains(" → ") && line.contains("M")).collect::<Vec<_>>();
        assert_eq!(
            told,
            [
                "| M1 → M3 | debian → debian-rt | idle | 53 → 23 | 154.4 → 37.7 virtual us | 7 → 7 | yes |",
                "| M2 → M4 | debian → debian-rt | l2 | 318 → 56 | 1200 → 1300 instructions | 7 → 7 | **no** |",
                "| M4 → M6 | boot line none → full | l2 | 56 → 24 | 1300 → 3 instructions | 7 → 7 | yes |",
            ]
        );
    }
}
