// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files, names and folders of other users: they are data, and lead the program nowhere.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::*;

const SUMMARY: &str = "T: 0 ( 3407) P:80 I:1000 C:   1000 Min:      2 Act:    3 Avg:    3 Max:      9\n";

/// A bundle called `name`, in a folder where every user may make links.
fn open_bundle(folder: &Path, name: &str) -> PathBuf {
    fs::write(folder.join("summary.txt"), SUMMARY).unwrap();
    isolator(folder, &["import", "summary.txt", "-q", "-o", name]).ended(0);
    let bundle = folder.join(name);
    fs::remove_file(bundle.join("report.html")).unwrap();
    fs::set_permissions(&bundle, fs::Permissions::from_mode(0o777)).unwrap();
    bundle
}

fn change(bundle: &Path, how: impl Fn(&mut serde_json::Value)) {
    let path = bundle.join("manifest.json");
    let mut manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    how(&mut manifest);
    fs::write(&path, manifest.to_string()).unwrap();
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[track_caller]
fn nothing_steers(ran: &Ran) {
    let steers = |text: &str| text.chars().any(|c| untrusted::text::steers(c) && c != '\n');
    assert!(!steers(&ran.stdout) && !steers(&ran.stderr), "{ran:#?}");
}

#[test]
fn a_report_replaces_a_link_in_an_open_folder() {
    let folder = folder();
    let bundle = open_bundle(folder.path(), "b");
    fs::write(folder.path().join("target"), "secret").unwrap();
    for name in ["report.html", "report.html.new", "out.json", "out.csv"] {
        symlink("../target", bundle.join(name)).unwrap();
    }
    isolator(folder.path(), &["report", "-q", "b"]).judged();
    isolator(folder.path(), &["report", "-q", "b", "-o", "c.html", "--json", "b/out.json"]).judged();
    isolator(folder.path(), &["export", "--as", "csv", "b", "-o", "b/out.csv"]).ended(0);
    assert_eq!(fs::read(folder.path().join("target")).unwrap(), b"secret");
    for name in ["report.html", "out.json", "out.csv"] {
        assert!(bundle.join(name).is_file() && !bundle.join(name).is_symlink(), "{name}");
    }
    // A link of our own, in a folder of our own, leads on.
    symlink("far.html", folder.path().join("near.html")).unwrap();
    isolator(folder.path(), &["report", "-q", "b", "-o", "near.html"]).judged();
    assert!(folder.path().join("near.html").is_symlink() && folder.path().join("far.html").is_file());
}

#[test]
fn a_pipe_or_link_in_a_bundle_is_refused() {
    let folder = folder();
    let bundle = open_bundle(folder.path(), "b");
    let spikes = bundle.join("spikes.jsonl");
    fs::remove_file(&spikes).unwrap();
    fifo(&spikes);
    let report = || isolator(folder.path(), &["report", "-q", "b", "-o", "o.html"]).line();
    assert_eq!(report(), "cannot read b/spikes.jsonl: it is not a regular file; give a regular file");
    fs::remove_file(&spikes).unwrap();
    symlink("/dev/zero", &spikes).unwrap();
    assert!(report().contains("it is a link, or lies behind one"));
}

#[test]
fn a_pipe_of_others_is_no_plan_snapshot_or_import() {
    let folder = folder();
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    fifo(&open.join("pipe"));
    for args in [
        &["import", "open/pipe"][..],
        &["prove", "--like", "open/pipe"],
        &["tune", "verify", "open/pipe"],
        &["tune", "apply", "open/pipe", "--dry-run"],
        &["tune", "plan", "--snapshot", "open/pipe"],
        &["doctor", "--snapshot", "open/pipe"],
        &["report", "open/pipe"],
    ] {
        let line = isolator(folder.path(), args).line();
        assert!(line.contains("it is not a regular file"), "{args:?}: {line}");
    }
}

#[test]
fn a_run_refuses_a_folder_that_everybody_may_write() {
    let folder = folder();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o777)).unwrap();
    symlink("../target", out.join("spikes.jsonl")).unwrap();
    fs::write(folder.path().join("summary.txt"), SUMMARY).unwrap();
    for args in [
        &["measure", "wakeup", "--duration", "1s", "--warm-up", "1ms", "-q", "-o", "out"][..],
        &["import", "summary.txt", "-q", "-o", "out"],
    ] {
        let why =
            "every user may write to the folder; choose another path, or a folder that is not there yet";
        isolator(folder.path(), args).refused(&format!("cannot write a bundle to out: {why}"));
    }
    let names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["spikes.jsonl"]);
    assert!(!folder.path().join("target").exists());
}

