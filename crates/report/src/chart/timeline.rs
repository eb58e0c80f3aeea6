// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maxima over time: a strip for each CPU, the loads one after the other as they were measured.
//!
//! A column of a strip stands for as many seconds as it must and shows the largest latency among them, so
//! that no spike is lost however long the run was. All strips of a probe share both axes; a load that one run
//! measured longer than another leaves a gap there.

use evidence::manifest::Second;

use crate::chart::{
    Band, HEIGHT, LoadStyle, Panels, Plot, Polyline, WIDTH, drawn_cpus, latency_title, limits, listed,
    range_ns, share,
};
use crate::runs::{ProbePeriod, Runs, ShownRun};
use crate::scale::{LogScale, hundredth, time_ticks};
use crate::text;

/// Columns of all strips of a page together, and of one strip.
const COLUMNS_IN_ALL: usize = 24_000;
const COLUMNS_OF_A_STRIP: usize = 720;

/// The width in characters that the narrowest strip has for its bands' names. Where one does not fit as a
/// whole, its shape alone stands there, and the legend names it.
const CHARACTERS: f64 = 34.0;

/// Where a load lies on the common axis of seconds.
struct LoadSpan<'a> {
    load: &'a str,
    style: LoadStyle,
    from_s: u64,
    length_s: u64,
}

/// All strips of `kind`; none where no source tells seconds.
pub(crate) fn panels(runs: &Runs, kind: &ProbePeriod) -> Option<Panels> {
    let parts = parts(runs, kind);
    let length_s = parts.last().map(|part| part.from_s + part.length_s)?;
    let (cpus, left_out) = drawn_cpus(runs, kind);
    let columns = share(COLUMNS_IN_ALL, cpus.len() * runs.all.len(), 60, COLUMNS_OF_A_STRIP);
    // The axis begins at the typical second, not at the smallest latency: maxima are what is drawn.
    let seconds = || runs.rows_of(kind).flat_map(|row| &row.row.series.seconds).filter(|s| s.count > 0);
    let limit = runs.rows_of(kind).filter_map(|row| row.row.entry.limit_ns).min();
    let lowest = seconds().map(|second| second.max_ns).chain(limit).min().unwrap_or(1_000);
    let y = LogScale::around(lowest.max(10) as f64, range_ns(runs, kind).1.max(lowest as f64));
    let axes = Axes { y, length_s, columns, height: if cpus.len() > 4 { 72 } else { 120 } };
    let plots =
        cpus.iter().flat_map(|cpu| runs.all.iter().map(|run| strip(runs, run, kind, *cpu, &parts, &axes)));
    Some(Panels { title: kind.to_string(), edges: String::new(), plots: plots.collect(), left_out })
}

struct Axes {
    y: LogScale,
    length_s: u64,
    columns: usize,
    height: u32,
}

fn parts<'a>(runs: &'a Runs, kind: &ProbePeriod) -> Vec<LoadSpan<'a>> {
    let (mut parts, mut from_s) = (Vec::new(), 0);
    for (place, load) in runs.loads.iter().enumerate() {
        let rows = runs.rows_of(kind).filter(|row| row.row.entry.key.load == *load);
        let length = |row: &[Second]| row.last().map_or(0, |last| u64::from(last.second) + 1);
        let length_s = rows.map(|row| length(&row.row.series.seconds)).max().unwrap_or(0);
        if length_s > 0 {
            parts.push(LoadSpan { load, style: LoadStyle::of(place), from_s, length_s });
            from_s += length_s;
        }
    }
    parts
}

/// The title of the upright axis stands above all strips of a probe: it is the same.
pub(crate) fn title(kind: &ProbePeriod) -> String {
    format!("largest {}, logarithmic", latency_title(kind))
}

