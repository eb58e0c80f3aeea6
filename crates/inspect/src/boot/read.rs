// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills a [`Boot`] from the files of the loader that was recognised.

use std::collections::{BTreeMap, BTreeSet};

use super::bls::EntryFile;
use super::extlinux::Extlinux;
use super::grub::{self, GrubEnvironment};
use super::pi::FIRMWARE;
use super::statement::grub_word;
use super::{bls, pi};
use crate::tree::Tree;
use machine::boot::{Boot, BootEntry, EntrySource, LineChanges, UnclearStatement, line};

pub(super) fn grub_menu(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let (variables, sources) = generator(tree);
    boot.sources = sources;
    let path = format!("{folder}/grub.cfg");
    let Some(menu) = tree.whole_text(&path) else { return };
    let block = environment(tree, folder);
    let stored =
        |name: &str| block.as_ref().and_then(|block| block.get(name)).unwrap_or_default().to_string();
    let mut seen = grub::menu(&menu, &format!("/{path}"));
    boot.next = Some(stored("next_entry")).filter(|name| !name.is_empty());
    // The menu is what boots; the generator's variable may have been edited since.
    let wanted = grub::default_of(&menu).filter(|name| !name.contains('$'));
    let wanted = wanted.or_else(|| variables.get("GRUB_DEFAULT").map(str::to_string));
    let first = |name: String| if name.is_empty() { "0".to_string() } else { name };
    boot.default = wanted
        .map(|name| first(if name == "saved" { stored("saved_entry") } else { name }))
        .and_then(|name| grub::default_entry(&seen, &name));
    let hidden = variables.get("GRUB_TIMEOUT_STYLE").is_some_and(|style| style == "hidden");
    let seconds = variables
        .get("GRUB_TIMEOUT")
        .and_then(|text| if text.is_empty() { Some(5) } else { text.parse().ok() });
    boot.menu_tenths = seconds.map(|seconds: i32| match seconds {
        _ if hidden => 0,
        // It waits for ever.
        i32::MIN..0 => u32::MAX,
        seconds => seconds.unsigned_abs().saturating_mul(10),
    });
    let entries = seen.iter_mut().map(|seen| &mut seen.entry);
    boot.sources.extend(variables_of(entries, &menu, block.as_ref(), folder));
    boot.entries = seen.into_iter().map(|seen| seen.entry).collect();
}

/// GRUB's block of variables.
fn environment(tree: &mut Tree, folder: &str) -> Option<GrubEnvironment> {
    tree.whole_text(&format!("{folder}/grubenv")).and_then(|text| GrubEnvironment::read(&text))
}

/// Most variables of GRUB's that are looked for.
const VARIABLES: usize = 100;

/// Puts the values of GRUB's variables into the lines of `entries`, and says where each stands. What the menu
/// sets under a condition is only said.
fn variables_of<'a>(
    entries: impl Iterator<Item = &'a mut BootEntry>,
    menu: &str,
    block: Option<&GrubEnvironment>,
    folder: &str,
) -> Vec<EntrySource> {
    let named = |raw: &str| raw.strip_prefix('$').map(|name| name.trim_matches(['{', '}']).to_string());
    let mut entries: Vec<&mut BootEntry> = entries.collect();
    let used =
        entries.iter().flat_map(|entry| line::all_words(&entry.options).filter_map(|word| named(word.raw)));
    let used: BTreeSet<String> = used.take(VARIABLES).collect();
    let settings = grub::settings(menu);
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    let mut sources: Vec<EntrySource> = Vec::new();
    for name in &used {
        let mut say = |file: &str, value: &str| {
            let (file, variable) = (format!("/{folder}/{file}"), Some(name.clone()));
            let source = EntrySource {
                file,
                variable,
                line: Some(value.into()),
                loader: true,
                ..EntrySource::default()
            };
            if !value.is_empty() && !sources.contains(&source) {
                sources.push(source);
            }
        };
        let mut set = settings.iter().filter(|(set, value, _)| set == name && !value.contains('$'));
        set.clone().take(VARIABLES).for_each(|(_, value, _)| say("grub.cfg", value));
        let stored = block.and_then(|block| block.get(name));
        say("grubenv", stored.unwrap_or_default());
        let sure = set.rfind(|(_, _, sure)| *sure).map(|(_, value, _)| value.as_str());
        values.extend(sure.or(stored).map(|value| (name.as_str(), value.to_string())));
    }
    for entry in &mut entries {
        if !entry.options.contains('$') {
            continue;
        }
        let value = |raw: &str| named(raw).and_then(|name| values.get(name.as_str()).cloned());
        let words =
            line::all_words(&entry.options).map(|word| value(word.raw).unwrap_or(word.raw.to_string()));
        entry.options = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    }
    sources
}

