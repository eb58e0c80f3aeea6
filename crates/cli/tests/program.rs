// SPDX-License-Identifier: MIT OR Apache-2.0
//! An unmodified program: proven under loads, changed while it is followed, and options that cannot be
//! followed. Each refusal is one line, and nothing is left behind.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::stranger::{
    Stranger, accounts_for, all_bpf_programs, bpf_programs, cannot_follow, changes, cycles,
};
use crate::common::{
    Going, PROGRAM, Ran, command, conforms, folder, installed, isolator, lives, read, skipped,
    skipped_for_lack_of_cpus, wait_for,
};

/// `isolator` with these words and others after them.
fn with(folder: &Path, words: &str, more: &[&str]) -> Ran {
    isolator(folder, &words.split(' ').chain(more.iter().copied()).collect::<Vec<_>>())
}

fn of<'a>(document: &'a Value, probe: &str, load: &str) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["probe"] == probe && row["load"] == load);
    row.unwrap_or_else(|| panic!("no row of {probe} under {load}: {document:#}"))
}

fn notes(document: &Value) -> String {
    document["notes"].to_string()
}

#[test]
fn a_program_is_proven_under_each_load() {
    skip_if!(cannot_follow() || skipped_for_lack_of_cpus());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let words = "prove --loads idle,cpu --duration 2s --limit 100% -o b --json - --program";
    let ran = with(folder.path(), words, &[&servo.process()]).judged();
    let document = ran.json();
    conforms(&document, "prove");
    assert!(document["verdict"]["outcome"].is_string(), "{document:#}");
    assert_eq!(document["rows"].as_array().unwrap().len(), 6, "{document:#}");
    for load in ["idle", "cpu"] {
        for probe in ["loop", "execution", "response"] {
            let row = of(&document, probe, load);
            assert_eq!((&row["thread"]["name"], &row["thread"]["policy"]), (&"servo".into(), &"fifo".into()));
            assert_eq!((&row["period_ns"], &row["period_from"]), (&2_000_000.into(), &"inferred".into()));
            assert_eq!(row["waits_with"], "clock_nanosleep (absolute, CLOCK_MONOTONIC)");
        }
        let row = of(&document, "loop", load);
        let cycles = row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap();
        assert!((980..=1_001).contains(&cycles), "{document:#}");
    }
    // The load worked, and the program was not stopped by it.
    assert!(read(&folder.path().join("b/manifest.json"))["rows"][3]["load_did"].is_string());
    assert!(lives(servo.0.id()));
    // The same again, as the bundle asks it.
    let again =
        with(folder.path(), "prove --duration 1s -o again --json - --like b --program", &[&servo.process()]);
    of(&again.judged().json(), "response", "cpu");
}

#[test]
fn cycles_of_a_function_are_measured_of_a_process_and_of_a_command() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = changes(folder.path());
    let servo = Stranger::start(&program, &[]);
    let process = servo.process();
    let words = "--begin changes:happens --duration 2s --limit 100% --json -";
    let of_process = with(folder.path(), &format!("monitor {process} {words}"), &[]).judged().json();
    let words = format!("prove {words} --thread servo --program");
    let of_command = with(folder.path(), &words, &[program.to_str().unwrap()]).judged().json();
    for document in [&of_process, &of_command] {
        conforms(document, "prove");
        for probe in ["loop", "execution", "response"] {
            let row = of(document, probe, "idle");
            assert_eq!(row["waits_with"], "begin changes!happens", "{document:#}");
            assert_eq!((&row["thread"]["name"], &row["period_from"]), (&"servo".into(), &"inferred".into()));
            // A mean of releases: of some that were late the last digits differ.
            let off = row["period_ns"].as_u64().unwrap().abs_diff(2_000_000);
            assert!(off <= 20_000, "{document:#}");
        }
        let row = of(document, "loop", "idle");
        let cycles = row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap();
        assert!((970..=1_011).contains(&cycles), "{document:#}");
        let due = "cycles of servo are due when the timer of clock_nanosleep (absolute, CLOCK_MONOTONIC) is";
        assert!(notes(document).contains(due), "{document:#}");
    }
}

