// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills a [`Boot`] from the files of the loader that was recognised.

use super::bls::EntryFile;
use super::extlinux::Extlinux;
use super::grub::{self, Environment};
use super::{Boot, Entry, Loader, Source, bls, pi};
use crate::tree::Tree;

pub(super) fn entries(tree: &mut Tree, boot: &mut Boot) {
    let folder = boot.folder.trim_start_matches('/').to_string();
    match boot.loader {
        Loader::GrubDebian | Loader::Grub => grub_menu(tree, boot, &folder),
        Loader::GrubBls => grub_entries(tree, boot, &folder),
        Loader::L4tExtlinux | Loader::Extlinux => extlinux(tree, boot, &folder),
        Loader::SystemdBoot => systemd_boot(tree, boot, &folder),
        Loader::RaspberryPi => raspberry_pi(tree, boot, &folder),
        Loader::Ostree => {
            boot.entries = entry_files(tree, &folder).into_iter().map(|(_, entry)| entry).collect()
        }
        Loader::UBoot => u_boot(tree, boot),
        Loader::UnifiedKernelImage => kernel_command_line(tree, boot),
        Loader::Unknown => {}
    }
    if boot.loader == Loader::Ostree && !boot.entries.is_empty() {
        boot.default = Some(0);
    }
}

