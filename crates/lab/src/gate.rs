// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate: runs what a baseline ran and says by what more interruptions, kernel instructions or deferred
//! work came.
//!
//! A baseline is a `lab.json` that was kept, and its window is the one that is run: a count grows with the
//! time that is counted, and not in proportion to it, so another window is refused, not scaled. Storms blow a
//! fixed number of rounds, so counts repeat; what still differs from run to run is stated here as the slack:
//! a few interruptions of the guest's own housekeeping, and a share of instructions, since how far a lock was
//! waited for depends on the other CPU.

use std::path::Path;
use std::time::Duration;

use evidence::lab::{GateDocument, GateWindow, Growth, LabDocument, LabRow};
use evidence::manifest::SCHEMA_VERSION;

use crate::{Error, Result};

/// Interruptions that come and go between runs of the same guest.
const SLACK_COUNT: u64 = 5;

/// The part of a count by which runs of the same guest differ.
const SLACK_SHARE: f64 = 0.10;

/// The part of instructions by which runs of the same guest differ.
const SLACK_INSTRUCTIONS: f64 = 0.35;

/// Longest baseline that is read: as long as a bundle's document may be.
const LONGEST: u64 = 8 << 20;

/// A baseline as it was kept.
pub fn read(path: &Path) -> Result<LabDocument> {
    let text = untrusted::read(path, LONGEST).map_err(|e| Error::io("read the baseline", path, &e))?;
    let cure = "give a lab.json that isolator lab run wrote";
    let baseline: LabDocument =
        serde_json::from_slice(&text).map_err(|e| Error::on("read the baseline", path.display(), e, cure))?;
    if baseline.rows.is_empty() {
        let why = "it has no counts: the mode was not count";
        return Err(Error::on("read the baseline", path.display(), why, cure));
    }
    Ok(baseline)
}

/// The scenarios and loads that a baseline ran, each once, in its order.
pub fn asked(baseline: &LabDocument) -> (Vec<String>, Vec<String>) {
    let (mut scenarios, mut loads) = (Vec::new(), Vec::new());
    for row in &baseline.rows {
        let (scenario, load) =
            row.scenario.split_once(" under ").unwrap_or((&row.scenario, crate::run::IDLE));
        for (list, name) in [(&mut scenarios, scenario), (&mut loads, load)] {
            if !list.contains(&name.to_string()) {
                list.push(name.to_string());
            }
        }
    }
    (scenarios, loads)
}

/// The window to count in: the baseline's. Another one than that is refused; a baseline that does not state
/// its own takes the one that is `asked`.
pub fn window(baseline: &LabDocument, path: &Path, asked: Option<Duration>) -> Result<Duration> {
    let refused = |why: String, cure: String| Err(Error::on("compare with", path.display(), why, cure));
    let own = match baseline.duration_s.map(Duration::try_from_secs_f64) {
        Some(Ok(own)) => Some(own),
        Some(Err(_)) => {
            return refused("its window is not a length of time".into(), "make the baseline again".into());
        }
        None => None,
    };
    match (own, asked) {
        (Some(own), Some(asked)) if own != asked => refused(
            format!(
                "it counted in a window of {own:?}, and {asked:?} are asked for: counts of unequal windows say nothing"
            ),
            "leave --duration out, or make a baseline with it".into(),
        ),
        (Some(window), _) | (None, Some(window)) => Ok(window),
        (None, None) => refused(
            "it does not state its window".into(),
            "give the --duration that it was made with, or make it again".into(),
        ),
    }
}

/// The most interruptions that another run of the same guest may have.
pub fn allowed(before: u64) -> u64 {
    before + SLACK_COUNT.max((before as f64 * SLACK_SHARE) as u64)
}

