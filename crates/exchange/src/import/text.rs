// SPDX-License-Identifier: MIT OR Apache-2.0
//! The front end that every importer goes through: bytes in, the tool's own lines out.
//!
//! [`read`] unpacks and decodes a file; [`plain`] takes off the rest: line ends of any system, byte order
//! marks, colours and cursor movements of a terminal, indentation, quoting and the time stamps of logs. A
//! line keeps its number unless the text redraws lines with a carriage return. What is left are lines without
//! a blank at either end. A last line without a line end stays so: the scanner tells whether it was cut.

use super::stamps::bare;
use super::unpack;

/// The plain text of a file's bytes; an error says why it has none.
pub fn read(bytes: Vec<u8>) -> Result<String, String> {
    unpack::text(bytes).map(|text| plain(&text))
}

/// The lines that the tool wrote, without what stands around them. Of a plain text it gives the same again.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = rest.find(['\n', '\r']) {
        plain.push_str(&line(&rest[..end]));
        plain.push('\n');
        // Serial consoles end a line with several carriage returns.
        let after = rest[end..].trim_start_matches('\r');
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    plain.push_str(&line(rest));
    plain
}

fn line(raw: &str) -> String {
    let shown = shown(raw);
    bare(shown.trim_start_matches('\u{feff}')).trim().to_string()
}

/// The visible text of a line on a terminal: no escape sequences, and plain blanks. A blank that may group
/// the digits of a number stays, so that no importer takes `100 000` for two numbers.
fn shown(raw: &str) -> String {
    let mut shown = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['\u{1b}', '\u{a0}', '\u{2007}', '\u{202f}', '\u{200b}', '\u{feff}']) {
        shown.push_str(&rest[..at]);
        let mut after = rest[at..].chars();
        rest = match after.next() {
            Some('\u{1b}') => after_escape(after.as_str()),
            Some('\u{200b}' | '\u{feff}') => after.as_str(),
            blank => {
                let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
                let groups = digit(shown.chars().next_back()) && digit(after.clone().next());
                shown.push(blank.filter(|_| groups).unwrap_or(' '));
                after.as_str()
            }
        };
    }
    shown.push_str(rest);
    shown
}

/// The rest after an escape sequence whose escape character is gone (ECMA-48).
fn after_escape(sequence: &str) -> &str {
    let mut characters = sequence.chars();
    match characters.next() {
        Some('[') => {
            let parameters = characters.as_str();
            let end = parameters.find(|c: char| ('@'..='~').contains(&c)).map(|end| end + 1);
            let rest = end.map_or("", |end| &parameters[end..]);
            // Jenkins hides a note to itself between "conceal" and "normal".
            match parameters.starts_with("8m") {
                true => rest.split_once("\u{1b}[0m").map_or("", |(_, rest)| rest),
                false => rest,
            }
        }
        Some(']') => {
            let title = characters.as_str();
            let end = title.find(['\u{7}', '\u{1b}']);
            end.map_or("", |end| title[end..].trim_start_matches(['\u{7}', '\u{1b}', '\\']))
        }
        Some('(' | ')') => {
            characters.next();
            characters.as_str()
        }
        _ => characters.as_str(),
    }
}

/// A plain text, and the last line where it has no line end and may be half of one. Editors, web pages and
/// shells take the last line end away, so a line that shows that it is whole counts as whole.
pub(super) fn split_cut(text: &str) -> (&str, Option<&str>) {
    let start = text.rfind('\n').map_or(0, |end| end + 1);
    let (before, last) = text.split_at(start);
    if last.is_empty() || is_whole(before, last) { (text, None) } else { (before, Some(last)) }
}

/// Whether a line holds nothing but figures, as rows of a table do. A line that is no row all the same holds
/// figures that cannot be read: negative ones, or digits in groups.
pub(super) fn is_row(line: &str) -> bool {
    let is_figure = |c: char| c.is_ascii_digit() || c.is_whitespace() || ".,:-'’_".contains(c);
    line.contains(|c: char| c.is_ascii_digit()) && line.chars().all(is_figure)
}

