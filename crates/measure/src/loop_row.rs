// SPDX-License-Identifier: MIT OR Apache-2.0
//! The series of a program's own loop: one for each way to measure a cycle, for every source of cycles.

use evidence::kind::RowKind;
use evidence::manifest::{Granted, RowKey};
use rt::monitor::{Cycle, MARKS};

use crate::control::OpenRow;
use crate::error::Result;
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::schedule::{Grid, Schedule};
use crate::series::SeriesSpec;

/// The series of one loop in a row under way.
pub(crate) struct LoopSeries {
    spec: SeriesSpec,
    grid: Grid,
    granted: Granted,
    wakeups: Wakeups,
    /// Their names and places; the loop's own, which begins with the row, is the first.
    places: Vec<(String, usize)>,
}

impl LoopSeries {
    /// Begins the loop's own series in a row that has started, and those that it always has.
    pub(crate) fn begin(
        spec: &SeriesSpec,
        grid: Grid,
        granted: Granted,
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<LoopSeries> {
        let wakeups = Wakeups { start_ns: row.window().start_ns, grid, last: None };
        let mut series = LoopSeries { spec: spec.clone(), grid, granted, wakeups, places: Vec::new() };
        series.place(RowKind::Loop.name(), row, recording)?;
        // What is followed from outside always has the others.
        if spec.followed.is_some() {
            series.place(RowKind::Execution.name(), row, recording)?;
            series.place(RowKind::LoopResponse.name(), row, recording)?;
        }
        Ok(series)
    }

    /// The place of a series, which begins if it has not yet.
    fn place(&mut self, name: &str, row: &mut OpenRow, recording: &mut Recording<'_>) -> Result<usize> {
        if let Some((_, place)) = self.places.iter().find(|(known, _)| known == name) {
            return Ok(*place);
        }
        let period_ns = self.grid.period.get();
        let own_limit_ns = RowKind::of(name).own_limit_ns(period_ns);
        let spec = match own_limit_ns {
            Some(limit_ns) => self.spec.beside(name, period_ns, limit_ns),
            None => self.spec.clone(),
        };
        let schedule = Schedule::Periodic(self.grid.period);
        let place = row.add_recorded(spec, schedule, &self.granted, own_limit_ns.is_some(), recording)?;
        self.places.push((name.to_string(), place));
        Ok(place)
    }

    /// Records what a cycle took from `from_ns` on, in the series of that name.
    fn span(
        &mut self,
        name: &str,
        (from_ns, took_ns): (u64, u64),
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let place = self.place(name, row, recording)?;
        row.recorder(place).into_iter().for_each(|recorder| recorder.span(from_ns, took_ns));
        Ok(())
    }

    /// Its own series.
    fn own<'a>(&self, row: &'a mut OpenRow) -> Option<&'a mut Recorder> {
        row.recorder(self.places.first()?.1)
    }

    /// The key of its own series.
    pub(crate) fn key(&self) -> &RowKey {
        &self.spec.key
    }

    /// A cycle that its program stamped.
    pub(crate) fn record(
        &mut self,
        cycle: &Cycle,
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let began_ns = cycle.began_ns;
        if let Some(own) = self.own(row) {
            self.wakeups.cycle(cycle, began_ns, own);
        }
        let took_ns = cycle.ended_ns.saturating_sub(began_ns);
        self.span(RowKind::Execution.name(), (began_ns, took_ns), row, recording)?;
        for (n, at_ns) in (1..=MARKS).zip(cycle.marks_ns) {
            if let Some(at_ns) = at_ns {
                let name = format!("{}{n}", RowKind::Mark.name());
                self.span(&name, (began_ns, at_ns.saturating_sub(began_ns)), row, recording)?;
            }
        }
        Ok(())
    }

    /// A cycle that was followed from outside; `number` grows by one from one to the next, and by those
    /// between that were not seen.
    pub(crate) fn record_followed(
        &mut self,
        number: u64,
        cycle: &trace::cycle::LoopCycle,
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let (due_ns, began_ns, ended_ns) = (cycle.due_ns, cycle.began_ns, cycle.ended_ns);
        let stamped = Cycle { number, due_ns, began_ns, ended_ns, marks_ns: [None; MARKS] };
        let from_ns = cycle.from_ns();
        if let Some(own) = self.own(row) {
            self.wakeups.cycle(&stamped, from_ns, own);
        }
        self.span(RowKind::Execution.name(), (from_ns, cycle.execution_ns), row, recording)?;
        self.span(RowKind::LoopResponse.name(), (due_ns, cycle.response_ns()), row, recording)
    }

    /// Nothing is known of what the loop did before its first cycle, which is due then.
    pub(crate) fn is_unknown_before(&mut self, due_ns: u64) {
        self.wakeups.start_ns = due_ns;
    }

    /// Cycles that were lost so far, for a live display; stated once, of the loop itself.
    pub(crate) fn lost(&self, lost: u64, row: &mut OpenRow) {
        let own = self.places.first().and_then(|(_, place)| row.series.get_mut(*place));
        own.into_iter().for_each(|own| own.lost = lost);
    }

    /// No cycle comes any more; see [`Wakeups::rest`].
    pub(crate) fn rest(&mut self, until_ns: Option<u64>, row: &mut OpenRow) {
        let end_ns = row.window().end_ns;
        if let Some(own) = self.own(row) {
            self.wakeups.rest(until_ns.map(|until_ns| until_ns.min(end_ns)), own);
        }
    }
}

