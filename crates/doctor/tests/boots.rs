// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of the boot loader, on machines after public reports.

use doctor::FindingOutcome::{self, *};
use doctor::Profile::Periodic;
use doctor::Report;

use crate::machines;

/// The check `id` of the machine `name`: the outcome, the sentence, and the cure.
fn outcome_of(report: &Report, id: &str) -> (FindingOutcome, String, String) {
    let finding = report.checks.iter().find(|finding| finding.id == id).unwrap();
    (finding.result, finding.says.clone(), finding.fix.clone().unwrap_or_default())
}

fn report(name: &str) -> Report {
    let root = machines::of(name).lay_out();
    crate::common::examined(&inspect::read_whole(root.path()), Periodic)
}

#[test]
fn drift_says_where_each_word_stands_or_why_it_cannot() {
    for (name, outcome, words) in [
        (
            "grub-after-quote",
            Unknown,
            "GRUB_CMDLINE_LINUX_DEFAULT cannot be read here: isolcpus=2,3 stands outside of the quotes",
        ),
        ("grub-bom", Unknown, "a byte order mark stands before it"),
        ("grub-curly", Unknown, "its quotes are typographic"),
        ("grub-multiline", Unknown, "its value goes over more than one line"),
        ("grub-lasting-multiline", Unknown, "its value goes over more than one line"),
        ("grub-spaces", Unknown, "a space stands before ="),
        ("grub-sourced", Unknown, "`. /etc/realtime.conf` may set it"),
        ("grub-utf16", Unknown, "it is not a text of lines"),
        ("grub-document", Unknown, "may belong to a here-document"),
        ("proxmox-real-time", Pass, "the kernel runs with the line of /etc/kernel/cmdline"),
        ("refind", Unknown, "no supported boot loader was found"),
        ("jetson-nvpmodel", Pass, "the kernel runs with the"),
        ("jetson-bom", Pass, "the kernel runs with the"),
        ("jetson-crlf", Pass, "the kernel runs with the"),
        ("jetson-hash", Pass, "the kernel runs with the"),
        ("rpi-4106", Pass, "the kernel runs with the"),
        ("eve-inverse", Unknown, "no supported boot loader was found"),
        ("unknown", Unknown, "no supported boot loader was found"),
        ("seapath-default-ignored", Warn, "edited, but never generated: quiet, isolcpus=2-3"),
        ("grub-crlf", Warn, "edited, but never generated: isolcpus=2,3"),
        (
            "grub-not-generated",
            Warn,
            "edited, but never generated: isolcpus=2,3 (GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub)",
        ),
        ("grub-lasting", Pass, "the kernel runs with the configured boot line"),
        ("grub-lasting-crlf", Pass, "the kernel runs with the"),
        ("grub-commented", Pass, "the kernel runs with the"),
        ("grub-handoff", Pass, "the kernel runs with the"),
        ("grub-tuned", Pass, "the kernel runs with the"),
        ("ubuntu-50-cloud", Pass, "the kernel runs with the"),
        ("rt-conf-dropin", Pass, "the kernel runs with the"),
        (
            "ubuntu-99-realtime",
            Warn,
            "splash (GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub.d/99-realtime.cfg)",
        ),
        ("linuxcnc-grubcfg-by-hand", Warn, "isolcpus=1 stands in /boot/grub/grub.cfg alone"),
        ("grub-own-entry", Pass, "the kernel runs with the"),
        (
            "rhel9-default-grub",
            Warn,
            "edited, but never generated: isolcpus=2-7, nohz_full=2-7 (GRUB_CMDLINE_LINUX of /etc/default/grub)",
        ),
        ("tuned-params-bls", Pass, "the kernel runs with the"),
        ("proxmox", Pass, "the kernel runs with the line of /etc/kernel/cmdline"),
        ("flatcar", Pass, "the kernel runs with the line of /oem/grub.cfg"),
        ("orangepi", Warn, "configured, but not running: cma=128M (extraargs of /boot/orangepiEnv.txt)"),
        ("jetson-emmc-first", Warn, "the machine booted from another file"),
        ("pi-sections", Pass, "the kernel runs with the"),
        ("ubuntu-pi-ab", Pass, "the kernel runs with the"),
        ("ubuntu-pi-ab-new", Warn, "configured, but not running: isolcpus=3"),
        ("lxc-with-grub", Unknown, "a container (lxc) does not see the host's"),
    ] {
        let (result, says, fix) = outcome_of(&report(name), "boot-cmdline-drift");
        assert!(result == outcome && says.contains(words), "{name}: {result} {says}");
        assert!(!(name == "jetson-emmc-first" && fix.contains("reboot")), "{name}: {fix}");
    }
}

