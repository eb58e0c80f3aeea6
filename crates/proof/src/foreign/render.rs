// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle into everything that is made of one.

use std::slice::from_ref;

use compare::compare;
use compare::gate;
use evidence::document::ProveDocument;
use evidence::{Bundle, Verdict};
use exchange::export::{self, RowFilter, export};
use report::prometheus::{MetricsFormat, MonitoredRow, monitor};
use report::terminal::{self, Style, WhyExtent};
use why::{Question, WhyDocument};

const STYLE: Style = Style { color: true, width: 80 };

/// Renders a bundle as every verb does: documents, tables, page, comparison, gate, JUnit, exports,
/// Prometheus, and why.
pub fn render(bundle: &Bundle) {
    let document = ProveDocument::of(bundle);
    let _ = serde_json::to_string(&document);
    let verdict = Verdict::without_tails(bundle);
    assert_eq!((verdict.outcome, &verdict.reasons), (document.verdict.outcome, &document.verdict.reasons));
    // A verdict that holds rests on samples none of which is above its limit, and on a whole bundle.
    let is_late = |row: &evidence::Row| row.entry.limit_ns.is_none_or(|ns| row.series.latency.max_ns() > ns);
    assert!(!verdict.held || (bundle.missing.is_empty() && !bundle.rows.iter().any(is_late)), "{verdict:?}");
    let _ = (terminal::table(&document, STYLE), terminal::brief(&document, Some(23), STYLE));
    if let Some(lab) = &bundle.lab {
        let _ = terminal::lab(lab, STYLE);
        let _ = terminal::gate(&::lab::gate::judge(lab, lab), STYLE);
    }
    let _ = report::html(from_ref(bundle));
    for force in [false, true] {
        let compared = compare(bundle, bundle, force);
        let _ = terminal::comparison(&compared, STYLE);
        let _ = compared.refusal();
        let choice = gate::GateOptions { force, ..gate::GateOptions::default() };
        if let Ok(gated) = gate::judge(from_ref(bundle), bundle, &choice) {
            let _ = (terminal::gated(&gated, STYLE), report::junit(&gated), gated.refusal());
            assert!(gated.held == (gated.errors.is_empty() && gated.reasons.is_empty()));
            assert!(!gated.held || bundle.missing.is_empty());
        }
    }
    for format in export::ExportFormat::ALL {
        let first = bundle.rows.first().map(|row| row.entry.key.clone());
        let probe = first.as_ref().map(|key| key.probe.clone());
        let load = first.map(|key| key.load);
        let _ = export(bundle, format, &RowFilter { load, probe });
    }
    let rows: Vec<MonitoredRow> = bundle.rows.iter().map(MonitoredRow::of).collect();
    let families = monitor("loop", &rows);
    let formats = [MetricsFormat::Text, MetricsFormat::OpenMetrics, MetricsFormat::Protobuf];
    formats.into_iter().for_each(|format| drop(format.of(&families)));
    let why = WhyDocument::of(bundle, &Question { top: 5, cpus: None, load: None });
    let _ = (terminal::why(&why, WhyExtent::All, STYLE), serde_json::to_string(&why));
    assert!(terminal::why(&why, WhyExtent::Screen(0), STYLE).lines().count() < 24);
}
