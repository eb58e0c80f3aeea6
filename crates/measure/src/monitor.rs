// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own loop: what [`rt::monitor`] hands over, cycle by cycle, becomes the same series as a
//! probe's.
//!
//! ```text
//! due ────► begin ──► mark… ──► end        loop       due → begin: wakeup latency; begin → begin: jitter
//!           └─────────┘                    mark-N     begin → mark
//!           └───────────────────┘          execution  begin → end
//! ```
//! A period that the loop skipped is missed, by the cycle before it: the dues say so, and of a loop that is
//! silent while its program lives the clock does. A cycle that is lost on the way is no sample, and taints
//! the row. What a cycle takes is judged by the period: it ends before the next is due, or is late.
//!
//! # The way of a cycle
//!
//! A program stamps its cycles (`rt::monitor`) with number, due, begin, marks and end, one cache line each.
//! They go into a ring of `rt::message` in a memfd that bears the loop's name. `isolator monitor PID` finds
//! it in `/proc/PID/fd`, and sees that it is a memfd before it opens it. From there on it is the control
//! thread of a row whose hot loop belongs to another process (`measure::monitor`), with the same recorder,
//! bundle, causes and verdict. Neither side waits for the other, either may end at any time, and lost cycles
//! are counted by their numbers. Data of the other process is checked before use.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evidence::kind::RowKind;
use inspect::live_thread;
use machine::inventory::Thread;
use rt::clock::monotonic_ns;
use rt::monitor::{Reader, Standing};

use crate::control::{LookAt, OpenRow, SampleSource, SourceEnd, TakenSamples};
use crate::error::Result;
use crate::loop_row::LoopSeries;
use crate::lost::Lost;
use crate::program::{LoopFound, Program, granted, may_move};
use crate::recording::Recording;
use crate::schedule::{Grid, Length, Window};
use crate::series::SeriesSpec;

/// How long to wait for a loop's first cycle at a time.
const FIRST_CYCLE: Duration = Duration::from_millis(10);

/// A loop that another program runs.
#[derive(Debug)]
pub struct Attached {
    reader: Reader,
    /// Its thread, as the kernel described it when it was attached.
    pub thread: Thread,
    /// Whether that is a thread of the process in which the loop was found; of a passed descriptor only its
    /// program says so.
    verified: bool,
    ended: bool,
}

impl Attached {
    /// Waits for the first cycle of the loop in `process`, where that is known; by it the thread is. `None`
    /// where `stop` was set before.
    pub fn wait(reader: Reader, process: Option<u32>, stop: &AtomicBool) -> Result<Option<Attached>> {
        let gone = || {
            let cure = "start it again, and attach while it runs";
            rt::Error::new("attach to the loop", "its thread is not there", cure)
        };
        let mut reader = reader;
        while !stop.load(Ordering::SeqCst) {
            if let Some(id) = reader.thread() {
                let foreign = |process| {
                    let why = format!("process {process} has no thread {id}, which the loop names");
                    rt::Error::new("attach to the loop", why, "give the process that runs it, while it does")
                };
                let thread = live_thread(process, id).ok_or_else(|| process.map_or_else(gone, foreign))?;
                return Ok(Some(Attached { reader, thread, verified: process.is_some(), ended: false }));
            }
            if reader.poll(|_| ())? != Standing::Goes {
                return Err(gone().into());
            }
            std::thread::sleep(FIRST_CYCLE);
        }
        Ok(None)
    }

    /// The loop's period, in nanoseconds.
    pub fn period(&self) -> NonZeroU64 {
        self.reader.period()
    }
}

impl Program for Attached {
    fn loops(&self) -> Vec<LoopFound> {
        vec![LoopFound {
            cpu: self.thread.last_cpu,
            period: self.period(),
            thread_name: None,
            followed: None,
        }]
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.verified {
            let id = self.thread.id;
            notes.push(format!(
                "that thread {id} runs the loop is not verified: the loop came as a descriptor"
            ));
        }
        notes.extend(may_move("the loop", &self.thread));
        notes
    }

    fn ended(&mut self) -> Result<bool> {
        self.ended = self.ended || self.reader.poll(|_| ())? != Standing::Goes;
        Ok(self.ended)
    }

