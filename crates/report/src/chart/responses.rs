// SPDX-License-Identifier: MIT OR Apache-2.0
//! All responses laid over each other, as an oscilloscope shows them that triggers on the input and never
//! forgets: above the input with its edge, below the output as it followed each time, brighter where more
//! samples went. The earliest and the latest are marked, whatever their number.
//!
//! It is made of the row's histogram, which holds every sample of a run of any length: nothing fades, and a
//! single response of a day is seen as faintly as one can be. Across is the response time: linear from the
//! input's edge on, logarithmic where the latest took more than [`LINEAR`] times as long as the earliest.

use evidence::Histogram;
use evidence::Result;
use machine::quantity::Time;

use crate::chart::persistence::{Pictures, columns, data_uri, encode, strength};
use crate::chart::{Band, LoadStyle, Plot, latency_title, left_out};
use crate::runs::{ProbePeriod, RowView, Runs, ShownRun};
use crate::scale::{GridLine, LogScale, hundredth, linear_ticks};
use crate::text;

/// Pictures that a page carries.
const PICTURES: usize = 48;

/// Up to here the earliest is still seen on a linear axis that holds the latest.
const LINEAR: f64 = 20.0;

/// The screen in pixels.
const WIDTH: usize = 240;
const HEIGHT: usize = 48;

/// The rest of the input's edge.
const BEFORE: usize = 10;

/// Lines of the screen: where input and output are high and low.
const INPUT: (usize, usize) = (4, 18);
const OUTPUT: (usize, usize) = (28, 43);

/// The axis of response times that pictures of one kind share.
#[derive(Debug, Clone, Copy)]
enum ResponseAxis {
    Linear(f64),
    Log(LogScale),
}

impl ResponseAxis {
    fn of(min_ns: f64, max_ns: f64) -> ResponseAxis {
        let min_ns = min_ns.max(1.0);
        match max_ns / min_ns {
            ..=LINEAR => ResponseAxis::Linear(max_ns.max(1.0) * 1.1),
            _ => ResponseAxis::Log(LogScale::around(min_ns, max_ns)),
        }
    }

    /// Per cent of the screen from the left.
    fn at(&self, ns: f64) -> f64 {
        let edge = 100.0 * BEFORE as f64 / WIDTH as f64;
        let share = match self {
            ResponseAxis::Linear(to) => (ns / to).clamp(0.0, 1.0),
            ResponseAxis::Log(log) => log.at(ns) / 100.0,
        };
        edge + share * (100.0 - edge)
    }

    /// The column of the screen.
    fn column(&self, ns: f64) -> usize {
        ((self.at(ns) / 100.0 * WIDTH as f64) as usize).clamp(BEFORE, WIDTH - 1)
    }

    fn ticks(&self) -> Vec<GridLine> {
        let edge = 100.0 * BEFORE as f64 / WIDTH as f64;
        let ticks = match self {
            ResponseAxis::Linear(to) => linear_ticks(*to, 5, text::axis),
            ResponseAxis::Log(log) => log.ticks(5, text::axis),
        };
        let moved =
            |tick: GridLine| GridLine { at: hundredth(edge + tick.at / 100.0 * (100.0 - edge)), ..tick };
        ticks.into_iter().map(moved).collect()
    }
}

/// All pictures of `kind`, by CPU, then load, then run; none where it is another probe, or has no sample.
pub(crate) fn pictures(runs: &Runs, kind: &ProbePeriod) -> Result<Option<Pictures>> {
    let drawable = |row: &RowView| row.row.series.latency.count() > 0;
    let rows = || runs.rows_of(kind).filter(drawable);
    let (min_ns, max_ns) =
        (rows().filter_map(|row| row.summary.min_ns).min(), rows().map(|row| row.summary.max_ns).max());
    let (Some(min_ns), Some(max_ns), true) = (min_ns, max_ns, kind.row_kind().answers_edges()) else {
        return Ok(None);
    };
    let axis = ResponseAxis::of(min_ns as f64, max_ns as f64);
    let mut plots = Vec::new();
    for cpu in runs.cpus(kind) {
        for load in &runs.loads {
            for run in &runs.all {
                if let Some(row) =
                    run.row(kind, load, cpu).filter(drawable).filter(|_| plots.len() < PICTURES)
                {
                    plots.push(plot(runs, run, row, axis)?);
                }
            }
        }
    }
    let drawn = rows().count();
    let note = if drawn > PICTURES { left_out(PICTURES, drawn, "rows") } else { String::new() };
    let columns = columns(runs.all.len(), runs.loads_of(kind), runs.cpus(kind).len()).min(2 * runs.all.len());
    let x_title = match axis {
        ResponseAxis::Linear(_) => latency_title(kind),
        ResponseAxis::Log(_) => format!("{}, logarithmic", latency_title(kind)),
    };
    let y_title = "input above, output below".to_string();
    Ok(Some(Pictures { title: kind.to_string(), y_title, x_title, columns, plots, left_out: note }))
}

