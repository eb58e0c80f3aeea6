// SPDX-License-Identifier: MIT OR Apache-2.0
//! The screen while a run goes on: a table that fills, with progress and time left; for one probe
//! alone a line per thread in cyclictest's form. Without a terminal a line a row; with `--quiet` nothing.
//! With `--live` also a page.

pub mod page;
mod picture;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use measure::series::{RowProgress, SeriesProgress};
use run::{Observer, RunSpec};

use crate::args::Output;
use crate::output::{color_allowed, draw, note, terminal_moves};
use page::LivePage;
use picture::{Overall, PictureRow, RowFigures, RowState, Screen, footer, table, thread_lines};

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A line per row, all rows known from the start.
    Table,
    /// A line per thread of the one row: `T: 0 ( 3407) P:80 I:1000 C: 100000 Min: 7 Act: 10 Avg: 10 Max: 18`.
    Threads,
    /// Nothing.
    Nothing,
}

/// The display of one run, on standard error.
pub struct LiveDisplay {
    view: View,
    /// Lines of the moving text on the terminal; absent where nothing moves.
    drawn: Option<usize>,
    out: Output,
    rows: Vec<PictureRow>,
    row: usize,
    /// Warm-up and length of a row, where known.
    row_time: Option<Duration>,
    began: Instant,
    row_began: Instant,
    last: Option<RowProgress>,
    /// How the last row that ended stood.
    last_row: Option<RowProgress>,
    /// The same for a browser.
    page: Option<LivePage>,
}

impl LiveDisplay {
    /// A display of the rows that `spec` will make; `out` takes what is announced.
    pub fn new(view: View, spec: &RunSpec, out: Output, page: Option<LivePage>) -> LiveDisplay {
        let moving = view != View::Nothing && terminal_moves() && std::io::stderr().is_terminal();
        let name = |load: &str, probe: &str| match spec.probes.len() {
            1 => load.to_string(),
            _ => format!("{load} · {probe}"),
        };
        let names = spec
            .loads
            .iter()
            .flat_map(|load| spec.probes.iter().map(|probe| name(&load.to_string(), probe.name())));
        LiveDisplay {
            view,
            drawn: moving.then_some(0),
            out,
            rows: names.map(|name| PictureRow { name, state: RowState::Waits }).collect(),
            row: 0,
            row_time: row_time(spec),
            began: Instant::now(),
            row_began: Instant::now(),
            last: None,
            last_row: None,
            page,
        }
    }
}

impl Observer for LiveDisplay {
    fn announce(&mut self, text: &str) {
        self.out.print_text(&format!("isolator: {text}"));
    }

    fn prepares(&mut self, text: &str) {
        self.set(RowState::Says(text.to_string()));
    }

    fn wants_latency(&self) -> bool {
        self.page.is_some()
    }

    fn progress(&mut self, progress: &RowProgress) {
        self.last = Some(progress.clone());
        if progress.elapsed.is_zero() {
            return self.prepares("warms up");
        }
        let part =
            progress.length.map(|length| progress.elapsed.as_secs_f64() / length.as_secs_f64().max(1e-9));
        self.set(RowState::Measures(figures(progress), part));
    }

    fn row_ended(&mut self, words: &str) -> Option<String> {
        if let (View::Table, None, Some(row)) = (self.view, self.drawn, self.rows.get(self.row)) {
            note(&format!("{}: {words}", row.name));
        }
        let state = match &self.last {
            Some(progress) => RowState::Ended(figures(progress)),
            None => RowState::Says(words.to_string()),
        };
        self.set(state);
        self.last_row = self.last.take().or(self.last_row.take());
        self.row += 1;
        self.row_began = Instant::now();
        None
    }

    /// The moving text makes room for the final one.
    fn ended(&mut self) {
        self.draw("");
        let last = self.last.take().or(self.last_row.take());
        if let (View::Threads, Some(progress)) = (self.view, last) {
            thread_lines(&threads(&progress), usize::MAX).iter().for_each(|line| note(line));
        }
    }
}

