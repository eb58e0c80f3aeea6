// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lab saw: a line for each scenario, what entered the kernel, and what is to be read with it.

use std::fmt::Write;

use evidence::lab::{GateDocument, LabDocument, LabRow, LogVerdict, MatrixDocument, Mode};

use super::column::{self, Column};
use super::{Paint, Style, wrapped};
use crate::text;

/// Entries that a row names.
const ENTRIES: usize = 3;

/// The table of a lab run.
pub fn lab(document: &LabDocument, style: Style) -> String {
    let mut out = String::new();
    if !document.rows.is_empty() {
        let rows = &document.rows;
        let mut columns = vec![
            Column::text("scenario", 0, rows, |row| text::short(&row.scenario, 24)),
            Column::of("cpu", 0, rows, |row| row.cpu.to_string()),
            Column::of("seconds", 0, rows, |row| format!("{:.1}", row.seconds_guest)),
            Column::of("excursions", 0, rows, |row| row.excursions.to_string()),
            Column::of("kernel instructions", 1, rows, |row| row.kernel_instructions.to_string()),
            Column::of("longest", 1, rows, |row| row.max_kernel_instructions.to_string()),
        ];
        column::fit(&mut columns, style.width());
        let _ = writeln!(out, "{}", column::line(columns.iter().map(|column| column.set(column.head))));
        for (n, row) in rows.iter().enumerate() {
            let cells = columns.iter().map(|column| column.set(&column.cells[n]));
            let _ = writeln!(out, "{}", column::line(cells));
            wrapped(&mut out, "    ", &entries(row), Paint::Quiet, style);
        }
    }
    for storm in &document.storms {
        let (paint, did) =
            if storm.took_effect { (Paint::Plain, "") } else { (Paint::Bad, "TOOK NO EFFECT: ") };
        let line = format!("{}: {did}{}", text::clean(&storm.name), text::clean(&storm.did));
        wrapped(&mut out, "storm ", &line, paint, style);
    }
    for witness in &document.witness {
        let line = format!(
            "{} on cpu {}: the guest names {} interruptions, the scope saw {}, {} agree (recall {:.1} %, precision {:.1} %)",
            witness.scenario,
            witness.cpu,
            witness.named,
            witness.seen,
            witness.matched,
            witness.recall * 100.0,
            witness.precision * 100.0,
        );
        wrapped(&mut out, "witness: ", &line, Paint::Plain, style);
    }
    for warning in &document.guest_log.warnings {
        wrapped(&mut out, "kernel log: ", &text::clean(warning), Paint::Bad, style);
    }
    let log = match document.guest_log.verdict {
        LogVerdict::Clean => format!("clean, {} lines", document.guest_log.lines),
        LogVerdict::Bad => "the kernel complained".to_string(),
    };
    let mode = match document.mode {
        Mode::Count => "count",
        Mode::Virtual => "virtual",
        Mode::Real => "real",
    };
    wrapped(
        &mut out,
        "kernel: ",
        &format!("{}, {}, log {log}", document.kernel, document.architecture),
        Paint::Plain,
        style,
    );
    wrapped(&mut out, "boot: ", &text::clean(&document.boot_line), Paint::Plain, style);
    wrapped(
        &mut out,
        "mode: ",
        &format!("{mode}, {}; QEMU {}", document.mode_reason, document.emulator),
        Paint::Quiet,
        style,
    );
    out.truncate(out.trim_end().len());
    out
}

/// The table of a matrix: what was run side by side, and what changed.
pub fn matrix(document: &MatrixDocument, style: Style) -> String {
    let mut out = String::new();
    let cells = &document.cells;
    let number = |figure: Option<u64>| figure.map_or("-".to_string(), |figure| figure.to_string());
    let mut columns = vec![
        Column::text("scenario", 0, cells, |cell| text::short(&cell.scenario, 16)),
        Column::text("load", 0, cells, |cell| text::short(&cell.load, 10)),
        Column::text("kernel", 0, cells, |cell| text::short(&cell.kernel, 16)),
        Column::text("boot", 0, cells, |cell| text::short(&cell.boot, 10)),
        Column::of("excursions", 0, cells, |cell| number(cell.excursions)),
        Column::of("kernel instructions", 3, cells, |cell| number(cell.kernel_instructions)),
        Column::of("longest", 2, cells, |cell| number(cell.max_kernel_instructions)),
        Column::of("virtual us", 1, cells, |cell| {
            cell.max_ns.map_or("-".to_string(), |ns| format!("{:.2}", ns as f64 / 1e3))
        }),
        Column::of("change", 0, cells, |cell| {
            cell.change_percent.map_or("-".to_string(), |change| format!("{change:+.1} %"))
        }),
    ];
    if cells.iter().any(|cell| cell.published.is_some()) {
        columns.push(Column::text("published", 1, cells, |cell| cell.published.clone().unwrap_or_default()));
    }
    column::fit(&mut columns, style.width());
    let _ = writeln!(out, "{}", column::line(columns.iter().map(|column| column.set(column.head))));
    for n in 0..cells.len() {
        let _ = writeln!(out, "{}", column::line(columns.iter().map(|column| column.set(&column.cells[n]))));
    }
    wrapped(&mut out, "", &format!("{}: {}", document.matrix, document.about), Paint::Plain, style);
    if cells.iter().any(|cell| cell.published.is_some()) {
        let note = "published figures are latencies of the article's machine; the lab's are counts, and virtual time \
            made of instructions: only the direction of a change can be compared";
        wrapped(&mut out, "", note, Paint::Quiet, style);
    }
    out.truncate(out.trim_end().len());
    out
}

/// What grew against a baseline, and the verdict as the last line.
pub fn gate(document: &GateDocument, style: Style) -> String {
    let mut out = String::new();
    for one in &document.growth {
        let (scenario, what) = (text::clean(&one.scenario), text::clean(&one.what));
        let figures = format!("{} before, {} now, {} allowed", one.before, one.after, one.allowed);
        let line = format!("{scenario} on cpu {}: {what}: {figures}", one.cpu);
        wrapped(&mut out, "- ", &line, Paint::Bad, style);
    }
    let (before, after) = (text::clean(&document.kernel_before), text::clean(&document.kernel_after));
    wrapped(&mut out, "kernel: ", &format!("{before} before, {after} now"), Paint::Plain, style);
    let (paint, verdict) = if document.held {
        (Paint::Good, "==> NOTHING GREW")
    } else {
        (Paint::Bad, "==> MORE THAN THE BASELINE")
    };
    let _ = write!(out, "\n{}", style.paint(paint, verdict));
    out
}

/// What a CPU entered the kernel through, most often first.
fn entries(row: &LabRow) -> String {
    let mut entries = row.by_entry.iter().collect::<Vec<_>>();
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.count));
    let named =
        entries.iter().take(ENTRIES).map(|(name, entry)| format!("{} {}", entry.count, text::clean(name)));
    let named = named.collect::<Vec<_>>().join(", ");
    match entries.len().saturating_sub(ENTRIES) {
        0 if named.is_empty() => "nothing entered the kernel".to_string(),
        0 => named,
        more => format!("{named}, and {more} more"),
    }
}
