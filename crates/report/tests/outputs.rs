// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every output of a verdict shows every part of it: outcome, reasons, late cycles, grade, accepted taints.

use compare::compare;
use compare::gate::{GateOptions, judge};
use evidence::document::{ProveDocument, VerdictFile};
use evidence::taint::{self, Taint};
use evidence::{Bundle, Row};
use exchange::export::{ExportFormat, RowFilter, export};
use report::prometheus::{MetricsFormat, verdict};
use report::terminal::{self, Style};

use crate::common::Plan;

const PLAIN: Style = Style { color: false, width: 400 };

/// A run that is late, unfit for its use, and has a taint that was accepted; some of its late cycles are
/// missed periods, which have no sample.
fn late() -> Bundle {
    let plan = Plan { name: "late", loads: vec!["idle"], spin: false, ..Plan::before() };
    let mut bundle = plan.in_memory();
    let row = &mut bundle.rows[0];
    row.series.latency.record(900_000);
    row.series.seconds[0].missed += 1_000_000;
    bundle.rows[0] = Row::new(row.entry.clone(), row.series.clone());
    bundle.manifest.asked.purpose = Some("linuxcnc:1ms".into());
    let alone = Taint::new(taint::SMT_SIBLING, "cpu 1 shares its core with cpu 5", "take it offline");
    bundle.manifest.taints = vec![Taint { accepted: true, ..alone }];
    bundle
}

/// The text of a page: without its tags, and with plain signs.
fn text(page: &str) -> String {
    let parts = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect::<String>().replace("&#x2f;", "/").replace('µ', "u")
}

fn outputs(bundle: &Bundle) -> Vec<(&'static str, String)> {
    let before = Plan { name: "before", loads: vec!["idle"], spin: false, ..Plan::after() }.in_memory();
    let document = ProveDocument::of(bundle);
    let options = GateOptions { force: true, ..GateOptions::default() };
    let gated = judge(std::slice::from_ref(&before), bundle, &options).unwrap();
    let compared = compare(&before, bundle, true);
    let json = |value: serde_json::Result<String>| value.unwrap();
    let everything = RowFilter { load: None, probe: None };
    let metrics = MetricsFormat::OpenMetrics.of(&verdict(&document.parts()));
    vec![
        ("the table", terminal::table(&document, PLAIN)),
        ("the table of a screen", terminal::brief(&document, Some(24), PLAIN)),
        ("the live page", report::outcome(&document)),
        ("the page", text(&report::html(std::slice::from_ref(bundle)).unwrap())),
        ("prove --json", json(serde_json::to_string(&document))),
        ("verdict.json", json(serde_json::to_string(&VerdictFile::of(&document)))),
        ("gate", terminal::gated(&gated, PLAIN)),
        ("gate --json", json(serde_json::to_string(&gated))),
        ("gate --junit", report::junit(&gated)),
        ("compare", terminal::comparison(&compared, PLAIN)),
        ("compare --json", json(serde_json::to_string(&compared))),
        ("export --as openmetrics", String::from_utf8(metrics).unwrap()),
        ("export --as ktap", export(bundle, ExportFormat::Ktap, &everything).unwrap()),
        ("export --as json", export(bundle, ExportFormat::Json, &everything).unwrap()),
    ]
}

#[test]
fn each_output_shows_each_part_of_a_verdict() {
    let bundle = late();
    let document = ProveDocument::of(&bundle);
    let parts = document.parts();
    assert!(parts.cycles.late > 1_000_000 && parts.cycles.cycles > parts.cycles.late);
    // Outcome, late cycles and grade in the words of one output or the other.
    let (reason, _) = parts.reasons[0].split_once(" (").unwrap();
    let [all, row] = [parts.cycles.late, document.verdict.rows[0].late];
    let late = [all, row].map(|late| [machine::units::count(late), late.to_string()]).concat();
    let wanted: [(&str, Vec<String>); 5] = [
        ("outcome", vec!["does not hold".into(), "exceeded".into()]),
        ("reason", vec![reason.to_lowercase()]),
        ("late cycles", late),
        ("grade", vec!["unfit".into()]),
        ("accepted taint", vec!["smt-sibling".into()]),
    ];
    for (output, text) in outputs(&bundle) {
        let text = text.to_lowercase();
        for (part, words) in &wanted {
            // A comparison gives both outcomes, and the reasons of neither.
            if (output, *part) == ("compare", "reason") {
                continue;
            }
            // These have room for the verdict, and what it rests on.
            let is_short = ["the table of a screen", "the live page"].contains(&output);
            if is_short && ["reason", "late cycles", "grade"].contains(part) {
                continue;
            }
            assert!(words.iter().any(|word| text.contains(word)), "{output} lacks {part}: {words:?}\n{text}");
        }
    }
}

#[test]
fn late_cycles_are_a_share_of_those_due() {
    let bundle = late();
    let page = text(&report::html(std::slice::from_ref(&bundle)).unwrap());
    let document = ProveDocument::of(&bundle);
    let parts = document.parts();
    let share = 100.0 * parts.cycles.late as f64 / parts.cycles.cycles as f64;
    assert!(page.contains(&format!("{share:.1} %")), "{share}");
    let samples: u64 = document.rows.iter().map(|row| row.count).sum();
    let of_samples = 100.0 * parts.cycles.late as f64 / samples as f64;
    assert!(of_samples > 100.0 && !page.contains(&format!("{of_samples:.1} %")), "{of_samples}");
}

#[test]
fn a_figure_has_the_signs_of_its_output() {
    let bundle = late();
    let page = report::html(std::slice::from_ref(&bundle)).unwrap();
    let reason = ProveDocument::of(&bundle).verdict.reasons[0].clone();
    assert!(reason.contains(" us exceeds 100 us") && !reason.contains('µ'), "{reason:?}");
    assert!(page.contains(" µs exceeds 100 µs") && !page.contains(" us exceeds "));
    // What a bundle brings is text: its numbers may be names.
    let mut named = bundle.clone();
    named.manifest.notes = vec!["thread 12345 us of 23456".into()];
    assert!(report::html(&[named]).unwrap().contains("thread 12345 us of 23456"));
}