fn plot(runs: &Runs, run: &ShownRun, row: RowView, axis: ResponseAxis) -> Result<Plot> {
    let key = &row.row.entry.key;
    let max_ns = row.summary.max_ns;
    let min_ns = row.summary.min_ns.unwrap_or(max_ns);
    let time = |ns: u64| text::page(Time::round(ns));
    let extreme = |name: &str, ns: u64| GridLine {
        at: hundredth(axis.at(ns as f64)),
        label: format!("{name} {}", time(ns)),
    };
    Ok(Plot {
        title: format!("cpu {} · {} · spread {}", key.cpu, text::short(&key.load, 60), time(max_ns - min_ns)),
        cpu: key.cpu,
        run: run.mark(runs.several()),
        description: format!(
            "{} responses over each other after the input's edge: the earliest after {}, the latest after {}.",
            text::count(row.summary.count),
            time(min_ns),
            time(max_ns)
        ),
        height: 150,
        x: axis.ticks(),
        extremes: vec![extreme("min", min_ns), extreme("max", max_ns)],
        picture: data_uri(&encode(&pixels(&row.row.series.latency, axis), WIDTH)?),
        bands: vec![Band {
            style: LoadStyle::of(runs.load_place(&key.load)),
            name: String::new(),
            from: 0.0,
        }],
        ..Plot::default()
    })
}

/// The palette entry of every pixel, from the top left, a row at a time.
fn pixels(responses: &Histogram, axis: ResponseAxis) -> Vec<u8> {
    let mut rose = [0u64; WIDTH];
    for bucket in responses.buckets() {
        let middle_ns = bucket.from_ns as f64 + (bucket.to_ns - bucket.from_ns) as f64 / 2.0;
        let column = &mut rose[axis.column(middle_ns)];
        *column = column.saturating_add(bucket.count);
    }
    let all = rose.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    let mut pixels = vec![0; WIDTH * HEIGHT];
    let mut light = |row: usize, column: usize, count: u64| {
        pixels[row * WIDTH + column] = match count {
            0 => 0,
            _ => strength(count as f64, all as f64),
        };
    };
    let mut risen = 0u64;
    for (column, rises) in rose.into_iter().enumerate() {
        let row = if column < BEFORE { INPUT.1 } else { INPUT.0 };
        light(row, column, all);
        light(OUTPUT.1, column, all - risen);
        (OUTPUT.0 + 1..OUTPUT.1).for_each(|row| light(row, column, rises));
        risen = risen.saturating_add(rises);
        light(OUTPUT.0, column, risen);
    }
    (INPUT.0..=INPUT.1).for_each(|row| light(row, BEFORE, all));
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(values: &[(u64, u64)]) -> (Vec<u8>, ResponseAxis) {
        let mut responses = Histogram::new();
        values.iter().for_each(|(ns, times)| responses.record_many(*ns, *times));
        let axis = ResponseAxis::of(responses.min_ns() as f64, responses.max_ns() as f64);
        (pixels(&responses, axis), axis)
    }

    #[test]
    fn a_single_late_response_of_a_day_is_seen_and_faint() {
        let (pixels, axis) = screen(&[(400, 1 << 34), (470, 1)]);
        let between = OUTPUT.0 + 2;
        let at = |row: usize, ns: f64| pixels[row * WIDTH + axis.column(ns)];
        assert!(at(between, 400.0) > at(between, 470.0) && at(between, 470.0) > 0);
        assert_eq!(at(between, 440.0), 0, "none came there");
        assert_eq!(
            (at(OUTPUT.1, 440.0), at(OUTPUT.1, 480.0)),
            (1, 0),
            "it was low until then, and nothing after"
        );
        assert_eq!((at(OUTPUT.0, 390.0), at(OUTPUT.0, 480.0)), (0, 15));
    }

    #[test]
    fn the_input_has_its_edge_before_any_response() {
        let (pixels, _) = screen(&[(1, 1), (2, 1)]);
        assert!((0..BEFORE).all(|column| pixels[INPUT.1 * WIDTH + column] == 15));
        assert!((BEFORE..WIDTH).all(|column| pixels[INPUT.0 * WIDTH + column] == 15));
        assert!((0..BEFORE).all(|column| pixels[OUTPUT.0 * WIDTH + column] == 0));
    }

    #[test]
    fn an_axis_is_linear_from_the_edge_on_until_that_would_hide_the_earliest() {
        assert!(matches!(ResponseAxis::of(390.0, 470.0), ResponseAxis::Linear(_)));
        assert!(matches!(ResponseAxis::of(0.0, 0.0), ResponseAxis::Linear(_)));
        let axis = ResponseAxis::of(390.0, 4_000_000.0);
        assert!(matches!(axis, ResponseAxis::Log(_)));
        let places = [390.0, 4_000.0, 4_000_000.0].map(|ns| axis.column(ns));
        assert!(places.is_sorted() && places[0] >= BEFORE && places[2] < WIDTH, "{places:?}");
        assert!(axis.ticks().iter().all(|tick| (4.0..=100.0).contains(&tick.at)));
    }
}
