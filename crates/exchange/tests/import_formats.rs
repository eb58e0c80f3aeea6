// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that hold for every format: each is tried on every fixture, and none names a tool.

use std::fs;

use evidence::{Bundle, Verdict};
use exchange::import::text::plain;
use exchange::import::{FormatQuestion, ImportFormat, import, parse, set_limit};

use crate::common::{self, figures, maxima_ns, read};

/// A figure that is worse than all of the fixtures, with the digits of a nanosecond.
const WORSE_US: &str = "7777777.77";
const WORSE_NS: u64 = 7_777_777_770;

struct Fixture {
    name: String,
    text: String,
    format: ImportFormat,
    whole: Bundle,
}

/// All fixtures, read.
fn fixtures() -> Vec<Fixture> {
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        Fixture { name, format: ImportFormat::of(&text).unwrap(), whole: read(&text), text }
    };
    common::fixtures().iter().map(read).collect()
}

fn worst_ns(bundle: &Bundle) -> u64 {
    maxima_ns(bundle).into_iter().max().unwrap_or(0)
}

/// A line that fits a pattern.
fn line(pattern: &str) -> String {
    let units = WORSE_US.split('.').next().unwrap();
    let named = [("{us}", WORSE_US), ("{units}", units), ("{cpu}", "1"), ("{tid}", "4242"), ("{some}", "12")];
    named.iter().fold(pattern.replace("{}", "12"), |line, (name, value)| line.replace(name, value))
}

/// The text with a line put in, at some of all places: first of all at its end, last before its first line.
fn with_line(fixture: &Fixture, line: &str) -> Vec<String> {
    let text = &fixture.text;
    let mut places = vec![text.len()];
    if !text.starts_with(['{', '<']) {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1).collect::<Vec<_>>();
        places.extend(ends.iter().rev().step_by(ends.len() / 4 + 1));
    }
    places.push(0);
    let put = |at: usize| {
        let gap = if at > 0 && !text[..at].ends_with('\n') { "\n" } else { "" };
        format!("{}{gap}{line}\n{}", &text[..at], &text[at..])
    };
    places.into_iter().map(put).collect()
}

/// Whether a text may have lines beside the tool's result: XML is one element.
fn has_lines(fixture: &Fixture) -> bool {
    !fixture.text.starts_with('<')
}

#[test]
fn every_format_has_a_fixture_and_answers() {
    let fixtures = fixtures();
    for format in ImportFormat::ALL {
        assert!(fixtures.iter().any(|fixture| fixture.format == format), "{}", format.name());
        for question in FormatQuestion::ALL {
            let (lines, reason) = format.answer(question);
            let is_told = reason.is_some_and(|reason| !reason.is_empty()) || !lines.is_empty();
            assert!(is_told, "{}: {question:?}", format.name());
        }
    }
}

#[test]
fn a_stated_worse_value_is_never_lost() {
    for fixture in fixtures() {
        let (patterns, _) = fixture.format.answer(FormatQuestion::Worse);
        for pattern in
            patterns.iter().filter(|pattern| pattern.contains("{us}") || pattern.contains("{units}"))
        {
            for (n, text) in with_line(&fixture, &line(pattern)).iter().enumerate() {
                let name = format!("{}, {pattern}, place {n}", fixture.name);
                let bundle = match parse(text, None) {
                    Ok(bundle) => bundle,
                    Err(why) => {
                        assert!(n > 0, "{name}: {why}");
                        continue;
                    }
                };
                // A text in nanoseconds states units of those.
                let unit_ns = bundle.rows.iter().filter_map(|row| row.entry.coarse.as_ref());
                let unit_ns = unit_ns.map(|coarse| coarse.unit_ns).min().unwrap();
                let units = WORSE_NS / 1_000 * unit_ns;
                let wanted = match (pattern.contains("{us}"), unit_ns) {
                    (true, _) => WORSE_NS,
                    (false, 1) => units,
                    (false, _) => units / 1_000 * 1_000,
                };
                assert!(worst_ns(&bundle) >= wanted, "{name}: {} of {wanted}", worst_ns(&bundle));
            }
        }
    }
}

#[test]
fn a_loss_failure_or_doubt_always_taints() {
    const DEATH: &str = "Segmentation fault (core dumped)";
    for fixture in fixtures().iter().filter(|fixture| has_lines(fixture)) {
        let said = |question| fixture.format.answer(question).0;
        let failed = [said(FormatQuestion::Aborts), said(FormatQuestion::Doubts), vec![DEATH]].concat();
        let lost = said(FormatQuestion::Losses).into_iter().map(|pattern| (pattern, "samples-lost"));
        for (pattern, code) in failed.into_iter().map(|pattern| (pattern, "tool-failed")).chain(lost) {
            for (n, text) in with_line(fixture, &line(pattern)).iter().enumerate() {
                let name = format!("{}, {pattern}, place {n}", fixture.name);
                let mut bundle = match parse(text, None) {
                    Ok(bundle) => bundle,
                    Err(why) => {
                        assert!(n > 0, "{name}: {why}");
                        continue;
                    }
                };
                assert_eq!(figures(&bundle), figures(&fixture.whole), "{name}");
                let codes = bundle.manifest.taints.iter().map(|taint| taint.code.as_str());
                assert!(codes.into_iter().any(|known| known == code), "{name}");
                set_limit(&mut bundle, Some(1_000_000_000_000));
                assert!(!Verdict::of(&bundle).held, "{name}");
            }
        }
    }
}

