// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing is armed that differs from what runs by more than our words, or whose record would be gone after
//! the boot.

use super::*;
use crate::record::own::OwnPart;
use crate::system::memory::MemoryMachine;

/// The line that the fixture's default entry boots, as `/proc/cmdline` shows it.
fn running(boot: &Boot) -> String {
    boot.default_entry().map(|entry| entry.options.replace("${cbootargs} ", "")).unwrap_or_default()
}

fn tried(name: &str, change: impl Fn(&str) -> String) -> std::result::Result<BootMethod, String> {
    let (mut system, boot) = machine(name);
    let words = boot_words();
    let line = change(&running(&boot));
    let spec = BootSpec { running: Some(&line), ..asked(&boot, &words) };
    first(&mut system, &spec).map_err(|error| error.to_string())
}

#[test]
fn a_trial_has_the_running_line_and_our_words() {
    for name in WRITTEN {
        let method = tried(name, str::to_string).unwrap();
        assert!(!method.steps().is_empty(), "{name}");
        let kernel =
            machine(name).1.default_entry().and_then(|entry| entry.kernel.clone()).unwrap_or_default();
        let loaded = tried(name, |line| format!("BOOT_IMAGE={kernel} {line} $tuned_params"));
        assert!(loaded.is_ok(), "{name}: {loaded:?}");
    }
}

#[test]
fn a_word_lost_or_added_refuses_the_trial() {
    let firmware = ["l4t", "pi"];
    for name in WRITTEN {
        let root = |line: &str| line.split(' ').find(|word| word.starts_with("root=")).unwrap().to_string();
        let lacks = tried(name, |line| format!("{line} nomodeset"));
        let without = |line: &str| -> String {
            let words = line.split(' ').filter(|word| !matches!(*word, "ro" | "rw" | "rootwait"));
            words.collect::<Vec<_>>().join(" ")
        };
        let has = tried(name, without);
        let other = tried(name, |line| line.replace(&root(line), "root=/dev/other"));
        // What firmware adds to its line cannot be told from what is lost.
        match firmware.contains(&name) {
            true => assert!(lacks.is_ok(), "{name}: {lacks:?}"),
            false => assert!(lacks.unwrap_err().contains("it lacks nomodeset"), "{name}"),
        }
        let has = has.unwrap_err();
        assert!(has.contains("it has r") && has.contains("plan again"), "{name}: {has}");
        assert!(other.is_err(), "{name}");
        if !firmware.contains(&name) {
            let moved = tried(name, |line| format!("console=a console=b {line}"));
            assert!(moved.unwrap_err().contains("lacks console=a console=b"), "{name}");
        }
    }
}

