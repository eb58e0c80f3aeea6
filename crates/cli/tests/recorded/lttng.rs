// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of LTTng: beside what Babeltrace reads in them, and as evidence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ftrace::EventName;
use ftrace::recorded::{Trace, TracePart};

use crate::common::{folder, installed, isolator, read, skipped};

/// A trace of LTTng (crates/ftrace/tests/lttng.rs).
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ftrace/tests/fixtures").join(name)
}

/// Names of fields in a kernel's event, and in Babeltrace's line of it.
const FIELDS: [(&str, &str); 9] = [
    ("prev_pid", "prev_tid"),
    ("next_pid", "next_tid"),
    ("prev_state", "prev_state"),
    ("pid", " tid"),
    ("target_cpu", "target_cpu"),
    ("vec", "vec"),
    ("softexpires", "softexpires"),
    ("now", "now"),
    ("dest_cpu", "dest_cpu"),
];

/// Time, CPU, name and fields of each event, by Babeltrace.
fn by_babeltrace(trace: &Path) -> Vec<String> {
    let ran = Command::new("babeltrace2").arg("--clock-cycles").arg(trace).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let text = String::from_utf8(ran.stdout).unwrap();
    // `[00000000016228280190] (+000000019710) robot irq_softirq_exit: { cpu_id = 0 }, { vec = 9, … }`
    let line = |line: &str| {
        let ns = line[1..].split(']').next()?.parse::<u64>().ok()?;
        let (name, fields) = line.split_once(": ")?;
        let name = name.rsplit(' ').next()?;
        let value = |fields: &str, name: &str| {
            let (_, value) = fields.split_once(&format!("{name} = "))?;
            value.split([',', ' ']).next()?.parse::<i64>().ok()
        };
        let cpu = value(fields, "cpu_id")?;
        let fields = fields.rsplit("{ ").next()?;
        let fields = format!(" {fields}");
        let is_call = name.contains("syscall_");
        let fields = FIELDS.map(|(_, name)| value(&fields, name).filter(|_| !is_call));
        let name = name.trim_start_matches("timer_").trim_start_matches("irq_softirq");
        let kind = [("syscall_entry", "sys_enter"), ("syscall_exit", "sys_exit"), ("_", "softirq_")];
        let name = match kind.iter().find(|(begin, _)| name.starts_with(begin)) {
            Some(("_", kernel)) => format!("{kernel}{}", &name[1..]),
            Some((_, kernel)) => kernel.to_string(),
            None => name.to_string(),
        };
        Some(format!("{ns} {cpu} {name} {fields:?}"))
    };
    text.lines().map(|text| line(text).unwrap_or_else(|| panic!("{text}"))).collect()
}

fn by_the_reader(trace: &Path) -> Vec<String> {
    let mut trace = Trace::open(trace).unwrap();
    let mut events = Vec::new();
    while let Some(part) = trace.next_part().unwrap() {
        let TracePart::Event(event) = part else { continue };
        let fields = FIELDS.map(|(name, _)| event.fields.number(name).map(|number| number as i64));
        events.push(format!("{} {} {} {fields:?}", event.ns, event.cpu, event.name.kernel()));
    }
    assert_eq!(trace.missing(), None);
    events
}

#[test]
fn babeltrace_and_the_reader_find_the_same_events() {
    skip_if!(skipped(!installed("babeltrace2"), "it needs babeltrace2"));
    let (theirs, ours) = (by_babeltrace(&fixture("lttng")), by_the_reader(&fixture("lttng")));
    assert!(theirs.len() > 700 && ours.iter().any(|line| line.contains(EventName::Switch.kernel())));
    assert_eq!(ours, theirs);
    // Without what found room where events were discarded.
    let (theirs, ours) = (by_babeltrace(&fixture("lttng-lost")), by_the_reader(&fixture("lttng-lost")));
    assert!(ours.len() + 30 > theirs.len() && ours.iter().all(|line| theirs.contains(line)));
}

#[test]
fn a_trace_that_babeltrace_wrote_has_the_same_events() {
    skip_if!(skipped(!installed("babeltrace2"), "it needs babeltrace2"));
    let folder = folder();
    let at = folder.path();
    let path = format!("--params=path=\"{}\"", at.join("out").display());
    let written = |version: &str| {
        let mut babeltrace = Command::new("babeltrace2");
        babeltrace.arg(fixture("lttng")).arg("--component=sink.ctf.fs");
        babeltrace.arg(format!("{path}{version}")).output().unwrap().status.success()
    };
    // Those before 2.1 have no version 2, and do not know the parameter.
    assert!(written(",ctf-version=\"1\"") || written(""));
    let session = at.join("out/robot");
    let session = fs::read_dir(session).unwrap().next().unwrap().unwrap().path();
    assert_eq!(by_the_reader(&session), by_the_reader(&fixture("lttng")));
}

#[test]
fn the_loop_in_a_folder_of_lttng_becomes_evidence() {
    let folder = folder();
    let at = folder.path();
    for file in ["metadata", "c_0", "c_1"] {
        fs::create_dir_all(at.join("robot/kernel")).unwrap();
        fs::copy(fixture("lttng/kernel").join(file), at.join("robot/kernel").join(file)).unwrap();
    }
    let asked = ["monitor", "--from", "robot/", "--thread", "cyclictest", "--period", "2ms", "-o", "bundle"];
    isolator(at, &asked).judged();
    let manifest = read(&at.join("bundle/manifest.json"));
    let notes = manifest["notes"].to_string();
    assert!(notes.contains("read from robot/, a trace of LTTng, CTF 1.8"), "{notes}");
    assert_eq!(manifest["machine"]["hostname"], "robot");
    assert_eq!(manifest["machine"]["kernel"]["release"], "6.1.0-57-cloud-amd64");
    assert!(manifest["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{manifest:#}");
    // The folder of its own part of the kernel, from within.
    let kernel = at.join("robot/kernel");
    let why = isolator(&kernel, &["why", ".", "--thread", "absent"]).line();
    assert!(why.contains("it has no thread absent; choose one of"), "{why}");
}