/// Whether a loader or a shell's `*` takes a file of this name: names that begin with a dot are left out.
fn shown(name: &str, end: &str) -> bool {
    name.ends_with(end) && !name.starts_with('.')
}

/// The variables of GRUB's generator, and the lines that it takes from them.
fn generator(tree: &mut Tree) -> (super::Variables, Vec<EntrySource>) {
    let mut variables = super::Variables::default();
    let mut files = vec!["etc/default/grub".to_string()];
    let drop_ins = tree.names("etc/default/grub.d").into_iter().filter(|name| shown(name, ".cfg"));
    files.extend(drop_ins.map(|name| format!("etc/default/grub.d/{name}")));
    let mut read = Vec::new();
    let mut unread = Vec::new();
    for path in files {
        match tree.whole_text(&path) {
            Some(text) => {
                variables.read(&text);
                read.push(format!("/{path}"));
            }
            None if tree.exists(&path) => unread.push(format!("/{path}")),
            None => {}
        }
    }
    let mut sources = Vec::new();
    for (name, recovery) in [("GRUB_CMDLINE_LINUX", true), ("GRUB_CMDLINE_LINUX_DEFAULT", false)] {
        // What the generator writes into its menu, GRUB reads once more.
        sources.extend(shell_sources(&variables, &read, name, recovery).into_iter().map(|source| {
            let line = source.line.as_ref().map(|line| grub_line(line));
            EntrySource { line, ..source }
        }));
        sources.extend(unread.iter().map(|file| EntrySource {
            file: file.clone(),
            variable: Some(name.to_string()),
            recovery,
            unclear: Some(UnclearStatement { why: "the file cannot be read".into(), text: String::new() }),
            ..EntrySource::default()
        }));
    }
    (variables, sources)
}

/// A line as GRUB gives it to the kernel.
fn grub_line(line: &str) -> String {
    if !line.contains(['\\', '\'', '"']) {
        return line.to_string();
    }
    line::all_words(line).map(|word| grub_word(word.raw)).collect::<Vec<_>>().join(" ")
}

/// Where the words of a shell's variable stand: one source for each file that gives some.
pub(super) fn shell_sources(
    variables: &super::Variables,
    files: &[String],
    name: &str,
    recovery: bool,
) -> Vec<EntrySource> {
    let source = |file: usize| EntrySource {
        file: files.get(file).cloned().unwrap_or_default(),
        variable: Some(name.to_string()),
        recovery,
        ..EntrySource::default()
    };
    if let Some(unclear) = variables.unclear(name) {
        let text =
            unclear.text.trim_start_matches('\u{feff}').split_whitespace().collect::<Vec<_>>().join(" ");
        let said = UnclearStatement { why: unclear.why.clone(), text };
        return vec![EntrySource { unclear: Some(said), ..source(unclear.file) }];
    }
    let mut parts = variables.parts(name);
    if !files.is_empty() {
        // The first file is where people look, and is named though it says nothing.
        parts.entry(0).or_default();
    }
    parts.into_iter().map(|(file, part)| EntrySource { line: Some(part), ..source(file) }).collect()
}

/// The entries of ostree's deployments, the newest first.
pub(super) fn ostree(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    boot.entries = entry_files(tree, folder).into_iter().map(|(_, entry)| entry).collect();
    boot.default = (!boot.entries.is_empty()).then_some(0);
}

/// The files from which the line of the next kernel image is made.
pub(super) fn kernel_image(tree: &mut Tree, boot: &mut Boot, _: &str) {
    // mkinitcpio puts these files together for its image.
    for name in tree.hint_names("etc/cmdline.d").into_iter().filter(|name| name.ends_with(".conf")) {
        boot.sources.extend(whole_file(tree, &format!("etc/cmdline.d/{name}")));
    }
    kernel_command_line(tree, boot);
}

/// The files of entries below `folder`, in the loader's order.
fn entry_files(tree: &mut Tree, folder: &str) -> Vec<(EntryFile, BootEntry)> {
    let mut found = Vec::new();
    for name in tree.names(folder).into_iter().filter(|name| shown(name, ".conf")) {
        let path = format!("{folder}/{name}");
        let Some(text) = tree.whole_text(&path) else { continue };
        let file = EntryFile::read(&text);
        let entry = file.entry(&format!("/{path}"));
        found.push((file, entry));
    }
    bls::sort(&mut found);
    found
}