#[test]
fn a_cut_file_is_never_better_in_silence() {
    let mut better = Vec::new();
    for fixture in fixtures() {
        let text = &fixture.text;
        let spread = (0..30).map(|part| text.len() * part / 30);
        for end in spread.chain(text.len().saturating_sub(50)..text.len()) {
            let Some(Ok(bundle)) = text.get(..end).map(|cut| parse(cut, None)) else { continue };
            let is_better = |whole: &evidence::Row| {
                let same = bundle.rows.iter().find(|row| row.entry.key == whole.entry.key);
                same.is_none_or(|row| row.series.latency.max_ns() < whole.series.latency.max_ns())
            };
            let says_more = bundle.missing.iter().any(|what| !fixture.whole.missing.contains(what))
                || bundle.manifest.not_run.len() > fixture.whole.manifest.not_run.len();
            let shown = plain(&text[..end]);
            let last = shown.rsplit('\n').next().unwrap_or_default();
            let has_figure = last.contains(|c: char| c.is_ascii_digit());
            let is_at_line = !has_figure || text[end..].starts_with('\n');
            // Of a text without an end every part is one: each says so.
            let notes = &bundle.manifest.notes;
            let is_unmarked = is_at_line && notes.iter().any(|note| note.contains("whole cannot be told"));
            if !says_more && !is_unmarked && fixture.whole.rows.iter().any(is_better) {
                better.push((fixture.name.clone(), end, text[end.saturating_sub(40)..end].to_string()));
            }
        }
    }
    assert!(better.is_empty(), "{better:#?}");
}

#[test]
fn two_runs_are_refused_or_the_same() {
    for fixture in fixtures() {
        match parse(&fixture.text.repeat(2), None) {
            Ok(twice) => assert_eq!(figures(&twice), figures(&fixture.whole), "{}", fixture.name),
            Err(why) => {
                let is_told =
                    why.contains("more than one run") || !has_lines(&fixture) || why.contains("too late");
                assert!(is_told, "{}: {why}", fixture.name);
            }
        }
    }
}

#[test]
fn surroundings_of_the_lines_change_no_figure() {
    for fixture in fixtures() {
        let (name, text) = (&fixture.name, &fixture.text);
        let each = |before: &str| text.lines().map(|line| format!("{before}{line}\n")).collect::<String>();
        let mut shapes = vec![
            text.replace('\n', "\r\n"),
            text.replace('\n', "\r"),
            format!("\u{feff}{text}"),
            each("    "),
            each("> "),
            each("\t>> > "),
            each("2024-01-01T00:00:00.0000000Z "),
            each("2024-05-22T12:43:46.962646Z 00O "),
            each("[2024-01-01T00:00:00.000Z] "),
            each("Nov 25 08:49:29 board tool[123]: "),
            each("2026-11-25T08:49:29+0100 board tool[123]: "),
            each("<8>[   12.345678] "),
            each("\u{1b}[32m"),
            each("\u{1b}[2K\u{1b}[3A"),
        ];
        if has_lines(&fixture) {
            shapes.push(format!("root@board:~# run\n{text}\nroot@board:~# "));
        }
        for shape in shapes {
            let bundle = parse(&shape, None).unwrap_or_else(|why| panic!("{name}: {why}: {}", &shape[..60]));
            assert_eq!(figures(&bundle), figures(&fixture.whole), "{name}: {:?}", &shape[..60]);
        }
        // Editors take the last line end away.
        let Ok(bundle) = parse(text.trim_end(), None) else { continue };
        let is_told = bundle.missing.len() > fixture.whole.missing.len();
        assert!(is_told || figures(&bundle) == figures(&fixture.whole), "{name}");
    }
}

#[test]
fn files_in_utf16_have_the_same_figures() {
    let folder = tempfile::tempdir().unwrap();
    for fixture in fixtures() {
        for (mark, order) in [
            (&[0xff, 0xfe][..], u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (&[0xfe, 0xff], u16::to_be_bytes),
            (&[], u16::to_le_bytes),
        ] {
            let path = folder.path().join(&fixture.name);
            let bytes = fixture.text.encode_utf16().flat_map(order).collect::<Vec<_>>();
            fs::write(&path, [mark, &bytes].concat()).unwrap();
            let bundle = import(&path).unwrap_or_else(|why| panic!("{}: {why}", fixture.name));
            assert_eq!(figures(&bundle), figures(&fixture.whole), "{}", fixture.name);
        }
    }
}

#[test]
fn a_thread_that_never_ran_yet_has_no_figures() {
    let text = "T: 0 ( 7087) P:80 C:      0 Min:1000000 Act:    0 Avg:    0 Max:-1000000\n\
                \u{1b}[3AT: 0 ( 7087) P:80 C:     48 Min:      6 Act:    7 Avg:   12 Max:     165\n";
    let row = &figures(&read(text))[0];
    assert_eq!((row.count, row.min_ns, row.max_ns), (48, Some(6_000), 165_000));
    let never = text.lines().next().unwrap().to_string() + "\n";
    assert_eq!(read(&never).manifest.not_run.len(), 1);
}

#[test]
fn the_break_value_is_of_its_thread() {
    let thread = |number: u32, max: u32| {
        format!("T: {number} (20441{number}) I:1000 C: 36218 Min: 1 Act: 11 Avg: 6 Max: {max}\n")
    };
    let text = format!("{}{}# Break thread: 204411\n# Break value: 51\n", thread(0, 33), thread(1, 13));
    assert_eq!(maxima_ns(&read(&text)), [33_000, 51_000]);
}

#[test]
fn totals_of_all_rows_count_where_they_are_worse() {
    let top = "x IRQ Timer Latency (us) | Thread Timer Latency (us)\nCPU COUNT | cur | cur\n\
               2 #601003 | 1 0 1 13 | 6 2 6 24\nALL #120200 e1 | 0 1 13 | 2 6 99\n";
    let bundle = read(top);
    assert_eq!(worst_ns(&bundle), 99_000);
    assert_eq!(bundle.missing.len(), 1);
}
