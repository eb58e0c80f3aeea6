// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of GRUB's generator with our drop-in: its files are read in the order of their names, and one
//! that comes later may set the line anew.

use inspect::boot::Variables;
use machine::boot::line::kernel_words;

use crate::system::{self, System};

/// The variable that ordinary entries get.
pub(crate) const VARIABLE: &str = "GRUB_CMDLINE_LINUX_DEFAULT";
const FILE: &str = "/etc/default/grub";
const FOLDER: &str = "/etc/default/grub.d";

/// Why words of ours would not last, as far as files tell.
pub(crate) enum LossReason {
    /// This file is read after our drop-in and sets the line anew.
    SetAnew(String),
    /// The value in this file goes over more than one line, which no boot line can.
    Lines(String),
}

/// The file that takes away the words that `drop_in` adds; none where they stay.
pub(crate) fn lost(system: &dyn System, drop_in: &str, words: &[String]) -> Option<LossReason> {
    let mut files: Vec<String> = system.names(FOLDER).unwrap_or_default();
    // A shell's `*` leaves out names that begin with a dot.
    files.retain(|name| name.ends_with(".cfg") && !name.starts_with('.'));
    let mut files: Vec<String> = files.into_iter().map(|name| format!("{FOLDER}/{name}")).collect();
    files.extend((!files.iter().any(|path| path == drop_in)).then(|| drop_in.to_string()));
    files.sort();
    let mut variables = Variables::default();
    variables.read(&system::text(system, FILE).unwrap_or_default());
    let mut read = vec![FILE.to_string()];
    let mut ours_came = false;
    for path in files {
        read.push(path.clone());
        if path == drop_in {
            if let Some(unclear) = variables.unclear(VARIABLE).filter(|unclear| unclear.lines) {
                return read.get(unclear.file).cloned().map(LossReason::Lines);
            }
            variables.read(&format!("{VARIABLE}=\"${VARIABLE} {}\"", words.join(" ")));
            // Where the line was not known before, it is not known after it either.
            ours_came = variables.get(VARIABLE).is_some();
            continue;
        }
        variables.read(&system::text(system, &path).unwrap_or_default());
        let line = variables.get(VARIABLE);
        let stays =
            line.is_some_and(|line| words.iter().all(|own| kernel_words(line).any(|word| word.raw == own)));
        if ours_came && !stays {
            return Some(LossReason::SetAnew(path));
        }
    }
    None
}
