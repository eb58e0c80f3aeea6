// SPDX-License-Identifier: MIT OR Apache-2.0
//! `apply` on machines after public reports: a refusal changes nothing, instructions name the file
//! and the command, and a trial is a copy of the entry that runs.

mod inputs;

use std::path::Path;

use crate::boots::{self, AB, MACHINE, Made, PI_LINE, RHEL, ROOT, RT, STOCK};
use tune::Result;
use tune::change::{Applied, BootChange, Here, Options, apply, roll_back};
use tune::plan::{Intent, MadeFor, Plan, Profile, WantedCpus, plan};
use tune::system::Real;

fn planned(root: &Path) -> Plan {
    let machine = inspect::read_whole(root);
    let intent = Intent::new(Profile::Periodic, WantedCpus::Cpus("3".parse().unwrap()));
    plan(&machine, &MadeFor::here(root, &machine), &intent).unwrap()
}

/// Applies a plan for CPU 3 below `root`.
fn applied(root: &Path, options: Options) -> Result<Applied> {
    let machine = inspect::read_whole(root);
    let plan = planned(root);
    let mut system = Real::new(root).unwrap();
    let mut here = Here { system: &mut system, root, machine: &machine, stamp: "20260101-000000".into() };
    apply(&mut here, &plan, options)
}

fn rolled_back(root: &Path) {
    let machine = inspect::read_whole(root);
    let mut system = Real::new(root).unwrap();
    let mut here = Here { system: &mut system, root, machine: &machine, stamp: "20260102-000000".into() };
    let left = roll_back(&mut here, None).unwrap().left;
    assert!(left.is_empty(), "{left:?}");
}

fn wet(made: &Made) -> (tempfile::TempDir, Result<Applied>) {
    let root = made.lay_out();
    let before = boots::files(root.path());
    let done = applied(root.path(), Options::default());
    if done.is_err() {
        assert!(boots::files(root.path()) == before, "a refusal changed a file");
    }
    (root, done)
}

#[track_caller]
fn refused(name: &str, made: &Made, words: &[&str]) {
    let error = match wet(made).1 {
        Ok(applied) => panic!("{name}: {:?}", applied.boot),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(error.contains(word), "{name}: '{word}' is not in {error}");
    }
    assert!(!error.contains('\n'), "{name}: {error}");
}

/// Refuses the machine of a report.
#[track_caller]
fn refused_of(name: &str, words: &[&str]) {
    refused(name, &boots::of(name), words);
}

