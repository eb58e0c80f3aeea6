// SPDX-License-Identifier: MIT OR Apache-2.0
//! The boot of this machine: the loader, its entries and their lines, and the line that runs.
//!
//! The crate `inspect` reads the files of loaders.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod line;
mod loader;
pub mod quoting;

pub use loader::{Loader, LoaderFacts};

/// The boot loader of this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Boot {
    /// The loader.
    pub loader: Loader,
    /// The files by which it was recognised.
    pub seen: Vec<String>,
    /// The folder of its files as a path of this machine, `/boot/grub` for example.
    pub folder: String,
    /// Its boot entries, in its own order.
    pub entries: Vec<BootEntry>,
    /// The index of the default in `entries`; absent if unknown.
    pub default: Option<usize>,
    /// The entry that is armed for the next boot only.
    pub next: Option<String>,
    /// For how many tenths of a second a person may choose; 0 is not at all, absent is unknown.
    pub menu_tenths: Option<u32>,
    /// The lines from which entries are made, and the file or variable of each.
    pub sources: Vec<EntrySource>,
    /// The program that generates these files, if any: its next run overwrites an edit.
    pub keeper: Option<Keeper>,
    /// Files that could not be read or understood, and why.
    pub unread: Vec<String>,
    /// Whether this system is the one that a hypervisor gives the machine to (Xen's dom0); no part of
    /// documents.
    #[serde(skip)]
    pub under_hypervisor: bool,
    /// Mount points of the loader's partitions that are not mounted; no part of documents.
    #[serde(skip)]
    pub unmounted: Vec<String>,
}

/// A program that owns the boot line, and its mark.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Keeper {
    /// Its name.
    pub name: String,
    /// The steps, in order; `WORDS` stands for the tokens.
    pub steps: Vec<String>,
}

/// One entry of a boot loader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Entry")]
pub struct BootEntry {
    /// Its name for the loader.
    pub id: String,
    /// Its title in the menu.
    pub title: String,
    /// The file that defines it.
    pub file: String,
    /// The kernel, as the loader names it.
    pub kernel: Option<String>,
    /// The hypervisor that is booted below the kernel; no part of documents.
    #[serde(skip)]
    pub hypervisor: Option<String>,
    /// Its initial RAM disks, as the loader names them.
    pub initrd: Vec<String>,
    /// The boot line.
    pub options: String,
    /// Whether it is a rescue entry.
    pub recovery: bool,
    /// The script of GRUB's generator that made it, if the menu names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The number of boots that may still fail, if the loader counts boots.
    pub tries_left: Option<u32>,
}

/// A line from which entries are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Source")]
pub struct EntrySource {
    /// The file.
    pub file: String,
    /// The variable in it, if it is not the whole file.
    pub variable: Option<String>,
    /// The line; absent if only a shell can evaluate it.
    pub line: Option<String>,
    /// Whether entries for repair get it too.
    pub recovery: bool,
    /// Whether it is a variable that the loader substitutes at boot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loader: bool,
    /// The reason why the line is unknown, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unclear: Option<UnclearStatement>,
}

/// A statement that cannot be read here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Unclear")]
pub struct UnclearStatement {
    /// Why.
    pub why: String,
    /// The statement as in the file.
    pub text: String,
}

impl EntrySource {
    /// Where it stands: the file, and the variable in it.
    pub fn place(&self) -> String {
        self.variable.as_ref().map_or(self.file.clone(), |name| format!("{name} of {}", self.file))
    }
}

/// How the line that runs differs from what is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Drift")]
pub struct BootDrift {
    /// Words that the sources of the entries have and no default entry has: edited, but never generated.
    pub never_generated: Vec<String>,
    /// Words that the default entry has and the running line lacks: a reboot is pending, or another entry
    /// runs.
    pub not_running: Vec<String>,
    /// Words that run and the default entry lacks: set by hand, or another entry runs. Empty where firmware
    /// adds words.
    pub not_configured: Vec<String>,
    /// Words that the default entry has and nothing that its menu is generated from: gone with the next
    /// generation.
    pub by_hand: Vec<String>,
    /// The entries all of whose words are in the running line.
    pub running: Vec<String>,
}

/// How one line differs from another, words that loaders put in themselves left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineChanges {
    /// Words that are gone.
    pub lost: Vec<String>,
    /// Words that came.
    pub added: Vec<String>,
    /// Parameters whose values stand in another order; the last one counts for the kernel.
    pub moved: Vec<String>,
}

