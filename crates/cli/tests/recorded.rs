// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's trace events of a loop of 2 ms: in traces of each format that its own tool made here, in
//! files that are no whole trace, and live.

mod lttng;
mod perfetto;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::common::stranger::{Stranger, cannot_follow};
use crate::common::{
    PROGRAM, command, folder, in_namespace, installed, isolator, read, skipped, skipped_for_lack_of_root,
    wait_for,
};

const PERIOD: &str = "2000";
const PERIOD_NS: u64 = 2_000_000;

const EVENTS: [&str; 10] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "raw_syscalls:sys_enter",
];

/// A loop that sleeps until absolute times.
fn looping() -> Stranger {
    Stranger::start("cyclictest", &["-q", "-t1", "-p80", "-a0", "-i", PERIOD, "-D", "600"])
}

fn skipped_here() -> bool {
    skipped_for_lack_of_root()
        || skipped(!installed("cyclictest") || !installed("perf"), "it needs cyclictest and perf")
        || skipped(!installed("trace-cmd"), "it needs trace-cmd")
}

const TRACEFS: &str = "/sys/kernel/tracing";

/// tracefs, mounted until this is dropped where it was not before. One test after the other.
struct Mounted {
    is_ours: bool,
    _turn: MutexGuard<'static, ()>,
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Mounted {
    fn here() -> Mounted {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = !Path::new(TRACEFS).join("events").exists()
            && Command::new("mount").args(["-t", "tracefs", "tracefs", TRACEFS]).status().unwrap().success();
        Mounted { is_ours, _turn: turn }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = Command::new("umount").arg(TRACEFS).status();
        }
    }
}

/// An instance that records these events by CLOCK_MONOTONIC, and its end.
struct Recording {
    instance: PathBuf,
}

impl Recording {
    fn start() -> Option<Recording> {
        let instance = Path::new(TRACEFS).join("instances/recorded");
        fs::create_dir(&instance).ok()?;
        let recording = Recording { instance };
        recording.write("trace_clock", "mono");
        recording.write("buffer_size_kb", "8192");
        for event in EVENTS {
            recording.write(&format!("events/{}/enable", event.replace(':', "/")), "1");
        }
        Some(recording)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.instance.join(file), text).unwrap();
    }

    /// The pages of each CPU, in files of `folder`.
    fn pages(&self, folder: &Path) -> Vec<String> {
        let cpus = fs::read_dir(self.instance.join("per_cpu")).unwrap().flatten();
        let mut names: Vec<String> = cpus.map(|cpu| cpu.file_name().into_string().unwrap()).collect();
        names.sort_by_key(|name| name[3..].parse::<u32>().unwrap());
        for name in &names {
            let pipe = self.instance.join("per_cpu").join(name).join("trace_pipe_raw");
            let mut dd = Command::new("dd");
            dd.arg(format!("if={}", pipe.display())).arg(format!("of={}", folder.join(name).display()));
            // It ends with EAGAIN where there is no more.
            dd.args(["bs=4096", "iflag=nonblock"]).stderr(Stdio::null()).status().unwrap();
        }
        names
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.instance);
    }
}

