// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boot trees, one per loader, as their writers leave them.

use std::path::{Path, PathBuf};

use inspect::boot;
use machine::Boot;
use machine::boot::Loader;

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/boot").join(name)
}

fn read(name: &str) -> Boot {
    boot::read(&tree(name))
}

#[test]
fn recognises_each_loader_and_its_default_entry() {
    use Loader::*;
    let root = "1111aaaa-0000-4000-8000-222233334444";
    let machine = "6a9857a393724b7a981ebb5b8495b9ea";
    for (name, loader, default, menu_tenths) in [
        ("debian", GrubDebian, Some(format!("gnulinux-simple-{root}")), Some(50)),
        ("arch", Grub, Some("gnulinux-simple-1".into()), Some(50)),
        ("fedora", GrubBls, Some(format!("{machine}-6.12.4-100.fc40.x86_64")), Some(50)),
        ("rhel8", GrubBls, Some("8f3c6d1b5c1f4b0d9c3a0a4f6f1f2e3d-4.18.0-553.el8.x86_64".into()), Some(50)),
        ("l4t", L4tExtlinux, Some("real-time".into()), Some(30)),
        ("debian-arm", Extlinux, Some("l0".into()), Some(0)),
        (
            "systemd-boot",
            SystemdBoot,
            Some("b8f5d2c4a1e94d3c8a7f6e5d4c3b2a19-6.12.9-rt-amd64".into()),
            Some(30),
        ),
        ("uki", UnifiedKernelImage, None, None),
        ("pi", RaspberryPi, Some("cmdline.txt".into()), Some(0)),
        ("armbian", UBoot, None, None),
        ("uboot", UBoot, None, None),
        ("ostree", Ostree, Some("ostree-2-fedora-iot".into()), None),
        ("absent", Unknown, None, None),
    ] {
        let boot = read(name);
        assert_eq!(boot.loader, loader, "{name}: {:?}", boot.seen);
        assert_eq!(boot.default_entry().map(|entry| entry.id.clone()), default, "{name}");
        assert_eq!(boot.menu_tenths, menu_tenths, "{name}");
        assert_eq!(boot.unread, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn every_tree_runs_what_it_configures() {
    for name in ["debian", "fedora", "rhel8", "l4t", "systemd-boot", "pi", "ostree"] {
        let boot = read(name);
        let running = std::fs::read_to_string(tree(name).join("proc/cmdline")).unwrap();
        let drift = boot.drift(&running).unwrap();
        assert_eq!(drift.not_running, Vec::<String>::new(), "{name}");
        assert_eq!(drift.never_generated, Vec::<String>::new(), "{name}");
        assert_eq!(drift.not_configured, Vec::<String>::new(), "{name}");
        assert!(drift.running.contains(&boot.default_entry().unwrap().id), "{name}");
    }
}

#[test]
fn tells_what_was_edited_and_never_generated_and_what_was_set_by_hand() {
    let boot = read("debian");
    let mut edited = boot.clone();
    edited.sources[1].line = Some("quiet isolcpus=3".into());
    let running = "BOOT_IMAGE=/boot/vmlinuz root=UUID=1111aaaa-0000-4000-8000-222233334444 ro nosmt";
    let drift = edited.drift(running).unwrap();
    assert_eq!(drift.never_generated, ["isolcpus=3"]);
    assert_eq!(drift.not_running, ["quiet"]);
    assert_eq!(drift.not_configured, ["nosmt"]);
    // Debian's repair entry has `single`, which does not run either.
    assert_eq!(drift.running, Vec::<String>::new());
    // Without entries, what a file gives to the loader is compared with what runs.
    assert_eq!(read("armbian").drift(running).unwrap().not_running, ["net.ifnames=0"]);
    assert_eq!(read("uboot").drift(running), None);
}

#[test]
fn a_line_only_a_shell_could_tell_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("etc/default")).unwrap();
    std::fs::write(folder.path().join("etc/default/grub"), "GRUB_CMDLINE_LINUX_DEFAULT=$(cat /x)\n").unwrap();
    let boot = boot::read(folder.path());
    assert_eq!(boot.sources[1].line, None);
    assert_eq!(boot.sources[0].line.as_deref(), Some(""));
}
