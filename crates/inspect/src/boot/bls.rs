// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries after the Boot Loader Specification, one file each in `loader/entries`: read, and their options
//! edited.
//!
//! Reference: <https://uapi-group.org/specifications/specs/boot_loader_specification>. A key stands first
//! in its line;
//! `options` and `initrd` may repeat. GRUB's reader also puts variables in (`$kernelopts`), systemd-boot does
//! not.

use std::cmp::Ordering;

use machine::boot::{BootEntry, line};

use super::lines::{TextLine, joined, lines};

/// An entry's file, which can be written back to the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFile {
    lines: Vec<TextLine>,
}

impl EntryFile {
    /// Cuts the file into lines.
    pub fn read(text: &str) -> Self {
        EntryFile { lines: lines(text) }
    }

    /// The file's bytes.
    pub fn text(&self) -> String {
        joined(&self.lines)
    }

    /// Every value of `key`.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let of_key = move |line: &'a TextLine| line.key_and_rest().filter(|(name, _)| *name == key);
        self.lines.iter().filter_map(of_key).map(|(_, rest)| rest.trim_end())
    }

    /// Of systemd-boot's settings, which have the same form: the pattern of the entry that it boots. systemd
    /// 258 has a key that stands above.
    pub fn default_pattern(&self) -> Option<&str> {
        self.values("preferred").chain(self.values("default")).next()
    }

    /// The whole line of options.
    pub fn options(&self) -> String {
        self.values("options").collect::<Vec<_>>().join(" ")
    }

    /// Puts `value` in place of the first value of `key`, or adds the key at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.lines.iter_mut().find(|line| line.key_and_rest().is_some_and(|(name, _)| name == key)) {
            Some(line) => line.set_rest(value),
            None => {
                super::lines::end_last(&mut self.lines);
                self.lines.push(TextLine::new(&format!("{key} {value}")));
            }
        }
    }

    /// Adds words to the last line of options; where there is none, one is added.
    pub fn add_options(&mut self, more: &[String]) {
        let of_options =
            |line: &&mut TextLine| line.key_and_rest().is_some_and(|(name, _)| name == "options");
        match self.lines.iter_mut().rev().find(of_options) {
            Some(last) => {
                let rest = last.key_and_rest().map_or(String::new(), |(_, rest)| rest.to_string());
                last.set_rest(&line::with_words(&rest, more));
            }
            None => self.set("options", &more.join(" ")),
        }
    }

    /// Takes words out of the lines of options, each once, the last one first.
    pub fn remove_options(&mut self, gone: &[String]) {
        let mut gone = gone.to_vec();
        for at in (0..self.lines.len()).rev() {
            let Some(("options", rest)) = self.lines[at].key_and_rest() else { continue };
            let here: Vec<String> = gone
                .iter()
                .filter(|raw| line::kernel_words(rest).any(|word| word.raw == **raw))
                .cloned()
                .collect();
            let rest = line::without_words(rest, &here);
            gone.retain(|raw| !here.contains(raw));
            self.lines[at].set_rest(&rest);
        }
    }

    /// The entry as it boots. `file` is its name, from which the id comes: without `.conf` and without the
    /// tries that boot counting writes into it.
    pub fn entry(&self, file: &str) -> BootEntry {
        let first = |key| self.values(key).next().map(str::to_string);
        let name = file.rsplit('/').next().unwrap_or(file);
        let (id, tries_left) = counted(name.strip_suffix(".conf").unwrap_or(name));
        let title = first("title").unwrap_or_else(|| id.to_string());
        BootEntry {
            id: id.to_string(),
            recovery: id.contains("-0-rescue") || title.to_lowercase().contains("rescue"),
            title,
            file: file.to_string(),
            kernel: first("linux").or_else(|| first("uki")).or_else(|| first("efi")),
            initrd: self.values("initrd").flat_map(str::split_whitespace).map(str::to_string).collect(),
            options: self.options(),
            tries_left,
            ..BootEntry::default()
        }
    }
}

/// `name+LEFT-DONE` or `name+LEFT` without the count, and how many tries are left.
fn counted(name: &str) -> (&str, Option<u32>) {
    let count = |text: &str| {
        let left = text.split('-').next()?;
        text.split('-').all(|part| part.parse::<u32>().is_ok()).then(|| left.parse().ok()).flatten()
    };
    match name.rsplit_once('+') {
        Some((id, tail)) if count(tail).is_some() => (id, count(tail)),
        _ => (name, None),
    }
}

/// The order in which systemd-boot and GRUB list entries, the newest first; Fedora's GRUB has the same for
/// names of one machine. Reference: boot.c, `boot_entry_compare`: tries, sort key, machine id, version, file
/// name.
pub fn sort(entries: &mut [(EntryFile, BootEntry)]) {
    let first = |file: &EntryFile, key: &str| file.values(key).next().unwrap_or_default().to_string();
    let name = |entry: &BootEntry| format!("{}.conf", entry.id);
    entries.sort_by(|(file_a, a), (file_b, b)| {
        let spent = |entry: &BootEntry| entry.tries_left == Some(0);
        let keyed = |file: &EntryFile| first(file, "sort-key");
        let by_key = match (keyed(file_a).is_empty(), keyed(file_b).is_empty()) {
            (false, false) => keyed(file_a)
                .cmp(&keyed(file_b))
                .then_with(|| first(file_a, "machine-id").cmp(&first(file_b, "machine-id")))
                .then_with(|| by_version(&first(file_b, "version"), &first(file_a, "version"))),
            (one, other) => one.cmp(&other),
        };
        let by_tries = || match (a.tries_left, b.tries_left) {
            (Some(a), Some(b)) => b.cmp(&a),
            _ => Ordering::Equal,
        };
        let by_name = || by_version(&name(b), &name(a));
        spent(a).cmp(&spent(b)).then(by_key).then_with(by_name).then_with(by_tries)
    });
}