impl LineChanges {
    /// The changes from the line `before` to the line `after`, the words `ours` left out of both.
    pub fn between(before: &str, after: &str, ours: &[String]) -> LineChanges {
        let words = |text| -> Vec<line::BootWord<'_>> {
            let words = line::all_words(text).filter(|word| !by_loader(word));
            words.filter(|word| word.of_init || !ours.iter().any(|own| own == word.raw)).collect()
        };
        let (before, after) = (words(before), words(after));
        let (lost, added) = (beyond(&before, &after), beyond(&after, &before));
        let values = |words: &[line::BootWord<'_>], name: &str| -> Vec<Option<String>> {
            let of_name = words.iter().filter(|word| word.is(name));
            of_name.map(|word| word.value.map(str::to_string)).collect()
        };
        let moves = |name: &&str| values(&before, name) != values(&after, name);
        let moved: BTreeSet<&str> = match lost.is_empty() && added.is_empty() {
            true => before.iter().map(|word| word.name).filter(moves).collect(),
            false => BTreeSet::new(),
        };
        LineChanges { moved: moved.into_iter().map(str::to_string).collect(), lost, added }
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.lost.is_empty() && self.added.is_empty() && self.moved.is_empty()
    }
}

impl fmt::Display for LineChanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("lacks", &self.lost), ("has", &self.added), ("reorders", &self.moved)];
        let said = parts.into_iter().filter(|(_, words)| !words.is_empty());
        let said = said.map(|(what, words)| format!("{what} {}", words.join(" "))).collect::<Vec<_>>();
        out.write_str(&said.join(", "))
    }
}

/// Words of `of` beyond those of `from`, each as often as it is there once more.
fn beyond(of: &[line::BootWord<'_>], from: &[line::BootWord<'_>]) -> Vec<String> {
    let mut left: Vec<_> = from.iter().collect();
    let mut more = Vec::new();
    for word in of {
        match left.iter().position(|other| other.is_same(word)) {
            Some(at) => drop(left.swap_remove(at)),
            None => more.push(word.raw.to_string()),
        }
    }
    more
}

impl Boot {
    /// Whether the default entry has the word `raw` for the kernel.
    pub fn default_has(&self, raw: &str) -> bool {
        self.default_entry()
            .is_some_and(|entry| line::kernel_words(&entry.options).any(|word| word.raw == raw))
    }

    /// The entry that is booted without a choice in the menu.
    pub fn default_entry(&self) -> Option<&BootEntry> {
        self.entries.get(self.default?)
    }

    /// How `running`, the line of `/proc/cmdline`, differs from what is configured; none where nothing is
    /// known of that.
    pub fn drift(&self, running: &str) -> Option<BootDrift> {
        let lines = self.written();
        let lacks = |line: &str, from: &str| raws(missing(line, from));
        let Some(default) = self.default_entry() else {
            let not_running = lines.iter().flat_map(|line| lacks(line, running)).collect();
            return (!lines.is_empty()).then(|| BootDrift { not_running, ..BootDrift::default() });
        };
        let mut not_configured =
            if self.loader.facts().firmware_adds { Vec::new() } else { missing(running, &default.options) };
        let by_loader = self.sources.iter().filter(|source| source.loader);
        let by_loader: Vec<&str> = by_loader.filter_map(|source| source.line.as_deref()).collect();
        not_configured.retain(|word| !by_loader.iter().any(|line| has(line, word)));
        let ran = self.entries.iter().filter(|entry| !entry.options.is_empty());
        Some(BootDrift {
            never_generated: lines.iter().flat_map(|line| lacks(line, &default.options)).collect(),
            not_running: lacks(&default.options, running),
            not_configured: raws(not_configured),
            by_hand: self.by_hand(default),
            running: ran.filter(|e| missing(&e.options, running).is_empty()).map(|e| e.id.clone()).collect(),
        })
    }

