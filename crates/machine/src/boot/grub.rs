// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB: the menu that was generated, the block of variables that outlives a boot, and the files of the
//! generator.
//!
//! The menu (`grub.cfg`) is a script; we read its `menuentry` and `submenu` blocks as `grub-mkconfig` writes
//! them, one statement per line. The block of variables (`grubenv`) is a file of 1024 bytes that GRUB itself
//! writes in place: a heading, lines `name=value`, `#` up to the end (lib/envblk.c).

use super::{BootEntry, Variables};

/// One `menuentry` of a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MenuEntry<'a> {
    /// What it boots.
    pub entry: BootEntry,
    /// Its statements from `menuentry` to the closing brace, as they are written.
    pub block: &'a str,
    /// Per level of menus, itself last: its number, id and title there.
    path: Vec<(usize, String, String)>,
}

impl MenuEntry<'_> {
    /// Its first line under another title and id; classes, users and all else in it stay.
    pub fn head(&self, title: &str, id: &str) -> String {
        let head = self.block.lines().next().unwrap_or_default();
        let words = spans(head);
        let title_at = named(&statement(head)).0;
        let word = |at: usize| words.get(at).map(|span| &head[span.clone()]);
        let mut parts: Vec<String> = Vec::new();
        let mut named = false;
        let mut at = 0;
        while let Some(raw) = word(at) {
            match (at, raw) {
                (at, _) if at == title_at => parts.push(format!("'{title}'")),
                (_, "$menuentry_id_option" | "${menuentry_id_option}" | "--id") => {
                    parts.extend([raw.to_string(), format!("'{id}'")]);
                    named = true;
                    at += 1;
                }
                (_, raw) if raw.starts_with("--id=") => {
                    parts.push(format!("--id='{id}'"));
                    named = true;
                }
                (_, "{") if !named => parts.extend(["--id".to_string(), format!("'{id}'"), raw.to_string()]),
                _ => parts.push(raw.to_string()),
            }
            at += 1;
        }
        parts.join(" ")
    }
}

/// The `menuentry` blocks of `menu`, in their order; `file` is where the menu was read.
pub fn menu<'a>(menu: &'a str, file: &str) -> Vec<MenuEntry<'a>> {
    let mut found: Vec<MenuEntry> = Vec::new();
    // The submenus that are open, with the depth of braces outside each, and how many items each level has.
    let mut open: Vec<((usize, String, String), usize)> = Vec::new();
    let mut counts = vec![0usize];
    let mut current: Option<(usize, usize)> = None;
    let mut depth = 0usize;
    let mut at = 0;
    let mut script = None;
    for line in menu.split_inclusive('\n') {
        let (start, text) = (at, line.trim());
        at += line.len();
        if text.starts_with('#') {
            script = section(text).unwrap_or(script);
            continue;
        }
        let words = statement(text);
        let first = words.first().map(String::as_str).unwrap_or_default();
        let opens = text.ends_with('{');
        if opens && (first == "menuentry" || first == "submenu") && current.is_none() {
            let (title_at, id) = named(&words);
            let title = words.get(title_at).cloned().unwrap_or_default();
            let id = id.unwrap_or_else(|| title.clone());
            let level = counts.last_mut();
            let number = level.map_or(0, |count| std::mem::replace(count, *count + 1));
            let here = (number, id.clone(), title.clone());
            if first == "submenu" {
                open.push((here, depth));
                counts.push(0);
            } else {
                current = Some((start, depth));
                let path = open.iter().map(|(level, _)| level.clone()).chain([here]).collect();
                let script = script.clone();
                let entry = BootEntry { id, title, file: file.to_string(), script, ..BootEntry::default() };
                found.push(MenuEntry { entry, block: "", path });
            }
            depth += 1;
            continue;
        }
        depth += usize::from(opens);
        if text == "}" {
            depth = depth.saturating_sub(1);
            if let Some((from, _)) = current.filter(|(_, outside)| *outside == depth) {
                if let Some(last) = found.last_mut() {
                    last.block = &menu[from..at];
                    last.entry.recovery = recovery(&last.entry);
                }
                current = None;
            } else if open.last().is_some_and(|(_, outside)| *outside == depth) {
                open.pop();
                counts.pop();
            }
            continue;
        }
        if let (Some(_), Some(last)) = (current, found.last_mut()) {
            statement_of_entry(text, &mut last.entry);
        }
    }
    // A file that ends within a block was cut off; what it would boot is not known.
    found.retain(|entry| !entry.block.is_empty());
    found
}

/// Where the title of an entry's first line stands, and the id that the line gives.
fn named(words: &[String]) -> (usize, Option<String>) {
    let (mut title, mut id, mut at) = (None, None, 1);
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "$menuentry_id_option" | "${menuentry_id_option}" | "--id" => {
                at += 1;
                id = words.get(at).cloned();
            }
            "--class" | "--users" | "--hotkey" | "--source" => at += 1,
            long if long.starts_with("--") => id = long.strip_prefix("--id=").map(str::to_string).or(id),
            _ => title = title.or(Some(at)),
        }
        at += 1;
    }
    (title.unwrap_or(1), id)
}

