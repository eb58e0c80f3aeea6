// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of a program's own loop: a series for each way to measure a cycle, for every source of cycles.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evidence::kind::RowKind;
use evidence::manifest::{Granted, RowKey};
use evidence::taint::{self, Taint};
use rt::clock::monotonic_ns;
use rt::monitor::{Cycle, MARKS};

use crate::disturbed::taints;
use crate::drain::{Drain, Start};
use crate::error::Result;
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::schedule::{Length, Window};
use crate::series::{RowProgress, SeriesProgress, SeriesSpec};

/// When a loop is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// The time between two cycles.
    pub period: NonZeroU64,
    /// Whether due times do not depend on when cycles end, so that one can be missed.
    pub is_kept: bool,
}

impl Grid {
    /// How many periods fit a time, to the nearest.
    pub(crate) fn steps(self, ns: u64) -> u64 {
        ns.saturating_add(self.period.get() / 2) / self.period
    }
}

/// A row under way: the description of the loop, and a series for each way to measure a cycle.
pub(crate) struct LoopRow<'a> {
    spec: &'a SeriesSpec,
    grid: Grid,
    granted: Granted,
    start: Start,
    length: Length,
    wakeups: Wakeups,
    /// The loop's own, which begins with the row, and the others.
    series: Vec<LoopSeries>,
}

struct LoopSeries {
    spec: SeriesSpec,
    entry: usize,
    recorder: Recorder,
    drain: Drain,
}

impl<'a> LoopRow<'a> {
    /// Begins the row, and the loop's own series.
    pub(crate) fn begin(
        spec: &'a SeriesSpec,
        grid: Grid,
        granted: Granted,
        window: Window,
        length: Length,
        recording: &mut Recording<'_>,
    ) -> Result<LoopRow<'a>> {
        let start = Start { window, wall: SystemTime::now() };
        let wakeups = Wakeups { start_ns: window.start_ns, grid, last: None };
        let mut row = LoopRow { spec, grid, granted, start, length, wakeups, series: Vec::new() };
        row.series(RowKind::Loop.name(), recording)?;
        // What is followed from outside always has the others.
        if spec.followed.is_some() {
            row.series(RowKind::Execution.name(), recording)?;
            row.series(RowKind::LoopResponse.name(), recording)?;
        }
        Ok(row)
    }

    /// The recorder of a series, which begins if it has not yet.
    fn series(&mut self, probe: &str, recording: &mut Recording<'_>) -> Result<&mut Recorder> {
        let known = self.series.iter().position(|series| series.spec.key.probe == probe);
        let place = match known {
            Some(place) => place,
            None => {
                let period_ns = self.grid.period.get();
                let spec = match probe {
                    name if RowKind::of(name) == RowKind::Loop => self.spec.clone(),
                    _ => self.spec.beside(probe, period_ns, period_ns),
                };
                let half_life_s = self.length.half_life_s();
                let (mut recorder, mut drain) =
                    Drain::recorded(&spec, self.grid.period, recording.bundle, half_life_s)?;
                recorder.start(self.start.window.start_ns);
                drain.start(self.start);
                let entry = recording.manifest.rows.len();
                recording.manifest.rows.push(spec.entry(&self.granted));
                self.series.push(LoopSeries { spec, entry, recorder, drain });
                self.series.len() - 1
            }
        };
        Ok(&mut self.series[place].recorder)
    }

    /// A cycle that its program stamped.
    pub(crate) fn record(&mut self, cycle: &Cycle, recording: &mut Recording<'_>) -> Result<()> {
        self.wakeups.cycle(cycle, cycle.began_ns, &mut self.series[0].recorder);
        let took_ns = cycle.ended_ns.saturating_sub(cycle.began_ns);
        self.series(RowKind::Execution.name(), recording)?.span(cycle.began_ns, took_ns);
        for (n, at_ns) in (1..=MARKS).zip(cycle.marks_ns) {
            if let Some(at_ns) = at_ns {
                let took_ns = at_ns.saturating_sub(cycle.began_ns);
                self.series(&format!("{}{n}", RowKind::Mark.name()), recording)?
                    .span(cycle.began_ns, took_ns);
            }
        }
        Ok(())
    }

    /// A cycle that was followed from outside; `number` grows by one from one to the next that was seen.
    pub(crate) fn record_followed(
        &mut self,
        number: u64,
        cycle: &trace::cycle::LoopCycle,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let (due_ns, began_ns, ended_ns) = (cycle.due_ns, cycle.began_ns, cycle.ended_ns);
        let stamped = Cycle { number, due_ns, began_ns, ended_ns, marks_ns: [None; MARKS] };
        let from_ns = cycle.from_ns();
        self.wakeups.cycle(&stamped, from_ns, &mut self.series[0].recorder);
        self.series(RowKind::Execution.name(), recording)?.span(from_ns, cycle.execution_ns);
        self.series(RowKind::LoopResponse.name(), recording)?.span(due_ns, cycle.response_ns());
        Ok(())
    }

    /// No cycle comes any more; see [`Wakeups::rest`].
    pub(crate) fn rest(&mut self, until_ns: Option<u64>) {
        self.wakeups.rest(until_ns, &mut self.series[0].recorder);
    }

    pub(crate) fn carry(&mut self, over: bool, recording: &mut Recording<'_>) -> Result<()> {
        for LoopSeries { recorder, drain, .. } in &mut self.series {
            if over {
                recorder.finish();
                drain.carry_last(recording.bundle, recording.explainer)?;
            } else {
                drain.carry(recording.bundle, recording.explainer)?;
            }
        }
        Ok(())
    }

    /// How it stands, for a live display; with all samples so far where it wants these.
    pub(crate) fn progress(&self, lost: u64, wants_latency: bool) -> RowProgress {
        let one = |series: &LoopSeries| {
            let so_far = series.recorder.second().joined(&series.drain.so_far());
            SeriesProgress {
                key: series.spec.key.clone(),
                thread: self.granted.thread.unwrap_or(0),
                priority: self.granted.priority.unwrap_or(0),
                so_far,
                last_ns: series.drain.last_ns(),
                limit_ns: series.spec.limit_ns,
                // Said once, of the loop itself.
                lost: if series.spec.key.kind() == RowKind::Loop { lost } else { 0 },
                latency: wants_latency.then(|| Arc::new(series.drain.latency(&so_far))),
                spike: series.drain.new_spike(),
            }
        };
        RowProgress {
            elapsed: Duration::from_nanos(monotonic_ns().saturating_sub(self.start.window.start_ns)),
            length: self.length.duration(),
            series: self.series.iter().map(one).collect(),
        }
    }

    /// Ends it: its entries get their last word.
    pub(crate) fn finish(
        self,
        steal_ns: Option<u64>,
        lost: u64,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        recording.bundle.settle_spikes()?;
        let (state, manifest) = (recording.state(), &mut *recording.manifest);
        for (n, series) in self.series.into_iter().enumerate() {
            let entry = &mut manifest.rows[series.entry];
            entry.state = state;
            entry.granted.steal_ns = steal_ns;
            (entry.spikes, entry.spikes_not_listed) = series.drain.spikes(recording.bundle);
            // Said once, of the loop itself.
            if n == 0 {
                let key = &series.spec.key;
                manifest.taints.extend(taints(key, &entry.granted, None, 0));
                manifest.taints.extend((lost > 0).then(|| lost_taint(key, lost)));
            }
            series.drain.finish()?;
        }
        Ok(())
    }
}

