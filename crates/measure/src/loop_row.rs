// SPDX-License-Identifier: MIT OR Apache-2.0
//! The series of a program's own loop: one for each way to measure a cycle, for every source of cycles.

use std::num::NonZeroU64;

use evidence::kind::RowKind;
use evidence::manifest::{Granted, PeriodSource, RowKey};
use evidence::taint::{self, Taint};
use machine::purpose::is_same_period;
use machine::units::exact_us;
use rt::monitor::{Cycle, MARKS};

use crate::control::OpenRow;
use crate::error::Result;
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::rhythm::{Beat, Rhythm};
use crate::schedule::{Grid, Schedule};
use crate::series::SeriesSpec;

/// The most periods of one loop that have series: one that changes more often has no period.
const PACES: usize = 4;

/// The series of one loop in a row under way.
pub(crate) struct LoopSeries {
    spec: SeriesSpec,
    grid: Grid,
    granted: Granted,
    rhythm: Rhythm,
    /// One for each period that the loop had; the first begins with the row.
    paces: Vec<Pace>,
    /// The one that it has.
    now: usize,
    /// Whether it has none of them now.
    is_countless: bool,
    /// When each began.
    changes: Vec<(u64, u64)>,
    /// Since when its cycles come late because they take longer.
    slow_ns: Option<u64>,
    last: Option<Cycle>,
    /// Cycles of which is not known yet whether the loop has changed its period.
    held: Vec<LoopSample>,
}

/// The series of a loop while it has one period.
struct Pace {
    spec: SeriesSpec,
    wakeups: Wakeups,
    /// Their names and places; the loop's own, which begins with it, is the first.
    places: Vec<(String, usize)>,
}

/// A cycle and its parts.
#[derive(Debug, Clone, Copy)]
struct LoopSample {
    cycle: Cycle,
    /// When its program came to it.
    from_ns: u64,
    execution_ns: u64,
    /// Of a loop that is followed from outside.
    response_ns: Option<u64>,
}

