// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator run`: what the command really gets, read from its own `/proc`.

use crate::common::*;
use machine::CpuSet;

/// Policy and priority of the process that prints its `/proc/self/stat`.
fn policy(stat: &str) -> (u32, u32) {
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ').collect::<Vec<_>>();
    // Fields 40 and 41 of proc_pid_stat(5); the first after the name is the third.
    (fields[41 - 3].parse().unwrap(), fields[40 - 3].parse().unwrap())
}

fn run(args: &[&str]) -> Ran {
    isolator(folder().path(), &[&["run"], args].concat())
}

const STAT: [&str; 3] = ["--", "cat", "/proc/self/stat"];

/// A child of the command, and then itself no more.
const CHILD: [&str; 4] = ["--", "sh", "-c", "cat /proc/self/stat; true"];

#[test]
fn the_command_runs_on_the_cpus_and_with_the_policy_asked_for() {
    skip_if!(skipped_for_lack_of_permission() || skipped_for_lack_of_cpus());
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..1024).rev().find(|cpu| cpus.is_set(*cpu)).unwrap().to_string();
    let args = ["--cpus", &cpu, "--priority", "50", "--", "cat", "/proc/self/stat", "/proc/self/status"];
    let ran = run(&args).ended(0);
    assert_eq!(policy(ran.stdout.lines().next().unwrap()), (1, 50), "SCHED_FIFO 50");
    let allowed = ran.stdout.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
    assert_eq!(allowed.unwrap().parse::<CpuSet>().unwrap().to_string(), cpu);
    assert_eq!(ran.stderr, "", "it says nothing of its own");

    assert_eq!(
        policy(&run(&[&["--policy", "rr", "--priority", "7"], &STAT[..]].concat()).ended(0).stdout),
        (2, 7)
    );
}

#[test]
fn children_are_ordinary_processes_only_where_that_is_asked() {
    skip_if!(skipped_for_lack_of_permission());
    assert_eq!(policy(&run(&CHILD).ended(0).stdout), (1, 80));
    assert_eq!(policy(&run(&[&["--reset-on-fork"], &CHILD[..]].concat()).ended(0).stdout), (0, 0));
}

#[test]
fn ordinary_policies_need_no_permission() {
    for (name, number) in [("other", 0), ("batch", 3), ("idle", 5)] {
        assert_eq!(
            policy(&run(&[&["--policy", name], &STAT[..]].concat()).ended(0).stdout),
            (number, 0),
            "{name}"
        );
    }
}

#[test]
fn a_deadline_is_granted_or_the_line_says_why_not() {
    let ran = run(&[&["--policy", "deadline", "--runtime", "100us", "--period", "10ms"], &STAT[..]].concat());
    if ran.status == Some(0) {
        assert_eq!(policy(&ran.stdout).0, 6, "SCHED_DEADLINE");
    } else {
        let line = ran.line();
        assert!(line.starts_with("cannot set SCHED_DEADLINE 100000:10000000:10000000 ns: "), "{line}");
    }
    let backwards = run(&["--policy", "deadline", "--runtime", "2ms", "--deadline", "1ms", "--", "true"]);
    let line = backwards.line();
    assert!(line.starts_with("cannot set SCHED_DEADLINE 2000000:1000000:1000000 ns: "), "{line}");
}

#[test]
fn the_exit_status_is_the_commands() {
    let other = |rest: &[&str]| run(&[&["--policy", "other", "--"], rest].concat());
    other(&["true"]).ended(0);
    other(&["sh", "-c", "exit 7"]).ended(7);
    assert_eq!(other(&["sh", "-c", "kill -9 $$"]).status, None, "its signal is, too");
    assert_eq!(
        other(&["echo", "--json", "-", "a b"]).stdout,
        "--json - a b\n",
        "its arguments stay as they are"
    );
}

#[test]
fn a_command_that_cannot_be_run_is_refused() {
    run(&["--policy", "other", "--", "/no-such-program"])
        .refused("cannot run /no-such-program: no such file or directory; check the command after --");
    run(&["--policy", "other", "--", "/"])
        .refused("cannot run /: permission denied; check the command after --");
    run(&["--policy", "other"]).refused("isolator run lacks <COMMAND>...; see isolator run --help");
    run(&["--policy", "fif", "--", "true"])
        .refused("cannot use policy 'fif': there is none of that name; did you mean fifo?");
}

#[test]
fn each_step_is_said_where_that_is_asked() {
    let cpus = std::fs::read_to_string("/proc/self/status").unwrap();
    let cpus = cpus.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap().to_string();
    let ran = run(&["--policy", "other", "--cpus", &cpus, "--verbose", "--", "true"]).ended(0);
    let steps = ran.stderr.lines().skip(1).collect::<Vec<_>>();
    assert_eq!(
        steps,
        [format!("isolator: runs on cpus {cpus}"), "isolator: runs with SCHED_OTHER".to_string()]
    );
}

#[test]
fn a_session_that_cannot_be_is_refused_before_the_command_runs() {
    let refused = |isolate: &str, command: &str| {
        run(&["--isolate=".to_string() + isolate, "--".into(), command.into()].each_ref().map(String::as_str))
            .line()
    };
    let unknown = refused("everything", "true");
    assert!(unknown.contains("choose from default, clock, resched, ipi, ktlb, exclusive"), "{unknown}");
    let absent = refused("default", "no-such-program");
    assert_eq!(
        absent,
        "cannot isolate no-such-program: no such file or directory; check the command after --"
    );
    let known = [
        "libisolator.so is not beside this one; make lib, or make install-lib",
        "boot a kernel with the kernel part",
    ];
    if !std::path::Path::new("/dev/isolator").exists() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made").display().to_string();
        let nothing = run(&["--isolate=default", "--", "touch", &made]).line();
        assert!(known.iter().any(|known| nothing.contains(known)), "{nothing}");
        assert!(!std::path::Path::new(&made).exists());
    }
}
