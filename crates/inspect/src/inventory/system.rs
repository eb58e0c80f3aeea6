// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distribution, modules, installed kernels, the root file system's device.

use std::collections::BTreeSet;

use machine::inventory::{Distribution, Installed, RootDevice};

use crate::tree::Tree;

/// Processor flags that matter: clocks, cache allocation, virtualisation.
const FLAGS: &[&str] = &[
    "art",
    "cat_l2",
    "cat_l3",
    "constant_tsc",
    "hypervisor",
    "nonstop_tsc",
    "rdt_a",
    "split_lock_detect",
    "tsc",
    "tsc_adjust",
    "tsc_deadline_timer",
    "tsc_known_freq",
    "tsc_reliable",
];

pub(super) fn modules(tree: &Tree) -> Vec<String> {
    let text = tree.hint("proc/modules").unwrap_or_default();
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect()
}

pub(super) fn cpu_flags(cpuinfo: &str) -> Vec<String> {
    let flags: BTreeSet<&str> =
        crate::identity::field(cpuinfo, "flags").unwrap_or_default().split(' ').collect();
    FLAGS.iter().filter(|flag| flags.contains(**flag)).map(|flag| flag.to_string()).collect()
}

pub(super) fn distribution(tree: &Tree) -> Distribution {
    let text = tree.hint("etc/os-release").or_else(|| tree.hint("usr/lib/os-release")).unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim().trim_matches(['"', '\'']).to_string()).filter(|value| !value.is_empty())
    };
    Distribution {
        id: field("ID"),
        like: field("ID_LIKE").unwrap_or_default().split_whitespace().map(str::to_string).collect(),
        version: field("VERSION_ID"),
        name: field("PRETTY_NAME"),
    }
}

/// `root` is the device that they must find without help.
pub(super) fn kernels(tree: &mut Tree, root: &RootDevice) -> Vec<Installed> {
    let boot = tree.names("boot");
    let of = |prefix: &'static str| boot.iter().filter_map(move |name| name.strip_prefix(prefix));
    let images: BTreeSet<String> = of("vmlinuz-").chain(of("vmlinux-")).map(str::to_string).collect();
    let initrds: BTreeSet<String> = of("initrd.img-")
        .chain(of("initramfs-").map(|name| name.trim_end_matches(".img")))
        .map(str::to_string)
        .collect();
    let modules: BTreeSet<String> = tree.names("lib/modules").into_iter().collect();
    let releases: BTreeSet<String> = images.union(&modules).cloned().collect();
    let kernel = |release: String| {
        let config = tree.hint(&format!("boot/config-{release}"));
        let config = config.or_else(|| tree.hint(&format!("lib/modules/{release}/config")));
        Installed {
            image: images.contains(&release),
            initrd: initrds.contains(&release),
            initrd_is_older: initrd_is_older(tree, &release),
            modules: modules.contains(&release),
            real_time: config.as_deref().map(|text| text.lines().any(|line| line == "CONFIG_PREEMPT_RT=y")),
            root_driver_is_module: config.as_deref().and_then(|text| needs_module(text, root)),
            release,
        }
    };
    // The folder of a kernel whose modules alone are left is none; a rescue image has no release.
    releases
        .into_iter()
        .filter(|release| release.starts_with(|c: char| c.is_ascii_digit()))
        .take(32)
        .map(kernel)
        .collect()
}

fn initrd_is_older(tree: &Tree, release: &str) -> Option<bool> {
    let names = [format!("boot/initrd.img-{release}"), format!("boot/initramfs-{release}.img")];
    let made = names.iter().find_map(|name| tree.modified(name))?;
    Some(made < tree.modified(&format!("lib/modules/{release}/modules.dep"))?)
}

/// Options of drivers and file systems that a root file system commonly hangs on.
const ROOT_OPTIONS: &[(&str, &str)] = &[
    ("nvme", "BLK_DEV_NVME"),
    ("virtio_blk", "VIRTIO_BLK"),
    ("ahci", "SATA_AHCI"),
    ("sd", "BLK_DEV_SD"),
    ("mmcblk", "MMC_BLOCK"),
    ("ext4", "EXT4_FS"),
    ("btrfs", "BTRFS_FS"),
    ("xfs", "XFS_FS"),
    ("f2fs", "F2FS_FS"),
];

/// Whether a kernel so configured has one of them as a module; `None` where that cannot be told.
fn needs_module(config: &str, root: &RootDevice) -> Option<bool> {
    let names = root.drivers.iter().chain(&root.file_system);
    let options: Vec<&str> = names
        .filter_map(|name| ROOT_OPTIONS.iter().find(|(known, _)| known == name).map(|(_, option)| *option))
        .collect();
    let set =
        |option: &str, value: &str| config.lines().any(|line| line == format!("CONFIG_{option}={value}"));
    if options.iter().any(|option| set(option, "m")) {
        return Some(true);
    }
    // One that is not built in either may have another name in this kernel.
    (!options.is_empty() && options.iter().all(|option| set(option, "y"))).then_some(false)
}

