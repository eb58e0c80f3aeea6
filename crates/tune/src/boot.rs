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

use machine::boot::{Boot, Loader, line};

mod bls;
mod by_hand;
mod extlinux;
mod grub;
mod grubenv;
pub mod guard;
mod ostree;
mod pi;
mod readback;
mod spec;
mod systemd_boot;
#[cfg(test)]
pub(crate) mod tests;
pub mod uboot;

pub use spec::{BootMethod, BootSpec};

use crate::Result;
use crate::system::System;
use spec::BootLoader;

/// The writer of this machine's line: its loader, or a person where another program keeps the loader's files.
fn of(boot: &Boot) -> &'static dyn BootLoader {
    match boot.loader {
        _ if boot.keeper.is_some() => &by_hand::ByHand,
        Loader::GrubDebian => &grub::GrubDebian,
        Loader::GrubBls => &bls::GrubBls,
        Loader::L4tExtlinux => &extlinux::L4tExtlinux,
        Loader::SystemdBoot => &systemd_boot::SystemdBoot,
        Loader::RaspberryPi => &pi::RaspberryPi,
        Loader::UBoot => &uboot::UBoot,
        Loader::Ostree => &ostree::Ostree,
        Loader::Grub | Loader::Extlinux | Loader::UnifiedKernelImage | Loader::Unknown => &by_hand::ByHand,
    }
}

/// Instructions that keep our words before a `--` of the file that they name: what stands behind it is
/// init's.
fn before_init(system: &dyn System, method: BootMethod) -> BootMethod {
    let BootMethod::Instructions { why, mut lines } = method else { return method };
    let has_end = |path: &str| {
        let text = crate::system::text(system, path).unwrap_or_default();
        let said = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        // Quotes here are the file's, around all of the line.
        let mut words = said.flat_map(|line| line.split([' ', '\t', '"', '\'']));
        words.any(line::has_words_for_init)
    };
    for step in &mut lines {
        let Some((place, words)) = step.strip_prefix("add to ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let mut paths = place.split([' ', ',']).filter(|word| word.starts_with('/'));
        if paths.any(has_end) {
            *step = format!("put before the -- in {}: {words}", place.replace(" in ", " of "));
        }
    }
    BootMethod::Instructions { why, lines }
}

/// The method of `apply`.
pub fn first(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    guard::admit(system, asked, false)?;
    let method = of(asked.boot).first(system, asked)?;
    let method = before_init(system, method);
    readback::as_it_runs(asked, &method)?;
    readback::admit(system, asked, &method)?;
    guard::outlives_boot(system, asked, method.steps())?;
    Ok(method)
}

/// The method of `confirm` after a trial that held.
pub fn lasting(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    guard::admit(system, asked, true)?;
    let method = of(asked.boot).lasting(system, asked, true)?;
    let method = before_init(system, method);
    readback::admit(system, asked, &method)?;
    Ok(method)
}
