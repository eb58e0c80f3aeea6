// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune apply`, `status`, `confirm` and `rollback` on the files of a Debian machine below a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::*;
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/fixtures/boot")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), to).map(drop).unwrap()
        }
    }
}

/// A machine of four CPUs with the boot files of `name`.
fn machine(name: &str) -> TempDir {
    let root = folder();
    machine_in(root.path(), name);
    root
}

/// The same below `root`.
pub fn machine_in(root: &Path, name: &str) {
    copy(&fixtures().join(name), root);
    for cpu in 0..4 {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
        lay_out(root, &[(&path, &format!("{cpu}\n"))]);
    }
    let files = [
        ("sys/devices/system/cpu/present", "0-3\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/possible", "0-3\n"),
        ("boot/vmlinuz-6.12.9-rt-amd64", ""),
        ("boot/initrd.img-6.12.9-rt-amd64", ""),
        ("proc/sys/kernel/osrelease", "6.12.9-rt-amd64\n"),
        ("proc/sys/kernel/hostname", "robot\n"),
        ("proc/sys/kernel/random/boot_id", "11111111-2222-4333-8444-555555555555\n"),
        ("proc/self/mounts", "/dev/sda2 / ext4 rw 0 0\n"),
        ("proc/irq/default_smp_affinity", "f\n"),
        ("proc/irq/9/smp_affinity_list", "0-3\n"),
        ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ];
    lay_out(root, &files);
}

