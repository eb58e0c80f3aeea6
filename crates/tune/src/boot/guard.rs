// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conditions before a boot file is touched: words that every loader reads alike, no second owner of a
//! parameter wherever its words come from, files that are those of this boot, a line that fits, and an entry
//! whose kernel, initial RAM disk and root driver are there.

use machine::Snapshot;
use machine::boot::{BootEntry, EntrySource, Loader, line, roots};
use machine::registry::cpus;
use machine::snapshot::Kernel;

use super::spec::{BootSpec, find_file, may_be_same_root, mount_of, mounts};
use crate::record::Step;
use crate::system::{self, System, folder};
use crate::{Error, Result};

/// Refuses what no loader is to be asked for. A trial that held has shown that its entry boots.
pub(super) fn admit(system: &dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<()> {
    check_words(asked)?;
    lasts_at_all(system, asked)?;
    mounted(asked)?;
    words_for_init(asked)?;
    duplicates(asked)?;
    cpus(asked)?;
    // Who keeps the files knows which entry boots.
    if asked.boot.keeper.is_some() {
        return Ok(());
    }
    booted(asked)?;
    if tried { Ok(()) } else { bootable(system, asked) }
}

/// Words that no loader, generator or shell reads in a way of its own.
fn check_words(asked: &BootSpec<'_>) -> Result<()> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.,=:+/@%".contains(letter);
    match asked.words.iter().find(|word| word.is_empty() || !word.chars().all(plain) || word.starts_with('-'))
    {
        Some(word) => Err(Error::new(
            format!("put '{word}' into the boot line"),
            "boot loaders read such letters in different ways",
            "set it by hand",
        )),
        None => Ok(()),
    }
}

/// GRUB's generator puts its variables one behind the other, and ours behind both: a `--` in one of them
/// gives
/// our words to init.
fn words_for_init(asked: &BootSpec<'_>) -> Result<()> {
    let of_grub = |source: &&EntrySource| {
        source.variable.as_deref().is_some_and(|name| name.starts_with("GRUB_CMDLINE_LINUX"))
    };
    let ends = |source: &&EntrySource| source.line.as_deref().is_some_and(line::has_words_for_init);
    match asked.boot.sources.iter().filter(of_grub).find(ends) {
        None => Ok(()),
        Some(source) => Err(Error::new(
            "add to the boot line",
            format!("{} has a `--`, and the kernel gives all words behind it to init", source.place()),
            "take `--` and what follows out of it, make the menu anew, boot and plan again",
        )),
    }
}

/// The next boot has the CPUs that are to be isolated, and its kernel drops no word of ours.
fn cpus(asked: &BootSpec<'_>) -> Result<()> {
    let sources = asked.boot.sources.iter();
    let sources = sources.filter_map(|source| Some((source.line.as_deref()?, source.place())));
    let entries = asked.boot.default_entry().into_iter().chain(asked.entry());
    let entries = entries.map(|entry| (entry.options.as_str(), entry.file.clone()));
    let runs = asked.running.map(|line| (line, "the running line".to_string()));
    let isolated = cpus::isolated(asked.words);
    let kernel = Kernel { release: asked.release.map(str::to_string), ..Kernel::default() };
    for (line, place) in sources.chain(entries).chain(runs) {
        if let Some((word, gone)) = cpus::taken_away(line, &isolated) {
            return Err(Error::new(
                "isolate CPUs at the next boot",
                format!("{} in {place} takes cpus {gone} away", word.raw),
                format!("take {} out of it, or plan with CPUs that it leaves (--cpus)", word.raw),
            ));
        }
        let longer = line::with_words(line, asked.words);
        let ours = |word: &line::BootWord<'_>| asked.words.iter().any(|own| own == word.raw);
        let dropped = cpus::dropped(&longer, &kernel);
        if let Some(pair) = dropped.iter().find(|pair| ours(&pair.word) && !ours(&pair.by)) {
            return Err(Error::new(
                "add to the boot line",
                format!("{} is in {place}, and this kernel then drops {}", pair.by.raw, pair.word.raw),
                format!("take {} out of it, boot and plan again", pair.by.raw),
            ));
        }
    }
    Ok(())
}

/// The words of a line that have a name of ours already, and are not ours.
pub fn foreign<'a>(options: &'a str, words: &[String]) -> Vec<&'a str> {
    let ours = |name: &str| words.iter().any(|word| line::BootWord::new(word).is(name));
    line::kernel_words(options).filter(|word| ours(word.name)).map(|word| word.raw).collect()
}