#[test]
fn a_place_that_is_none_is_refused_in_one_line() {
    skip_if!(cannot_follow());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let process = servo.process();
    let refused = |words: &str| {
        let line = with(folder.path(), &format!("monitor {process} --duration 1s -o b {words}"), &[]).line();
        assert!(!folder.path().join("b").exists(), "something was left");
        line.replace(&process, "N")
    };
    for (words, line) in [
        ("--begin hapens", "cannot find hapens in process N: there is no such function; is happens meant?"),
        ("--begin usdt:a:b --end main", "cannot find usdt:a:b in process N: there is no such USDT probe; "),
        ("--begin usdt:a:b", "usdt:a:b is not a function and has no return; give --end"),
        (
            "--begin happens --end happens",
            "a cycle cannot begin and end at happens; give another place to --end",
        ),
        (
            "--begin a: ",
            "cannot use 'a:' for --begin: \"a:\" is not a place; give FUNCTION, LIBRARY:FUNCTION, ",
        ),
    ] {
        let told = refused(words.trim());
        assert!(told.starts_with(line), "{told}");
    }
    let told = refused("--begin main");
    assert!(
        told.contains("no thread reached changes!main; name a function that runs in each cycle"),
        "{told}"
    );
}

#[test]
fn a_monitor_that_is_killed_leaves_the_program_as_it_was() {
    skip_if!(cannot_follow());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let mapped = || {
        let maps = fs::read_to_string(format!("/proc/{}/maps", servo.0.id())).unwrap();
        let mut code = maps.lines().filter(|line| line.contains(" r-xp ") && line.ends_with("/changes"));
        code.next().map(str::to_string)
    };
    wait_for("the program", || mapped().is_some());
    let code = || {
        let line = mapped().unwrap();
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let mut bytes = vec![0; usize::try_from(number(to) - number(from)).unwrap()];
        let memory = fs::File::open(format!("/proc/{}/mem", servo.0.id())).unwrap();
        memory.read_exact_at(&mut bytes, number(from)).unwrap();
        bytes
    };
    let as_it_was = code();
    let process = servo.process();
    let mut monitor =
        command(folder.path(), &["monitor", &process, "--begin", "happens", "-q"]).spawn().unwrap();
    wait_for("the probe", || code() != as_it_was);
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    wait_for("the end of the probe", || code() == as_it_was);
    assert!(lives(servo.0.id()));
}

#[test]
fn a_command_is_proven_from_when_its_threads_are_there() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = changes(folder.path());
    let program = program.to_str().unwrap();
    let more = [program, "--", "late-begin"];
    let ran = with(folder.path(), "prove --duration 1s --limit 100% -o b --json - --program", &more);
    let document = ran.judged().json();
    let thread = &of(&document, "loop", "idle")["thread"];
    assert_eq!(thread["name"], "servo");
    assert!(!lives(thread["tid"].as_u64().unwrap() as u32), "the command still runs");
}

#[test]
fn a_command_dies_with_an_isolator_that_is_killed() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = changes(folder.path());
    let args = ["monitor", "-o", "run", "--command", program.to_str().unwrap()];
    let going = Going::run(folder.path(), &mut command(folder.path(), &args));
    going.wait_for_seconds(1);
    let children = going.descendants();
    let programs = bpf_programs(going.pid());
    assert!(!children.is_empty() && !programs.is_empty());
    going.signal(Signal::KILL);
    wait_for("the end of the command", || children.iter().all(|child| !lives(*child)));
    wait_for("the end of the kernel part", || programs.is_disjoint(&all_bpf_programs()));
}

