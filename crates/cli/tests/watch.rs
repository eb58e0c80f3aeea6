// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator watch`: its output about this machine's CPUs, its destinations, how it ends, and its
//! refusals.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Short intervals, so that a test takes none.
const SHORT: [&str; 3] = ["watch", "--interval", "50ms"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT[..], more].concat()
}

#[track_caller]
fn ends(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_for("the end of watch", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

#[test]
fn every_interval_is_a_line_of_json() {
    let folder = folder();
    let ran = isolator(folder.path(), &with(&["--cpus", "0", "--count", "3", "--json"])).ended(0);
    let documents: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = documents.iter().map(|document| document["number"].as_u64().unwrap()).collect();
    assert_eq!((numbers, ran.stderr.as_str()), (vec![1, 2, 3], ""));
    let mut totals = 0;
    for document in &documents {
        conforms(document, "watch");
        assert_eq!((&document["cpus"], &document["senders"]), (&Value::from("0"), &Value::Null));
        let total =
            document["sources"].as_array().unwrap().iter().map(|one| one["total"].as_u64().unwrap()).sum();
        assert!(total >= totals, "a total never shrinks");
        totals = total;
    }
    isolator(folder.path(), &with(&["--cpus", "0", "--count", "2", "--json", "w.json", "--quiet"])).ended(0);
    assert_eq!(fs::read_to_string(folder.path().join("w.json")).unwrap().lines().count(), 2);
}

#[test]
fn needs_no_privilege() {
    skip_if!(skipped_for_lack_of_root());
    let folder = folder();
    let ran = isolator_as_nobody(folder.path(), &with(&["--cpus", "0", "--count", "1"])).ended(0);
    assert!(ran.stdout.starts_with("cpu 0") && ran.stdout.contains("the last "), "{ran:#?}");
}

/// An unprivileged user may not load a collector. Guests show its results (tests/guests.rs).
#[test]
fn senders_are_named_to_who_may_watch_them() {
    skip_if!(skipped_for_lack_of_root());
    let folder = folder();
    let line = isolator_as_nobody(folder.path(), &with(&["--cpus", "0", "--count", "1", "--senders"])).line();
    assert!(line.starts_with("cannot name senders: no events by bpf: "), "{line}");
    assert!(line.ends_with("; leave --senders out to see rates alone"), "{line}");
}

#[test]
fn without_isolated_cpus_all_are_watched_and_that_is_said() {
    let isolated = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    skip_if!(skipped(!isolated.trim().is_empty(), "a CPU is isolated here"));
    let folder = folder();
    let ran = isolator(folder.path(), &with(&["--count", "1"])).ended(0);
    assert_eq!(ran.stderr, "no CPU is isolated here: watching all; see isolator tune plan\n");
    assert!(ran.stdout.contains("none isolated"), "{ran:#?}");
}

#[test]
fn a_scraper_finds_the_figures_in_a_file_that_is_always_whole() {
    let folder = folder();
    let args = ["--cpus", "0", "--count", "2", "--quiet", "--prometheus", "isolator.prom"];
    let ran = isolator(folder.path(), &with(&args)).ended(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let text = fs::read_to_string(folder.path().join("isolator.prom")).unwrap();
    assert!(text.contains("# TYPE isolator_interruptions_total counter\n"), "{text}");
    assert!(text.ends_with('\n') && text.contains("isolator_watched_cpu_isolated{cpu=\"0\"} "), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_scraper_is_answered_and_a_signal_ends_it() {
    let folder = folder();
    let args = with(&["--cpus", "0", "--quiet", "--prometheus", "127.0.0.1:0"]);
    let mut child = command(folder.path(), &args).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("serving http://").trim_end_matches("/metrics").to_string();
    let ask_as = |host: &str, request: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(format!("{request}\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let ask = |request: &str| ask_as("localhost", request);
    let get = || ask("GET /metrics HTTP/1.1");
    wait_for("the first interval", || get().contains("isolator_watch_interval_seconds "));
    let answer = get();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{answer}");
    assert!(ask("GET /etc/passwd HTTP/1.1").starts_with("HTTP/1.1 404 "));
    assert!(ask("\u{1}\u{2}").starts_with("HTTP/1.1 400 "));
    assert!(ask_as("evil.example", "GET /metrics HTTP/1.1").starts_with("HTTP/1.1 403 "));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(ends(&mut child), Some(0));
}

#[test]
fn a_reader_that_has_gone_ends_it() {
    let folder = folder();
    let args = with(&["--cpus", "0", "--json"]);
    let mut child = command(folder.path(), &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    assert_eq!(ends(&mut child), Some(0));
}

#[test]
fn what_cannot_be_watched_is_refused_in_one_line() {
    let folder = folder();
    let refused = |args: &[&str]| isolator(folder.path(), &[&["watch"], args].concat()).line();
    let line = refused(&["--cpus", "4095"]);
    assert!(line.starts_with("cannot watch cpu 4095: not online; choose from 0"), "{line}");
    let line = refused(&["--interval", "0"]);
    assert!(line.ends_with("give --interval 10ms or more"), "{line}");
    let line = refused(&["--count", "0"]);
    assert!(line.ends_with("give --count 1 or more"), "{line}");
    let line = refused(&["--count", "-1"]);
    assert!(line.starts_with("cannot use '-1' for --count: "), "{line}");
    let line = refused(&["--prometheus", "nowhere/isolator.prom"]);
    assert!(line.starts_with("cannot write nowhere/isolator.prom: there is no folder nowhere"), "{line}");
    let line = refused(&["--json", "nowhere/w.json"]);
    assert!(line.starts_with("cannot write nowhere/w.json: "), "{line}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = refused(&["--prometheus", &address]);
    assert!(line.starts_with(&format!("cannot serve on {address}: address already in use")), "{line}");
}

/// A watch on a terminal of its own of 80x24, whose modes before and after are kept in files.
struct OnTerminal {
    child: Child,
    typed: ChildStdin,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn start(folder: &Path) -> OnTerminal {
        // The shell has the same foreground, and must not end by what ends the watch.
        let script = format!(
            "trap : INT QUIT HUP; stty cols 80 rows 24; stty -g > before; \
             sh -c 'echo $$ > pid; exec {PROGRAM} watch --cpus 0 --interval 50ms'; echo $? > status; stty -g > after"
        );
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &script, "/dev/null"]).current_dir(folder);
        command.env("TERM", "xterm-256color").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (typed, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (shown, mut part) = (Arc::clone(&seen), [0; 4096]);
        std::thread::spawn(move || {
            while let Ok(read @ 1..) = stdout.read(&mut part) {
                shown.lock().unwrap().extend_from_slice(&part[..read]);
            }
        });
        OnTerminal { child, typed, seen }
    }

    /// The output since the last call.
    fn waits_for(&self, part: &str) -> String {
        let mut text = String::new();
        wait_for(part, || {
            text = String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned();
            text.contains(part)
        });
        self.seen.lock().unwrap().clear();
        text
    }

    fn types(&mut self, keys: &str) {
        self.typed.write_all(keys.as_bytes()).unwrap();
        self.typed.flush().unwrap();
    }

    /// It ended, and gave the terminal back as it was.
    #[track_caller]
    fn ends(mut self, folder: &Path, status: &str) {
        ends(&mut self.child);
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap().trim().to_string();
        assert_eq!((read("status"), read("before")), (status.to_string(), read("after")));
    }
}

fn skipped_for_lack_of_a_terminal() -> bool {
    skipped(!installed("script"), "it needs script, of util-linux")
}

#[test]
fn keys_sort_scroll_and_end_a_watch() {
    skip_if!(skipped_for_lack_of_a_terminal());
    let folder = folder();
    let mut on = OnTerminal::start(folder.path());
    let text = on.waits_for("q quit");
    assert!(text.contains("in all▾"), "{text}");
    // Not what was typed: the terminal shows no keys, and needs no Enter.
    on.types("n");
    let text = on.waits_for("source▾");
    assert!(!text.contains("nsource"), "{text}");
    on.types("r");
    on.waits_for("source▴");
    on.types("\u{1b}[C");
    on.waits_for("in all▾");
    on.types("\u{1b}[C");
    on.waits_for("per s▾");
    on.types("\u{1b}[6~\u{1b}[5~\u{1b}[B\u{1b}[A?t");
    on.waits_for("in all▾");
    on.types("q");
    on.waits_for("next: isolator ");
    on.ends(folder.path(), "0");
}

#[test]
fn each_signal_gives_the_terminal_back() {
    skip_if!(skipped_for_lack_of_a_terminal());
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let folder = folder();
        let on = OnTerminal::start(folder.path());
        on.waits_for("q quit");
        let pid = fs::read_to_string(folder.path().join("pid")).unwrap().trim().parse().unwrap();
        // The second one must not end it before it has given the terminal back.
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
        on.ends(folder.path(), "0");
    }
    let folder = folder();
    let mut on = OnTerminal::start(folder.path());
    on.waits_for("q quit");
    on.types("\u{3}");
    on.ends(folder.path(), "0");
}
