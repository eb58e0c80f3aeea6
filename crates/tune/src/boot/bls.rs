// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB with an entry per file: Fedora, RHEL and their kin.
//!
//! Trial: one more entry, a copy of the one that runs, named as rescue entries are, so that it is never the
//! newest; armed by `next_entry`. Lasting: the options of every entry but those for repair, or the variable
//! `kernelopts` where entries use it (RHEL 8); and what the next kernel will get, `/etc/kernel/cmdline` and
//! `/etc/default/grub`.

use machine::boot::BootEntry;
use machine::boot::bls::EntryFile;
use machine::boot::grub::GrubEnvironment;
use machine::boot::line::with_words;

use super::{BootMethod, BootSpec, TRIAL, file, first_line_with, grub, text};
use crate::system::System;
use crate::transaction::files::Kept;
use crate::transaction::own::with_block;
use crate::transaction::{OwnPart, Step};
use crate::{Error, Result};

const ENTRIES: &str = "/boot/loader/entries";

pub(super) fn first(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    let Some(default) = asked.entry() else {
        return Err(Error::new(
            "change the boot line",
            format!("{ENTRIES} has no entry"),
            "install a kernel",
        ));
    };
    let machine = default.id.split('-').next().filter(|id| id.len() == 32).unwrap_or("isolator");
    let id = format!("{machine}-0-{TRIAL}");
    // A handwritten menu may never ask for the entry, and would not clear it then. On some machines
    // the menu lies on the EFI system partition.
    let menu = crate::system::text(system, &format!("{}/grub.cfg", asked.boot.folder));
    let once = menu.map_or(true, |menu| menu.contains("next_entry"));
    let arm = if once { grub::arm(system, &format!("{}/grubenv", asked.boot.folder), &id)? } else { None };
    if let Some(arm) = arm {
        let mut copy = EntryFile::read(&text(system, &default.file)?);
        copy.set("title", "Isolator trial");
        copy.set("version", &format!("0-{TRIAL}"));
        add(&mut copy, asked.words);
        let entry = file(system, &format!("{ENTRIES}/{id}.conf"), OwnPart::Whole, |_| copy.text())?;
        return Ok(BootMethod::Trial { steps: vec![entry, arm], start: "reboot".into() });
    }
    lasting(system, asked, false)
}

/// Adds words to an entry's line. An entry without a line gets GRUB's own, which any line of ours would
/// replace.
fn add(file: &mut EntryFile, words: &[String]) {
    if file.options().trim().is_empty() {
        file.set("options", "$default_kernelopts");
    }
    file.add_options(words);
}

pub(super) fn lasting(system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
    let mut files = Vec::new();
    for entry in asked.boot.entries.iter().filter(|entry| !entry.id.ends_with(TRIAL)) {
        files.push((entry, EntryFile::read(&text(system, &entry.file)?)));
    }
    let by_variable = |file: &EntryFile| {
        let options = file.options();
        options.contains("$kernelopts") || options.contains("${kernelopts}")
    };
    let changed = |entry: &BootEntry| !entry.recovery && asked.of_this_system(entry);
    let variable = files.iter().any(|(entry, file)| changed(entry) && by_variable(file));
    // An entry for repair that takes its line from the same variable gets our words too.
    let rescue = files.iter().find(|(entry, file)| entry.recovery && !(variable && by_variable(file)));
    let rescue = rescue.map(|(entry, _)| *entry);
    if rescue.is_none() && !tried {
        return Err(Error::new(
            "change the boot line",
            "GRUB cannot boot an entry only once here, and there is no rescue entry with a line of its own to fall back to",
            "install dracut-config-rescue and run: kernel-install add $(uname -r) /lib/modules/$(uname -r)/vmlinuz",
        ));
    }
    let words = asked.words.to_vec();
    let mut steps = Vec::new();
    for (entry, entry_file) in files.iter_mut().filter(|(entry, file)| changed(entry) && !by_variable(file)) {
        add(entry_file, &words);
        let own = OwnPart::Options { words: words.clone() };
        steps.push(file(system, &entry.file, own, |_| entry_file.text())?);
    }
    if variable {
        let path = format!("{}/grubenv", asked.boot.folder);
        let old = Kept::of(system, &path)?;
        let block = old.as_ref().and_then(|old| GrubEnvironment::read(&old.text));
        let new = block.and_then(|mut block| {
            let longer = with_words(block.get("kernelopts")?, &words);
            block.set("kernelopts", Some(&longer));
            block.text()
        });
        let Some(new) = new else {
            let why = "it has no kernelopts, or no room for more";
            return Err(Error::new(format!("change {path}"), why, "run: grub2-mkconfig -o /etc/grub2.cfg"));
        };
        let own = OwnPart::VariableWords { name: "kernelopts".into(), words: words.clone() };
        steps.push(Step::File { new: Some(Kept::new(&new, old.as_ref())), path, old, own });
    }
    // What the next kernel gets.
    if system.stat("/etc/kernel/cmdline").is_ok() {
        let own = OwnPart::Line { words: words.clone() };
        steps.push(file(system, "/etc/kernel/cmdline", own, |text| first_line_with(text, &words))?);
    }
    if system.stat("/etc/default/grub").is_ok() {
        let block = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"", words.join(" "));
        steps.push(file(system, "/etc/default/grub", OwnPart::Block, |text| with_block(text, &block))?);
    }
    let fallback =
        rescue.map_or("no other entry".to_string(), |entry| format!("the entry '{}'", entry.title));
    Ok(BootMethod::Lasting { steps, fallback })
}