fn trace_cmd(folder: &Path, words: &[&str]) {
    let mut command = Command::new("trace-cmd");
    let ran = command.args(words).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// The row of the loop of a trace.
fn row(folder: &Path, trace: &str) -> Value {
    let bundle = format!("{trace}.bundle");
    let asked = ["monitor", "--from", trace, "--thread", "cyclictest", "-o", &bundle, "--json"];
    let document = isolator(folder, &asked).judged().json();
    let manifest = read(&folder.join(&bundle).join("manifest.json"));
    assert_eq!(manifest["causes"]["collector"], "trace", "{trace}");
    let never = manifest["causes"]["could_not_see"].to_string();
    assert!(never.contains("the hypervisor's time"), "{trace}: {never}");
    // The thread that starts the loop has its name, and waits 10 ms at a time.
    // A text has whole microseconds.
    let is_about = |ns: u64| ns.abs_diff(PERIOD_NS) * 100 <= PERIOD_NS;
    let is_loop = |row: &&Value| row["probe"] == "loop" && row["period_ns"].as_u64().is_some_and(is_about);
    let row = document["rows"].as_array().unwrap().iter().find(is_loop);
    row.unwrap_or_else(|| panic!("{trace}: {document:#}")).clone()
}

/// A text tells whole microseconds, and of perf no contexts; cycles at its ends may lack.
#[track_caller]
fn is_about(row: &Value, exact: &Value) {
    let numbers = |row: &Value| ["count", "max_ns"].map(|name| row[name].as_u64().unwrap());
    let ([count, most], [all, exactly]) = (numbers(row), numbers(exact));
    assert!(count.abs_diff(all) <= 2 && most.abs_diff(exactly) <= 2_000, "{row} {exact}");
}

/// Records a loop into `trace.txt` and `trace.dat` of a folder; whether this kernel can.
fn recorded(at: &Path) -> bool {
    let (looping, _mounted) = (looping(), Mounted::here());
    let Some(recording) = Recording::start() else {
        return !skipped(true, "this kernel gives no instance of tracefs");
    };
    std::thread::sleep(std::time::Duration::from_secs(2));
    recording.write("tracing_on", "0");
    drop(looping);
    fs::copy(recording.instance.join("trace"), at.join("trace.txt")).unwrap();
    let pages = recording.pages(at);
    drop(recording);
    trace_cmd(at, &["restore", "-c", "-o", "head"]);
    let words: Vec<&str> = ["restore", "-i", "head", "-o", "trace.dat"]
        .into_iter()
        .chain(pages.iter().map(String::as_str))
        .collect();
    trace_cmd(at, &words);
    true
}

#[test]
fn one_trace_in_each_format_of_ftrace_and_trace_cmd_has_the_same_cycles() {
    skip_if!(skipped_here());
    let folder = folder();
    let at = folder.path();
    skip_if!(!recorded(at));
    trace_cmd(at, &["convert", "-i", "trace.dat", "-o", "old.dat", "--file-version", "6"]);
    trace_cmd(
        at,
        &["convert", "-i", "trace.dat", "-o", "packed.dat", "--file-version", "7", "--compression", "zstd"],
    );
    let report =
        Command::new("trace-cmd").args(["report", "-i", "trace.dat"]).current_dir(at).output().unwrap();
    fs::write(at.join("report.txt"), report.stdout).unwrap();
    let first = row(at, "trace.dat");
    assert!(first["count"].as_u64().unwrap() > 100, "{first}");
    for trace in ["old.dat", "packed.dat"] {
        let row = row(at, trace);
        assert_eq!((&row["count"], &row["max_ns"]), (&first["count"], &first["max_ns"]), "{trace}");
    }
    for trace in ["trace.txt", "report.txt"] {
        is_about(&row(at, trace), &first);
    }
}

#[test]
fn a_trace_of_perf_and_its_text_have_the_same_cycles() {
    skip_if!(skipped_here());
    let (folder, _looping, _mounted) = (folder(), looping(), Mounted::here());
    let at = folder.path();
    let mut perf = Command::new("perf");
    perf.args(["record", "-a", "-k", "mono", "-m", "4096", "-o", "perf.data", "-e", &EVENTS.join(",")]);
    let ran = perf.args(["sleep", "2"]).current_dir(at).output().unwrap();
    skip_if!(skipped(!ran.status.success(), "perf may not record here"));
    let script =
        Command::new("perf").args(["script", "--ns", "-i", "perf.data"]).current_dir(at).output().unwrap();
    fs::write(at.join("script.txt"), script.stdout).unwrap();
    let (data, text) = (row(at, "perf.data"), row(at, "script.txt"));
    assert!(data["count"].as_u64().unwrap() > 100, "{data}");
    is_about(&text, &data);
    // Other tests have real-time threads, too.
    let why = isolator(at, &["why", "perf.data", "--thread", "cyclictest", "--json"]).ended(0).json();
    assert!(why.to_string().contains("cyclictest"), "{why}");
}

/// The instances of tracefs that are ours.
fn instances() -> Vec<String> {
    let all = fs::read_dir(Path::new(TRACEFS).join("instances")).into_iter().flatten().flatten();
    let names = all.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("isolator-") && name.ends_with("-threads")).collect()
}

