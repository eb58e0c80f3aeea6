// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demands on every page: whole, harmless, small, and the same for the same evidence.

use crate::common::{Plan, lab};
use base64::Engine;
use evidence::cause::{Cause, CauseKind};
use report::html;
use sha2::Digest;

/// Bytes of a page, however long the run was.
const LARGEST: usize = 2_600_000;

/// The most bytes of a page beside its rows, of which its styles and its script are a third, and for each of
/// them: twelve CPUs under twelve loads then stay below [`LARGEST`].
const BESIDE_ROWS: usize = 110_000;
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
    assert_eq!(page.matches("<script").count(), 1, "but for the page's own: {}", around(&page, "<script"));
    assert!(!page.contains("<b>7</b>"), "{}", around(&page, "<b>7</b>"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn nothing_is_fetched_and_one_script_runs() {
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
    let space = "http://www.w3.org/2000/svg";
    let page = page.replacen(space, "", 1);
    let other =
        ["http:", "https:", "<link", "<iframe", " onload", "javascript:", "fetch(", "XMLHttp", "import("];
    for forbidden in other.iter().chain(&["WebSocket", "sendBeacon", "localStorage", "innerHTML", "eval("]) {
        assert!(!page.contains(forbidden), "{}", around(&page, forbidden));
    }
    let script = page.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
    let script = script.replacen("NS = \"\"", &format!("NS = \"{space}\""), 1);
    let digest = base64::prelude::BASE64_STANDARD.encode(sha2::Sha256::digest(script));
    let policy =
        format!("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'");
    assert!(plain.contains(&policy), "{}", around(&plain, "default-src"));
}

#[test]
fn every_reason_taint_note_and_lack_is_shown() {
    let (_folder, mut bundles) = both();
    bundles[1].missing.push("spikes.jsonl is missing".into());
    let page = in_one_form(&unescaped(&html(&bundles).unwrap()));
    for bundle in &bundles {
        let verdict = evidence::Verdict::of(bundle);
        let manifest = &bundle.manifest;
        let taints = manifest
            .taints
            .iter()
            .flat_map(|taint| [Some(&taint.code), Some(&taint.reason), taint.cure.as_ref()]);
        let not_run = manifest.not_run.iter().flat_map(|row| [&row.load, &row.reason]);
        let (taints, notes) =
            (taints.flatten().map(String::as_str), manifest.notes.iter().map(String::as_str));
        let said = verdict.reasons.iter().map(|reason| &**reason).chain(taints).chain(notes);
        let (not_run, missing) = (not_run.map(String::as_str), bundle.missing.iter().map(String::as_str));
        for text in said.chain(not_run).chain(missing) {
            assert!(page.contains(&in_one_form(text)), "{text}");
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
    assert_eq!(table.matches("<th scope=\"row\"").count(), bundles[0].rows.len());
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
    assert!(stock.contains("✗ LATE</span>") && stock.contains("url(#hatch)"));
    let isolated = html(&bundles[1..]).unwrap();
    assert!(!isolated.contains("✗ LATE</span>") && !isolated.contains("url(#hatch)"));
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

/// The element that begins with `start`, without what follows its end.
fn part<'p>(page: &'p str, start: &str, end: &str) -> &'p str {
    let from = page.find(start).unwrap_or_else(|| panic!("no {start}"));
    &page[from..from + page[from..].find(end).unwrap()]
}

#[test]
fn the_card_states_verdict_machine_claim_and_limits() {
    let (_folder, bundles) = both();
    let page = unescaped(&html(&bundles[..1]).unwrap());
    let card = part(&page, "<article class=\"card late", "</article>");
    for said in [
        "Does not hold 100 µs",
        "In the worst row 0.013 % of cycles were late, in 3 episodes",
        "<dt>Limit</dt><dd><b>100 µs</b>",
        "<dt>Machine</dt><dd>bench-<b>7</b> · Example Processor E-2278GE at 3.30 GHz · 12 CPUs</dd>",
        "<dt>Kernel</dt><dd>6.18.3 · voluntary (PREEMPT_VOLUNTARY)</dd>",
        "<dt>Date</dt><dd>2026-03-01 10:00 UTC",
        "<dt>Load</dt><dd>idle, cpu, io, custom=stress-ng --vm 2 && <script>alert(1)</script></dd>",
        "wakeup every 1 ms; spin on cpu 2 · fifo 80",
        "Why not more",
    ] {
        assert!(card.contains(said), "{said}\n{card}");
    }
}

#[test]
fn a_verdict_that_holds_says_what_was_accepted_and_what_it_rests_on() {
    let mut held = Plan { noise: 0.1, spin: false, loads: vec!["idle"], ..Plan::after() }.in_memory();
    assert!(unescaped(&html(std::slice::from_ref(&held)).unwrap()).contains("<article class=\"card ok\">"));
    let taint = evidence::Taint::new(
        evidence::taint::NOT_REAL_TIME_KERNEL,
        "the kernel is not PREEMPT_RT",
        "boot one",
    );
    held.manifest.taints.push(evidence::Taint { accepted: true, ..taint });
    let page = html(&[held]).unwrap();
    let card = part(&page, "<article class=\"card ok narrowed\">", "</article>");
    for said in [
        "<p class=\"but\">with 1 taint accepted</p>",
        "No cycle was late. In each row fewer than 3 late episodes in 1 min are to be expected (95 % confidence for all rows \
         together), on this machine",
        "accepted taint not-real-time-kernel: the kernel is not PREEMPT_RT",
        "an episode ends after 6 s without a late cycle; 60,060 cycles in the shortest row bound the rate of their begins \
         below 1 in 20,020; 1 in 1,000 was asked for",
        "a run is no proof of a worst case",
    ] {
        assert!(card.contains(said), "{said}\n{card}");
    }
}

#[test]
fn nothing_that_is_empty_has_a_section() {
    let quiet = Plan { noise: 0.1, spin: false, loads: vec!["idle"], tainted: false, ..Plan::after() };
    let mut quiet = quiet.in_memory();
    quiet.manifest.notes.clear();
    let row = &mut quiet.rows[0];
    row.series.seconds.clear();
    row.series.persistence = Default::default();
    (row.series.early, row.series.late) = Default::default();
    quiet.rows.truncate(1);
    quiet.manifest.rows.truncate(1);
    let page = html(&[quiet]).unwrap();
    for id in ["time", "jitter", "persistence", "spikes", "why", "missing", "responses"] {
        assert!(!page.contains(&format!("id=\"{id}\"")) && !page.contains(&format!("#{id}\"")), "{id}");
    }
    for id in ["maxima", "figures", "histograms", "machine", "asked", "claims"] {
        assert!(
            page.contains(&format!("<section id=\"{id}\"")) && page.contains(&format!("#{id}\"")),
            "{id}"
        );
    }
    let mut bare = lab::stock();
    let document = lab::of(&mut bare);
    (document.storms, document.loads, document.witness) = Default::default();
    let page = html(&[bare]).unwrap();
    assert!(!page.contains("id=\"storms\"") && !page.contains("id=\"witness\""));
}

#[test]
fn a_comparison_shows_each_change_with_interval_word_and_sign() {
    let (_folder, bundles) = both();
    let [before, after] = <[evidence::Bundle; 2]>::try_from(bundles).unwrap();
    let better = compare::compare(&before, &after, true);
    let page = report::compared(&[before.clone(), after.clone()], &better).unwrap();
    let heading = part(&page, "<h1", "</h1>");
    assert!(heading.contains("Before: does not hold 100 µs; after: "), "{heading}");
    let table = part(&page, "<table class=\"change-table\">", "</table>");
    assert_eq!(table.matches("<th scope=\"row\">").count(), better.rows.len());
    assert_eq!(table.matches("<tbody").count() * 6, better.rows.len());
    let with = better.rows.iter().filter(|row| row.interval_percent.is_some()).count();
    assert_eq!(table.matches("<line class=\"span\"").count(), with);
    let judged = |word: &str| {
        let is_so = |row: &&compare::Change| match (word, row.interval_percent) {
            ("better", Some([_, high])) => high < 0.0,
            ("worse", Some([low, _])) => low > 0.0,
            _ => false,
        };
        better.rows.iter().filter(is_so).count()
    };
    for (word, sign) in [("better", "▼"), ("worse", "▲")] {
        let said = format!("<span aria-hidden=\"true\">{sign}</span> {word}</td>");
        assert_eq!(table.matches(&said).count(), judged(word), "{word}");
    }
    assert!(judged("better") > 0);
    let overlaid = part(&page, "<section id=\"overlaid\">", "</section>");
    let rows = before.rows.len();
    for class in ["line before", "line after"] {
        assert_eq!(overlaid.matches(class).count(), rows, "{class}");
    }
    let alike =
        report::compared(&[before.clone(), before.clone()], &compare::compare(&before, &before, true));
    let alike = alike.unwrap();
    let alike = part(&alike, "<section id=\"change\">", "</section>");
    assert!(
        !alike.contains("> better</td>")
            && !alike.contains("> worse</td>")
            && alike.contains("no clear change")
    );
}

#[test]
fn a_spike_is_one_line_that_folds_out() {
    let (_folder, bundles) = both();
    let page = unescaped(&html(&bundles[..1]).unwrap());
    let list = part(&page, "<section id=\"spikes\">", "</section>");
    let lines = list.matches("<details class=\"fold\"><summary>").count();
    assert_eq!(lines, bundles[0].spikes.len().min(20));
    assert!(list.contains("kernel thread kworker/3:1H <span class=\"soft\">90&nbsp;%</span>"), "{list}");
    assert!(list.contains("<svg class=\"timeline\"") && !list.contains(" open"));
}

#[test]
fn jitter_is_drawn_with_its_sign() {
    let (_folder, bundles) = both();
    let page = html(&bundles[..1]).unwrap();
    let section = part(&page, "<section id=\"jitter\">", "</section>");
    let summary = evidence::Summary::of(&bundles[0].rows[0]);
    assert!(summary.jitter_min_ns.unwrap() < 0 && summary.jitter_max_ns.unwrap() > 0);
    assert!(
        section.contains("idle: −") && section.contains(" to +") && section.contains("standard deviation")
    );
    let rows = bundles[0].rows.iter().filter(|row| row.series.late.count() > 0).count();
    assert_eq!(section.matches("class=\"line filled").count(), rows);
    assert!(section.contains(">−") && section.contains(">+") && section.contains(">0</text>"));
}

#[test]
fn what_the_script_tells_is_what_was_drawn() {
    let (_folder, bundles) = both();
    let page = html(&bundles[..1]).unwrap();
    let section = part(&page, "<section id=\"histograms\">", "</section>");
    let told = |values: &str| -> u64 {
        values.split('"').next().unwrap().split(',').filter_map(|value| value.parse::<u64>().ok()).sum()
    };
    let mut told: Vec<u64> = section.split("data-v=\"").skip(1).map(told).collect();
    let mut counted: Vec<u64> = bundles[0].rows.iter().map(|row| row.series.latency.count()).collect();
    told.sort_unstable();
    counted.sort_unstable();
    assert_eq!(told, counted, "every sample is counted");
}

#[test]
fn no_bundle_is_an_error_with_a_cure() {
    let error = html(&[]).unwrap_err().to_string();
    assert_eq!(error, "cannot make a report: no bundle was given; name at least one bundle");
}

/// Without what the page writes otherwise: the sign of a microsecond, and commas within figures.
fn in_one_form(text: &str) -> String {
    let mut before = ' ';
    let mut kept = text.chars().peekable();
    let mut out = String::new();
    while let Some(one) = kept.next() {
        let within = before.is_ascii_digit() && kept.peek().is_some_and(char::is_ascii_digit);
        if !(one == ',' && within) {
            out.push(one);
        }
        before = one;
    }
    out.replace('µ', "u")
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
