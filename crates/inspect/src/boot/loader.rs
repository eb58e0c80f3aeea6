// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which boot loader it is, by its signs, and what reads its files.
//!
//! The sign of the loader that booted this machine comes first (a variable of the firmware, the running
//! line), then the files that only one loader has, the narrowest sign first. A new loader's
//! sign and reader are here, and its variant and facts in `machine`.

use super::pi::{FIRMWARE, OtherLoader, Settings};
use machine::boot::{Boot, Loader, line};

use super::read;
use crate::tree::Tree;

/// Fills a [`Boot`] from the files below a folder.
type LoaderReader = fn(&mut Tree, &mut Boot, &str);

/// The reader of a loader's files.
pub(super) fn reader(loader: Loader) -> LoaderReader {
    match loader {
        Loader::GrubDebian | Loader::Grub => read::grub_menu,
        Loader::GrubBls => read::grub_entries,
        Loader::L4tExtlinux | Loader::Extlinux => read::extlinux,
        Loader::SystemdBoot => read::systemd_boot,
        Loader::UnifiedKernelImage => read::kernel_image,
        Loader::RaspberryPi => read::raspberry_pi,
        Loader::UBoot => read::u_boot,
        Loader::Ostree => read::ostree,
        Loader::Unknown => |_, _, _| {},
    }
}

/// The loader, the files by which it was recognised, and the folder of its files.
pub(super) struct DetectedLoader {
    pub loader: Loader,
    pub seen: Vec<String>,
    pub folder: String,
}

/// Where the EFI system partition, or the extended boot partition, may be mounted.
const PARTITIONS: [&str; 4] = ["boot", "efi", "boot/efi", "boot/EFI"];
const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// The loader that was used, by the running line and the firmware's variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Booted {
    /// GRUB, or another that names the kernel in `BOOT_IMAGE=`.
    Grub,
    /// systemd-boot.
    SystemdBoot,
    /// The kernel was started as a program of the firmware's.
    Stub,
    /// Another loader, which names itself: rEFInd, Limine.
    Other,
    /// Neither says.
    Unknown,
}

/// The loader itself tells more surely than files, of which some may be left from another one.
fn booted(tree: &mut Tree) -> Booted {
    let line = tree.hint("proc/cmdline").unwrap_or_default();
    let by_stub =
        |word: line::BootWord<'_>| word.is("initrd") && word.value.is_some_and(|value| value.contains('\\'));
    // The text is UTF-16 after four bytes of attributes.
    let info = tree.hint_bytes(&variable()).unwrap_or_default();
    let info: Vec<u8> = info.into_iter().filter(|byte| *byte != 0).collect();
    let info = String::from_utf8_lossy(&info);
    match () {
        () if line::value(&line, "BOOT_IMAGE").is_some() => Booted::Grub,
        () if info.contains("systemd-boot") => Booted::SystemdBoot,
        () if info.to_uppercase().contains("GRUB") => Booted::Grub,
        () if info.len() > 4 => Booted::Other,
        () if line::kernel_words(&line).any(by_stub) => Booted::Stub,
        () => Booted::Unknown,
    }
}

fn variable() -> String {
    format!("sys/firmware/efi/efivars/LoaderInfo-{VENDOR}")
}

/// The unified kernel image that runs, as systemd-boot noted the entry it took.
fn image_that_runs(tree: &mut Tree) -> bool {
    let selected = tree.hint_bytes(&format!("sys/firmware/efi/efivars/LoaderEntrySelected-{VENDOR}"));
    let selected: Vec<u8> =
        selected.unwrap_or_default().into_iter().skip(4).filter(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&selected).to_lowercase().ends_with(".efi")
}

fn found(loader: Loader, seen: &[&str], folder: &str) -> DetectedLoader {
    let seen = seen.iter().filter(|path| !path.is_empty()).map(|path| format!("/{path}")).collect();
    DetectedLoader { loader, seen, folder: format!("/{folder}") }
}

/// Which loader booted this machine.
pub(super) fn find(tree: &mut Tree) -> DetectedLoader {
    let booted = booted(tree);
    if tree.exists("run/ostree-booted") {
        return found(Loader::Ostree, &["run/ostree-booted"], "boot/loader/entries");
    }
    let by_board = if matches!(booted, Booted::Unknown | Booted::Stub) { board(tree) } else { None };
    let by_firmware =
        if matches!(booted, Booted::Grub | Booted::Other) { None } else { systemd_boot(tree, booted) };
    if let Some(found) = by_board.or(by_firmware) {
        return found;
    }
    if booted == Booted::SystemdBoot {
        // Its files are on a partition that is not mounted.
        return found(Loader::SystemdBoot, &[&variable()], "boot/loader");
    }
    if matches!(booted, Booted::Stub | Booted::Other) {
        return found(Loader::Unknown, &[], "boot");
    }
    if let Some(found) = grub(tree) {
        return found;
    }
    // Alpine's lies in /boot itself.
    for folder in ["boot/extlinux", "boot"] {
        let path = format!("{folder}/extlinux.conf");
        if tree.exists(&path) {
            return found(Loader::Extlinux, &[&path], folder);
        }
    }
    let environment = read::environments(tree).into_iter().next();
    for path in ["etc/fw_env.config", environment.as_deref().unwrap_or_default(), "boot/boot.scr"] {
        if !path.is_empty() && tree.exists(path) {
            return found(Loader::UBoot, &[path], "boot");
        }
    }
    let scripts =
        ["boot/firmware/boot.scr", "boot/firmware/boot.scr.uimg", "boot/boot.scr.uimg", "boot/boot.ini"];
    if let Some(path) = scripts.into_iter().find(|path| tree.exists(path)) {
        return found(Loader::UBoot, &[path], "boot");
    }
    // Its script or environment lies where no mounted partition shows it.
    for folder in FIRMWARE {
        let starts = Settings::read(tree, folder).ok().and_then(|read| read.another_loader);
        if starts == Some(OtherLoader::UBoot) {
            return found(Loader::UBoot, &[&format!("{folder}/config.txt")], folder);
        }
    }
    found(Loader::Unknown, &[], "boot")
}

