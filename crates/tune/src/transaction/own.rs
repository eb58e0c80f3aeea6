// SPDX-License-Identifier: MIT OR Apache-2.0
//! What in a file is ours, so that it can be taken out of a file that somebody else has changed since.

use machine::boot::bls::EntryFile;
use machine::boot::extlinux::Extlinux;
use machine::boot::grub::Environment;
use machine::boot::line::without_words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What in a file is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "own")]
pub enum Own {
    /// All of it: nobody else writes it.
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
    /// What stands between the lines [`BEGIN`] and [`END`], those included.
    Block,
    /// A variable of GRUB's block.
    Variable {
        /// Its name.
        name: String,
        /// Its value; another value is somebody else's.
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

/// The first line of a block of ours in a file of somebody else.
pub const BEGIN: &str = "# isolator begin: made by `isolator tune`, which takes it away again";
/// Its last line.
pub const END: &str = "# isolator end";

impl Own {
    /// `text` without what is ours, as we wrote it in `written`; none where the file is ours or somebody's as a whole, and
    /// an error where it cannot be told what is ours.
    pub fn strip(&self, text: &str, written: &str) -> Result<Option<String>, String> {
        Ok(match self {
            Own::Whole | Own::Counted => None,
            Own::Lines => Some(without_lines(text, written)),
            Own::Line { words } => {
                let (first, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
                Some(without_words(first, words) + rest)
            }
            Own::Options { words } => {
                let mut file = EntryFile::read(text);
                file.remove_options(words);
                Some(file.text())
            }
            Own::Label { name, default } => {
                let mut file = Extlinux::read(text);
                let chosen = file.head("DEFAULT") == Some(name.as_str());
                file.remove(name);
                if let Some(default) = default.as_deref().filter(|_| chosen) {
                    file.set_default(default);
                }
                Some(file.text())
            }
            Own::Block => Some(without_block(text, written)?),
            Own::Variable { name, value } => {
                let mut block = environment(text)?;
                // GRUB leaves the name of what it has cleared.
                if block.get(name).is_some_and(|now| now == value || now.is_empty()) {
                    block.set(name, None);
                }
                block.text()
            }
            Own::VariableWords { name, words } => {
                let mut block = environment(text)?;
                if let Some(value) = block.get(name).map(|value| without_words(value, words)) {
                    block.set(name, Some(&value));
                }
                block.text()
            }
        })
    }
}

fn environment(text: &str) -> Result<Environment, String> {
    Environment::read(text).ok_or_else(|| "it is no block of GRUB's variables any more".to_string())
}

/// `text` with `block` between our two lines at its end; one that was there goes, where it is whole.
pub fn with_block(text: &str, block: &str) -> String {
    let mut text = without_block(text, "").unwrap_or_else(|_| text.to_string());
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}{BEGIN}\n{}\n{END}\n", block.trim_end_matches('\n'))
}

/// `text` without our block. Where its last line is missing, what follows the first is ours only as far as it is what we
/// wrote: the rest is somebody's.
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

/// `text` without the lines of `written`. The head of a section stays where a line of somebody else stands in it.
fn without_lines(text: &str, written: &str) -> String {
    let mut ours: Vec<&str> = written.lines().collect();
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
