// SPDX-License-Identifier: MIT OR Apache-2.0
//! U-Boot with its environment in flash.
//!
//! A wrong `/etc/fw_env.config` lets `fw_setenv` write over something else. So it is called only where the
//! environment that it reads is valid, has a variable made for more words, is seen to count boots, and boots
//! something without that variable by itself after failures.

use std::collections::BTreeSet;

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
            lines.push(match &source.variable {
                Some(name) => format!("add to {name}= in {}: {words}", source.file),
                None => format!("add to the one line of {}: {words}", source.file),
            });
        }
        let why = match system.stat("/etc/fw_env.config") {
            Err(_) => {
                if lines.is_empty() {
                    lines = by_script(system, asked);
                }
                "U-Boot boots nothing only once here".to_string()
            }
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

/// The steps where no file of variables is seen: the script sets the line, and is made of another file.
fn by_script(system: &dyn System, asked: &BootSpec<'_>) -> Vec<String> {
    let words = asked.words.join(" ");
    let script = asked.boot.seen.first().map_or("/boot/boot.scr", String::as_str);
    if script.ends_with("/config.txt") {
        return vec![format!(
            "in U-Boot's console find the variable from which bootargs is made (printenv), and add there: {words}"
        )];
    }
    let bare = script.trim_end_matches(".uimg");
    let Some(made_of) = bare.strip_suffix(".scr").map(|path| format!("{path}.cmd")) else {
        return vec![format!("add to the line that sets bootargs in {script}: {words}")];
    };
    if system.stat(&made_of).is_err() {
        return vec![format!(
            "add to the line that sets bootargs in the file of which {script} was made, and make it anew (mkimage -T script): {words}"
        )];
    }
    vec![
        format!("run: cp {script} {script}.before-isolator, to put it back if the next boot fails"),
        format!("add to the line that sets bootargs in {made_of}: {words}"),
        format!("run: mkimage -C none -T script -d {made_of} {script}"),
    ]
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
    let stored = count_is_stored(system);
    variable(&String::from_utf8_lossy(&ran.output), words, stored)
}

/// Whether the device tree names where U-Boot keeps its count of boots (U-Boot's
/// doc/device-tree-bindings/chosen.txt; nodes are named after the driver).
fn count_is_stored(system: &dyn System) -> bool {
    let names = |path: &str| system.names(path).unwrap_or_default();
    let is_count = |name: &String| name.starts_with("bootcount") || name.contains("u-boot,bootcount");
    ["/proc/device-tree", "/proc/device-tree/chosen"].iter().any(|path| names(path).iter().any(is_count))
}

/// The same in what `fw_printenv` prints, or why there is none.
pub fn variable(
    printed: &str,
    words: &[String],
    count_is_stored: bool,
) -> std::result::Result<(String, Option<String>), String> {
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
    let fallback = falls_back(&get, count_is_stored)?;
    let used = |name: &&str| printed.contains(&format!("${{{name}}}"));
    let Some(name) = OPTIONAL.into_iter().find(used) else {
        return Err("no variable of this environment is made for more words".into());
    };
    if fallback.names.contains(name) {
        return Err(format!("what altbootcmd boots takes {name} too, so our words would be in both"));
    }
    let old = get(name);
    // The kernel would read our words as a part of the quoted one.
    if old.is_some_and(guard::quote_stays_open) {
        return Err(format!("{name} of U-Boot's environment has a quote that is not closed"));
    }
    Ok((name.to_string(), old.map(str::to_string)))
}

/// Whether U-Boot boots something else by itself after boots that failed: it counts them where that is seen,
/// and has another command, which does not take our words.
fn falls_back<'a>(
    get: &impl Fn(&str) -> Option<&'a str>,
    count_is_stored: bool,
) -> std::result::Result<Reached, String> {
    let limit = get("bootlimit").and_then(|text| text.trim().parse::<u32>().ok());
    let other = get("altbootcmd").filter(|command| !command.trim().is_empty());
    let Some(other) = other.filter(|_| limit.is_some_and(|limit| limit > 0)) else {
        return Err("U-Boot boots nothing else by itself here (no bootlimit, no altbootcmd)".into());
    };
    // CONFIG_BOOTCOUNT_ENV counts only while an upgrade is on trial (drivers/bootcount/bootcount_env.c).
    let trial = get("upgrade_available").map(str::trim);
    match trial {
        Some("1") if get("bootcount").is_some() || count_is_stored => {}
        Some("1") => {
            return Err("U-Boot is not seen to count boots: its environment has no bootcount, and the device tree names no store for it".into());
        }
        None if count_is_stored => {}
        None => {
            return Err("U-Boot is not seen to count boots: there is no upgrade_available=1, and the device tree names no store for bootcount".into());
        }
        Some(value) => {
            let value = if value.is_empty() { "empty" } else { value };
            return Err(format!(
                "U-Boot counts no failed boot now: upgrade_available is {value}, and bootcount stands still until it is 1"
            ));
        }
    }
    let reached = Reached::from(get, other);
    match reached.unknown.first() {
        Some(command) => Err(format!("what altbootcmd boots cannot be told: it uses `{command}`")),
        None => Ok(reached),
    }
}

/// The variables that a command of U-Boot's uses, also by way of those that it runs.
#[derive(Debug, Default)]
struct Reached {
    names: BTreeSet<String>,
    /// Commands of which the environment does not say what they do.
    unknown: Vec<String>,
}

/// Most variables that are followed.
const VARIABLES: usize = 200;

impl Reached {
    fn from<'a>(get: &impl Fn(&str) -> Option<&'a str>, command: &'a str) -> Reached {
        let mut reached = Reached::default();
        let mut next = vec![command];
        while let Some(command) = next.pop() {
            reached.names.extend(variables(command).map(str::to_string));
            for part in command.split([';', '&', '|']) {
                reached.simple(get, part, &mut next);
            }
            if reached.names.len() > VARIABLES {
                reached.unknown.push("more variables than are followed here".to_string());
                break;
            }
        }
        reached
    }

    /// Takes one simple command.
    fn simple<'a>(&mut self, get: &impl Fn(&str) -> Option<&'a str>, part: &str, next: &mut Vec<&'a str>) {
        let words = part.split_whitespace();
        let control =
            |word: &&str| matches!(*word, "then" | "else" | "do" | "if" | "elif" | "while" | "until");
        let mut words = words.skip_while(control);
        match words.next() {
            Some("run") => {
                for name in words {
                    match get(name).filter(|_| !name.contains('$')) {
                        Some(inner) if self.names.insert(name.to_string()) => next.push(inner),
                        Some(_) => {}
                        None => self.unknown.push(part.trim().to_string()),
                    }
                }
            }
            // A script, or a menu of its own, may use any variable.
            Some("source" | "autoscr" | "sysboot" | "bootflow" | "bootmenu" | "pxe" | "env") => {
                self.unknown.push(part.trim().to_string());
            }
            _ => {}
        }
    }
}

/// The variables whose values a command takes, `${name}` or `$name`.
fn variables(command: &str) -> impl Iterator<Item = &str> {
    command.split('$').skip(1).filter_map(|rest| {
        let name = rest.strip_prefix('{').unwrap_or(rest);
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        name.split(|letter| !plain(letter)).next().filter(|name| !name.is_empty())
    })
}
