// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB with an entry per file: Fedora, RHEL and their kin.
//!
//! Trial: one more entry, a copy of the one that runs, named as rescue entries are, so that it is never the
//! newest; armed by `next_entry`. Lasting: the options of every entry but those for repair, or the variable
//! `kernelopts` where entries use it (RHEL 8); and what the next kernel will get, `/etc/kernel/cmdline` and
//! `/etc/default/grub`.

use inspect::boot::bls::EntryFile;
use inspect::boot::grub::{self, GrubEnvironment};
use machine::boot::BootEntry;
use machine::boot::line::with_words;

use super::grubenv::{arm, custom_default};
use super::spec::{BootLoader, BootMethod, BootSpec, file, first_line_with, lasts, text, untouched};
use crate::places::{TRIAL, TRIAL_TITLE};
use crate::record::Step;
use crate::record::kept::Kept;
use crate::record::own::{OwnPart, with_block};
use crate::system::System;
use crate::{Error, Result};

/// GRUB with an entry per file.
pub(super) struct GrubBls;

impl BootLoader for GrubBls {
    fn find<'a>(&self, system: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        custom_default(system, &asked.boot.folder)?;
        let folder = asked.boot.seen.first().map_or("/boot/loader/entries", String::as_str);
        asked.entry().ok_or_else(|| {
            Error::new("change the boot line", format!("{folder} has no entry"), "install a kernel")
        })
    }

    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
        let default = self.find(system, asked)?;
        let machine = default.id.split('-').next().filter(|id| id.len() == 32).unwrap_or("isolator");
        let id = format!("{machine}-0-{TRIAL}");
        // A handwritten menu may never ask for the entry, and would not clear it then. On some machines
        // the menu lies on the EFI system partition.
        let menu = crate::system::text(system, &format!("{}/grub.cfg", asked.boot.folder));
        let once = menu.map_or(true, |menu| grub::boots_next_entry(&menu));
        // Many a machine's id begins with a digit: GRUB would take the trial's for the number of an entry.
        let variables = format!("{}/grubenv", asked.boot.folder);
        let armed = if once { arm(system, &variables, TRIAL_TITLE)? } else { None };
        if let Some(arm) = armed {
            let mut copy = EntryFile::read(&text(system, &default.file)?);
            copy.set("title", TRIAL_TITLE);
            copy.set("version", &format!("0-{TRIAL}"));
            add(&mut copy, asked.words);
            let path = format!("{}/{id}.conf", crate::system::folder(&default.file));
            let entry = file(system, &path, OwnPart::Whole, |_| copy.text())?;
            return Ok(BootMethod::Trial { steps: vec![entry, arm], start: "reboot".into() });
        }
        self.lasting(system, asked, false)
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
        let words = asked.words.to_vec();
        let (mut steps, mut variable) = (Vec::new(), false);
        let changed =
            |entry: &&BootEntry| !entry.recovery && !entry.id.ends_with(TRIAL) && asked.of_this_system(entry);
        for entry in asked.boot.entries.iter().filter(changed) {
            let mut entry_file = EntryFile::read(&text(system, &entry.file)?);
            if by_variable(&entry_file) {
                variable = true;
                continue;
            }
            add(&mut entry_file, &words);
            let own = OwnPart::Options { words: words.clone() };
            steps.push(file(system, &entry.file, own, |_| entry_file.text())?);
        }
        if variable {
            steps.push(longer_variable(system, asked)?);
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
        let refusal = (
            "GRUB cannot boot an entry only once here, and there is no rescue entry with a line of its own to fall back to",
            "install dracut-config-rescue and run: kernel-install add $(uname -r) /lib/modules/$(uname -r)/vmlinuz",
        );
        lasts(self, system, asked, (steps, tried), refusal)
    }

    /// An entry for repair that takes its line from the variable that is changed gets our words too.
    fn fallback(&self, system: &dyn System, asked: &BootSpec<'_>, steps: &[Step]) -> Option<String> {
        let variable =
            steps.iter().any(|step| matches!(step, Step::File { own: OwnPart::VariableWords { .. }, .. }));
        let own_line = |entry: &&BootEntry| {
            !variable || text(system, &entry.file).is_ok_and(|text| !by_variable(&EntryFile::read(&text)))
        };
        let repair = untouched(system, asked, steps).filter(|entry| entry.recovery).find(own_line)?;
        Some(format!("the entry '{}'", repair.title))
    }
}

/// Whether an entry takes its line from a variable of GRUB's block.
fn by_variable(file: &EntryFile) -> bool {
    let options = file.options();
    options.contains("$kernelopts") || options.contains("${kernelopts}")
}

/// Adds words to an entry's line. An entry without a line gets GRUB's own, which any line of ours would
/// replace.
fn add(file: &mut EntryFile, words: &[String]) {
    if file.options().trim().is_empty() {
        file.set("options", "$default_kernelopts");
    }
    file.add_options(words);
}

/// The variable from which entries take their line, with our words.
fn longer_variable(system: &dyn System, asked: &BootSpec<'_>) -> Result<Step> {
    let path = format!("{}/grubenv", asked.boot.folder);
    let old = Kept::of(system, &path)?;
    let block = old.as_ref().and_then(|old| GrubEnvironment::read(&old.text));
    let new = block.and_then(|mut block| {
        let longer = with_words(block.get("kernelopts")?, asked.words);
        block.set("kernelopts", Some(&longer));
        block.text()
    });
    let Some(new) = new else {
        let why = "it has no kernelopts, or no room for more";
        return Err(Error::new(format!("change {path}"), why, "run: grub2-mkconfig -o /etc/grub2.cfg"));
    };
    let own = OwnPart::VariableWords { name: "kernelopts".into(), words: asked.words.to_vec() };
    Ok(Step::File { new: Some(Kept::new(&new, old.as_ref())), path, old, own })
}