/// Whether the kernel reads what is added to `options` as a part of a quoted value (next_arg() in
/// lib/cmdline.c).
pub fn quote_stays_open(options: &str) -> bool {
    options.matches('"').count() % 2 == 1
}

/// Words under names of ours, each with the place where it stands.
fn others(asked: &BootSpec<'_>) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for source in &asked.boot.sources {
        let line = source.line.as_deref().unwrap_or_default();
        found.extend(foreign(line, asked.words).into_iter().map(|raw| (raw.to_string(), source.place())));
        // A statement that cannot be read may still name a parameter.
        let Some(unclear) = &source.unclear else { continue };
        let quote =
            |letter: char| letter.is_whitespace() || "\"'\u{201c}\u{201d}\u{2018}\u{2019}".contains(letter);
        let place = format!("{}, which cannot be read here ({})", source.place(), unclear.why);
        for word in unclear.text.split(quote) {
            found.extend(foreign(word, asked.words).into_iter().map(|raw| (raw.to_string(), place.clone())));
        }
    }
    let known = |found: &[(String, String)], raw: &str| found.iter().any(|(other, _)| other == raw);
    for entry in asked.boot.default_entry().into_iter().chain(asked.entry()) {
        for raw in foreign(&entry.options, asked.words) {
            if !known(&found, raw) {
                let file = entry.script.as_ref().filter(|script| !script.contains("10_linux"));
                found.push((raw.to_string(), file.unwrap_or(&entry.file).clone()));
            }
        }
    }
    for raw in foreign(asked.running.unwrap_or_default(), asked.words) {
        // What a trial of ours has left in the running line is ours.
        if !known(&found, raw) && !asked.words.iter().any(|word| word == raw) {
            let place = match asked.boot.loader {
                Loader::Unknown => {
                    "the running line; no boot loader known here was found, so its place cannot be told: change it where \
                     this machine's loader keeps its line"
                }
                _ => "the running line and in no file: firmware adds it, or the entry that had it is gone",
            };
            found.push((raw.to_string(), place.to_string()));
        }
    }
    found
}

/// No parameter of ours stands in the line already or comes into it from elsewhere, no quote is open, no
/// `root=` occurs twice, and the longer line still fits.
fn duplicates(asked: &BootSpec<'_>) -> Result<()> {
    let mut by_place: Vec<(String, Vec<String>)> = Vec::new();
    for (raw, place) in others(asked) {
        match by_place.iter_mut().find(|(other, _)| *other == place) {
            Some((_, raws)) => raws.push(raw),
            None => by_place.push((place, vec![raw])),
        }
    }
    if !by_place.is_empty() {
        let said = by_place.iter().map(|(place, raws)| format!("{} in {place}", raws.join(" ")));
        return Err(Error::new(
            "add to the boot line",
            format!("the same is set already: {}", said.collect::<Vec<_>>().join(", ")),
            "take that out first, or roll back what set it, boot again and plan again",
        ));
    }
    let Some(entry) = asked.entry() else { return Ok(()) };
    if quote_stays_open(&entry.options) {
        return Err(Error::new(
            "add to the boot line",
            format!(
                "a quote is not closed in {}, so that the kernel would take our words for a part of it",
                entry.file
            ),
            "close it, boot again and plan again",
        ));
    }
    if line::kernel_words(&entry.options).filter(|word| word.is("root")).count() > 1 {
        return Err(Error::new(
            format!("copy the entry '{}'", entry.title),
            format!("root= occurs twice in {}", entry.file),
            "leave one of them",
        ));
    }
    // COMMAND_LINE_SIZE is 2048 on x86 and arm64 and 1024 on arm and riscv; firmware adds up to 256.
    let long = entry.options.len() + asked.words.iter().map(|word| word.len() + 1).sum::<usize>();
    let limit = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) { 2048 } else { 1024 };
    if long + 256 > limit {
        return Err(Error::new(
            "add to the boot line",
            format!("it would have {long} bytes, and the kernel reads {limit} with those of the firmware"),
            "take out what is not needed",
        ));
    }
    Ok(())
}

