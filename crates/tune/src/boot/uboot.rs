// SPDX-License-Identifier: MIT OR Apache-2.0
//! U-Boot with its environment in flash.
//!
//! A wrong `/etc/fw_env.config` lets `fw_setenv` write over something else. So it is called only where the
//! environment that it reads is valid, has a variable made for more words, and boots something else by itself
//! after failures.

use super::{BootMethod, BootSpec, guard};
use crate::Result;
use crate::system::System;
use crate::transaction::Step;

/// Variables that vendors leave for more words.
pub(crate) const OPTIONAL: [&str; 3] = ["optargs", "extraargs", "othbootargs"];

pub(super) fn lasting(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    let words = asked.words.join(" ");
    let mut lines: Vec<String> = Vec::new();
    for source in &asked.boot.sources {
        if let Some(name) = &source.variable {
            lines.push(format!("add to {name}= in {}: {words}", source.file));
        }
    }
    if system.stat("/etc/fw_env.config").is_err() {
        lines.push("reboot, then run: isolator tune verify".into());
        return Ok(BootMethod::Instructions { why: "U-Boot boots nothing only once here".into(), lines });
    }
    match environment(system, asked.words) {
        Ok((name, old)) => {
            // Without a value it takes the variable away.
            let command = |value: Option<String>| -> Vec<String> {
                ["fw_setenv".to_string(), name.clone()].into_iter().chain(value).collect()
            };
            let longer = machine::boot::line::with_words(old.as_deref().unwrap_or_default(), asked.words);
            let (run, undo) = (command(Some(longer)), command(old));
            let step = Step::Command { run, undo, volatile: false, needed: true };
            Ok(BootMethod::Lasting {
                steps: vec![step],
                fallback: "altbootcmd, after bootlimit failures".into(),
            })
        }
        Err(why) => {
            lines.push(format!("find the variable from which bootargs is made, and add there: {words}"));
            lines.push("reboot, then run: isolator tune verify".into());
            Ok(BootMethod::Instructions { why, lines })
        }
    }
}

/// The variable for more words and the value that it has, where it is safe to write it.
fn environment(
    system: &mut dyn System,
    words: &[String],
) -> std::result::Result<(String, Option<String>), String> {
    let ran = system.run(&["fw_printenv".to_string()]).map_err(|error| format!("fw_printenv: {error}"))?;
    if !ran.good || ran.complaint.contains("Bad CRC") {
        return Err(format!("/etc/fw_env.config does not match this board (fw_printenv: {})", ran.complaint));
    }
    variable(&String::from_utf8_lossy(&ran.output), words)
}

/// The same in what `fw_printenv` prints, or why there is none.
pub fn variable(printed: &str, words: &[String]) -> std::result::Result<(String, Option<String>), String> {
    let get = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    for (name, value) in printed.lines().filter_map(|line| line.split_once('=')) {
        let others = guard::foreign(value, words);
        if !others.is_empty() {
            return Err(format!("{} stands already in {name} of U-Boot's environment", others.join(" ")));
        }
    }
    if get("bootcmd").is_none() {
        return Err("the environment that fw_printenv reads has no bootcmd".into());
    }
    if get("bootlimit").is_none() || get("altbootcmd").is_none_or(str::is_empty) {
        return Err("U-Boot boots nothing else by itself here (no bootlimit, no altbootcmd)".into());
    }
    let used = |name: &&str| printed.contains(&format!("${{{name}}}"));
    let Some(name) = OPTIONAL.into_iter().find(used) else {
        return Err("no variable of this environment is made for more words".into());
    };
    let old = get(name);
    // The kernel would read our words as a part of the quoted one.
    if old.is_some_and(guard::quote_stays_open) {
        return Err(format!("{name} of U-Boot's environment has a quote that is not closed"));
    }
    Ok((name.to_string(), old.map(str::to_string)))
}
