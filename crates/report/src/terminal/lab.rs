// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab's results: a line for each scenario, the entries into the kernel, and the caveats.

use std::fmt::Write;

use evidence::lab::{
    GateDocument, GateWindow, LabDocument, LabRow, MatrixDocument, Mode, NO_VERDICT, StormDid, Witness,
};

use machine::quantity::Share;

use super::column::{self, TextColumn};
use super::{JOINT, ResultPaint, Style, banner, wrapped};
use crate::lab::card;
use crate::lab::counts::{isolation, responses};
use crate::lab::words::{beyond, boot_line, log};
use crate::text;

/// Entries that a row names.
const ENTRIES: usize = 3;

/// The indent of a row's entries.
const SET_IN: &str = "    ";

/// The table of a lab run; as its last line what was counted, or why it is no result.
pub fn lab(document: &LabDocument, style: Style) -> String {
    let mut out = String::new();
    rows(&mut out, &document.rows, style);
    for storm in &document.storms {
        let (paint, did) =
            if storm.took_effect { (ResultPaint::Plain, "") } else { (ResultPaint::Bad, "TOOK NO EFFECT: ") };
        let line = format!("{}: {did}{}", named(storm), storm.did);
        wrapped(&mut out, "storm ", &text::clean(&line), paint, style);
    }
    for load in &document.loads {
        let (paint, did) =
            if load.took_effect { (ResultPaint::Plain, "") } else { (ResultPaint::Bad, "TOOK NO EFFECT: ") };
        let line = format!("{}: {did}{}", load.scenario, load.did);
        wrapped(&mut out, "load in ", &text::clean(&line), paint, style);
    }
    for witness in &document.witness {
        wrapped(&mut out, "witness: ", &text::clean(&agreed(witness)), ResultPaint::Plain, style);
    }
    for warning in &document.guest_log.warnings {
        wrapped(&mut out, "kernel log: ", &text::clean(warning), ResultPaint::Bad, style);
    }
    let kernel = format!("{}, {}, log {}", document.kernel, document.architecture, log(document));
    wrapped(&mut out, "kernel: ", &text::clean(&kernel), ResultPaint::Plain, style);
    wrapped(&mut out, "boot: ", &boot_line(document), ResultPaint::Plain, style);
    if let Some(kept) = &document.not_run_again {
        wrapped(&mut out, "cache: ", &text::clean(kept), ResultPaint::Unsure, style);
    }
    let how = format!("{}, {}; QEMU {}", document.mode.name(), document.mode_reason, document.emulator);
    wrapped(&mut out, "mode: ", &text::clean(&how), ResultPaint::Quiet, style);
    let no_result = card::no_result(document);
    if !no_result.is_empty() {
        out.push_str(&format!("\n{}\n", banner(&format!("==> NO RESULT: {no_result}"), "late", style)));
    } else if document.mode == Mode::Count {
        out.push_str(&format!("\n==> {}\n", card::counted(document)));
    }
    out.truncate(out.trim_end().len());
    out
}

/// The table of a matrix: what was run side by side, and what changed.
pub fn matrix(document: &MatrixDocument, style: Style) -> String {
    let mut out = String::new();
    let mut cells = document.cells.clone();
    let isolates = cells.iter().any(|cell| cell.isolate.is_some());
    if isolates {
        // Each storm with all that stands against it, in the order in which they came.
        let first = |name: &str| document.cells.iter().position(|cell| cell.scenario == name);
        cells.sort_by_key(|cell| first(&cell.scenario));
    }
    let cells = &cells;
    let number = |figure: Option<u64>| figure.map_or("-".to_string(), text::count);
    let mut columns = vec![
        TextColumn::text("scenario", 0, cells, |cell| text::short(&cell.scenario, 16)),
        TextColumn::text("load", 0, cells, |cell| text::short(&cell.load, 10)),
        TextColumn::text("kernel", 0, cells, |cell| text::short(&cell.kernel, 16)),
        TextColumn::text("boot", 0, cells, |cell| text::short(&cell.boot, 10)),
        TextColumn::of("excursions", 0, cells, |cell| number(cell.excursions)),
        TextColumn::of("kernel instructions", 3, cells, |cell| number(cell.kernel_instructions)),
        TextColumn::of("longest", 2, cells, |cell| number(cell.max_kernel_instructions)),
        TextColumn::of("virtual us", 1, cells, |cell| {
            cell.max_ns.map_or("-".to_string(), |ns| text::figure(ns as f64))
        }),
        TextColumn::of("change", 0, cells, |cell| {
            cell.change_percent.map_or("-".to_string(), |change| format!("{change:+.1} %"))
        }),
    ];
    if cells.iter().all(|cell| cell.max_ns.is_none()) {
        columns.retain(|column| column.head != "virtual us");
    }
    if isolates {
        columns.push(TextColumn::text("isolated", 0, cells, |cell| {
            cell.isolate.clone().unwrap_or("-".to_string())
        }));
        columns.push(TextColumn::of("breaches", 0, cells, |cell| number(cell.breaches)));
        columns.push(TextColumn::of("deferred", 0, cells, |cell| number(cell.deferred)));
    }
    if cells.iter().any(|cell| cell.published.is_some()) {
        columns
            .push(TextColumn::text("published", 1, cells, |cell| cell.published.clone().unwrap_or_default()));
    }
    column::fit(&mut columns, style.width());
    let _ = writeln!(out, "{}", column::line(columns.iter().map(|column| column.set(column.head))));
    for n in 0..cells.len() {
        let _ = writeln!(out, "{}", column::line(columns.iter().map(|column| column.set(&column.cells[n]))));
    }
    for cached in &document.not_run_again {
        wrapped(&mut out, "cache: ", &text::clean(cached), ResultPaint::Unsure, style);
    }
    wrapped(&mut out, "", &format!("{}: {}", document.matrix, document.about), ResultPaint::Plain, style);
    if cells.iter().any(|cell| cell.published.is_some()) {
        let note = "published figures are latencies of the article's machine; the lab's are counts, and virtual time \
            made of instructions: only the direction of a change can be compared";
        wrapped(&mut out, "", note, ResultPaint::Quiet, style);
    }
    out.truncate(out.trim_end().len());
    out
}