#[test]
fn names_in_a_bundle_steer_no_terminal_and_no_spreadsheet() {
    let folder = folder();
    let bundle = open_bundle(folder.path(), "b");
    let name = "=HYPERLINK(\"http://x\",\"y\")\u{1b}]0;T\u{7}\u{9b}2J\u{202e}\u{200b}\nisolator: all holds";
    change(&bundle, |manifest| {
        manifest["rows"][0]["load"] = name.into();
        manifest["asked"]["loads"] = [name].as_slice().into();
        manifest["machine"]["hostname"] = name.into();
        manifest["notes"] = [name].as_slice().into();
        manifest["written_by"]["program"] = name.into();
    });
    for args in [
        &["report", "b"][..],
        &["report", "b", "--json", "-"],
        &["why", "b"],
        &["compare", "b", "b", "--force"],
        &["gate", "b", "b", "--junit", "-"],
        &["export", "--as", "csv", "b"],
        &["export", "--as", "json", "b"],
        &["export", "--as", "cyclictest", "b"],
    ] {
        let ran = isolator(folder.path(), args);
        nothing_steers(&ran);
        assert!(
            !ran.stdout.lines().chain(ran.stderr.lines()).any(|line| line.starts_with("isolator: all")),
            "{ran:#?}"
        );
    }
    let csv = isolator(folder.path(), &["export", "--as", "csv", "b"]).ended(0).stdout;
    assert!(csv.lines().skip(1).all(|line| line.contains(",\"'=HYPERLINK(\"\"http://x\"\"")), "{csv}");
    let html = fs::read_to_string(bundle.join("report.html")).unwrap();
    assert!(!html.chars().any(|c| untrusted::text::steers(c) && !matches!(c, '\n' | '\t')));
}

#[test]
fn errors_stay_one_plain_line() {
    let folder = folder();
    let bundle = open_bundle(folder.path(), "b");
    let path = bundle.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let state = "\"state\": \"\\u001b]0;PWNED\\u0007\\u001b[2J\\nisolator: faked\"";
    fs::write(&path, text.replacen("\"state\": \"finished\"", state, 1)).unwrap();
    let ran = isolator(folder.path(), &["report", "b"]);
    nothing_steers(&ran);
    assert!(ran.line().contains("unknown variant"));
    let ran = isolator(folder.path(), &["report", "no\u{1b}[31m\nisolator: such"]);
    nothing_steers(&ran);
    ran.line();
}

/// A shell under a name that steers, until it is told to end.
fn named(name: &str) -> std::process::Child {
    let script = format!("printf '{name}' > /proc/$$/comm; echo ready; read line");
    let mut child = Command::new("bash")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    child
}

#[test]
fn names_of_tasks_are_shown_with_replacements() {
    let folder = folder();
    for (name, shown) in [
        (r"\033]0;x\r\233a)b", "\u{fffd}]0;x\u{fffd}\u{fffd}a)b"),
        (r"a) R 1 (b", "a) R 1 (b"),
        (r"\377\376\233", "\u{fffd}\u{fffd}\u{fffd}"),
        (r"root\r#", "root\u{fffd}#"),
    ] {
        let mut child = named(name);
        let id = child.id().to_string();
        let list = isolator(folder.path(), &["task", "list"]).ended(0);
        nothing_steers(&list);
        let line = list.stdout.lines().find(|line| line.split_whitespace().next() == Some(&id));
        assert!(line.is_some_and(|line| line.ends_with(shown)), "{line:?}");
        for args in [&["task", "show", &id][..], &["task", "set", &id, "--policy", "other"]] {
            let ran = isolator(folder.path(), args).ended(0);
            nothing_steers(&ran);
            assert!(ran.stdout.contains(shown), "{args:?}: {ran:#?}");
        }
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn huge_numbers_in_files_end_in_a_report() {
    let folder = folder();
    let text = SUMMARY.replace("Max:      9", "Max:      18446744073709551");
    fs::write(folder.path().join("c.txt"), text).unwrap();
    isolator(folder.path(), &["import", "c.txt", "-q", "-o", "o"]).ended(0);
    let bundle = open_bundle(folder.path(), "b");
    change(&bundle, |manifest| {
        for field in ["limit_ns", "spikes", "spikes_not_listed", "period_ns"] {
            manifest["rows"][0][field] = u64::MAX.into();
        }
    });
    for args in
        [&["report", "-q", "b"][..], &["why", "b"], &["compare", "b", "o", "--force"], &["gate", "o", "b"]]
    {
        let ran = isolator(folder.path(), args);
        assert!(matches!(ran.status, Some(0..=2)) && !ran.stderr.contains("panicked"), "{args:?} {ran:#?}");
    }
}

#[test]
fn a_run_too_long_for_its_bundle_is_refused() {
    let args = ["measure", "wakeup", "--cpus", "0", "--duration", "12days", "-o", "long"];
    let line = isolator(folder().path(), &args).line();
    assert!(line.contains("cannot measure 1 row of 1036800 s: a row has at most 1000000 s"), "{line}");
}

#[test]
fn circles_of_links_in_a_fleets_folder_end() {
    let folder = folder();
    let all = folder.path().join("all");
    fs::create_dir(&all).unwrap();
    (0..12).for_each(|n| symlink(".", all.join(format!("l{n}"))).unwrap());
    let bundle = open_bundle(folder.path(), "all/b");
    change(&bundle, |manifest| manifest["machine"]["hostname"] = "host".into());
    let stored = isolator(folder.path(), &["fleet", "store", "-o", "store", "all"]).ended(0);
    assert!(stored.stdout.starts_with("bundles: 1 added, 0 known already, 0 not read\n"), "{stored:#?}");
}