/// The script whose part of the menu begins or ends with a comment of the generator's.
fn section(comment: &str) -> Option<Option<String>> {
    let of =
        |mark: &str| comment.strip_prefix(mark)?.strip_suffix(" ###").map(|script| script.trim().to_string());
    of("### BEGIN ").map(Some).or_else(|| of("### END ").map(|_| None))
}

/// What the menu itself sets before any entry: name, value, and whether that is sure to be reached.
pub fn settings(menu: &str) -> Vec<(String, String, bool)> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    for line in menu.lines() {
        let text = line.trim();
        let words = statement(text);
        let first = words.first().map(String::as_str).unwrap_or_default();
        if matches!(first, "fi" | "}" | "done") {
            depth = depth.saturating_sub(1);
        }
        let setting = words.get(1).filter(|_| first == "set").and_then(|word| word.split_once('='));
        found.extend(setting.map(|(name, value)| (name.to_string(), value.to_string(), depth == 0)));
        depth += usize::from(first == "if" || text.ends_with('{'));
    }
    found
}

/// What `GRUB_DEFAULT` was when the menu was made: the last that it sets besides the entry for one boot.
pub fn default_of(menu: &str) -> Option<String> {
    let once = |value: &&(String, String, bool)| value.0 == "default" && !value.1.contains("next_entry");
    let all = settings(menu);
    let last = all.iter().rfind(once)?;
    Some(if last.1.contains("saved_entry") { "saved".to_string() } else { last.1.clone() })
}

fn statement_of_entry(text: &str, entry: &mut BootEntry) {
    let Some((key, rest)) = text.split_once([' ', '\t']) else { return };
    match key {
        "linux" | "linux16" | "linuxefi" => {
            let (kernel, options) = rest.trim().split_once([' ', '\t']).unwrap_or((rest.trim(), ""));
            entry.kernel = Some(kernel.to_string());
            entry.options = options.trim().to_string();
        }
        "initrd" | "initrd16" | "initrdefi" => {
            entry.initrd = rest.split_whitespace().map(str::to_string).collect();
        }
        _ => {}
    }
}

/// Whether an entry is meant for repair: Debian's recovery mode, and Fedora's rescue.
fn recovery(entry: &BootEntry) -> bool {
    let single = super::line::kernel_words(&entry.options)
        .any(|word| matches!(word.raw, "single" | "recovery" | "dis_ucode_ldr"));
    single || entry.id.contains("-recovery-") || entry.title.contains("(recovery mode)")
}

/// The entry that `default` names, as GRUB reads it: numbers, ids or titles, `>` between levels of menus.
pub fn default_entry(menu: &[MenuEntry<'_>], default: &str) -> Option<usize> {
    let named = |part: &str, level: &(usize, String, String)| {
        part == level.1 || part == level.2 || part.parse() == Ok(level.0)
    };
    let parts: Vec<&str> = default.split('>').collect();
    let fits = |entry: &MenuEntry| {
        entry.path.len() == parts.len()
            && parts.iter().zip(&entry.path).all(|(part, level)| named(part.trim(), level))
    };
    // The number of a submenu boots the first entry in it.
    let below = |entry: &MenuEntry| {
        entry.path.len() > parts.len()
            && parts.iter().zip(&entry.path).all(|(part, level)| named(part, level))
    };
    menu.iter().position(fits).or_else(|| menu.iter().position(below))
}

/// The words of a statement of GRUB's script language, quotes taken off.
fn statement(text: &str) -> Vec<String> {
    let bare = |raw: &str| {
        let mut word = String::new();
        let (mut single, mut double) = (false, false);
        let mut letters = raw.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\'' if !double => single = !single,
                '"' if !single => double = !double,
                '\\' if !single => word.extend(letters.next()),
                other => word.push(other),
            }
        }
        word
    };
    spans(text).into_iter().map(|span| bare(&text[span])).collect()
}

/// Where the words of a statement stand, quotes left on.
fn spans(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    let (mut single, mut double) = (false, false);
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            ' ' | '\t' if !single && !double => {
                found.extend(start.take().map(|start| start..at));
                continue;
            }
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '\\' if !single => drop(letters.next()),
            _ => {}
        }
        start = start.or(Some(at));
    }
    found.extend(start.map(|start| start..text.len()));
    found
}

/// The line that the generator gives to ordinary entries, and the one that it gives to all; `None` where only
/// a shell could tell. `files` are `/etc/default/grub` and its drop-ins in their order.
pub fn generator(files: &[String]) -> (Option<String>, Option<String>, Variables) {
    let mut variables = Variables::default();
    files.iter().for_each(|text| variables.read(text));
    let get = |name| variables.get(name).map(str::to_string);
    (get("GRUB_CMDLINE_LINUX_DEFAULT"), get("GRUB_CMDLINE_LINUX"), variables)
}

