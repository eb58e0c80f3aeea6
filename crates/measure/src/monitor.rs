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

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use evidence::manifest::{EXECUTION, Granted, LOOP, MARK, RowKey};
use evidence::taint::{self, Taint};
use machine::inventory::{Thread, live_thread};
use rt::clock::monotonic_ns;
use rt::monitor::{Cycle, MARKS, Reader, Standing};

use crate::disturbed::taints;
use crate::drain::{Drain, Start};
use crate::error::Result;
use crate::recorder::Recorder;
use crate::recording::{DRAIN_EVERY, Recording};
use crate::schedule::{Length, Window};
use crate::series::{RowProgress, SeriesProgress, SeriesSpec};
use crate::steal::Steal;
use crate::watch::{RowWatch, Seat};

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
                    let why =
                        format!("process {process} has no thread {id}, by which the loop is said to run");
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

    /// Whether it has ended; cycles that have come until now are thrown away.
    pub fn ended(&mut self) -> Result<bool> {
        self.ended = self.ended || self.reader.poll(|_| ())? != Standing::Goes;
        Ok(self.ended)
    }

    /// What there is to know of its thread.
    pub fn notes(&self) -> Vec<String> {
        let Thread { id, cpus, last_cpu, .. } = &self.thread;
        let mut notes = Vec::new();
        if !self.verified {
            notes.push(format!(
                "that thread {id} runs the loop is not verified: the loop came as a descriptor"
            ));
        }
        if let (Some(cpu), true) = (last_cpu, cpus.len() != 1) {
            notes.push(format!("the loop may run on cpus {cpus}, and is booked to cpu {cpu}; pin it to one"));
        }
        notes
    }

    /// The loop's period, in nanoseconds.
    pub fn period(&self) -> NonZeroU64 {
        self.reader.period()
    }

    fn granted(&self) -> Granted {
        let thread = &self.thread;
        Granted {
            policy: Some(thread.policy.name().to_string()),
            priority: Some(thread.priority).filter(|priority| *priority > 0),
            affinity: Some(thread.cpus.clone()),
            memory_locked: thread.locked_kib.map(|kib| kib > 0),
            thread: Some(thread.id),
            ..Granted::default()
        }
    }

    /// Measures the loop for so long, or until it is stopped or the loop ends; notes which.
    /// `spec` is the loop's own series: the others are made of it as they come up.
    pub fn measure(
        &mut self,
        spec: &SeriesSpec,
        length: Length,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        self.reader.start()?;
        let period = self.period();
        let window = length.from(monotonic_ns());
        let Window { start_ns, end_ns, loops } = window;
        let mut row = LoopRow {
            spec,
            period,
            granted: self.granted(),
            start: Start { window, wall: SystemTime::now() },
            length,
            wakeups: Wakeups { start_ns, period_ns: period.get(), last: None },
            series: Vec::new(),
        };
        row.series(LOOP, recording)?;
        recording.write_manifest()?;
        let cpu = spec.key.cpu;
        recording.explainer.arm(&[(cpu, self.thread.id)]);
        let Thread { process, id, .. } = self.thread;
        let mut watch = RowWatch::begin(&spec.key.load, [cpu].into_iter().collect());
        if let Some(seat) = Seat::of("the loop's thread".into(), process, id, cpu, Some(cpu)) {
            watch.add(seat);
        }
        let (steal, mut left) = (Steal::now(), loops);
        let standing = loop {
            // Before the look into the ring: what was due until then has come, but for the cycle under way.
            let now_ns = monotonic_ns();
            let over = recording.is_stopped() || now_ns >= end_ns;
            recording.explainer.look();
            watch.look();
            let mut cycles = Vec::new();
            let standing = self.reader.poll(|cycle| cycles.push(*cycle))?;
            cycles.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= cycles.len() as u64;
            for cycle in &cycles {
                row.record(cycle, recording)?;
            }
            let over = over || left == 0 || standing != Standing::Goes;
            if over {
                let goes_on = standing == Standing::Goes && left > 0;
                row.rest(goes_on.then_some(now_ns.min(end_ns)));
            }
            row.carry(over, recording)?;
            (recording.observe)(&row.progress(self.reader.lost()));
            if over {
                break standing;
            }
            std::thread::sleep(DRAIN_EVERY.min(self.reader.room() / 4));
        };
        self.ended = standing != Standing::Goes;
        let manifest = &mut *recording.manifest;
        match standing {
            Standing::Goes => {}
            Standing::Closed => {
                manifest.notes.push("the program closed its loop's monitor, which ended the row".into())
            }
            Standing::Gone => manifest.notes.push("the loop's program ended, and the row with it".into()),
        }
        let (taints, notes) = watch.end(LOOP);
        manifest.taints.extend(taints);
        manifest.notes.extend(notes);
        row.finish(Steal::now().since(&steal, cpu), self.reader.lost(), recording)?;
        recording.write_manifest()
    }
}

/// A row under way: what is said of the loop, and a series for each way to measure a cycle.
struct LoopRow<'a> {
    spec: &'a SeriesSpec,
    period: NonZeroU64,
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