#[test]
fn options_that_are_the_programs_own_are_refused_by_name() {
    let folder = folder();
    let refused = |words: &str, line: &str| with(folder.path(), words, &[]).refused(line);
    for (option, value) in [
        ("--cpus", "0"),
        ("--probe", "wakeup"),
        ("--policy", "fifo"),
        ("--priority", "3"),
        ("--timer", "timerfd"),
        ("--warm-up", "1s"),
        ("--isolate=clock", ""),
        ("--board", "raspberry-pi-4"),
    ] {
        let words = format!("prove --program 1 {option} {value}");
        let line = format!(
            "--program cannot be given together with {}; see isolator prove --help",
            option.split('=').next().unwrap()
        );
        refused(words.trim_end(), &line);
    }
    refused(
        "prove --program 1 --period 1ms,2ms",
        "several periods were given for one program; give the loop's own, or none",
    );
    refused(
        "prove --program 1 -- x",
        "cannot give arguments to process 1: it runs already; leave out what stands after --, or give the command's path",
    );
    refused(
        "prove --program ./nothing",
        "cannot start the program ./nothing: no such file or directory; give its path, and its arguments after it",
    );
    assert_eq!(with(folder.path(), "prove --thread servo", &[]).status, Some(1));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

/// The result of `monitor` for a program to which that happens after a second.
fn monitored(what: &str) -> Value {
    let folder = folder();
    let program = Stranger::start(changes(folder.path()), &[what]);
    let process = program.process();
    let args = ["monitor", &process, "--duration", "4s", "--limit", "100%", "-o", "run", "--json", "-"];
    let going = Going::run(folder.path(), &mut command(folder.path(), &args));
    going.wait_for_seconds(1);
    program.signal(Signal::USR1);
    let document = going.end().judged().json();
    conforms(&document, "prove");
    document
}

#[test]
fn a_program_that_changes_while_it_is_measured_is_evidence_of_what_it_did() {
    skip_if!(cannot_follow());
    // Of 4 s at 2 ms.
    const ALL: u64 = 2_000;
    let of_loop = |document: &Value| cycles(of(document, "loop", "idle"));
    let document = monitored("ends");
    assert!(notes(&document).contains("the program ended, and the row with it"), "{document:#}");
    assert!(of_loop(&document) < ALL, "{document:#}");

    let document = monitored("becomes");
    assert!(notes(&document).contains("which ended the row; the program goes on as sleep"), "{document:#}");
    assert!(of_loop(&document) < ALL, "{document:#}");

    let document = monitored("forks");
    assert!(accounts_for(&document, of(&document, "loop", "idle"), ALL), "{document:#}");

    let document = monitored("policy");
    let taints = document["taints"].to_string();
    assert!(taints.contains("the thread servo had SCHED_OTHER instead of SCHED_FIFO 40"), "{document:#}");

    let document = monitored("newcomer");
    let newcomer = "real-time threads that came later are not measured: newcomer (thread ";
    assert!(notes(&document).contains(newcomer), "{document:#}");

    let document = monitored("thread");
    assert!(notes(&document).contains("servo (thread "), "{document:#}");
    let rows = document["rows"].as_array().unwrap();
    let of_thread = |name: &str| rows.iter().find(|row| row["thread"]["name"] == name).unwrap();
    // A thread that is gone misses nothing, and the other one, of 4 ms, goes on.
    assert!(cycles(of_thread("servo")) < ALL, "{document:#}");
    assert!(accounts_for(&document, of_thread("other"), ALL / 2), "{document:#}");
}

#[test]
fn what_cannot_be_followed_is_refused_in_one_line() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = changes(folder.path());
    let refused = |process: &str, args: &[&str]| {
        let words = format!("prove --program {process} -o b");
        with(folder.path(), &words, args).line().replace(process, "N")
    };
    let busy = Stranger::start(&program, &["busy"]);
    assert_eq!(
        refused(&busy.process(), &[]),
        "cannot follow the process N: none of its 1 threads waited for anything 8 times; give its --period, or name a --thread"
    );
    let many = Stranger::start(&program, &["many"]);
    wait_for("500 threads", || fs::read_dir(format!("/proc/{}/task", many.0.id())).unwrap().count() >= 500);
    let line = refused(&many.process(), &[]);
    assert!(
        line.contains(" of its threads run loops; isolator measures at most 64; name some with --thread"),
        "{line}"
    );
    let brief = Stranger::start("sleep", &["0.3"]);
    let line = refused(&brief.process(), &[]);
    assert!(
        line.starts_with("cannot follow the process N: the process ended after ")
            && line.ends_with("before its loops were known; let it run for longer"),
        "{line}"
    );
    // A zombie: it was not waited for.
    let line = refused(&brief.process(), &[]);
    assert!(line.contains("the process ended after"), "{line}");
    assert!(!folder.path().join("b").exists(), "something was left");
    // All of them can be looked at by lint, and one of the many can be measured.
    let ran = with(folder.path(), "lint --duration 1s --json -", &[&many.process()]);
    assert_eq!(ran.status, Some(2), "{}", ran.stderr);
    assert!(ran.json()["threads"].as_array().unwrap().len() >= 500);
    let words = format!("monitor {} --thread servo --duration 1s --limit 100% --json -", many.process());
    assert_eq!(
        of(&with(folder.path(), &words, &[]).judged().json(), "loop", "idle")["thread"]["name"],
        "servo"
    );
}

