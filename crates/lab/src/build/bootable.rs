// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a configuration has what a machine boots from: the driver of its root file system, and those of
//! the disk below it and of all that the disk hangs on.
//!
//! Read below a root folder, so that another machine's capture is as good as this one. Which option makes
//! which module the kernel's own Makefiles say (`obj-$(CONFIG_VIRTIO_BLK) += virtio_blk.o`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::build::config::BuildConfig;
use crate::{Error, Result};

/// File systems that every kernel has, or that stand for none.
const WITHOUT_DRIVER: &[&str] = &["tmpfs", "ramfs", "rootfs", "devtmpfs", "overlay"];

/// File systems whose module is called otherwise.
const OTHERWISE: &[(&str, &str)] =
    &[("ext3", "ext4"), ("ext2", "ext4"), ("nfs4", "nfs"), ("iso9660", "isofs"), ("fuseblk", "fuse")];

/// Drivers by module, each with the reason why the machine needs it.
type Needed = BTreeMap<String, String>;

/// The needs of a kernel from which the machine below `root` boots.
pub fn needed(root: &Path) -> Result<Needed> {
    let mounts = root.join("proc/mounts");
    let text = untrusted::text(&mounts).map_err(|e| Error::io("read", &mounts, &e))?;
    let mut words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let last = words.rfind(|words| words.len() > 2 && words[1] == "/");
    let Some((device, kind)) = last.map(|words| (words[0].to_string(), words[2].to_string())) else {
        let why = "it has no line for /";
        return Err(Error::on(
            "learn the root file system from",
            mounts.display(),
            why,
            "give a captured root with --machine",
        ));
    };
    let mut needed = Needed::new();
    if !WITHOUT_DRIVER.contains(&kind.as_str()) {
        let module =
            OTHERWISE.iter().find(|(name, _)| *name == kind).map_or(kind.as_str(), |(_, module)| module);
        needed.insert(plain(module), format!("the root file system's driver {kind}"));
    }
    if let Some(name) = device.strip_prefix("/dev/") {
        // /dev/mapper/root is a link to /dev/dm-0.
        let real = fs::canonicalize(root.join("dev").join(name)).ok();
        let name =
            real.as_deref().and_then(Path::file_name).map_or(name.into(), |name| name.to_string_lossy());
        disk(root, &name, &mut needed);
    }
    Ok(needed)
}

/// The drivers of a block device, and of those that it is made of.
fn disk(root: &Path, name: &str, needed: &mut Needed) {
    let Ok(mut device) = fs::canonicalize(root.join("sys/class/block").join(name)) else { return };
    let read = |path: PathBuf| untrusted::text(path).map(|text| text.trim().to_string()).ok();
    if device.join("partition").is_file() {
        device.pop();
    }
    let mut need = |module: &str, what: &str| {
        needed.entry(plain(module)).or_insert_with(|| format!("{what} {module} of the root disk {name}"));
    };
    if let Some(id) = read(device.join("dm/uuid")) {
        need("dm-mod", "the device mapper");
        if id.starts_with("CRYPT-") {
            need("dm-crypt", "the device mapper's part");
        }
    }
    if let Some(level) = read(device.join("md/level")) {
        need(&level, "the array's driver");
    }
    for folder in device.ancestors().take_while(|folder| *folder != root) {
        let module = fs::canonicalize(folder.join("driver/module"));
        // A driver that is built in may have no module; then its own name is as good as any.
        let driver = module.or_else(|_| fs::canonicalize(folder.join("driver")));
        if let Some(driver) = driver.ok().as_deref().and_then(Path::file_name) {
            need(&driver.to_string_lossy(), "the driver");
        }
    }
    // The disk's own node has its driver below `device`, where it is no ancestor of the class's folder.
    let below = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
    for slave in below.collect::<Vec<_>>() {
        disk(root, &slave.file_name().to_string_lossy(), needed);
    }
}

/// Module names know no difference between the two.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// Refuses a configuration that lacks what the machine below `root` boots from; `tree` is the kernel's
/// source.
pub fn check(config: &BuildConfig, tree: &Path, root: &Path, say: &dyn Fn(&str)) -> Result<()> {
    let options = options(tree);
    let initrd = config.get("BLK_DEV_INITRD") == "y";
    for (module, reason) in needed(root)? {
        let Some(options) = options.get(&module) else {
            say(&format!(
                "cannot tell whether the kernel has {reason}: its source has no module of that name"
            ));
            continue;
        };
        if options.contains("y") || options.iter().any(|option| config.get(option) == "y") {
            continue;
        }
        let names = options.iter().map(|option| format!("CONFIG_{option}")).collect::<Vec<_>>().join(" or ");
        let why = match options.iter().any(|option| config.get(option) == "m") {
            true if initrd => continue,
            true => {
                format!("{reason} is a module, and without CONFIG_BLK_DEV_INITRD no initrd could load it")
            }
            false => format!("{reason} is neither built in nor a module"),
        };
        let machine = if root == Path::new("/") { "this machine".into() } else { root.display().to_string() };
        let cure = format!("set {names}, or give the machine that it is for with --machine");
        return Err(Error::on("boot", machine, why, cure));
    }
    Ok(())
}

