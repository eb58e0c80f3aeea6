// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that knows nothing of being measured: its loops as [`trace`] follows them become the same series
//! as those of a program that stamps its cycles.
//!
//! ```text
//! due ─► begins ──────► waits again      loop       due → begins: wakeup latency; jitter
//!        └ executes … ┘                  execution  what it had a CPU for in between
//! └──────────────────┘                   response   due → waits again
//! ```
//! A period that the loop skipped is missed where its due times keep a grid, by absolute times or by sleeps
//! that are computed from a schedule. Any other loop is due when it says so, until its cycles take so long
//! that they come later than its period (`rhythm`).

use std::num::NonZeroU64;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evidence::cause::Collector;
use evidence::kind::RowKind;
use evidence::manifest::{Followed, FollowedThread, PeriodSource, RowKey};
use evidence::taint::Taint;
use machine::inventory::Thread;
use machine::purpose::is_same_period;
use machine::units::exact_us;
use rt::clock::monotonic_ns;
use trace::cycle::LoopCycle;
use trace::follow::{FollowedLoop, Follower, LoopChoice, Poll};
use trace::recorded::RecordedSource;

use crate::control::{DRAIN_EVERY, LookAt, OpenRow, SampleSource, SourceEnd, TakenSamples};
use crate::error::Result;
use crate::loop_row::LoopSeries;
use crate::lost::Lost;
use crate::program::{LoopFound, Program, granted, may_move};
use crate::recording::Recording;
use crate::schedule::{Grid, Length, Window};
use crate::series::SeriesSpec;

/// A process whose loops are followed.
#[derive(Debug)]
pub struct FollowedProgram {
    follower: Follower,
    is_over: bool,
}

impl FollowedProgram {
    /// Watches the process until its loops are known. `None` where `stop` was set before.
    pub fn attach(
        process: u32,
        choice: &LoopChoice,
        preemption: &str,
        stop: &AtomicBool,
    ) -> rt::Result<Option<FollowedProgram>> {
        let follower = Follower::attach(process, choice, preemption, stop)?;
        Ok(follower.map(|follower| FollowedProgram { follower, is_over: false }))
    }

    /// Follows the threads of a recorded trace.
    pub fn in_trace(trace: RecordedSource, choice: &LoopChoice) -> rt::Result<FollowedProgram> {
        let follower = Follower::in_trace(trace, choice)?;
        Ok(FollowedProgram { follower, is_over: false })
    }

    /// The trace, where it is one.
    pub fn recorded(&self) -> Option<&RecordedSource> {
        self.follower.recorded()
    }

    /// The first loop's thread, by which the run is described.
    pub fn thread(&self) -> Option<&Thread> {
        self.follower.loops().first().map(|found| &found.thread)
    }

    /// Changes of it while it was measured.
    fn changes(&self) -> Vec<String> {
        if let Some(trace) = self.recorded() {
            return trace.missing().into_iter().collect();
        }
        match (self.is_over, self.follower.goes_on_as()) {
            (true, Some(name)) => {
                return vec![format!(
                    "none of the threads is left, which ended the row; the program goes on as {name}"
                )];
            }
            (true, None) => return vec!["the program ended, and the row with it".into()],
            (false, _) => {}
        }
        let ended = self.follower.loops().iter().filter(|found| found.is_over);
        let ended = ended.map(|FollowedLoop { thread, .. }| {
            format!("{} (thread {}) ended, and its row with it", thread.name, thread.id)
        });
        let mut notes: Vec<String> = ended.collect();
        notes.extend(self.follower.newcomers());
        notes
    }

    /// Loops that have another period than the one that the user gave, and what cycles do not show, in
    /// sentences.
    pub fn about_cycles(&self) -> Vec<String> {
        let loops = self.follower.loops().iter().zip(self.names());
        let about = loops.flat_map(|(found, name)| {
            let other = found.seen_period.and_then(|seen| other_period(&name, found.period, seen));
            other.into_iter().chain(found.notes.iter().cloned())
        });
        about.collect()
    }

