// SPDX-License-Identifier: MIT OR Apache-2.0
//! One step done and read back, and one step undone.

use std::io;

use inspect::boot::grub;
use machine::CpuSet;
use machine::boot::line::{kernel_words, without_words};

use super::words::without_tokens;
use super::{files, rights};
use crate::generator::{self, LossReason};
use crate::places::DROP_IN;
use crate::record::kept::{Kept, Lossless};
use crate::record::own::OwnPart;
use crate::record::{Compare, Restoration, Step, StepOutcome};
use crate::system::{self, System, chosen, failed};
use crate::{Error, Result};

/// Does a step; a refusal that does not matter is an outcome, one that does is an error.
pub(super) fn make(system: &mut dyn System, step: &Step) -> Result<StepOutcome> {
    match step {
        Step::File { path, old, new, .. } | Step::Generated { path, old, new, .. } => {
            let now = Kept::of(system, path)?;
            if same(now.as_ref(), new.as_ref()) {
                return Ok(StepOutcome::AlreadySo);
            }
            if !same(now.as_ref(), old.as_ref()) {
                return Err(Error::new(
                    format!("write {path}"),
                    "another program changed it just now",
                    "run the same command again",
                ));
            }
            files::replace(system, path, new.as_ref())?;
            Ok(StepOutcome::Done)
        }
        Step::Folder { path } => {
            if system.stat(path).is_ok() {
                return Ok(StepOutcome::AlreadySo);
            }
            system.make_folder(path).map_err(|error| failed("make", path, &error))?;
            // The kernel's own folders are on no medium.
            if !step.volatile() {
                let parent = system::folder(path);
                system.sync_folder(parent).map_err(|error| failed("make", path, &error))?;
            }
            Ok(StepOutcome::Done)
        }
        Step::Setting { path, write, compare, needed, .. } => match set(system, path, write, *compare) {
            Ok(changed) => Ok(if changed { StepOutcome::Done } else { StepOutcome::AlreadySo }),
            Err(why) if !needed => Ok(StepOutcome::Refused(why)),
            Err(why) => Err(Error::new(
                format!("set {path} to {}", write.trim()),
                why,
                "take this action out of the plan, or look at the kernel's log",
            )),
        },
        Step::Affinity { task, started, old, new, .. } => {
            if started_at(system, *task) != Some(*started) {
                return Ok(StepOutcome::Refused("it has ended".into()));
            }
            // Kept as it is, and given back where another step lets the kernel change it.
            if old == new {
                return Ok(StepOutcome::Done);
            }
            Ok(match system.set_affinity(*task, new) {
                Ok(()) => StepOutcome::Done,
                Err(error) if error.raw_os_error() == Some(libc_einval()) => {
                    StepOutcome::Refused("the kernel binds it to its CPU".into())
                }
                Err(error) => StepOutcome::Refused(error::reason(&error)),
            })
        }
        Step::Command { run, .. } if run.is_empty() => Ok(StepOutcome::Done),
        Step::Command { run, needed, .. } => {
            let why = match system.run(run) {
                Ok(ran) if ran.good => return Ok(StepOutcome::Done),
                Ok(ran) => ran.complaint,
                Err(error) => error::reason(&error),
            };
            if *needed {
                let what = format!("run `{}`", run.join(" "));
                return Err(Error::new(what, why, "run it by hand to see more, then try again"));
            }
            Ok(StepOutcome::Refused(why))
        }
        Step::Members { path, group, line, users } => {
            rights::add_members(system, path, group, line.as_deref(), users)
        }
        Step::Access { path, old, new } => rights::set_access(system, path, *old, *new),
        Step::Program { path, sha256, gid, capabilities, .. } => {
            rights::place(system, path, sha256, *gid, capabilities)
        }
    }
}

fn libc_einval() -> i32 {
    rustix::io::Errno::INVAL.raw_os_error()
}

/// Lets a generator say what the file is to be, and judges that before the machine boots from it.
pub(super) fn generate(system: &mut dyn System, step: &mut Step) -> Result<()> {
    let Step::Generated { path, command, old, new, words } = step else { return Ok(()) };
    *new = Some(Kept::new(&generated(system, path, command, words, true)?, old.as_ref()));
    Ok(())
}

