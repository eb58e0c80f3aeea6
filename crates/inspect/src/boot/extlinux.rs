// SPDX-License-Identifier: MIT OR Apache-2.0
//! `extlinux.conf`, as NVIDIA's L4TLauncher and U-Boot's distro boot read it.
//!
//! Limits of L4TLauncher, the narrower reader: keywords in capitals, a `#` anywhere cuts the line, ten
//! labels, a menu only where TIMEOUT is not 0 and there are two labels. U-Boot takes any case; so do we when
//! reading.

use std::collections::BTreeMap;

use machine::boot::BootEntry;

use super::lines::{TextLine, end_last, joined, lines};
use super::statement::{Dialect, key_and_rest};

/// The file, which can be written back to the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extlinux {
    lines: Vec<TextLine>,
}

/// Most labels that are looked at.
const MOST_ENTRIES: usize = 1000;
/// Most labels that L4TLauncher reads.
pub const MAX_LABELS: usize = 10;

impl Extlinux {
    /// Cuts the file into lines.
    pub fn read(text: &str) -> Self {
        Extlinux { lines: lines(text) }
    }

    /// The file's bytes.
    pub fn text(&self) -> String {
        joined(&self.lines)
    }

    fn key(line: &TextLine) -> Option<(String, &str)> {
        let (key, rest) = key_and_rest(line.body(), Dialect::CutKeys)?;
        Some((key.to_uppercase(), rest.trim_end()))
    }

    /// The last value of a keyword of the whole file, DEFAULT or TIMEOUT: it may stand after labels, and a
    /// later one wins.
    pub fn whole(&self, key: &str) -> Option<&str> {
        self.lines.iter().rev().filter_map(Self::key).find(|(name, _)| name == key).map(|(_, rest)| rest)
    }

    /// Puts a value in place of the last one of such a keyword; where there is none, it becomes the first
    /// line.
    fn set_whole(&mut self, key: &str, value: &str) {
        let of_key = |line: &&mut TextLine| Self::key(line).is_some_and(|(name, _)| name == key);
        match self.lines.iter_mut().rev().find(of_key) {
            Some(line) => line.set_rest(value),
            None => self.lines.insert(0, TextLine::new(&format!("{key} {value}"))),
        }
    }

    /// Tenths of a second for which the menu is shown; 0 or absent shows none.
    pub fn timeout(&self) -> u32 {
        self.whole("TIMEOUT").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The label that is booted: DEFAULT, or the first where that names none.
    pub fn default_label(&self) -> Option<&str> {
        let labels: Vec<&str> = self.labels().collect();
        let named = self.whole("DEFAULT").filter(|name| labels.contains(name));
        named.or(labels.first().copied())
    }

    /// The labels in their order.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(Self::key).filter(|(key, _)| key == "LABEL").map(|(_, rest)| rest)
    }

    /// The lines of a label: from LABEL up to its last line that says something; a keyword of the whole file
    /// ends it.
    fn block(&self, label: &str) -> Option<std::ops::Range<usize>> {
        let is_label = |line: &TextLine| Self::key(line).is_some_and(|(key, _)| key == "LABEL");
        let start = self
            .lines
            .iter()
            .position(|line| is_label(line) && Self::key(line).is_some_and(|(_, n)| n == label))?;
        let ends = |line: &TextLine| {
            Self::key(line)
                .is_some_and(|(key, _)| matches!(key.as_str(), "LABEL" | "DEFAULT" | "TIMEOUT" | "PROMPT"))
        };
        let next =
            self.lines[start + 1..].iter().position(ends).map_or(self.lines.len(), |at| start + 1 + at);
        let said = self.lines[start..next].iter().rposition(|line| Self::key(line).is_some()).unwrap_or(0);
        Some(start..start + said + 1)
    }

    /// The entries of the first labels; `file` is where this was read. Of labels of one name the first
    /// counts.
    pub fn entries(&self, file: &str) -> Vec<BootEntry> {
        let mut found: Vec<BootEntry> = Vec::new();
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        // Whether the lines belong to the last entry: a keyword of the whole file ends it.
        let mut inside = false;
        for (key, rest) in self.lines.iter().filter_map(Self::key) {
            let rest = rest.to_string();
            let at = found.len();
            let open = found.last_mut().filter(|_| inside);
            match (key.as_str(), open) {
                ("LABEL", _) if at >= MOST_ENTRIES => break,
                ("LABEL", _) => {
                    inside = !first.contains_key(&rest);
                    first.entry(rest.clone()).or_insert(at);
                    found.push(BootEntry { id: rest, file: file.to_string(), ..BootEntry::default() });
                }
                ("DEFAULT" | "TIMEOUT" | "PROMPT", _) => inside = false,
                ("MENU", Some(entry)) if entry.title.is_empty() => {
                    entry.title = rest.strip_prefix("LABEL").unwrap_or(&rest).trim().to_string();
                }
                ("LINUX", Some(entry)) => entry.kernel = Some(rest),
                ("KERNEL", Some(entry)) if entry.kernel.is_none() => entry.kernel = Some(rest),
                ("INITRD", Some(entry)) if entry.initrd.is_empty() => entry.initrd.push(rest),
                ("APPEND", Some(entry)) if entry.options.is_empty() => entry.options = rest,
                _ => {}
            }
        }
        for at in 0..found.len() {
            let of = first[&found[at].id];
            found[at] = found[of].clone();
            if found[at].title.is_empty() {
                found[at].title = found[at].id.clone();
            }
        }
        found
    }