fn is_whole(before: &str, last: &str) -> bool {
    // A figure in percent is no prompt.
    let is_percent = last.strip_suffix('%').is_some_and(|last| last.ends_with(|c: char| c.is_ascii_digit()));
    let is_prompt = last.ends_with(['$', '#', '%', '>']) && !last.starts_with('#') && !is_percent;
    // oslat and rtla end some of their lines with the unit.
    let is_closed = ["(us)", "(sec)", "%)"].iter().any(|unit| last.ends_with(unit));
    let first = last.split_whitespace().next();
    let is_prose = !last.contains(|c: char| c == '#' || c.is_ascii_digit())
        && last.split_whitespace().nth(1).is_some()
        && before.lines().all(|line| line.split_whitespace().next() != first);
    is_prompt || is_closed || is_prose || fills_its_columns(before, last)
}

/// Whether the last line is padded to the columns of a line before it: half a number would end too early.
fn fills_its_columns(before: &str, last: &str) -> bool {
    let Some(start) = last.rfind([' ', '\t']) else { return false };
    let is_padded = last[..start].ends_with([' ', '\t', ':']) || last[start + 1..].starts_with('0');
    let columns = ends(last);
    is_padded && columns.len() > 1 && before.lines().any(|line| ends(line) == columns)
}

/// Where the words of a line end, from the end of its first one.
fn ends(line: &str) -> Vec<usize> {
    let starts = line.split_whitespace().map(|word| word.as_ptr() as usize + word.len());
    let ends = starts.collect::<Vec<_>>();
    ends.iter().map(|end| end - ends[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_off_line_ends_marks_and_colours() {
        for (raw, expected) in [
            ("\u{feff}a b\r\nc\r\n", "a b\nc\n"),
            ("a\r\r\nb\rc", "a\nb\nc"),
            ("\u{1b}[1;31ma\u{1b}[0m \u{1b}[2Kb\n\u{1b}[3Ac", "a b\nc"),
            ("\u{1b}[8mha:////4AAA\u{1b}[0mT: 0\n", "T: 0\n"),
            ("\u{1b}]0;title\u{7}a\u{1b}(Bb\n", "ab\n"),
            ("2024-01-01T00:00:00.0000000Z \u{feff}a\n", "a\n"),
            ("a\u{a0}b\n", "a b\n"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(raw), expected, "{raw:?}");
            assert_eq!(plain(&plain(raw)), expected, "{raw:?} again");
        }
    }

    #[test]
    fn keeps_digits_that_are_grouped_together() {
        for grouped in ["C: 100\u{202f}000", "C: 100\u{a0}000"] {
            assert_eq!(plain(grouped), grouped);
        }
    }

    #[test]
    fn a_last_line_that_shows_its_end_is_whole() {
        let table = "Index   IRQ-001   Thr-001\n0        600000    588000\navg:          1         7\n";
        for last in ["max:          7        18", "root@board:~#", "That is all", "Duration: 3.0 (sec)"] {
            assert_eq!(split_cut(&format!("{table}{last}")).1, None, "{last}");
        }
        for last in [
            "max:          7        1",
            "max:          7",
            "ma",
            "avg:  is",
            "# M",
            "12:34:5",
            "max: 7 (100%",
        ] {
            assert_eq!(split_cut(&format!("{table}{last}")).1, Some(last), "{last}");
        }
        let summary = "T: 0 ( 1449) P:80 C: 800368 Max:     128\n";
        assert_eq!(split_cut(&format!("{summary}T: 1 ( 1450) P:80 C: 800301 Max:      70")).1, None);
        assert!(split_cut(&format!("{summary}T: 1 ( 1450) P:80 C: 800301 Max:      7")).1.is_some());
    }
}