pub(super) fn grub_entries(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let block = environment(tree, folder);
    let stored = |name: &str| block.as_ref().and_then(|block| block.get(name)).map(str::to_string);
    let entries = boot.seen.first().map(|path| path.trim_start_matches('/').to_string()).unwrap_or_default();
    boot.entries = entry_files(tree, &entries).into_iter().map(|(_, entry)| entry).collect();
    for entry in boot.entries.iter_mut().filter(|entry| entry.options.is_empty()) {
        entry.options = "$default_kernelopts".to_string();
    }
    let menu = tree.whole_text(&format!("{folder}/grub.cfg")).unwrap_or_default();
    let (variables, sources) = generator(tree);
    // Without a menu nothing hands the generator's line on.
    boot.sources = if menu.is_empty() { Vec::new() } else { sources };
    // RHEL 8 keeps the line in a variable, and TuneD adds one of its own.
    boot.sources.extend(variables_of(boot.entries.iter_mut(), &menu, block.as_ref(), folder));
    boot.next = stored("next_entry").filter(|name| !name.is_empty());
    let saved = stored("saved_entry").unwrap_or_default();
    let named = boot.entries.iter().position(|entry| entry.id == saved || entry.title == saved);
    let numbered = saved.parse().ok().filter(|at| *at < boot.entries.len());
    let first = (!boot.entries.is_empty()).then_some(0);
    boot.default = named.or(numbered).or(first);
    let seconds = variables.get("GRUB_TIMEOUT").and_then(|text| text.parse::<u32>().ok());
    boot.menu_tenths = seconds.map(|seconds| seconds.saturating_mul(10));
    kernel_command_line(tree, boot);
}

/// The line that kernel-install gives to the next kernel.
fn kernel_command_line(tree: &mut Tree, boot: &mut Boot) {
    let paths = ["etc/kernel/cmdline", "usr/lib/kernel/cmdline"];
    if let Some(path) = paths.into_iter().find(|path| tree.exists(path)) {
        boot.sources.extend(whole_file(tree, path));
    }
}

/// A file that is a line as a whole.
pub(super) fn whole_file(tree: &mut Tree, path: &str) -> Option<EntrySource> {
    let line = tree.whole_text(path)?.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(EntrySource { file: format!("/{path}"), line: Some(line), ..EntrySource::default() })
}

pub(super) fn extlinux(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let path = format!("{folder}/extlinux.conf");
    let Some(text) = tree.whole_text(&path) else { return };
    let file = Extlinux::read(&text);
    boot.entries = file.entries(&format!("/{path}"));
    boot.default =
        file.default_label().and_then(|name| boot.entries.iter().position(|entry| entry.id == name));
    boot.menu_tenths = Some(if boot.entries.len() < 2 { 0 } else { file.timeout() });
}

pub(super) fn systemd_boot(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    boot.entries =
        entry_files(tree, &format!("{folder}/entries")).into_iter().map(|(_, entry)| entry).collect();
    let conf = boot.seen.first().map(|path| path.trim_start_matches('/').to_string()).unwrap_or_default();
    let conf = tree.whole_text(&conf).unwrap_or_default();
    let conf = EntryFile::read(&conf);
    let pattern = conf.default_pattern().map(|pattern| pattern.trim_end_matches(".conf").to_string());
    let matches = |entry: &BootEntry, pattern: &str| {
        let (id, pattern): (Vec<char>, Vec<char>) = (entry.id.chars().collect(), pattern.chars().collect());
        fits(&id, &pattern)
    };
    boot.default = match &pattern {
        Some(pattern) if pattern.starts_with('@') => None,
        Some(pattern) => boot.entries.iter().position(|entry| matches(entry, pattern)),
        None => (!boot.entries.is_empty()).then_some(0),
    };
    let timeout = conf.values("timeout").next().unwrap_or("0").to_string();
    boot.menu_tenths = match timeout.as_str() {
        "menu-force" => Some(u32::MAX),
        "menu-hidden" | "menu-disabled" => Some(0),
        number => number.parse::<u32>().ok().map(|seconds| seconds.saturating_mul(10)),
    };
    kernel_command_line(tree, boot);
}

/// Whether a name fits a pattern of `*` and `?`; one with `[` is not read here and fits none.
fn fits(name: &[char], pattern: &[char]) -> bool {
    // Which names the last `*` may still stand for more letters of.
    let (mut at, mut of, mut again) = (0, 0, None);
    while at < name.len() {
        match pattern.get(of) {
            Some('*') => {
                again = Some((at, of));
                of += 1;
            }
            Some('?') => (at, of) = (at + 1, of + 1),
            Some(letter) if *letter == name[at] && *letter != '[' => (at, of) = (at + 1, of + 1),
            _ => {
                let Some((from, star)) = again else { return false };
                again = Some((from + 1, star));
                (at, of) = (from + 1, star + 1);
            }
        }
    }
    pattern[of..].iter().all(|letter| *letter == '*')
}