#[test]
fn the_cure_names_the_command_of_this_machine() {
    let fix = |name: &str| outcome_of(&report(name), "boot-cmdline-drift").2;
    assert!(fix("rhel9-default-grub").contains("--update-bls-cmdline"));
    assert!(fix("grub-not-generated").starts_with("update-grub"));
    assert_eq!(
        fix("linuxcnc-grubcfg-by-hand"),
        "add to GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub and run update-grub: isolcpus=1"
    );
}

#[test]
fn names_the_loader_by_what_booted_and_the_program_that_keeps_it() {
    for (name, words) in [
        ("proxmox", "systemd-boot, whose files proxmox-boot-tool writes"),
        ("grub-beside-systemd-boot", "GRUB as Debian and Ubuntu have it"),
        ("nixos", "systemd-boot, whose files NixOS writes"),
        ("ubuntu-pi-ab", "the Raspberry Pi's firmware"),
        ("debian-raspi-firmware", "the Raspberry Pi's firmware, whose files raspi-firmware writes"),
        ("talos", "whose files Talos writes"),
        ("flatcar", "whose files Flatcar writes"),
        ("ubuntu-core", "whose files snapd writes"),
        ("flash-kernel", "U-Boot, whose files flash-kernel writes"),
        ("orangepi", "U-Boot"),
        ("ubuntu-rockchip", "U-Boot"),
        ("suse-rt", "GRUB, whose files transactional-update writes"),
        ("tuned-params-bls", "GRUB with Boot Loader Specification entries"),
    ] {
        let (result, says, _) = outcome_of(&report(name), "boot-loader-known");
        assert!(result == Pass && says.contains(words), "{name}: {result} {says}");
    }
}

#[test]
fn the_default_entry_must_boot_the_kernel_that_runs() {
    for (name, outcome) in [("rt-not-default", Warn), ("grub-lasting", Pass), ("tuned-params-bls", Pass)] {
        let (result, says, _) = outcome_of(&report(name), "boot-default-entry");
        assert_eq!(result, outcome, "{name}: {says}");
    }
}

#[test]
fn an_option_newer_than_the_kernel_is_no_failure() {
    for name in ["k49-jetson", "rhel7-310"] {
        let report = report(name);
        for id in ["kernel-config-cpu-isolation", "boot-param-noop", "boot-param-effective"] {
            let (result, says, _) = outcome_of(&report, id);
            assert!(!matches!(result, Fail | Warn), "{name} {id}: {says}");
        }
    }
}

#[test]
fn a_known_loader_is_not_called_unsupported() {
    let root = machines::made("6.1.112", 8, "root=/dev/sda1").file("boot/boot.scr", "").lay_out();
    let report = crate::common::examined(&inspect::read_whole(root.path()), Periodic);
    for id in ["boot-cmdline-drift", "boot-default-entry"] {
        let (result, says, _) = outcome_of(&report, id);
        assert_eq!(
            (result, says.contains("what U-Boot boots next cannot be told")),
            (Unknown, true),
            "{says}"
        );
    }
}

fn examined(made: machines::Made, more: &str) -> Report {
    let root = made.lay_out();
    let path = root.path().join("proc/cmdline");
    let line = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, format!("{}{more}\n", line.trim().replace("\\$", "$"))).unwrap();
    crate::common::examined(&inspect::read_whole(root.path()), Periodic)
}

#[test]
fn a_word_is_told_to_the_generator_in_its_quotes() {
    let made = machines::debian(
        "quiet memmap=1G\\$1G dyndbg=\"file a +p\"",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n",
    );
    let fix = outcome_of(&examined(made, ""), "boot-cmdline-drift").2;
    let line = fix.strip_prefix("write at the end of /etc/default/grub and run update-grub: ").unwrap();
    let script =
        format!("GRUB_CMDLINE_LINUX_DEFAULT=quiet\n{line}\nprintf %s \"$GRUB_CMDLINE_LINUX_DEFAULT\"");
    let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
    let written = String::from_utf8(said).unwrap();
    let menu = format!("menuentry a {{\n linux /v {written}\n}}\n");
    let entry = &inspect::boot::grub::menu(&menu, "")[0].entry;
    assert_eq!(entry.options, "quiet memmap=1G$1G \"dyndbg=file a +p\"", "{fix}");
}

#[test]
fn words_that_this_kernel_gives_away_are_told() {
    for (release, line, id, said) in [
        ("6.12.1", " -- isolcpus=2", "boot-param-unknown", "the kernel gives isolcpus=2 to init"),
        ("5.15.1", " isolcpus=2-3 nohz_full=3", "boot-param-noop", "nohz_full=3: isolcpus=2-3 comes first"),
    ] {
        let (result, says, fix) = outcome_of(&examined(machines::made(release, 4, "root=a"), line), id);
        assert!(result != Pass && says.contains(said) && !fix.is_empty(), "{line}: {result} {says}");
    }
}
