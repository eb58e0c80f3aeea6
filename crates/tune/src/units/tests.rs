// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units on a machine in memory, and as systemd itself reads them where it is installed.

use std::process::Command;

use super::*;
use crate::service::{DROP_IN, FOLDER, is_ours, is_service};
use crate::system::CommandResult;
use crate::system::memory::MemoryMachine;
use crate::transaction::{self, Record, RecordKind};

fn actions() -> Vec<Action> {
    vec![
        Action::new(ActionKind::RealTimeSlice, SLICE, "2-3"),
        Action::new(ActionKind::ManagerAffinity, "systemd", "0-1"),
        Action::new(ActionKind::Service, "robot.service", "fifo 80 2-3"),
        Action::new(ActionKind::Service, "log.service", "fifo 7"),
        Action::new(
            ActionKind::Governor,
            "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
            "performance",
        ),
    ]
}

/// A machine whose manager knows CPUSetPartition=, and the services robot, log, and one that may not.
fn machine() -> MemoryMachine {
    let mut system = MemoryMachine::default();
    for path in ["/run/systemd/system/x", "/etc/systemd/system/x", "/proc/sys/kernel/random/boot_id"] {
        system.put(path, b"x\n");
    }
    system.answer = Some(|_, command| {
        let output = match (command.get(2).map_or("", String::as_str), command.last().map(String::as_str)) {
            ("--property=CPUSetPartition", _) => "CPUSetPartition=\n",
            ("--property=LoadState", Some("absent.service")) => "LoadState=not-found\n",
            ("--property=LoadState", _) => "LoadState=loaded\n",
            ("--property=RestrictRealtime", Some("strict.service")) => "RestrictRealtime=yes\n",
            _ => "",
        };
        CommandResult { good: true, output: output.into(), complaint: String::new() }
    });
    system
}

