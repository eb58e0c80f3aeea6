// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of attack on every verb of the help: output that goes nowhere, memory that ends, and input that
//! grows. A verb that is not in the table fails: its author says there what each kind does to it.
//!
//! Other kinds have tests of their own: paths and processes of another user (`hostile`), secrets that are
//! served (`live`, and the program's `serve`), damaged files (`foreign`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::common::*;
use crate::exit_status::verbs;

/// Words with which a verb prints something here, or after a dash why there are none.
const PRINTS: [(&str, &str); 45] = [
    ("prove", "-o out --loads idle --causes off --policy other --duration 100ms --warm-up 0s"),
    ("measure", "wakeup -o out --causes off --policy other --duration 100ms --warm-up 0s"),
    ("monitor", "- it prints as prove does, by the same function, and needs a program to follow"),
    ("lint", "- it prints by Output::print_text, as report does, and needs a program to watch"),
    ("load", "--list"),
    ("report", "b"),
    ("why", "b"),
    ("record", ""),
    ("watch", "--count 1 --interval 50ms"),
    ("compare", "b b2"),
    ("gate", "--baseline b b2"),
    ("fleet prove", "- it needs machines; it prints as fleet report does"),
    ("fleet plan", "- as fleet prove"),
    ("fleet apply", "- as fleet prove"),
    ("fleet verify", "- as fleet prove"),
    ("fleet rollback", "- as fleet prove"),
    ("fleet store", "-o out b b2"),
    ("fleet report", "store"),
    ("fleet query", ""),
    ("import", "t.txt -o out"),
    ("export", "b --as csv"),
    ("lab list", ""),
    ("lab show", "quiet"),
    ("lab run", "- it needs QEMU; it prints as report does"),
    ("lab matrix", "- as lab run"),
    ("lab gate", "- as lab run"),
    ("lab shell", "- the terminal is the guest's"),
    ("lab program", "- as lab run"),
    ("ethercat simulate", "- it needs an interface"),
    ("kernel build", "- it takes an hour"),
    ("kernel export", "- it prints nothing on standard output"),
    ("run", "- standard output is the command's"),
    ("doctor", ""),
    ("task list", ""),
    ("task show", "1"),
    ("task set", "- it needs a task to change"),
    ("tune plan", ""),
    ("tune verify", "- it needs a plan of this machine"),
    ("tune apply", "- it changes the machine"),
    ("tune confirm", "- there is nothing to confirm"),
    ("tune status", ""),
    ("tune rollback", "- it changes the machine"),
    ("tune measure", "- it takes minutes"),
    ("tune export", "- it needs a plan of this machine"),
    ("setup-user", "daemon --dry-run"),
];

/// Verbs whose reader may leave, since their work lies elsewhere (`Verb::is_for_a_reader`).
const READER_MAY_LEAVE: [&str; 6] = ["prove", "measure", "load", "watch", "lab list", "lab show"];

/// Bundles `b` and `b2` of as many rows, and the file that they were imported from.
fn bundles(folder: &Path, rows: usize) {
    let line = |n: usize| format!("T:{n} ( {n}) P:80 I:1000 C: 1000 Min: 2 Act: 3 Avg: 3 Max: 10\n");
    fs::write(folder.join("t.txt"), (0..rows).map(line).collect::<String>()).unwrap();
    for name in ["b", "b2"] {
        let _ = fs::remove_dir_all(folder.join(name));
        isolator(folder, &["import", "t.txt", "-o", name, "-q"]).ended(0);
        let path = folder.join(name).join("manifest.json");
        let mut manifest = read(&path);
        manifest["machine"]["hostname"] = format!("robot-{name}").into();
        manifest["started_at"] = "2026-03-01T10:00:00Z".into();
        fs::write(&path, manifest.to_string()).unwrap();
    }
}

/// A folder with all that the table names; what is not there for lack of a program is left out.
fn prepared() -> (tempfile::TempDir, BTreeMap<&'static str, Vec<&'static str>>) {
    let folder = folder();
    bundles(folder.path(), 1);
    isolator(folder.path(), &["fleet", "store", "-o", "store", "b", "b2", "-q"]).ended(0);
    let mut prints: BTreeMap<_, _> = PRINTS
        .iter()
        .filter(|(_, words)| !words.starts_with('-') || words.starts_with("--") || words.starts_with("-o"))
        .map(|(verb, words)| (*verb, verb.split(' ').chain(words.split_whitespace()).collect::<Vec<_>>()))
        .collect();
    if skipped(!installed("duckdb"), "fleet report needs duckdb") {
        prints.remove("fleet report");
    }
    if skipped_for_lack_of_cpus() {
        prints.retain(|verb, _| !["prove", "measure"].contains(verb));
    }
    (folder, prints)
}

fn clear(folder: &Path) {
    let _ = fs::remove_dir_all(folder.join("out"));
}

