// SPDX-License-Identifier: MIT OR Apache-2.0
//! What boots this machine: the loader, its entries and their lines, and the line that runs.
//!
//! This is the one reader of boot loader files. What it reads can be written back to the byte (the types in the
//! modules below), so that whoever edits such a file changes only what it means to.
//!
//! Limits: the files are read as their usual writers write them, a script of GRUB's that somebody wrote by hand may
//! do more; loaders that keep their settings outside files are named, not read.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod bls;
mod detect;
pub mod extlinux;
pub mod grub;
pub mod line;
pub mod lines;
pub mod pi;
mod read;
pub mod shell;

pub use shell::Variables;

use crate::tree::Tree;

/// What loads the kernel, told apart by how its settings are changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// GRUB with Debian's drop-in files, `/etc/default/grub.d`.
    GrubDebian,
    /// GRUB with entries after the Boot Loader Specification: Fedora, RHEL and their kin.
    GrubBls,
    /// GRUB whose menu is generated from `/etc/default/grub` alone.
    Grub,
    /// extlinux.conf on NVIDIA Jetson, read by L4TLauncher or U-Boot.
    L4tExtlinux,
    /// extlinux.conf elsewhere.
    Extlinux,
    /// systemd-boot with entries in files.
    SystemdBoot,
    /// systemd-boot, or the firmware, with unified kernel images: the line is within the image.
    UnifiedKernelImage,
    /// The firmware of a Raspberry Pi.
    RaspberryPi,
    /// U-Boot with an environment or a script.
    UBoot,
    /// ostree deployments (rpm-ostree, bootc), whatever loader lies below.
    Ostree,
    /// None that is known here.
    #[default]
    Unknown,
}

/// What boots this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Boot {
    /// The loader.
    pub loader: Loader,
    /// The files by which it was recognised.
    pub seen: Vec<String>,
    /// The folder of its files as a path of this machine, `/boot/grub` for example.
    pub folder: String,
    /// What it can boot, in its own order.
    pub entries: Vec<Entry>,
    /// The place in `entries` of the one that is booted when nobody chooses; absent where that is not known.
    pub default: Option<usize>,
    /// The entry that is armed for the next boot only.
    pub next: Option<String>,
    /// For how many tenths of a second a person may choose; 0 is not at all, absent is unknown.
    pub menu_tenths: Option<u32>,
    /// The lines from which entries are made, and the file or variable of each.
    pub sources: Vec<Source>,
    /// Files that could not be read or understood, and why.
    pub unread: Vec<String>,
}

/// One entry of a boot loader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Entry {
    /// Its name for the loader.
    pub id: String,
    /// What a person reads.
    pub title: String,
    /// The file in which it stands.
    pub file: String,
    /// The kernel, as the loader names it.
    pub kernel: Option<String>,
    /// Its initial RAM disks, as the loader names them.
    pub initrd: Vec<String>,
    /// The boot line.
    pub options: String,
    /// Whether it is meant for repair.
    pub recovery: bool,
    /// How often it may still fail, where boots are counted.
    pub tries_left: Option<u32>,
}

/// A line from which entries are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Source {
    /// The file.
    pub file: String,
    /// The variable in it, where it is not the whole file.
    pub variable: Option<String>,
    /// The line; absent where only a shell could tell.
    pub line: Option<String>,
    /// Whether entries for repair get it too.
    pub recovery: bool,
}

/// How the line that runs differs from what is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Drift {
    /// Words that the sources of the entries have and no default entry has: edited, but never generated.
    pub never_generated: Vec<String>,
    /// Words that the default entry has and the running line lacks: a reboot is pending, or another entry runs.
    pub not_running: Vec<String>,
    /// Words that run and the default entry lacks: set by hand, or another entry runs. Empty where firmware adds words.
    pub not_configured: Vec<String>,
    /// The entries all of whose words are in the running line.
    pub running: Vec<String>,
}

/// Reads what boots the machine whose files lie below `root`; `/` is the live one.
pub fn read(root: &Path) -> Boot {
    let mut tree = Tree::new(root);
    let mut boot = read_tree(&mut tree);
    boot.unread = tree.unread();
    boot
}

/// As [`read`], from files that are read for more than this; the tree keeps the unread ones.
pub(crate) fn read_tree(tree: &mut Tree) -> Boot {
    let found = detect::loader(tree);
    let mut boot = Boot { loader: found.loader, seen: found.seen, folder: found.folder, ..Boot::default() };
    read::entries(tree, &mut boot);
    boot
}

impl Boot {
    /// The entry that is booted when nobody chooses.
    pub fn default_entry(&self) -> Option<&Entry> {
        self.entries.get(self.default?)
    }

    /// How `running`, the line of `/proc/cmdline`, differs from what is configured; none where no default is known.
    pub fn drift(&self, running: &str) -> Option<Drift> {
        let default = self.default_entry()?;
        let firmware_adds = matches!(self.loader, Loader::RaspberryPi | Loader::L4tExtlinux | Loader::UBoot);
        let has = |line: &str, raw: &str| line::words(line).any(|word| word.raw == raw);
        let missing = |of: &str, from: &str| -> Vec<String> {
            let of = line::words(of).filter(|word| !has(from, word.raw) && !by_loader(word));
            of.map(|word| word.raw.to_string()).collect()
        };
        let sources = self.sources.iter().filter_map(|source| source.line.as_deref());
        let ran = self.entries.iter().filter(|entry| !entry.options.is_empty());
        Some(Drift {
            never_generated: sources.flat_map(|line| missing(line, &default.options)).collect(),
            not_running: missing(&default.options, running),
            not_configured: if firmware_adds { Vec::new() } else { missing(running, &default.options) },
            running: ran.filter(|e| missing(&e.options, running).is_empty()).map(|e| e.id.clone()).collect(),
        })
    }
}

/// Words that loaders put in themselves, or replace.
fn by_loader(word: &line::Word<'_>) -> bool {
    // `serial0` is a Raspberry Pi's name for whichever port its firmware chooses.
    matches!(word.name, "BOOT_IMAGE" | "initrd")
        || word.raw.starts_with('$')
        || word.raw.starts_with("console=serial")
}
