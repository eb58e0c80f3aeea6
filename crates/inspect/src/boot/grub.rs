// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB: the menu that was generated, the block of variables that outlives a boot, and the files of the
//! generator.
//!
//! The menu (`grub.cfg`) is a script; we read the statements of its `menuentry` and `submenu` blocks, whether
//! `grub-mkconfig` or a person wrote them. The block of variables (`grubenv`) is a file of 1024 bytes that
//! GRUB itself writes in place: a heading, lines `name=value`, `#` up to the end (lib/envblk.c).

use super::Variables;
use super::statement::{Dialect, Statement, grub_value, grub_word, statements};
use machine::boot::{BootEntry, line};

/// One `menuentry` of a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MenuEntry<'a> {
    /// The entry as it boots.
    pub entry: BootEntry,
    /// Its statements from `menuentry` to the closing brace, as they are written.
    pub block: &'a str,
    /// Per level of menus, itself last: its number, id and title there.
    path: Vec<(usize, String, String)>,
}

impl MenuEntry<'_> {
    /// The entry under another title and id, with `more` words for the kernel. All else of it stays: who may
    /// boot it above all.
    pub fn copy<S: AsRef<str>>(&self, title: &str, id: &str, more: &[S]) -> String {
        let mut copy = String::new();
        let mut from = 0;
        let mut read = BootEntry::default();
        for (number, statement) in statements(self.block, Dialect::Grub).into_iter().enumerate() {
            if number == 0 {
                copy.push_str(&head(&statement, title, id));
                from = statement.end();
            } else if let Some(kernel) = kernel_word(&statement, &read) {
                let of_init = statement.words[kernel..].iter().position(|word| *word == "--");
                let last = of_init.map_or(statement.words.len(), |at| kernel + at) - 1;
                let end = statement.spans[last].end;
                copy.push_str(&self.block[from..end]);
                more.iter().for_each(|word| copy.extend([" ", word.as_ref()]));
                from = end;
            }
            take(&statement, &mut read);
        }
        copy + &self.block[from..]
    }
}

/// The statement that begins an entry, under another title and id; classes, users and all else in it stay.
fn head(statement: &Statement<'_>, title: &str, id: &str) -> String {
    let values = values(statement);
    let title_at = named(&values).0;
    let mut parts: Vec<String> = Vec::new();
    let mut has_id = false;
    let mut words = statement.words.iter().zip(&values).enumerate();
    while let Some((at, (raw, value))) = words.next() {
        match value.as_str() {
            "{" if has_id => parts.push(raw.to_string()),
            "{" => parts.extend(["--id".to_string(), format!("'{id}'"), raw.to_string()]),
            _ if at == title_at => parts.push(format!("'{title}'")),
            "$menuentry_id_option" | "${menuentry_id_option}" | "--id" => {
                parts.extend([raw.to_string(), format!("'{id}'")]);
                has_id = true;
                words.next();
            }
            "--class" | "--users" | "--hotkey" | "--source" => {
                parts.push(raw.to_string());
                parts.extend(words.next().map(|(_, (raw, _))| raw.to_string()));
            }
            value if value.starts_with("--id=") => {
                parts.push(format!("--id='{id}'"));
                has_id = true;
            }
            _ => parts.push(raw.to_string()),
        }
    }
    parts.join(" ")
}

/// The words of a statement as GRUB reads them.
fn values(statement: &Statement<'_>) -> Vec<String> {
    statement.words.iter().map(|raw| grub_value(raw)).collect()
}