/// The files are those from which this machine booted, and the default entry boots the kernel that runs: the
/// plan was made for that one.
fn booted(asked: &BootSpec<'_>) -> Result<()> {
    let boot = asked.boot;
    let running = asked.running.unwrap_or_default();
    let Some(entry) = boot.default_entry().filter(|_| boot.loader != Loader::Ostree) else { return Ok(()) };
    let what = || format!("change the boot line in {}", entry.file);
    if let Some((runs, says)) = boot.booted_elsewhere(running) {
        return Err(Error::new(
            what(),
            format!(
                "{runs} runs and no entry of it has that (it has {says}): this machine booted from another file"
            ),
            "find the partition from which the loader boots (a card, an eMMC, a USB disk), mount it at /boot and plan again",
        ));
    }
    if !may_be_same_root(running, &entry.options) {
        let all = |line| roots(line).collect::<Vec<_>>().join(" ");
        return Err(Error::new(
            what(),
            format!(
                "its default entry '{}' boots {}, and {} runs",
                entry.title,
                all(&entry.options),
                all(running)
            ),
            "make the system that runs the default, boot it and plan again",
        ));
    }
    if boot.boots_what_runs(entry, asked.release, running) == Some(false) {
        let release = asked.release.unwrap_or("another kernel");
        return Err(Error::new(
            what(),
            match (&entry.hypervisor, boot.under_hypervisor) {
                (None, true) => {
                    format!("its default entry '{}' boots Linux alone, and Linux runs under Xen", entry.title)
                }
                (Some(hypervisor), false) => format!(
                    "its default entry '{}' boots the hypervisor {hypervisor}, and Linux runs alone",
                    entry.title
                ),
                _ => format!(
                    "its default entry '{}' boots {}, and the plan is for {release}, which runs",
                    entry.title,
                    entry.kernel.as_deref().unwrap_or("another kernel")
                ),
            },
            boot.loader.facts().make_default,
        ));
    }
    Ok(())
}

/// The line that a loader gives counts for the kernel.
pub fn line_counts(machine: &Snapshot) -> Result<()> {
    if !machine.kernel.line_is_built_in {
        return Ok(());
    }
    Err(Error::new(
        "change the boot line",
        "the kernel takes the line that is built into it (CONFIG_CMDLINE) and no loader's",
        "build it without CONFIG_CMDLINE_FORCE, or with these words in CONFIG_CMDLINE",
    ))
}

/// Refuses files of a loader that lie where a partition of its own is not mounted.
fn mounted(asked: &BootSpec<'_>) -> Result<()> {
    let Some(point) = asked.boot.unmounted() else { return Ok(()) };
    Err(Error::new(
        "change the boot line",
        format!("{point} is a partition of the boot loader, and it is not mounted"),
        format!("mount {point}, then plan again"),
    ))
}

/// Words by which an initial RAM disk lets a system run from memory, with the values that do; none is any.
const FROM_MEMORY: [(&str, &[&str]); 12] = [
    ("boot", &["live", "casper", "overlay"]),
    ("overlayroot", &["tmpfs"]),
    ("systemd.volatile", &["yes", "state", "overlay", "1", "true", "on", ""]),
    ("root", &["live:", "tmpfs", "/dev/ram", "squash:", "/dev/zram"]),
    ("rd.live.image", &[]),
    ("rd.live.ram", &[]),
    ("rd.root.overlay.temporary", &[]),
    ("rd.overlay", &[]),
    ("archisobasedir", &[]),
    ("toram", &[]),
    ("copytoram", &[]),
    ("alpine_dev", &[]),
];

/// Whether the running line says that the system runs from memory.
fn says_memory(running: &str) -> bool {
    FROM_MEMORY.iter().any(|(name, values)| {
        let is = |value: &str| {
            let start = |start: &&str| value == *start || (start.len() > 4 && value.starts_with(*start));
            values.is_empty() || values.iter().any(start)
        };
        line::value(running, name).is_some_and(is)
    })
}

/// Refuses a system that runs from memory, where no written file stays.
fn lasts_at_all(system: &dyn System, asked: &BootSpec<'_>) -> Result<()> {
    let in_memory = mounts(system).is_some_and(|mounts| in_memory(system, &mounts, "/"));
    if says_memory(asked.running.unwrap_or_default()) || in_memory {
        return Err(Error::new(
            "change the boot line",
            "this system runs from an overlay in RAM, or on a folder out of sight, so the record of a change would be gone with the next boot",
            "switch the overlay off (raspi-config, overlayroot), boot and plan again; a live system has to be installed",
        ));
    }
    Ok(())
}

