// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a run for its use: each thread's largest latency, and its grade where the
//! use has a scale.

use machine::Use;
use machine::purpose::{Grade, UseKind, UseThread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::RowKind;
use crate::summary::Summary;
use machine::quantity::{Count, Cycles, MissedPeriods, Sentence, Time};
use machine::sentence;

/// The use of a run, and how its threads did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UseVerdict {
    /// As it was asked: `linuxcnc:25us+1ms`.
    pub asked: String,
    /// The worst grade of a thread; absent if the use has no scale, or a thread has no samples.
    pub grade: Option<Grade>,
    /// Its threads, the fastest first.
    pub threads: Vec<ThreadVerdict>,
}

/// How a thread of a use did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadVerdict {
    /// `base`, `servo`, `callback`, `cycle`, `loop`.
    pub name: String,
    /// Its period.
    pub period_ns: u64,
    /// Its largest latency in any row; absent without samples.
    pub worst_ns: Option<u64>,
    /// Its samples in all rows.
    pub count: u64,
    /// Periods that it missed: of audio the xruns.
    pub missed: u64,
    /// The grade of the latency on the scale.
    pub grade: Option<Grade>,
    /// Good up to this latency.
    pub good_up_to_ns: Option<u64>,
    /// Unfit from this latency on.
    pub unfit_from_ns: Option<u64>,
    /// The document that has these figures.
    pub source: Option<String>,
}

impl UseVerdict {
    /// The result of `rows` for the use `asked`; nothing where the text names none.
    pub fn of(asked: &str, rows: &[Summary]) -> Option<UseVerdict> {
        let purpose = asked.parse::<Use>().ok()?;
        let is_of_program = rows.iter().any(|row| row.key.kind() == RowKind::Loop);
        let kind = if is_of_program { RowKind::Loop } else { RowKind::of(purpose.probes()[0]) };
        let rows = rows.iter().filter(|row| row.key.kind() == kind).collect::<Vec<_>>();
        let of_thread = |thread: &UseThread| judge(thread, &purpose, &rows);
        let threads = purpose.threads.iter().map(of_thread).collect::<Vec<_>>();
        let is_graded = threads.iter().all(|thread| thread.grade.is_some());
        let worst = threads.iter().filter_map(|thread| thread.grade).max();
        Some(UseVerdict { asked: asked.to_string(), grade: worst.filter(|_| is_graded), threads })
    }

    /// The same in a sentence; nothing where it says no more than the table.
    pub fn sentence(&self) -> Option<Sentence> {
        let purpose = self.asked.parse::<Use>().ok()?;
        let threads =
            self.threads.iter().filter_map(|thread| thread.sentence(purpose.kind)).collect::<Vec<_>>();
        if threads.is_empty() {
            return None;
        }
        let grade = self.grade.map(|grade| format!("{} for ", grade.name())).unwrap_or_default();
        let threads = Sentence::joined(&threads, "; ");
        Some(sentence![grade, self.asked, ": ", threads])
    }

    /// The use's name for a missed period.
    pub fn missed(&self) -> &'static str {
        self.asked.parse::<Use>().map_or("missed", |purpose| purpose.missed())
    }

    /// The documents that have the figures of its scale.
    pub fn sources(&self) -> Vec<&str> {
        let mut sources =
            self.threads.iter().filter_map(|thread| thread.source.as_deref()).collect::<Vec<_>>();
        sources.dedup();
        sources
    }
}

impl ThreadVerdict {
    fn sentence(&self, kind: UseKind) -> Option<Sentence> {
        let worst = Time::measured(self.worst_ns?);
        if kind == UseKind::Audio {
            let missed = Count::<MissedPeriods>::exact(self.missed);
            let callbacks: Count<Cycles> = Count::due(Count::exact(self.count), missed);
            let budget = Time::measured(self.period_ns);
            let latest = sentence!["the latest began ", worst, " of ", budget, " late"];
            return Some(sentence![missed, " xruns in ", callbacks, " callbacks, ", latest]);
        }
        let [good, unfit] = [self.good_up_to_ns?, self.unfit_from_ns?].map(Time::exact);
        Some(sentence![self.name, " thread ", worst, " (good up to ", good, ", unfit from ", unfit, ")"])
    }
}