impl LiveDisplay {
    fn set(&mut self, state: RowState) {
        if let Some(row) = self.rows.get_mut(self.row) {
            row.state = state;
        }
        let overall = Overall { elapsed: self.began.elapsed(), left: self.left() };
        if let Some(page) = &self.page {
            page.show(&self.rows, overall, self.last.as_ref());
        }
        if self.drawn.is_none() {
            return;
        }
        let (columns, lines) = rt::thread::terminal_size(std::io::stderr()).unwrap_or((80, 24));
        let screen = Screen { columns: columns.into(), lines: lines.into(), color: color_allowed() };
        let text = match self.view {
            View::Table => table(&self.rows, self.row, overall, screen),
            _ => {
                let width = screen.columns.saturating_sub(1);
                let mut text =
                    self.last.iter().flat_map(|last| thread_lines(&threads(last), width)).collect::<Vec<_>>();
                text.truncate(screen.lines.saturating_sub(2));
                text.push(footer(overall, width, screen));
                text.join("\n")
            }
        };
        self.draw(&text);
    }

    /// Draws over what was drawn before, in one write and without clearing it first, so that nothing
    /// flickers.
    fn draw(&mut self, text: &str) {
        let Some(drawn) = &mut self.drawn else { return };
        let picture = draw(drawn.saturating_sub(1), text, color_allowed());
        *drawn = text.lines().count();
        // A terminal that has gone needs no picture.
        let _ = std::io::stderr().write_all(picture.as_bytes());
    }

    /// Time left: what the present row has yet to go, and for each row to come what was asked and what rows
    /// took beyond that so far, to start and to end their loads.
    fn left(&self) -> Option<Duration> {
        let row_time = self.row_time?;
        let over = u32::try_from(self.row).ok()?;
        let before = self.row_began - self.began;
        let beyond = before.saturating_sub(row_time * over).checked_div(over).unwrap_or_default();
        let to_come = u32::try_from(self.rows.len().saturating_sub(self.row + 1)).ok()?;
        let present = if self.row < self.rows.len() { row_time + beyond } else { Duration::ZERO };
        Some(present.saturating_sub(self.row_began.elapsed()) + (row_time + beyond) * to_come)
    }
}

fn figures(progress: &RowProgress) -> RowFigures {
    let series = || progress.series.iter();
    RowFigures {
        samples: series().map(|one| one.so_far.count).sum(),
        missed: series().map(|one| one.so_far.missed).sum(),
        max_ns: series().map(|one| one.so_far.max_ns).max().unwrap_or(0),
        late: series().any(|one| one.so_far.max_ns > one.limit_ns || one.so_far.missed > 0),
    }
}

/// Warm-up and length of a row; `None` where only the user ends it.
fn row_time(spec: &RunSpec) -> Option<Duration> {
    let longest_ns = spec.periods.iter().map(|period| period.ns.get()).max().unwrap_or(0);
    let length_ns = spec.length.at_most_ns(longest_ns)?;
    Some(Duration::from_nanos(length_ns.saturating_add(spec.warm_up_ns)))
}

/// The fields of cyclictest's live line for each thread, in its microseconds, and what each is worth.
fn threads(progress: &RowProgress) -> Vec<Vec<(u8, String)>> {
    let fields = |(number, series): (usize, &SeriesProgress)| {
        let seen = &series.so_far;
        let us = |ns: u64| ns as f64 / 1e3;
        let min_ns = if seen.count == 0 { 0 } else { seen.min_ns };
        let avg_ns = seen.sum_ns.checked_div(seen.count).unwrap_or(0);
        vec![
            (9, format!("T:{number:2}")),
            (1, format!(" ({:5})", series.thread)),
            // Without it the three rows of a followed loop look alike.
            (
                8,
                series
                    .key
                    .thread_name
                    .as_deref()
                    .map_or(String::new(), |name| format!(" {name} {}", series.key.probe)),
            ),
            (2, format!(" P:{:2}", series.priority)),
            (3, format!(" I:{:<4}", series.key.period_ns.unwrap_or(0) / 1000)),
            (6, format!(" C:{:7}", seen.count)),
            (4, format!(" Min:{:7.1}", us(min_ns))),
            (7, format!(" Act:{:7.1}", us(series.last_ns))),
            (5, format!(" Avg:{:7.1}", us(avg_ns))),
            (9, format!(" Max:{:8.1}", us(seen.max_ns))),
            (8, if seen.missed > 0 { format!(" Missed: {}", seen.missed) } else { String::new() }),
        ]
    };
    progress.series.iter().enumerate().map(fields).collect()
}