/// The output of the generator, checked: every ordinary entry has our words, no entry for repair has one.
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
        Err(error) => return fail(&error::reason(&error), by_hand),
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
            let why = format!("its entry '{title}' lacks our words");
            return match generator::lost(system, DROP_IN, words) {
                Some(LossReason::SetAnew(file)) => {
                    fail(&why, &format!("look at {file}, which sets {} anew", generator::VARIABLE))
                }
                Some(LossReason::Lines(file)) => {
                    fail(&why, &format!("write {} in {file} on one line", generator::VARIABLE))
                }
                None => fail(
                    &why,
                    &format!("look at /etc/grub.d/10_linux, which does not use {}", generator::VARIABLE),
                ),
            };
        }
        if !expected && words.iter().any(has) {
            let why = format!("its entry '{title}' has words of ours");
            return fail(
                &why,
                "look for them in /etc/default/grub and the files of /etc/default/grub.d and /etc/grub.d",
            );
        }
    }
    Ok(menu)
}

/// Undoes a step where what is there is ours; changes of other programs stay and are named.
pub(super) fn undo(system: &mut dyn System, step: &Step) -> Result<Restoration> {
    match step {
        Step::File { path, old, new, own } => undo_file(system, path, old.as_ref(), new.as_ref(), own),
        Step::Generated { path, command, old, new, words } => {
            undo_generated(system, (path, command, words), old.as_ref(), new.as_ref())
        }
        Step::Folder { path } => Ok(match system.remove_folder(path) {
            Ok(()) if step.volatile() => Restoration::Restored,
            Ok(()) => match system.sync_folder(system::folder(path)) {
                Ok(()) => Restoration::Restored,
                Err(error) => return Err(failed("remove", path, &error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Restoration::Untouched,
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Restoration::Left("it holds files of others".into())
            }
            Err(error) => Restoration::Failed(error::reason(&error)),
        }),
        Step::Setting { path, old, write, undo, compare, .. } => {
            let Ok(now) = system::text(system, path) else { return Ok(Restoration::Gone) };
            if reads(&now, undo, *compare) || reads(&now, old, *compare) {
                return Ok(Restoration::Untouched);
            }
            if !reads(&now, write, *compare) {
                return Ok(Restoration::Left(format!("another program set it to {} since", now.trim())));
            }
            Ok(match set(system, path, undo, *compare) {
                Ok(_) => Restoration::Restored,
                Err(why) => Restoration::Failed(why),
            })
        }
        Step::Affinity { task, started, old, new, .. } => {
            if started_at(system, *task) != Some(*started) {
                return Ok(Restoration::Gone);
            }
            Ok(match system.affinity(*task) {
                Ok(now) if now == *old => Restoration::Untouched,
                Ok(now) if now != *new && old != new => {
                    Restoration::Left(format!("another program gave it CPUs {now} since"))
                }
                Ok(_) => match system.set_affinity(*task, old) {
                    Ok(()) => Restoration::Restored,
                    Err(error) => Restoration::Failed(error::reason(&error)),
                },
                Err(_) => Restoration::Gone,
            })
        }
        Step::Command { run, undo, .. } => {
            if undo.is_empty() {
                return Ok(Restoration::Untouched);
            }
            let undo = match variable_now(system, run, undo) {
                Some(undo) if undo.is_empty() => return Ok(Restoration::Untouched),
                changed => changed.unwrap_or_else(|| undo.clone()),
            };
            let why = match system.run(&undo) {
                Ok(ran) if ran.good => return Ok(Restoration::Restored),
                Ok(ran) => ran.complaint,
                Err(error) => error::reason(&error),
            };
            Ok(Restoration::Failed(format!("`{}` failed: {why}", undo.join(" "))))
        }
        Step::Members { path, group, line, users } => {
            rights::remove_members(system, path, group, line.as_deref(), users)
        }
        Step::Access { path, old, new } => rights::give_back_access(system, path, *old, *new),
        Step::Program { path, sha256, .. } => rights::take_away(system, path, sha256),
    }
}

/// How to take our words out of a variable of U-Boot's that another program changed since; empty where none
/// is in it, and none where the variable is as we left it, or cannot be read.
fn variable_now(system: &mut dyn System, run: &[String], undo: &[String]) -> Option<Vec<String>> {
    let [program, name, written] = run else { return None };
    if program != "fw_setenv" {
        return None;
    }
    let ran = system.run(&["fw_printenv".to_string()]).ok().filter(|ran| ran.good)?;
    let text = String::from_utf8(ran.output).ok()?;
    let now = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let before = undo.get(2).map(String::as_str);
    if now == Some(written) {
        return None;
    }
    let had = |raw: &&str| before.is_some_and(|before| kernel_words(before).any(|word| word.raw == *raw));
    let ours: Vec<&str> = kernel_words(written).map(|word| word.raw).filter(|raw| !had(raw)).collect();
    let left = without_words(now.unwrap_or_default(), &ours);
    if now.unwrap_or_default() == left {
        return Some(Vec::new());
    }
    let value = (!left.trim().is_empty()).then_some(left);
    Some([program.clone(), name.clone()].into_iter().chain(value).collect())
}

fn undo_file(
    system: &mut dyn System,
    path: &str,
    old: Option<&Kept>,
    new: Option<&Kept>,
    own: &OwnPart,
) -> Result<Restoration> {
    files::tidy(system, path);
    let now = Lossless::of(system, path).map_err(|error| failed("read", path, &error))?;
    if let (None, OwnPart::Counted, Some(new)) = (&now, own, new) {
        return counted_down(system, path, new);
    }
    let text = now.as_ref().map(|now| now.text.as_str());
    if text == old.map(|old| old.text.as_str()) {
        return Ok(Restoration::Untouched);
    }
    if text == new.map(|new| new.text.as_str()) || torn(text, old, new) {
        files::give_back(system, path, old)?;
        return Ok(Restoration::Restored);
    }
    let Some(now) = now else { return Ok(Restoration::Left("another program removed it".into())) };
    let of = |kept: Option<&Kept>| kept.map_or(String::new(), |kept| kept.text.clone());
    let Some(text) = own
        .strip(&now.text, &of(old), &of(new))
        .map_err(|why| Error::new(format!("undo {path}"), why, ""))?
    else {
        return Ok(Restoration::Left(
            "another program changed it; remove it by hand where it is not wanted".into(),
        ));
    };
    if text == now.text {
        return Ok(Restoration::Left("another program changed it; nothing of ours is in it".into()));
    }
    if old.is_none() && text.trim().is_empty() {
        files::give_back(system, path, None)?;
    } else {
        files::put_back(system, path, &now.bytes(&text))?;
    }
    Ok(Restoration::Stripped)
}

/// Whether a power cut left a file that was written over with bytes of both states.
fn torn(now: Option<&str>, old: Option<&Kept>, new: Option<&Kept>) -> bool {
    let (Some(now), Some(old), Some(new)) = (now, old, new) else { return false };
    files::mixed(now.as_bytes(), old.text.as_bytes(), new.text.as_bytes())
}

/// A menu as it was; where another program made it anew with our words, it is made anew without them.
fn undo_generated(
    system: &mut dyn System,
    (path, command, words): (&str, &[String], &[String]),
    old: Option<&Kept>,
    new: Option<&Kept>,
) -> Result<Restoration> {
    files::tidy(system, path);
    let now = Lossless::of(system, path).map_err(|error| failed("read", path, &error))?;
    let text = now.as_ref().map(|now| now.text.as_str());
    if text == old.map(|old| old.text.as_str()) {
        return Ok(Restoration::Untouched);
    }
    if (new.is_some() && text == new.map(|new| new.text.as_str())) || torn(text, old, new) {
        files::give_back(system, path, old)?;
        return Ok(Restoration::Restored);
    }
    let Some(now) = now else { return Ok(Restoration::Left("another program removed it".into())) };
    let ours = grub::menu(&now.text, path)
        .iter()
        .any(|entry| kernel_words(&entry.entry.options).any(|word| words.iter().any(|own| own == word.raw)));
    if !ours {
        return Ok(Restoration::Untouched);
    }
    match generated(system, path, command, words, false) {
        Ok(text) => {
            files::put_back(system, path, text.as_bytes())?;
            Ok(Restoration::MadeAnew)
        }
        // Without its generator the words go out of the menu as it is.
        Err(_) => {
            files::put_back(system, path, &now.bytes(&without_tokens(path, &now.text, words, &[])))?;
            Ok(Restoration::Stripped)
        }
    }
}

/// Removes an entry whose tries systemd-boot has counted down in its name, or blessed away.
fn counted_down(system: &mut dyn System, path: &str, new: &Kept) -> Result<Restoration> {
    let folder = system::folder(path);
    let stem = path.rsplit('/').next().and_then(|name| name.split('+').next()).unwrap_or_default();
    let names = system.names(folder).unwrap_or_default();
    let ours = |name: &String| {
        let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(".conf"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
    };
    let mut became = Restoration::Untouched;
    for name in names.iter().filter(|name| ours(name)) {
        let there = format!("{folder}/{name}");
        if same(Kept::of(system, &there)?.as_ref(), Some(new)) {
            files::give_back(system, &there, None)?;
            became = Restoration::Restored;
        }
    }
    Ok(became)
}

/// Whether two states of a file have the same bytes; permissions and owner are those of the file that is
/// there.
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
        Some(1) => "the kernel does not let it be moved".to_string(),
        Some(5) => "the kernel manages it itself".to_string(),
        _ => error::reason(&error),
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

/// When a task started, in ticks since boot.
pub(crate) fn started_at(system: &dyn System, task: u32) -> Option<u64> {
    let stat = system::text(system, &format!("/proc/{task}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
