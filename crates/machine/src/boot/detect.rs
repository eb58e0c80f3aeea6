// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which loader it is, by the files that only it has; the narrowest sign first.

use super::Loader;
use crate::tree::Tree;

/// The loader, the files by which it was recognised, and the folder of its files.
pub(super) struct Found {
    pub loader: Loader,
    pub seen: Vec<String>,
    pub folder: String,
}

/// Where the EFI system partition, or the extended boot partition, may be mounted.
const PARTITIONS: [&str; 4] = ["boot", "efi", "boot/efi", "boot/EFI"];
const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

pub(super) fn loader(tree: &mut Tree) -> Found {
    let found = |loader, seen: &[&str], folder: &str| Found {
        loader,
        seen: seen.iter().filter(|path| !path.is_empty()).map(|path| format!("/{path}")).collect(),
        folder: format!("/{folder}"),
    };
    if tree.exists("run/ostree-booted") {
        return found(Loader::Ostree, &["run/ostree-booted"], "boot/loader/entries");
    }
    if tree.exists("boot/extlinux/extlinux.conf") && tree.exists("etc/nv_tegra_release") {
        let seen = ["boot/extlinux/extlinux.conf", "etc/nv_tegra_release"];
        return found(Loader::L4tExtlinux, &seen, "boot/extlinux");
    }
    let model =
        tree.hint("proc/device-tree/model").or_else(|| tree.hint("sys/firmware/devicetree/base/model"));
    for folder in ["boot/firmware", "boot"] {
        let [line, config] = ["cmdline.txt", "config.txt"].map(|name| format!("{folder}/{name}"));
        let a_pi = model.as_deref().is_none_or(|model| model.contains("Raspberry Pi"));
        if a_pi && tree.exists(&line) && tree.exists(&config) {
            return found(Loader::RaspberryPi, &[&line, &config], folder);
        }
    }
    if let Some(found) = systemd_boot(tree) {
        return found;
    }
    let grub = ["boot/grub2/grub.cfg", "boot/grub/grub.cfg"].into_iter().find(|path| tree.exists(path));
    let folder = grub.map_or("boot/grub2", |path| path.trim_end_matches("/grub.cfg"));
    let entries = tree.names("boot/loader/entries").iter().any(|name| name.ends_with(".conf"));
    if entries && (grub.is_some() || tree.exists("etc/default/grub")) {
        return found(Loader::GrubBls, &["boot/loader/entries", grub.unwrap_or_default()], folder);
    }
    if tree.exists("etc/default/grub") {
        // The folder of drop-ins is Debian's: elsewhere grub-mkconfig does not read it.
        let debian = tree.exists("etc/debian_version") || of_debian(tree);
        let loader = if debian { Loader::GrubDebian } else { Loader::Grub };
        let folder = grub.map_or("boot/grub", |path| path.trim_end_matches("/grub.cfg"));
        return found(loader, &["etc/default/grub", grub.unwrap_or_default()], folder);
    }
    if tree.exists("boot/extlinux/extlinux.conf") {
        return found(Loader::Extlinux, &["boot/extlinux/extlinux.conf"], "boot/extlinux");
    }
    for path in ["etc/fw_env.config", "boot/armbianEnv.txt", "boot/uEnv.txt", "boot/boot.scr"] {
        if tree.exists(path) {
            return found(Loader::UBoot, &[path], "boot");
        }
    }
    found(Loader::Unknown, &[], "boot")
}

fn systemd_boot(tree: &mut Tree) -> Option<Found> {
    let variable = format!("sys/firmware/efi/efivars/LoaderInfo-{VENDOR}");
    // The text is UTF-16 after four bytes of attributes.
    let info = tree.hint_bytes(&variable).map(|bytes| bytes.into_iter().filter(|byte| *byte != 0).collect());
    let says = info.is_some_and(|info: Vec<u8>| String::from_utf8_lossy(&info).contains("systemd-boot"));
    for partition in PARTITIONS {
        let conf = format!("{partition}/loader/loader.conf");
        let program = format!("{partition}/EFI/systemd");
        let here = tree.exists(&conf) && (says || tree.exists(&program));
        let images = format!("{partition}/EFI/Linux");
        let unified = tree.hint_names(&images).iter().any(|name| name.to_lowercase().ends_with(".efi"));
        let typed = PARTITIONS.iter().find(|other| {
            let folder = format!("{other}/loader/entries");
            tree.hint_names(&folder).iter().any(|name| name.ends_with(".conf"))
        });
        match typed {
            Some(entries) if here => {
                return Some(Found {
                    loader: Loader::SystemdBoot,
                    seen: vec![format!("/{conf}"), format!("/{entries}/loader/entries")],
                    folder: format!("/{entries}/loader"),
                });
            }
            None if unified && (here || says || !tree.exists("etc/default/grub")) => {
                return Some(Found {
                    loader: Loader::UnifiedKernelImage,
                    seen: vec![format!("/{images}")],
                    folder: format!("/{partition}"),
                });
            }
            _ => {}
        }
    }
    None
}

fn of_debian(tree: &mut Tree) -> bool {
    let release = tree.hint("etc/os-release").or_else(|| tree.hint("usr/lib/os-release")).unwrap_or_default();
    let ids = release.lines().filter_map(|line| line.strip_prefix("ID=").or(line.strip_prefix("ID_LIKE=")));
    ids.flat_map(|ids| ids.trim_matches('"').split(' ')).any(|id| id == "debian" || id == "ubuntu")
}