#[test]
fn refuses_words_of_others_and_names_their_file() {
    let tuned = "isolcpus=managed_irq,domain,2-7 nohz_full=2-7 rcu_nocbs=2-7 irqaffinity=0-1";
    let tuned = tuned.replace("nohz_full=2-7 ", "");
    for (name, words) in [
        ("rt-conf-dropin", vec!["isolcpus=2-3 irqaffinity=0-1", "/etc/default/grub.d/60_rt-conf.cfg"]),
        ("rhel9-default-grub", vec!["isolcpus=2-7 in GRUB_CMDLINE_LINUX of /etc/default/grub"]),
        ("tuned-params-bls", vec![tuned.as_str(), "tuned_params of /boot/grub2/grubenv"]),
        ("grub-tuned", vec![tuned.as_str(), "tuned_params of /boot/grub/grub.cfg"]),
        ("grub-own-entry", vec!["isolcpus=3 in /etc/grub.d/40_custom"]),
        ("linuxcnc-grubcfg-by-hand", vec!["isolcpus=1 in /boot/grub/grub.cfg"]),
        ("grub-not-generated", vec!["isolcpus=2,3 in GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub"]),
        ("grub-crlf", vec!["isolcpus=2,3 in GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub"]),
        ("grub-after-quote", vec!["isolcpus=2,3 in", "/etc/default/grub, which cannot be read here"]),
        ("grub-bom", vec!["isolcpus=2,3 in", "a byte order mark"]),
        ("grub-curly", vec!["isolcpus=2,3 in", "typographic"]),
        ("grub-multiline", vec!["isolcpus=2,3 in", "more than one line"]),
        ("grub-spaces", vec!["isolcpus=2,3 in", "a space stands before ="]),
        ("tx2-firmware-isolcpus", vec!["isolcpus=1-2 in the running line and in no file: firmware adds it"]),
        ("seapath-default-ignored", vec!["isolcpus=2-3 in GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub"]),
        ("rpi-4106", vec!["isolcpus=0 in /boot/cmdline.txt"]),
        ("eve-inverse", vec!["isolcpus=inverse,0 in the running line; no boot loader known here was found"]),
        (
            "jetson-nvpmodel",
            vec!["isolcpus=managed_irq,domain,4-7 rcu_nocbs=4-7 in /boot/extlinux/extlinux.conf"],
        ),
        ("ubuntu-pi-ab-new", vec!["isolcpus=3 in /boot/firmware/current/cmdline.txt"]),
    ] {
        refused_of(name, &words);
    }
    let flash =
        boots::of("flash-kernel").file("etc/default/flash-kernel", "LINUX_KERNEL_CMDLINE=\"isolcpus=1\"\n");
    refused("flash-kernel", &flash, &["isolcpus=1 in LINUX_KERNEL_CMDLINE of /etc/default/flash-kernel"]);
    let orange = boots::of("orangepi").file("boot/orangepiEnv.txt", "extraargs=isolcpus=2-3\n");
    refused("orangepi", &orange, &["isolcpus=2-3 in extraargs of /boot/orangepiEnv.txt"]);
    let flatcar = boots::of("flatcar").file("oem/grub.cfg", "set linux_append=\"isolcpus=5\"\n");
    refused("flatcar", &flatcar, &["isolcpus=5 in linux_append of /oem/grub.cfg"]);
    let pi = boots::of("debian-raspi-firmware").file("etc/default/raspi-extra-cmdline", "isolcpus=1\n");
    refused("debian-raspi-firmware", &pi, &["isolcpus=1 in /etc/default/raspi-extra-cmdline"]);
}

#[test]
fn refuses_files_from_which_this_machine_did_not_boot() {
    refused_of("jetson-emmc-first", &["root=/dev/sda1 runs", "root=/dev/mmcblk0p1"]);
    let stick = boots::plain_debian()
        .file("proc/cmdline", &format!("BOOT_IMAGE=/boot/vmlinuz-{RT} root=/dev/sdb1 ro\n"));
    refused("another disk", &stick, &["root=/dev/sdb1 runs", "booted from another file"]);
    let pi = boots::pi("Raspberry Pi 4 Model B Rev 1.4", "", "root=/dev/nfs rootwait")
        .file("boot/firmware/cmdline.txt", "root=PARTUUID=1-02 rootwait\n");
    refused("a Pi from the network", &pi, &["root=/dev/nfs runs", "/boot/firmware/cmdline.txt"]);
    // Two systems in one menu, of which the other is the default.
    let entries = boots::entry("'Other'", "other", RT, "root=UUID=9 ro quiet")
        + &boots::entry("'Debian'", "simple", RT, &format!("{ROOT} ro quiet"));
    let two = boots::plain_debian().file("boot/grub/grub.cfg", &boots::menu("", &entries));
    refused("the other system is the default", &two, &["its default entry 'Other' boots root=UUID=9"]);
}

#[test]
fn refuses_a_default_that_boots_another_kernel() {
    refused_of("rt-not-default", &[STOCK, "and the plan is for 6.1.0-28-rt-amd64"]);
    let newer = boots::rhel9("", "", "", "")
        .file("proc/sys/kernel/osrelease", "5.14.0-427.rt.el9.x86_64\n")
        .file("boot/config-5.14.0-427.rt.el9.x86_64", "CONFIG_CPU_ISOLATION=y\n")
        .file(
            "proc/cmdline",
            "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.14.0-427.rt.el9.x86_64 root=/dev/mapper/rhel-root ro\n",
        );
    refused("an older kernel was chosen", &newer, &[RHEL, "grubby --set-default"]);
    let arch = boots::plain_debian()
        .file("proc/sys/kernel/osrelease", "6.12.9-rt1-1-rt\n")
        .file("boot/config-6.12.9-rt1-1-rt", "CONFIG_CPU_ISOLATION=y\n")
        .file("proc/cmdline", &format!("BOOT_IMAGE=/boot/vmlinuz-linux-rt {ROOT} ro quiet\n"));
    refused("kernels without versions", &arch, &["boots /boot/vmlinuz-"]);
}