#[test]
fn a_running_loop_is_followed_by_trace_events_and_no_instance_is_left() {
    skip_if!(skipped_here() || cannot_follow());
    let (folder, looping, _mounted) = (folder(), looping(), Mounted::here());
    let at = folder.path();
    let process = looping.process();
    let asked = ["monitor", &process, "--duration", "1s", "--source"];
    let ran = isolator(at, &[&asked[..], &["tracefs", "-o", "events", "--json"]].concat()).judged();
    assert_eq!(instances(), [""; 0]);
    isolator(at, &[&asked[..], &["bpf", "-o", "bpf", "--json"]].concat()).judged();
    let rows = ["events", "bpf"].map(|bundle| {
        let manifest = read(&at.join(bundle).join("manifest.json"));
        let followed = &manifest["rows"][0];
        (followed["followed_by"].clone(), followed["waits_with"].clone(), followed["period_from"].clone())
    });
    assert_eq!((&rows[0].0, &rows[1].0), (&"tracefs".into(), &"bpf".into()));
    assert_eq!((&rows[0].1, &rows[0].2), (&rows[1].1, &rows[1].2));
    let document = ran.json();
    assert_eq!(document["rows"][0]["period_ns"], PERIOD_NS, "{document:#}");
    let unseen = "the loop is followed without owners of locks";
    assert!(document["notes"].to_string().contains(unseen), "{}", document["notes"]);
    // A program that is killed leaves its instance, which the next one removes.
    let mut killed = command(at, &["monitor", &process, "--source", "tracefs", "-o", "killed", "--quiet"]);
    let mut killed = killed.stdout(Stdio::null()).spawn().unwrap();
    wait_for("the row", || at.join("killed/manifest.json").exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(instances().len(), 1);
    isolator(at, &[&asked[..], &["tracefs", "-o", "again", "--json"]].concat()).judged();
    assert_eq!(instances(), [""; 0]);
    // Nothing falls back in silence.
    let script = format!(
        "umount -l {TRACEFS} || true; umount -l /sys/kernel/debug || true; {PROGRAM} {} tracefs",
        asked.join(" ")
    );
    let ran = in_namespace(at, &script).ended(1);
    let last = ran.stderr.lines().last().unwrap_or_default();
    assert!(last.ends_with("mount it with: mount -t tracefs tracefs /sys/kernel/tracing"), "{last}");
}

fn seed(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/traces").join(name)).unwrap()
}

#[test]
fn a_file_that_is_no_whole_trace_is_read_as_far_as_it_goes_or_refused_in_one_line() {
    let folder = folder();
    let at = folder.path();
    let whole = seed("version-6.dat");
    let files: [(&str, &[u8]); 8] = [
        ("cut-head.dat", &whole[..4_000]),
        ("magic.dat", &whole[..12]),
        ("other.dat", b"\x17\x08Dtracing9\0\0\x08\0\x10\0\0"),
        ("perf.data", &seed("perf.data")[..2_000]),
        ("words.txt", b"these are words\n"),
        ("empty", b""),
        ("zeros", &[0; 4_096]),
        ("lost.txt", &seed("lost.txt")),
    ];
    for (name, bytes) in files {
        fs::write(at.join(name), bytes).unwrap();
        let said = isolator(at, &["monitor", "--from", name, "--thread", "cyclictest"]).line();
        assert!(said.starts_with("cannot ") && said.contains(name), "{name}: {said}");
        assert!(!at.join("evidence").exists(), "{name} left a bundle");
    }
    // Pages that are cut end the trace there, and its row says so.
    fs::write(at.join("cut.dat"), &whole[..whole.len() - 3_000]).unwrap();
    let asked = ["monitor", "--from", "cut.dat", "--thread", "cyclictest", "--period", "2ms", "-o", "cut"];
    isolator(at, &asked).judged();
    let missing = isolator(at, &["monitor", "--from", "cut.dat", "--thread", "absent"]).line();
    assert!(missing.contains("it has no thread absent; choose one of"), "{missing}");
    let notes = read(&at.join("cut/manifest.json"))["notes"].to_string();
    assert!(notes.contains("read from cut.dat, a trace.dat of trace-cmd, version 6"), "{notes}");
}

#[test]
fn the_commands_that_record_name_each_event_that_is_read() {
    let commands = isolator(folder().path(), &["record", "--duration", "3s", "--json"]).ended(0).json();
    for command in ["trace_cmd", "perf"] {
        let text = commands[command].as_str().unwrap();
        assert!(text.ends_with("sleep 3"), "{text}");
        for event in EVENTS {
            assert!(text.contains(event), "{command} records no {event}");
        }
    }
    let without = isolator(folder().path(), &["record", "--without-calls", "--json"]).ended(0).json();
    assert!(!without.to_string().contains("sys_enter"), "{without}");
}