#[test]
fn a_lack_of_permission_names_the_capability() {
    skip_if!(cannot_follow() || skipped(!installed("setpriv"), "it needs setpriv"));
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let without = |caps: &str, verb: &str| -> Ran {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--bounding-set", caps, "--inh-caps", caps, PROGRAM]).args([verb, &servo.process()]);
        setpriv.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap().into()
    };
    let line = |lacks: &str| {
        format!(
            "cannot watch a program's threads: this process lacks {lacks}; run as root, or with CAP_BPF and CAP_PERFMON"
        )
    };
    for verb in ["monitor", "lint"] {
        assert_eq!(without("-sys_admin,-bpf,-perfmon", verb).line(), line("CAP_BPF and CAP_PERFMON"));
        assert_eq!(without("-sys_admin,-bpf", verb).line(), line("CAP_BPF"));
        assert_eq!(without("-sys_admin,-perfmon", verb).line(), line("CAP_PERFMON"));
    }
    assert!(!folder.path().join("evidence").exists(), "something was left");
}

#[test]
fn a_process_of_another_namespace_is_followed_by_its_number_here_alone() {
    skip_if!(cannot_follow() || skipped(!installed("unshare"), "it needs unshare"));
    let folder = folder();
    let program = changes(folder.path());
    let program = program.to_str().unwrap();
    // From the outside the process has a number like any other.
    let container = Stranger::start("unshare", &["--pid", "--fork", "--kill-child", program]);
    let inside = || {
        let children = format!("/proc/{0}/task/{0}/children", container.0.id());
        fs::read_to_string(children).unwrap_or_default().trim().to_string()
    };
    wait_for("the process", || !inside().is_empty());
    let words = format!("monitor {} --duration 1s --limit 100% --json -", inside());
    let document = with(folder.path(), &words, &[]).judged().json();
    assert_eq!(of(&document, "loop", "idle")["thread"]["name"], "servo");
    // From the inside the kernel part knows it by another.
    for verb in ["monitor --quiet", "lint"] {
        let script = format!(
            "{program} & process=$!; $ISOLATOR {verb} $process; ended=$?; kill $process; exit $ended"
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--mount-proc", "sh", "-c", &script]).env("ISOLATOR", PROGRAM);
        let ran: Ran = unshare.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap().into();
        let line = ran.line();
        assert!(
            line.ends_with(
                "this program runs in a PID namespace (a container), and BPF reports the numbers of the first namespace; \
                 run isolator outside of the container, with the process number there"
            ),
            "{verb}: {line}"
        );
    }
}

#[test]
fn two_monitors_measure_the_same_program_at_once() {
    skip_if!(cannot_follow());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &[]);
    let process = servo.process();
    let start = |name: &str| {
        let args = ["monitor", &process, "--duration", "2s", "--limit", "100%", "-o", name, "--json", "-"];
        let mut command = command(folder.path(), &args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start("one"), start("two")];
    for child in both {
        let ran = Ran::from(child.wait_with_output().unwrap()).judged();
        let row = of(&ran.json(), "loop", "idle").clone();
        let cycles = row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap();
        assert!((980..=1_001).contains(&cycles), "{row:#}");
    }
}

#[test]
fn a_flight_of_eight_threads_keeps_little_and_whole_evidence() {
    skip_if!(cannot_follow());
    let folder = folder();
    let program = Stranger::start(changes(folder.path()), &["eight"]);
    let process = program.process();
    let args =
        ["monitor", &process, "--thread", "eight", "--flight", "--limit", "100%", "--threshold", "1ns"];
    let more = ["--duration", "20s", "-o", "run", "--json", "-"];
    let going = Going::run(folder.path(), &mut command(folder.path(), &[&args[..], &more].concat()));
    going.wait_for_seconds(8 * 3);
    // Every cycle is a spike here, so that all that has a bound comes to it: in 20 s one row keeps 100 of
    // 20,000 spikes. A long run that is late now and then takes less.
    let run = folder.path().join("run");
    let mut polls: Vec<LongRunPoll> = Vec::new();
    let mut most_kib_seen = 0;
    while !run.join("verdict.json").exists() {
        let Some(poll) = LongRunPoll::at(&going, &run) else { break };
        polls.push(poll);
        most_kib_seen = most_kib(going.pid()).saturating_sub(own_code_kib(going.pid())).max(most_kib_seen);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!((1..88 << 10).contains(&most_kib_seen), "{most_kib_seen} KiB without its own code");
    let most = |polls: &[LongRunPoll], of: fn(&LongRunPoll) -> u64| polls.iter().map(of).max().unwrap();
    assert!(most(&polls, |poll| poll.bundle) < 20 << 20, "{polls:?}");
    // Without files. A hundred bytes that each cycle leaves behind would be 16 MB.
    let (_, late) = polls.split_at(polls.len() / 2);
    let held_kib = most(late, |poll| poll.anonymous_kib);
    assert!((1..48 << 10).contains(&held_kib), "{held_kib} KiB");
    let document = going.end().judged().json();
    assert_eq!(document["missing"], serde_json::json!([]), "{document:#}");
    let manifest = read(&folder.path().join("run/manifest.json"));
    assert_eq!(manifest["asked"]["flight"], true);
    let rows = manifest["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8 * 3);
    let mut kept = 0;
    for row in rows.iter().filter(|row| row["probe"] == "loop") {
        let (seen, left_out) = (row["spikes"].as_u64().unwrap(), row["spikes_not_listed"].as_u64().unwrap());
        // Fewer than 100 where a busy machine let isolator look into few.
        assert!((1..=100).contains(&(seen - left_out)) && left_out > 0, "{row:#}");
        kept += seen - left_out;
    }
    let spikes = fs::read_to_string(folder.path().join("run/spikes.jsonl")).unwrap();
    let of_loops = spikes.lines().filter(|line| line.contains(r#""probe":"loop""#)).count();
    assert_eq!(of_loops as u64, kept);
}

/// A long run at one moment, in bytes but for its memory.
#[derive(Debug)]
struct LongRunPoll {
    /// Memory without the pages of files.
    anonymous_kib: u64,
    bundle: u64,
}

impl LongRunPoll {
    /// `None` where it has ended.
    fn at(going: &Going, run: &Path) -> Option<LongRunPoll> {
        let mut poll = LongRunPoll { anonymous_kib: kib(going.pid(), "RssAnon:")?, bundle: 0 };
        let folders = [run.to_path_buf(), run.join("series")];
        for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten()) {
            let length = entry.metadata().map_or(0, |file| if file.is_file() { file.len() } else { 0 });
            poll.bundle += length;
        }
        Some(poll)
    }
}

/// A field of a process' status; `None` where it has ended.
fn kib(process: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next())?.parse().ok()
}

/// The most memory that a process has had.
fn most_kib(process: u32) -> u64 {
    kib(process, "VmHWM:").unwrap_or(0)
}

/// The part that is pages of isolator's own file: 30 MB of a debug build, which are cached for all.
fn own_code_kib(process: u32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default();
    let (mut own_kib, mut is_own) = (0, false);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (name, size) = (words.next().unwrap(), words.next().and_then(|size| size.parse::<u64>().ok()));
        match name {
            "Rss:" if is_own => own_kib += size.unwrap(),
            "Anonymous:" if is_own => own_kib -= size.unwrap(),
            _ if !name.ends_with(':') => is_own = line.ends_with(PROGRAM),
            _ => {}
        }
    }
    own_kib
}