#[test]
fn refuses_a_drop_in_after_ours_that_sets_the_line_anew() {
    for name in ["ubuntu-99-override", "ubuntu-99-realtime"] {
        refused_of(name, &["/etc/default/grub.d/99-realtime.cfg is read after it"]);
    }
    let added = "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT quiet\"\n";
    let adds = boots::plain_debian().file("etc/default/grub.d/99-realtime.cfg", added);
    assert!(wet(&adds).1.is_ok());
    assert!(wet(&boots::of("ubuntu-50-cloud")).1.is_ok());
}

#[test]
fn refuses_a_container_and_wsl_before_anything() {
    refused_of("lxc-with-grub", &["this is a container (lxc)"]);
    refused_of("wsl2", &["this is WSL"]);
    for (path, text, name) in [
        ("run/.containerenv", "", "podman"),
        ("run/host/container-manager", "lxc-libvirt\n", "lxc-libvirt"),
        ("proc/1/environ", "container=lxc\0", "lxc"),
        ("proc/1/cgroup", "0::/lxc.payload.robot\n", "lxc"),
        ("proc/1/cgroup", "0::/docker/0123456789ab\n", "docker"),
    ] {
        refused(path, &boots::plain_debian().file(path, text), &[&format!("this is a container ({name})")]);
    }
    refused(".dockerenv", &boots::plain_debian().file(".dockerenv", ""), &["this is a container (docker)"]);
    let root = boots::of("lxc-with-grub").lay_out();
    let settings = Options { runtime_only: true, ..Options::default() };
    assert!(applied(root.path(), settings).is_err());
}

#[test]
fn refuses_what_cannot_be_told_of_the_file() {
    refused_of("pi-monitor", &["cmdline depends on [edid=del-x]"]);
    refused_of("jetson-two-append", &["two APPEND lines"]);
    refused_of("jetson-root-twice", &["root= occurs twice"]);
    let unmounted = boots::of("proxmox").without("etc/kernel/proxmox-boot-uuids");
    refused(
        "systemd-boot unmounted",
        &unmounted,
        &["no mounted partition has its entries", "mount the EFI system partition"],
    );
}

#[test]
fn instructions_name_the_place_and_the_command_and_no_boot_file_changes() {
    // The file and the command, as far as one is named.
    let grub = "GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: isolcpus=";
    let kernel = "add to the one line of /etc/kernel/cmdline: isolcpus=";
    let refresh = "run: proxmox-boot-tool refresh";
    for (name, place, command) in [
        ("proxmox", kernel, refresh),
        ("proxmox-real-time", kernel, refresh),
        ("proxmox-grub", grub, refresh),
        ("refind", "write into /boot/refind_linux.conf, which is not there yet: \"Isolator\" \"root=", ""),
        ("unknown", "add to the kernel's boot line: isolcpus=", ""),
        ("nixos", "boot.kernelParams in /etc/nixos/configuration.nix", "run: nixos-rebuild boot"),
        ("suse-rt", grub, "run: transactional-update grub.cfg"),
        ("suse-leap", grub, "run: grub2-mkconfig -o /boot/grub/grub.cfg"),
        ("talos", "extraKernelArgs", "run: talosctl upgrade"),
        ("flatcar", "linux_append in /oem/grub.cfg (set linux_append=\"...\"): isolcpus=", ""),
        ("ubuntu-core", "", "run: snap set system system.boot.cmdline-append=\"isolcpus="),
        ("debian-raspi-firmware", "/etc/default/raspi-extra-cmdline: isolcpus=", "run: update-initramfs -u"),
        ("ubuntu-pi-ab", "add to the one line of /boot/firmware/current/cmdline.txt: isolcpus=", ""),
        ("flash-kernel", "LINUX_KERNEL_CMDLINE in /etc/default/flash-kernel: isolcpus=", "run: flash-kernel"),
        ("orangepi", "add to extraargs= in /boot/orangepiEnv.txt: isolcpus=", ""),
        ("ubuntu-rockchip", "add to bootargs= in /boot/firmware/ubuntuEnv.txt: isolcpus=", ""),
    ] {
        let made = boots::of(name);
        let (root, done) = wet(&made);
        let done = done.unwrap_or_else(|error| panic!("{name}: {error}"));
        let BootChange::Instructions { lines: said, .. } = &done.boot else {
            panic!("{name}: {:?}", done.boot)
        };
        let said = said.join("\n");
        for line in [place, command] {
            assert!(said.contains(line), "{name}: '{line}' is not in {said}");
        }
        let boots = |root: &Path| {
            let mut files = boots::files(root);
            files.retain(|(path, _)| !path.starts_with("var/") && !path.starts_with("proc/irq"));
            files
        };
        assert!(boots(root.path()) == boots(made.lay_out().path()), "{name}");
    }
}

