// SPDX-License-Identifier: MIT OR Apache-2.0
//! More machines of the same kinds: drop-ins after ours, defaults that boot another kernel, and files of
//! extlinux.

use std::fs;

use tune::change::BootChange;
use tune::plan::{Intent, MadeFor, Profile, WantedCpus, plan};

use super::{MACHINE, Made, RHEL, ROOT, RT, STOCK, boots, refused, rolled_back, wet};

#[test]
fn a_later_drop_in_may_add_and_not_set_anew() {
    let with = |name: &str, text: &str| {
        boots::plain_debian().file(&format!("etc/default/grub.d/{name}"), &format!("{text}\n"))
    };
    for (name, text) in [
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT='quiet'"),
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT="),
        ("99-zz.cfg", "export GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\""),
        ("99-zz.cfg", "unset GRUB_CMDLINE_LINUX_DEFAULT"),
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet $GRUB_CMDLINE_LINUX\""),
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT='$GRUB_CMDLINE_LINUX_DEFAULT quiet'"),
        ("99-zz.cfg", "if true; then GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"; fi"),
        ("99-zz.cfg", ". /etc/realtime.conf"),
        ("cloud.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=quiet"),
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$(cat /etc/kernel/cmdline)\""),
    ] {
        let words = format!("/etc/default/grub.d/{name} is read after it and sets");
        refused(text, &with(name, text), &[&words]);
    }
    for (name, text) in [
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT} splash\""),
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT+=\" splash\""),
        (
            "99-zz.cfg",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }splash\"",
        ),
        ("99-zz.cfg", "#GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\""),
        ("99-zz.cfg", "GRUB_CMDLINE_LINUX=\"quiet\""),
        ("99-a.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\""),
        ("100-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\""),
        ("99-zz.cfg.dpkg-old", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\""),
    ] {
        let done = wet(&with(name, text)).1;
        assert!(
            matches!(done, Ok(ref done) if matches!(done.boot, BootChange::Trial { .. })),
            "{text}: {done:?}"
        );
    }
}

/// Debian with these top-level entries, of which GRUB boots `default`.
fn menu(default: &str, entries: &[(&str, &str)], grubenv: &str) -> Made {
    let line = format!("{ROOT} ro  quiet");
    let all: String =
        entries.iter().map(|(id, release)| boots::entry(&format!("'{id}'"), id, release, &line)).collect();
    let text = boots::menu("", &all).replace("set default=\"0\"", &format!("set default=\"{default}\""));
    boots::plain_debian()
        .file("boot/grub/grub.cfg", &text)
        .file("boot/grub/grubenv", &boots::grubenv(grubenv))
        .file(&format!("boot/vmlinuz-{STOCK}"), "")
        .file(&format!("boot/initrd.img-{STOCK}"), "")
}

#[test]
fn a_default_of_another_kernel_is_found_however_it_is_named() {
    let both = [("rt", RT), ("stock", STOCK)];
    for (name, made) in [
        ("by its number", menu("1", &both, "")),
        ("by its id", menu("stock", &both, "")),
        ("saved", menu("${saved_entry}", &both, "saved_entry=stock\n")),
        ("saved by number", menu("${saved_entry}", &both, "saved_entry=1\n")),
        ("nothing saved", menu("${saved_entry}", &[("stock", STOCK), ("rt", RT)], "")),
    ] {
        refused(name, &made, &[STOCK, "and the plan is for 6.1.0-28-rt-amd64", "GRUB_DEFAULT"]);
    }
    for (name, made) in [
        ("by its number", menu("0", &both, "")),
        ("by its id", menu("rt", &both, "")),
        ("saved", menu("${saved_entry}", &both, "saved_entry=rt\n")),
        ("nothing saved", menu("${saved_entry}", &both, "")),
    ] {
        assert!(wet(&made).1.is_ok(), "{name}");
    }
    // RHEL's default is a name in the block of variables.
    let rescue = boots::rhel9("", "", "", "")
        .file("boot/grub2/grubenv", &boots::grubenv(&format!("saved_entry={MACHINE}-0-rescue\n")))
        .file("boot/vmlinuz-0-rescue", "")
        .file("boot/initramfs-0-rescue.img", "");
    refused("the rescue entry", &rescue, &["vmlinuz-0-rescue", RHEL, "grubby --set-default"]);
    // systemd-boot's is a pattern of names.
    let entry = |version: &str| {
        format!("title Linux\nversion {version}\nlinux /{version}/linux\noptions root=PARTUUID=1 rw quiet\n")
    };
    let made = |default: &str| {
        boots::made("6.12.9-arch1", 4, "root=PARTUUID=1 rw quiet")
            .file("boot/loader/loader.conf", &format!("timeout 3\ndefault {default}\n"))
            .file("boot/loader/entries/arch-6.12.9-arch1.conf", &entry("6.12.9-arch1"))
            .file("boot/loader/entries/arch-6.11.5-arch1.conf", &entry("6.11.5-arch1"))
            .file("boot/6.12.9-arch1/linux", "")
            .file("boot/6.11.5-arch1/linux", "")
            .file("boot/EFI/systemd/systemd-bootx64.efi", "")
    };
    refused(
        "systemd-boot",
        &made("arch-6.11*"),
        &["/6.11.5-arch1/linux", "6.12.9-arch1", "bootctl set-default"],
    );
    assert!(wet(&made("arch-6.12*")).1.is_ok());
    let preferred = made("").file("boot/loader/loader.conf", "default arch-6.12*\npreferred arch-6.11*\n");
    refused("preferred", &preferred, &["/6.11.5-arch1/linux", "bootctl set-default"]);
}

