// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB on Debian and Ubuntu.
//!
//! Trial: a copy of the entry that runs in `custom.cfg`, which the generated menu sources, and `next_entry`
//! in GRUB's block of variables, which GRUB clears before it boots. Lasting: a drop-in of
//! `/etc/default/grub.d` for `GRUB_CMDLINE_LINUX_DEFAULT`, which entries for repair do not get, and the menu
//! made anew.

use machine::boot::grub::{self, GrubEnvironment, MenuEntry};
use machine::boot::line::with_words;

use super::{BootMethod, BootSpec, TRIAL, file, guard, text};
use crate::generator::{self, LossReason};
use crate::system::System;
use crate::transaction::files::Kept;
use crate::transaction::own::{with_block, with_lines};
use crate::transaction::{OwnPart, Step};
use crate::{Error, Result};

/// The drop-in; its number lets it come after those that set the line anew, as cloud images do.
pub(crate) const DROP_IN: &str = "/etc/default/grub.d/99-isolator.cfg";

pub(super) fn first(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    let folder = &asked.boot.folder;
    let menu_path = format!("{folder}/grub.cfg");
    let menu = text(system, &menu_path)?;
    let entries = grub::menu(&menu, &menu_path);
    let runs = entry_of(asked, &entries)?;
    not_lost(system, asked.words)?;
    let once = menu.contains("next_entry") && menu.contains("custom.cfg");
    let variables = format!("{folder}/grubenv");
    if let Some(arm) = arm(system, &variables, TRIAL)?.filter(|_| once) {
        let copy = copy_of(runs, asked.words);
        let custom =
            file(system, &format!("{folder}/custom.cfg"), OwnPart::Block, |text| with_block(text, &copy))?;
        return Ok(BootMethod::Trial { steps: vec![custom, arm], start: "reboot".into() });
    }
    let Some(fallback) = entries.iter().find(|entry| entry.entry.recovery) else {
        return Err(Error::new(
            "change the boot line",
            "GRUB cannot boot an entry only once here, and the menu has no entry for repair to fall back to",
            "take GRUB_DISABLE_RECOVERY out of /etc/default/grub and run update-grub",
        ));
    };
    let fallback = format!("the entry '{}'", fallback.entry.title);
    match lasting(system, asked)? {
        BootMethod::Lasting { steps, .. } => Ok(BootMethod::Lasting { steps, fallback }),
        other => Ok(other),
    }
}

pub(super) fn lasting(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    not_lost(system, asked.words)?;
    let menu = format!("{}/grub.cfg", asked.boot.folder);
    let own = "# Made by `isolator tune`; `isolator tune rollback` takes it away again.\n";
    let line =
        format!("GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {}\"\n", asked.words.join(" "));
    let mut steps = Vec::new();
    let drop_ins = crate::system::folder(DROP_IN);
    if system.stat(drop_ins).is_err() {
        steps.push(Step::Folder { path: drop_ins.into() });
    }
    steps.push(file(system, DROP_IN, OwnPart::Lines, |text| with_lines(text, &format!("{own}{line}")))?);
    steps.push(Step::Generated {
        command: vec!["grub-mkconfig".into()],
        old: Kept::of(system, &menu)?,
        path: menu,
        new: None,
        words: asked.words.to_vec(),
    });
    Ok(BootMethod::Lasting { steps, fallback: "the entries for repair".into() })
}

/// Words that the generator would not hand on are refused before anything is tried.
fn not_lost(system: &dyn System, words: &[String]) -> Result<()> {
    let name = generator::VARIABLE;
    let (why, cure) = match generator::lost(system, DROP_IN, words) {
        None => return Ok(()),
        Some(LossReason::SetAnew(file)) => (
            format!("{file} is read after it and sets {name} anew"),
            format!("write {name}=\"${name} ...\" in {file}, or rename it to come before"),
        ),
        Some(LossReason::Lines(file)) => (
            format!("{name} in {file} goes over more than one line, so the menu would get half of the line"),
            format!("write {name} in {file} on one line, then plan again"),
        ),
    };
    Err(Error::new(format!("give words to GRUB by {DROP_IN}"), why, cure))
}

fn entry_of<'a, 'b>(asked: &BootSpec<'_>, entries: &'a [MenuEntry<'b>]) -> Result<&'a MenuEntry<'b>> {
    let wanted = asked.boot.default_entry().and(asked.entry());
    let found = entries.iter().find(|entry| wanted.is_some_and(|wanted| wanted.id == entry.entry.id));
    found.filter(|entry| entry.entry.kernel.is_some()).ok_or_else(|| {
        Error::new(
            format!("find the entry that {} boots", asked.boot.folder),
            "GRUB_DEFAULT names none that boots Linux",
            "run update-grub, or set GRUB_DEFAULT=0 in /etc/default/grub",
        )
    })
}

/// A copy of an entry under our id, with our words in its line. Its head keeps all else: who may boot it
/// above all.
fn copy_of(entry: &MenuEntry<'_>, words: &[String]) -> String {
    let boots = |statement: &str| {
        let rest = ["linux16", "linuxefi", "linux"].iter().find_map(|key| statement.strip_prefix(key));
        rest.is_some_and(|rest| rest.starts_with([' ', '\t']))
    };
    let mut copy = String::new();
    for (number, line) in entry.block.lines().enumerate() {
        let line = match number {
            0 => entry.head("Isolator trial", TRIAL),
            _ if boots(line.trim_start()) => with_words(line, words),
            _ => line.to_string(),
        };
        copy.push_str(&line);
        copy.push('\n');
    }
    copy
}

/// The block of variables with `entry` armed for one boot; none where GRUB could not clear it again.
pub(super) fn arm(system: &dyn System, path: &str, entry: &str) -> Result<Option<Step>> {
    let Some(old) = Kept::of(system, path)? else { return Ok(None) };
    let real = system.real_path(path).unwrap_or_else(|_| path.to_string());
    let Some(mut block) = GrubEnvironment::read(&old.text).filter(|_| guard::loader_can_write(system, &real))
    else {
        return Ok(None);
    };
    if block.get("next_entry").is_some_and(|armed| !armed.is_empty() && armed != entry) {
        return Err(Error::new(
            format!("arm an entry in {path}"),
            "another one is armed for the next boot",
            "boot that first, or run: grub-editenv - unset next_entry",
        ));
    }
    block.set("next_entry", Some(entry));
    let own = OwnPart::Variable { name: "next_entry".into(), value: entry.into() };
    let new = block.text().map(|text| Kept::new(&text, Some(&old)));
    Ok(new.map(|new| Step::File { path: path.into(), old: Some(old), new: Some(new), own }))
}
