// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a person sees while a run goes on: a table that fills, with progress and time left; for one probe alone
//! a line per thread in cyclictest's form. Without a terminal, or with `--quiet`, nothing moves.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use evidence::manifest::Asked;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use measure::row::Progress;

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
pub struct Live {
    view: View,
    moving: bool,
    screen: MultiProgress,
    lines: Vec<Line>,
    row_time: Option<Duration>,
    began: Instant,
    row: usize,
    drawn: Vec<ProgressBar>,
}

/// One row's line.
struct Line {
    name: String,
    bar: ProgressBar,
}

impl Live {
    /// A display of the rows that `asked` will make.
    pub fn new(view: View, asked: &Asked) -> Live {
        let moving = view != View::Nothing && std::io::stderr().is_terminal();
        let screen = MultiProgress::new();
        let row_time = asked.duration_ns.map(|ns| Duration::from_nanos(ns + asked.warm_up_ns.unwrap_or(0)));
        let mut live = Live {
            view,
            moving,
            screen,
            lines: Vec::new(),
            row_time,
            began: Instant::now(),
            row: 0,
            drawn: Vec::new(),
        };
        let rows = asked
            .loads
            .iter()
            .flat_map(|load| asked.probes.iter().map(move |probe| format!("{load} · {probe}")));
        for name in rows {
            let bar = ProgressBar::no_length();
            if moving && view == View::Table {
                let bar = live.screen.add(bar.clone());
                bar.set_style(style("{prefix:<22!} {wide_msg}"));
                bar.set_prefix(name.clone());
                bar.set_message("waits");
            }
            live.lines.push(Line { name, bar });
        }
        live
    }

    /// The next row begins, or the load before it.
    pub fn says(&mut self, message: &str) {
        if self.moving && self.view == View::Table {
            self.lines[self.row].bar.set_message(message.to_string());
        }
    }

    /// How the present row stands.
    pub fn progress(&mut self, progress: &Progress) {
        match self.view {
            View::Table if self.moving => {
                let message = self.row_message(progress);
                self.lines[self.row].bar.set_message(message);
                self.lines[self.row].bar.tick();
            }
            View::Threads if self.moving => {
                while self.drawn.len() < progress.lanes.len() {
                    let bar = self.screen.add(ProgressBar::no_length());
                    bar.set_style(style("{wide_msg}"));
                    self.drawn.push(bar);
                }
                for (bar, line) in self.drawn.iter().zip(thread_lines(progress)) {
                    bar.set_message(line);
                    bar.tick();
                }
            }
            _ => {}
        }
    }

    /// The present row ended: `figures` say how.
    pub fn row_ended(&mut self, figures: &str) {
        match (self.view, self.moving) {
            (View::Table, true) => self.lines[self.row].bar.finish_with_message(figures.to_string()),
            (View::Table, false) => eprintln!("{}: {figures}", self.lines[self.row].name),
            _ => {}
        }
        self.row += 1;
    }

    /// The run ended: the moving table makes room for the final one.
    pub fn ended(&mut self, last: Option<&Progress>) {
        if !self.moving {
            if let (View::Threads, Some(progress)) = (self.view, last) {
                thread_lines(progress).iter().for_each(|line| eprintln!("{line}"));
            }
            return;
        }
        match self.view {
            View::Table => {
                // A terminal that has gone needs no clearing.
                let _ = self.screen.clear();
            }
            View::Threads => self.drawn.iter().for_each(ProgressBar::abandon),
            View::Nothing => {}
        }
    }

    fn row_message(&self, progress: &Progress) -> String {
        if progress.elapsed.is_zero() {
            return "warms up".to_string();
        }
        let max_ns = progress.lanes.iter().map(|lane| lane.so_far.max_ns).max().unwrap_or(0);
        let missed: u64 = progress.lanes.iter().map(|lane| lane.so_far.missed).sum();
        let of = progress.length.map(|length| format!(" of {} s", length.as_secs())).unwrap_or_default();
        let left = self.left().map(|left| format!(" · {} left", span(left))).unwrap_or_default();
        let missed = if missed > 0 { format!(" · {missed} missed") } else { String::new() };
        format!("{} s{of} · max {:.1} us{missed}{left}", progress.elapsed.as_secs(), max_ns as f64 / 1e3)
    }

    /// Time left, from the rows that are over: a row takes what it took so far, or what was asked.
    fn left(&self) -> Option<Duration> {
        let asked = self.row_time?;
        let per_row = if self.row == 0 {
            asked
        } else {
            self.began.elapsed().mul_f64(1.0 / self.row as f64).max(asked).min(asked * 2)
        };
        let total = per_row.mul_f64(self.lines.len() as f64);
        Some(total.saturating_sub(self.began.elapsed()))
    }
}

/// Cyclictest's live line for each thread, in its microseconds.
fn thread_lines(progress: &Progress) -> Vec<String> {
    let line = |(number, lane): (usize, &measure::row::LaneProgress)| {
        let seen = &lane.so_far;
        let us = |ns: u64| ns as f64 / 1e3;
        let min_ns = if seen.count == 0 { 0 } else { seen.min_ns };
        let avg_ns = seen.sum_ns.checked_div(seen.count).unwrap_or(0);
        let missed = if seen.missed > 0 { format!(" Missed: {}", seen.missed) } else { String::new() };
        format!(
            "T:{number:2} ({:5}) P:{:2} I:{} C:{:7} Min:{:7.1} Act:{:7.1} Avg:{:7.1} Max:{:8.1}{missed}",
            lane.thread,
            lane.priority,
            lane.key.period_ns.unwrap_or(0) / 1000,
            seen.count,
            us(min_ns),
            us(lane.last_ns),
            us(avg_ns),
            us(seen.max_ns),
        )
    };
    progress.lanes.iter().enumerate().map(line).collect()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}
