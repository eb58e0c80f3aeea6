// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two runs side by side, as text: a line a figure.

use evidence::Comparison;
use evidence::compare::{Change, Figure};

use super::{Column, Paint, Style, fit, wrapped};
use crate::text;

/// The table of changes, what differs between the runs, and what the figures cannot say.
pub fn comparison(comparison: &Comparison, style: Style) -> String {
    let mut out = String::new();
    let changes = comparison.rows.as_slice();
    let mut columns = vec![
        Column::of("probe", 3, changes, |row| text::clean(&row.key.probe)),
        Column::of("load", 0, changes, |row| text::short(&row.key.load, 16)),
        Column::of("cpu", 0, changes, |row| row.key.cpu.to_string()),
        Column::of("figure", 0, changes, |row| name(row.figure).to_string()),
        Column::of("before", 1, changes, |row| text::us(row.before)),
        Column::of("after", 1, changes, |row| text::us(row.after)),
        Column::of("change", 0, changes, change),
        Column::of("95 %", 2, changes, interval),
    ];
    fit(&mut columns, style.width());
    let line = |cells: Vec<String>| format!("{}\n", cells.join("  ").trim_end());
    let head = line(columns.iter().map(|column| column.set(column.head)).collect());
    out.push_str(&style.paint(Paint::Quiet, head.trim_end()));
    out.push('\n');
    for (place, row) in changes.iter().enumerate() {
        let cell = |column: &Column| {
            let text = column.set(&column.cells[place]);
            if column.head == "change" { paint(row, &text, style) } else { text }
        };
        out.push_str(&line(columns.iter().map(cell).collect()));
    }
    out.push_str(
        &style.paint(Paint::Quiet, "latencies in us; the improvement is the change with its sign turned"),
    );
    out.push_str("\n\n");
    for difference in &comparison.machine_differences {
        wrapped(&mut out, "machine: ", &text::clean(&difference.to_string()), Paint::Quiet, style);
    }
    for (key, side) in comparison
        .only_before
        .iter()
        .map(|key| (key, "before"))
        .chain(comparison.only_after.iter().map(|key| (key, "after")))
    {
        wrapped(
            &mut out,
            "only ",
            &format!("{side}: {}", text::clean(&key.to_string())),
            Paint::Unsure,
            style,
        );
    }
    for (side, which) in [(&comparison.before, "before"), (&comparison.after, "after")] {
        for taint in &side.taints {
            let line = text::clean(&format!("{which}: {}: {}", taint.code, taint.reason));
            wrapped(&mut out, "taint: ", &line, Paint::Unsure, style);
        }
    }
    for caveat in &comparison.caveats {
        wrapped(&mut out, "note: ", &text::clean(caveat), Paint::Quiet, style);
    }
    if comparison.forced {
        for difference in &comparison.differences {
            wrapped(&mut out, "UNLIKE: ", &text::clean(&difference.to_string()), Paint::Bad, style);
        }
    }
    let word = |held| if held { "holds" } else { "does not hold" };
    let verdict =
        format!("==> before: {}; after: {}", word(comparison.before.held), word(comparison.after.held));
    out.push_str(&verdict);
    out.push('\n');
    out
}

fn name(figure: Figure) -> &'static str {
    match figure {
        Figure::P50 => "p50",
        Figure::P99 => "p99",
        Figure::P99_9 => "p99.9",
        Figure::P99_999 => "p99.999",
        Figure::Max => "max",
        Figure::Mean => "mean",
    }
}

fn change(row: &Change) -> String {
    row.change_percent.map_or("-".to_string(), |percent| format!("{percent:+.1} %"))
}

fn interval(row: &Change) -> String {
    row.interval_percent.map_or("-".to_string(), |[low, high]| format!("{low:+.1} .. {high:+.1}"))
}

/// Coloured only where the interval leaves no doubt about the direction.
fn paint(row: &Change, text: &str, style: Style) -> String {
    match row.interval_percent {
        Some([_, high]) if high < 0.0 => style.paint(Paint::Good, text),
        Some([low, _]) if low > 0.0 => style.paint(Paint::Bad, text),
        _ => text.to_string(),
    }
}