fn files(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if !entry.path().starts_with(root.join("var/lib/isolator")) {
                found.insert(entry.path(), fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    found
}

fn tune(root: &Path, args: &str) -> Ran {
    let mut all = vec!["tune"];
    all.extend(args.split(' '));
    all.extend(["--root", root.to_str().unwrap()]);
    isolator(root, &all)
}

/// Plans for one core, into a file of the folder.
fn plan(root: &Path) {
    tune(root, "plan --cores 1 --quiet --json plan.json").ended(0);
}

#[test]
fn a_machine_is_changed_and_comes_back_to_the_byte() {
    let root = machine("debian");
    let root = root.path();
    plan(root);
    let before = files(root);
    let dry = tune(root, "apply plan.json --dry-run").ended(0).stdout;
    assert!(dry.contains("would change /boot/grub/custom.cfg: absent -> "), "{dry}");
    assert_eq!(files(root), before);

    let applied = tune(root, "apply plan.json").ended(0).stdout;
    assert!(applied.contains("boot line: an entry that is booted once\n"), "{applied}");
    assert!(
        applied.contains("next: reboot: boots the trial once; every later boot is as before\n"),
        "{applied}"
    );
    let custom = fs::read_to_string(root.join("boot/grub/custom.cfg")).unwrap();
    assert!(custom.contains(" ro  quiet isolcpus=managed_irq,domain,3 irqaffinity=0-2"), "{custom}");
    assert_eq!(fs::read_to_string(root.join("proc/irq/9/smp_affinity_list")).unwrap().trim(), "0-2");

    let after = files(root);
    let again = tune(root, "apply plan.json").ended(0).stdout;
    assert_eq!(again, "already so: the settings of this plan\nalready so: the boot line of this plan\n");
    assert_eq!(files(root), after);
    let status = tune(root, "status --json --quiet").ended(0).json();
    assert_eq!(status["records"].as_array().unwrap().len(), 2);
    assert_eq!(status["records"][1]["part"], "trial");
    tune(root, "confirm").refused("cannot confirm the boot line: it has not been booted yet; run: reboot");

    let undone = tune(root, "rollback").ended(0).stdout;
    assert!(undone.contains("-trial: 2 restored\n"), "{undone}");
    let trimmed = |files: BTreeMap<PathBuf, String>| -> BTreeMap<PathBuf, String> {
        // A setting's file here is a plain one, which keeps the kernel's line end or not.
        files
            .into_iter()
            .map(|(path, text)| {
                (path.clone(), if path.starts_with(root.join("proc")) { text.trim().into() } else { text })
            })
            .collect()
    };
    assert_eq!(trimmed(files(root)), trimmed(before));
    assert_eq!(tune(root, "rollback").ended(0).stdout, "nothing is in force that could be undone\n");
}

#[test]
fn two_that_change_a_machine_do_not_meet() {
    let root = machine("debian");
    let root = root.path();
    plan(root);
    tune(root, "apply plan.json").ended(0);
    let other = fs::File::open(root).unwrap();
    other.lock().unwrap();
    let before = files(root);
    for verb in ["apply plan.json", "confirm", "rollback"] {
        let line = tune(root, verb).line();
        assert!(line.ends_with("another isolator tune is at work; wait until it has ended"), "{line}");
    }
    assert_eq!(files(root), before);
    // Looking needs no lock.
    tune(root, "status").ended(0);
    tune(root, "apply plan.json --dry-run").ended(0);
    drop(other);
    tune(root, "rollback").ended(0);
}

#[test]
fn each_bad_input_is_one_line_with_its_cure() {
    let debian = machine("debian");
    let root = debian.path();
    plan(root);
    let text = fs::read_to_string(root.join("plan.json")).unwrap();
    let with = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();

    with("edited.json", &text.replace("skew_tick=1", "skew_tick=1 mitigations=off"));
    tune(root, "apply edited.json").refused(
        "cannot apply edited.json: the plan was changed after it was made: its digest is not that of its content; plan \
         again, with other options where another result is wanted",
    );
    with("none.json", "hello");
    assert!(tune(root, "apply none.json").line().starts_with("cannot apply none.json: the file is not JSON"));
    assert!(
        tune(root, "apply absent.json")
            .line()
            .starts_with("cannot read absent.json: no such file or directory")
    );
    tune(root, "rollback 20200101-000000-boot").refused(
        "cannot find 20200101-000000-boot: /var/lib/isolator/tune has no such record; `isolator tune status` lists what \
         there is",
    );
    tune(root, "confirm")
        .refused("cannot confirm: no plan is applied; apply one first: isolator tune apply PLAN");

    with("proc/sys/kernel/random/boot_id", "99999999-2222-4333-8444-555555555555\n");
    assert!(
        tune(root, "apply plan.json").line().ends_with("what it decided by may have changed; plan again")
    );
    with("etc/machine-id", "ffffffffffffffffffffffffffffffff\n");
    assert!(
        tune(root, "apply plan.json")
            .line()
            .contains("the plan was made for another machine (robot); plan on this one")
    );
    let before = files(root);
    let other = machine("debian");
    let root = other.path();
    plan(root);
    fs::create_dir_all(root.join("run/tuned")).unwrap();
    fs::write(root.join("run/tuned/tuned.pid"), "1\n").unwrap();
    fs::create_dir_all(root.join("proc/1")).unwrap();
    fs::write(root.join("proc/1/comm"), "tuned\n").unwrap();
    assert!(tune(root, "apply plan.json").line().ends_with("or stop it: systemctl disable --now tuned"));
    assert_eq!(files(debian.path()), before);
}

#[test]
fn who_is_not_root_may_look_and_not_change() {
    skip_if!(skipped_for_lack_of_root());
    let root = machine("debian");
    plan(root.path());
    isolator_as_nobody(root.path(), &["tune", "apply", "plan.json", "--dry-run", "--root", "."]).ended(0);
    isolator_as_nobody(root.path(), &["tune", "rollback"])
        .refused("cannot roll back: only root may change the machine; run it by sudo");
}

#[test]
fn a_boot_folder_that_cannot_be_written_or_is_full_leaves_everything_as_it_was() {
    skip_if!(skipped_for_lack_of_mounts());
    let read_only = "mount --bind boot boot && mount -o remount,ro,bind boot";
    let full = "mkdir new && mount -t tmpfs -o size=64k none new && cp -r boot/grub new && mount --move new boot && \
                touch boot/vmlinuz-6.12.9-rt-amd64 boot/initrd.img-6.12.9-rt-amd64";
    for (mount, expected) in [
        (
            read_only,
            "cannot write /boot/grub/custom.cfg: read-only file system; make it writable, \
             `mount -o remount,rw /boot`, and try again",
        ),
        (full, "cannot write /boot/grub/custom.cfg: /boot/grub has "),
    ] {
        let root = machine("debian");
        plan(root.path());
        let before = files(root.path());
        let line =
            in_namespace(root.path(), &format!("{mount} && $ISOLATOR tune apply plan.json --root .")).line();
        assert!(line.starts_with(expected), "{line}");
        let mut after = files(root.path());
        after.retain(|path, _| !path.starts_with(root.path().join("new")));
        let irq = root.path().join("proc/irq/9/smp_affinity_list");
        assert_eq!(fs::read_to_string(irq).unwrap().trim(), "0-3");
        for (path, text) in before.iter().filter(|(path, _)| !path.starts_with(root.path().join("proc"))) {
            assert_eq!(after.get(path), Some(text), "{}", path.display());
        }
    }
}

#[test]
fn refuses_a_hostile_plan_before_anything_runs() {
    let root = machine("debian");
    let root = root.path();
    plan(root);
    let text = fs::read_to_string(root.join("plan.json")).unwrap();
    let mut hostile = ::tune::plan::Plan::read(&text).unwrap();
    let mut action = serde_json::to_value(&hostile.actions[0]).unwrap();
    for (kind, target, value) in
        [("slice", "--host=attacker", "0"), ("limits", "/etc/cron.d/x", "* * * * * root id\n")]
    {
        action["kind"] = kind.into();
        action["target"] = target.into();
        action["value"] = value.into();
        hostile.actions.push(serde_json::from_value(action.clone()).unwrap());
        hostile = hostile.sealed();
        fs::write(root.join("hostile.json"), serde_json::to_string(&hostile).unwrap()).unwrap();
        for verb in ["apply hostile.json", "apply hostile.json --dry-run", "verify hostile.json"] {
            let line = tune(root, verb).line();
            assert!(line.contains("'--host=attacker' is not a target of the kind slice"), "{verb}: {line}");
        }
    }
    assert!(!root.join("var/lib/isolator").exists());
    assert_eq!(fs::read_to_string(root.join("proc/irq/9/smp_affinity_list")).unwrap(), "0-3\n");
}

#[test]
fn a_kernel_installed_after_confirm_loses_the_words() {
    let root = machine("fedora");
    let root = root.path();
    let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    write("proc/sys/kernel/osrelease", "6.12.4-100.fc40.x86_64\n");
    // The entries' kernels.
    let entries = root.join("boot/loader/entries");
    for entry in fs::read_dir(&entries).unwrap().flatten() {
        for line in fs::read_to_string(entry.path()).unwrap().lines() {
            let (key, path) = line.split_once(' ').unwrap_or_default();
            if matches!(key, "linux" | "initrd") {
                let path = path.split(' ').next().unwrap().trim_start_matches("/boot");
                write(&format!("boot{path}"), "");
            }
        }
    }
    plan(root);
    tune(root, "apply plan.json").ended(0);
    let words = serde_json::from_str::<serde_json::Value>(&read("plan.json")).unwrap()["boot_line"]
        .as_str()
        .unwrap()
        .to_string();
    write("proc/cmdline", &format!("root=UUID=9d5ef1ba-7eee-4e57-a3b5-9b5e0d2c7e10 {words}\n"));
    write("proc/sys/kernel/random/boot_id", "22222222-2222-4333-8444-555555555555\n");
    write("sys/devices/system/cpu/isolated", "3\n");
    tune(root, "confirm").ended(0);
    // What kernel-install does.
    write("boot/loader/entries/new.conf", &format!("title new\noptions {}", read("etc/kernel/cmdline")));
    assert!(read("boot/loader/entries/new.conf").contains("isolcpus"));
    let undone = tune(root, "rollback").ended(0).stdout;
    assert!(undone.contains("/boot/loader/entries/new.conf: another program"), "{undone}");
    for entry in fs::read_dir(&entries).unwrap().flatten() {
        assert!(
            !fs::read_to_string(entry.path()).unwrap().contains("isolcpus"),
            "{}",
            entry.path().display()
        );
    }
    assert!(!read("etc/kernel/cmdline").contains("isolcpus"));
}