/// The growth against a baseline, and the verdict as the last line.
pub fn gate(document: &GateDocument, style: Style) -> String {
    let mut out = String::new();
    for one in &document.growth {
        let (scenario, what) = (text::clean(&one.scenario), text::clean(&one.what));
        let figures = format!("{} before, {} now, {} allowed", one.before, one.after, one.allowed);
        let line = format!("{scenario} on cpu {}: {what}: {figures}", one.cpu);
        wrapped(&mut out, "- ", &line, ResultPaint::Bad, style);
    }
    for one in &document.not_counted {
        wrapped(&mut out, "- ", &text::clean(one), ResultPaint::Bad, style);
    }
    windows(&mut out, &document.windows, style);
    for one in &document.not_judged {
        wrapped(&mut out, "not judged: ", &text::clean(one), ResultPaint::Unsure, style);
    }
    let (before, after) = (text::clean(&document.kernel_before), text::clean(&document.kernel_after));
    wrapped(&mut out, "kernel: ", &format!("{before} before, {after} now"), ResultPaint::Plain, style);
    let (paint, verdict) = if document.held {
        (ResultPaint::Good, "==> NOTHING GREW")
    } else if document.growth.is_empty() && document.not_counted.is_empty() {
        (ResultPaint::Unsure, "==> NOT PASSED: NOT ALL JUDGED")
    } else if document.growth.is_empty() {
        (ResultPaint::Bad, "==> LESS COUNTED THAN BY THE BASELINE")
    } else {
        (ResultPaint::Bad, "==> MORE THAN THE BASELINE")
    };
    let _ = write!(out, "\n{}", style.paint(paint, verdict));
    out
}

/// The rows that were judged, with their counts and windows.
fn windows(out: &mut String, windows: &[GateWindow], style: Style) {
    if windows.is_empty() {
        return;
    }
    let mut columns = vec![
        TextColumn::text("scenario", 0, windows, |one| text::short(&one.scenario, 24)),
        TextColumn::of("cpu", 2, windows, |one| one.cpu.to_string()),
        TextColumn::of("excursions before", 0, windows, |one| text::count(one.excursions_before)),
        TextColumn::of("now", 0, windows, |one| text::count(one.excursions_after)),
        TextColumn::of("seconds before", 1, windows, |one| format!("{:.1}", one.before_s)),
        TextColumn::of("now", 1, windows, |one| format!("{:.1}", one.after_s)),
    ];
    column::fit(&mut columns, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    let _ = writeln!(out, "{}", style.paint(ResultPaint::Quiet, &head));
    for n in 0..windows.len() {
        let cells = columns.iter().map(|column| column.set(&column.cells[n]));
        let _ = writeln!(out, "{}", column::line(cells));
    }
    for one in windows.iter().filter(|one| one.differs()) {
        let line = format!(
            "{} on cpu {}: the window was {:.1} s before and is {:.1} s now: counts are not scaled",
            text::clean(&one.scenario),
            one.cpu,
            one.before_s,
            one.after_s
        );
        wrapped(out, "note: ", &line, ResultPaint::Unsure, style);
    }
}

fn rows(out: &mut String, rows: &[LabRow], style: Style) {
    if rows.is_empty() {
        return;
    }
    let mut columns = vec![
        TextColumn::text("scenario", 0, rows, |row| text::short(&row.scenario, 24)),
        TextColumn::of("cpu", 2, rows, |row| row.cpu.to_string()),
        TextColumn::of("seconds", 2, rows, |row| format!("{:.1}", row.seconds_guest)),
        TextColumn::of("excursions", 0, rows, |row| text::count(row.excursions)),
        TextColumn::of("kernel instructions", 1, rows, |row| text::count(row.kernel_instructions)),
        TextColumn::of("longest", 3, rows, |row| text::count(row.max_kernel_instructions)),
    ];
    column::fit(&mut columns, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    let _ = writeln!(out, "{}", style.paint(ResultPaint::Quiet, &head));
    for (n, row) in rows.iter().enumerate() {
        let cells = columns.iter().map(|column| column.set(&column.cells[n]));
        let _ = writeln!(out, "{}", column::line(cells));
        entries(out, row, style);
        counters(out, row, style);
        if let Some(line) = responses(row) {
            set_in(out, &line, ResultPaint::Plain, style);
        }
    }
    let caption = "counts of the isolated CPU's ways into the kernel and back";
    wrapped(out, "", &format!("{caption}; {NO_VERDICT}"), ResultPaint::Quiet, style);
    out.push('\n');
}

/// The ways by which a CPU entered the kernel, most often first, indented.
fn entries(out: &mut String, row: &LabRow, style: Style) {
    let mut entries = row.by_entry.iter().collect::<Vec<_>>();
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.count));
    // No line is broken between a number and its name.
    let named = entries.iter().take(ENTRIES);
    let named =
        named.map(|(name, entry)| format!("{}{JOINT}{}", text::count(entry.count), text::clean(name)));
    let named = named.collect::<Vec<_>>().join(", ");
    let line = match entries.len().saturating_sub(ENTRIES) {
        0 if named.is_empty() => "nothing entered the kernel".to_string(),
        0 => named,
        more => format!("{named}, and {more} more"),
    };
    set_in(out, &line, ResultPaint::Quiet, style);
}

