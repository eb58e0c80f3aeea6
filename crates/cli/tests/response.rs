// SPDX-License-Identifier: MIT OR Apache-2.0
//! The response probe: devices that cannot be polled or driven are refused before anything is
//! written, and a row over memory leaves its evidence and its picture.

use std::fs;

use crate::common::*;
use machine::CpuSet;
use serde_json::Value;

/// Asked with a policy that needs no privilege, one CPU, and these.
fn asked(more: &str) -> Vec<String> {
    let words = format!("measure response --policy other --duration 1s --warm-up 100ms {more}");
    words.split_whitespace().map(str::to_string).collect()
}

#[track_caller]
fn refuses(cases: &[(&str, &str)]) {
    let folder = folder();
    for (more, said) in cases {
        let args = asked(more);
        let line = isolator(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>()).line();
        assert!(line.contains(said), "{more}: {line}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_option_that_would_help() {
    skip_if!(skipped_for_lack_of_cpus());
    let boards =
        "choose from raspberry-pi-4, raspberry-pi-5, phytium-pi, pl061, or give a file that describes it";
    refuses(&[
        (
            "--board pi --in 1 --out 2",
            &format!("cannot use the board 'pi': there is none of that name; {boards}"),
        ),
        ("--board pl061 --in 1 --out 2", "it does not say where its registers are; add it: pl061@0x9030000"),
        ("--board raspberry-pi-4 --in 17", "no lines were given; give --in and --out"),
        ("--board raspberry-pi-4 --in 17 --out 17", "line 17 would be read and driven; give two lines"),
        (
            "--board raspberry-pi-4 --in 17 --out 58",
            "cannot use line 58 of Raspberry Pi 4: it has lines 0 to 57",
        ),
        ("--board raspberry-pi-4 --in 17 --out 27 --role both", "both roles need shared memory"),
        ("--board raspberry-pi-4 --in 17 --out 27 --signal f", "--signal is shared memory"),
        ("--in 17 --out 27", "shared memory has no lines; give --in and --out with --board or --chip"),
        ("--in -1", "cannot use '-1' for --in"),
        ("--role judge", "there is no role 'judge'; choose from both, responder, generator"),
        (
            "--role responder",
            "no other program shares this program's memory; give --signal, or do without --role",
        ),
    ]);
    let folder = folder();
    isolator(folder.path(), &["measure", "toggle", "--policy", "other", "--chip", "gpiochip0"])
        .refused("--chip has no effect on toggle: it is for the response probe; leave it out");
}

#[test]
fn what_is_not_there_or_no_device_s_is_refused_with_the_cure() {
    skip_if!(skipped_for_lack_of_cpus());
    refuses(&[
        ("--chip gpiochip999 --in 1 --out 2", "; choose from those in /dev/gpiochip*"),
        ("--chip /dev/null --in 1 --out 2", "; give the device of a GPIO chip"),
        ("--board pl061@/dev/uio99 --in 1 --out 2", "no such file or directory; give a file that is there"),
        ("--board pl061@/dev/null --in 1 --out 2", "cannot map the registers of /dev/null: "),
        ("--board ./b.toml --in 1 --out 2", "cannot read the board ./b.toml: no such file or directory"),
        ("--signal /dev/shm/no-such-signal", "no such file or directory; give a file that is there"),
        ("--signal /proc/version", "cannot map 132 bytes of /proc/version from 0 on: "),
        ("--signal no-such-signal:x", "'x' is not an offset; give FILE:OFFSET, in bytes"),
    ]);
}

#[test]
fn memory_of_the_machine_is_no_board_s() {
    skip_if!(skipped_for_lack_of_cpus() || skipped_for_lack_of_root());
    let iomem = fs::read_to_string("/proc/iomem").unwrap();
    let memory = iomem.lines().find(|line| line.ends_with(" : System RAM")).unwrap_or_default();
    let first = memory.trim().split('-').next().unwrap_or_default();
    skip_if!(skipped(first.chars().all(|digit| digit == '0'), "it needs to see where memory is"));
    refuses(&[(&format!("--board pl061@0x{first} --in 1 --out 2"), "that is the machine's memory")]);
}

#[test]
fn a_user_without_privilege_is_told_what_it_takes() {
    skip_if!(skipped_for_lack_of_cpus() || skipped_for_lack_of_root());
    let folder = folder();
    let args = asked("--board pl061@0x9030000 --in 1 --out 2");
    let args = args.iter().map(String::as_str).collect::<Vec<_>>();
    let line = isolator_as_nobody(folder.path(), &args).line();
    assert!(line.ends_with("/proc/iomem does not say where the machine's memory is; run as root"), "{line}");
}

#[test]
fn a_board_s_file_is_read_and_what_is_wrong_with_it_said() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let file = folder.path().join("b.toml");
    fs::write(&file, "name = 'b'\nsize = 4096\nlines = 8\nmasked = 0\n").unwrap();
    let args = asked("--board ./b.toml@0x1000 --in 1 --out 2");
    let args = args.iter().map(String::as_str).collect::<Vec<_>>();
    let line = isolator(folder.path(), &args).line();
    assert!(line.contains("missing field `direction`") && line.ends_with("; correct the file"), "{line}");
}

/// A measured bundle of the probe.
fn measured(more: &[&str]) -> (tempfile::TempDir, Value) {
    let folder = folder();
    // A policy that leaves the machine to others: nothing here asks how late anything was.
    let more = [&["--probe", "response", "--policy", "other", "--json", "-", "--quiet"], more].concat();
    let document = isolator(folder.path(), &short("b", &more)).judged().json();
    (folder, document)
}

fn manifest(folder: &tempfile::TempDir) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.path().join("b/manifest.json")).unwrap()).unwrap()
}

