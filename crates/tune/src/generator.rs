// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the files of GRUB's generator make of our drop-in: they are read in the order of their names, and one that comes
//! later may set the line anew.

use machine::boot::Variables;
use machine::boot::line::kernel_words;

use crate::system::{self, System};

/// The variable that ordinary entries get.
pub(crate) const VARIABLE: &str = "GRUB_CMDLINE_LINUX_DEFAULT";
const FILE: &str = "/etc/default/grub";
const FOLDER: &str = "/etc/default/grub.d";

/// The file that takes away what `drop_in` adds; none where our words stay.
pub(crate) fn set_anew(system: &dyn System, drop_in: &str, words: &[String]) -> Option<String> {
    let mut files: Vec<String> = system.names(FOLDER).unwrap_or_default();
    files.retain(|name| name.ends_with(".cfg"));
    let mut files: Vec<String> = files.into_iter().map(|name| format!("{FOLDER}/{name}")).collect();
    files.extend((!files.iter().any(|path| path == drop_in)).then(|| drop_in.to_string()));
    files.sort();
    let mut variables = Variables::default();
    variables.read(&system::text(system, FILE).unwrap_or_default());
    let mut ours_came = false;
    for path in files {
        if path == drop_in {
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
            return Some(path);
        }
    }
    None
}