fn strip(runs: &Runs, run: &ShownRun, kind: &ProbePeriod, cpu: u32, parts: &[LoadSpan], axes: &Axes) -> Plot {
    let mut plot = Plot {
        title: format!("cpu {cpu}"),
        run: run.mark(runs.several()),
        height: axes.height,
        cpu,
        x_title: "time of measurement".to_string(),
        y_title: "",
        reading: format!("linear,0,{}", axes.length_s),
        x: time_ticks(axes.length_s as f64, 6),
        y: axes.y.ticks(if axes.height > 100 { 5 } else { 3 }, text::axis),
        ..Plot::default()
    };
    let rows: Vec<_> = parts.iter().map(|part| run.row(kind, part.load, cpu)).collect();
    let mut words = Vec::new();
    for (part, row) in parts.iter().zip(&rows) {
        let share = part.length_s as f64 / axes.length_s as f64;
        let from = part.from_s as f64 / axes.length_s as f64;
        let fits = text::clean(part.load).chars().count() <= (share * CHARACTERS) as usize;
        let name = if fits { text::clean(part.load) } else { String::new() };
        plot.bands.push(Band { style: part.style, name, from: hundredth(100.0 * from) });
        let Some(row) = row.filter(|row| !row.row.series.seconds.is_empty()) else { continue };
        let columns =
            ((axes.columns as f64 * share).round() as usize).clamp(2, part.length_s.max(2) as usize);
        let maxima = maxima(&row.row.series.seconds, part.length_s, columns);
        let across = |column: usize| ((from + share * column as f64 / columns as f64) * WIDTH).round();
        let line = Polyline {
            style: part.style,
            class: "",
            name: text::short(part.load, 40),
            path: path(&maxima, across, axes.y),
            // The script splits them at commas.
            values: listed(
                maxima.iter().map(|max_ns| max_ns.map(|ns| text::figure(ns as f64).replace(',', ""))),
            ),
            span: [hundredth(100.0 * from), hundredth(100.0 * (from + share))],
        };
        let over = row.row.entry.limit_ns.map(|limit_ns| stems(&maxima, limit_ns, across, axes.y));
        let over = over.filter(|path| !path.is_empty()).map(|path| Polyline {
            class: "over",
            path,
            values: String::new(),
            ..line.clone()
        });
        plot.lines.extend([Some(line), over].into_iter().flatten());
        let above =
            row.row.series.seconds.iter().filter(|s| s.max_ns > row.row.entry.limit_ns.unwrap_or(u64::MAX));
        let seconds = row.row.series.seconds.len();
        words.push(format!(
            "{}: maximum {}, {} of {} above the limit",
            text::short(part.load, 30),
            row.latency(row.summary.max_ns),
            above.count(),
            text::plural(seconds, "second")
        ));
    }
    plot.description = format!("Largest latency over time. {}.", words.join("; "));
    plot.limits_y = limits(rows.into_iter().flatten(), |ns| axes.y.at(ns));
    if plot.lines.is_empty() {
        plot.empty = "no seconds recorded".to_string();
    }
    plot
}

/// The largest latency of each of `columns` parts of `length_s` seconds; `None` where nothing was sampled.
fn maxima(seconds: &[Second], length_s: u64, columns: usize) -> Vec<Option<u64>> {
    let mut maxima = vec![None; columns];
    for second in seconds.iter().filter(|second| second.count > 0) {
        let column = (u64::from(second.second) * columns as u64 / length_s) as usize;
        let column = &mut maxima[column.min(columns - 1)];
        *column = (*column).max(Some(second.max_ns));
    }
    maxima
}

fn up(y: LogScale, ns: u64) -> f64 {
    (HEIGHT - y.at(ns as f64) / 100.0 * HEIGHT).round()
}

fn path(maxima: &[Option<u64>], across: impl Fn(usize) -> f64, y: LogScale) -> String {
    use std::fmt::Write;
    let (mut out, mut before) = (String::new(), None);
    for (column, max_ns) in maxima.iter().enumerate() {
        if let Some(ns) = max_ns {
            let height = up(y, *ns);
            let _ = match before {
                None => write!(out, "M{} {height}H{}", across(column), across(column + 1)),
                Some(before) if before == height => write!(out, "H{}", across(column + 1)),
                Some(_) => write!(out, "V{height}H{}", across(column + 1)),
            };
        }
        before = max_ns.map(|ns| up(y, ns));
    }
    out
}

/// Upright strokes from the limit to every maximum above it.
fn stems(maxima: &[Option<u64>], limit_ns: u64, across: impl Fn(usize) -> f64, y: LogScale) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let foot = up(y, limit_ns);
    for (column, max_ns) in maxima.iter().enumerate() {
        if let Some(ns) = max_ns.filter(|ns| *ns > limit_ns) {
            let middle = ((across(column) + across(column + 1)) / 2.0).round();
            let _ = write!(out, "M{middle} {foot}V{}", up(y, ns));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u32, max_ns: u64) -> Second {
        Second { second, count: 1_000, min_ns: 1, sum_ns: max_ns, max_ns, missed: 0 }
    }

    #[test]
    fn a_column_keeps_the_largest_of_its_seconds() {
        let day: Vec<_> = (0..86_400).map(|n| second(n, if n == 40_000 { 900 } else { 7 })).collect();
        let columns = maxima(&day, 86_400, 720);
        assert_eq!(columns.iter().filter(|max| **max == Some(900)).count(), 1);
        assert_eq!(columns[40_000 * 720 / 86_400], Some(900));
    }

    #[test]
    fn seconds_without_samples_leave_a_gap() {
        let y = LogScale { from: 1.0, to: 100.0 };
        let columns =
            maxima(&[second(0, 10), Second { second: 1, ..Second::default() }, second(2, 10)], 3, 3);
        assert_eq!(columns, [Some(10), None, Some(10)]);
        assert_eq!(path(&columns, |column| column as f64, y), "M0 500H1M2 500H3");
    }

    #[test]
    fn only_what_is_above_the_limit_is_raised() {
        let y = LogScale { from: 1.0, to: 100.0 };
        assert_eq!(stems(&[Some(10), Some(100)], 10, |column| column as f64 * 10.0, y), "M15 500V0");
    }
}
