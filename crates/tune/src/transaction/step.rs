// SPDX-License-Identifier: MIT OR Apache-2.0
//! One step done and read back, and one step undone.

use std::io;

use machine::CpuSet;
use machine::boot::grub;
use machine::boot::line::kernel_words;

use super::files::{self, Kept};
use super::{Became, Compare, Outcome, Own, Step};
use crate::error::{Error, Result};
use crate::system::{self, System};

/// Does a step; a refusal that does not matter is an outcome, one that does is an error.
pub(super) fn make(system: &mut dyn System, step: &Step) -> Result<Outcome> {
    match step {
        Step::File { path, old, new, .. } | Step::Generated { path, old, new, .. } => {
            let now = Kept::of(system, path)?;
            if same(now.as_ref(), new.as_ref()) {
                return Ok(Outcome::AlreadySo);
            }
            if !same(now.as_ref(), old.as_ref()) {
                return Err(Error::new(
                    format!("write {path}"),
                    "somebody else changed it just now",
                    "run the same command again",
                ));
            }
            files::replace(system, path, new.as_ref())?;
            Ok(Outcome::Done)
        }
        Step::Folder { path } => {
            if system.stat(path).is_ok() {
                return Ok(Outcome::AlreadySo);
            }
            system.make_folder(path).map_err(|error| Error::io("make", path, &error))?;
            // The kernel's own folders are on no medium.
            if !step.volatile() {
                let parent = system::folder(path);
                system.sync_folder(parent).map_err(|error| Error::io("make", path, &error))?;
            }
            Ok(Outcome::Done)
        }
        Step::Setting { path, write, compare, needed, .. } => match set(system, path, write, *compare) {
            Ok(changed) => Ok(if changed { Outcome::Done } else { Outcome::AlreadySo }),
            Err(why) if !needed => Ok(Outcome::Refused(why)),
            Err(why) => Err(Error::new(
                format!("set {path} to {}", write.trim()),
                why,
                "take this action out of the plan, or look at the kernel's log",
            )),
        },
        Step::Affinity { task, started, old, new, .. } => {
            if started_at(system, *task) != Some(*started) {
                return Ok(Outcome::Refused("it has ended".into()));
            }
            // Kept as it is, and given back where another step lets the kernel change it.
            if old == new {
                return Ok(Outcome::Done);
            }
            Ok(match system.set_affinity(*task, new) {
                Ok(()) => Outcome::Done,
                Err(error) if error.raw_os_error() == Some(libc_einval()) => {
                    Outcome::Refused("the kernel binds it to its CPU".into())
                }
                Err(error) => Outcome::Refused(machine::reason(&error)),
            })
        }
        Step::Command { run, .. } if run.is_empty() => Ok(Outcome::Done),
        Step::Command { run, needed, .. } => {
            let why = match system.run(run) {
                Ok(ran) if ran.good => return Ok(Outcome::Done),
                Ok(ran) => ran.complaint,
                Err(error) => machine::reason(&error),
            };
            if *needed {
                let what = format!("run `{}`", run.join(" "));
                return Err(Error::new(what, why, "run it by hand to see more, then try again"));
            }
            Ok(Outcome::Refused(why))
        }
    }
}

fn libc_einval() -> i32 {
    rustix::io::Errno::INVAL.raw_os_error()
}

/// Lets a generator say what the file is to be, and judges that before anybody boots from it.
pub(super) fn generate(system: &mut dyn System, step: &mut Step) -> Result<()> {
    let Step::Generated { path, command, old, new, words } = step else { return Ok(()) };
    *new = Some(Kept::new(&generated(system, path, command, words, true)?, old.as_ref()));
    Ok(())
}