#[test]
fn a_copied_entry_keeps_who_may_boot_it() {
    let trial = |made: &Made| {
        let (root, done) = wet(made);
        assert!(matches!(done.unwrap().boot, BootChange::Trial { .. }));
        let text = std::fs::read_to_string(root.path().join("boot/grub/custom.cfg")).unwrap();
        text.lines().find(|line| line.starts_with("menuentry")).unwrap().to_string()
    };
    assert_eq!(
        trial(&boots::of("grub-password")),
        "menuentry 'Isolator trial' --class debian --class os --unrestricted $menuentry_id_option 'isolator-trial' {"
    );
    for (head, expected) in [
        ("\"Debian {x}\" --users \"ann,bob\" --class os", "'Isolator trial' --users \"ann,bob\" --class os"),
        ("'a \"b\" c'  --users '' --hotkey=r", "'Isolator trial' --users '' --hotkey=r"),
        ("Plain", "'Isolator trial'"),
        ("'Ärger' --unrestricted", "'Isolator trial' --unrestricted"),
    ] {
        let entry = boots::entry(head, "simple", RT, &format!("{ROOT} ro  quiet"));
        let made = boots::plain_debian().file("boot/grub/grub.cfg", &boots::menu("", &entry));
        assert_eq!(
            trial(&made),
            format!("menuentry {expected} $menuentry_id_option 'isolator-trial' {{"),
            "{head}"
        );
        let bare = entry.replace(" $menuentry_id_option 'simple'", "");
        let made = boots::plain_debian().file("boot/grub/grub.cfg", &boots::menu("", &bare));
        assert_eq!(trial(&made), format!("menuentry {expected} --id 'isolator-trial' {{"), "{head}");
    }
}

#[test]
fn the_trial_copies_the_entry_that_runs() {
    // The same kernel stands in two entries; the second one runs.
    let entries = boots::entry("'Debian'", "simple", RT, &format!("{ROOT} ro  quiet"))
        + &boots::entry("'With a console'", "console", RT, &format!("{ROOT} ro  quiet console=ttyS0"));
    let made = boots::plain_debian()
        .file("boot/grub/grub.cfg", &boots::menu("", &entries))
        .file("proc/cmdline", &format!("BOOT_IMAGE=/boot/vmlinuz-{RT} {ROOT} ro quiet console=ttyS0\n"));
    let (root, done) = wet(&made);
    done.unwrap();
    let text = std::fs::read_to_string(root.path().join("boot/grub/custom.cfg")).unwrap();
    assert!(text.contains("quiet console=ttyS0 isolcpus="), "{text}");
}

#[test]
fn machines_with_nothing_special_get_their_trial_or_line() {
    for name in ["grub-lasting", "grub-lasting-crlf", "grub-commented", "grub-handoff"] {
        let done = wet(&boots::of(name)).1.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(matches!(done.boot, BootChange::Trial { .. }), "{name}: {:?}", done.boot);
    }
    for (name, made) in [
        ("rhel9", boots::rhel9("", "", "GRUB_CMDLINE_LINUX=\"crashkernel=1G rd.lvm.lv=rhel/root\"\n", "")),
        ("grub-beside-systemd-boot", boots::of("grub-beside-systemd-boot")),
    ] {
        let done = wet(&made).1.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(matches!(done.boot, BootChange::Trial { .. }), "{name}: {:?}", done.boot);
    }
    for name in ["jetson-plain", "jetson-bom", "jetson-crlf", "jetson-hash"] {
        let done = wet(&boots::of(name)).1.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(matches!(done.boot, BootChange::Lasting { .. }), "{name}: {:?}", done.boot);
    }
}