impl LoopRow<'_> {
    /// The recorder of a series, which begins if it has not yet.
    fn series(&mut self, probe: &str, recording: &mut Recording<'_>) -> Result<&mut Recorder> {
        let known = self.series.iter().position(|series| series.spec.key.probe == probe);
        let place = match known {
            Some(place) => place,
            None => {
                let period_ns = self.period.get();
                let spec = match probe {
                    LOOP => self.spec.clone(),
                    _ => self.spec.beside(probe, period_ns, period_ns),
                };
                let half_life_s = self.length.half_life_s();
                let (mut recorder, mut drain) =
                    Drain::recorded(&spec, self.period, recording.bundle, half_life_s)?;
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

    fn record(&mut self, cycle: &Cycle, recording: &mut Recording<'_>) -> Result<()> {
        self.wakeups.cycle(cycle, &mut self.series[0].recorder);
        let took_ns = cycle.ended_ns - cycle.began_ns;
        self.series(EXECUTION, recording)?.span(cycle.began_ns, took_ns);
        for (n, at_ns) in (1..=MARKS).zip(cycle.marks_ns) {
            if let Some(at_ns) = at_ns {
                let took_ns = at_ns.saturating_sub(cycle.began_ns);
                self.series(&format!("{MARK}{n}"), recording)?.span(cycle.began_ns, took_ns);
            }
        }
        Ok(())
    }

    /// No cycle comes any more; see [`Wakeups::rest`].
    fn rest(&mut self, until_ns: Option<u64>) {
        self.wakeups.rest(until_ns, &mut self.series[0].recorder);
    }

    fn carry(&mut self, over: bool, recording: &mut Recording<'_>) -> Result<()> {
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

    fn progress(&self, lost: u64) -> RowProgress {
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
                lost: if series.spec.key.probe == LOOP { lost } else { 0 },
                latency: Some(series.drain.latency(&so_far)),
            }
        };
        RowProgress {
            elapsed: Duration::from_nanos(monotonic_ns().saturating_sub(self.start.window.start_ns)),
            length: self.length.duration(),
            series: self.series.iter().map(one).collect(),
        }
    }

    fn finish(self, steal_ns: Option<u64>, lost: u64, recording: &mut Recording<'_>) -> Result<()> {
        let (state, manifest) = (recording.state(), &mut *recording.manifest);
        for (n, series) in self.series.into_iter().enumerate() {
            let entry = &mut manifest.rows[series.entry];
            entry.state = state;
            entry.granted.steal_ns = steal_ns;
            (entry.spikes, entry.spikes_not_listed) = series.drain.spikes();
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
    period_ns: u64,
    /// The cycle that waits for the next, and how long it began after the one before.
    last: Option<(Cycle, u64)>,
}

impl Wakeups {
    fn cycle(&mut self, cycle: &Cycle, recorder: &mut Recorder) {
        let told = self.last.take();
        match &told {
            Some((last, interval_ns)) => {
                let went_by_ns = cycle.due_ns.saturating_sub(last.due_ns);
                let missed = self.missed(went_by_ns, cycle.number - last.number);
                self.record(last, *interval_ns, missed, recorder);
            }
            None => {
                let silent_ns = cycle.due_ns.saturating_sub(self.start_ns);
                recorder.silence(self.start_ns, silent_ns, self.missed(silent_ns, 1));
            }
        }
        // After a lost cycle nobody knows when the one before ran.
        let ran_ns = told
            .filter(|(last, _)| last.number + 1 == cycle.number)
            .map_or(cycle.due_ns.saturating_sub(self.period_ns), |(last, _)| last.began_ns);
        self.last = Some((*cycle, cycle.began_ns.saturating_sub(ran_ns)));
    }

    /// The row is over; where the loop should have gone on, it did until `until_ns`, but for a cycle that may
    /// be under way.
    fn rest(&mut self, until_ns: Option<u64>, recorder: &mut Recorder) {
        let last_ns = self.last.map_or(self.start_ns, |(last, _)| last.due_ns);
        let silent_ns = until_ns.map_or(0, |until_ns| until_ns.saturating_sub(last_ns));
        let missed = (silent_ns / self.period_ns).saturating_sub(1);
        match self.last.take() {
            Some((last, interval_ns)) => self.record(&last, interval_ns, missed, recorder),
            None => recorder.silence(self.start_ns, silent_ns, missed),
        }
    }

    fn record(&self, cycle: &Cycle, interval_ns: u64, missed: u64, recorder: &mut Recorder) {
        recorder.wakeup(cycle.due_ns, cycle.began_ns, interval_ns, missed);
    }

    /// Periods that the loop skipped in so long: those that went by less the cycles that it ran, seen or
    /// lost.
    fn missed(&self, went_by_ns: u64, cycles: u64) -> u64 {
        (went_by_ns.saturating_add(self.period_ns / 2) / self.period_ns).saturating_sub(cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::recorder;
    use crate::schedule::Schedule;

    /// What is missed by which due of a row from 5,000 to `until_ns`, in which a cycle of 1,000 comes at each
    /// of `cycles`.
    fn missed(cycles: &[(u64, u64)], until_ns: Option<u64>) -> Vec<(u64, u64)> {
        let (mut recorder, mut live) =
            recorder(u64::MAX, Schedule::Periodic(NonZeroU64::new(1_000).unwrap()));
        recorder.start(5_000);
        let mut wakeups = Wakeups { start_ns: 5_000, period_ns: 1_000, last: None };
        for (number, due_ns) in cycles.iter().copied() {
            let cycle = Cycle { number, due_ns, began_ns: due_ns, ended_ns: due_ns, marks_ns: [None; MARKS] };
            wakeups.cycle(&cycle, &mut recorder);
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
                "cannot attach to the loop: process 4294967295 has no thread {id}, by which the loop is said to run; \
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

    #[test]
    fn lost_cycles_name_their_cause_and_cure() {
        let key = RowKey { probe: LOOP.into(), load: "idle".into(), cpu: 1, period_ns: None };
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
}