/// The block of variables, `grubenv`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrubEnvironment {
    /// How many bytes it has: GRUB reads any number, and writes in place.
    size: usize,
    variables: Vec<(String, String)>,
    comments: Vec<String>,
}

const HEADING: &str = "# GRUB Environment Block";
/// The size that GRUB's own tools give it; shorter ones are no block.
const SIZE: usize = 1024;

impl GrubEnvironment {
    /// Reads the block; none where it is not one.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() < SIZE || !text.starts_with(HEADING) {
            return None;
        }
        let mut read = GrubEnvironment { size: text.len(), variables: Vec::new(), comments: Vec::new() };
        for line in text.lines().skip(1) {
            match line.split_once('=') {
                Some((name, value)) if !name.starts_with('#') => {
                    read.variables.push((name.to_string(), value.replace("\\\\", "\\")));
                }
                _ if line.starts_with("# ") => read.comments.push(line.to_string()),
                _ => {}
            }
        }
        Some(read)
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Sets `name`, or with `None` takes it away.
    pub fn set(&mut self, name: &str, value: Option<&str>) {
        let at = self.variables.iter().position(|(key, _)| key == name);
        match (at, value) {
            (Some(at), Some(value)) => self.variables[at].1 = value.to_string(),
            (Some(at), None) => drop(self.variables.remove(at)),
            (None, Some(value)) => self.variables.push((name.to_string(), value.to_string())),
            (None, None) => {}
        }
    }

    /// The block as GRUB reads it; none where the variables do not fit in.
    pub fn text(&self) -> Option<String> {
        let mut text = format!("{HEADING}\n");
        for line in &self.comments {
            text += &format!("{line}\n");
        }
        for (name, value) in &self.variables {
            text += &format!("{name}={}\n", value.replace('\\', "\\\\"));
        }
        (text.len() <= self.size).then(|| text.clone() + &"#".repeat(self.size - text.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MENU: &str = include_str!("../../tests/fixtures/boot/debian/boot/grub/grub.cfg");

    #[test]
    fn reads_a_generated_menu_with_its_submenu_and_recovery_entries() {
        let seen = menu(MENU, "/boot/grub/grub.cfg");
        let ids: Vec<(&str, bool)> = seen.iter().map(|e| (e.entry.id.as_str(), e.entry.recovery)).collect();
        let root = "1111aaaa-0000-4000-8000-222233334444";
        let id = |name: &str| format!("gnulinux-{name}-{root}");
        assert_eq!(
            ids,
            [
                (id("simple").as_str(), false),
                (id("6.12.9-rt-amd64-advanced").as_str(), false),
                (id("6.12.9-rt-amd64-recovery").as_str(), true),
                (id("6.1.0-18-amd64-advanced").as_str(), false),
                (id("6.1.0-18-amd64-recovery").as_str(), true),
                ("uefi-firmware", false),
            ]
        );
        assert_eq!(seen[0].entry.kernel.as_deref(), Some("/boot/vmlinuz-6.12.9-rt-amd64"));
        assert_eq!(seen[0].entry.options, format!("root=UUID={root} ro  quiet"));
        assert_eq!(seen[0].entry.initrd, ["/boot/initrd.img-6.12.9-rt-amd64"]);
        assert!(seen[0].block.starts_with("menuentry 'Debian") && seen[0].block.ends_with("\n}\n"));
        assert!(seen[5].entry.kernel.is_none());
    }

    #[test]
    fn finds_the_default_by_number_id_and_title() {
        let seen = menu(MENU, "");
        let find = |default| default_entry(&seen, default);
        assert_eq!(find("0"), Some(0));
        assert_eq!(find("1>2"), Some(3));
        assert_eq!(find("1"), Some(1));
        assert_eq!(
            find("Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-18-amd64"),
            Some(3)
        );
        assert_eq!(find("2"), Some(5));
        assert_eq!(find("7"), None);
    }

    #[test]
    fn a_menu_that_is_cut_off_has_no_half_entry() {
        let half = &MENU[..MENU.find("initrd").unwrap()];
        assert_eq!(menu(half, "").len(), 0);
    }

    #[test]
    fn the_block_of_variables_keeps_its_size_and_its_other_variables() {
        let text = format!("{:#<1024}", format!("{HEADING}\nsaved_entry=a\\\\b\nboot_success=1\n"));
        let mut block = GrubEnvironment::read(&text).unwrap();
        assert_eq!(block.get("saved_entry"), Some("a\\b"));
        assert_eq!(block.text().as_deref(), Some(text.as_str()));
        block.set("next_entry", Some("trial"));
        let armed = block.text().unwrap();
        assert!(armed.len() == 1024 && armed.contains("boot_success=1\nnext_entry=trial\n###"));
        block.set("next_entry", None);
        assert_eq!(block.text().as_deref(), Some(text.as_str()));
        block.set("long", Some(&"x".repeat(1024)));
        assert_eq!(block.text(), None);
        assert_eq!(GrubEnvironment::read("short"), None);
    }
}
