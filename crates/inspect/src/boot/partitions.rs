// SPDX-License-Identifier: MIT OR Apache-2.0
//! Partitions of the boot loader that are not mounted: the files below such a mount point are others, or
//! none.

use machine::boot::line;

use crate::tree::Tree;

/// Where a loader's files may have a partition of their own.
const POINTS: [&str; 8] = [
    "/boot",
    "/boot/efi",
    "/boot/EFI",
    "/efi",
    "/boot/firmware",
    "/boot/grub",
    "/boot/grub2",
    "/boot/loader",
];

/// The mount points of such partitions that are configured, or named by the running line, and not mounted.
pub(super) fn unmounted(tree: &Tree) -> Vec<String> {
    let Some(mounts) = tree.hint("proc/self/mounts").or_else(|| tree.hint("proc/mounts")) else {
        return Vec::new();
    };
    let mounted: Vec<&str> = mounts.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    if !mounted.contains(&"/") {
        return Vec::new();
    }
    let table = tree.hint("etc/fstab").unwrap_or_default();
    let wanted = table.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let wanted = wanted.filter_map(|line| line.split_whitespace().nth(1)).map(|path| match path {
        "/" => path,
        _ => path.trim_end_matches('/'),
    });
    let mut missing: Vec<String> =
        wanted.filter(|path| POINTS.contains(path) && !mounted.contains(path)).map(str::to_string).collect();
    if own_partition(tree) && !mounted.contains(&"/boot") {
        missing.push("/boot".to_string());
    }
    missing.sort();
    missing.dedup();
    missing
}

/// Whether GRUB took the kernel from the top of a partition that is not the root file system, and /boot has
/// none.
fn own_partition(tree: &Tree) -> bool {
    let running = tree.hint("proc/cmdline").unwrap_or_default();
    let image = line::value(&running, "BOOT_IMAGE").unwrap_or_default();
    let path = image.split_once(')').map_or(image, |(_, path)| path);
    let name = path.strip_prefix('/').filter(|name| name.starts_with("vmlinuz") && !name.contains('/'));
    let has = || tree.hint_names("boot").iter().any(|name| name.starts_with("vmlinuz"));
    name.is_some_and(|name| !tree.exists(name)) && !has()
}

#[cfg(test)]
mod tests {
    use crate::tree::made_of;

    #[test]
    fn names_the_mount_that_lacks() {
        let root = "/dev/a / ext4 rw 0 0\n";
        for (fstab, mounts, running, expected) in [
            ("", root, "root=a", ""),
            ("UUID=1 /boot ext4 defaults 0 2\n", root, "root=a", "/boot"),
            ("UUID=1 /boot ext4 noauto 0 2\n", root, "root=a", "/boot"),
            ("# UUID=1 /boot ext4 defaults 0 2\n", root, "root=a", ""),
            ("UUID=1 /boot/efi/ vfat umask=0077 0 1\n", root, "root=a", "/boot/efi"),
            (
                "UUID=1 /boot/efi vfat x 0 1\n",
                "/dev/a / ext4 rw 0 0\n/dev/b /boot/efi vfat rw 0 0\n",
                "root=a",
                "",
            ),
            (
                "UUID=1 /efi vfat x 0 1\n",
                "/dev/a / ext4 rw 0 0\nsystemd-1 /efi autofs rw 0 0\n",
                "root=a",
                "",
            ),
            (
                "PARTUUID=2 /boot/firmware vfat x 0 2\nUUID=1 /home ext4 x 0 2\n",
                root,
                "root=a",
                "/boot/firmware",
            ),
            ("", root, "BOOT_IMAGE=/vmlinuz-6.12 root=a", "/boot"),
            ("", root, "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.12 root=a", "/boot"),
            ("", root, "BOOT_IMAGE=/boot/vmlinuz-6.12 root=a", ""),
            ("UUID=1 /boot ext4 defaults 0 2\n", "", "root=a", ""),
        ] {
            let files = [("etc/fstab", fstab), ("proc/mounts", mounts), ("proc/cmdline", running)];
            let boot = super::super::read_tree(&mut made_of(&files).1);
            assert_eq!(boot.unmounted.join(" "), expected, "{fstab}{mounts}{running}");
        }
    }
}
