// SPDX-License-Identifier: MIT OR Apache-2.0
//! Foreign text on its way to a reader: one escape for each place where it is shown.
//!
//! Names of loads, tasks, machines and files come from elsewhere. Shown as they are, they can move a
//! terminal's cursor, set its title, reverse what stands beside them, or become a formula, a tag or a label
//! of their own.
//!
//! | shown in | escape |
//! |---|---|
//! | a cell or a word of a text for people | [`clean`] |
//! | a line (an error, progress) | [`line()`] |
//! | a whole screen, which has colours of our own | [`screen`] |
//! | JSON | [`json`] |
//! | CSV | [`csv`] |
//! | an attribute or text of XML or HTML | [`xml`] |
//! | a label of Prometheus' text format | [`label`] |

use std::borrow::Cow;

/// Stands in place of a control character.
pub const REPLACEMENT: char = '\u{fffd}';

/// Whether `c` steers what shows it, or shows nothing: control characters (C0, DEL, C1), bidirectional marks
/// and overrides, characters of no width, separators of lines, and tags.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// `text` for people, each character that [`steers`] made visible: line breaks too.
pub fn clean(text: &str) -> Cow<'_, str> {
    replaced(text, steers, |_| REPLACEMENT)
}

/// `text` as one line: breaks and tabs become spaces, else as [`clean`].
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, steers, |c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { REPLACEMENT })
}

/// `text` of several lines for a terminal or a file. Line breaks and tabs stay, and where `coloured` says so
/// the sequences that set colour and weight; nothing else that [`steers`] passes.
pub fn screen(text: &str, coloured: bool) -> Cow<'_, str> {
    if !text.chars().any(|c| steers(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let style = if coloured { style(rest) } else { "" };
        let length = if style.is_empty() { c.len_utf8() } else { style.len() };
        match c {
            _ if !style.is_empty() => out.push_str(style),
            '\n' | '\t' => out.push(c),
            c if steers(c) => out.push(REPLACEMENT),
            c => out.push(c),
        }
        rest = &rest[length..];
    }
    Cow::Owned(out)
}

/// The sequence at the beginning of `text` that sets colour and weight (`ESC [ 1 ; 31 m`); empty where there
/// is none, and where it would hide what follows.
fn style(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return "" };
    let Some(end) = rest.find('m').filter(|end| *end <= 16) else { return "" };
    let known = |code: &str| matches!(code.parse(), Ok(0..=4 | 7 | 30..=37 | 40..=47 | 90..=97 | 100..=107));
    if rest[..end].split(';').all(known) { &text[..end + 3] } else { "" }
}

/// `json` with every character that [`steers`] and that JSON does not ask to escape (DEL, C1, directions)
/// escaped: the same document, which a terminal shows as it is.
pub fn json(json: &str) -> Cow<'_, str> {
    let raw = |c: char| steers(c) && c != '\n';
    if !json.chars().any(raw) {
        return Cow::Borrowed(json);
    }
    let (mut out, mut units) = (String::with_capacity(json.len() + 64), [0; 2]);
    for c in json.chars() {
        if raw(c) {
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// `text` as a cell of a CSV file. What a spreadsheet would take for a formula begins with an apostrophe.
pub fn csv(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let cell = format!("{}{}", if formula { "'" } else { "" }, clean(text));
    if cell.contains([',', ';', '"', '\'', '|']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

/// `text` as text or as an attribute of XML or HTML. XML 1.0 has no place for control characters, not even
/// escaped.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// `text` as the value of a label in Prometheus' text format.
pub fn label(text: &str) -> String {
    screen(text, false).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn replaced(text: &str, which: impl Fn(char) -> bool, by: impl Fn(char) -> char) -> Cow<'_, str> {
    if !text.chars().any(&which) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if which(c) { by(c) } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A title, a colour, a C1 sequence, an override, no width, a line of its own, and a tag.
    const HOSTILE: &str = "a\u{1b}]0;T\u{7}\u{1b}[31m\u{9b}2Jb\u{202e}c\u{200b}\u{7f}\r\nd\u{e0041}\u{2028}";

    proptest! {
        #[test]
        fn no_escape_lets_a_steering_character_pass(text in any::<String>()) {
            let text = format!("{text}{HOSTILE}{text}");
            for shown in [clean(&text), line(&text), csv(&text).into(), xml(&text).into()] {
                prop_assert!(!shown.chars().any(steers), "{shown:?}");
            }
            prop_assert!(!screen(&text, false).chars().any(|c| steers(c) && !matches!(c, '\n' | '\t')));
            let coloured = screen(&text, true).replace("\u{1b}[31m", "");
            prop_assert_eq!(coloured.find('\u{1b}'), None);
            prop_assert_eq!(screen(&text, false).lines().count(), text.lines().count());
        }
    }

    #[test]
    fn a_screen_keeps_colours_and_drops_what_moves_or_hides() {
        let text = "\u{1b}[1;31mbad\u{1b}[0m\n\u{1b}[8mhidden\u{1b}[2J\u{1b}[31";
        let kept = "\u{1b}[1;31mbad\u{1b}[0m\n\u{fffd}[8mhidden\u{fffd}[2J\u{fffd}[31";
        assert_eq!(screen(text, true), kept);
        assert_eq!(screen("\u{1b}[1mx", false), "\u{fffd}[1mx");
        assert!(matches!(screen("plain äö\n", true), Cow::Borrowed(_)));
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(line("a\r\n\tb\u{1b}c"), "a   b\u{fffd}c");
    }

    #[test]
    fn json_stays_the_same_document() {
        let text = json("\"\u{9b}31m\u{202e}\u{e0041}\u{7f}ä\"");
        assert_eq!(text, "\"\\u009b31m\\u202e\\udb40\\udc41\\u007fä\"");
    }

    #[test]
    fn cells_are_no_formulas() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"] {
            let cell = csv(formula);
            assert!(cell.trim_start_matches('"').starts_with('\''), "{cell}");
        }
        assert_eq!(csv("=HYPERLINK(\"http://x\",\"y\")"), "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"");
        assert_eq!((csv("idle").as_str(), csv("a,b").as_str()), ("idle", "\"a,b\""));
    }

    #[test]
    fn text_cannot_break_out_of_its_attribute() {
        assert_eq!(xml("a\"b<c>&d'\u{1b}\n"), "a&quot;b&lt;c&gt;&amp;d&#39;\u{fffd}\u{fffd}");
        assert_eq!(label("a\"b\\\n"), "a\\\"b\\\\\\n");
    }
}