    /// The lines that people write: what stands in variables is put together, as their generator does, so
    /// that a `--` of one makes the words of the next init's.
    fn written(&self) -> Vec<String> {
        let written = self.sources.iter().filter(|source| !source.loader);
        let (parts, mut lines): (Vec<_>, Vec<_>) = written
            .filter_map(|source| Some((source.variable.is_some(), source.line.clone()?)))
            .partition(|(variable, _)| *variable);
        let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
        if !parts.is_empty() {
            lines.insert(0, (true, parts.join(" ")));
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// Words of a generated entry that its generator was not told.
    fn by_hand(&self, entry: &BootEntry) -> Vec<String> {
        let generated = matches!(self.loader, Loader::GrubDebian | Loader::Grub)
            && entry.script.as_deref().is_none_or(|script| script.contains("10_linux"));
        let told = self.sources.iter().all(|source| source.unclear.is_none());
        if !generated || !told || self.sources.is_empty() {
            return Vec::new();
        }
        let by_loader = self.sources.iter().filter(|source| source.loader);
        let mut lines = self.written();
        lines.extend(by_loader.filter_map(|source| source.line.clone()));
        let told = |word: &line::BootWord<'_>| lines.iter().any(|line| has(line, word));
        let by_hand = missing(&entry.options, "").into_iter();
        raws(by_hand.filter(|word| !told(word) && !GENERATED.contains(&word.name)).collect())
    }

    /// The partition that is not mounted and would hold the files by which this was read, or might hold
    /// others where no loader was found.
    pub fn unmounted(&self) -> Option<&str> {
        let entries = self.entries.iter().map(|entry| &entry.file);
        let files: Vec<&String> = self.seen.iter().chain(entries).chain([&self.folder]).collect();
        let holds = |point: &&String| {
            let below = |path: &&&String| {
                path.strip_prefix(point.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            self.loader == Loader::Unknown || files.iter().any(|path| below(&path))
        };
        self.unmounted.iter().find(holds).map(String::as_str)
    }

    /// The running line's `root=` and an entry's, where the line that runs is of none of these entries.
    pub fn booted_elsewhere(&self, running: &str) -> Option<(String, String)> {
        let of_entries: Vec<String> = self.entries.iter().flat_map(|entry| roots(&entry.options)).collect();
        let runs: Vec<String> = roots(running).collect();
        let known = runs.iter().any(|root| of_entries.contains(root));
        (!known).then(|| Some((runs.last()?.clone(), of_entries.first()?.clone()))).flatten()
    }

    /// Whether `entry` boots the kernel that runs, as far as names tell.
    pub fn boots_what_runs(&self, entry: &BootEntry, release: Option<&str>, running: &str) -> Option<bool> {
        if entry.hypervisor.is_some() != self.under_hypervisor {
            return Some(false);
        }
        let kernel = entry.kernel.as_deref().filter(|kernel| !kernel.contains('$'))?;
        let name = |path: &str| path.rsplit(['/', '\\', ')']).next().unwrap_or_default().to_string();
        if release.is_some_and(|release| names_release(kernel, release)) {
            return Some(true);
        }
        // kernel-install keeps each kernel in a folder that is named after its release.
        let folders = kernel.rsplit_once(['/', '\\']).map_or("", |(folders, _)| folders);
        if release.is_some() && folders.split(['/', '\\']).any(is_release) {
            return Some(false);
        }
        if let Some(booted) = line::value(running, "BOOT_IMAGE") {
            return Some(name(booted) == name(kernel));
        }
        // A file name with another release; people write shorter versions than a release has.
        let other = name(kernel).split_once('-').is_some_and(|(_, version)| is_release(version));
        if release.is_some() && other {
            return Some(false);
        }
        let disks =
            line::kernel_words(running).filter(|word| word.is("initrd")).filter_map(|word| word.value);
        let disks: Vec<String> = disks.flat_map(|disks| disks.split(',')).map(name).collect();
        let own: Vec<String> = entry.initrd.iter().map(|path| name(path)).collect();
        (!disks.is_empty() && !own.is_empty()).then(|| own.iter().all(|own| disks.contains(own)))
    }

    /// The entry that runs: of those whose words are all in the running line and whose kernel is the one that
    /// runs, one with the most words. The default where it is such a one; none where none is.
    pub fn running_entry(&self, release: Option<&str>, running: &str) -> Option<&BootEntry> {
        let runs = |entry: &&BootEntry| {
            !entry.recovery
                && !entry.options.is_empty()
                && missing(&entry.options, running).is_empty()
                && self.boots_what_runs(entry, release, running) != Some(false)
        };
        let words = |entry: &&BootEntry| line::all_words(&entry.options).count();
        let most = self.entries.iter().filter(runs).map(|entry| words(&entry)).max()?;
        let best = |entry: &&BootEntry| runs(entry) && words(entry) == most;
        self.default_entry().filter(best).or_else(|| self.entries.iter().find(best))
    }
}

/// Words that GRUB's generator puts into an entry by itself.
const GENERATED: [&str; 8] = ["root", "ro", "rw", "rootflags", "rootfstype", "init", "boot", "panic"];

/// Whether `line` has the word `of`.
fn has(line: &str, of: &line::BootWord<'_>) -> bool {
    line::all_words(line).any(|word| word.is_same(of))
}

/// Words of one line that another lacks, without those that loaders put in themselves.
fn missing<'a>(of: &'a str, from: &str) -> Vec<line::BootWord<'a>> {
    let there: BTreeSet<_> = line::all_words(from).map(|word| word.meaning()).collect();
    line::all_words(of).filter(|word| !there.contains(&word.meaning()) && !by_loader(word)).collect()
}

/// Words as they are written.
fn raws(words: Vec<line::BootWord<'_>>) -> Vec<String> {
    words.into_iter().map(|word| word.raw.to_string()).collect()
}

/// The `root=` words of a line whose value is written out, without quotes.
pub fn roots(line: &str) -> impl Iterator<Item = String> {
    let roots = line::kernel_words(line).filter(|word| word.is("root") && !word.raw.contains('$'));
    roots.map(|word| format!("root={}", word.value.unwrap_or_default()))
}

/// Whether `text` begins as a kernel's release does: with three numbers.
fn is_release(text: &str) -> bool {
    let mut numbers = text.splitn(3, '.');
    let number = |text: Option<&str>| {
        text.is_some_and(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
    };
    number(numbers.next())
        && number(numbers.next())
        && numbers.next().is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Whether a part of the path `kernel` is named after this release.
fn names_release(kernel: &str, release: &str) -> bool {
    let before = |at: usize| kernel[..at].ends_with(['-', '/']) || at == 0;
    let after = |at: usize| {
        let rest = &kernel[at..];
        rest.is_empty() || rest.starts_with(['/', '.', '_'])
    };
    kernel.match_indices(release).any(|(at, found)| before(at) && after(at + found.len()))
}

/// Words that loaders put in themselves, or replace.
fn by_loader(word: &line::BootWord<'_>) -> bool {
    // `serial0` is a Raspberry Pi's name for whichever port its firmware chooses.
    matches!(word.name, "BOOT_IMAGE" | "initrd")
        || word.raw.starts_with('$')
        || word.raw.starts_with("console=serial")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(before: &str, after: &str) -> String {
        LineChanges::between(before, after, &["isolcpus=3".to_string()]).to_string()
    }

    #[test]
    fn lines_that_the_kernel_reads_alike_are_one() {
        for (one, other) in [
            ("root=a quiet", "quiet root=a"),
            ("BOOT_IMAGE=/v root=a initrd=\\i", "root=a"),
            ("root=\"UUID=1\" ro", "root=UUID=1 ro"),
            ("dyndbg=\"file a +p\"", "\"dyndbg=file a +p\""),
            ("rcu-nocbs=1", "rcu_nocbs=1"),
            ("root=a isolcpus=3", "root=a"),
            ("root=a $tuned_params", "root=a"),
            ("a -- single", "a -- single"),
            ("root=ZFS=\"r/a\"", "root=ZFS=\"r/a\""),
            ("memmap=1G$2G console=serial0,115200", "memmap=1G$2G"),
        ] {
            assert_eq!(said(one, other), "", "{one}: {other}");
            assert!(LineChanges::between(one, other, &["isolcpus=3".into()]).is_none());
        }
    }

    #[test]
    fn says_what_is_lost_added_and_moved() {
        for (before, after, expected) in [
            ("root=a ro quiet", "root=a ro", "lacks quiet"),
            ("root=a ro", "root=b ro", "lacks root=a, has root=b"),
            ("root=a", "", "lacks root=a"),
            ("a a", "a", "lacks a"),
            ("a", "a a", "has a"),
            ("console=tty0 console=ttyS0", "console=ttyS0 console=tty0", "reorders console"),
            ("a b=1 b=2", "b=2 a b=1", "reorders b"),
            ("a -- single", "a single", "lacks -- single, has single"),
            ("a b -- c", "a -- c b", "lacks b, has b"),
            ("a -- c", "a -- c isolcpus=3", "has isolcpus=3"),
            ("quiet", "quiet=", "lacks quiet, has quiet="),
            ("memmap=1G$2G", "memmap=1G", "lacks memmap=1G$2G, has memmap=1G"),
        ] {
            assert_eq!(said(before, after), expected, "{before}: {after}");
        }
    }
}