fn lost_taint(key: &RowKey, lost: u64) -> Taint {
    Taint {
        load: Some(key.load.clone()),
        cpu: Some(key.cpu),
        ..Taint::new(
            taint::SAMPLES_LOST,
            format!("{lost} cycles were lost: they never ended, or the reader was away"),
            "call end in every cycle, or give --house-keeping a CPU that is less loaded",
        )
    }
}

/// Wakeups, one cycle behind: how many periods a cycle missed the next one tells, or the end of the row.
struct Wakeups {
    start_ns: u64,
    grid: Grid,
    /// The cycle that waits for the next.
    last: Option<Told>,
}

/// A cycle of which is not known yet what it missed.
#[derive(Clone, Copy)]
struct Told {
    cycle: Cycle,
    /// When its program came to it.
    from_ns: u64,
    /// How long that was after the one before.
    interval_ns: u64,
}

impl Wakeups {
    /// A cycle whose program came to it at `from_ns`.
    fn cycle(&mut self, cycle: &Cycle, from_ns: u64, recorder: &mut Recorder) {
        let told = self.last.take();
        match &told {
            Some(Told { cycle: last, interval_ns, .. }) => {
                let went_by_ns = cycle.due_ns.saturating_sub(last.due_ns);
                let missed = self.missed(went_by_ns, cycle.number.saturating_sub(last.number));
                self.record(last, *interval_ns, missed, recorder);
            }
            None => {
                let silent_ns = cycle.due_ns.saturating_sub(self.start_ns);
                recorder.silence(self.start_ns, silent_ns, self.missed(silent_ns, 1));
            }
        }
        // After a lost cycle it is unknown when the one before ran.
        let ran_ns = told
            .filter(|told| told.cycle.number.checked_add(1) == Some(cycle.number))
            .map_or(cycle.due_ns.saturating_sub(self.grid.period.get()), |told| told.from_ns);
        self.last = Some(Told { cycle: *cycle, from_ns, interval_ns: from_ns.saturating_sub(ran_ns) });
    }

