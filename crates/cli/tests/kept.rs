// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real program keeps the measured CPU in the kernel, and becomes another by name while it has it: spikes
//! name the program as it was called then, the kernel's function, and what to do about it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::stranger::Stranger;
use crate::common::{
    conforms, folder, installed, isolator, read, skipped, skipped_for_lack_of_cpus, skipped_for_lack_of_root,
};

/// The program at work on that CPU, for longer than a measurement.
fn keeps(folder: &Path, how: &str, cpu: &str) -> Stranger {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/kept.c");
    let program = folder.join("kept");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).args([&program, &source]);
    assert!(cc.status().unwrap().success(), "cc refused kept.c");
    fs::hard_link(&program, folder.join("wild")).unwrap();
    let own = File::create(folder.join("own")).unwrap();
    Stranger(Command::new(program).args([how, cpu, "60"]).stdout(own).spawn().unwrap())
}

/// Whether what kept the CPU was the mapping of memory or its end, by the kernel's functions from there on.
fn maps(cause: &Value) -> bool {
    let is_call = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        ["sys_munmap", "sys_mmap", "vm_mmap_pgoff", "__vm_munmap"].iter().any(|call| name.ends_with(call))
    };
    cause["stack"].as_array().is_some_and(|stack| stack.iter().any(is_call))
}

/// Spikes of a CPU that the program keeps: those of its threads that had it while they mapped memory, and the
/// advice. Other tests run beside this one, with programs of the same names.
fn kept(how: &str, collector: &str) -> Option<(Vec<Value>, Vec<String>)> {
    if skipped_for_lack_of_root() || skipped_for_lack_of_cpus() || skipped(!installed("cc"), "it needs cc") {
        return None;
    }
    let folder = folder();
    let cpu = (std::thread::available_parallelism().unwrap().get() - 1).to_string();
    let keeps = keeps(folder.path(), how, &cpu);
    let asked = ["measure", "wakeup", "--quiet", "--cpus", &cpu, "--duration", "3s", "--warm-up", "500ms"];
    let asked = [&asked[..], &["--threshold", "20us", "--causes", collector, "-o", "b"]].concat();
    let ran = isolator(folder.path(), &asked);
    drop(keeps);
    if skipped(ran.stderr.contains("cannot watch with"), "no collector of events may be used here") {
        return None;
    }
    ran.judged();
    let manifest = read(&folder.path().join("b/manifest.json"));
    let preemption = manifest["machine"]["kernel"]["preemption"].as_str().unwrap_or_default();
    if skipped(
        !["none", "voluntary"].contains(&preemption),
        "on a kernel that can be preempted nothing keeps a CPU for long",
    ) {
        return None;
    }
    let why = isolator(folder.path(), &["why", "b", "--json", "--top", "5000"]).ended(0).json();
    conforms(&why, "why");
    let all = |field: &str| {
        let spikes = why["spikes"].as_array().unwrap().iter();
        spikes.flat_map(|spike| spike[field].as_array().unwrap().clone()).collect::<Vec<_>>()
    };
    let own = fs::read_to_string(folder.path().join("own")).unwrap();
    let own: BTreeSet<u64> = own.lines().map(|line| line.parse().unwrap()).collect();
    let is_own = |cause: &Value| cause["owner"]["tid"].as_u64().is_some_and(|tid| own.contains(&tid));
    let causes: Vec<Value> = all("causes").into_iter().filter(|cause| is_own(cause) && maps(cause)).collect();
    let advice = all("advice").iter().map(|line| line.as_str().unwrap().to_string()).collect();
    assert!(!causes.is_empty(), "the program kept cpu {cpu} nowhere in the kernel: {own:?}, {why}");
    Some((causes, advice))
}

/// The program is named as it was called when it kept the CPU, with where it was and why it could be there.
fn is_wild(case: &str, (causes, advice): &(Vec<Value>, Vec<String>)) {
    let first = &causes[0];
    assert!(causes.iter().all(|cause| cause["name"] == "wild"), "{case}: {causes:?}");
    assert_eq!((&first["kind"], &first["owner"]["name"]), (&"thread".into(), &"wild".into()), "{case}");
    let function = first["function"].as_str().unwrap();
    assert!(first["stack"].as_array().unwrap().iter().any(|name| name == function), "{case}: {first}");
    let detail = first["detail"].as_str().unwrap();
    assert!(detail.starts_with("ordinary, pid "), "{case}: {detail}");
    assert!(
        detail.contains("in the kernel with preemption off (this kernel is PREEMPT_"),
        "{case}: {detail}"
    );
    let is_ours = |line: &&String| line.starts_with("nothing can preempt thread wild in ");
    let advice = advice.iter().find(is_ours).unwrap_or_else(|| panic!("{case}: no advice on it: {advice:?}"));
    assert!(advice.contains("PREEMPT_RT"), "{case}: {advice}");
}

#[test]
fn a_program_that_keeps_the_cpu_is_named_in_its_kernel_function() {
    // It renames itself, or executes itself under another name; trace events name it too.
    for (how, collector) in [("renames", "bpf"), ("execs", "bpf"), ("renames", "tracefs")] {
        if let Some(found) = kept(how, collector) {
            is_wild(&format!("{how}, {collector}"), &found);
        }
    }
}