pub(super) fn root_device(tree: &mut Tree, release: Option<&str>) -> RootDevice {
    let mounts = tree.hint("proc/self/mountinfo").unwrap_or_default();
    let mut device = RootDevice::default();
    // "36 35 98:0 /mnt1 / rw,noatime master:1 - ext3 /dev/root rw": the last one mounted there counts.
    let root = mounts.lines().rev().find(|line| line.split(' ').nth(4) == Some("/"));
    let Some((head, tail)) = root.and_then(|line| line.split_once(" - ")) else { return device };
    let mut tail = tail.split(' ');
    device.file_system = tail.next().map(str::to_string);
    device.source = tail.next().map(str::to_string);
    let number = head.split(' ').nth(2).unwrap_or_default();
    let name = device.source.as_deref().and_then(|source| source.strip_prefix("/dev/")).unwrap_or_default();
    let places = [format!("sys/dev/block/{number}"), format!("sys/class/block/{name}")];
    let place = places
        .iter()
        .filter(|place| !place.contains("..") && !place.ends_with('/'))
        .find_map(|place| tree.real(place));
    if let Some(place) = place {
        let mut folder = place.as_str();
        while let Some((above, _)) = folder.rsplit_once('/') {
            device.drivers.extend(tree.link_name(&format!("{folder}/driver")));
            folder = above;
        }
    }
    let Some(release) = release.filter(|release| !release.contains('/')) else { return device };
    let built_in = tree.hint(&format!("lib/modules/{release}/modules.builtin"));
    device.modules = built_in.filter(|_| !device.drivers.is_empty()).map(|text| {
        let named =
            |line: &str| line.rsplit('/').next()?.strip_suffix(".ko").map(|name| name.replace('-', "_"));
        let built_in: BTreeSet<String> = text.lines().filter_map(named).collect();
        let needed = device.drivers.iter().chain(&device.file_system);
        let loaded = modules(tree);
        // What is neither in the list nor loaded is compiled in under another name (pcieport, sd).
        needed
            .map(|name| name.replace('-', "_"))
            .filter(|name| !built_in.contains(name) && loaded.contains(name))
            .collect()
    });
    device
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn reads_the_distribution_with_and_without_quotes() {
        let (_folder, tree) = made_of(&[(
            "etc/os-release",
            "PRETTY_NAME=\"Ubuntu 24.04\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID='24.04'\n",
        )]);
        let distribution = distribution(&tree);
        assert_eq!(distribution.id.as_deref(), Some("ubuntu"));
        assert_eq!(
            (distribution.like, distribution.version.as_deref()),
            (vec!["debian".to_string()], Some("24.04"))
        );
    }

    #[test]
    fn finds_installed_kernels_and_whether_they_are_real_time() {
        let kernels = kernels(
            &mut made_of(&[
                ("boot/vmlinuz-6.12.1-rt", ""),
                ("boot/config-6.12.1-rt", "CONFIG_PREEMPT_RT=y\nCONFIG_EXT4_FS=m\n"),
                ("boot/initrd.img-6.12.1-rt", ""),
                ("boot/vmlinuz-0-rescue-abc", ""),
                ("lib/modules/6.1.0/modules.dep", ""),
                ("boot/vmlinuz-linux", ""),
            ])
            .1,
            &RootDevice { file_system: Some("ext4".into()), ..RootDevice::default() },
        );
        assert_eq!(
            kernels.iter().map(|k| k.root_driver_is_module).collect::<Vec<_>>(),
            [None, None, Some(true)]
        );
        let seen: Vec<_> =
            kernels.iter().map(|k| (k.release.as_str(), k.image, k.initrd, k.modules, k.real_time)).collect();
        assert_eq!(
            seen,
            [
                ("0-rescue-abc", true, false, false, None),
                ("6.1.0", false, false, true, None),
                ("6.12.1-rt", true, true, false, Some(true))
            ]
        );
    }

    #[test]
    fn follows_the_root_device_to_its_drivers() {
        let (folder, mut tree) = made_of(&[
            ("proc/self/mountinfo", "1 0 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n"),
            ("proc/modules", "nvme 1 0 - Live 0x0\next4 1 0 - Live 0x0\n"),
            ("lib/modules/6.1/modules.builtin", "kernel/fs/ext4/ext4.ko\n"),
            ("sys/devices/pci/0000:01/nvme/nvme0/nvme0n1/nvme0n1p2/size", "1"),
        ]);
        let link = |target: &str, path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        };
        link("../../devices/pci/0000:01/nvme/nvme0/nvme0n1/nvme0n1p2", "sys/dev/block/259:2");
        link("../../../bus/pci/drivers/nvme", "sys/devices/pci/0000:01/driver");
        let device = root_device(&mut tree, Some("6.1"));
        assert_eq!(
            (device.drivers, device.modules),
            (vec!["nvme".to_string()], Some(vec!["nvme".to_string()]))
        );
    }
}
