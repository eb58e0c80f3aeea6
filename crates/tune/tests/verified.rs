// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune verify` calls nothing lost that `apply` did or left out with a reason: on each captured machine, and
//! on each machine of a public report.

#[path = "../../inspect/tests/common/capture.rs"]
mod capture;

use std::fs;
use std::path::{Path, PathBuf};

use crate::boots;
use tune::change::{Here, Options, apply, roll_back};
use tune::plan::{Intent, MadeFor, Plan, Profile, WantedCpus, plan};
use tune::system::Real;
use tune::verify::{CheckState, verify};

/// The requests of users: each profile, sound with cores of its own and without.
fn intents() -> Vec<Intent> {
    let all = [Profile::Periodic, Profile::Poll, Profile::Vm, Profile::Audio];
    let mut intents: Vec<Intent> =
        all.into_iter().map(|profile| Intent::new(profile, WantedCpus::Cores(1))).collect();
    intents.push(Intent::new(Profile::Audio, WantedCpus::Default));
    intents
}

/// Plans and applies; none where the machine is refused.
fn applied(here: &mut Here<'_>, intent: &Intent) -> Option<Plan> {
    let plan = plan(here.machine, &MadeFor::here(here.root, here.machine), intent).ok()?;
    let mut is_applied =
        |runtime_only| apply(here, &plan, Options { runtime_only, ..Options::default() }).is_ok();
    (is_applied(false) || is_applied(true)).then_some(plan)
}

/// The files that a boot makes anew, each with its bytes now.
fn of_boot(root: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let cpu = "sys/devices/system/cpu";
    let paths = ["isolated", "nohz_full", "smt/control"].map(|name| root.join(cpu).join(name));
    paths
        .into_iter()
        .chain([root.join("proc/cmdline")])
        .map(|path| (path.clone(), fs::read(path).ok()))
        .collect()
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

/// How many plans were applied, `most` at most, each rolled back before the next; panics where `verify`
/// then calls
/// something lost.
fn verified(name: &str, root: &Path, most: usize) -> usize {
    let machine = inspect::read_whole(root);
    let mut system = Real::new(root).unwrap();
    let mut here = Here { system: &mut system, root, machine: &machine, stamp: "20260101-000000".into() };
    let is_applied = |intent: &Intent| {
        let plan = applied(&mut here, intent)?;
        let before = of_boot(root);
        boot(root, &plan);
        let verified = verify(&plan, &inspect::read_whole(root), &[]);
        let lost = verified.checks.iter().filter(|check| check.result == CheckState::Not);
        let lost: Vec<_> = lost.map(|check| format!("{}: {}", check.target, check.why)).collect();
        assert!(lost.is_empty(), "{name} {intent:?}: {lost:#?}");
        for (path, bytes) in before {
            match bytes {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => drop(fs::remove_file(path)),
            }
        }
        let left = roll_back(&mut here, None).unwrap().left;
        assert!(left.is_empty(), "{name} {intent:?}: {left:?}");
        Some(())
    };
    intents().iter().filter_map(is_applied).take(most).count()
}

#[test]
fn verify_loses_nothing_on_captured_machines() {
    let lay_out = |name: &str| {
        let root = capture::lay_out(name, |_| None);
        for (path, text) in [("proc/sys/kernel/ostype", "Linux\n"), ("etc/machine-id", "0123\n")] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    };
    let names = capture::names();
    let done: Vec<usize> =
        names.iter().map(|name| verified(name, lay_out(name).path(), usize::MAX)).collect();
    println!("{} plans on {} captured machines", done.iter().sum::<usize>(), names.len());
    let machines = done.iter().filter(|plans| **plans > 0).count();
    assert!(machines >= 6, "{done:?}");
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
    let mut done = Vec::new();
    for name in names {
        for without_pam in [false, true] {
            let mut made = boots::of(name);
            if !without_pam {
                made = made.file("etc/security/limits.d/keep", "");
            }
            done.push(verified(name, made.lay_out().path(), 1));
        }
    }
    println!("{} plans on {} machines", done.iter().sum::<usize>(), done.len());
    let machines = done.iter().filter(|plans| **plans > 0).count();
    assert!(machines >= 24, "{done:?}");
}