#[test]
fn a_pi_takes_the_line_of_its_own_section() {
    let (root, done) = wet(&boots::of("pi-sections"));
    assert!(matches!(done.unwrap().boot, BootChange::Trial { .. }));
    let line = std::fs::read_to_string(root.path().join("boot/firmware/cmdline-isolator.txt")).unwrap();
    assert!(line.starts_with("console=tty1 root=PARTUUID=aa-02 rootwait isolcpus="), "{line}");
    // Another program tries boots: nothing is armed beside it.
    for (path, text) in [
        ("autoboot.txt", "[all]\ntryboot_a_b=1\n"),
        ("tryboot.txt", ""),
        ("config.txt", "arm_64bit=1\n[TryBoot]\nkernel=other.img\n"),
    ] {
        let made = boots::pi("Raspberry Pi 5 Model B Rev 1.0", "", PI_LINE)
            .file("boot/firmware/cmdline.txt", PI_LINE)
            .file(&format!("boot/firmware/{path}"), text);
        assert!(matches!(wet(&made).1.unwrap().boot, BootChange::Instructions { .. }), "{path}");
    }
    assert!(AB.contains("os_prefix"));
}

#[test]
fn kernels_from_before_the_option_get_a_plan() {
    for name in ["k49-jetson", "rhel7-310"] {
        let root = boots::of(name).lay_out();
        let plan = planned(root.path());
        assert!(plan.boot_line().to_string().starts_with("isolcpus=3 "), "{name}: {}", plan.boot_line());
    }
}

#[test]
fn refuses_a_value_over_two_lines_before_the_trial() {
    refused_of(
        "grub-lasting-multiline",
        &["GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub goes over more than one line", "on one line"],
    );
    let two = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\nsplash\"\n";
    let drop_in = boots::plain_debian().file("etc/default/grub.d/50-cloud.cfg", two);
    refused("a drop-in", &drop_in, &["in /etc/default/grub.d/50-cloud.cfg goes over more than one line"]);
    let mended = drop_in.file("etc/default/grub.d/60-x.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n");
    assert!(wet(&mended).1.is_ok());
    // The menu shows what a command gives; that is judged when it is generated.
    let command = boots::debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"$(echo quiet)\"\n");
    assert!(wet(&command).1.is_ok());
}

#[test]
fn files_that_no_loader_reads_do_not_count() {
    let hidden = boots::plain_debian()
        .file("etc/default/grub.d/.50-old.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=isolcpus=1\n");
    assert!(wet(&hidden).1.is_ok());
}

#[test]
fn a_saved_default_is_found_by_every_spelling_of_ids() {
    let deep = boots::entry("'Debian, Linux'", "deep", RT, &format!("{ROOT} ro quiet"));
    let entries = boots::entry("'Other'", "other", STOCK, &format!("{ROOT} ro quiet"))
        + &format!("submenu 'Advanced' $menuentry_id_option 'advanced' {{\n{deep}}}\n");
    let menu = boots::menu("", &entries).replace("set default=\"0\"", "set default=\"${saved_entry}\"");
    for spelling in ["$menuentry_id_option '", "${menuentry_id_option} '", "--id '", "--id='"] {
        let menu = menu.replace("$menuentry_id_option '", spelling);
        let mut block = boots::grubenv("saved_entry=advanced>deep\n");
        for longer in ["", "#"] {
            block += &longer.repeat(3072);
            let made =
                boots::plain_debian().file("boot/grub/grub.cfg", &menu).file("boot/grub/grubenv", &block);
            let (root, done) = wet(&made);
            assert!(matches!(done.unwrap().boot, BootChange::Trial { .. }), "{spelling}");
            let armed = std::fs::read_to_string(root.path().join("boot/grub/grubenv")).unwrap();
            assert_eq!((armed.len(), armed.contains("next_entry=isolator-trial")), (block.len(), true));
        }
    }
}