/// The `menuentry` blocks of `menu`, in their order; `file` is where the menu was read.
pub fn menu<'a>(menu: &'a str, file: &str) -> Vec<MenuEntry<'a>> {
    let mut found: Vec<MenuEntry> = Vec::new();
    // The submenus that are open, with the depth of braces outside each, and how many items each level has.
    let mut open: Vec<((usize, String, String), usize)> = Vec::new();
    let mut counts = vec![0usize];
    let mut current: Option<(usize, usize)> = None;
    let mut depth = 0usize;
    let mut sections = sections(menu).into_iter().peekable();
    let mut script = None;
    for statement in statements(menu, Dialect::Grub) {
        while let Some((_, of)) = sections.next_if(|(at, _)| *at < statement.at) {
            script = of;
        }
        let opens = statement.words.last() == Some(&"{");
        if opens && matches!(statement.key(), "menuentry" | "submenu") && current.is_none() {
            let words = values(&statement);
            let (title_at, id) = named(&words);
            let title = words.get(title_at).cloned().unwrap_or_default();
            let id = id.unwrap_or_else(|| title.clone());
            let level = counts.last_mut();
            let number = level.map_or(0, |count| std::mem::replace(count, *count + 1));
            let here = (number, id.clone(), title.clone());
            if statement.key() == "submenu" {
                open.push((here, depth));
                counts.push(0);
            } else {
                current = Some((statement.at, depth));
                let path = open.iter().map(|(level, _)| level.clone()).chain([here]).collect();
                let script = script.clone();
                let entry = BootEntry { id, title, file: file.to_string(), script, ..BootEntry::default() };
                found.push(MenuEntry { entry, block: "", path });
            }
            depth += 1;
        } else if statement.text == "}" {
            depth = depth.saturating_sub(1);
            if let Some((from, _)) = current.filter(|(_, outside)| *outside == depth) {
                if let Some(last) = found.last_mut() {
                    let end = statement.end();
                    let ends_line = menu[end..].starts_with('\n');
                    last.block = &menu[from..end + usize::from(ends_line)];
                    last.entry.recovery = recovery(&last.entry);
                }
                current = None;
            } else if open.last().is_some_and(|(_, outside)| *outside == depth) {
                open.pop();
                counts.pop();
            }
        } else if opens || statement.text == "{" {
            depth += 1;
        } else if let (Some(_), Some(last)) = (current, found.last_mut()) {
            take(&statement, &mut last.entry);
        }
    }
    // A file that ends within a block was cut off; what it would boot is not known.
    found.retain(|entry| !entry.block.is_empty());
    found
}

/// Where parts of the menu begin and end that a script of the generator's made, by its comments.
fn sections(menu: &str) -> Vec<(usize, Option<String>)> {
    let mut at = 0;
    let lines = menu.split_inclusive('\n').map(|line| {
        at += line.len();
        (at - line.len(), line.trim())
    });
    lines
        .filter(|(_, line)| line.starts_with("###"))
        .filter_map(|(at, line)| Some((at, section(line)?)))
        .collect()
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

/// The settings of the menu itself before any entry: name, value, and whether that is sure to be reached.
pub fn settings(menu: &str) -> Vec<(String, String, bool)> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    for statement in statements(menu, Dialect::Grub) {
        depth = depth.saturating_sub(statement.closes);
        let setting = statement.words.get(1).filter(|_| statement.key() == "set").map(|raw| grub_value(raw));
        let setting = setting.as_ref().and_then(|word| word.split_once('='));
        found.extend(setting.map(|(name, value)| (name.to_string(), value.to_string(), depth == 0)));
        depth += statement.opens;
    }
    found
}

/// The value of `GRUB_DEFAULT` when the menu was made: the last that it sets besides the entry for one boot.
pub fn default_of(menu: &str) -> Option<String> {
    let once = |value: &&(String, String, bool)| value.0 == "default" && !value.1.contains("next_entry");
    let all = settings(menu);
    let last = all.iter().rfind(once)?;
    Some(if last.1.contains("saved_entry") { "saved".to_string() } else { last.1.clone() })
}

/// Whether a menu boots `next_entry` where that is set: no later statement names another default.
pub fn boots_next_entry(menu: &str) -> bool {
    let all = settings(menu);
    let names = |(name, value, _): &(String, String, bool)| name == "default" && value.contains("next_entry");
    all.iter()
        .rposition(names)
        .is_some_and(|at| !all[at..].iter().any(|(name, _, sure)| name == "default" && *sure))
}