/// What the generator prints, checked: every ordinary entry has our words, no entry for repair has one.
fn generated(
    system: &mut dyn System,
    path: &str,
    command: &[String],
    words: &[String],
    ours: bool,
) -> Result<String> {
    let line = command.join(" ");
    let fail = |why: &str, cure: &str| Err(Error::new(format!("make {path} with `{line}`"), why, cure));
    let by_hand = "run it by hand to see more, then try again";
    let ran = match system.run(command) {
        Ok(ran) if ran.good => ran,
        Ok(ran) => return fail(&ran.complaint, by_hand),
        Err(error) => return fail(&machine::reason(&error), by_hand),
    };
    let Ok(menu) = String::from_utf8(ran.output) else { return fail("it printed no text", by_hand) };
    let entries = grub::menu(&menu, path);
    let linux: Vec<_> = entries.iter().filter(|entry| entry.entry.kernel.is_some()).collect();
    if !linux.iter().any(|entry| !entry.entry.recovery) {
        return fail("it printed no entry that boots Linux", by_hand);
    }
    for entry in linux {
        let has = |raw: &String| kernel_words(&entry.entry.options).any(|word| word.raw == *raw);
        let (title, expected) = (&entry.entry.title, ours && !entry.entry.recovery);
        if expected && !words.iter().all(has) {
            let why = format!("its entry '{title}' lacks words that /etc/default/grub.d gives it");
            return fail(&why, "look which file of /etc/default/grub.d sets the line anew");
        }
        if !expected && words.iter().any(has) {
            return fail(
                &format!("its entry '{title}' has words of ours"),
                "look which file of /etc/grub.d puts them there",
            );
        }
    }
    Ok(menu)
}

