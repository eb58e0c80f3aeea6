// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB's own generator: what our drop-in becomes in the menu that it prints, and what its own tools say of
//! our files.
//!
//! The files lie in a mount namespace over those of the machine; what would look at disks is a script.
//! Skipped where GRUB's programs are not installed, or nothing may be mounted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use inspect::boot::grub;
use machine::boot::line::kernel_words;
use tune::boot::{BootMethod, BootSpec, first, lasting};
use tune::system::Real;
use tune::transaction::{self, Record, RecordKind};

const KERNEL: &str = "6.12.9-rt-amd64";

fn boot_words() -> Vec<String> {
    ["isolcpus=managed_irq,domain,2-3", "irqaffinity=0-1", "skew_tick=1"].map(String::from).to_vec()
}

/// The answers of grub-probe on a machine with one disk.
const PROBE: &str = "#!/bin/sh\nfor word; do case $word in\n--target=device) echo /dev/sda1 ;;\n\
                     --target=fs_uuid) echo 1111aaaa-0000-4000-8000-222233334444 ;;\n--target=fs) echo ext2 ;;\n\
                     --target=partmap) echo gpt ;;\n--target=drive) echo '(hd0,gpt1)' ;;\n\
                     --target=*hint*) echo --hint-bios=hd0,gpt1 ;;\nesac; done\n";

fn missing() -> Option<&'static str> {
    let has =
        |name: &str| ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(name).exists());
    if !["grub-mkconfig", "grub-probe", "grub-editenv", "grub-script-check"].iter().all(|name| has(name)) {
        return Some("GRUB's programs are not installed (grub-common)");
    }
    crate::common::cannot_mount()
}

/// Runs the ignored test `name` of this file in a namespace with a Debian's boot files.
fn with_boot_files(name: &str) {
    if let Some(why) = missing() {
        return println!("skipped: {name}: {why}");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for path in ["boot/grub", "default/grub.d", "store"] {
        fs::create_dir_all(at(path)).unwrap();
    }
    for version in [KERNEL, "6.1.0-18-amd64"] {
        fs::write(at(&format!("boot/vmlinuz-{version}")), "kernel").unwrap();
        fs::write(at(&format!("boot/initrd.img-{version}")), "disk").unwrap();
        fs::write(at(&format!("boot/config-{version}")), "CONFIG_X=y\n").unwrap();
    }
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/fixtures/boot/debian/etc/default/grub");
    fs::copy(fixture, at("default/grub")).unwrap();
    fs::write(at("default/grub.d/50-cloud.cfg"), "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet console=ttyS0\"\n")
        .unwrap();
    fs::write(at("probe"), PROBE).unwrap();
    fs::set_permissions(at("probe"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "mount --bind boot /boot; mount --bind default /etc/default; mount --bind store /var/lib; \
                  mount --bind probe $(command -v grub-probe); grub-editenv /boot/grub/grubenv create; \
                  grub-mkconfig -o /boot/grub/grub.cfg";
    crate::common::in_namespace(folder.path(), script, name);
}

#[test]
fn grubs_generator_gives_our_words_to_every_ordinary_entry_and_to_no_repair_entry() {
    with_boot_files("grub::inside_the_line_lasts");
}

#[test]
fn grubs_tools_take_our_trial_entry() {
    with_boot_files("grub::inside_an_entry_is_tried");
}

fn menu() -> String {
    fs::read_to_string("/boot/grub/grub.cfg").unwrap()
}

fn good(program: &str, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).output().unwrap();
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
#[ignore = "runs in the namespace that another test makes"]
fn inside_the_line_lasts() {
    assert!(std::env::var_os(crate::common::INSIDE).is_some(), "only within the namespace");
    let before = menu();
    let boot = inspect::boot::read(Path::new("/"));
    let mut system = Real::new(Path::new("/")).unwrap();
    let words = boot_words();
    let asked = BootSpec { release: Some(KERNEL), real_time: true, ..BootSpec::new(&boot, &words) };
    let BootMethod::Lasting { steps, .. } = lasting(&mut system, &asked).unwrap() else { panic!() };
    let mut record = Record::new("20260101-000000", RecordKind::Boot, "digest", "boot", &words, steps);
    transaction::apply(&mut system, &mut record).unwrap();
    let text = menu();
    let entries = grub::menu(&text, "grub.cfg");
    let linux: Vec<_> = entries.iter().filter(|entry| entry.entry.kernel.is_some()).collect();
    let (repair, ordinary): (Vec<_>, Vec<_>) = linux.into_iter().partition(|entry| entry.entry.recovery);
    assert_eq!((repair.len(), ordinary.len()), (2, 3), "{text}");
    let has = |options: &str| {
        words.iter().filter(|own| kernel_words(options).any(|word| word.raw == **own)).count()
    };
    for entry in ordinary {
        assert_eq!(has(&entry.entry.options), 3, "{:?}", entry.entry);
        assert!(entry.entry.options.contains("quiet console=ttyS0 isolcpus="), "{:?}", entry.entry);
    }
    for entry in repair {
        assert_eq!(has(&entry.entry.options), 0, "{:?}", entry.entry);
    }
    good("grub-script-check", &["/boot/grub/grub.cfg"]);
    // What the distribution's own command makes of the same files is the same menu.
    assert_eq!(good("grub-mkconfig", &[]), text);
    transaction::roll_back(&mut system, &mut record);
    assert_eq!(menu(), before);
    assert!(!Path::new("/etc/default/grub.d/99-isolator.cfg").exists());
}

#[test]
#[ignore = "runs in the namespace that another test makes"]
fn inside_an_entry_is_tried() {
    assert!(std::env::var_os(crate::common::INSIDE).is_some(), "only within the namespace");
    let environment = fs::read("/boot/grub/grubenv").unwrap();
    let boot = inspect::boot::read(Path::new("/"));
    let mut system = Real::new(Path::new("/")).unwrap();
    let words = boot_words();
    let asked = BootSpec { release: Some(KERNEL), real_time: true, ..BootSpec::new(&boot, &words) };
    let steps = match first(&mut system, &asked).unwrap() {
        BootMethod::Trial { steps, .. } => steps,
        // The folder for temporary files is on a file system that GRUB does not write to.
        other => return println!("skipped: no trial here: {other:?}"),
    };
    let mut record = Record::new("20260101-000000", RecordKind::Trial, "digest", "boot", &words, steps);
    transaction::apply(&mut system, &mut record).unwrap();
    good("grub-script-check", &["/boot/grub/custom.cfg"]);
    assert_eq!(good("grub-editenv", &["/boot/grub/grubenv", "list"]), "next_entry=isolator-trial\n");
    // As GRUB does before it boots the entry.
    good("grub-editenv", &["/boot/grub/grubenv", "unset", "next_entry"]);
    transaction::roll_back(&mut system, &mut record);
    assert_eq!(fs::read("/boot/grub/grubenv").unwrap(), environment);
    assert!(!Path::new("/boot/grub/custom.cfg").exists());
}