/// Judges growth beyond the slack, worst first, and rows that the baseline counted and the run did not.
pub fn judge(baseline: &LabDocument, now: &LabDocument) -> GateDocument {
    let (mut growth, mut not_counted, mut windows) = (Vec::new(), Vec::new(), Vec::new());
    let mut not_judged = Vec::new();
    for before in &baseline.rows {
        let same = |row: &&LabRow| (&row.scenario, row.cpu) == (&before.scenario, before.cpu);
        let after = now.rows.iter().find(same);
        growth.extend(after.into_iter().flat_map(|after| grown(before, after)));
        not_counted.extend(gone(before, after));
        windows.extend(after.map(|after| GateWindow {
            scenario: after.scenario.clone(),
            cpu: after.cpu,
            excursions_before: before.excursions,
            excursions_after: after.excursions,
            before_s: before.seconds_guest,
            after_s: after.seconds_guest,
        }));
        if after.is_some_and(|after| before.isolation.is_none() && after.isolation.is_some()) {
            let place = format!("{} on cpu {}", before.scenario, before.cpu);
            not_judged.push(format!("{place}: deferred work and breaches: the baseline did not count them"));
        }
    }
    let is_new = |row: &&LabRow| {
        !baseline.rows.iter().any(|before| (&row.scenario, row.cpu) == (&before.scenario, before.cpu))
    };
    let new = now.rows.iter().filter(is_new);
    not_judged
        .extend(new.map(|row| format!("{} on cpu {}: the baseline has no such row", row.scenario, row.cpu)));
    growth.sort_by(|a, b| b.factor().total_cmp(&a.factor()));
    GateDocument {
        schema_version: SCHEMA_VERSION,
        held: growth.is_empty() && not_counted.is_empty() && not_judged.is_empty(),
        kernel_before: baseline.kernel.clone(),
        kernel_after: now.kernel.clone(),
        growth,
        not_counted,
        windows,
        not_judged,
        bundle: now.bundle.clone(),
    }
}

/// A baseline's row that the run did not count.
fn gone(before: &LabRow, after: Option<&LabRow>) -> Option<String> {
    let what = match after {
        None => "",
        Some(after) if before.isolation.is_some() && after.isolation.is_none() => {
            " deferred work and breaches:"
        }
        Some(_) => return None,
    };
    Some(format!("{} on cpu {}:{what} counted before, not now", before.scenario, before.cpu))
}

fn grown(before: &LabRow, after: &LabRow) -> Vec<Growth> {
    // Instructions are judged for each interruption: how many there were is judged by itself.
    let mean = |instructions: u64, count: u64| instructions.checked_div(count).unwrap_or(0);
    let dearer = |before: u64| (before as f64 * (1.0 + SLACK_INSTRUCTIONS)) as u64;
    let all = allowed(before.excursions);
    let mut figures = vec![("excursions".to_string(), before.excursions, after.excursions, all)];
    if let (Some(old), Some(new)) = (before.deferred(), after.deferred()) {
        figures.push(("deferred work".to_string(), old, new, allowed(old)));
    }
    if let (Some(old), Some(new)) = (before.breaches(), after.breaches()) {
        // Of these none comes by chance.
        figures.push(("breaches".to_string(), old, new, old));
    }
    for (name, entry) in &after.by_entry {
        let old = before.by_entry.get(name).copied().unwrap_or_default();
        figures.push((format!("excursions through {name}"), old.count, entry.count, allowed(old.count)));
        if old.count >= SLACK_COUNT {
            let (then, now) = (mean(old.instructions, old.count), mean(entry.instructions, entry.count));
            figures.push((format!("instructions of an excursion through {name}"), then, now, dearer(then)));
        }
    }
    let beyond = figures.into_iter().filter(|(_, _, now, allowed)| now > allowed);
    let growth = |(what, then, now, allowed)| Growth {
        scenario: after.scenario.clone(),
        cpu: after.cpu,
        what,
        before: then,
        after: now,
        allowed,
    };
    beyond.map(growth).collect()
}

#[cfg(test)]
mod tests {
    use evidence::lab::{EntryExcursions, GuestLog};

    use super::*;

    fn row(excursions: u64, instructions: u64) -> LabRow {
        let entry = EntryExcursions { count: excursions, instructions, max: instructions };
        LabRow {
            scenario: "static-keys under l2".into(),
            cpu: 1,
            excursions,
            by_entry: [("asm_sysvec_call_function_single".to_string(), entry)].into(),
            ..LabRow::default()
        }
    }