/// Undoes a step where what is there is ours; what is somebody else's stays and is named.
pub(super) fn undo(system: &mut dyn System, step: &Step) -> Result<Became> {
    match step {
        Step::File { path, old, new, own } => {
            files::tidy(system, path);
            let now = Kept::of(system, path)?;
            if let (None, Own::Counted, Some(new)) = (&now, own, new) {
                return counted_down(system, path, new);
            }
            if same(now.as_ref(), old.as_ref()) {
                return Ok(Became::Untouched);
            }
            if same(now.as_ref(), new.as_ref()) {
                files::replace(system, path, old.as_ref())?;
                return Ok(Became::Restored);
            }
            foreign(system, path, now, own)
        }
        Step::Generated { path, command, old, new, words } => {
            files::tidy(system, path);
            let now = Kept::of(system, path)?;
            if same(now.as_ref(), old.as_ref()) {
                return Ok(Became::Untouched);
            }
            if new.is_some() && same(now.as_ref(), new.as_ref()) {
                files::replace(system, path, old.as_ref())?;
                return Ok(Became::Restored);
            }
            // Somebody else's run of the generator may have taken our words up.
            let ours = now.as_ref().is_some_and(|now| {
                let entries = grub::menu(&now.text, path);
                entries.iter().any(|e| {
                    kernel_words(&e.entry.options).any(|word| words.iter().any(|own| own == word.raw))
                })
            });
            if !ours {
                return Ok(Became::Untouched);
            }
            let text = generated(system, path, command, words, false)?;
            files::replace(system, path, Some(&Kept::new(&text, now.as_ref())))?;
            Ok(Became::MadeAnew)
        }
        Step::Folder { path } => Ok(match system.remove_folder(path) {
            Ok(()) if step.volatile() => Became::Restored,
            Ok(()) => match system.sync_folder(system::folder(path)) {
                Ok(()) => Became::Restored,
                Err(error) => return Err(Error::io("remove", path, &error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Became::Untouched,
            Err(error) => Became::Left(machine::reason(&error)),
        }),
        Step::Setting { path, old, write, undo, compare, .. } => {
            let Ok(now) = system::text(system, path) else { return Ok(Became::Gone) };
            if reads(&now, undo, *compare) || reads(&now, old, *compare) {
                return Ok(Became::Untouched);
            }
            if !reads(&now, write, *compare) {
                return Ok(Became::Left(format!("somebody else set it to {} since", now.trim())));
            }
            Ok(match set(system, path, undo, *compare) {
                Ok(_) => Became::Restored,
                Err(why) => Became::Left(why),
            })
        }
        Step::Affinity { task, started, old, new, .. } => {
            if started_at(system, *task) != Some(*started) {
                return Ok(Became::Gone);
            }
            Ok(match system.affinity(*task) {
                Ok(now) if now == *old => Became::Untouched,
                Ok(now) if now != *new && old != new => {
                    Became::Left(format!("somebody else gave it CPUs {now} since"))
                }
                Ok(_) => match system.set_affinity(*task, old) {
                    Ok(()) => Became::Restored,
                    Err(error) => Became::Left(machine::reason(&error)),
                },
                Err(_) => Became::Gone,
            })
        }
        Step::Command { undo, .. } => {
            if undo.is_empty() {
                return Ok(Became::Untouched);
            }
            Ok(match system.run(undo) {
                Ok(ran) if ran.good => Became::Restored,
                Ok(ran) => Became::Left(format!("`{}` failed: {}", undo.join(" "), ran.complaint)),
                Err(error) => {
                    Became::Left(format!("`{}` failed: {}", undo.join(" "), machine::reason(&error)))
                }
            })
        }
    }
}

/// Removes an entry whose tries systemd-boot has counted down in its name, or blessed away.
fn counted_down(system: &mut dyn System, path: &str, new: &Kept) -> Result<Became> {
    let folder = system::folder(path);
    let stem = path.rsplit('/').next().and_then(|name| name.split('+').next()).unwrap_or_default();
    let names = system.names(folder).unwrap_or_default();
    let ours = |name: &String| {
        let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(".conf"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
    };
    let mut became = Became::Untouched;
    for name in names.iter().filter(|name| ours(name)) {
        let there = format!("{folder}/{name}");
        if same(Kept::of(system, &there)?.as_ref(), Some(new)) {
            files::replace(system, &there, None)?;
            became = Became::Restored;
        }
    }
    Ok(became)
}

fn foreign(system: &mut dyn System, path: &str, now: Option<Kept>, own: &Own) -> Result<Became> {
    let Some(now) = now else { return Ok(Became::Left("somebody else removed it".into())) };
    match own.strip(&now.text) {
        Some(text) if text == now.text => {
            Ok(Became::Left("somebody else changed it; nothing of ours is in it".into()))
        }
        Some(text) => {
            files::replace(system, path, Some(&Kept::new(&text, Some(&now))))?;
            Ok(Became::Stripped)
        }
        None => Ok(Became::Left("somebody else changed it; remove it by hand where it is not wanted".into())),
    }
}

/// Whether two states of a file have the same bytes, bits and owner; on vfat bits and owner never differ.
fn same(one: Option<&Kept>, other: Option<&Kept>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.text == other.text,
        (None, None) => true,
        _ => false,
    }
}

/// Writes a setting and reads it back; whether it changed, or why not.
fn set(
    system: &mut dyn System,
    path: &str,
    text: &str,
    compare: Compare,
) -> std::result::Result<bool, String> {
    let why = |error: io::Error| match error.raw_os_error() {
        Some(1) => "the kernel lets nobody move it".to_string(),
        Some(5) => "the kernel manages it itself".to_string(),
        _ => machine::reason(&error),
    };
    let now = system::text(system, path).map_err(why)?;
    if reads(&now, text, compare) {
        return Ok(false);
    }
    system.set(path, text).map_err(why)?;
    let now = system::text(system, path).map_err(why)?;
    if reads(&now, text, compare) { Ok(true) } else { Err(format!("it reads back {}", now.trim())) }
}

/// Whether a setting that reads `now` has the value `wanted`.
pub(crate) fn reads(now: &str, wanted: &str, compare: Compare) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    match compare {
        Compare::Text => words(now) == words(wanted),
        Compare::Mask => match (CpuSet::from_mask(now), CpuSet::from_mask(wanted)) {
            (Ok(now), Ok(wanted)) => now == wanted,
            _ => false,
        },
        Compare::Cpus => match (now.parse::<CpuSet>(), wanted.parse::<CpuSet>()) {
            (Ok(now), Ok(wanted)) => now == wanted,
            _ => false,
        },
        Compare::Choice => chosen(now) == chosen(wanted),
        Compare::Member => {
            let has = |name: &str| now.split_whitespace().any(|word| word == name);
            match wanted.split_at_checked(1) {
                Some(("+", name)) => has(name),
                Some(("-", name)) => !has(name),
                _ => words(now) == words(wanted),
            }
        }
    }
}

/// The choice in brackets, or the text where there are none.
pub(crate) fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(word, _)| word)
}

/// When a task started, in ticks since boot.
pub(crate) fn started_at(system: &dyn System, task: u32) -> Option<u64> {
    let stat = system::text(system, &format!("/proc/{task}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