pub(super) fn raspberry_pi(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let read = match pi::Settings::read(tree, folder) {
        Ok(read) => read,
        Err(why) => return tree.note(&format!("{folder}/config.txt"), why),
    };
    let mut name = read.line.clone();
    // The firmware leaves a prefix out whose folder is not there.
    if let Some((prefix, rest)) = name.rsplit_once('/')
        && !tree.exists(&format!("{folder}/{prefix}"))
    {
        name = rest.to_string();
    }
    let path = format!("{folder}/{name}");
    let Some(line) = tree.whole_text(&path) else { return };
    if line.starts_with("DO NOT EDIT THIS FILE") {
        let why = "is a note that the line has moved to a partition that is not mounted: mount it at /boot/firmware";
        return tree.note(&path, why);
    }
    if pi::has_more_lines(&line) {
        tree.note(&path, "has more than one line; the firmware reads the first alone");
    }
    boot.entries = vec![BootEntry {
        id: name,
        title: "the firmware's only entry".into(),
        file: format!("/{path}"),
        kernel: read.kernel,
        initrd: read.initrd.into_iter().collect(),
        options: pi::command_line(&line).trim().to_string(),
        ..BootEntry::default()
    }];
    boot.default = Some(0);
    boot.menu_tenths = Some(0);
}

/// Names that vendors give the variable for more words in their files of U-Boot's environment, the likeliest
/// first.
const ENVIRONMENT: [&str; 6] =
    ["extraargs", "optargs", "cmdline", "bootargs", "othbootargs", "extra_bootargs"];

pub(super) fn u_boot(tree: &mut Tree, boot: &mut Boot, _: &str) {
    for path in environments(tree) {
        let text = tree.hint(&path).unwrap_or_default();
        let value = |key: &str| {
            let of = |line: &str| {
                line.trim().strip_prefix(key)?.trim_start().strip_prefix('=').map(str::to_string)
            };
            text.lines().filter_map(of).next_back()
        };
        let key = ENVIRONMENT.into_iter().find(|key| value(key).is_some()).unwrap_or(ENVIRONMENT[0]);
        let line = Some(value(key).unwrap_or_default().trim_matches(['"', '\'']).to_string());
        let (file, variable) = (format!("/{path}"), Some(key.to_string()));
        boot.sources.push(EntrySource { file, variable, line, ..EntrySource::default() });
    }
    // On a Raspberry Pi it may hand on the firmware's line: where all of its words run, it does.
    let running = tree.hint("proc/cmdline").unwrap_or_default();
    let mut handed_on = Vec::new();
    for folder in FIRMWARE {
        if tree.exists(&format!("{folder}/config.txt")) {
            handed_on.extend(whole_file(tree, &format!("{folder}/cmdline.txt")));
        }
    }
    boot.sources.extend(handed_on.into_iter().filter(|source| {
        let line = source.line.as_deref().unwrap_or_default();
        !line.is_empty() && LineChanges::between(line, &running, &[]).lost.is_empty()
    }));
}

/// Files of U-Boot's environment that vendors let people edit: armbianEnv.txt, orangepiEnv.txt, uEnv.txt.
pub(super) fn environments(tree: &mut Tree) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["boot", "boot/firmware", "boot/uboot"] {
        let names =
            tree.hint_names(folder).into_iter().filter(|name| name.to_lowercase().ends_with("env.txt"));
        found.extend(names.map(|name| format!("{folder}/{name}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::tree::made_of;

    #[test]
    fn a_generators_line_is_read_as_the_kernel_gets_it() {
        let files = [
            ("etc/debian_version", "13\n"),
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"memmap=1G\\\\\\$1G dyndbg=\\\"file a +p\\\"\"\n"),
            (
                "boot/grub/grub.cfg",
                "menuentry a {\n linux /v root=a memmap=1G\\$1G dyndbg=\"file a +p\"\n}\nset default=0\n",
            ),
        ];
        let boot = crate::boot::read_tree(&mut made_of(&files).1);
        let running = "root=a memmap=1G$1G \"dyndbg=file a +p\"";
        let drift = boot.drift(running).unwrap();
        assert_eq!(drift.never_generated, Vec::<String>::new());
        assert_eq!((drift.not_running, drift.not_configured, drift.by_hand), Default::default());
    }
}