#[test]
fn a_row_over_memory_leaves_its_evidence_and_its_picture() {
    skip_if!(skipped_for_lack_of_cpus());
    let (folder, document) = measured(&[]);
    let row = &document["rows"][0];
    assert_eq!(
        (row["probe"].as_str(), document["rows"].as_array().unwrap().len()),
        (Some("response-shared"), 1)
    );
    assert!(row["count"].as_u64().unwrap() > 0, "{row:#}");
    let manifest = manifest(&folder);
    let from = manifest["rows"][0]["granted"]["edges_from"].as_u64().unwrap() as u32;
    let house_keeping: CpuSet = manifest["asked"]["house_keeping"].as_str().unwrap().parse().unwrap();
    assert!(house_keeping.contains(from), "{manifest:#}");
    let notes = manifest["notes"].as_array().unwrap();
    let meaning = "response-shared: a sample is the time from the edge to the answer";
    assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with(meaning)), "{notes:?}");
    let report = fs::read_to_string(folder.path().join("b/report.html")).unwrap();
    assert!(report.contains("<section id=\"responses\">") && report.contains("responses over each other"));
}

#[test]
fn a_file_s_memory_holds_the_last_edge_and_its_answer() {
    skip_if!(skipped_for_lack_of_cpus());
    let signal = tempfile::NamedTempFile::new().unwrap();
    signal.as_file().set_len(4096).unwrap();
    let named = format!("{}:0x100", signal.path().display());
    // A row may end between an edge and its answer, which a busy machine makes likelier; hardly thrice.
    let answered = (0..3).any(|_| {
        let (folder, document) = measured(&["--signal", &named]);
        assert!(document["rows"][0]["count"].as_u64().unwrap() > 0, "{document:#}");
        assert_eq!(manifest(&folder)["asked"]["response"]["signal"], named.as_str());
        let words = fs::read(signal.path()).unwrap();
        words[0x100] == words[0x100 + 128]
    });
    assert!(answered, "the last edge was answered");
}