#[test]
fn a_rescue_entry_that_gets_the_words_too_is_no_way_back() {
    let entry = |name: &str, options: &str| {
        let text = format!("title {name}\nlinux /vmlinuz-{RHEL}\ninitrd /initramfs-{RHEL}.img\n{options}");
        (format!("boot/loader/entries/{MACHINE}-{name}.conf"), text)
    };
    let line = "root=/dev/mapper/rhel-root ro crashkernel=1G rd.lvm.lv=rhel/root";
    let made = |rescue: &str| {
        let (path, text) = entry(RHEL, "options $kernelopts\n");
        let (other, rescue) = entry("0-rescue", rescue);
        boots::rhel9("", &format!("kernelopts={line}\n"), "", "")
            .file("proc/self/mounts", "/dev/mapper/r / btrfs rw 0 0\n")
            .file(&path, &text)
            .file(&other, &rescue)
    };
    refused(
        "both by the variable",
        &made("options $kernelopts\n"),
        &["no rescue entry with a line of its own"],
    );
    let (_root, done) = wet(&made(&format!("options {line}\n")));
    assert!(matches!(done.unwrap().boot, BootChange::Lasting { .. }));
}

#[test]
fn an_entry_without_a_line_keeps_the_loaders_own() {
    let path = format!("boot/loader/entries/{MACHINE}-{RHEL}.conf");
    let bare = format!("title RHEL\nlinux /vmlinuz-{RHEL}\ninitrd /initramfs-{RHEL}.img\n");
    let (root, done) = wet(&boots::rhel9("", "", "", "").file(&path, &bare));
    assert!(matches!(done.unwrap().boot, BootChange::Trial { .. }));
    let trial = format!("boot/loader/entries/{MACHINE}-0-isolator-trial.conf");
    let text = std::fs::read_to_string(root.path().join(trial)).unwrap();
    assert!(text.contains("options $default_kernelopts isolcpus="), "{text}");
}

#[test]
fn entries_of_another_system_stay_as_they_are() {
    let other = "boot/loader/entries/ffffffffffffffffffffffffffffffff-6.1.conf";
    let text = "title Other\nlinux /vmlinuz-6.1\noptions root=UUID=9 ro\n";
    // A menu that never asks for the entry of one boot gets no trial, so the change is made at once.
    let made = boots::rhel9("", "", "", "")
        .file(other, text)
        .file("boot/vmlinuz-0-rescue", "")
        .file("boot/grub2/grub.cfg", "set default=\"${saved_entry}\"\nblscfg\n");
    let (root, done) = wet(&made);
    assert!(matches!(done.unwrap().boot, BootChange::Lasting { .. }));
    assert_eq!(std::fs::read_to_string(root.path().join(other)).unwrap(), text);
    let own = format!("boot/loader/entries/{MACHINE}-{RHEL}.conf");
    assert!(std::fs::read_to_string(root.path().join(own)).unwrap().contains("isolcpus="));
}

#[test]
fn the_default_of_extlinux_counts_wherever_it_stands() {
    let line = "root=/dev/mmcblk0p1 rw rootwait";
    let path = "boot/extlinux/extlinux.conf";
    let label =
        |name: &str, line: &str| format!("LABEL {name}\n      LINUX /boot/Image\n      APPEND {line}\n\n");
    let both = label("old", &format!("{line} quiet")) + &label("primary", line);
    let made = |text: &str| boots::jetson(line, line).file(path, text);
    for text in
        [format!("{both}DEFAULT primary\n"), format!("DEFAULT old\n{both}DEFAULT primary\nTIMEOUT 50\n")]
    {
        let (root, done) = wet(&made(&text));
        match done.unwrap().boot {
            BootChange::Lasting { fallback } => assert!(fallback.contains("'primary'"), "{fallback}"),
            other => panic!("{other:?}"),
        }
        let place = root.path().join(path);
        let now = std::fs::read_to_string(&place).unwrap();
        assert!(now.contains("DEFAULT isolator") && !now.contains("DEFAULT primary"), "{now}");
        // Someone edits the file; then our label goes and no DEFAULT names it.
        std::fs::write(&place, now + "# mine\n").unwrap();
        rolled_back(root.path());
        let now = std::fs::read_to_string(&place).unwrap();
        assert!(now.contains("DEFAULT primary") && !now.contains("isolator"), "{now}");
    }
    let twice = format!("DEFAULT primary\n{}{both}", label("primary", &format!("{line} debug")));
    refused("a label twice", &made(&twice), &["its default label occurs twice"]);
}