/// The counts of the guest's own kernel for a CPU that it isolated, indented.
fn counters(out: &mut String, row: &LabRow, style: Style) {
    let paint = if row.breaches() == Some(0) { ResultPaint::Quiet } else { ResultPaint::Plain };
    if let Some(line) = isolation(row) {
        set_in(out, &line, paint, style);
    }
}

fn set_in(out: &mut String, line: &str, paint: ResultPaint, style: Style) {
    let mut lines = String::new();
    let narrower = Style { width: style.width() - SET_IN.len(), ..style };
    wrapped(&mut lines, "", line, paint, narrower);
    for line in lines.lines() {
        let _ = writeln!(out, "{SET_IN}{line}");
    }
}

/// The storm, and where it was when that is not told by its name.
fn named(storm: &StormDid) -> String {
    match storm.scenario == storm.name {
        true => storm.name.clone(),
        false => format!("{} in {}", storm.name, storm.scenario),
    }
}

fn agreed(witness: &Witness) -> String {
    let share = |share| Share::stated(share).at_least().replace(' ', &JOINT.to_string());
    let beyond = beyond(witness).map_or(String::new(), |words| format!("; {words}"));
    format!(
        "{} on cpu {}: the guest names {} interruptions, the scope saw {}, {} agree (recall {}, precision {}){beyond}",
        witness.scenario,
        witness.cpu,
        text::count(witness.named),
        text::count(witness.seen),
        text::count(witness.matched),
        share(witness.recall),
        share(witness.precision),
    )
}

#[cfg(test)]
mod tests {
    use evidence::lab::MatrixCell;

    use super::*;

    #[test]
    fn a_matrix_with_an_isolator_sets_all_kernels_below_each_storm() {
        let cell =
            |scenario: &str, isolate: Option<&str>, excursions, counted: Option<(u64, u64)>| MatrixCell {
                scenario: scenario.into(),
                load: "idle".into(),
                kernel: "isolator".into(),
                boot: "full".into(),
                isolate: isolate.map(str::to_string),
                mode: Mode::Count,
                breaches: counted.map(|(breaches, _)| breaches),
                deferred: counted.map(|(_, deferred)| deferred),
                excursions: Some(excursions),
                kernel_instructions: None,
                max_kernel_instructions: None,
                max_ns: None,
                change_percent: None,
                published: None,
                bundle: String::new(),
            };
        let mut document = MatrixDocument {
            schema_version: 1,
            matrix: "isolator".into(),
            about: "each storm".into(),
            cells: vec![
                cell("static-keys", None, 360, None),
                cell("timers", None, 200, None),
                cell("static-keys", Some("default"), 1, Some((1, 362))),
                cell("timers", Some("default"), 2, Some((2, 9))),
            ],
            complaint: None,
            not_run_again: vec!["isolator with full: 1 of 2 guests were not run again".into()],
        };
        let columns = |document: &MatrixDocument| {
            let text = matrix(document, Style { color: false, width: 200 });
            let of = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>().join(" ");
            text.lines().map(of).collect::<Vec<_>>()
        };
        assert_eq!(
            columns(&document),
            [
                "scenario load kernel boot excursions kernel instructions longest change isolated breaches deferred",
                "static-keys idle isolator full 360 - - - - - -",
                "static-keys idle isolator full 1 - - - default 1 362",
                "timers idle isolator full 200 - - - - - -",
                "timers idle isolator full 2 - - - default 2 9",
                "cache: isolator with full: 1 of 2 guests were not run again",
                "isolator: each storm",
            ]
        );
        document.cells.truncate(2);
        document.cells[0].max_ns = Some(3_250);
        let lines = columns(&document);
        assert!(
            lines[0].contains("longest virtual us change") && !lines[0].contains("breaches"),
            "{lines:?}"
        );
        assert_eq!(lines[1], "static-keys idle isolator full 360 - - 3.25 -");
    }
}