/// Boards whose own firmware reads files.
fn board(tree: &mut Tree) -> Option<DetectedLoader> {
    if tree.exists("boot/extlinux/extlinux.conf") && tree.exists("etc/nv_tegra_release") {
        let seen = ["boot/extlinux/extlinux.conf", "etc/nv_tegra_release"];
        return Some(found(Loader::L4tExtlinux, &seen, "boot/extlinux"));
    }
    let model =
        tree.hint("proc/device-tree/model").or_else(|| tree.hint("sys/firmware/devicetree/base/model"));
    let a_pi = model.as_deref().map(|model| model.contains("Raspberry Pi"));
    for folder in FIRMWARE {
        let [line, config] = ["cmdline.txt", "config.txt"].map(|name| format!("{folder}/{name}"));
        if a_pi == Some(false) || !tree.exists(&config) || (a_pi.is_none() && !tree.exists(&line)) {
            continue;
        }
        let read = Settings::read(tree, folder);
        if read.as_ref().is_ok_and(|read| read.another_loader.is_some()) {
            return None;
        }
        let line = read.map_or(line, |read| format!("{folder}/{}", read.line));
        let line = if tree.exists(&line) { line.as_str() } else { "" };
        return Some(found(Loader::RaspberryPi, &[line, &config], folder));
    }
    None
}

fn grub(tree: &mut Tree) -> Option<DetectedLoader> {
    let path = ["boot/grub2/grub.cfg", "boot/grub/grub.cfg"].into_iter().find(|path| tree.exists(path));
    let folder = path.map_or("boot/grub2", |path| path.trim_end_matches("/grub.cfg"));
    // Entries may lie on the EFI system partition, as openSUSE's grub2-bls has them.
    let usual = tree.names("boot/loader/entries").iter().any(|name| name.ends_with(".conf"));
    let partition = PARTITIONS.into_iter().find(|partition| {
        (usual && *partition == "boot") || has_entries(tree, &format!("{partition}/loader/entries"))
    });
    let entries = partition.map(|partition| format!("{partition}/loader/entries"));
    // A menu with entries of its own that does not ask for files has no use for them.
    let menu = path.and_then(|path| tree.hint(path)).unwrap_or_default();
    let by_files = menu.contains("blscfg") || !menu.contains("menuentry ");
    if let Some(entries) = entries.filter(|_| by_files && (path.is_some() || tree.exists("etc/default/grub")))
    {
        return Some(found(Loader::GrubBls, &[&entries, path.unwrap_or_default()], folder));
    }
    if tree.exists("etc/default/grub") {
        // The folder of drop-ins is Debian's: elsewhere grub-mkconfig does not read it.
        let debian = tree.exists("etc/debian_version") || of_debian(tree);
        let loader = if debian { Loader::GrubDebian } else { Loader::Grub };
        let folder = path.map_or("boot/grub", |path| path.trim_end_matches("/grub.cfg"));
        return Some(found(loader, &["etc/default/grub", path.unwrap_or_default()], folder));
    }
    None
}

fn systemd_boot(tree: &mut Tree, booted: Booted) -> Option<DetectedLoader> {
    let says = booted == Booted::SystemdBoot;
    for partition in PARTITIONS {
        let conf = format!("{partition}/loader/loader.conf");
        let program = format!("{partition}/EFI/systemd");
        // Without its settings systemd-boot boots too; what names the RAM disk as it does has its files.
        let here = match tree.exists(&conf) {
            true => says || tree.exists(&program),
            false => (says || booted == Booted::Stub) && tree.exists(&program),
        };
        let images = format!("{partition}/EFI/Linux");
        let unified = tree.hint_names(&images).iter().any(|name| name.to_lowercase().ends_with(".efi"));
        let typed = PARTITIONS.iter().find(|other| has_entries(tree, &format!("{other}/loader/entries")));
        match typed.filter(|_| !(unified && image_that_runs(tree))) {
            Some(entries) if here => {
                return Some(DetectedLoader {
                    loader: Loader::SystemdBoot,
                    seen: vec![format!("/{conf}"), format!("/{entries}/loader/entries")],
                    folder: format!("/{entries}/loader"),
                });
            }
            None if unified && (here || says || !tree.exists("etc/default/grub")) => {
                return Some(found(Loader::UnifiedKernelImage, &[&images], partition));
            }
            _ => {}
        }
    }
    None
}

/// Whether a folder has files of entries.
fn has_entries(tree: &mut Tree, folder: &str) -> bool {
    tree.hint_names(folder).iter().any(|name| name.ends_with(".conf"))
}

fn of_debian(tree: &mut Tree) -> bool {
    let release = tree.hint("etc/os-release").or_else(|| tree.hint("usr/lib/os-release")).unwrap_or_default();
    let ids = release.lines().filter_map(|line| line.strip_prefix("ID=").or(line.strip_prefix("ID_LIKE=")));
    ids.flat_map(|ids| ids.trim_matches('"').split(' ')).any(|id| id == "debian" || id == "ubuntu")
}
