// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that knows nothing of being measured: its loops as [`trace`] follows them become the same series
//! as those of a program that stamps its cycles.
//!
//! ```text
//! due ─► begins ──────► waits again      loop       due → begins: wakeup latency; jitter
//!        └ executes … ┘                  execution  what it had a CPU for in between
//! └──────────────────┘                   response   due → waits again
//! ```
//! A period that the loop skipped is missed only where its due times keep a grid, by absolute times or by
//! sleeps that are computed from a schedule: any other loop is due when it says so.

use std::num::NonZeroU64;
use std::sync::atomic::AtomicBool;

use evidence::kind::RowKind;
use evidence::manifest::{Followed, FollowedThread, PeriodSource, RowKey};
use evidence::taint::{self, Taint};
use machine::inventory::Thread;
use machine::purpose::is_same_period;
use machine::units::{count, exact_us};
use rt::clock::monotonic_ns;
use trace::follow::{FollowedLoop, Follower, LoopChoice};

use crate::error::Result;
use crate::loop_row::{Grid, LoopRow};
use crate::program::{LoopFound, Program, granted, may_move};
use crate::recording::{DRAIN_EVERY, Recording};
use crate::schedule::{Length, Window};
use crate::series::{RowProgress, SeriesSpec};
use crate::steal::Steal;
use crate::watch::{RowWatch, Seat};

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

    /// The first loop's thread, by which the run is described.
    pub fn thread(&self) -> Option<&Thread> {
        self.follower.loops().first().map(|found| &found.thread)
    }

    /// What of it changed while it was measured.
    fn changes(&self) -> Vec<String> {
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

    /// Loops that have another period than the one that the user gave, in sentences.
    pub fn other_periods(&self) -> Vec<String> {
        let loops = self.follower.loops().iter().zip(self.names());
        loops.filter_map(|(found, name)| other_period(&name, found.period, found.seen_period?)).collect()
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

fn followed(found: &FollowedLoop) -> Followed {
    let Thread { id, name, policy, priority, .. } = &found.thread;
    let (name, policy) = (name.clone(), policy.name().to_string());
    Followed {
        thread: FollowedThread { tid: *id, name, policy, priority: *priority },
        waits_with: found.waits_with.clone(),
        period_from: if found.is_given { PeriodSource::Given } else { PeriodSource::Inferred },
    }
}

impl Program for FollowedProgram {
    fn loops(&self) -> Vec<LoopFound> {
        let loops = self.follower.loops().iter().zip(self.names());
        let found = |(found, name): (&FollowedLoop, String)| LoopFound {
            cpu: found.thread.last_cpu,
            period: found.period,
            thread_name: Some(name),
            followed: Some(followed(found)),
        };
        loops.map(found).collect()
    }

    fn notes(&self) -> Vec<String> {
        let unseen = self.follower.could_not_see().iter();
        let mut notes: Vec<String> =
            unseen.map(|what| format!("the loop is followed without {what}")).collect();
        let loops = self.follower.loops().iter().zip(self.names());
        notes.extend(loops.filter_map(|(found, name)| may_move(&name, &found.thread)));
        notes.extend(self.other_periods());
        notes
    }

    fn ended(&mut self) -> Result<bool> {
        self.is_over = self.is_over || self.follower.look().is_over;
        Ok(self.is_over)
    }

    fn measure(
        &mut self,
        series: &[SeriesSpec],
        length: Length,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let window = length.from(monotonic_ns());
        let Window { start_ns, end_ns, loops } = window;
        let Some(load) = series.first().map(|spec| spec.key.load.clone()) else { return Ok(()) };
        let cpus = series.iter().map(|spec| spec.key.cpu).collect();
        let mut watch = RowWatch::begin(&load, cpus);
        let mut rows = Vec::new();
        for (found, spec) in self.follower.loops().iter().zip(series) {
            let grid = Grid { period: found.period, is_kept: found.has_grid };
            let row = LoopRow::begin(spec, grid, granted(&found.thread), window, length, recording)?;
            rows.push(OpenLoop::new(row, spec, grid, loops));
            let Thread { process, id, .. } = found.thread;
            let what = format!("the thread {}", found.thread.name);
            if let Some(seat) = Seat::of(what, process, id, spec.key.cpu, Some(spec.key.cpu)) {
                watch.add(seat);
            }
        }
        recording.write_manifest()?;
        let threads = self.follower.loops().iter().zip(series);
        let threads: Vec<(u32, u32)> = threads.map(|(found, spec)| (spec.key.cpu, found.thread.id)).collect();
        recording.explainer.arm(&threads);
        let (steal, mut lost, mut swept_ns) = (Steal::now(), 0, None);
        loop {
            let now_ns = monotonic_ns();
            // The start needs most memory: it reads the kernel's types.
            if swept_ns.is_none_or(|at_ns| now_ns >= at_ns + SWEEP_EVERY_NS) {
                rt::heap::sweep();
                swept_ns = Some(now_ns);
            }
            let over = recording.is_stopped() || now_ns >= end_ns;
            recording.explainer.look();
            watch.look();
            let mut is_more = true;
            for _ in 0..LOOKS {
                let look = self.follower.look();
                lost += look.lost;
                rows.iter_mut().for_each(|open| open.is_after_loss |= look.lost > 0);
                let told_from_ns = match recording.bundle.is_in_flight() {
                    true => told_from_ns(&rows, &look.cycles),
                    false => 0,
                };
                for (place, cycle) in &look.cycles {
                    let is_within = cycle.due_ns >= start_ns && cycle.due_ns < end_ns;
                    let Some(open) = rows.get_mut(*place).filter(|_| is_within) else { continue };
                    let is_told = !cycle.is_begin_unseen && cycle.response_ns() >= told_from_ns;
                    if open.is_late(cycle) && is_told {
                        let causes = self.follower.explain(*place, cycle);
                        let mut knows = |probe: &str, from_ns, causes| {
                            let key = RowKey { probe: probe.to_string(), ..open.spec.key.clone() };
                            recording.explainer.knows(&key, from_ns, causes);
                        };
                        knows(RowKind::Loop.name(), cycle.due_ns, causes.wakeup);
                        knows(RowKind::Execution.name(), cycle.from_ns(), causes.execution);
                        knows(RowKind::LoopResponse.name(), cycle.due_ns, causes.response);
                    }
                    open.record(cycle, recording)?;
                }
                self.is_over = self.is_over || look.is_over;
                is_more = look.is_more;
                if !is_more {
                    break;
                }
            }
            let over = over || self.is_over || rows.iter().all(|open| open.left == 0);
            for (open, found) in rows.iter_mut().zip(self.follower.loops()) {
                if over {
                    let goes_on = !found.is_over && open.left > 0;
                    open.row.rest(goes_on.then_some(now_ns.min(end_ns)));
                }
                open.row.carry(over, recording)?;
            }
            // But for each loop's last cycle, which waits for the next one.
            let waits_ns = rows.iter().map(|open| open.due_ns).min();
            recording.explainer.forget_before(waits_ns.unwrap_or(0));
            (recording.observe)(&progress(&rows, lost, recording.wants_latency));
            if over {
                break;
            }
            if is_more {
                continue;
            }
            let may_rest = recording.bundle.is_in_flight() && rows.len() <= FEW;
            std::thread::sleep(if may_rest { DRAIN_EVERY } else { DRAIN_EVERY / 4 });
        }
        recording.manifest.notes.extend(self.changes());
        let (taints, notes) = watch.end(RowKind::Loop.name());
        recording.manifest.taints.extend(taints);
        recording.manifest.notes.extend(notes);
        recording.manifest.notes.extend(self.follower.notes());
        if let (true, Some(open)) = (lost > 0, rows.first()) {
            recording.manifest.taints.push(lost_taint(&open.spec.key, lost));
        }
        for open in rows {
            let cpu = open.spec.key.cpu;
            recording.manifest.taints.extend(unseen_taint(&open.spec.key, open.unseen + open.pending));
            open.row.finish(Steal::now().since(&steal, cpu), 0, recording)?;
        }
        recording.write_manifest()
    }
}

/// Loops that are looked at less often in flight: of more, records of a quarter of a second may find no room.
const FEW: usize = 16;

/// How often memory that is free goes back to the kernel.
const SWEEP_EVERY_NS: u64 = 60_000_000_000;

/// Looks that bring all records in the BPF part's ring.
const LOOKS: usize = 16;

/// Late cycles of one look whose causes are worked out in flight: a program that is late all the time must
/// not keep a CPU busy for days.
const TOLD_AT_ONCE: usize = 32;

/// The response from which on late cycles of a look are reported: the longest ones.
fn told_from_ns(rows: &[OpenLoop<'_>], cycles: &[(usize, trace::cycle::LoopCycle)]) -> u64 {
    let is_late = |place: usize, cycle| rows.get(place).is_some_and(|open| open.is_late(cycle));
    let late = cycles.iter().filter(|(place, cycle)| is_late(*place, cycle));
    let mut responses: Vec<u64> = late.map(|(_, cycle)| cycle.response_ns()).collect();
    responses.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    responses.get(TOLD_AT_ONCE).copied().unwrap_or(0)
}

/// A loop of a row under way.
struct OpenLoop<'a> {
    row: LoopRow<'a>,
    spec: &'a SeriesSpec,
    grid: Grid,
    /// Of the last cycle that was seen.
    number: u64,
    due_ns: u64,
    /// Whether records were lost since.
    is_after_loss: bool,
    /// Cycles without a sample: without a known begin, or lost with their records.
    unseen: u64,
    /// Those of them since the last cycle that was seen.
    pending: u64,
    /// Cycles to record yet.
    left: u64,
}

impl<'a> OpenLoop<'a> {
    fn new(row: LoopRow<'a>, spec: &'a SeriesSpec, grid: Grid, loops: u64) -> OpenLoop<'a> {
        OpenLoop {
            row,
            spec,
            grid,
            number: 0,
            due_ns: 0,
            is_after_loss: false,
            unseen: 0,
            pending: 0,
            left: loops,
        }
    }

    /// Whether a cycle becomes a spike of one of the rows.
    fn is_late(&self, cycle: &trace::cycle::LoopCycle) -> bool {
        cycle.wakeup_ns() > self.spec.threshold_ns || cycle.response_ns() > self.grid.period.get()
    }

    fn record(&mut self, cycle: &trace::cycle::LoopCycle, recording: &mut Recording<'_>) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        // It says nothing of latencies.
        if cycle.is_begin_unseen {
            (self.is_after_loss, self.pending) = (true, self.pending + 1);
            return Ok(());
        }
        self.left -= 1;
        // Cycles that were lost were not skipped.
        let went_by_ns = cycle.due_ns.saturating_sub(self.due_ns);
        let steps = if self.is_after_loss { self.grid.steps(went_by_ns).max(1) } else { 1 };
        // A grid tells how many there were, without it only those that left a trace are known.
        let is_known = self.grid.is_kept && self.number > 0;
        self.unseen += if is_known { steps - 1 } else { self.pending };
        self.pending = 0;
        self.number += steps;
        (self.due_ns, self.is_after_loss) = (cycle.due_ns, false);
        self.row.record_followed(self.number, cycle, recording)
    }
}

fn progress(rows: &[OpenLoop<'_>], lost: u64, wants_latency: bool) -> RowProgress {
    let mut all = rows.iter().map(|open| open.row.progress(lost, wants_latency));
    let mut progress =
        all.next().unwrap_or(RowProgress { elapsed: Default::default(), length: None, series: Vec::new() });
    progress.series.extend(all.flat_map(|more| more.series));
    progress
}

/// Cycles without a sample: one of them may be late.
fn unseen_taint(key: &RowKey, unseen: u64) -> Option<Taint> {
    let cycles = if unseen == 1 { "cycle was" } else { "cycles were" };
    let taint = Taint::new(
        taint::SAMPLES_LOST,
        format!(
            "{} {cycles} not seen, and have no sample: the kernel did not report their begin, or had no room for it",
            count(unseen)
        ),
        "give --house-keeping a CPU that is less loaded, or stamp the cycles with libisolator",
    );
    (unseen > 0).then(|| Taint { load: Some(key.load.clone()), cpu: Some(key.cpu), ..taint })
}

fn lost_taint(key: &RowKey, lost: u64) -> Taint {
    Taint {
        load: Some(key.load.clone()),
        ..Taint::new(
            taint::SAMPLES_LOST,
            format!(
                "{} records of the program's threads found no room: cycles about them are missing",
                count(lost)
            ),
            "give --house-keeping a CPU that is less loaded, or name fewer threads with --thread",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_without_a_begin_are_counted_in_a_taint() {
        let key = RowKey {
            probe: RowKind::Loop.name().into(),
            load: "idle".into(),
            cpu: 1,
            period_ns: None,
            thread_name: None,
        };
        assert_eq!(unseen_taint(&key, 0), None);
        let taint = |unseen| unseen_taint(&key, unseen).unwrap();
        assert_eq!((taint(57).code.as_str(), taint(57).cpu), ("samples-lost", Some(1)));
        assert!(taint(1).reason.starts_with("1 cycle was not seen, "), "{}", taint(1).reason);
        assert!(taint(1_057).reason.starts_with("1,057 cycles were not seen, "), "{}", taint(1_057).reason);
    }

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