    /// The row is over; where the loop should have gone on, it did until `until_ns`, but for a cycle that may
    /// be under way.
    fn rest(&mut self, until_ns: Option<u64>, recorder: &mut Recorder) {
        let last_ns = self.last.map_or(self.start_ns, |last| last.cycle.due_ns);
        let silent_ns = until_ns.map_or(0, |until_ns| until_ns.saturating_sub(last_ns));
        let missed = match self.grid.is_kept {
            true => (silent_ns / self.grid.period).saturating_sub(1),
            false => 0,
        };
        match self.last.take() {
            Some(last) => self.record(&last.cycle, last.interval_ns, missed, recorder),
            None => recorder.silence(self.start_ns, silent_ns, missed),
        }
    }

    fn record(&self, cycle: &Cycle, interval_ns: u64, missed: u64, recorder: &mut Recorder) {
        recorder.wakeup(cycle.due_ns, cycle.began_ns, interval_ns, missed);
    }

    /// Periods that the loop skipped in so long: those that went by less the cycles that it ran, seen or
    /// lost.
    fn missed(&self, went_by_ns: u64, cycles: u64) -> u64 {
        match self.grid.is_kept {
            true => self.grid.steps(went_by_ns).saturating_sub(cycles),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::recorder;
    use crate::schedule::Schedule;

    const GRID: Grid = Grid { period: NonZeroU64::new(1_000).unwrap(), is_kept: true };

    /// What is missed by which due of a row from 5,000 to `until_ns`, in which a cycle of 1,000 comes at each
    /// of `cycles`.
    fn missed(cycles: &[(u64, u64)], until_ns: Option<u64>) -> Vec<(u64, u64)> {
        let (mut recorder, mut live) =
            recorder(u64::MAX, Schedule::Periodic(NonZeroU64::new(1_000).unwrap()));
        recorder.start(5_000);
        let mut wakeups = Wakeups { start_ns: 5_000, grid: GRID, last: None };
        for (number, due_ns) in cycles.iter().copied() {
            let cycle = Cycle { number, due_ns, began_ns: due_ns, ended_ns: due_ns, marks_ns: [None; MARKS] };
            wakeups.cycle(&cycle, cycle.began_ns, &mut recorder);
        }
        wakeups.rest(until_ns, &mut recorder);
        recorder.finish();
        let spikes = live.take_spikes();
        let seconds =
            live.take_seconds().iter().map(|second| (second.count, second.missed)).collect::<Vec<_>>();
        let all = (cycles.len() as u64, spikes.iter().map(|spike| spike.missed).sum());
        assert_eq!(seconds, if all == (0, 0) { vec![] } else { vec![all] });
        spikes.iter().map(|spike| (spike.monotonic_ns, spike.missed)).collect()
    }

    #[test]
    fn lost_cycles_name_their_cause_and_cure() {
        let key = RowKey {
            probe: RowKind::Loop.name().into(),
            load: "idle".into(),
            cpu: 1,
            period_ns: None,
            thread_name: None,
        };
        let taint = lost_taint(&key, 3);
        assert_eq!(
            (taint.code.as_str(), taint.reason.as_str(), taint.cure.as_deref()),
            (
                "samples-lost",
                "3 cycles were lost: they never ended, or the reader was away",
                Some("call end in every cycle, or give --house-keeping a CPU that is less loaded")
            )
        );
    }

    #[test]
    fn periods_that_the_loop_skipped_are_missed_by_the_cycle_before_and_lost_cycles_are_not() {
        let next = |number, due_ns| missed(&[(6, 6_000), (7, 7_000), (number, due_ns)], None);
        assert_eq!(next(8, 11_000), [(7_000, 3)]);
        for (number, due_ns) in [(8, 8_000), (8, 8_400), (10, 10_000), (9, 6_000)] {
            assert_eq!(next(number, due_ns), []);
        }
    }

    #[test]
    fn a_loop_that_falls_silent_misses_all_but_the_cycle_under_way() {
        let cycles = [(6, 6_000), (7, 7_000)];
        assert_eq!(missed(&cycles, Some(8_999)), []);
        assert_eq!(missed(&cycles, Some(10_500)), [(7_000, 2)]);
        assert_eq!(missed(&cycles, None), []);
    }

    #[test]
    fn a_loop_that_is_silent_at_first_or_throughout_misses_from_the_rows_start() {
        assert_eq!(missed(&[(7, 6_400)], None), []);
        assert_eq!(missed(&[(7, 9_000)], None), [(5_000, 3)]);
        assert_eq!(missed(&[], Some(6_999)), []);
        assert_eq!(missed(&[], Some(9_000)), [(5_000, 3)]);
    }

    #[test]
    fn a_loop_without_a_grid_misses_nothing() {
        let grid = Grid { is_kept: false, ..GRID };
        assert_eq!(Wakeups { start_ns: 0, grid, last: None }.missed(7_000, 1), 0);
        assert_eq!(Wakeups { start_ns: 0, grid: GRID, last: None }.missed(7_000, 1), 6);
    }
}