/// Whether the file system that holds `path` is in memory: a tmpfs, a RAM disk, or an overlay whose changes
/// are on one. The initial RAM disk of a live system leaves them where no path leads (Ubuntu's
/// `/cow/upper`), as containers do; a root whose lower layer is an image then tells the live system.
fn in_memory(system: &dyn System, mounts: &str, path: &str) -> bool {
    let is_memory = |fields: &[&str]| {
        let disk = fields
            .first()
            .is_some_and(|disk| ["/dev/ram", "/dev/zram"].iter().any(|ram| disk.starts_with(ram)));
        disk || matches!(fields.get(2), Some(&("tmpfs" | "ramfs" | "rootfs")))
    };
    let holds = |path: &str| mount_of(mounts, 1, path).unwrap_or_default();
    let mount = holds(path);
    let [_, _, "overlay", options, ..] = mount[..] else { return is_memory(&mount) };
    let value = |name: &str| options.split(',').find_map(|option| option.strip_prefix(name));
    let of_image = || {
        let mut layers = value("lowerdir=").unwrap_or_default().split(':');
        let is_image =
            |layer: &str| [".squashfs", ".sfs", ".erofs", ".img"].iter().any(|end| layer.ends_with(end));
        mount[1] == "/" && layers.any(|layer| is_image(layer.trim_end_matches('/')))
    };
    value("upperdir=").is_some_and(|path| match system.stat(path) {
        Ok(_) => is_memory(&holds(path)),
        Err(_) => of_image(),
    })
}

/// File systems that no mount makes writable.
const NEVER_WRITTEN: [&str; 5] = ["squashfs", "erofs", "iso9660", "cramfs", "romfs"];

/// Refuses to arm anything of which the record, or a file, would be gone or another one after the boot, and
/// file systems that cannot be written.
pub(super) fn outlives_boot(system: &dyn System, asked: &BootSpec<'_>, steps: &[Step]) -> Result<()> {
    let Some(mounts) = mounts(system).filter(|_| !steps.is_empty()) else { return Ok(()) };
    let record = crate::places::RECORDS;
    let written = steps.iter().filter_map(|step| match step {
        Step::File { path, .. } | Step::Generated { path, .. } | Step::Folder { path } => Some(path.as_str()),
        _ => None,
    });
    for path in written.chain([record]) {
        let real = system.real_path(path).unwrap_or_else(|_| path.to_string());
        let Some(mount) = mount_of(&mounts, 1, &real) else { continue };
        let (point, kind) = (mount[1], mount.get(2).copied().unwrap_or_default());
        let what = || format!("write {path}");
        if in_memory(system, &mounts, &real) {
            return Err(Error::new(
                what(),
                format!(
                    "{point} ({kind}) is in RAM, so it would be gone with the next boot, and with it what undoes the change"
                ),
                format!("give {point} a file system that stays, boot and plan again"),
            ));
        }
        if mount.get(3).is_some_and(|options| options.split(',').any(|option| option == "ro")) {
            return Err(Error::new(
                what(),
                format!("{point} is mounted read-only"),
                if NEVER_WRITTEN.contains(&kind) {
                    format!("a {kind} is an image: build the words into it with the tool that makes it")
                } else {
                    format!("make it writable, `mount -o remount,rw {point}`, and try again")
                },
            ));
        }
    }
    let own_mount = mount_of(&mounts, 1, record).is_some_and(|mount| mount[1] != "/");
    match updater(system, asked).filter(|_| !own_mount) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            "try a boot line",
            format!(
                "this is one of two images (slots A and B) of {name}: after a boot of the other one there is no record in \
                 {record} to undo the change"
            ),
            "build the words into the image, or put /var/lib/isolator on the partition that both images share",
        )),
    }
}