/// Wakeups, one cycle behind: how many periods a cycle missed the next one tells, or the end of the row.
struct Wakeups {
    start_ns: u64,
    grid: Grid,
    /// The cycle that waits for the next.
    last: Option<Pending>,
}

/// A cycle of which is not known yet what it missed.
#[derive(Clone, Copy)]
struct Pending {
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
            Some(Pending { cycle: last, interval_ns, .. }) => {
                let went_by_ns = cycle.due_ns.saturating_sub(last.due_ns);
                let missed = self.grid.missed(went_by_ns, cycle.number.saturating_sub(last.number));
                self.record(last, *interval_ns, missed, recorder);
            }
            None => {
                let silent_ns = cycle.due_ns.saturating_sub(self.start_ns);
                recorder.silence(self.start_ns, silent_ns, self.grid.missed_in_silence(silent_ns));
            }
        }
        // After a lost cycle it is unknown when the one before ran.
        let ran_ns = told
            .filter(|told| told.cycle.number.checked_add(1) == Some(cycle.number))
            .map_or(cycle.due_ns.saturating_sub(self.grid.period.get()), |told| told.from_ns);
        self.last = Some(Pending { cycle: *cycle, from_ns, interval_ns: from_ns.saturating_sub(ran_ns) });
    }

    /// The row is over; where the loop should have gone on, it did until `until_ns`, but for a cycle that may
    /// be under way.
    fn rest(&mut self, until_ns: Option<u64>, recorder: &mut Recorder) {
        let last_ns = self.last.map_or(self.start_ns, |last| last.cycle.due_ns);
        let silent_ns = until_ns.map_or(0, |until_ns| until_ns.saturating_sub(last_ns));
        let missed = self.grid.missed_in_silence(silent_ns);
        match self.last.take() {
            Some(last) => self.record(&last.cycle, last.interval_ns, missed, recorder),
            None => recorder.silence(self.start_ns, silent_ns, missed),
        }
    }

    fn record(&self, cycle: &Cycle, interval_ns: u64, missed: u64, recorder: &mut Recorder) {
        recorder.wakeup(cycle.due_ns, cycle.began_ns, interval_ns, missed);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::recorder::recorder;

    const GRID: Grid = Grid { period: NonZeroU64::new(1_000).unwrap(), is_kept: true };

    /// The periods missed by each due of a row from 5,000 to `until_ns`, in which a cycle of 1,000 comes at
    /// each of `cycles`.
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
    fn a_cycle_under_way_as_the_row_begins_is_not_missed() {
        // Due at 5,400 and again at 6,400: the first was under way, or not seen yet.
        assert_eq!(missed(&[(7, 6_400)], None), []);
        assert_eq!(missed(&[(7, 6_600)], None), []);
        assert_eq!(missed(&[(7, 6_999)], None), []);
        assert_eq!(missed(&[(7, 7_100)], None), [(5_000, 1)]);
    }
}