fn judge(thread: &UseThread, purpose: &Use, rows: &[&Summary]) -> ThreadVerdict {
    let is_its = |row: &&&Summary| {
        row.key
            .period_ns
            .and_then(|ns| purpose.thread_of(ns))
            .is_some_and(|nearest| nearest.name == thread.name)
    };
    let rows = rows.iter().filter(is_its).filter(|row| row.count > 0).collect::<Vec<_>>();
    let worst_ns = rows.iter().map(|row| row.max_at_most_ns.unwrap_or(row.max_ns)).max();
    let scale = thread.scale.as_ref();
    ThreadVerdict {
        name: thread.name.clone(),
        period_ns: thread.period_ns,
        worst_ns,
        count: untrusted::total(rows.iter().map(|row| row.count)),
        missed: untrusted::total(rows.iter().map(|row| row.missed)),
        grade: worst_ns.and_then(|ns| scale.map(|scale| scale.grade(ns))),
        good_up_to_ns: scale.map(|scale| scale.good_up_to_ns),
        unfit_from_ns: scale.map(|scale| scale.unfit_from_ns),
        source: scale.map(|scale| scale.source.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(period_ns: u64, max_ns: u64, missed: u64) -> Summary {
        let row = serde_json::json!({
            "probe": "wakeup", "load": "idle", "cpu": 1, "period_ns": period_ns,
            "count": 1_000, "missed": missed, "max_ns": max_ns, "over_limit": 0, "spikes": 0, "granted": {},
        });
        serde_json::from_value(row).unwrap()
    }

    fn of(asked: &str, rows: &[Summary]) -> UseVerdict {
        UseVerdict::of(asked, rows).unwrap()
    }

    #[test]
    fn the_worst_thread_grades_the_machine() {
        let rows = [row(25_000, 34_000, 9), row(1_000_000, 41_000, 0), row(25_000, 12_000, 0)];
        let judged = of("linuxcnc:25us+1ms", &rows);
        assert_eq!(judged.grade, Some(Grade::Usable));
        assert_eq!(
            judged.threads.iter().map(|thread| thread.worst_ns).collect::<Vec<_>>(),
            [Some(34_000), Some(41_000)]
        );
        assert_eq!(
            judged.sentence().unwrap(),
            "usable for linuxcnc:25us+1ms: base thread 34.0 us (good up to 20 us, unfit from 50 us); \
             servo thread 41.0 us (good up to 100 us, unfit from 500 us)"
        );
        assert_eq!(
            of("linuxcnc:25us+1ms", &[row(25_000, 50_000, 9), row(1_000_000, 1, 0)]).grade,
            Some(Grade::Unfit)
        );
        assert_eq!(of("linuxcnc:1ms", &[row(1_000_000, 41_000, 0)]).grade, Some(Grade::Good));
    }

    #[test]
    fn a_thread_without_samples_leaves_the_use_ungraded() {
        let judged = of("linuxcnc:25us+1ms", &[row(25_000, 4_000, 0)]);
        assert_eq!((judged.grade, judged.threads[1].worst_ns), (None, None));
    }

    #[test]
    fn the_missed_periods_of_audio_are_xruns() {
        let judged = of("audio:64@48000", &[row(1_333_333, 1_400_000, 2)]);
        assert_eq!(judged.grade, None);
        let sentence = judged.sentence().unwrap();
        assert_eq!(
            sentence,
            "audio:64@48000: 2 xruns in 1,002 callbacks, the latest began 1,400 us of 1,333 us late"
        );
    }

    #[test]
    fn a_use_without_a_scale_adds_nothing_to_the_table() {
        assert_eq!(of("control:1kHz", &[row(1_000_000, 5_000, 0)]).sentence(), None);
        assert_eq!(UseVerdict::of("nonsense", &[]), None);
    }
}