/// The options that make each module, from the Makefiles; `y` where it is always built in.
fn options(tree: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut options = BTreeMap::<String, BTreeSet<String>>::new();
    let mut folders = ["fs", "drivers", "block", "net"].map(|name| tree.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if ["Makefile", "Kbuild"].iter().any(|name| entry.file_name() == *name) {
                let text = untrusted::text(entry.path()).unwrap_or_default().replace("\\\n", " ");
                text.lines().filter_map(rule).for_each(|(option, modules)| {
                    for module in modules {
                        options.entry(plain(module)).or_default().insert(option.to_string());
                    }
                });
            }
        }
    }
    options
}

/// `obj-$(CONFIG_EXT4_FS) += ext4.o` is EXT4_FS and ext4.
fn rule(line: &str) -> Option<(&str, impl Iterator<Item = &str>)> {
    let (target, objects) = line.split_once("+=").or_else(|| line.split_once(":="))?;
    let target = target.trim().strip_prefix("obj-")?;
    let option = match target.strip_prefix("$(CONFIG_") {
        Some(rest) => rest.strip_suffix(')')?,
        None => target,
    };
    let objects = objects.split('#').next().unwrap_or_default().split_whitespace();
    Some((option, objects.filter_map(|object| object.strip_suffix(".o"))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn link(root: &Path, name: &str, to: &str) {
        let (link, to) = (root.join(name), root.join(to));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        fs::create_dir_all(&to).unwrap();
        symlink(to, link).unwrap();
    }

    /// ext4 on an encrypted partition of a disk behind a SCSI controller.
    fn machine() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(
            root,
            "proc/mounts",
            "rootfs / rootfs rw 0 0\n/dev/mapper/root / ext4 rw 0 0\nproc /proc proc rw 0 0\n",
        );
        write(root, "dev/dm-0", "");
        fs::create_dir_all(root.join("dev/mapper")).unwrap();
        symlink("../dm-0", root.join("dev/mapper/root")).unwrap();
        let scsi = "sys/devices/pci0000:00/0000:00:1f.2/host0/0:0:0:0";
        write(root, "sys/devices/virtual/block/dm-0/dm/uuid", "CRYPT-LUKS2-0-root\n");
        write(root, &format!("{scsi}/block/sda/sda2/partition"), "2\n");
        link(root, "sys/class/block/dm-0", "sys/devices/virtual/block/dm-0");
        link(root, "sys/class/block/sda2", &format!("{scsi}/block/sda/sda2"));
        link(root, "sys/devices/virtual/block/dm-0/slaves/sda2", &format!("{scsi}/block/sda/sda2"));
        link(root, &format!("{scsi}/driver"), "sys/bus/scsi/drivers/sd");
        link(root, "sys/bus/scsi/drivers/sd/module", "sys/module/sd_mod");
        link(root, "sys/devices/pci0000:00/0000:00:1f.2/driver", "sys/bus/pci/drivers/ahci");
        folder
    }

    #[test]
    fn a_machine_boots_from_its_file_system_its_disk_and_all_between() {
        let machine = machine();
        let needed = needed(machine.path()).unwrap();
        let names = needed.keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(names, ["ahci", "dm_crypt", "dm_mod", "ext4", "sd_mod"]);
        assert_eq!(needed["sd_mod"], "the driver sd_mod of the root disk sda2");
    }

    #[test]
    fn what_is_neither_built_in_nor_a_module_that_an_initrd_loads_is_named() {
        let (machine, tree) = (machine(), tempfile::tempdir().unwrap());
        write(tree.path(), "fs/ext4/Makefile", "obj-$(CONFIG_EXT4_FS) += ext4.o\n");
        write(tree.path(), "drivers/ata/Makefile", "obj-$(CONFIG_SATA_AHCI)\t+= ahci.o libahci.o\n");
        write(
            tree.path(),
            "drivers/scsi/Makefile",
            "obj-y += scsi_base.o\nobj-$(CONFIG_BLK_DEV_SD) += sd_mod.o\n",
        );
        write(
            tree.path(),
            "drivers/md/Makefile",
            "obj-$(CONFIG_DM)\t\\\n+= dm-mod.o\nobj-$(CONFIG_DM_CRYPT) += dm-crypt.o\n",
        );
        let judged = |text: &str| {
            check(&BuildConfig::parse(text), tree.path(), machine.path(), &|said| panic!("{said}"))
                .map_err(|error| error.why)
        };
        let all =
            "CONFIG_EXT4_FS=m\nCONFIG_SATA_AHCI=y\nCONFIG_BLK_DEV_SD=m\nCONFIG_DM=m\nCONFIG_DM_CRYPT=y\n";
        assert_eq!(judged(&format!("{all}CONFIG_BLK_DEV_INITRD=y\n")), Ok(()));
        assert_eq!(
            judged(all).unwrap_err(),
            "the device mapper dm-mod of the root disk dm-0 is a module, and without CONFIG_BLK_DEV_INITRD no initrd could load it"
        );
        assert_eq!(
            judged(&all.replace("CONFIG_SATA_AHCI=y", "CONFIG_BLK_DEV_INITRD=y")).unwrap_err(),
            "the driver ahci of the root disk sda2 is neither built in nor a module"
        );
    }
}
