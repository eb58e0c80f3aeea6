// SPDX-License-Identifier: MIT OR Apache-2.0
//! systemd-boot with entries in files.
//!
//! Trial: an entry that `bootctl set-oneshot` names for the next boot. That needs EFI's variables, which
//! PREEMPT_RT kernels switch off: there it is an entry with one try left, `isolator-trial+1.conf`, whose sort
//! key puts it first. systemd-boot counts the try down before it boots, an entry without tries goes last, and
//! without variables systemd blesses none. Lasting: the options of every entry, and `/etc/kernel/cmdline`,
//! from which the next kernel gets its own.

use inspect::boot::bls::{self, EntryFile};
use machine::boot::BootEntry;
use machine::boot::line::value;

use super::spec::{BootLoader, BootMethod, BootSpec, file, first_line_with, lasts, text, untouched};
use crate::places::{TRIAL, TRIAL_TITLE};
use crate::record::Step;
use crate::record::own::OwnPart;
use crate::system::System;
use crate::{Error, Result};

/// systemd-boot.
pub(super) struct SystemdBoot;

impl BootLoader for SystemdBoot {
    fn find<'a>(&self, _: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        let refuse = |why: String, cure: &str| Err(Error::new("change the boot line", why, cure));
        if asked.boot.entries.is_empty() {
            return refuse(
                "systemd-boot started this machine, and no mounted partition has its entries".into(),
                "mount the EFI system partition (at /efi or /boot) and plan again",
            );
        }
        match asked.boot.default_entry().and(asked.entry()) {
            Some(entry) => Ok(entry),
            None => refuse(
                format!("which entry of {} is booted is not known", asked.boot.folder),
                "name one by `default` in loader.conf",
            ),
        }
    }

    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
        let found = self.find(system, asked)?;
        let mut copy = EntryFile::read(&text(system, &found.file)?);
        copy.set("title", TRIAL_TITLE);
        copy.add_options(asked.words);
        let path = |name: &str| format!("{}/entries/{name}.conf", asked.boot.folder);
        // With variables systemd blesses an entry that was counted down, which would then be the first for
        // good.
        if has_variables(system, asked) {
            copy.set("sort-key", "zz-isolator");
            let entry = file(system, &path(TRIAL), OwnPart::Whole, |_| copy.text())?;
            let bootctl = |id: &str| vec!["bootctl".to_string(), "set-oneshot".into(), id.into()];
            let arm = Step::Command {
                run: bootctl(&format!("{TRIAL}.conf")),
                undo: bootctl(""),
                volatile: false,
                needed: true,
            };
            return Ok(BootMethod::Trial { steps: vec![entry, arm], start: "reboot".into() });
        }
        if by_order(system, asked)? && comes_first(system, asked, &mut copy)? {
            let entry = file(system, &path(&format!("{TRIAL}+1")), OwnPart::Counted, |_| copy.text())?;
            return Ok(BootMethod::Trial { steps: vec![entry], start: "reboot".into() });
        }
        self.lasting(system, asked, false)
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
        let words = asked.words.to_vec();
        let default = asked.boot.default_entry().map(|entry| entry.id.clone());
        let mut steps = Vec::new();
        for entry in asked.boot.entries.iter().filter(|entry| entry.id != TRIAL && !entry.recovery) {
            // Without a trial the others are what is left to boot.
            if !asked.of_this_system(entry) || (!tried && Some(&entry.id) != default.as_ref()) {
                continue;
            }
            let mut changed = EntryFile::read(&text(system, &entry.file)?);
            changed.add_options(&words);
            let own = OwnPart::Options { words: words.clone() };
            steps.push(file(system, &entry.file, own, |_| changed.text())?);
        }
        let line = asked.boot.default_entry().map(|entry| entry.options.clone()).unwrap_or_default();
        if system.stat("/etc/kernel").is_ok() {
            let own = OwnPart::Line { words: words.clone() };
            steps.push(file(system, "/etc/kernel/cmdline", own, |text| {
                let text = if text.is_empty() { format!("{line}\n") } else { text.to_string() };
                first_line_with(&text, &words)
            })?);
        }
        let refusal = (
            "loader.conf names a default or another entry comes first, so none is tried once, and there is no other to \
             choose in the menu",
            "take `default` out of loader.conf, or keep a second kernel and set `timeout 3`",
        );
        lasts(self, system, asked, (steps, tried), refusal)
    }

    /// An entry that is left as it is, which the menu must be shown to choose.
    fn fallback(&self, system: &dyn System, asked: &BootSpec<'_>, steps: &[Step]) -> Option<String> {
        let shown = asked.boot.menu_tenths.is_some_and(|tenths| tenths > 0);
        let other = untouched(system, asked, steps).next().filter(|_| shown)?;
        Some(format!("the entry '{}'", other.title))
    }
}

/// Whether EFI's variables work: where any is seen they do. PREEMPT_RT switches the firmware's services off
/// unless `efi=runtime` asks for them; then systemd cannot bless an entry that was counted down either.
fn has_variables(system: &dyn System, asked: &BootSpec<'_>) -> bool {
    let seen = system.names("/sys/firmware/efi/efivars").is_ok_and(|names| !names.is_empty());
    let efi = value(asked.running.unwrap_or_default(), "efi").unwrap_or_default();
    let says = |word: &str| efi.split(',').any(|part| part == word);
    seen || if asked.real_time { says("runtime") } else { !says("noruntime") }
}

/// Gives the trial a sort key that puts it before all other entries; whether there is one.
fn comes_first(system: &dyn System, asked: &BootSpec<'_>, trial: &mut EntryFile) -> Result<bool> {
    let mut others = Vec::new();
    for entry in &asked.boot.entries {
        others.push((EntryFile::read(&text(system, &entry.file)?), entry.clone()));
    }
    for key in ["0-isolator", "--0-isolator"] {
        trial.set("sort-key", key);
        let mut all = others.clone();
        all.push((trial.clone(), trial.entry(&format!("{TRIAL}+1.conf"))));
        bls::sort(&mut all);
        if all.first().is_some_and(|(_, entry)| entry.id == TRIAL) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the entry that comes first is booted: neither a file nor a variable names a default.
fn by_order(system: &dyn System, asked: &BootSpec<'_>) -> Result<bool> {
    let conf = asked.boot.seen.first().cloned().unwrap_or_default();
    let settings = system.stat(&conf).map_or(Ok(String::new()), |_| text(system, &conf))?;
    let chosen = EntryFile::read(&settings).default_pattern().is_some();
    let stored = "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    Ok(!chosen && system.stat(stored).is_err())
}
