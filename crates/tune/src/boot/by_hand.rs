// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaders whose files we do not write: a person is told what to do.
//!
//! Each instruction is complete: it names the file that this loader reads, and where that file is the whole
//! line, or is not there yet, it gives the whole line. A test follows each to the letter
//! (`boot/tests/literal.rs`).

use inspect::boot::extlinux::Extlinux;
use machine::boot::line::{BootWord, all_words, with_words};
use machine::boot::quoting::in_double_quotes;
use machine::boot::{BootEntry, Keeper, Loader};

use super::spec::{BootLoader, BootMethod, BootSpec};
use crate::record::Step;
use crate::system::{self, System};
use crate::{Error, Result};

mod image;
mod unlisted;

/// The whole line of the next kernel that kernel-install gives.
const KERNEL_LINE: &str = "/etc/kernel/cmdline";

/// Any other loader.
pub(super) struct ByHand;

impl BootLoader for ByHand {
    fn find<'a>(&self, _: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        asked.entry().ok_or_else(|| {
            Error::new("change the boot line", "no entry of a boot loader is known", "change it by hand")
        })
    }

    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
        self.lasting(system, asked, false)
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, _: bool) -> Result<BootMethod> {
        let words = asked.words.join(" ");
        let folder = &asked.boot.folder;
        let (why, mut lines) = match (&asked.boot.keeper, asked.boot.loader) {
            (Some(keeper), _) => (
                format!("{} writes the boot loader's files anew", keeper.name),
                by_keeper(system, asked, keeper),
            ),
            (None, Loader::Grub) => (
                "this GRUB reads no drop-in files, and /etc/default/grub belongs to you".to_string(),
                vec![
                    format!("add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {words}"),
                    format!("run: {} -o {folder}/grub.cfg", mkconfig(system, folder)),
                ],
            ),
            (None, Loader::Extlinux) => extlinux(system, asked),
            (None, Loader::UnifiedKernelImage) => (
                "the boot line is within a kernel image, which may be signed".to_string(),
                image::lines(system, asked),
            ),
            (None, _) => unlisted::lines(system, asked),
        };
        lines.push("reboot, then run: isolator tune verify".to_string());
        Ok(BootMethod::Instructions { why, lines })
    }

    fn fallback(&self, _: &dyn System, _: &BootSpec<'_>, _: &[Step]) -> Option<String> {
        None
    }
}

/// The variable of limine-entry-tool that is the whole line, and its file.
const LIMINE_LINE: (&str, &str) = ("KERNEL_CMDLINE[default]", "/etc/default/limine");

/// The steps of the program that writes the loader's files. What is the whole line is given as a whole where
/// it is not there yet.
fn by_keeper(system: &dyn System, asked: &BootSpec<'_>, keeper: &Keeper) -> Vec<String> {
    let words = asked.words.join(" ");
    let no_file = system.stat(KERNEL_LINE).is_err();
    let (name, file) = LIMINE_LINE;
    let set =
        system::text(system, file).is_ok_and(|text| text.lines().any(|line| line.trim().starts_with(name)));
    let step = |step: &String| match () {
        () if step.contains(&format!("{KERNEL_LINE}: ")) && no_file => new_file(asked, KERNEL_LINE),
        () if step.contains(name) && !set => {
            let line = in_double_quotes(&whole_line(asked));
            format!("write into {file}, where no such line is: {name}=\"{line}\"")
        }
        () => step.replace("WORDS", &words),
    };
    keeper.steps.iter().map(step).collect()
}

/// The line that runs, those words for init among it, without what its loader put in, and with our words.
fn whole_line(asked: &BootSpec<'_>) -> String {
    let own = |word: &BootWord<'_>| !matches!(word.name, "BOOT_IMAGE" | "initrd");
    let runs = all_words(asked.running.unwrap_or_default()).filter(own);
    with_words(&runs.map(|word| word.raw).collect::<Vec<_>>().join(" "), asked.words)
}

/// A file that is the whole line and is not there: a person who makes it of our words alone makes a boot
/// without a root.
fn new_file(asked: &BootSpec<'_>, path: &str) -> String {
    format!("write into {path}, which is not there yet and is the whole line: {}", whole_line(asked))
}

/// One line of a file in place of another.
fn in_place(path: &str, old: &str, new: &str) -> String {
    format!("in {path}, put in place of the line `{old}`: {new}")
}

/// A copy of the default label, so that the old one stays to be chosen.
fn extlinux(system: &dyn System, asked: &BootSpec<'_>) -> (String, Vec<String>) {
    let path = format!("{}/extlinux.conf", asked.boot.folder);
    let why = "extlinux boots nothing only once, and this file is made by another program".to_string();
    let Some(entry) = asked.entry() else {
        let file = Extlinux::read(&system::text(system, &path).unwrap_or_default());
        let place = match file.whole("INCLUDE") {
            Some(included) => format!("the label that is booted, in {included} (which {path} includes)"),
            None => path,
        };
        return (why, vec![format!("add to the append line of {place}: {}", asked.words.join(" "))]);
    };
    let line = format!("append {}", with_words(&entry.options, asked.words));
    let copy = format!(
        "copy the label '{}' in {path} under another name, with TIMEOUT 30 at the top, so that its menu still boots the old line",
        entry.id
    );
    (
        why,
        vec![copy, format!("in {path}, put in place of the append line of the label '{}': {line}", entry.id)],
    )
}

/// GRUB's generator under the name that it has here: Fedora and SUSE have another than Debian and Arch.
fn mkconfig(system: &dyn System, folder: &str) -> &'static str {
    let there = |name: &&str| {
        ["/usr/sbin", "/usr/bin", "/sbin"]
            .iter()
            .any(|folder| system.stat(&format!("{folder}/{name}")).is_ok())
    };
    let usual = if folder.ends_with("grub2") { "grub2-mkconfig" } else { "grub-mkconfig" };
    ["grub-mkconfig", "grub2-mkconfig"].into_iter().find(there).unwrap_or(usual)
}