/// The program that keeps two images of this system, of which either may be booted next.
fn updater(system: &dyn System, asked: &BootSpec<'_>) -> Option<&'static str> {
    let named = |word: &str| line::value(asked.running.unwrap_or_default(), word).is_some();
    let there = |path: &str| system.stat(path).is_ok();
    match () {
        () if named("rauc.slot") || there("/etc/rauc/system.conf") => Some("RAUC"),
        () if there("/etc/mender/mender.conf") => Some("Mender"),
        () if there("/etc/swupdate.cfg") || there("/etc/swupdate") => Some("SWUpdate"),
        () if there("/usr/bin/abroot") => Some("ABRoot"),
        () if there("/usr/bin/steamos-readonly") => Some("SteamOS"),
        () if named("androidboot.slot_suffix") => Some("Android's A/B scheme"),
        () => None,
    }
}

/// Settings of the machine are its host's where this is a container.
pub fn host(machine: &Snapshot) -> Result<()> {
    let wsl = machine.hypervisor.as_deref() == Some("wsl");
    let refuse = |why: String, cure: &str| Err(Error::new("apply the plan", why, cure));
    match &machine.container {
        Some(kind) => refuse(
            format!(
                "this is a container ({kind}): the boot line, interrupts and kernel threads are its host's"
            ),
            "plan and apply on the host",
        ),
        None if wsl => refuse(
            "this is WSL: Windows starts its kernel and owns its boot line and processors".into(),
            "use Linux on the machine itself, or kernelCommandLine in .wslconfig of Windows and `wsl --shutdown`",
        ),
        None => Ok(()),
    }
}

/// The entry that is copied or changed boots: its kernel and initial RAM disks exist, and the driver of the
/// root device is in one of them.
fn bootable(system: &dyn System, asked: &BootSpec<'_>) -> Result<()> {
    // ostree looks after its deployments; the others name no files that we could find.
    if !asked.boot.loader.facts().names_files {
        return Ok(());
    }
    let Some(entry) = asked.entry() else { return Ok(()) };
    let what = || format!("use the entry '{}' of {}", entry.title, entry.file);
    for path in entry.kernel.iter().chain(&entry.initrd).filter(|path| !path.contains(['$', '('])) {
        if find_file(system, asked, path).is_none() {
            let cure = "install that kernel again, or make its initial RAM disk (update-initramfs, dracut)";
            return Err(Error::new(what(), format!("{path} is not there"), cure));
        }
    }
    let Some(version) = version(entry) else { return Ok(()) };
    // What runs has found its root.
    if Some(version.as_str()) == asked.release {
        return Ok(());
    }
    let modules = format!("/lib/modules/{version}");
    let made = entry.initrd.iter().filter_map(|path| find_file(system, asked, path));
    let made = made.filter_map(|path| system.stat(&path).ok()).map(|stat| stat.changed_ns).min();
    match (made, system.stat(&format!("{modules}/modules.dep"))) {
        (Some(made), Ok(dep)) if made < dep.changed_ns => Err(Error::new(
            what(),
            format!("its initial RAM disk is older than {modules}"),
            format!("make it anew: update-initramfs -u -k {version}, or dracut -f --kver {version}"),
        )),
        (None, _) => {
            let built_in = system::text(system, &format!("{modules}/modules.builtin")).unwrap_or_default();
            match root_driver(system) {
                Some(driver) if !built_in.contains(&format!("/{driver}.ko")) => Err(Error::new(
                    what(),
                    format!(
                        "it has no initial RAM disk, and {driver}, which drives the root device, is a module"
                    ),
                    format!("make one: update-initramfs -c -k {version}"),
                )),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The kernel release that an entry boots, as far as its name says it.
fn version(entry: &BootEntry) -> Option<String> {
    let name = entry.kernel.as_deref()?.rsplit('/').next()?;
    let version = name.strip_prefix("vmlinuz-").or_else(|| name.strip_prefix("Image-"))?;
    Some(version.to_string())
}

/// The module that drives the root device, by its name; none where the kernel does not say.
fn root_driver(system: &dyn System) -> Option<String> {
    let mounts = system::text(system, "/proc/self/mountinfo").ok()?;
    let number = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields.get(4) == Some(&"/")).then(|| fields.get(2).map(|number| number.to_string())).flatten()
    })?;
    let device = system.real_path(&format!("/sys/dev/block/{number}")).ok()?;
    let mut at = device.as_str();
    while at.len() > "/sys/devices".len() {
        if let Ok(module) = system.real_path(&format!("{at}/driver/module")) {
            return module.rsplit('/').next().map(str::to_string);
        }
        at = folder(at);
    }
    None
}

/// Whether the loader can write to the file system that holds `path`: GRUB writes neither through LVM, RAID
/// and encryption nor to file systems that copy on write. Then a variable for one boot would be one for every
/// boot.
pub(super) fn loader_can_write(system: &dyn System, path: &str) -> bool {
    let Some(mounts) = mounts(system) else { return false };
    mount_of(&mounts, 1, path).is_some_and(|fields| {
        let mapped = ["/dev/mapper/", "/dev/md", "/dev/dm-"].iter().any(|start| fields[0].starts_with(start));
        fields[0].starts_with("/dev/")
            && !mapped
            && matches!(fields.get(2), Some(&("ext2" | "ext3" | "ext4" | "vfat" | "xfs")))
    })
}

#[cfg(test)]
mod tests;