    /// How many lines of `label` give a boot line.
    pub fn appends(&self, label: &str) -> usize {
        let lines = self.block(label).map(|block| &self.lines[block]).unwrap_or_default();
        lines.iter().filter(|line| Self::key(line).is_some_and(|(key, _)| key == "APPEND")).count()
    }

    /// Adds a label `name`, a copy of `from` with another title and line, after all that is there.
    pub fn add_copy(&mut self, from: &str, name: &str, title: &str, append: &str) -> bool {
        let Some(block) = self.block(from) else { return false };
        let mut copy: Vec<TextLine> = self.lines[block].to_vec();
        end_last(&mut copy);
        let mut appended = false;
        for line in &mut copy {
            match Self::key(line).map(|(key, rest)| (key, rest.to_string())) {
                Some((key, _)) if key == "LABEL" => line.set_rest(name),
                Some((key, rest)) if key == "MENU" && rest.to_uppercase().starts_with("LABEL") => {
                    line.set_rest(&format!("{} {title}", &rest[..5]));
                }
                Some((key, _)) if key == "APPEND" => {
                    line.set_rest(append);
                    appended = true;
                }
                _ => {}
            }
        }
        if !appended {
            copy.push(TextLine::new(&format!("      APPEND {append}")));
        }
        end_last(&mut self.lines);
        self.lines.push(TextLine::new(""));
        self.lines.extend(copy);
        true
    }

    /// Takes the label `name` and the empty line before it away.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(mut block) = self.block(name) else { return false };
        if block.start > 0 && self.lines[block.start - 1].body().trim().is_empty() {
            block.start -= 1;
        }
        self.lines.drain(block);
        true
    }

    /// Sets DEFAULT; where there is none, it becomes the first line.
    pub fn set_default(&mut self, label: &str) {
        self.set_whole("DEFAULT", label);
    }

    /// Sets TIMEOUT in tenths of a second; where there is none, it becomes the first line.
    pub fn set_timeout(&mut self, tenths: u32) {
        self.set_whole("TIMEOUT", &tenths.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = include_str!("../../tests/fixtures/boot/l4t/boot/extlinux/extlinux.conf");

    #[test]
    fn reads_what_l4t_ships() {
        let file = Extlinux::read(FILE);
        assert_eq!(file.text(), FILE);
        assert_eq!(file.labels().collect::<Vec<_>>(), ["primary", "real-time"]);
        assert_eq!((file.default_label(), file.timeout()), (Some("real-time"), 30));
        let entries = file.entries("/boot/extlinux/extlinux.conf");
        assert_eq!(entries[1].kernel.as_deref(), Some("/boot/Image.real-time"));
        assert!(
            entries[1].options.starts_with("${cbootargs} root=PARTUUID=")
                && !entries[1].options.contains('#')
        );
    }

    #[test]
    fn a_long_file_has_a_thousand_entries() {
        let text: String = (0..5000).map(|n| format!("label l{n}\n linux /v\n append root=a\n")).collect();
        assert_eq!(Extlinux::read(&text).entries("").len(), MOST_ENTRIES);
        let twice = "label a\n kernel /1\n append x\nlabel a\n linux /2\ndefault a\n initrd /i\n";
        let entries = Extlinux::read(twice).entries("");
        let seen: Vec<_> =
            entries.iter().map(|e| (e.kernel.as_deref(), e.options.as_str(), e.initrd.len())).collect();
        assert_eq!(seen, [(Some("/1"), "x", 0), (Some("/1"), "x", 0)]);
    }

    #[test]
    fn a_copy_leaves_all_that_was_there_and_goes_again_to_the_byte() {
        let mut file = Extlinux::read(FILE);
        assert!(file.add_copy("real-time", "isolator", "Isolator", "root=x isolcpus=3"));
        let text = file.text();
        assert!(text.starts_with(FILE), "{text}");
        assert!(text.ends_with("\n      APPEND root=x isolcpus=3\n"), "{text}");
        assert!(
            text.contains("\nLABEL isolator\n      MENU LABEL Isolator\n      LINUX /boot/Image.real-time\n")
        );
        assert!(file.remove("isolator"));
        assert_eq!(file.text(), FILE);
        assert!(!file.remove("isolator") && !file.add_copy("absent", "x", "x", "x"));
    }
}
