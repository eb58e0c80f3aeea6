// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels without types of their own (BTF): they are found elsewhere, or given by `--btf`, and put to the
//! test. The types that are used here are those of this kernel, hidden from the program or given by name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::stranger::{Stranger, cannot_follow, changes};
use crate::common::{
    Ran, folder, in_namespace, installed, isolator, read, skipped, skipped_for_lack_of_cpus,
};

const OWN: &str = "/sys/kernel/btf/vmlinux";

/// An empty file hides them.
const HIDE: &str = "mount --bind /dev/null /sys/kernel/btf/vmlinux";

fn cannot_hide() -> bool {
    cannot_follow() || skipped(!installed("unshare"), "it needs unshare")
}

fn monitored(folder: &Path, process: &str, more: &[&str]) -> Ran {
    let words = ["monitor", process, "--duration", "1s", "--limit", "100%", "-o", "run", "--json", "-q"];
    isolator(folder, &[&words[..], more].concat())
}

#[test]
fn loops_and_causes_are_seen_by_types_that_are_given() {
    skip_if!(cannot_follow() || skipped_for_lack_of_cpus());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let document = monitored(folder.path(), &servo.process(), &["--btf", OWN]).judged().json();
    assert_eq!(document["rows"][0]["thread"]["name"], "servo", "{document}");
    assert_eq!(document["rows"][0]["period_ns"], 2_000_000, "{document}");
    assert_eq!(read(&folder.path().join("run/manifest.json"))["causes"]["collector"], "bpf-found-types");
    let words = ["measure", "wakeup", "--duration", "1s", "--causes", "bpf", "--btf", OWN, "-o", "measured"];
    isolator(folder.path(), &[&words[..], &["--policy", "other", "--limit", "1us"]].concat()).judged();
    let causes = read(&folder.path().join("measured/manifest.json"))["causes"].clone();
    assert_eq!(causes["collector"], "bpf-found-types", "{causes}");
    // Its trial shows that events are seen by these types, too.
    assert!(!causes["could_not_see"].to_string().contains("in the trial"), "{causes}");
}

#[test]
fn types_are_found_beside_the_program() {
    skip_if!(cannot_hide());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let beside = folder.path().join(format!("{release}.btf"));
    fs::copy(OWN, &beside).unwrap();
    let script = format!(
        "cp $ISOLATOR isolator && {HIDE} && \
         ./isolator monitor {} --source bpf --duration 1s --limit 100% -o run -q --json",
        servo.process()
    );
    let document = in_namespace(folder.path(), &script).judged().json();
    assert_eq!(document["rows"][0]["period_ns"], 2_000_000, "{document}");
    assert_eq!(read(&folder.path().join("run/manifest.json"))["causes"]["collector"], "bpf-found-types");
    // What is no BTF is not taken for it, and named.
    fs::write(&beside, "no types").unwrap();
    let line = in_namespace(folder.path(), &script.replace("-o run", "-o other")).line();
    assert!(
        line.contains("this kernel has no BTF, and the types in ") && line.contains(".btf cannot be"),
        "{line}"
    );
}

#[test]
fn without_types_every_verb_that_needs_them_says_so() {
    skip_if!(cannot_hide());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let process = servo.process();
    for verb in [
        &format!("monitor {process} --source bpf -q")[..],
        &format!("lint {process}"),
        "measure wakeup --causes bpf --duration 1s -q",
    ] {
        let script = format!("{HIDE} && exec $ISOLATOR {verb}");
        let line = in_namespace(folder.path(), &script).line();
        assert!(line.contains(": this kernel has no BTF; give its types by --btf, "), "{verb}: {line}");
    }
}

/// This kernel's types, with the names of two fields of a thread exchanged: those of another kernel.
fn of_another_kernel(folder: &Path) -> PathBuf {
    let mut types = fs::read(OWN).unwrap();
    let names = [&b"\0prio\0"[..], b"\0tgid\0"];
    let places = names.map(|name| types.windows(name.len()).position(|bytes| bytes == name).unwrap());
    for (place, name) in [(places[0], names[1]), (places[1], names[0])] {
        types[place..place + name.len()].copy_from_slice(name);
    }
    let file = folder.join("other.btf");
    fs::write(&file, types).unwrap();
    file
}

#[test]
fn wrong_types_are_refused_in_one_line_by_every_verb() {
    skip_if!(cannot_follow());
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let own = fs::read(OWN).unwrap();
    fs::write(at("cut.btf"), &own[..own.len() / 2]).unwrap();
    fs::write(at("text.btf"), "no types").unwrap();
    fs::write(at("empty.btf"), "").unwrap();
    fs::create_dir(at("headers")).unwrap();
    // Its makefile would run as root.
    fs::create_dir(at("strangers")).unwrap();
    fs::write(at("strangers/Makefile"), "types.o:\n\ttouch strangers-make-ran\n").unwrap();
    std::os::unix::fs::chown(at("strangers"), Some(12_345), Some(12_345)).unwrap();
    let other = of_another_kernel(folder.path()).to_string_lossy().into_owned();
    for (file, why) in [
        (other, "they are of another kernel: this thread's process is "),
        (at("cut.btf"), "they are damaged: "),
        (at("text.btf"), "it is no BTF, and no image of a kernel"),
        (at("empty.btf"), "it is no BTF, and no image of a kernel"),
        (at("headers"), "this folder has no headers of a kernel"),
        (at("strangers"), "it belongs to another user (uid 12345)"),
        (at("none.btf"), "no such file or directory"),
        ("/bin/sh".into(), "this image has neither BTF nor debugging symbols"),
    ] {
        let process = std::process::id().to_string();
        for verb in [
            &["monitor", &process][..],
            &["prove", "--duration", "1s"],
            &["measure", "wakeup", "--duration", "1s"],
            &["lint", &process],
            &["watch", "--senders", "--count", "1"],
        ] {
            let line = isolator(folder.path(), &[verb, &["--btf", &file]].concat()).line();
            let begin = format!("cannot use the types in {file}: {why}");
            let cure = "; give the BTF, the image or the headers of the kernel that runs: uname -r";
            assert!(line.starts_with(&begin) && line.ends_with(cure), "{verb:?} {file}: {line}");
        }
    }
    assert!(!folder.path().join("strangers/strangers-make-ran").exists());
}