    fn document(rows: Vec<LabRow>) -> LabDocument {
        let document = serde_json::json!({
            "schema_version": SCHEMA_VERSION, "bundle": "", "mode": "count", "mode_reason": "", "emulator": "",
            "kernel": "6.12 (debian-rt)", "kernel_digest": "", "architecture": "x86_64", "boot_line": "", "cpus": 3,
            "seed": 1, "rows": rows, "storms": [], "guest_log": GuestLog::default(), "witness": [],
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn what_differs_from_run_to_run_is_no_growth() {
        assert_eq!(grown(&row(360, 720_000), &row(362, 830_000)), []);
        assert_eq!(grown(&row(2, 8_000), &row(5, 60_000)), []);
    }

    #[test]
    fn more_interruptions_and_longer_ones_are_growth() {
        let grown = grown(&row(360, 720_000), &row(500, 2_000_000));
        let told = grown.iter().map(|one| (one.what.as_str(), one.before, one.after)).collect::<Vec<_>>();
        assert_eq!(
            told,
            [
                ("excursions", 360, 500),
                ("excursions through asm_sysvec_call_function_single", 360, 500),
                ("instructions of an excursion through asm_sysvec_call_function_single", 2_000, 4_000),
            ]
        );
    }

    #[test]
    fn deferred_work_and_breaches_that_grew_are_growth() {
        let counted = |deferred, breaches| LabRow {
            isolation: Some([("defer_sync".into(), deferred), ("breach_stop".into(), breaches)].into()),
            ..row(2, 100)
        };
        assert_eq!(grown(&counted(100, 1), &counted(108, 1)), []);
        assert_eq!(grown(&row(2, 100), &counted(108, 1)), [], "a baseline without them judges none");
        let grown = grown(&counted(100, 1), &counted(300, 2));
        let told = grown.iter().map(|one| (one.what.as_str(), one.allowed)).collect::<Vec<_>>();
        assert_eq!(told, [("deferred work", 110), ("breaches", 1)]);
    }

    #[test]
    fn a_row_that_is_gone_fails_the_gate() {
        let whole = document(vec![row(2, 100), LabRow { cpu: 2, ..row(2, 100) }]);
        let part = document(vec![row(2, 100)]);
        assert!(judge(&whole, &whole).held && judge(&part, &whole).growth.is_empty(), "more may be counted");
        let judged = judge(&whole, &part);
        assert_eq!(judged.not_counted, ["static-keys under l2 on cpu 2: counted before, not now"]);
        assert!(!judged.held && judged.growth.is_empty());
        assert_eq!(judge(&whole, &document(Vec::new())).not_counted.len(), 2);
    }

    #[test]
    fn the_window_is_the_baselines_and_another_one_is_refused() {
        let path = Path::new("good/lab.json");
        let of = |own: Option<f64>, asked: Option<u64>| {
            let baseline = LabDocument { duration_s: own, ..document(Vec::new()) };
            window(&baseline, path, asked.map(Duration::from_secs)).map_err(|error| error.to_string())
        };
        let two = Ok(Duration::from_secs(2));
        assert_eq!(
            [of(Some(2.0), None), of(Some(2.0), Some(2)), of(None, Some(2))],
            [two.clone(), two.clone(), two]
        );
        assert_eq!(
            of(Some(2.0), Some(5)).unwrap_err(),
            "cannot compare with good/lab.json: it counted in a window of 2s, and 5s are asked for: counts of unequal \
             windows say nothing; leave --duration out, or make a baseline with it"
        );
        assert!(of(None, None).unwrap_err().contains("does not state its window; give the --duration"));
        assert!(of(Some(-1.0), None).unwrap_err().contains("its window is not a length of time"));
    }

    #[test]
    fn rows_without_a_baseline_are_listed_as_not_judged() {
        let whole = document(vec![row(2, 100), LabRow { cpu: 2, ..row(2, 100) }]);
        let judged = judge(&document(vec![row(2, 100)]), &whole);
        assert_eq!(judged.not_judged, ["static-keys under l2 on cpu 2: the baseline has no such row"]);
        assert_eq!((judged.held, judged.windows.len()), (false, 1));
        let longer = GateWindow { before_s: 39.0, after_s: 50.0, ..judged.windows[0].clone() };
        assert!(longer.differs() && !GateWindow { after_s: 40.0, ..longer }.differs());
    }

    #[test]
    fn counters_that_are_gone_fail_the_gate() {
        let isolation = Some([("defer_sync".to_string(), 3)].into());
        let deferred = document(vec![LabRow { isolation, ..row(2, 100) }]);
        let without = document(vec![row(2, 100)]);
        let judged = judge(&deferred, &without);
        let line = "static-keys under l2 on cpu 1: deferred work and breaches: counted before, not now";
        assert_eq!(judged.not_counted, [line]);
        assert!(!judged.held);
        let open = judge(&without, &deferred);
        assert!(!open.held && open.growth.is_empty() && open.not_judged.len() == 1, "{open:?}");
    }

    #[test]
    fn an_entry_that_was_not_there_is_growth() {
        let mut after = row(360, 720_000);
        after.by_entry.insert("asm_exc_nmi".into(), EntryExcursions { count: 9, instructions: 90, max: 10 });
        let grown = grown(&row(360, 720_000), &after);
        assert_eq!(grown[0].what, "excursions through asm_exc_nmi");
    }
}
