// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every page must be: whole, harmless, small, and the same for the same evidence.

use crate::common::Plan;
use evidence::cause::{Cause, CauseKind};
use report::html;

/// Bytes of a page, however long the run was.
const LARGEST: usize = 2_000_000;

/// What a page may take beside its rows, and for each of them: twelve CPUs under twelve loads then stay below
/// [`LARGEST`].
const BESIDE_ROWS: usize = 60_000;
const FOR_A_ROW: usize = (LARGEST - BESIDE_ROWS) / (12 * 12);

fn both() -> (tempfile::TempDir, Vec<evidence::Bundle>) {
    let folder = tempfile::tempdir().unwrap();
    let bundles = [Plan::before(), Plan::after()]
        .map(|plan| Plan { cpus: 2..3, ..plan }.on_disk(folder.path()))
        .to_vec();
    (folder, bundles)
}

#[test]
fn foreign_text_never_becomes_markup() {
    let (_folder, mut bundles) = both();
    let evil = "\"><script>alert(1)</script>";
    for bundle in &mut bundles {
        let manifest = &mut bundle.manifest;
        manifest.machine.kernel.command_line = Some(evil.into());
        manifest.written_by.program = evil.into();
        manifest.taints[..].iter_mut().for_each(|taint| taint.reason = evil.into());
        manifest.notes.push(evil.into());
        bundle.missing.push(evil.into());
        bundle.path = format!("/somewhere/{evil}").into();
        for row in &mut bundle.rows {
            row.entry.key.probe = format!("{}{evil}", row.entry.key.probe);
            row.entry.load_did = Some(evil.into());
            row.entry.granted.policy = Some(evil.into());
        }
        for spike in &mut bundle.spikes {
            spike.key.load = evil.into();
            spike.causes.push(Cause::timed(CauseKind::Irq, evil, 0, 5));
        }
    }
    let page = html(&bundles).unwrap();
    assert!(!page.contains("<script"), "{}", around(&page, "<script"));
    assert!(!page.contains("<b>7</b>"), "{}", around(&page, "<b>7</b>"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn nothing_is_fetched_and_no_script_runs() {
    let (_folder, bundles) = both();
    let page = html(&bundles).unwrap();
    let plain = unescaped(&page);
    for attribute in [" src=", " href=", "url(", " xlink:href=", "@import"] {
        for (place, _) in plain.match_indices(attribute) {
            let value = plain[place + attribute.len()..].trim_start_matches('"');
            assert!(
                value.starts_with('#') || value.starts_with("data:image/png;base64,"),
                "{attribute}{}",
                &value[..40]
            );
        }
    }
    for forbidden in ["http:", "https:", "<script", "<link", "<iframe", " onload", "javascript:"] {
        assert!(!page.contains(forbidden), "{}", around(&page, forbidden));
    }
}

#[test]
fn every_reason_taint_note_and_lack_is_shown() {
    let (_folder, mut bundles) = both();
    bundles[1].missing.push("spikes.jsonl is missing".into());
    let page = unescaped(&html(&bundles).unwrap());
    for bundle in &bundles {
        let verdict = evidence::Verdict::of(bundle);
        let manifest = &bundle.manifest;
        let taints = manifest
            .taints
            .iter()
            .flat_map(|taint| [Some(&taint.code), Some(&taint.reason), taint.cure.as_ref()]);
        let not_run = manifest.not_run.iter().flat_map(|row| [&row.load, &row.reason]);
        let said = verdict.reasons.iter().chain(taints.flatten()).chain(&manifest.notes);
        for text in said.chain(not_run).chain(&bundle.missing) {
            assert!(page.contains(text.as_str()), "{text}");
        }
    }
    assert!(page.contains("Does not hold 100 us"));
}

#[test]
fn every_row_is_in_the_table_as_measured_and_corrected() {
    let (_folder, bundles) = both();
    let page = html(&bundles[..1]).unwrap();
    let table = &page[page.find("<table class=\"figures\">").unwrap()..];
    let table = &table[..table.find("</table>").unwrap()];
    assert_eq!(table.matches("<th scope=\"row\">").count(), bundles[0].rows.len());
    let stalled = bundles[0].rows.iter().map(evidence::Summary::of).find(|row| row.missed > 0).unwrap();
    let corrected = stalled.over_limit_corrected.unwrap();
    assert!(corrected > stalled.over_limit);
    for cell in [stalled.over_limit, corrected] {
        assert!(table.contains(&format!("<td class=\"n\">{cell}</td>")), "{cell}");
    }
}

#[test]
fn late_loads_are_marked_by_words_and_hatching_and_not_by_colour_alone() {
    let (_folder, bundles) = both();
    let stock = html(&bundles[..1]).unwrap();
    assert!(stock.contains("✗ LATE") && stock.contains("url(#hatch)"));
    let isolated = html(&bundles[1..]).unwrap();
    assert!(!isolated.contains("✗ LATE</text>") && !isolated.contains("url(#hatch)"));
}

#[test]
fn a_day_on_twelve_cpus_stays_small() {
    let day = Plan::day().in_memory();
    assert_eq!(day.rows.iter().map(|row| row.series.seconds.len()).sum::<usize>(), 12 * 86_400);
    let page = html(std::slice::from_ref(&day)).unwrap();
    assert!(page.len() < BESIDE_ROWS + 12 * FOR_A_ROW, "{} bytes", page.len());
}

#[test]
fn a_page_grows_by_its_rows_only() {
    let many = Plan::many().in_memory();
    let page = html(std::slice::from_ref(&many)).unwrap();
    assert!(page.len() < BESIDE_ROWS + many.rows.len() * FOR_A_ROW, "{} bytes", page.len());
}

#[test]
fn the_same_evidence_makes_the_same_page() {
    let (_folder, bundles) = both();
    assert_eq!(html(&bundles).unwrap(), html(&bundles).unwrap());
}

#[test]
fn evidence_without_data_still_makes_a_page() {
    let mut empty = Plan { loads: Vec::new(), ..Plan::before() }.in_memory();
    empty.manifest.machine = machine::Snapshot::default();
    let page = html(&[empty]).unwrap();
    assert!(page.contains("nothing was measured") && page.contains("unknown"));

    let mut hollow = Plan { limit_ns: None, ..Plan::before() }.in_memory();
    hollow.rows.iter_mut().for_each(|row| row.series = evidence::Series::default());
    assert!(html(&[hollow]).unwrap().contains("not measured"));
}

#[test]
fn no_bundle_is_an_error_with_a_cure() {
    let error = html(&[]).unwrap_err().to_string();
    assert_eq!(error, "cannot make a report: no bundle was given; name at least one bundle");
}

fn unescaped(page: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#x2f;", "/"), ("&amp;", "&")];
    entities.iter().fold(page.to_string(), |page, (entity, plain)| page.replace(entity, plain))
}

fn around<'p>(page: &'p str, what: &str) -> &'p str {
    let place = page.find(what).unwrap_or(0);
    let from = (0..=place.saturating_sub(80)).rev().find(|n| page.is_char_boundary(*n)).unwrap_or(0);
    let to = (place + 80..page.len()).find(|n| page.is_char_boundary(*n)).unwrap_or(page.len());
    &page[from..to]
}