    fn measure(
        &mut self,
        series: &[SeriesSpec],
        length: Length,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let Some(spec) = series.first() else { return Ok(()) };
        let Thread { process, id, .. } = self.thread;
        let cpu = spec.key.cpu;
        let name = RowKind::Loop.name();
        let mut row = OpenRow::begin(name, &spec.key.load, [cpu].into_iter().collect(), length);
        self.reader.start()?;
        let Window { loops, .. } = row.start(monotonic_ns());
        let grid = Grid { period: self.period(), is_kept: true };
        let series = LoopSeries::begin(spec, grid, granted(&self.thread), &mut row, recording)?;
        recording.write_manifest()?;
        recording.explainer.arm(&[(cpu, id)]);
        row.watch_thread("the loop's thread".into(), process, id, cpu);
        let mut source = Stamped { reader: &mut self.reader, series, left: loops, standing: Standing::Goes };
        let measured = row.run(&mut source, recording);
        self.ended = source.standing != Standing::Goes;
        measured
    }
}

/// A loop that stamps its cycles, as a source of samples.
struct Stamped<'a> {
    reader: &'a mut Reader,
    series: LoopSeries,
    /// Cycles to record yet.
    left: u64,
    standing: Standing,
}

impl SampleSource for Stamped<'_> {
    fn take(&mut self, row: &mut OpenRow, at: LookAt, recording: &mut Recording<'_>) -> Result<TakenSamples> {
        let mut cycles = Vec::new();
        self.standing = self.reader.poll(|cycle| cycles.push(*cycle))?;
        cycles.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= cycles.len() as u64;
        for cycle in &cycles {
            self.series.record(cycle, row, recording)?;
        }
        self.series.lost(self.reader.lost(), row);
        let goes_on = self.standing == Standing::Goes && self.left > 0;
        let is_over = at.is_last() || !goes_on;
        if is_over {
            self.series.rest(goes_on.then_some(at.now_ns), row, recording)?;
        }
        Ok(TakenSamples { is_over, wait: self.reader.room() / 4 })
    }

    fn end(&mut self, row: &mut OpenRow) -> SourceEnd {
        let note = match self.standing {
            Standing::Goes => None,
            Standing::Closed => Some("the program closed its loop's monitor, which ended the row"),
            Standing::Gone => Some("the loop's program ended, and the row with it"),
        };
        let taint = Lost::Cycles.taint(self.series.key(), self.reader.lost());
        SourceEnd {
            notes: note.map(str::to_string).into_iter().chain(self.series.slow_note(row)).collect(),
            taints: taint.into_iter().chain(self.series.change_taint(row)).collect(),
            failed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_the_loops_only_where_its_process_has_it() {
        let attach = |process| {
            let (mut monitor, reader) = rt::monitor::Monitor::pair(Duration::from_millis(1)).unwrap();
            monitor.begin(0);
            Attached::wait(reader, process, &AtomicBool::new(false)).map(Option::unwrap)
        };
        let (id, own) = (rt::thread::id(), std::process::id());
        for (process, notes) in [(Some(own), 0), (None, 1)] {
            let attached = attach(process).unwrap();
            assert_eq!((attached.thread.id, attached.thread.process), (id, own));
            let unverified = |note: &&String| note.contains("is not verified");
            assert_eq!(attached.notes().iter().filter(unverified).count(), notes);
        }
        let error = attach(Some(u32::MAX)).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "cannot attach to the loop: process 4294967295 has no thread {id}, which the loop names; \
                 give the process that runs it, while it does"
            )
        );
    }

    #[test]
    fn a_loop_that_may_run_anywhere_is_told_to_stay() {
        let notes = |cpus: &str| {
            let (_, reader) = rt::monitor::Monitor::pair(Duration::from_millis(1)).unwrap();
            let thread = Thread { cpus: cpus.parse().unwrap(), last_cpu: Some(1), ..Thread::default() };
            Attached { reader, thread, verified: true, ended: false }.notes()
        };
        assert_eq!(notes("0-3"), ["the loop may run on cpus 0-3, and is booked to cpu 1; pin it to one"]);
        assert_eq!(notes("1"), [""; 0]);
    }
}