/// Which word of a statement names the kernel that an entry boots; `read` is the entry as far as it was read.
fn kernel_word(statement: &Statement<'_>, read: &BootEntry) -> Option<usize> {
    let at = match statement.key() {
        "linux" | "linux16" | "linuxefi" => 1,
        // The first module of a hypervisor is its kernel; what follows are RAM disks.
        "module" | "module2" if read.hypervisor.is_some() && read.kernel.is_none() => module_at(statement),
        _ => return None,
    };
    (at < statement.words.len()).then_some(at)
}

/// The word after the options of `module`.
fn module_at(statement: &Statement<'_>) -> usize {
    1 + statement.words.iter().skip(1).take_while(|word| word.starts_with("--")).count()
}

/// Takes into `entry` what one of its statements says.
fn take(statement: &Statement<'_>, entry: &mut BootEntry) {
    let value = |raw: &&str| grub_value(raw);
    if let Some(kernel) = kernel_word(statement, entry) {
        entry.kernel = statement.words.get(kernel).map(value);
        entry.options = line_after(statement, kernel);
        return;
    }
    match statement.key() {
        "multiboot" | "multiboot2" => entry.hypervisor = statement.words.get(1).map(value),
        "initrd" | "initrd16" | "initrdefi" => {
            entry.initrd = statement.words.iter().skip(1).map(value).collect()
        }
        "module" | "module2" if entry.hypervisor.is_some() => {
            entry.initrd.extend(statement.words.get(module_at(statement)).map(value));
        }
        _ => {}
    }
}

/// The line that the kernel gets: the words after the word `at`, with the space between them where they stand
/// on one line.
fn line_after(statement: &Statement<'_>, at: usize) -> String {
    let mut line = String::new();
    let mut last: Option<usize> = None;
    for (raw, span) in statement.words.iter().zip(&statement.spans).skip(at + 1) {
        let between = last.map(|end| &statement.text[end - statement.at..span.start - statement.at]);
        line.push_str(between.map_or("", |text| if text.contains('\n') { " " } else { text }));
        line.push_str(&grub_word(raw));
        last = Some(span.end);
    }
    line
}

/// Whether an entry is meant for repair: Debian's recovery mode, and Fedora's rescue.
fn recovery(entry: &BootEntry) -> bool {
    let single = line::kernel_words(&entry.options)
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
    fn reads_statements_however_a_person_wrote_them() {
        let text = "menuentry a { linux /v \\\n root=b ro ; initrd /i }\n### BEGIN /etc/grub.d/20_linux_xen ###\n\
                    menuentry 'x' --id xen \\\n  --class xen {\n multiboot2 /xen.gz placeholder\n\
                    if true; then module2 \"/v@/k\" placeholder root=ZFS=\"r/a\"; fi # c\n module2 --nounzip /i\n}\n";
        let seen = menu(text, "");
        let of = |at: usize| {
            (seen[at].entry.id.as_str(), seen[at].entry.options.as_str(), seen[at].entry.kernel.as_deref())
        };
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(of(0), ("a", "root=b ro", Some("/v")));
        assert_eq!(of(1), ("xen", "placeholder root=ZFS=r/a", Some("/v@/k")));
        assert_eq!(
            (&seen[1].entry.initrd, seen[1].entry.hypervisor.as_deref()),
            (&vec!["/i".to_string()], Some("/xen.gz"))
        );
        assert_eq!(seen[1].entry.script.as_deref(), Some("/etc/grub.d/20_linux_xen"));
    }

    #[test]
    fn a_later_default_stands_above_the_next_entry() {
        assert!(boots_next_entry(MENU));
        assert!(!boots_next_entry(&format!("{MENU}set default=rt\n")));
        assert!(boots_next_entry(&format!("{MENU}if [ -e /x ]; then\n set default=rt\nfi\n")));
        assert!(!boots_next_entry("menuentry a {\n linux /v\n}\n"));
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