#[test]
fn a_prefix_of_an_included_file_gets_instructions() {
    let made = boots::pi("Raspberry Pi 4 Model B Rev 1.4", "[all]\ninclude user.txt\n", PI_LINE)
        .file("boot/firmware/user.txt", "os_prefix=cur/\n")
        .file("boot/firmware/cur/cmdline.txt", PI_LINE);
    match wet(&made).1.unwrap().boot {
        BootChange::Instructions { lines, .. } => {
            assert!(lines[0].contains("/boot/firmware/cur/cmdline.txt"), "{lines:?}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_image_that_runs_beside_entries_gets_instructions() {
    let entry = |id: &str| {
        boots::made("6.12.9-arch", 4, "root=PARTUUID=1 rw quiet")
            .file("boot/loader/loader.conf", "timeout 3\ndefault ar?h*\n")
            .file(
                "boot/loader/entries/arch.conf",
                "title Arch\nlinux /vmlinuz\noptions root=PARTUUID=1 rw quiet\n",
            )
            .file("boot/loader/entries/.arch-old.conf", "title Old\noptions isolcpus=1\n")
            .file("boot/vmlinuz", "")
            .file("boot/EFI/systemd/systemd-bootx64.efi", "")
            .file("boot/EFI/Linux/arch-linux.efi", "")
            .file("etc/kernel/cmdline", "root=PARTUUID=1 rw quiet\n")
            .file(
                "sys/firmware/efi/efivars/LoaderEntrySelected-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
                &format!("\x06\0\0\0{}", id.chars().map(|letter| format!("{letter}\0")).collect::<String>()),
            )
    };
    let instructions = wet(&entry("arch-linux.efi")).1.unwrap().boot;
    assert!(matches!(instructions, BootChange::Instructions { .. }), "{instructions:?}");
    let machine = inspect::boot::read(entry("arch.conf").lay_out().path());
    let default = machine.default_entry().map(|entry| entry.id.as_str());
    assert_eq!((machine.entries.len(), default), (1, Some("arch")));
}

#[test]
fn systemd_boot_without_its_settings_gets_a_trial() {
    let options = format!("{ROOT} ro quiet");
    let folder = format!("/{MACHINE}/{RT}");
    let made = boots::made(RT, 4, &format!("initrd={}\\initrd {options}", folder.replace('/', "\\")))
        .file(
            &format!("boot/efi/loader/entries/{MACHINE}-{RT}.conf"),
            &format!("title RT\noptions {options}\nlinux {folder}/linux\ninitrd {folder}/initrd\n"),
        )
        .file(&format!("boot/efi{folder}/linux"), "")
        .file(&format!("boot/efi{folder}/initrd"), "")
        .file("boot/efi/EFI/systemd/systemd-bootx64.efi", "");
    let (root, done) = wet(&made);
    assert!(root.path().join("boot/efi/loader/entries/isolator-trial+1.conf").is_file(), "{done:?}");
}

#[test]
fn refuses_a_line_whose_quote_stays_open() {
    let open = "dyndbg=\"file e1000e +p";
    let said = ["a quote is not closed"];
    refused("rhel9", &boots::rhel9(open, "", "", open), &said);
    let line = format!("root=/dev/mmcblk0p1 rw rootwait {open}");
    refused("jetson", &boots::jetson(&line, &line), &said);
    let line = format!("{PI_LINE} {open}");
    let pi = boots::pi("Raspberry Pi 4 Model B Rev 1.4", "", &line);
    refused("pi", &pi.file("boot/firmware/cmdline.txt", &format!("{line}\n")), &said);
    let closed = "dyndbg=\"file e1000e +p\"";
    assert!(wet(&boots::rhel9(closed, "", "", closed)).1.is_ok());
}