#[test]
fn a_line_that_reads_back_otherwise_is_not_written() {
    let (system, boot) = machine("debian");
    let words = boot_words();
    let spec = asked(&boot, &words);
    let method = first(&mut system.clone(), &spec).unwrap();
    type Change = fn(&str) -> String;
    let changes: [(Change, &str); 4] = [
        (|text| text.replace(" ro ", " "), "lacks ro"),
        (|text| text.replace(" skew_tick=1", ""), "lacks our skew_tick=1"),
        (|text| text.replace("skew_tick=1", "skew_tick=1 init=/bin/sh"), "has init=/bin/sh"),
        (|text| text.replace("isolator-trial", "another"), "lacks"),
    ];
    for (change, said) in changes {
        let mut method = method.clone();
        let BootMethod::Trial { steps, .. } = &mut method else { panic!() };
        let Step::File { new: Some(new), .. } = &mut steps[0] else { panic!() };
        new.text = change(&new.text);
        let error = readback::admit(&system, &spec, &method).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    assert!(readback::admit(&system, &spec, &method).is_ok());
    let none = BootMethod::Trial { steps: Vec::new(), start: "reboot".into() };
    assert!(readback::admit(&system, &spec, &none).is_err());
}

/// The machine with other mounts and files.
fn with(name: &str, mounts: &str, files: &[&str]) -> std::result::Result<BootMethod, String> {
    let (mut system, boot) = machine(name);
    system.put("/proc/self/mounts", mounts.as_bytes());
    files.iter().for_each(|path| system.put(path, b"x"));
    let words = boot_words();
    let done = first(&mut system, &asked(&boot, &words)).map_err(|error| error.to_string());
    assert_eq!(system.changes, Vec::<String>::new());
    done
}

#[test]
fn nothing_is_armed_whose_record_would_be_gone() {
    let root = "/dev/sda2 / ext4 rw 0 0\n";
    for name in WRITTEN {
        for (mounts, files, said) in [
            ("none /var tmpfs rw 0 0\n", &[][..], "/var (tmpfs) is in RAM"),
            ("none /var/lib tmpfs rw 0 0\n", &[], "/var/lib (tmpfs) is in RAM"),
            ("none /var/lib/isolator ramfs rw 0 0\n", &[], "(ramfs) is in RAM"),
            ("/dev/zram1 /var ext4 rw 0 0\n", &[], "/var (ext4) is in RAM"),
            (
                "o /var overlay rw,upperdir=/run/up,workdir=/w 0 0\nt /run tmpfs rw 0 0\n",
                &["/run/up/x"],
                "(overlay) is in RAM",
            ),
            ("/dev/sda3 /var ext4 ro,noatime 0 0\n", &[], "/var is mounted read-only"),
            ("/dev/loop0 /var squashfs ro 0 0\n", &[], "a squashfs is an image"),
            ("", &["/etc/rauc/system.conf"], "(slots A and B) of RAUC"),
            ("", &["/etc/mender/mender.conf"], "(slots A and B) of Mender"),
            ("", &["/etc/swupdate.cfg"], "of SWUpdate"),
            ("", &["/usr/bin/steamos-readonly"], "of SteamOS"),
        ] {
            let error = with(name, &format!("{root}{mounts}"), files).unwrap_err();
            assert!(error.contains(said), "{name}: {error}");
        }
        for (mounts, files) in [
            ("", &[][..]),
            ("/dev/sda3 /var ext4 rw 0 0\n", &[]),
            ("none /tmp tmpfs rw 0 0\nnone /run tmpfs rw 0 0\n", &[]),
            (
                "o /var overlay rw,upperdir=/data/up,workdir=/w 0 0\n/dev/sda4 /data ext4 rw 0 0\n",
                &["/data/up/x"],
            ),
            ("/dev/sda4 /var/lib ext4 rw 0 0\n", &["/etc/rauc/system.conf"]),
        ] {
            assert!(with(name, &format!("{root}{mounts}"), files).is_ok(), "{name}: {mounts}");
        }
    }
}

#[test]
fn a_read_only_partition_is_named_with_its_cure() {
    for (name, point) in [
        ("debian", "/boot"),
        ("fedora", "/boot"),
        ("l4t", "/boot"),
        ("systemd-boot", "/boot/efi"),
        ("pi", "/boot/firmware"),
    ] {
        let mounts = format!("/dev/sda2 / ext4 rw 0 0\n/dev/sda1 {point} vfat ro,noatime 0 0\n");
        let error = with(name, &mounts, &[]).unwrap_err();
        assert!(error.contains(&format!("{point} is mounted read-only")), "{name}: {error}");
        assert!(error.contains(&format!("mount -o remount,rw {point}")), "{name}: {error}");
    }
}

#[test]
fn a_partition_that_is_not_mounted_is_named() {
    for (name, point) in [
        ("debian", "/boot"),
        ("fedora", "/boot"),
        ("rhel8", "/boot"),
        ("l4t", "/boot"),
        ("systemd-boot", "/boot/efi"),
        ("pi", "/boot/firmware"),
    ] {
        let (mut system, mut boot) = machine(name);
        boot.unmounted = vec![point.to_string()];
        let words = boot_words();
        let error = first(&mut system, &asked(&boot, &words)).unwrap_err().to_string();
        assert!(error.contains(&format!("{point} is a partition")), "{name}: {error}");
        assert!(error.ends_with(&format!("mount {point}, then plan again")), "{name}: {error}");
        boot.unmounted = vec!["/boot/other".to_string()];
        assert!(first(&mut system, &asked(&boot, &words)).is_ok(), "{name}");
    }
}

#[test]
fn a_line_tells_a_system_in_memory() {
    let words = boot_words();
    for (line, live) in [
        ("boot=casper", true),
        ("boot=live components", true),
        ("overlayroot=tmpfs:recurse=0", true),
        ("systemd.volatile=state", true),
        ("systemd.volatile=no", false),
        ("root=live:CDLABEL=x rd.live.image", true),
        ("archisobasedir=arch", true),
        ("root=/dev/ram0", true),
        ("alpine_dev=usbdisk", true),
        ("overlayroot=disabled", false),
        ("overlayroot=/dev/sda3", false),
        ("root=/dev/sda2", false),
    ] {
        let (mut system, boot): (MemoryMachine, Boot) = machine("uki");
        let spec = BootSpec { running: Some(line), ..asked(&boot, &words) };
        let refused = first(&mut system, &spec).is_err_and(|error| error.to_string().contains("in RAM"));
        assert_eq!(refused, live, "{line}");
    }
}

/// GRUB takes `567f-0-trial` for entry 567: seen by a real boot.
#[test]
fn no_armed_name_begins_with_a_digit() {
    for (name, _, record) in all_records() {
        for step in &record.steps {
            let Step::File { own: OwnPart::Variable { name: variable, value }, .. } = &step.step else {
                continue;
            };
            let begins_with_digit = value.starts_with(|first: char| first.is_ascii_digit());
            assert!(variable != "next_entry" || !begins_with_digit, "{name}: {value}");
        }
    }
}
