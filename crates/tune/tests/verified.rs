// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune verify` calls nothing lost that `apply` did or left out with a reason: on each captured machine, and
//! on each machine of a public report.

#[path = "../../inspect/tests/common/capture.rs"]
mod capture;

use std::fs;
use std::path::Path;

use crate::boots;
use tune::change::{Here, Options, apply};
use tune::plan::{Intent, MadeFor, Plan, Profile, WantedCpus, plan};
use tune::system::Real;
use tune::verify::{CheckState, verify};

/// Plans and applies; none where the machine is refused.
fn applied(root: &Path, profile: Profile, runtime_only: bool) -> Option<Plan> {
    let machine = inspect::read_whole(root);
    let intent = Intent::new(profile, WantedCpus::Cores(1));
    let plan = plan(&machine, &MadeFor::here(root, &machine), &intent).ok()?;
    let mut system = Real::new(root).unwrap();
    let mut here = Here { system: &mut system, root, machine: &machine, stamp: "20260101-000000".into() };
    apply(&mut here, &plan, Options { runtime_only, ..Options::default() }).ok().map(|_| plan)
}

/// Lets the machine boot the plan's line.
fn boot(root: &Path, plan: &Plan) {
    let write = |path: &str, text: String| {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    };
    let line = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    write("proc/cmdline", format!("{} {}\n", line.trim(), plan.boot_line()));
    let line = plan.boot_line().to_string();
    let cpus = |name: &str| {
        let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.map(|value| value.rsplit_once("domain,").map_or(value, |(_, list)| list).to_string())
    };
    for (name, path) in [("isolcpus", "isolated"), ("nohz_full", "nohz_full")] {
        let path = format!("sys/devices/system/cpu/{path}");
        write(&path, cpus(name).unwrap_or_default() + "\n");
    }
    let control = root.join("sys/devices/system/cpu/smt/control");
    if line.contains("nosmt") && control.exists() {
        fs::write(control, "off\n").unwrap();
    }
}

/// Whether a plan was applied; panics where `verify` then calls something lost.
fn verified(name: &str, root: &Path) -> bool {
    let of = |profile| {
        let plan = applied(root, profile, false).or_else(|| applied(root, profile, true))?;
        Some((profile, plan))
    };
    let found = [Profile::Periodic, Profile::Poll, Profile::Vm].into_iter().find_map(of);
    let Some((profile, plan)) = found else { return false };
    boot(root, &plan);
    let verified = verify(&plan, &inspect::read_whole(root), &[]);
    let lost = verified.checks.iter().filter(|check| check.result == CheckState::Not);
    let lost: Vec<_> = lost.map(|check| format!("{}: {}", check.target, check.why)).collect();
    assert!(lost.is_empty(), "{name} {profile:?}: {lost:#?}");
    true
}

#[test]
fn verify_loses_nothing_on_captured_machines() {
    let mut done = 0;
    for name in capture::names() {
        let root = capture::lay_out(&name, |_| None);
        for (path, text) in [("proc/sys/kernel/ostype", "Linux\n"), ("etc/machine-id", "0123\n")] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        done += u32::from(verified(&name, root.path()));
    }
    println!("{done} of {} captured machines", capture::names().len());
    assert!(done >= 6, "{done}");
}

#[test]
fn verify_loses_nothing_on_reported_machines() {
    let names = [
        "grub-lasting",
        "ubuntu-50-cloud",
        "grub-handoff",
        "grub-password",
        "proxmox",
        "proxmox-grub",
        "suse-rt",
        "suse-leap",
        "nixos",
        "talos",
        "flatcar",
        "ubuntu-core",
        "debian-raspi-firmware",
        "flash-kernel",
        "orangepi",
        "ubuntu-rockchip",
        "refind",
        "unknown",
    ];
    let mut done = 0;
    for name in names {
        for without_pam in [false, true] {
            let mut made = boots::of(name);
            if !without_pam {
                made = made.file("etc/security/limits.d/keep", "");
            }
            done += u32::from(verified(name, made.lay_out().path()));
        }
    }
    println!("{done} of {} machines", 2 * names.len());
    assert!(done >= 24, "{done}");
}
