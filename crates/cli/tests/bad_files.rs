// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are not what they should be: refused in one line, or read as far as they go; never a panic.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::*;
use serde_json::Value;

const FORMATS: &str = "give the whole output of one run of a tool that `isolator import --help` lists";

const CURE: &str = "give a bundle's folder or its .tar.zst; for another tool's file use isolator import";

#[test]
fn foreign_files_are_refused_by_import() {
    let folder = folder();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("letter.txt", b"Dear Sir or Madam,\n");
    write("empty.txt", b"");
    write("program", b"\x7fELF\0\0\0");
    write("other.json", b"{\"results\": []}");
    write("cut.json", b"{\"file_version\": 1, \"thread\": {\"0\": {\"histogram\": {\"1\": 5");
    for (file, why) in [
        ("letter.txt", "it is in no format that is known"),
        ("empty.txt", "it is empty"),
        ("program", "it is a binary file"),
        ("other.json", "it is JSON of a tool that is not known"),
        ("cut.json", "it is not a complete JSON document (EOF while parsing an object at line 1 column 57)"),
    ] {
        let refused = isolator(folder.path(), &["import", file]);
        refused.refused(&format!("cannot import {file}: {why}; {FORMATS}"));
    }
    let import = |file: &str| isolator(folder.path(), &["import", file]);
    import("nothing.json").refused("cannot import nothing.json: no such file or directory; check the path");
    import(".").refused("cannot import .: is a directory; choose another path");
    assert!(!folder.path().join("evidence").exists(), "nothing is left");
}

#[test]
fn a_file_that_may_not_be_read_is_refused() {
    skip_if!(skipped_for_lack_of_root());
    let folder = folder();
    fs::write(folder.path().join("secret.json"), "{}").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(folder.path().join("secret.json"), mode).unwrap();
    isolator_as_nobody(folder.path(), &["import", "secret.json"]).refused(
        "cannot import secret.json: permission denied; run as a user with access, or choose another path",
    );
}

#[test]
fn what_is_no_bundle_is_refused_by_every_verb_that_reads_one() {
    let folder = folder();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("letter"), "Dear Sir or Madam,\n").unwrap();
    for (bundle, why) in [
        ("nothing", "no such file or directory; check the path".to_string()),
        ("empty", format!("it has no manifest.json; {CURE}")),
        ("letter", format!("it is not a complete .tar.zst (it does not begin as one); {CURE}")),
    ] {
        for args in
            [vec!["report", bundle], vec!["compare", bundle, bundle], vec!["export", bundle, "--as", "csv"]]
        {
            isolator(folder.path(), &args).refused(&format!("cannot open the bundle {bundle}: {why}"));
        }
    }
}

#[test]
fn a_file_without_options_is_refused() {
    let folder = folder();
    let like = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        isolator(folder.path(), &["prove", "--like", name])
    };
    let cure = "give the folder of a run, its manifest.json, or a file with its 'asked' part";
    let expected =
        format!("cannot read the options of the run letter: expected value at line 1 column 1; {cure}");
    like("letter", "Dear Sir or Madam").refused(&expected);
    let line = like("other.json", "{\"thread\": {}}").line();
    assert!(
        line.starts_with("cannot read the options of the run other.json: unknown field `thread`"),
        "{line}"
    );
    let line = like("odd.json", "{\"asked\": {\"cpus\": \"x\"}}").line();
    assert!(
        line.starts_with("cannot read the options of the run odd.json: 'x' is not a list of CPUs"),
        "{line}"
    );
    let no_probe = format!("there is no probe 'foo'; choose from {}", measure::probes::NAMES.join(", "));
    like("probe.json", "{\"asked\": {\"probes\": [\"foo\"]}}").refused(&no_probe);
    isolator(folder.path(), &["prove", "--like", "nothing"])
        .refused("cannot read the options of the run nothing: no such file or directory; check the path");
}

#[test]
fn commands_of_an_earlier_run_need_a_permission() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let asked = serde_json::json!({"asked": {
        "loads": ["custom=id > ran; sleep 60"], "policy": "other", "duration_ns": 1_000_000_000, "warm_up_ns": 0,
    }});
    fs::write(folder.path().join("asked.json"), asked.to_string()).unwrap();
    isolator(folder.path(), &["prove", "--like", "asked.json", "-o", "b"]).refused(
        "cannot measure like the run asked.json: it runs the command 'id > ran; sleep 60'; look at that, then allow it with \
         --allow-commands, or replace it by options",
    );
    assert!(!folder.path().join("ran").exists() && !folder.path().join("b").exists());
    let allowed = ["prove", "--like", "asked.json", "--allow-commands", "-o", "b"];
    let ran = isolator(folder.path(), &allowed).judged();
    assert!(
        ran.stdout.contains("isolator: as the earlier run, it runs the command 'id > ran; sleep 60'\n"),
        "{ran:#?}"
    );
    assert!(folder.path().join("ran").exists());
}