    /// The names that tell its loops apart.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for found in self.follower.loops() {
            let name = &found.thread.name;
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
            names.extend(free);
        }
        names
    }
}

/// A sentence where a loop has another period than the one that the user gave.
fn other_period(name: &str, given: NonZeroU64, seen: NonZeroU64) -> Option<String> {
    let [given_ns, seen_ns] = [given.get(), seen.get()];
    (!is_same_period(given_ns, seen_ns)).then(|| {
        format!(
            "{name} begins a cycle every {}, and is judged by the given period of {}; give the --use or --period of the \
             program",
            exact_us(seen_ns),
            exact_us(given_ns)
        )
    })
}

fn followed(found: &FollowedLoop, collector: Collector) -> Followed {
    let Thread { id, name, policy, priority, .. } = &found.thread;
    let (name, policy) = (name.clone(), policy.name().to_string());
    Followed {
        thread: FollowedThread { tid: *id, name, policy, priority: *priority },
        waits_with: found.waits_with.clone(),
        period_from: if found.is_given { PeriodSource::Given } else { PeriodSource::Inferred },
        followed_by: Some(collector),
    }
}

impl Program for FollowedProgram {
    fn loops(&self) -> Vec<LoopFound> {
        let loops = self.follower.loops().iter().zip(self.names());
        let collector = self.follower.collector();
        let found = |(found, name): (&FollowedLoop, String)| LoopFound {
            cpu: found.thread.last_cpu,
            period: found.period,
            thread_name: Some(name),
            followed: Some(followed(found, collector)),
        };
        loops.map(found).collect()
    }

    fn notes(&self) -> Vec<String> {
        let unseen = self.follower.could_not_see().iter();
        let mut notes: Vec<String> =
            unseen.map(|what| format!("the loop is followed without {what}")).collect();
        let loops = self.follower.loops().iter().zip(self.names());
        notes.extend(loops.filter_map(|(found, name)| may_move(&name, &found.thread)));
        notes.extend(self.about_cycles());
        notes.extend(self.follower.left_out().map(str::to_string));
        notes
    }

    fn ended(&mut self) -> Result<bool> {
        self.is_over = self.is_over || self.follower.poll().is_over;
        Ok(self.is_over)
    }

    fn measure(
        &mut self,
        series: &[SeriesSpec],
        length: Length,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let Some(load) = series.first().map(|spec| spec.key.load.clone()) else { return Ok(()) };
        let cpus = series.iter().map(|spec| spec.key.cpu).collect();
        let is_here = self.recorded().is_none();
        let mut row = match is_here {
            true => OpenRow::begin(RowKind::Loop.name(), &load, cpus, length),
            false => OpenRow::of_trace(RowKind::Loop.name()),
        };
        let window = row.start(self.recorded().map_or_else(monotonic_ns, RecordedSource::first_ns));
        let (mut loops, mut threads) = (Vec::new(), Vec::new());
        for (found, spec) in self.follower.loops().iter().zip(series) {
            let grid = Grid { period: found.period, is_kept: found.has_grid };
            let series = LoopSeries::begin(spec, grid, granted(&found.thread), &mut row, recording)?;
            loops.push(OpenLoop::new(series, spec, window.loops));
            recording.explainer.follows(&spec.key);
            let Thread { process, id, name, .. } = &found.thread;
            if is_here {
                row.watch_thread(format!("the thread {name}"), *process, *id, spec.key.cpu);
                threads.push((spec.key.cpu, *id));
            }
        }
        recording.write_manifest()?;
        recording.explainer.arm(&threads);
        row.run(&mut FollowedLoops { program: self, loops, window, lost: 0, lost_until_ns: 0 }, recording)
    }
}

/// The loops of a followed program, as a source of samples.
struct FollowedLoops<'a> {
    program: &'a mut FollowedProgram,
    loops: Vec<OpenLoop>,
    window: Window,
    /// Records that found no room, and when that was last seen.
    lost: u64,
    lost_until_ns: u64,
}

