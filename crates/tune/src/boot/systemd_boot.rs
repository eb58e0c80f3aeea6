// SPDX-License-Identifier: MIT OR Apache-2.0
//! systemd-boot with entries in files.
//!
//! Trial: an entry with one try left, `isolator-trial+1.conf`, whose sort key puts it first. systemd-boot
//! counts the try down before it boots; an entry without tries goes last, so the next boot is the old one
//! unless systemd blesses this. `bootctl set-oneshot` needs EFI variables, which PREEMPT_RT kernels switch
//! off. Lasting: the options of every entry, and `/etc/kernel/cmdline`, from which the next kernel gets its
//! own.

use machine::boot::bls::EntryFile;

use super::{BootMethod, BootSpec, TRIAL, file, first_line_with, text};
use crate::system::System;
use crate::transaction::{OwnPart, Step};
use crate::{Error, Result};

pub(super) fn first(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    if asked.boot.entries.is_empty() {
        return Err(Error::new(
            "change the boot line",
            "systemd-boot started this machine, and no mounted partition has its entries",
            "mount the EFI system partition (at /efi or /boot) and plan again",
        ));
    }
    let Some(default) = asked.boot.default_entry().and(asked.entry()) else {
        return Err(Error::new(
            "change the boot line",
            format!("which entry of {} is booted is not known", asked.boot.folder),
            "name one by `default` in loader.conf",
        ));
    };
    let conf = asked.boot.seen.first().cloned().unwrap_or_default();
    let chosen = EntryFile::read(&text(system, &conf)?).values("default").next().is_some();
    let stored = "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let by_order = !chosen && system.stat(stored).is_err();
    let mut copy = EntryFile::read(&text(system, &default.file)?);
    copy.set("title", "Isolator trial");
    copy.add_options(asked.words);
    let path = |name: &str| format!("{}/entries/{name}.conf", asked.boot.folder);
    if by_order {
        copy.set("sort-key", "0-isolator");
        let entry = file(system, &path(&format!("{TRIAL}+1")), OwnPart::Counted, |_| copy.text())?;
        return Ok(BootMethod::Trial { steps: vec![entry], start: "reboot".into() });
    }
    if !asked.real_time {
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
    lasting(system, asked, false)
}

pub(super) fn lasting(system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
    let words = asked.words.to_vec();
    let ours = |id: &str| id == TRIAL;
    let default = asked.boot.default_entry().map(|entry| entry.id.clone());
    let others = |id: &String| Some(id) != default.as_ref() && !ours(id);
    let fallback = asked.boot.entries.iter().find(|entry| others(&entry.id));
    let shown = asked.boot.menu_tenths.is_some_and(|tenths| tenths > 0);
    if !tried && (fallback.is_none() || !shown) {
        return Err(Error::new(
            "change the boot line",
            "loader.conf names a default, so no entry is tried once, and there is no other entry to choose in the menu",
            "take `default` out of loader.conf, or keep a second kernel and set `timeout 3`",
        ));
    }
    let mut steps = Vec::new();
    for entry in asked.boot.entries.iter().filter(|entry| !ours(&entry.id) && !entry.recovery) {
        if !asked.of_this_system(entry) {
            continue;
        }
        // Without a trial the others are what is left to boot.
        if !tried && others(&entry.id) {
            continue;
        }
        let mut changed = EntryFile::read(&text(system, &entry.file)?);
        changed.add_options(&words);
        steps.push(file(system, &entry.file, OwnPart::Options { words: words.clone() }, |_| changed.text())?);
    }
    let line = asked.boot.default_entry().map(|entry| entry.options.clone()).unwrap_or_default();
    if system.stat("/etc/kernel").is_ok() {
        let own = OwnPart::Line { words: words.clone() };
        steps.push(file(system, "/etc/kernel/cmdline", own, |text| {
            let text = if text.is_empty() { format!("{line}\n") } else { text.to_string() };
            first_line_with(&text, &words)
        })?);
    }
    let fallback = fallback.map_or("no other entry".into(), |entry| format!("the entry '{}'", entry.title));
    Ok(BootMethod::Lasting { steps, fallback })
}