impl LoopSeries {
    /// Begins the loop's own series in a row that has started, and those that it always has. The loop may
    /// change its period where the user did not give it.
    pub(crate) fn begin(
        spec: &SeriesSpec,
        grid: Grid,
        granted: Granted,
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<LoopSeries> {
        let is_given =
            spec.followed.as_ref().is_some_and(|followed| followed.period_from == PeriodSource::Given);
        let mut series = LoopSeries {
            spec: spec.clone(),
            grid,
            granted,
            rhythm: Rhythm::new(grid.period, !is_given),
            paces: Vec::new(),
            now: 0,
            is_countless: false,
            changes: Vec::new(),
            slow_ns: None,
            last: None,
            held: Vec::new(),
        };
        let start_ns = row.window().start_ns;
        series.has(grid.period, start_ns, row, recording)?;
        Ok(series)
    }

    /// From then on the loop has this period.
    fn has(
        &mut self,
        period: NonZeroU64,
        from_ns: u64,
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let is_it = |pace: &Pace| is_same_period(pace.wakeups.grid.period.get(), period.get());
        self.changes.push((from_ns, period.get()));
        let known = self.paces.iter().position(is_it);
        self.is_countless = known.is_none() && self.paces.len() == PACES;
        if let Some(known) = known {
            self.now = known;
            self.paces[known].wakeups.begin(from_ns);
            return Ok(());
        }
        if self.is_countless {
            return Ok(());
        }
        let spec = match self.paces.is_empty() {
            true => self.spec.clone(),
            false => self.spec.of_period(period.get(), &recording.manifest.asked),
        };
        self.now = self.paces.len();
        let grid = Grid { period, ..self.grid };
        self.paces.push(Pace { spec, wakeups: Wakeups::new(from_ns, grid), places: Vec::new() });
        self.place(RowKind::Loop.name(), row, recording)?;
        // What is followed from outside always has the others.
        if self.spec.followed.is_some() {
            self.place(RowKind::Execution.name(), row, recording)?;
            self.place(RowKind::LoopResponse.name(), row, recording)?;
        }
        Ok(())
    }

    /// The place of a series, which begins if it has not yet.
    fn place(&mut self, name: &str, row: &mut OpenRow, recording: &mut Recording<'_>) -> Result<usize> {
        let pace = &mut self.paces[self.now];
        if let Some((_, place)) = pace.places.iter().find(|(known, _)| known == name) {
            return Ok(*place);
        }
        let period = pace.wakeups.grid.period;
        let own_limit_ns = RowKind::of(name).own_limit_ns(period.get());
        let spec = match own_limit_ns {
            Some(limit_ns) => pace.spec.beside(name, period.get(), limit_ns),
            None => pace.spec.clone(),
        };
        let is_beside = own_limit_ns.is_some() || self.now > 0;
        let schedule = Schedule::Periodic(period);
        let place = row.add_recorded(spec, schedule, &self.granted, is_beside, recording)?;
        pace.places.push((name.to_string(), place));
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
        let execution_ns = cycle.ended_ns.saturating_sub(cycle.began_ns);
        let sample = LoopSample { cycle: *cycle, from_ns: cycle.began_ns, execution_ns, response_ns: None };
        self.take(sample, row, recording)
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
        let (execution_ns, response_ns) = (cycle.execution_ns, Some(cycle.response_ns()));
        let sample = LoopSample { cycle: stamped, from_ns: cycle.from_ns(), execution_ns, response_ns };
        self.take(sample, row, recording)
    }

    fn take(&mut self, sample: LoopSample, row: &mut OpenRow, recording: &mut Recording<'_>) -> Result<()> {
        let cycle = sample.cycle;
        let last = self.last.replace(cycle).filter(|last| last.number.checked_add(1) == Some(cycle.number));
        let beat = match last {
            Some(last) => {
                let slept_ns = cycle.due_ns as i64 - last.ended_ns as i64;
                self.rhythm.next(cycle.due_ns.saturating_sub(last.due_ns), slept_ns)
            }
            None => {
                self.rhythm.restart();
                Beat::Keeps
            }
        };
        if self.rhythm.is_slow() && self.slow_ns.is_none() {
            self.slow_ns = self.held.first().map(|first| first.cycle.due_ns);
        }
        match beat {
            Beat::Held => {}
            Beat::HeldAnew | Beat::Keeps => self.settle(row, recording)?,
            Beat::Changed(period) => {
                let from_ns = self.held.first().map_or(cycle.due_ns, |first| first.cycle.due_ns);
                self.rest_of_pace(None, row);
                self.has(period, from_ns, row, recording)?;
                self.settle(row, recording)?;
            }
        }
        match beat {
            Beat::Held | Beat::HeldAnew => self.held.push(sample),
            Beat::Keeps | Beat::Changed(_) => self.book(&sample, row, recording)?,
        }
        Ok(())
    }

    /// Records the cycles that are held.
    fn settle(&mut self, row: &mut OpenRow, recording: &mut Recording<'_>) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        held.iter().try_for_each(|sample| self.book(sample, row, recording))
    }

    /// Records a cycle in the series of the loop's period.
    fn book(&mut self, sample: &LoopSample, row: &mut OpenRow, recording: &mut Recording<'_>) -> Result<()> {
        let LoopSample { cycle, from_ns, execution_ns, response_ns } = sample;
        let pace = &mut self.paces[self.now];
        pace.wakeups.counts = !self.is_countless && (pace.wakeups.grid.is_kept || self.rhythm.is_slow());
        if let Some(own) = pace.places.first().and_then(|(_, place)| row.recorder(*place)) {
            pace.wakeups.cycle(cycle, *from_ns, own);
        }
        self.span(RowKind::Execution.name(), (*from_ns, *execution_ns), row, recording)?;
        if let Some(response_ns) = response_ns {
            return self.span(RowKind::LoopResponse.name(), (cycle.due_ns, *response_ns), row, recording);
        }
        for (n, at_ns) in (1..=MARKS).zip(cycle.marks_ns) {
            if let Some(at_ns) = at_ns {
                let name = format!("{}{n}", RowKind::Mark.name());
                let took_ns = at_ns.saturating_sub(cycle.began_ns);
                self.span(&name, (cycle.began_ns, took_ns), row, recording)?;
            }
        }
        Ok(())
    }

    /// Nothing is known of what the loop did before its first cycle, which is due then.
    pub(crate) fn is_unknown_before(&mut self, due_ns: u64) {
        self.paces[self.now].wakeups.start_ns = due_ns;
    }

    /// Whether a cycle becomes a spike of one of the series that the loop has now.
    pub(crate) fn is_late(&self, wakeup_ns: u64, response_ns: u64) -> bool {
        let Pace { spec, wakeups, .. } = &self.paces[self.now];
        wakeup_ns > spec.threshold_ns || response_ns > wakeups.grid.period.get() || self.rhythm.is_slow()
    }

    /// When it is due now.
    pub(crate) fn grid(&self) -> Grid {
        self.paces[self.now].wakeups.grid
    }

    /// The due time of the first cycle that is not recorded yet.
    pub(crate) fn waits_ns(&self) -> u64 {
        let held = self.held.first().map(|sample| sample.cycle.due_ns);
        let last = self.paces[self.now].wakeups.last.map(|last| last.cycle.due_ns);
        held.into_iter().chain(last).min().unwrap_or(0)
    }

    /// Cycles that were lost so far, for a live display; stated once, of the loop itself.
    pub(crate) fn lost(&self, lost: u64, row: &mut OpenRow) {
        let own = self.paces[0].places.first().and_then(|(_, place)| row.series.get_mut(*place));
        own.into_iter().for_each(|own| own.lost = lost);
    }

    /// No cycle comes any more; see [`Wakeups::rest`].
    pub(crate) fn rest(
        &mut self,
        until_ns: Option<u64>,
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        self.settle(row, recording)?;
        self.rest_of_pace(until_ns, row);
        Ok(())
    }

    fn rest_of_pace(&mut self, until_ns: Option<u64>, row: &mut OpenRow) {
        let end_ns = row.window().end_ns;
        let pace = &mut self.paces[self.now];
        if let Some(own) = pace.places.first().and_then(|(_, place)| row.recorder(*place)) {
            pace.wakeups.rest(until_ns.map(|until_ns| until_ns.min(end_ns)), own);
        }
    }

    /// That the loop became slow, where the user did not give the period that it has to keep.
    pub(crate) fn slow_note(&self, row: &OpenRow) -> Option<String> {
        let since_ns = self.slow_ns.filter(|_| self.rhythm.may_change())?;
        let seconds = since_ns.saturating_sub(row.window().start_ns) as f64 / 1e9;
        let name = self.name();
        Some(format!(
            "from {seconds:.1} s on {name} came later than its period, and did not sleep for longer"
        ))
    }

    fn name(&self) -> &str {
        self.spec.key.thread_name.as_deref().unwrap_or("the loop")
    }

    /// That the loop changed its period.
    pub(crate) fn change_taint(&self, row: &OpenRow) -> Option<Taint> {
        let start_ns = row.window().start_ns;
        let (first, later) = self.changes.split_first().filter(|(_, later)| !later.is_empty())?;
        let shown = later.iter().take(PACES).map(|(from_ns, period_ns)| {
            let seconds = from_ns.saturating_sub(start_ns) as f64 / 1e9;
            format!("from {seconds:.1} s on every {}", exact_us(*period_ns))
        });
        let name = self.name();
        let more = if later.len() > PACES { ", and then others" } else { "" };
        let reason = format!(
            "{name} was due every {}, {}{more}: each period has rows of its own",
            exact_us(first.1),
            shown.collect::<Vec<_>>().join(", ")
        );
        let taint = Taint::new(taint::PERIOD_CHANGED, reason, "give the --period that it is to keep");
        Some(Taint { load: Some(self.spec.key.load.clone()), cpu: Some(self.spec.key.cpu), ..taint })
    }
}

/// Wakeups, one cycle behind: how many periods a cycle missed the next one tells, or the end of the row.
struct Wakeups {
    start_ns: u64,
    grid: Grid,
    /// Whether a period can be missed now.
    counts: bool,
    /// The part of a period by which the loop is behind.
    behind_ns: i64,
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
    fn new(start_ns: u64, grid: Grid) -> Wakeups {
        Wakeups { start_ns, grid, counts: grid.is_kept, behind_ns: 0, last: None }
    }

