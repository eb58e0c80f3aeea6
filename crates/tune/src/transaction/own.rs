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
    /// `text` without what is ours; none where the file as a whole is, or where it cannot be read.
    pub fn strip(&self, text: &str) -> Option<String> {
        match self {
            Own::Whole | Own::Counted => None,
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
            Own::Block => Some(without_block(text)),
            Own::Variable { name, value } => {
                let mut block = Environment::read(text)?;
                // GRUB leaves the name of what it has cleared.
                if block.get(name).is_some_and(|now| now == value || now.is_empty()) {
                    block.set(name, None);
                }
                block.text()
            }
            Own::VariableWords { name, words } => {
                let mut block = Environment::read(text)?;
                let value = without_words(block.get(name)?, words);
                block.set(name, Some(&value));
                block.text()
            }
        }
    }
}

/// `text` with `block` between our two lines at its end; one that was there goes.
pub fn with_block(text: &str, block: &str) -> String {
    let mut text = without_block(text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}{BEGIN}\n{}\n{END}\n", block.trim_end_matches('\n'))
}

fn without_block(text: &str) -> String {
    let mut kept = String::new();
    let mut ours = false;
    for line in text.split_inclusive('\n') {
        ours |= line.trim_end() == BEGIN;
        if !ours {
            kept.push_str(line);
        }
        ours &= line.trim_end() != END;
    }
    kept
}
