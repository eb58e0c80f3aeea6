// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaders of which the reader knows no entries: Limine, rEFInd, the firmware itself.

use machine::boot::line::{BootWord, kernel_words, with_words};
use machine::boot::quoting::quoted;
use machine::boot::{LineChanges, Loader};

use super::{in_place, whole_line};
use crate::boot::spec::{BootSpec, mount_of, mounts};
use crate::system::{self, System};

/// The variable in which a loader of EFI names itself.
const LOADER_INFO: &str = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
/// Where Limine looks for its file.
const LIMINE: [&str; 10] = [
    "/boot/limine.conf",
    "/boot/limine/limine.conf",
    "/boot/EFI/limine/limine.conf",
    "/boot/EFI/BOOT/limine.conf",
    "/efi/limine.conf",
    "/efi/EFI/limine/limine.conf",
    "/boot/efi/limine.conf",
    "/boot/efi/EFI/limine/limine.conf",
    "/boot/limine.cfg",
    "/boot/limine/limine.cfg",
];
/// Folders of rEFInd's own program.
const REFIND: [&str; 4] =
    ["/boot/efi/EFI/refind", "/efi/EFI/refind", "/boot/EFI/refind", "/boot/refind_linux.conf"];

/// The reason and the steps.
pub(super) fn lines(system: &dyn System, asked: &BootSpec<'_>) -> (String, Vec<String>) {
    let words = asked.words.join(" ");
    let info = system.read(LOADER_INFO).unwrap_or_default();
    let name: String = info.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| *byte as char).collect();
    let there = |path: &&str| system.stat(path).is_ok();
    if let Some(path) = LIMINE.iter().copied().find(there) {
        return ("Limine boots nothing only once".to_string(), limine(system, asked, path));
    }
    if name.to_lowercase().contains("refind") || (name.is_empty() && REFIND.iter().any(there)) {
        return (
            "rEFInd boots nothing only once, and offers each line of a file".to_string(),
            vec![refind(system, asked)],
        );
    }
    let by_stub =
        |word: BootWord<'_>| word.is("initrd") && word.value.is_some_and(|path| path.contains('\\'));
    // A loader that names itself started the kernel otherwise.
    if name.is_empty() && kernel_words(asked.running.unwrap_or_default()).any(by_stub) {
        return (
            "a boot entry of the firmware starts the kernel itself (EFI stub)".to_string(),
            stub(system, asked),
        );
    }
    let why = match asked.boot.loader {
        Loader::Unknown => "no boot loader that is known was found".to_string(),
        loader => format!("{} is not written by this program", loader.facts().name),
    };
    (why, vec![format!("add to the kernel's boot line: {words}")])
}

/// The line of the entry that runs, with our words.
fn limine(system: &dyn System, asked: &BootSpec<'_>, path: &str) -> Vec<String> {
    let text = system::text(system, path).unwrap_or_default();
    let running = asked.running.unwrap_or_default();
    let value = |line: &str| {
        let (key, value) = line.trim().split_once([':', '='])?;
        matches!(key.trim().to_lowercase().as_str(), "cmdline" | "kernel_cmdline")
            .then(|| value.trim().to_string())
    };
    let lines = || text.lines().filter_map(|line| Some((line.trim(), value(line)?)));
    let runs = lines().find(|(_, value)| LineChanges::between(running, value, asked.words).is_none());
    match runs.or_else(|| lines().next()) {
        Some((line, value)) => vec![
            format!("copy its entry in {path} under another name, so that the menu still boots the old line"),
            in_place(path, line, &line.replacen(&value, &with_words(&value, asked.words), 1)),
        ],
        None => vec![format!("add to the cmdline: of the entry in {path}: {}", asked.words.join(" "))],
    }
}

/// The first line of the file beside the kernels is the default; those after it can be chosen (F2).
fn refind(system: &dyn System, asked: &BootSpec<'_>) -> String {
    let path = "/boot/refind_linux.conf";
    let line = format!("\"Isolator\" \"{}\"", whole_line(asked).replace('"', "\"\""));
    match system.stat(path) {
        Ok(_) => format!("put before the first line of {path}: {line}"),
        Err(_) => format!("write into {path}, which is not there yet: {line}"),
    }
}

/// A boot entry of the firmware beside the one that runs, which is booted once.
fn stub(system: &dyn System, asked: &BootSpec<'_>) -> Vec<String> {
    let line = quoted(&with_words(asked.running.unwrap_or_default(), asked.words));
    let (disk, loader) = (partition(system), image(system, asked));
    let unknown = disk.is_none() || loader.is_none();
    let disk = disk.unwrap_or("-d DISK -p PARTITION".to_string());
    let loader = loader.unwrap_or("LOADER".to_string());
    let mut lines = Vec::new();
    if unknown {
        lines.push("find disk, partition and loader of the entry that runs: efibootmgr -v".to_string());
    }
    // `-C` leaves the order alone: `-c` would put the entry first, for good.
    lines.push(format!("run: efibootmgr -C {disk} -L isolator -l {loader} -u {line}"));
    lines.push("run: efibootmgr -n NUMBER, with the number that this prints: it is booted once".to_string());
    lines.push(
        "after that boot, if it held: efibootmgr -o NUMBER,OTHERS, the others as BootOrder has them"
            .to_string(),
    );
    lines
}

/// The EFI system partition, as `efibootmgr` takes it.
fn partition(system: &dyn System) -> Option<String> {
    let mounts = mounts(system)?;
    let mount = ["/boot", "/efi", "/boot/efi"].iter().find_map(|point| {
        mount_of(&mounts, 1, point).filter(|mount| mount[1] == *point && mount.get(2) == Some(&"vfat"))
    })?;
    let digits = mount[0].trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = &mount[0][digits.len()..];
    // A disk whose name ends with a digit has a `p` before the partition's number.
    let disk = digits.strip_suffix('p').filter(|disk| disk.ends_with(|last: char| last.is_ascii_digit()));
    let disk = disk.unwrap_or(digits);
    (!number.is_empty() && disk.starts_with("/dev/")).then(|| format!("-d {disk} -p {number}"))
}

/// The kernel beside the initial RAM disk that runs, where one name fits.
fn image(system: &dyn System, asked: &BootSpec<'_>) -> Option<String> {
    let disks = kernel_words(asked.running?).filter(|word| word.is("initrd")).filter_map(|word| word.value);
    let disk = disks.filter(|path| !path.contains("ucode")).last()?;
    let (folder, name) = disk.rsplit_once('\\')?;
    let tail = ["initramfs-", "initrd.img-", "initrd-"].iter().find_map(|start| name.strip_prefix(start))?;
    let tail = tail.strip_suffix(".img").unwrap_or(tail);
    let names = ["vmlinuz", "Image", "linux"].map(|kernel| format!("{kernel}-{tail}"));
    let there = |name: &&String| {
        let path = format!("{}/{name}", folder.replace('\\', "/"));
        ["/boot", "/efi", "/boot/efi"].iter().any(|mount| system.stat(&format!("{mount}{path}")).is_ok())
    };
    names.iter().find(there).map(|name| quoted(&format!("{folder}\\{name}")))
}
