// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaders whose files we do not write: a person is told what to do.

use machine::boot::line::{BootWord, kernel_words, with_words};
use machine::boot::{BootEntry, Keeper, Loader};

use super::spec::{BootLoader, BootMethod, BootSpec};
use crate::record::Step;
use crate::system::System;
use crate::{Error, Result};

/// The variable in which a loader of EFI names itself.
const LOADER_INFO: &str = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

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
        if let Some(keeper) = &asked.boot.keeper {
            return Ok(by_keeper(keeper, &words));
        }
        let (why, mut lines) = match asked.boot.loader {
            Loader::Grub => (
                "this GRUB reads no drop-in files, and /etc/default/grub belongs to you",
                vec![
                    format!("add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {words}"),
                    format!("run: {} -o {folder}/grub.cfg", mkconfig(system)),
                ],
            ),
            Loader::Extlinux => (
                "extlinux boots nothing only once, and this file is made by another program",
                vec![format!("add to the append line of {folder}/extlinux.conf: {words}")],
            ),
            Loader::UnifiedKernelImage => (
                "the boot line is within a kernel image, which may be signed",
                vec![
                    of_image(system, asked),
                    "make the image anew with the tool that made it: ukify, mkinitcpio -P, dracut -f or kernel-install"
                        .to_string(),
                ],
            ),
            _ => unknown(system, asked),
        };
        lines.push("reboot, then run: isolator tune verify".to_string());
        Ok(BootMethod::Instructions { why: why.to_string(), lines })
    }

    fn fallback(&self, _: &dyn System, _: &BootSpec<'_>, _: &[Step]) -> Option<String> {
        None
    }
}

/// The words that a person gives to the program that writes the loader's files.
fn by_keeper(keeper: &Keeper, words: &str) -> BootMethod {
    let mut lines: Vec<String> = keeper.steps.iter().map(|step| step.replace("WORDS", words)).collect();
    lines.push("reboot, then run: isolator tune verify".to_string());
    BootMethod::Instructions { why: format!("{} writes the boot loader's files anew", keeper.name), lines }
}

/// Where the line of the next image comes from. `/etc/kernel/cmdline` is the whole line: a person who makes
/// it of our words alone makes an image without a root.
fn of_image(system: &dyn System, asked: &BootSpec<'_>) -> String {
    let words = asked.words.join(" ");
    let parts = system.names("/etc/cmdline.d").unwrap_or_default();
    if parts.iter().any(|name| name.ends_with(".conf")) {
        return format!("write into /etc/cmdline.d/isolator.conf: {words}");
    }
    if system.stat("/etc/kernel/cmdline").is_ok() {
        return format!("add to /etc/kernel/cmdline: {words}");
    }
    let runs = asked.running.unwrap_or_default();
    let own = |word: &BootWord<'_>| !matches!(word.name, "BOOT_IMAGE" | "initrd");
    let line: Vec<&str> = kernel_words(runs).filter(own).map(|word| word.raw).collect();
    format!(
        "write into /etc/kernel/cmdline, which is not there yet and is the whole line: {}",
        with_words(&line.join(" "), asked.words)
    )
}

/// The instructions where no loader is known by its files.
fn unknown(system: &dyn System, asked: &BootSpec<'_>) -> (&'static str, Vec<String>) {
    let words = asked.words.join(" ");
    let limine =
        ["/boot/limine.conf", "/boot/limine/limine.conf", "/boot/EFI/limine/limine.conf", "/efi/limine.conf"];
    if let Some(path) = limine.into_iter().find(|path| system.stat(path).is_ok()) {
        return (
            "Limine boots nothing only once",
            vec![format!("add to the cmdline: of the entry in {path}: {words}")],
        );
    }
    let by_stub =
        |word: BootWord<'_>| word.is("initrd") && word.value.is_some_and(|path| path.contains('\\'));
    // A loader that names itself started the kernel otherwise.
    let names_itself = system.stat(LOADER_INFO).is_ok();
    if !names_itself && kernel_words(asked.running.unwrap_or_default()).any(by_stub) {
        let line = with_words(asked.running.unwrap_or_default(), asked.words);
        return (
            "a boot entry of the firmware starts the kernel itself (EFI stub)",
            vec![
                "find its loader and disk: efibootmgr -v".to_string(),
                format!(
                    "make an entry beside it: efibootmgr -c -d DISK -p PARTITION -L isolator -l LOADER -u '{line}'"
                ),
                "boot it once by efibootmgr -n NUMBER, before it becomes the first".to_string(),
            ],
        );
    }
    ("no boot loader that is known was found", vec![format!("add to the kernel's boot line: {words}")])
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
