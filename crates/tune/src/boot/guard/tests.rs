// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refusals before any file is touched, and the places where an entry's files are looked for.

use machine::Boot;

use crate::boot::first;
use crate::boot::tests::{asked, boot_words, machine};
use crate::system::System;
use crate::system::memory::MemoryMachine;

#[test]
fn refuses_what_would_not_boot_or_has_another_owner() {
    let words = boot_words();
    let refused = |system: &mut MemoryMachine, boot: &Boot, words: &[String]| {
        first(system, &asked(boot, words)).unwrap_err().to_string()
    };
    let (mut system, mut boot) = machine("debian");
    system.remove("/boot/initrd.img-6.12.9-rt-amd64").unwrap();
    let error = refused(&mut system, &boot, &words);
    assert!(error.contains("/boot/initrd.img-6.12.9-rt-amd64 is not there"), "{error}");
    let (mut system, _) = machine("debian");
    boot.entries[0].options += " isolcpus=1";
    let error = refused(&mut system, &boot, &words);
    assert!(error.contains("the same is set already: isolcpus=1 in /boot/grub/grub.cfg"), "{error}");
    boot.entries[0].options = "root=a root=b".into();
    assert!(refused(&mut system, &boot, &words).contains("root= occurs twice"));
    boot.entries[0].options = "x".repeat(2040);
    assert!(refused(&mut system, &boot, &words).contains("and the kernel reads"));
    let error = refused(&mut system, &boot, &["a=$(reboot)".to_string()]);
    assert_eq!(
        error,
        "cannot put 'a=$(reboot)' into the boot line: boot loaders read such letters in different ways; set it by hand"
    );
}

#[test]
fn files_of_an_entry_are_found_where_a_subvolume_or_a_folder_is_mounted() {
    let words = boot_words();
    for (mounts, within) in [
        ("22 1 0:30 /@ / rw shared:1 - btrfs /dev/nvme0n1p2 rw,subvol=/@\n", "/@/boot"),
        ("22 1 259:2 / / rw - ext4 /dev/a rw\n23 22 259:3 /os/1 /boot rw - ext4 /dev/b rw\n", "/os/1"),
    ] {
        let (mut system, mut boot) = machine("debian");
        let entry = &mut boot.entries[0];
        for path in entry.kernel.iter_mut().chain(&mut entry.initrd) {
            *path = format!("{within}/{}", path.rsplit('/').next().unwrap());
        }
        let error = first(&mut system, &asked(&boot, &words)).unwrap_err().to_string();
        assert!(error.contains(&format!("{within}/vmlinuz-6.12.9-rt-amd64 is not there")), "{error}");
        system.put("/proc/self/mountinfo", mounts.as_bytes());
        assert!(first(&mut system, &asked(&boot, &words)).is_ok(), "{mounts}");
    }
}

#[test]
fn an_entry_of_another_kernel_needs_a_ram_disk_that_knows_its_modules_or_a_driver_built_in() {
    let words = boot_words();
    let (mut system, mut boot) = machine("debian");
    boot.default = Some(3);
    boot.entries[3].initrd.clear();
    system.put("/proc/self/mountinfo", b"22 1 259:2 / / rw shared:1 - ext4 /dev/nvme0n1p2 rw\n");
    system.put("/sys/dev/block/259:2/driver/module/x", b"");
    let error = first(&mut system, &asked(&boot, &words));
    // The link's last name is the module's; in memory there are no links, so the name is `module`.
    let error = error.unwrap_err().to_string();
    assert!(error.contains("module, which drives the root device, is a module"), "{error}");
    system.put("/lib/modules/6.1.0-18-amd64/modules.builtin", b"kernel/drivers/nvme/host/module.ko\n");
    assert!(first(&mut system, &asked(&boot, &words)).is_ok());
}

#[test]
fn an_overlay_out_of_sight_is_judged_by_its_image() {
    let system = MemoryMachine::default();
    for (layers, expected) in [
        ("lowerdir=/a.squashfs:/b.squashfs,upperdir=/cow/upper", true),
        ("lowerdir=/image.erofs/,upperdir=/gone/u", true),
        ("lowerdir=/,upperdir=/gone/u", false),
        ("lowerdir=/a.squashfs", false),
    ] {
        let mounts = format!("none / overlay rw,{layers} 0 0\n");
        assert_eq!(super::in_memory(&system, &mounts, "/"), expected, "{layers}");
    }
}