impl FollowedLoops<'_> {
    /// Records the cycles of a poll, the late ones with their causes.
    fn record(&mut self, poll: &Poll, row: &mut OpenRow, recording: &mut Recording<'_>) -> Result<()> {
        let told_from_ns = match recording.bundle.is_long_run() {
            true => told_from_ns(&self.loops, &poll.cycles),
            false => 0,
        };
        let Window { start_ns, end_ns, .. } = self.window;
        for (place, cycle) in &poll.cycles {
            let is_within = cycle.due_ns >= start_ns && cycle.due_ns < end_ns;
            let Some(open) = self.loops.get_mut(*place).filter(|_| is_within) else { continue };
            if cycle.is_after_loss {
                open.lose();
            }
            let is_told = !cycle.is_begin_unseen && cycle.response_ns() >= told_from_ns;
            if open.is_late(cycle) && is_told {
                let causes = self.program.follower.explain(*place, cycle);
                let mut knows = |kind: RowKind, from_ns, causes| {
                    let key = RowKey { probe: kind.name().to_string(), ..open.spec.key.clone() };
                    recording.explainer.knows(&key, from_ns, causes);
                };
                knows(RowKind::Loop, cycle.due_ns, causes.wakeup);
                knows(RowKind::Execution, cycle.from_ns(), causes.execution);
                knows(RowKind::LoopResponse, cycle.due_ns, causes.response);
            }
            open.record(cycle, row, recording)?;
        }
        Ok(())
    }
}

impl SampleSource for FollowedLoops<'_> {
    fn take(&mut self, row: &mut OpenRow, at: LookAt, recording: &mut Recording<'_>) -> Result<TakenSamples> {
        let mut is_more = true;
        // What a series holds at once is bounded by time.
        let polls = if self.program.recorded().is_some() { 1 } else { POLLS };
        for _ in 0..polls {
            let poll = self.program.follower.poll();
            self.lost += poll.lost;
            if poll.lost > 0 {
                self.lost_until_ns =
                    self.program.recorded().map_or_else(monotonic_ns, RecordedSource::last_ns);
            }
            self.record(&poll, row, recording)?;
            self.program.is_over = self.program.is_over || poll.is_over;
            is_more = poll.is_more;
            if !is_more {
                break;
            }
        }
        let is_over = at.is_last() || self.program.is_over || self.loops.iter().all(|open| open.left == 0);
        let now_ns = self.program.recorded().map_or(at.now_ns, RecordedSource::last_ns);
        for (open, found) in self.loops.iter_mut().zip(self.program.follower.loops()) {
            open.series.lost(self.lost, row);
            if is_over {
                // After lost records it is unknown what it did since its last cycle: the next one would tell.
                let is_known = open.due_ns >= self.lost_until_ns;
                let goes_on = !found.is_over && open.left > 0 && is_known;
                open.series.rest(goes_on.then_some(now_ns), row, recording)?;
            }
        }
        let may_rest = recording.bundle.is_long_run() && self.loops.len() <= FEW;
        let wait = match (is_more, may_rest) {
            (true, _) => Duration::ZERO,
            (false, true) => DRAIN_EVERY,
            (false, false) => DRAIN_EVERY / 4,
        };
        Ok(TakenSamples { is_over, wait })
    }

    fn carried(&mut self, recording: &mut Recording<'_>) {
        // But for each loop's last cycle, which waits for the next one.
        let waits_ns = self.loops.iter().map(|open| open.series.waits_ns()).min();
        recording.explainer.forget_before(waits_ns.unwrap_or(0));
    }

    fn end(&mut self, row: &mut OpenRow) -> SourceEnd {
        let mut notes = self.program.changes();
        notes.extend(self.program.follower.notes());
        notes.extend(self.loops.iter().filter_map(|open| open.series.slow_note(row)));
        let records = self.loops.first().and_then(|open| Lost::Records.taint(&open.spec.key, self.lost));
        let unseen = self.loops.iter().filter_map(OpenLoop::unseen_taint);
        let changed = self.loops.iter().filter_map(|open| open.series.change_taint(row));
        SourceEnd { notes, taints: records.into_iter().chain(unseen).chain(changed).collect(), failed: None }
    }
}