#[test]
fn devices_and_files_of_an_earlier_run_are_refused() {
    let folder = folder();
    for (field, value, said) in [
        ("response", serde_json::json!({"signal": "words"}), "it writes to the file 'words'"),
        ("response", serde_json::json!({"board": "rpi4"}), "it drives registers of the board 'rpi4'"),
        ("response", serde_json::json!({"chip": "/dev/null"}), "it drives lines of the chip '/dev/null'"),
        ("response", serde_json::json!({"output": 7}), "it drives the line 7"),
        ("ethercat", serde_json::json!({"device": "lo"}), "it sends on the interface 'lo'"),
        (
            "ethercat",
            serde_json::json!({"forced": true}),
            "it sends on an interface that carries other traffic",
        ),
        ("loads", serde_json::json!(["gpu=reboot"]), "it runs the command 'reboot'"),
    ] {
        let asked = serde_json::json!({"probes": ["response", "ethercat"], field: value});
        fs::write(folder.path().join("asked.json"), asked.to_string()).unwrap();
        let line = isolator(folder.path(), &["prove", "--like", "asked.json", "-o", "b"]).line();
        assert!(line.contains(&format!("cannot measure like the run asked.json: {said}; ")), "{line}");
    }
    assert!(!folder.path().join("b").exists());
}

#[test]
fn a_bundle_is_never_written_over_another() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let manifest = bundle(folder.path(), "b", &[]).join("manifest.json");
    let before = fs::read(&manifest).unwrap();
    let line = "cannot write a bundle to b: it holds one already; choose another folder with -o";
    isolator(folder.path(), &short("b", &[])).refused(line);
    fs::write(folder.path().join("samples.txt"), "T: 0 ( 1) P:80 I:1000 C: 10 Min: 1 Act: 2 Avg: 2 Max: 5\n")
        .unwrap();
    isolator(folder.path(), &["import", "samples.txt", "-o", "b"]).refused(line);
    assert_eq!(fs::read(&manifest).unwrap(), before);
}

/// The result of `report` on a bundle: one line that refuses it, or its document.
fn reported(folder: &Path, bundle: &str) -> Result<Value, String> {
    let ran = isolator(folder, &["report", bundle, "--quiet", "--json", "-", "-o", "report.html"]);
    match ran.status {
        Some(0 | 2) => Ok(ran.json()),
        _ => Err(ran.line()),
    }
}

/// Cuts `file` at several places and hands each to `look`; leaves it whole.
fn cut(file: &Path, mut look: impl FnMut(usize)) {
    let whole = fs::read(file).unwrap();
    for eighth in 0..8 {
        let length = whole.len() * eighth / 8;
        fs::write(file, &whole[..length]).unwrap();
        look(length);
    }
    fs::write(file, whole).unwrap();
}

fn file_of(bundle: &Path, ending: &str) -> PathBuf {
    let files = fs::read_dir(bundle.join("series")).unwrap().flatten().map(|file| file.path());
    files.into_iter().find(|file| file.to_string_lossy().ends_with(ending)).unwrap()
}

#[test]
fn a_bundle_that_was_cut_is_read_as_far_as_it_goes_and_says_what_is_missing() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let bundle = bundle(folder.path(), "b", &["--threshold", "1us"]);
    let whole = reported(folder.path(), "b").unwrap();
    assert_eq!(whole["missing"], serde_json::json!([]));

    cut(&bundle.join("manifest.json"), |length| {
        let line = reported(folder.path(), "b").unwrap_err();
        let cure = "the bundle is damaged: take it again from where it was written";
        assert!(
            line.starts_with("cannot read b/manifest.json: ") && line.ends_with(cure),
            "{length}: {line}"
        );
    });
    for (file, name) in [
        (file_of(&bundle, ".histograms.csv"), "histograms.csv"),
        (file_of(&bundle, ".seconds.csv"), "seconds.csv"),
        (bundle.join("spikes.jsonl"), "spikes.jsonl"),
    ] {
        cut(&file, |length| {
            let document = reported(folder.path(), "b").unwrap();
            assert_eq!(document["rows"].as_array().map(Vec::len), Some(1), "{name} cut at {length}");
            assert!(document["rows"][0]["count"].as_u64() <= whole["rows"][0]["count"].as_u64());
            let missing = document["missing"].to_string();
            assert!(missing.contains(name), "{name} cut at {length}: {missing}");
        });
        let whole = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let missing = reported(folder.path(), "b").unwrap()["missing"].to_string();
        assert!(missing.contains(&format!("{name} is missing")), "{missing}");
        fs::write(&file, whole).unwrap();
    }
}

#[test]
fn an_archive_that_was_cut_is_refused() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let bundle = bundle(folder.path(), "b", &[]);
    let archive = folder.path().join("b.tar.zst");
    evidence::archive::pack(&bundle, &archive).unwrap();
    let (packed, plain) =
        (reported(folder.path(), "b.tar.zst").unwrap(), reported(folder.path(), "b").unwrap());
    assert_eq!(packed["rows"], plain["rows"]);
    cut(&archive, |length| {
        let line = reported(folder.path(), "b.tar.zst").unwrap_err();
        assert!(line.starts_with("cannot open the bundle b.tar.zst: "), "{length}: {line}");
        assert!(line.ends_with(CURE), "{length}: {line}");
    });
}
