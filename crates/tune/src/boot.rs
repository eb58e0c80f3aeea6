// SPDX-License-Identifier: MIT OR Apache-2.0
//! How words come into the boot line, loader by loader.
//!
//! [`first`] is what `apply` does: a trial where the loader can boot an entry once and then forget it, and
//! otherwise a lasting change that leaves another entry to boot untouched. [`lasting`] is what `confirm` does
//! after a trial that held. Where neither is safe there are instructions, and nothing is changed.
//!
//! We write the files of entries ourselves, under the record, rather than call the tools that do (`grubby`,
//! `grub-reboot`, `grub-set-default`): those write several files one after the other and cannot take it back.
//! A menu that only a generator can make is printed by that generator, judged, and put in place by us.

use machine::boot::{Keeper, Loader};

mod bls;
mod by_hand;
mod extlinux;
mod grub;
mod grubenv;
pub mod guard;
mod ostree;
mod pi;
mod spec;
mod systemd_boot;
#[cfg(test)]
pub(crate) mod tests;
pub mod uboot;

pub use spec::{BootMethod, BootSpec};

use crate::Result;
use crate::system::System;
use spec::BootLoader;

/// The loader that writes the entries of `loader`.
fn of(loader: Loader) -> &'static dyn BootLoader {
    match loader {
        Loader::GrubDebian => &grub::GrubDebian,
        Loader::GrubBls => &bls::GrubBls,
        Loader::L4tExtlinux => &extlinux::L4tExtlinux,
        Loader::SystemdBoot => &systemd_boot::SystemdBoot,
        Loader::RaspberryPi => &pi::RaspberryPi,
        Loader::UBoot => &uboot::UBoot,
        Loader::Ostree => &ostree::Ostree,
        _ => &by_hand::ByHand,
    }
}

/// What `apply` does.
pub fn first(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    if let Some(method) = begin(system, asked)? {
        return Ok(method);
    }
    guard::bootable(system, asked)?;
    of(asked.boot.loader).first(system, asked)
}

/// What `confirm` does after a trial that held.
pub fn lasting(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    if let Some(method) = begin(system, asked)? {
        return Ok(method);
    }
    of(asked.boot.loader).lasting(system, asked, true)
}

/// Refuses what no loader is asked for; instructions where another program keeps the loader's files.
fn begin(system: &dyn System, asked: &BootSpec<'_>) -> Result<Option<BootMethod>> {
    guard::check_words(asked)?;
    guard::lasts_at_all(system, asked)?;
    guard::duplicates(asked)?;
    if let Some(keeper) = &asked.boot.keeper {
        return Ok(Some(by_keeper(asked, keeper)));
    }
    guard::booted(asked)?;
    Ok(None)
}

/// What a person tells the program that writes the loader's files.
fn by_keeper(asked: &BootSpec<'_>, keeper: &Keeper) -> BootMethod {
    let words = asked.words.join(" ");
    let mut lines: Vec<String> = keeper.steps.iter().map(|step| step.replace("WORDS", &words)).collect();
    lines.push("reboot, then run: isolator tune verify".to_string());
    BootMethod::Instructions { why: format!("{} writes the boot loader's files anew", keeper.name), lines }
}
