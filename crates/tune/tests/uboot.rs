// SPDX-License-Identifier: MIT OR Apache-2.0
//! U-Boot's own tools: what `fw_setenv` makes of our words, in an environment that is a file, and what is
//! left of them.
//!
//! A copy of /etc lies over the machine's in a mount namespace. Skipped where the tools are not installed, or
//! nothing may be mounted.

use std::path::Path;
use std::process::Command;

use machine::boot::{Boot, Loader};
use tune::boot::{BootMethod, BootSpec, lasting};
use tune::system::Real;
use tune::transaction::{self, Record, RecordKind};

const ENVIRONMENT: &str = "bootcmd=run args; bootz\nbootlimit=3\nupgrade_available=1\nbootcount=0\n\
                           altbootcmd=run other\nother=bootz 1\n\
                           args=setenv bootargs ${optargs} root=/dev/mmcblk0p2\n";

/// Runs the ignored test `inside` in a namespace where U-Boot's environment has these lines too.
fn with_lines(more: &str) {
    let has =
        |name: &str| ["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(name).exists());
    if !["mkenvimage", "fw_setenv", "fw_printenv"].iter().all(|name| has(name)) {
        return println!("skipped: U-Boot's tools are not installed (u-boot-tools, libubootenv-tool)");
    }
    if let Some(why) = crate::common::cannot_mount() {
        return println!("skipped: {why}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lines"), format!("{ENVIRONMENT}{more}")).unwrap();
    let script = "cp -a /etc etc; mkenvimage -s 0x2000 -o environment lines; \
                  echo \"$PWD/environment 0x0 0x2000\" >etc/fw_env.config; mount --bind etc /etc; \
                  mount -t tmpfs none /var/lib";
    crate::common::in_namespace(folder.path(), script, "uboot::inside");
}

#[test]
fn a_variable_gets_our_words_and_is_as_it_was_afterwards() {
    with_lines("optargs=quiet\n");
}

#[test]
fn a_variable_that_was_not_there_is_gone_afterwards() {
    with_lines("");
}

fn environment() -> String {
    let ran = Command::new("fw_printenv").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
#[ignore = "runs in the namespace that another test makes"]
fn inside() {
    assert!(std::env::var_os(crate::common::INSIDE).is_some(), "only within the namespace");
    let before = environment();
    let words = ["isolcpus=managed_irq,domain,3", "irqaffinity=0-2"].map(String::from);
    let boot = Boot { loader: Loader::UBoot, ..inspect::boot::read(Path::new("/")) };
    let mut system = Real::new(Path::new("/")).unwrap();
    let asked = BootSpec { real_time: true, ..BootSpec::new(&boot, &words) };
    let way = lasting(&mut system, &asked).unwrap();
    let BootMethod::Lasting { steps, fallback } = way else { panic!("{way:?}") };
    assert_eq!(fallback, "altbootcmd, after bootlimit failures");
    let mut record = Record::new("20260101-000000", RecordKind::Boot, "digest", "boot", &words, steps);
    transaction::apply(&mut system, &mut record).unwrap();
    let line = environment().lines().find(|line| line.starts_with("optargs=")).map(str::to_string).unwrap();
    assert!(line.ends_with("isolcpus=managed_irq,domain,3 irqaffinity=0-2"), "{line}");
    transaction::roll_back(&mut system, &mut record);
    assert_eq!(environment(), before);
}