fn text_at(system: &MemoryMachine, path: &str) -> String {
    let text = String::from_utf8(system.read(path).unwrap()).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

fn record(steps: Vec<Step>) -> Record {
    Record::new("20260101-units", RecordKind::Units, "digest", "x", &[], steps)
}

#[test]
fn writes_units_and_takes_them_away_again() {
    let mut system = machine();
    let before = system.files();
    let made = steps(&mut system, &actions()).unwrap();
    assert_eq!(made.skipped.len(), 0, "{:?}", made.skipped);
    assert_eq!(made.next.len(), 3, "{:?}", made.next);
    let mut record = record(made.steps);
    transaction::apply(&mut system, &mut record).unwrap();
    assert_eq!(
        text_at(&system, "/etc/systemd/system/isolator.slice"),
        "[Unit]\nDescription=Real-time programs on CPUs of their own\nBefore=slices.target\n\n\
         [Slice]\nAllowedCPUs=2-3\nCPUSetPartition=isolated\n"
    );
    assert_eq!(
        text_at(&system, "/etc/systemd/system.conf.d/50-isolator.conf"),
        "[Manager]\nCPUAffinity=\nCPUAffinity=0-1\n"
    );
    assert_eq!(
        text_at(&system, "/etc/systemd/system/robot.service.d/50-isolator.conf"),
        "[Service]\nSlice=isolator.slice\nCPUAffinity=\nCPUAffinity=2-3\nCPUSchedulingPolicy=fifo\n\
         CPUSchedulingPriority=80\nLimitRTPRIO=98\nLimitMEMLOCK=infinity\n"
    );
    assert!(!text_at(&system, "/etc/systemd/system/log.service.d/50-isolator.conf").contains("CPUAffinity"));
    assert_eq!(system.commands.last().unwrap().join(" "), "systemctl daemon-reload");
    let undone = transaction::roll_back(&mut system, &mut record);
    assert_eq!(transaction::still_changed(&undone).count(), 0, "{undone:?}");
    let mut after = system.files();
    after.retain(|path, _| !path.starts_with("/var/lib/"));
    assert_eq!(after, before);
    assert!(system.stat("/etc/systemd/system.conf.d").is_err(), "its folder is gone");
    assert_eq!(system.commands.last().unwrap().join(" "), "systemctl daemon-reload");
}

#[test]
fn leaves_out_what_this_systemd_does_not_know() {
    let mut system = machine();
    system.answer = Some(|_, command| CommandResult {
        good: true,
        output: if command.get(2).is_some_and(|word| word == "--property=LoadState") {
            b"LoadState=loaded\n".to_vec()
        } else {
            Vec::new()
        },
        complaint: String::new(),
    });
    let made = steps(&mut system, &actions()).unwrap();
    assert_eq!(made.skipped[0].what, "CPUSetPartition= of isolator.slice");
    let written = made.steps.iter().filter_map(|step| match step {
        Step::File { new: Some(new), .. } => Some(new.text.as_str()),
        _ => None,
    });
    assert!(written.clone().count() == 4 && written.clone().all(|text| !text.contains("CPUSetPartition")));
}

#[test]
fn leaves_services_that_cannot_and_files_of_others() {
    let mut system = machine();
    let service = |name: &str| vec![Action::new(ActionKind::Service, name, "fifo 80 2-3")];
    for (name, why) in [
        ("absent.service", "systemd has no such service: its state is not-found"),
        ("strict.service", "RestrictRealtime=yes forbids it a real-time policy: take that out of its unit"),
    ] {
        let made = steps(&mut system, &service(name)).unwrap();
        assert_eq!((made.steps.len(), made.skipped[0].reason.as_str()), (0, why));
    }
    system.put("/etc/systemd/system/robot.service.d/50-isolator.conf", b"[Service]\nNice=5\n");
    let error = steps(&mut system, &service("robot.service")).unwrap_err().to_string();
    assert!(error.contains("it is there and was not made by this program"), "{error}");
    system.remove("/run/systemd/system/x").unwrap();
    system.remove_folder("/run/systemd/system").unwrap();
    assert_eq!(steps(&mut system, &actions()).unwrap().skipped.len(), 4);
}

#[test]
fn values_and_names_of_services_are_written_in_one_way() {
    for (text, good) in [
        ("fifo 80 2-3", true),
        ("fifo 1", true),
        ("fifo 99", false),
        ("fifo 080", false),
        ("fifo 80 3,2", false),
        ("fifo 80 ", false),
        ("rr 80", false),
        ("fifo 80 2-3\nExecStart=/bin/sh", false),
    ] {
        assert_eq!(text.parse::<ServiceValue>().is_ok(), good, "{text}");
    }
    for name in ["robot.service", "robot@1.service", "dbus-org.x.service"] {
        assert!(is_service(name) && is_ours(&format!("{FOLDER}/{name}.d/{DROP_IN}")), "{name}");
        assert!(is_ours(&format!("{FOLDER}/{name}.d")), "{name}");
    }
    for name in ["robot", ".service", "../x.service", "a/b.service", "-x.service", "a b.service", "x.socket"]
    {
        assert!(!is_service(name) && !is_ours(&format!("{FOLDER}/{name}.d/{DROP_IN}")), "{name}");
    }
    for path in ["/etc/systemd/system", "/etc/systemd/system/robot.service", "/etc/systemd/system.conf"] {
        assert!(!is_ours(path), "{path}");
    }
}

#[test]
fn systemd_takes_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("robot.service", "[Unit]\nDefaultDependencies=no\n\n[Service]\nExecStart=/bin/true\n");
    for action in actions().iter().filter(|action| action.target != "log.service") {
        let Some(path) = file(action) else { continue };
        let Some(name) = path.strip_prefix(&format!("{FOLDER}/")) else { continue };
        write(name, &text(action, false).unwrap());
    }
    let verify = |more: &str| {
        if !more.is_empty() {
            write("robot.service.d/60-more.conf", more);
        }
        let units = ["robot.service", SLICE].map(|name| folder.path().join(name));
        let mut analyze = Command::new("systemd-analyze");
        let ran = analyze.arg("verify").args(units).output().unwrap();
        // What it says of other units of this machine is not of ours.
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let ours = said
            .lines()
            .filter(|line| ["robot", "isolator", "50-", "60-"].iter().any(|name| line.contains(name)));
        ours.map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(verify(""), Vec::<String>::new());
    // It does say what is wrong.
    assert!(verify("[Service]\nCPUSchedulingPolicy=fast\n").iter().any(|line| line.contains("fast")));
}