/// The text of a boot file as it stands; unlike [`Tree::text`] without taking space off its ends.
fn text(tree: &mut Tree, path: &str) -> Option<String> {
    let bytes = tree.bytes(path, 4 << 20)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn grub_menu(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let (variables, sources) = generator(tree);
    boot.sources = sources;
    let path = format!("{folder}/grub.cfg");
    let Some(menu) = text(tree, &path) else { return };
    let seen = grub::menu(&menu, &format!("/{path}"));
    let environment = text(tree, &format!("{folder}/grubenv")).and_then(|text| Environment::read(&text));
    let stored = |name| environment.as_ref().and_then(|block| block.get(name)).map(str::to_string);
    boot.next = stored("next_entry").filter(|name| !name.is_empty());
    let wanted =
        variables.get("GRUB_DEFAULT").map(|name| if name.is_empty() { "0" } else { name }.to_string());
    let wanted = match wanted.as_deref() {
        Some("saved") => {
            Some(stored("saved_entry").filter(|name| !name.is_empty()).unwrap_or("0".to_string()))
        }
        _ => wanted,
    };
    boot.default = wanted.and_then(|name| grub::default_entry(&seen, &name));
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
    boot.entries = seen.into_iter().map(|seen| seen.entry).collect();
}

/// The variables of GRUB's generator, and the lines that it takes from them.
fn generator(tree: &mut Tree) -> (super::Variables, Vec<Source>) {
    let mut files = vec!["etc/default/grub".to_string()];
    let drop_ins = tree.names("etc/default/grub.d").into_iter().filter(|name| name.ends_with(".cfg"));
    files.extend(drop_ins.map(|name| format!("etc/default/grub.d/{name}")));
    let texts: Vec<String> = files.iter().filter_map(|path| text(tree, path)).collect();
    let (ordinary, all, variables) = grub::generator(&texts);
    let source = |variable: &str, line, recovery| Source {
        file: "/etc/default/grub".into(),
        variable: Some(variable.into()),
        line,
        recovery,
    };
    let sources =
        vec![source("GRUB_CMDLINE_LINUX", all, true), source("GRUB_CMDLINE_LINUX_DEFAULT", ordinary, false)];
    (variables, sources)
}

/// The files of entries below `folder`, in the loader's order.
fn entry_files(tree: &mut Tree, folder: &str) -> Vec<(EntryFile, Entry)> {
    let mut found = Vec::new();
    for name in tree.names(folder).into_iter().filter(|name| name.ends_with(".conf")) {
        let path = format!("{folder}/{name}");
        let Some(text) = text(tree, &path) else { continue };
        let file = EntryFile::read(&text);
        let entry = file.entry(&format!("/{path}"));
        found.push((file, entry));
    }
    bls::sort(&mut found);
    found
}

fn grub_entries(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let block = text(tree, &format!("{folder}/grubenv")).and_then(|text| Environment::read(&text));
    let stored = |name: &str| block.as_ref().and_then(|block| block.get(name)).map(str::to_string);
    boot.entries = entry_files(tree, "boot/loader/entries").into_iter().map(|(_, entry)| entry).collect();
    for entry in &mut boot.entries {
        // RHEL 8 keeps the line in a variable.
        if let Some(line) = stored("kernelopts") {
            entry.options = entry.options.replace("$kernelopts", &line);
        }
    }
    boot.next = stored("next_entry").filter(|name| !name.is_empty());
    let saved = stored("saved_entry").unwrap_or_default();
    let named = boot.entries.iter().position(|entry| entry.id == saved);
    let numbered = saved.parse().ok().filter(|at| *at < boot.entries.len());
    let first = (!boot.entries.is_empty()).then_some(0);
    boot.default = named.or(numbered).or(first);
    let (variables, _) = generator(tree);
    let seconds = variables.get("GRUB_TIMEOUT").and_then(|text| text.parse::<u32>().ok());
    boot.menu_tenths = seconds.map(|seconds| seconds.saturating_mul(10));
    kernel_command_line(tree, boot);
}

/// The line that kernel-install gives to the next kernel.
fn kernel_command_line(tree: &mut Tree, boot: &mut Boot) {
    let paths = ["etc/kernel/cmdline", "usr/lib/kernel/cmdline"];
    if let Some(path) = paths.into_iter().find(|path| tree.exists(path)) {
        let line = text(tree, path).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        boot.sources.push(Source { file: format!("/{path}"), variable: None, line, recovery: false });
    }
}

fn extlinux(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let path = format!("{folder}/extlinux.conf");
    let Some(text) = text(tree, &path) else { return };
    let file = Extlinux::read(&text);
    boot.entries = file.entries(&format!("/{path}"));
    boot.default =
        file.default_label().and_then(|name| boot.entries.iter().position(|entry| entry.id == name));
    boot.menu_tenths = Some(if boot.entries.len() < 2 { 0 } else { file.timeout() });
}

fn systemd_boot(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    boot.entries =
        entry_files(tree, &format!("{folder}/entries")).into_iter().map(|(_, entry)| entry).collect();
    let conf = boot.seen.first().map(|path| path.trim_start_matches('/').to_string()).unwrap_or_default();
    let conf = text(tree, &conf).unwrap_or_default();
    let conf = EntryFile::read(&conf);
    let pattern = conf.values("default").next().map(|pattern| pattern.trim_end_matches(".conf").to_string());
    let matches = |entry: &Entry, pattern: &str| match pattern.split_once('*') {
        Some((head, tail)) => entry.id.starts_with(head) && entry.id.ends_with(tail.trim_start_matches('*')),
        None => entry.id == pattern,
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

fn raspberry_pi(tree: &mut Tree, boot: &mut Boot, folder: &str) {
    let config = text(tree, &format!("{folder}/config.txt")).unwrap_or_default();
    let config = pi::Config::read(&config);
    let last = |key: &'static str| config.values(key).last().map(|(_, value)| value.to_string());
    let prefix = last("os_prefix").unwrap_or_default();
    let name = last("cmdline").unwrap_or_else(|| "cmdline.txt".into());
    let path = format!("{folder}/{prefix}{name}");
    let Some(line) = text(tree, &path) else { return };
    if pi::has_more_lines(&line) {
        tree.note(&path, "has more than one line; the firmware reads the first alone");
    }
    boot.entries = vec![Entry {
        id: name,
        title: "the firmware's only entry".into(),
        file: format!("/{path}"),
        kernel: last("kernel"),
        initrd: last("initramfs").into_iter().collect(),
        options: pi::command_line(&line).trim().to_string(),
        ..Entry::default()
    }];
    boot.default = Some(0);
    boot.menu_tenths = Some(0);
}

fn u_boot(tree: &mut Tree, boot: &mut Boot) {
    for (path, key) in [("boot/armbianEnv.txt", "extraargs"), ("boot/uEnv.txt", "cmdline")] {
        let Some(text) = tree.hint(path) else { continue };
        let line =
            text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix('=')).next_back();
        let line = Some(line.unwrap_or_default().to_string());
        boot.sources.push(Source {
            file: format!("/{path}"),
            variable: Some(key.into()),
            line,
            recovery: false,
        });
    }
}
