// SPDX-License-Identifier: MIT OR Apache-2.0
//! U-Boot with its environment in flash.
//!
//! A wrong `/etc/fw_env.config` lets `fw_setenv` write over something else. So it is called only where the
//! environment that it reads is valid, has a variable made for more words, and boots something else by itself
//! after failures.

use machine::boot::BootEntry;

use super::guard;
use super::spec::{BootLoader, BootMethod, BootSpec, lasts};
use crate::places::OPTIONAL;
use crate::record::Step;
use crate::system::System;
use crate::{Error, Result};

/// U-Boot with its environment in flash.
pub(super) struct UBoot;

impl BootLoader for UBoot {
    /// The line is made of variables; files name entries on some boards alone.
    fn find<'a>(&self, _: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        asked.entry().ok_or_else(|| {
            Error::new(
                "change the boot line",
                "U-Boot makes it of variables",
                "see docs/reference/boot-loaders.md",
            )
        })
    }

    /// Nothing boots only once here.
    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
        self.lasting(system, asked, false)
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
        let words = asked.words.join(" ");
        let mut lines: Vec<String> = Vec::new();
        for source in &asked.boot.sources {
            if let Some(name) = &source.variable {
                lines.push(format!("add to {name}= in {}: {words}", source.file));
            }
        }
        let why = match system.stat("/etc/fw_env.config") {
            Err(_) => "U-Boot boots nothing only once here".to_string(),
            Ok(_) => match environment(system, asked.words) {
                Ok((name, old)) => {
                    let refusal = ("U-Boot boots nothing else by itself", "set altbootcmd and bootlimit");
                    let steps = vec![longer_variable(&name, old, asked.words)];
                    return lasts(self, system, asked, (steps, tried), refusal);
                }
                Err(why) => {
                    lines.push(format!(
                        "find the variable from which bootargs is made, and add there: {words}"
                    ));
                    why
                }
            },
        };
        lines.push("reboot, then run: isolator tune verify".into());
        Ok(BootMethod::Instructions { why, lines })
    }

    /// Only an environment of which [`variable`] proved it is written.
    fn fallback(&self, _: &dyn System, _: &BootSpec<'_>, _: &[Step]) -> Option<String> {
        Some("altbootcmd, after bootlimit failures".into())
    }
}

/// The variable with our words; without a value its command takes the variable away.
fn longer_variable(name: &str, old: Option<String>, words: &[String]) -> Step {
    let command = |value: Option<String>| -> Vec<String> {
        ["fw_setenv".to_string(), name.to_string()].into_iter().chain(value).collect()
    };
    let longer = machine::boot::line::with_words(old.as_deref().unwrap_or_default(), words);
    let (run, undo) = (command(Some(longer)), command(old));
    Step::Command { run, undo, volatile: false, needed: true }
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
    counts_failures(&get)?;
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

/// Whether U-Boot boots something else by itself after boots that failed: it counts them, and has another
/// command.
fn counts_failures<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> std::result::Result<(), String> {
    let limit = get("bootlimit").and_then(|text| text.trim().parse::<u32>().ok());
    if limit.is_none_or(|limit| limit == 0)
        || get("altbootcmd").is_none_or(|command| command.trim().is_empty())
    {
        return Err("U-Boot boots nothing else by itself here (no bootlimit, no altbootcmd)".into());
    }
    // CONFIG_BOOTCOUNT_ENV counts only while an upgrade is on trial (drivers/bootcount/bootcount_env.c).
    if let Some(value) = get("upgrade_available").filter(|value| value.trim() != "1") {
        return Err(format!(
            "U-Boot counts no failed boot now: upgrade_available is {}, and bootcount stands still until it is 1",
            if value.trim().is_empty() { "empty" } else { value.trim() }
        ));
    }
    Ok(())
}
