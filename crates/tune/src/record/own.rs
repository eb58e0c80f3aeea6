// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our part of a file, so that it can be taken out of a file that another program has changed since.

use std::ops::Range;

use inspect::boot::bls::EntryFile;
use inspect::boot::extlinux::Extlinux;
use inspect::boot::grub::GrubEnvironment;
use machine::boot::line::without_words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The part of a file that is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "own")]
pub enum OwnPart {
    /// All of it: no other program writes it.
    Whole,
    /// Its lines; those that others add stay.
    Lines,
    /// All of it, and systemd-boot may have written the tries that are left into its name.
    Counted,
    /// Words of the first line.
    Line {
        /// The words.
        words: Vec<String>,
    },
    /// Words of the options of an entry.
    Options {
        /// The words.
        words: Vec<String>,
    },
    /// A label of extlinux.
    Label {
        /// Its name.
        name: String,
        /// The default before.
        default: Option<String>,
    },
    /// The lines from `BEGIN` to `END`, those included.
    Block,
    /// A variable of GRUB's block.
    Variable {
        /// Its name.
        name: String,
        /// Its value; another value is another program's.
        value: String,
    },
    /// Words of a variable of GRUB's block.
    VariableWords {
        /// Its name.
        name: String,
        /// The words.
        words: Vec<String>,
    },
}

/// Where the boot line stands in a file of one: the first line that is neither empty nor a comment, which
/// kernel-install skips; the first of all where there is none.
pub fn line_of(text: &str) -> Range<usize> {
    let mut at = 0;
    let lines = text.split('\n').map(|line| {
        let from = at;
        at += line.len() + 1;
        from..from + line.len()
    });
    let says = |range: &Range<usize>| {
        let line = text[range.clone()].trim_start();
        !line.is_empty() && !line.starts_with('#')
    };
    let mut lines = lines.peekable();
    let first = lines.peek().cloned().unwrap_or(0..0);
    lines.find(says).unwrap_or(first)
}

/// The first line of a block of ours in a file of another program.
pub const BEGIN: &str = "# isolator begin: made by `isolator tune`, which takes it away again";
/// Its last line.
pub const END: &str = "# isolator end";

impl OwnPart {
    /// `text` without what is ours, as we made `written` of `before`; none where the file is ours or
    /// another program's as a whole, and an error where it cannot be told what is ours.
    pub fn strip(&self, text: &str, before: &str, written: &str) -> Result<Option<String>, String> {
        Ok(match self {
            OwnPart::Whole | OwnPart::Counted => None,
            // What stood there before is theirs too.
            OwnPart::Lines => Some(without_lines(text, &without_lines(written, before))),
            OwnPart::Line { words } => {
                let line = line_of(text);
                let (before, after) = (&text[..line.start], &text[line.end..]);
                Some(format!("{before}{}{after}", without_words(&text[line], words)))
            }
            OwnPart::Options { words } => {
                let mut file = EntryFile::read(text);
                file.remove_options(words);
                Some(file.text())
            }
            OwnPart::Label { name, default } => {
                let mut file = Extlinux::read(text);
                let chosen = file.whole("DEFAULT") == Some(name.as_str());
                file.remove(name);
                if let Some(default) = default.as_deref().filter(|_| chosen) {
                    file.set_default(default);
                }
                Some(file.text())
            }
            OwnPart::Block => Some(without_block(text, written)?),
            OwnPart::Variable { name, value } => {
                let mut block = environment(text)?;
                // GRUB leaves the name of what it has cleared.
                if block.get(name).is_some_and(|now| now == value || now.is_empty()) {
                    block.set(name, None);
                }
                block.text()
            }
            OwnPart::VariableWords { name, words } => {
                let mut block = environment(text)?;
                if let Some(value) = block.get(name).map(|value| without_words(value, words)) {
                    block.set(name, Some(&value));
                }
                block.text()
            }
        })
    }
}

fn environment(text: &str) -> Result<GrubEnvironment, String> {
    GrubEnvironment::read(text).ok_or_else(|| "it is not a block of GRUB's variables any more".to_string())
}

/// `text` with `block` between our two lines at its end; one that was there goes, where it is whole.
pub fn with_block(text: &str, block: &str) -> String {
    let mut text = without_block(text, "").unwrap_or_else(|_| text.to_string());
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}{BEGIN}\n{}\n{END}\n", block.trim_end_matches('\n'))
}

