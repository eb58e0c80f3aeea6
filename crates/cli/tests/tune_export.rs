// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune export`: a profile that TuneD itself loads, and whose script moves interrupts and gives
//! them back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;
use crate::tune_plan::machine;
use serde_json::Value;

/// A plan of the made-up machine in `folder`, as `plan.json`.
fn planned(folder: &Path, args: &[&str]) -> Value {
    let root = machine();
    let files = [
        ("run/systemd/system/x", ""),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
        ("proc/irq/default_smp_affinity", "ff\n"),
        ("proc/sys/kernel/nmi_watchdog", "1\n"),
        ("proc/sys/kernel/watchdog_cpumask", "0-7\n"),
        ("sys/devices/virtual/workqueue/cpumask", "ff\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        ("sys/class/net/eth1/device/msi_irqs/45", "msi\n"),
    ];
    lay_out(root.path(), &files);
    let root = root.path().to_str().unwrap();
    let start = ["tune", "plan", "--root", root, "--quiet", "--json=plan.json"];
    isolator(folder, &[&start[..], args].concat()).ended(0);
    read(&folder.join("plan.json"))
}

fn exported(folder: &Path, to: &str) -> Ran {
    isolator(folder, &["tune", "export", "plan.json", "--as", "tuned", "-o", to])
}

#[test]
fn a_profile_is_written_and_replaced_and_files_of_others_stay() {
    let folder = folder();
    planned(folder.path(), &["--cores", "1", "--service", "robot.service"]);
    let said = exported(folder.path(), "robot").ended(0).stdout;
    assert!(said.starts_with("Profile: robot/tuned.conf\n"), "{said}");
    assert!(said.contains("\nLeft out: isolator.slice: TuneD writes no slice"), "{said}");
    assert!(said.contains("\nnext: tuned-adm profile robot, "), "{said}");
    let main = folder.path().join("robot/tuned.conf");
    let written = fs::read_to_string(&main).unwrap();
    assert!(written.contains("\ncmdline_isolator=+isolcpus=managed_irq,domain,3,7 "), "{written}");
    assert!(folder.path().join("robot/robot.service.conf").exists());
    fs::write(&main, written.replace("isolcpus", "x")).unwrap();
    exported(folder.path(), "robot").ended(0);
    assert_eq!(fs::read_to_string(&main).unwrap(), written);
    fs::write(&main, "[main]\n").unwrap();
    exported(folder.path(), "robot").refused(
        "cannot write robot/tuned.conf: it is there and was not made by this program; choose another folder with -o, or move it away",
    );
    assert_eq!(fs::read_to_string(&main).unwrap(), "[main]\n");
    exported(folder.path(), "my robot").refused(
        "cannot write the profile to my robot: the folder's name is the profile's, which has letters, digits, '_', '.' and '-'; choose \
         another folder with -o",
    );
    isolator(folder.path(), &["tune", "export", "plan.json", "--as", "puppet", "-o", "x"])
        .refused("cannot export as puppet: a plan cannot be written so; choose tuned");
    let changed = fs::read_to_string(folder.path().join("plan.json")).unwrap().replace("skew_tick", "quiet");
    fs::write(folder.path().join("plan.json"), changed).unwrap();
    assert!(exported(folder.path(), "x").line().contains("the plan was changed after it was made"));
    assert!(!folder.path().join("x").exists());
}

/// The folder of TuneD's Python, where it is installed or where `tools/bootstrap` unpacked it; its packages.
fn tuned() -> Option<PathBuf> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/tuned/usr/lib/python3/dist-packages");
    let places = [beside, PathBuf::from("/usr/lib/python3/dist-packages")];
    let found = places.into_iter().find(|place| place.join("tuned/profiles/loader.py").exists());
    skipped(found.is_none(), "it needs TuneD: apt-get install tuned");
    found
}

#[test]
fn tuned_loads_the_profile_and_knows_each_option() {
    let Some(tuned) = tuned() else { return };
    let folder = folder();
    let plan = planned(folder.path(), &["--cores", "1", "--device", "eth1", "--service", "robot.service"]);
    exported(folder.path(), "robot").ended(0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/load_profile.py");
    let mut python = Command::new("python3");
    // Without this machine's own modules, so that one that is not unpacked beside it is missed everywhere.
    python.args(["-B", "-S"]).args([script.as_os_str(), folder.path().as_os_str(), "robot".as_ref()]);
    let units = Ran::from(python.env("PYTHONPATH", tuned).output().unwrap()).ended(0).json();
    let option = |unit: &str, name: &str| units[unit]["options"][name].clone();
    assert_eq!(option("bootloader", "cmdline"), plan["boot_line"], "{units:#}");
    assert_eq!(option("scheduler", "isolated_cores"), "3,7");
    assert_eq!(option("scheduler", "default_irq_smp_affinity"), "0-2,4-6");
    assert_eq!(option("sysctl", "kernel.nmi_watchdog"), "0");
    assert_eq!(option("sysctl", "kernel.watchdog_cpumask"), "0-2,4-6");
    assert_eq!(option("systemd", "cpu_affinity"), "0-2,4-6");
    let inside =
        |name: &str| folder.path().canonicalize().unwrap().join("robot").join(name).display().to_string();
    assert_eq!(option("service", "service.robot"), format!("file:{}", inside("robot.service.conf")));
    assert_eq!(option("script", "script"), serde_json::json!([inside("script.sh")]));
    assert_eq!(units["script"]["priority"], "5", "after the others");
    // Each file below /sys that the plan writes.
    let actions = plan["actions"].as_array().unwrap().iter();
    let of_sysfs = actions.filter(|action| action["target"].as_str().unwrap().starts_with("/sys/"));
    let mut seen = 0;
    for action in of_sysfs {
        assert_eq!(option("sysfs", action["target"].as_str().unwrap()), action["value"], "{action:#}");
        seen += 1;
    }
    assert!(seen >= 2, "{plan:#}");
}

#[test]
fn the_script_moves_a_devices_interrupts_and_gives_them_back() {
    skip_if!(skipped_for_lack_of_root());
    let folder = folder();
    planned(folder.path(), &["--cores", "1", "--device", "eth1"]);
    exported(folder.path(), "robot").ended(0);
    let files = [("45", ""), ("46", "eth1-rx-0"), ("47", "eth10"), ("48", "")];
    for (number, action) in files {
        let irq = folder.path().join("irq").join(number);
        fs::create_dir_all(irq.join(action)).unwrap();
        fs::write(irq.join("smp_affinity_list"), format!("0-{number}\n")).unwrap();
    }
    let messages = folder.path().join("net/eth1/device/msi_irqs");
    fs::create_dir_all(&messages).unwrap();
    fs::write(messages.join("45"), "msi\n").unwrap();
    let script = "set -e; mount --make-rprivate /; mount --bind irq /proc/irq; mount --bind net /sys/class/net; mount -t tmpfs none /run
        cpus() { cat /proc/irq/*/smp_affinity_list | tr '\\n' ' '; echo; }
        robot/script.sh start; cpus; robot/script.sh start; robot/script.sh verify
        echo 1 >/proc/irq/46/smp_affinity_list; if robot/script.sh verify; then exit 9; fi
        robot/script.sh stop; cpus; robot/script.sh stop; ls -A /run";
    let ran = in_namespace(folder.path(), script).ended(0);
    assert_eq!(ran.stdout, "3 3 0-47 0-48 \n0-45 0-46 0-47 0-48 \n", "{ran:#?}");
    assert_eq!(ran.stderr, "interrupt 46 of eth1 has CPUs 1, not 3\n");
}