    /// It goes on at that time, after another period.
    fn begin(&mut self, start_ns: u64) {
        (self.start_ns, self.behind_ns) = (start_ns, 0);
    }

    /// A cycle whose program came to it at `from_ns`.
    fn cycle(&mut self, cycle: &Cycle, from_ns: u64, recorder: &mut Recorder) {
        let told = self.last.take();
        match &told {
            Some(Pending { cycle: last, interval_ns, .. }) => {
                let went_by_ns = cycle.due_ns.saturating_sub(last.due_ns);
                let grid = Grid { is_kept: self.counts, ..self.grid };
                let cycles = cycle.number.saturating_sub(last.number);
                let missed = grid.missed(went_by_ns, cycles, &mut self.behind_ns);
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
        let mut wakeups = Wakeups::new(5_000, GRID);
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

    #[test]
    fn a_period_that_begins_later_misses_nothing_before() {
        let (mut recorder, mut live) = recorder(u64::MAX, Schedule::Periodic(GRID.period));
        recorder.start(5_000);
        let mut wakeups = Wakeups::new(5_000, GRID);
        for due_ns in [6_000, 7_000, 40_000, 41_000] {
            if due_ns == 40_000 {
                wakeups.rest(None, &mut recorder);
                wakeups.begin(due_ns);
            }
            let cycle =
                Cycle { due_ns, began_ns: due_ns, ended_ns: due_ns, number: due_ns, marks_ns: [None; MARKS] };
            wakeups.cycle(&cycle, due_ns, &mut recorder);
        }
        wakeups.rest(None, &mut recorder);
        assert_eq!((recorder.cycles(), live.take_spikes()), (4, vec![]));
    }
}