#[test]
fn extlinux_is_read_as_its_loaders_read_it() {
    let line = "root=/dev/mmcblk0p1 rw rootwait";
    let path = "boot/extlinux/extlinux.conf";
    let made = |text: &str| boots::jetson(line, line).file(path, text);
    let label = format!("LABEL primary\n      LINUX /boot/Image\n      APPEND {line}\n");
    for text in [
        format!("timeout 30\ndefault primary\nlabel primary\n  linux /boot/Image\n  append {line}\n"),
        format!("TIMEOUT\t30\nDEFAULT\tprimary\nLABEL\tprimary\n\tLINUX\t/boot/Image\n\tAPPEND\t{line}\n"),
        format!("TIMEOUT 0\nDEFAULT primary\n{label}"),
        format!("DEFAULT primary\n{}", label.replace("LINUX", "KERNEL")),
        format!("DEFAULT primary\n{}", label.trim_end()),
        format!("DEFAULT absent\n{label}"),
        format!("MENU TITLE # L4T\n# APPEND isolcpus=1\nDEFAULT primary\n{label}"),
        format!("DEFAULT primary\r\n{}", label.replace('\n', "\r\n").trim_end()),
        format!("{label}\n\n\n"),
    ] {
        let (root, done) = wet(&made(&text));
        let done = done.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(matches!(done.boot, BootChange::Lasting { .. }), "{text}: {:?}", done.boot);
        let now = fs::read_to_string(root.path().join(path)).unwrap();
        assert!(now.contains(&format!("{line} isolcpus=")), "{text}: {now}");
        rolled_back(root.path());
        assert_eq!(fs::read_to_string(root.path().join(path)).unwrap(), text);
    }
    let without = label.replace(&format!("      APPEND {line}\n"), "");
    refused("no line", &made(&without), &["names no root="]);
    let taken = format!("{label}LABEL isolator\n      LINUX /boot/Image\n");
    refused("our label", &made(&taken), &["has a label `isolator` already"]);
    let lower = format!("{label}      append {line} quiet\n");
    refused("a line in each case", &made(&lower), &["two APPEND lines"]);
}

#[test]
fn plans_only_cpus_that_are_present() {
    // Firmware of some hosts announces many more CPUs than there are.
    for (possible, wanted, refused) in [
        ("0-8191", "3", None),
        ("0-8191", "3-8191", Some("cpus 4-8191 do not exist")),
        ("0-8191", "8191", Some("cpus 8191 do not exist")),
        ("0-239", "2-4", Some("cpus 4 do not exist")),
        ("0-127", "2-3", None),
    ] {
        let root = boots::plain_debian().file("sys/devices/system/cpu/possible", possible).lay_out();
        let machine = inspect::read_whole(root.path());
        let intent = Intent::new(Profile::Periodic, WantedCpus::Cpus(wanted.parse().unwrap()));
        let planned = plan(&machine, &MadeFor::here(root.path(), &machine), &intent);
        match (planned, refused) {
            (Ok(plan), None) => {
                assert!(
                    plan.boot_line().to_string().contains(&format!("domain,{wanted} ")),
                    "{}",
                    plan.boot_line()
                );
                assert!(plan.housekeeping.iter().all(|cpu| cpu < 4), "{}", plan.housekeeping);
            }
            (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{error}"),
            (planned, _) => panic!("{possible} {wanted}: {planned:?}"),
        }
    }
}
