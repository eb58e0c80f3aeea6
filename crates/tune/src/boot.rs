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

use machine::Boot;
use machine::boot::{BootEntry, Keeper, Loader, line, roots};

mod bls;
mod extlinux;
mod grub;
pub mod guard;
mod ostree;
mod pi;
mod systemd_boot;
#[cfg(test)]
pub(crate) mod tests;
pub mod uboot;

pub(crate) use grub::DROP_IN;
pub(crate) use uboot::OPTIONAL;

use crate::Result;
use crate::system::{System, failed};
use crate::transaction::files::Kept;
use crate::transaction::{OwnPart, Step};

/// What is to come into the boot line of which machine.
#[derive(Debug, Clone)]
pub struct BootSpec<'a> {
    /// What boots it.
    pub boot: &'a Boot,
    /// The words.
    pub words: &'a [String],
    /// The release of the kernel that runs.
    pub release: Option<&'a str>,
    /// The line that runs, `/proc/cmdline`; none where it is not known.
    pub running: Option<&'a str>,
    /// Whether that kernel is PREEMPT_RT, which switches EFI's variables off.
    pub real_time: bool,
}

impl BootSpec<'_> {
    /// The entry that is copied: the one that runs where it can be told, else the default.
    fn entry(&self) -> Option<&BootEntry> {
        let runs = self.boot.running_entry(self.release, self.running.unwrap_or_default());
        runs.filter(|entry| !entry.id.ends_with(TRIAL)).or_else(|| self.boot.default_entry())
    }

    /// Whether an entry boots the system that runs: another one may keep its entries in the same folder.
    fn of_this_system(&self, entry: &BootEntry) -> bool {
        may_be_same_root(self.entry().map_or("", |entry| &entry.options), &entry.options)
    }
}

/// Whether two lines may have the same root: one that names none may have any.
fn may_be_same_root(one: &str, other: &str) -> bool {
    let ones: Vec<&str> = roots(one).collect();
    ones.is_empty() || roots(other).next().is_none() || roots(other).any(|root| ones.contains(&root))
}

/// How words come into the boot line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootMethod {
    /// An entry that is booted once.
    Trial {
        /// What to do.
        steps: Vec<Step>,
        /// The command that starts it.
        start: String,
    },
    /// Every next boot.
    Lasting {
        /// What to do.
        steps: Vec<Step>,
        /// The entry that still boots if this one does not.
        fallback: String,
    },
    /// What a person has to do.
    Instructions {
        /// Why we do not.
        why: String,
        /// The steps.
        lines: Vec<String>,
    },
}

/// The id of an entry that is tried.
pub const TRIAL: &str = "isolator-trial";

/// What `apply` does.
pub fn first(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    guard::check_words(asked)?;
    guard::duplicates(asked)?;
    if let Some(keeper) = &asked.boot.keeper {
        return Ok(by_keeper(asked, keeper));
    }
    guard::booted(asked)?;
    guard::bootable(system, asked)?;
    match asked.boot.loader {
        Loader::GrubDebian => grub::first(system, asked),
        Loader::GrubBls => bls::first(system, asked),
        Loader::L4tExtlinux => extlinux::lasting(system, asked),
        Loader::SystemdBoot => systemd_boot::first(system, asked),
        Loader::RaspberryPi => pi::first(system, asked),
        Loader::UBoot => uboot::lasting(system, asked),
        Loader::Ostree => ostree::lasting(system, asked),
        Loader::Grub | Loader::Extlinux | Loader::UnifiedKernelImage | Loader::Unknown => {
            Ok(by_hand(system, asked))
        }
    }
}

/// What `confirm` does after a trial that held.
pub fn lasting(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    guard::check_words(asked)?;
    guard::duplicates(asked)?;
    if let Some(keeper) = &asked.boot.keeper {
        return Ok(by_keeper(asked, keeper));
    }
    guard::booted(asked)?;
    match asked.boot.loader {
        Loader::GrubDebian => grub::lasting(system, asked),
        Loader::GrubBls => bls::lasting(system, asked, true),
        Loader::SystemdBoot => systemd_boot::lasting(system, asked, true),
        Loader::RaspberryPi => pi::lasting(system, asked),
        _ => first(system, asked),
    }
}

/// A file that is changed, if it is: what is there is kept.
fn file(system: &dyn System, path: &str, own: OwnPart, change: impl FnOnce(&str) -> String) -> Result<Step> {
    let old = Kept::of(system, path)?;
    let text = change(old.as_ref().map_or("", |kept| kept.text.as_str()));
    let new = Some(Kept::new(&text, old.as_ref()));
    Ok(Step::File { path: path.to_string(), old, new, own })
}

/// Words added to the first line of `text`; what follows stays.
fn first_line_with(text: &str, words: &[String]) -> String {
    let (first, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    line::with_words(first, words) + rest
}

fn text(system: &dyn System, path: &str) -> Result<String> {
    crate::system::text(system, path).map_err(|error| failed("read", path, &error))
}

/// What a person tells the program that writes the loader's files.
fn by_keeper(asked: &BootSpec<'_>, keeper: &Keeper) -> BootMethod {
    let words = asked.words.join(" ");
    let mut lines: Vec<String> = keeper.steps.iter().map(|step| step.replace("WORDS", &words)).collect();
    lines.push("reboot, then run: isolator tune verify".to_string());
    BootMethod::Instructions { why: format!("{} writes the boot loader's files anew", keeper.name), lines }
}

fn by_hand(system: &mut dyn System, asked: &BootSpec<'_>) -> BootMethod {
    let words = asked.words.join(" ");
    let folder = &asked.boot.folder;
    let (why, lines) = match asked.boot.loader {
        Loader::Grub => (
            "this GRUB reads no drop-in files, and /etc/default/grub belongs to you".to_string(),
            vec![
                format!("add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {words}"),
                format!("run: {} -o {folder}/grub.cfg", mkconfig(system)),
            ],
        ),
        Loader::Extlinux => (
            "extlinux boots nothing only once, and this file is made by another program".to_string(),
            vec![format!("add to the append line of {folder}/extlinux.conf: {words}")],
        ),
        Loader::UnifiedKernelImage => (
            "the boot line is within a kernel image, which may be signed".to_string(),
            vec![
                format!("add to /etc/kernel/cmdline: {words}"),
                "make the image anew with the tool that made it: ukify, mkinitcpio -P, dracut -f or kernel-install".to_string(),
            ],
        ),
        _ => (
            "no boot loader that is known was found".to_string(),
            vec![format!("add to the kernel's boot line: {words}")],
        ),
    };
    let mut lines = lines;
    lines.push("reboot, then run: isolator tune verify".to_string());
    BootMethod::Instructions { why, lines }
}

/// GRUB's generator under the name that it has here: Fedora and SUSE have another than Debian and Arch.
fn mkconfig(system: &dyn System) -> &'static str {
    let there = |name: &&str| {
        ["/usr/sbin", "/usr/bin", "/sbin"]
            .iter()
            .any(|folder| system.stat(&format!("{folder}/{name}")).is_ok())
    };
    ["grub-mkconfig", "grub2-mkconfig"].into_iter().find(there).unwrap_or("grub-mkconfig")
}