/// The letters of a kind with which `text` begins, taken off it.
fn cut<'t>(text: &mut &'t [u8], kind: impl Fn(&u8) -> bool) -> &'t [u8] {
    let at = text.iter().position(|byte| !kind(byte)).unwrap_or(text.len());
    let (head, tail) = text.split_at(at);
    *text = tail;
    head
}

/// Two versions, the older one the less. Reference:
/// <https://uapi-group.org/specifications/specs/version_format_specification>
/// and systemd's `strverscmp_improved`.
fn by_version(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one.as_bytes(), other.as_bytes());
    loop {
        let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"~-^.".contains(byte);
        cut(&mut a, |byte| !known(byte));
        cut(&mut b, |byte| !known(byte));
        // The text with such a mark is the older one; `~` even where the other one has ended.
        for mark in b"~-^." {
            let has = (a.first() == Some(mark), b.first() == Some(mark));
            if *mark == b'-' && (a.is_empty() || b.is_empty()) {
                return a.len().cmp(&b.len());
            }
            match has {
                (true, true) => (a, b) = (&a[1..], &b[1..]),
                (one, other) if one != other => return other.cmp(&one),
                _ => {}
            }
        }
        let digit = |text: &[u8]| text.first().is_some_and(u8::is_ascii_digit);
        let order = if digit(a) || digit(b) {
            let [one, other] = [&mut a, &mut b].map(|text| cut(text, u8::is_ascii_digit));
            // A number is newer than none.
            let value = |digits: &[u8]| {
                let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
                (!digits.is_empty(), digits.len() - zeros, digits[zeros..].to_vec())
            };
            value(one).cmp(&value(other))
        } else {
            let [one, other] = [&mut a, &mut b].map(|text| cut(text, u8::is_ascii_alphabetic));
            one.cmp(other)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# made by hand\ntitle\tFedora Linux (6.8.5)\nversion 6.8.5\nlinux /vmlinuz-6.8.5\n\
                        initrd /initramfs.img $tuned_initrd\noptions  root=UUID=1 ro\noptions rhgb quiet \n";

    #[test]
    fn reads_an_entry_and_gives_back_its_bytes() {
        let file = EntryFile::read(FILE);
        assert_eq!(file.text(), FILE);
        let entry = file.entry("boot/loader/entries/abc-6.8.5+3-1.conf");
        assert_eq!((entry.id.as_str(), entry.tries_left), ("abc-6.8.5", Some(3)));
        assert_eq!(entry.options, "root=UUID=1 ro rhgb quiet");
        assert_eq!(entry.initrd, ["/initramfs.img", "$tuned_initrd"]);
        assert_eq!(counted("a+b"), ("a+b", None));
        assert_eq!(counted("a+0"), ("a", Some(0)));
    }

    #[test]
    fn options_come_and_go_to_the_byte() {
        let mut file = EntryFile::read(FILE);
        let more = ["isolcpus=3".to_string(), "skew_tick=1".to_string()];
        file.add_options(&more);
        assert!(file.text().ends_with("options rhgb quiet isolcpus=3 skew_tick=1 \n"), "{}", file.text());
        file.remove_options(&more);
        assert_eq!(file.text(), FILE);
        let mut bare = EntryFile::read("title x");
        bare.add_options(&more);
        assert_eq!(bare.text(), "title x\noptions isolcpus=3 skew_tick=1\n");
    }

    #[test]
    fn lists_the_newest_first_and_the_spent_last() {
        let of = |name: &str, text: &str| {
            let file = EntryFile::read(text);
            let entry = file.entry(name);
            (file, entry)
        };
        let mut entries = vec![
            of("m-6.9.1.conf", "title a"),
            of("m-6.10.0+0-3.conf", "title b"),
            of("m-6.10.0-1.conf", "title c"),
            of("k.conf", "title d\nsort-key debian\nversion 6.1"),
            of("l.conf", "title e\nsort-key debian\nversion 6.12"),
        ];
        sort(&mut entries);
        let order: Vec<&str> = entries.iter().map(|(_, entry)| entry.title.as_str()).collect();
        assert_eq!(order, ["e", "d", "c", "a", "b"]);
    }

    #[test]
    fn versions_are_compared_as_specified() {
        // Of the specification's examples and systemd's tests, each newer than the one before it.
        for versions in [
            &[
                "122.1",
                "123~rc1-1",
                "123",
                "123-a",
                "123-a.1",
                "123-1",
                "123-1.1",
                "123^post1",
                "123.a-1",
                "123.1-1",
                "123a-1",
                "124-1",
            ][..],
            &["", "~", "9"][1..],
            &["6.9.1-rt5", "6.10.0~rc1", "6.10.0", "6.10.0-9", "6.10.0-10", "6.10.0-100.fc40"],
            &["a", "aa", "b", "0", "1"],
        ] {
            for pair in versions.windows(2) {
                assert_eq!(by_version(pair[0], pair[1]), Ordering::Less, "{pair:?}");
                assert_eq!(by_version(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
            }
        }
        for (one, other) in [("1.09", "1.9"), ("a_1", "a+1"), ("", "")] {
            assert_eq!(by_version(one, other), Ordering::Equal, "{one} {other}");
        }
    }
}
