// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune plan`: on a made-up machine of four cores with two threads each, and on captured ones.

use std::fs;
use std::path::Path;

use crate::common::*;
use tempfile::TempDir;

/// Cores 0,4 1,5 2,6 3,7; Linux 6.12 with everything that isolation needs.
pub fn machine() -> TempDir {
    let root = folder();
    for cpu in 0..8 {
        let core = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
        lay_out(root.path(), &[(&path, &core)]);
    }
    let config = "CONFIG_SMP=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_NO_HZ_FULL=y\n";
    let files = [
        ("sys/devices/system/cpu/present", "0-7\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
        ("sys/devices/system/cpu/possible", "0-7\n"),
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("proc/sys/kernel/hostname", "bench\n"),
        ("proc/cmdline", "root=/dev/sda1 idle=poll\n"),
        ("boot/config-6.12.1", config),
    ];
    lay_out(root.path(), &files);
    root
}

#[track_caller]
fn plan(root: &Path, args: &str) -> Ran {
    let mut all = vec!["tune", "plan", "--root", root.to_str().unwrap()];
    all.extend(args.split(' ').filter(|arg| !arg.is_empty()).map(|arg| if arg == "''" { "" } else { arg }));
    isolator(folder().path(), &all)
}

#[test]
fn a_plan_has_units_of_systemd_where_they_are_asked_for() {
    let root = machine();
    let units = |args: &str| {
        let document = plan(root.path(), &format!("{args} --json --quiet")).ended(0).json();
        let actions = document["actions"].as_array().unwrap().clone();
        let of_units = ["real-time-slice", "manager-affinity", "service", "partition"];
        let actions = actions.iter().filter(|action| of_units.iter().any(|kind| action["kind"] == *kind));
        actions.map(|action| format!("{} {}", action["target"], action["value"])).collect::<Vec<_>>()
    };
    assert_eq!(units("--systemd"), Vec::<String>::new(), "no systemd runs there");
    fs::create_dir_all(root.path().join("run/systemd/system")).unwrap();
    fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
    fs::write(root.path().join("sys/fs/cgroup/cgroup.controllers"), "cpuset cpu\n").unwrap();
    assert_eq!(units("--cores 1"), Vec::<String>::new());
    let cpus = [r#""isolator.slice" "3,7""#, r#""systemd" "0-2,4-6""#];
    assert_eq!(units("--cores 1 --systemd --no-reboot"), cpus);
    let services = [r#""robot.service" "fifo 80 3""#, r#""log@1.service" "fifo 7 3""#];
    assert_eq!(units("--service robot.service --service log@1.service:7"), [cpus, services].concat());
    assert_eq!(units("--profile audio --service jack.service"), [r#""jack.service" "fifo 80""#]);
    for (service, why) in [
        ("../x.service", "'../x.service' is not a name of a service; write it as --service robot.service"),
        ("robot.service:99", "'99' is not a priority from 1 to 98; write it as --service robot.service:80"),
    ] {
        plan(root.path(), &format!("--service {service}")).refused(&format!("cannot plan: {why}"));
    }
}

#[test]
fn a_plan_says_what_and_why_in_text_and_in_json() {
    let root = machine();
    let line =
        "isolcpus=managed_irq,domain,2-3,6-7 irqaffinity=0-1,4-5 rcu_nocbs=2-3,6-7 rcu_nocb_poll skew_tick=1";
    let text = plan(root.path(), "--cores 2").ended(0).stdout;
    assert!(text.contains(&format!("\nThe boot line\n{line}\n")), "{text}");
    assert!(text.contains("idle=poll, which no plan has"), "{text}");
    assert!(text.lines().filter(|row| !row.contains(line)).all(|row| row.chars().count() <= 100), "{text}");
    let ran = plan(root.path(), "--cores 2 --json --quiet").ended(0);
    let document = ran.json();
    assert_eq!(document["boot_line"], line);
    assert_eq!((&document["isolated"], &document["housekeeping"]), (&"2-3,6-7".into(), &"0-1,4-5".into()));
    let first = &document["actions"][0];
    for field in ["kind", "target", "value", "reason", "source", "cost", "disruption", "verify", "undo"] {
        assert!(first[field].is_string(), "{field} in {first:#}");
    }
    assert!(ran.stderr.is_empty());
}

#[test]
fn what_cannot_be_planned_is_refused_with_the_cure() {
    let root = machine();
    for (args, line) in [
        (
            "--cpus 0-7",
            "cannot plan: that isolates every CPU, and nothing is left for the system itself; leave at least cpu 0 out",
        ),
        (
            "--cpus 0,4",
            "cannot plan: cpu 0 is the boot CPU, which interrupts and timekeeping fall back to; choose from 1-3,5-7",
        ),
        (
            "--cpus 3",
            "cannot plan: cpus 7 share cores with the CPUs named, and work on them slows those; add them (--cpus 3,7), \
             switch hardware threads off (--nosmt), or insist with --split-siblings",
        ),
        (
            "--cpus 4",
            "cannot plan: cpus 0 share cores with the CPUs named, and work on them slows those; choose from 1-3,5-7",
        ),
        (
            "--cpus 3,8",
            "cannot plan: cpus 8 do not exist, and a kernel drops the whole list then; choose from 0-7",
        ),
        ("--cpus 3,7,3", "cannot plan: cpu 3 is named twice; name each once (--cpus 3,7)"),
        (
            "--cpus 4-N",
            "cannot plan: 'N' in a list of CPUs means something else to each kernel and tool; write the number of the last \
             CPU instead",
        ),
        (
            "--cpus ''",
            "cannot plan: the list of CPUs is empty; name some (--cpus 2-3), or say how many cores (--cores 1)",
        ),
        ("--cores 0", "cannot plan: no core is asked for; ask for at least one (--cores 1)"),
        (
            "--cores 4",
            "cannot plan: 4 cores cannot be isolated: of 4, at most 3 can, since the boot CPU's, and at least one on every \
             memory node with CPUs, are for everything else; ask for at most 3 (--cores 3)",
        ),
        (
            "--device eth1",
            "cannot plan: there is no device 'eth1' here, or it has no driver; leave --device out: no network or sound \
             device was found",
        ),
        (
            "--profile server",
            "cannot plan: a server without deadlines loses by a plan: isolated CPUs and a real-time kernel cost \
             throughput; leave the machine as it is, or choose the profile of what has a deadline (--profile periodic)",
        ),
    ] {
        plan(root.path(), args).refused(line);
    }
    plan(&root.path().join("absent"), "").line();
}

#[test]
fn a_refusal_is_json_too_with_status_1() {
    let ran = plan(machine().path(), "--cpus 0 --json").ended(1);
    let refused = &ran.json()["refused"];
    assert!(refused["reason"].as_str().unwrap().contains("boot CPU"));
    assert_eq!(refused["cure"], "choose from 1-3,5-7");
}

#[test]
fn a_plan_is_verified_on_the_machine_that_it_was_made_for() {
    let root = machine();
    fs::create_dir_all(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/machine-id"), "0123456789abcdef\n").unwrap();
    let work = folder();
    let file = work.path().join("plan.json");
    let json = plan(root.path(), "--cores 1 --json --quiet").ended(0).stdout;
    fs::write(&file, &json).unwrap();
    let verify = |file: &Path| {
        isolator(
            work.path(),
            &["tune", "verify", file.to_str().unwrap(), "--root", root.path().to_str().unwrap()],
        )
    };
    let ran = verify(&file).ended(2);
    assert!(ran.stdout.contains("NOT       isolcpus = managed_irq,domain,3,7\n"), "{}", ran.stdout);
    // Put in force what can be in a folder of files.
    let boot_line =
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["boot_line"].as_str().unwrap().to_string();
    fs::write(root.path().join("proc/cmdline"), format!("root=/dev/sda1 {boot_line}\n")).unwrap();
    fs::write(root.path().join("sys/devices/system/cpu/isolated"), "3,7\n").unwrap();
    let ran = verify(&file).ended(2);
    assert!(ran.stdout.contains("in force  isolcpus = managed_irq,domain,3,7\n"), "{}", ran.stdout);
    // By hand, on another machine, no plan at all.
    fs::write(&file, json.replacen("\"3,7\"", "\"2,6\"", 1)).unwrap();
    assert!(verify(&file).line().contains("its digest is not that of its content; plan again"));
    fs::write(&file, &json).unwrap();
    fs::write(root.path().join("etc/machine-id"), "fedcba9876543210\n").unwrap();
    assert!(verify(&file).line().contains("made for another machine (bench); plan on this one"));
    fs::write(&file, "{}").unwrap();
    assert!(verify(&file).line().contains("the file is not a plan"));
    // Other documents have versions of their own.
    fs::write(&file, r#"{"schema_version":1,"program":"isolator","asked":{}}"#).unwrap();
    let line = verify(&file).line();
    assert!(line.contains("the file is not a plan: it has no actions; give a file that tune plan"), "{line}");
    fs::write(&file, json.replacen("\"schema_version\": 2", "\"schema_version\": 1", 1)).unwrap();
    assert!(verify(&file).line().contains("the plan has version 1, and this program reads 2"));
    assert!(
        verify(Path::new("last"))
            .line()
            .contains("none was applied here; give the file that tune plan --json wrote")
    );
}

#[test]
fn too_few_rounds_are_refused_before_anything_is_touched() {
    isolator(folder().path(), &["tune", "measure", "--rounds", "5"])
        .refused("cannot measure the settings: 5 rounds give no interval at 95 %; ask for 6 or more");
}