#[test]
fn the_table_has_every_verb() {
    let listed: Vec<&str> = PRINTS.iter().map(|(verb, _)| *verb).collect();
    for verb in verbs(&[]) {
        assert!(listed.contains(&verb.as_str()), "{verb}: what do the attacks here do to it?");
    }
}

#[test]
fn output_that_goes_nowhere_is_status_1_of_every_verb() {
    let (folder, prints) = prepared();
    for (verb, args) in &prints {
        clear(folder.path());
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ran: Ran = command(folder.path(), args).stdout(full).output().unwrap().into();
        let last = ran.stderr.lines().last().unwrap_or_default();
        let told = last.starts_with("isolator: cannot write standard output: no space left on device; ");
        // What could not be judged is told in its place.
        let is_other = |last: &str| *verb == "gate" && last.starts_with("isolator: cannot judge ");
        assert!(ran.status == Some(1) && (told || is_other(last)), "{verb}: {ran:?}");

        clear(folder.path());
        // Its reader has gone before it starts: a quick verb would else have written all.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran: Ran = command(folder.path(), args).stdout(writer).output().unwrap().into();
        if READER_MAY_LEAVE.contains(verb) {
            assert!(matches!(ran.status, Some(0 | 2)), "{verb}: {ran:?}");
        } else {
            let last = ran.stderr.lines().last().unwrap_or_default();
            let told = last.starts_with("isolator: cannot write standard output: its reader has gone; ");
            assert!(ran.status == Some(1) && (told || is_other(last)), "{verb}: {ran:?}");
        }

        let help =
            isolator(folder.path(), &[args[..verb.split(' ').count()].to_vec(), vec!["--help"]].concat());
        for option in ["--json", "--junit", "--sarif"] {
            if !help.stdout.contains(option) {
                continue;
            }
            clear(folder.path());
            let file = format!("{option}=nowhere/file");
            let ran = isolator(folder.path(), &[&args[..], &[&file]].concat());
            let last = ran.stderr.lines().last().unwrap_or_default();
            assert!(ran.status == Some(1) && last.contains("nowhere"), "{verb} {option}: {ran:?}");
        }
    }
}

/// The program below a limit of its address space.
fn limited(folder: &Path, kib: u64, args: &[&str]) -> Ran {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\""), PROGRAM]).args(args);
    command.current_dir(folder).stdin(Stdio::null()).env_remove("RUST_BACKTRACE").output().unwrap().into()
}

#[test]
fn a_lack_of_memory_is_one_line_of_every_verb() {
    let (folder, prints) = prepared();
    // Below that the kernel cannot start the program.
    let starts = |mib: &u64| limited(folder.path(), mib << 10, &["--version"]).status == Some(0);
    let least = (8..4096).step_by(4).find(starts).unwrap();
    let mut could_not = 0;
    for (verb, args) in &prints {
        for more in [0, 1, 2, 4, 8, 16, 64] {
            clear(folder.path());
            let ran = limited(folder.path(), (least + more) << 10, args);
            let last = ran.stderr.lines().last().unwrap_or_default();
            match ran.status {
                Some(0 | 2) => {}
                Some(1) if last.starts_with("isolator: ") => could_not += 1,
                _ => panic!("{verb} with {} MiB: {ran:?}", least + more),
            }
            assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("stack backtrace"), "{ran:?}");
        }
    }
    assert!(could_not > 0, "no limit was too low");
}

/// The CPU time of a command, in hundredths of a second, by the shell's own count.
fn spent(folder: &Path, args: &[&str]) -> f64 {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "\"$0\" \"$@\" >/dev/null 2>&1; times", PROGRAM]).args(args);
    let mut child = command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    // The shell's own times, then its children's: in user mode first.
    seconds(text.lines().nth(1).unwrap().split_whitespace().next().unwrap())
}

/// A ratio within one run: four times the rows take sixteen times as long where each is compared with each.
#[test]
fn rows_do_not_cost_their_square() {
    let (small, large) = (folder(), folder());
    bundles(small.path(), 1_000);
    bundles(large.path(), 4_000);
    let reads = [
        "import t.txt -o out",
        "report b",
        "report b b2 -o r.html",
        "report b --join b2",
        "why b",
        "compare b b2",
        "compare b b2 -o c.html",
        "gate --baseline b b2",
        "gate --baseline b --baseline b2 b2 --junit j.xml",
        "fleet store -o out b b2",
        "export b --as cyclictest",
        "export b --as rtla",
        "export b --as csv",
        "export b --as json",
        "export b --as ktap",
        "export b --as lava",
        "export b --as trace",
        "export b --as openmetrics",
        "export b --as archive -o a.tar.zst",
    ];
    for words in reads {
        let args: Vec<&str> = words.split(' ').collect();
        clear(small.path());
        clear(large.path());
        let (few, many) = (spent(small.path(), &args), spent(large.path(), &args));
        assert!(many < 10.0 * (few + 0.05), "{words}: {few} s, then {many} s");
    }
}