/// `text` without our block. Where its last line is missing, what follows the first is ours only as far as it
/// is what we wrote: the rest is not ours.
fn without_block(text: &str, written: &str) -> Result<String, String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is = |line: &str, mark: &str| line.trim_end() == mark;
    let body: Vec<&str> = written
        .lines()
        .skip_while(|line| !is(line, BEGIN))
        .skip(1)
        .take_while(|line| !is(line, END))
        .collect();
    let mut kept = String::new();
    let mut at = 0;
    while at < lines.len() {
        if !is(lines[at], BEGIN) {
            kept.push_str(lines[at]);
            at += 1;
            continue;
        }
        let rest = &lines[at + 1..];
        let mark = rest.iter().position(|line| is(line, BEGIN) || is(line, END));
        if let Some(end) = mark.filter(|end| is(rest[*end], END)) {
            at += end + 2;
            continue;
        }
        let whole = !body.is_empty()
            && rest.len() >= body.len()
            && rest.iter().zip(&body).all(|(line, ours)| line.trim_end_matches(['\n', '\r']) == *ours);
        if !whole {
            return Err(format!(
                "the line `{END}` is missing after our lines: put it back behind them, or take our lines out"
            ));
        }
        at += 1 + body.len();
    }
    Ok(kept)
}

/// `text` with those of `lines` at its end that it has not yet.
pub(crate) fn with_lines(text: &str, lines: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let missing = lines.lines().filter(|line| !text.lines().any(|there| there == *line));
    let missing: String = missing.map(|line| format!("{line}\n")).collect();
    if missing.is_empty() { text.to_string() } else { format!("{text}{end}{missing}") }
}

/// `text` without the lines that are ours. The head of a section stays where a line of another stands in it.
fn without_lines(text: &str, ours: &str) -> String {
    let mut ours: Vec<&str> = ours.lines().collect();
    let mut kept = String::new();
    let mut head = None;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        let found = ours.iter().position(|own| *own == bare);
        if bare.starts_with('[') {
            head = found.is_some().then_some(line);
        }
        match found {
            Some(at) => drop(ours.remove(at)),
            None => {
                kept.push_str(head.take().unwrap_or_default());
                kept.push_str(line);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "A=1\nB=2";

    fn strip(text: &str) -> Result<String, String> {
        without_block(text, &with_block("x\n", BODY))
    }

    #[test]
    fn takes_a_block_and_leaves_what_stands_around_it() {
        let text = with_block("x\n", BODY);
        assert_eq!(strip(&text).unwrap(), "x\n");
        assert_eq!(strip(&format!("before\n{text}after\n")).unwrap(), "before\nx\nafter\n");
        assert_eq!(strip("x\n").unwrap(), "x\n");
        // Changed within, it is still ours between its two lines.
        assert_eq!(strip(&text.replace("A=1", "A=7")).unwrap(), "x\n");
    }

    #[test]
    fn without_its_last_line_only_what_we_wrote_goes() {
        let open = with_block("x\n", BODY).replace(&format!("{END}\n"), "");
        assert_eq!(strip(&format!("{open}TIMEOUT=7\n")).unwrap(), "x\nTIMEOUT=7\n");
        assert_eq!(strip(&open.replace('\n', "\r\n")).unwrap(), "x\r\n");
        for changed in ["A=7\nB=2\nTIMEOUT=7\n", "A=1\n", "", "A=1\nmine\nB=2\n"] {
            let error = strip(&format!("x\n{BEGIN}\n{changed}")).unwrap_err();
            assert!(error.contains("`# isolator end` is missing"), "{error}");
        }
        // One that is open does not reach to the end of the next.
        assert!(strip(&format!("{BEGIN}\nmine\n{}", with_block("", BODY))).is_err());
        assert_eq!(strip(&format!("{END}\nmine\n")).unwrap(), format!("{END}\nmine\n"));
    }

    #[test]
    fn lines_of_others_stay_in_a_file_of_ours() {
        let ours = "# ours\nA=1\n";
        assert_eq!(without_lines("# ours\nmine\nA=1\nmore\n", ours), "mine\nmore\n");
        assert_eq!(without_lines(ours, ours), "");
        assert_eq!(without_lines("A=1 mine\n", ours), "A=1 mine\n");
        let unit = "[Unit]\nA=1\n\n[Service]\nB=2\n";
        assert_eq!(without_lines("[Unit]\nA=1\n\n[Service]\nB=2\nNice=5\n", unit), "[Service]\nNice=5\n");
        assert_eq!(OwnPart::Lines.strip("mine\nA=1\n", "mine\n", "mine\nA=1\n"), Ok(Some("mine\n".into())));
    }

    #[test]
    fn adds_only_lines_that_are_missing() {
        assert_eq!(with_lines("", "A=1\n"), "A=1\n");
        assert_eq!(with_lines("mine", "A=1\nB=2\n"), "mine\nA=1\nB=2\n");
        assert_eq!(with_lines("A=1\nmine\n", "A=1\nB=2\n"), "A=1\nmine\nB=2\n");
        assert_eq!(with_lines("A=1\n", "A=1\n"), "A=1\n");
    }
}