/// Loops that a long run polls less often: of more, records of a quarter of a second may find no room.
const FEW: usize = 16;

/// Polls that bring all records in the BPF part's ring.
const POLLS: usize = 16;

/// Late cycles of one poll whose causes a long run works out: a program that is late all the time must
/// not keep a CPU busy for days.
const TOLD_AT_ONCE: usize = 32;

/// The response from which on late cycles of a poll are reported: the longest ones.
fn told_from_ns(rows: &[OpenLoop], cycles: &[(usize, LoopCycle)]) -> u64 {
    let is_late = |place: usize, cycle| rows.get(place).is_some_and(|open| open.is_late(cycle));
    let late = cycles.iter().filter(|(place, cycle)| is_late(*place, cycle));
    let mut responses: Vec<u64> = late.map(|(_, cycle)| cycle.response_ns()).collect();
    responses.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    responses.get(TOLD_AT_ONCE).copied().unwrap_or(0)
}

/// A loop of a row under way.
struct OpenLoop {
    series: LoopSeries,
    spec: SeriesSpec,
    /// Of the last cycle that was seen.
    number: u64,
    due_ns: u64,
    /// Whether cycles were lost since.
    is_after_loss: bool,
    /// Cycles without a sample: without a known begin, or lost with their records.
    unseen: u64,
    /// Those of them since the last cycle that was seen.
    pending: u64,
    /// Cycles to record yet.
    left: u64,
}

impl OpenLoop {
    fn new(series: LoopSeries, spec: &SeriesSpec, loops: u64) -> OpenLoop {
        OpenLoop {
            series,
            spec: spec.clone(),
            number: 0,
            due_ns: 0,
            is_after_loss: false,
            unseen: 0,
            pending: 0,
            left: loops,
        }
    }

    /// Whether a cycle becomes a spike of one of the rows.
    fn is_late(&self, cycle: &LoopCycle) -> bool {
        self.series.is_late(cycle.wakeup_ns(), cycle.response_ns())
    }

    fn record(&mut self, cycle: &LoopCycle, row: &mut OpenRow, recording: &mut Recording<'_>) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        // It says nothing of latencies.
        if cycle.is_begin_unseen {
            self.lose();
            return Ok(());
        }
        self.left -= 1;
        // Cycles that were lost were not skipped.
        if self.number == 0 && self.is_after_loss {
            self.series.is_unknown_before(cycle.due_ns);
        }
        let went_by_ns = cycle.due_ns.saturating_sub(self.due_ns);
        let grid = self.series.grid();
        let steps = if self.is_after_loss { grid.steps(went_by_ns).max(1) } else { 1 };
        // A grid tells how many there were, without it only those that left a trace are known.
        let is_known = grid.is_kept && self.number > 0;
        self.unseen += if is_known { steps - 1 } else { self.pending };
        self.pending = 0;
        self.number += steps;
        (self.due_ns, self.is_after_loss) = (cycle.due_ns, false);
        self.series.record_followed(self.number, cycle, row, recording)
    }

    /// A cycle that has no sample.
    fn lose(&mut self) {
        (self.is_after_loss, self.pending) = (true, self.pending + 1);
    }

    /// Cycles without a sample: one of them may be late.
    fn unseen_taint(&self) -> Option<Taint> {
        Lost::Unseen.taint(&self.spec.key, self.unseen + self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_period_that_is_not_the_loops_is_noted_with_both() {
        let period = |ns| NonZeroU64::new(ns).unwrap();
        let note = |given, seen| other_period("jackd", period(given), period(seen));
        assert_eq!(note(1_333_333, 1_333_400), None);
        let line =
            "jackd begins a cycle every 2,666.667 us, and is judged by the given period of 1,333.333 us; ";
        assert!(note(1_333_333, 2_666_667).unwrap().starts_with(line), "{:?}", note(1_333_333, 2_666_667));
    }
}
