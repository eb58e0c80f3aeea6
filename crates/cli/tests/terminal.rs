// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a person sees: help, a table that moves on a terminal only, in colour only where that is wanted, and
//! nothing at all with --quiet.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::*;

/// What the program prints on a terminal of so many columns; standard output and error are one there.
fn on_a_terminal(folder: &Path, columns: usize, environment: &[(&str, &str)], args: &[&str]) -> String {
    let quoted = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
    let script = format!("stty cols {columns} rows 30; exec '{PROGRAM}' {quoted}");
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &script, "/dev/null"]).current_dir(folder);
    command.stdin(Stdio::null()).env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command.envs(environment.iter().copied());
    let ran: Ran = command.output().unwrap().into();
    ran.judged().stdout
}

fn skipped_for_lack_of_a_terminal() -> bool {
    skipped_for_lack_of_cpus() || skipped(!installed("script"), "it needs script, of util-linux")
}

/// The text without escape sequences, and the final letter of each of them.
fn split(text: &str) -> (String, Vec<char>) {
    let (mut plain, mut escapes) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        escapes.extend(after[end..].chars().next());
        rest = &after[end + 1..];
    }
    plain.push_str(rest);
    (plain, escapes)
}

#[test]
fn the_moving_table_fits_every_width_and_makes_room_for_the_final_one() {
    if skipped_for_lack_of_a_terminal() {
        return;
    }
    let folder = folder();
    for columns in [100, 60, 40] {
        let name = format!("b{columns}");
        let text = on_a_terminal(folder.path(), columns, &[], &short(&name, &["--loads", "idle,timers"]));
        let last = text.rfind("\u{1b}[J").unwrap();
        let (moving, last) = (&text[..last], &text[last..]);
        let (plain, escapes) = split(moving);
        for line in plain.split(['\r', '\n']) {
            assert!(line.chars().count() < columns, "{columns} columns: {line}");
        }
        assert!(plain.contains("▸ idle") && plain.contains("▸ timers") && plain.contains('━'), "{plain}");
        assert!(plain.contains(" s left"), "{plain}");
        assert!(escapes.contains(&'A') && escapes.contains(&'m'), "it moves, in colour: {escapes:?}");
        assert!(!last.contains('▸') && last.contains("==> "), "{last}");
    }
}

#[test]
fn one_probe_alone_shows_a_line_a_thread() {
    if skipped_for_lack_of_a_terminal() {
        return;
    }
    let folder = folder();
    let mut args = short("b", &["--period", "1ms,2ms"]);
    args.splice(0..1, ["measure", "wakeup"]);
    let (plain, _) = split(&on_a_terminal(folder.path(), 60, &[], &args));
    assert!(plain.contains("T: 0 ") && plain.contains("T: 1 ") && plain.contains("Max:"), "{plain}");
    let live = plain.split("probe ").next().unwrap();
    // The last lines stay, whole as cyclictest's.
    assert!(live.contains(" P:") && live.contains("I:2000"), "{live}");
}

#[test]
fn without_colour_the_table_moves_all_the_same() {
    if skipped_for_lack_of_a_terminal() {
        return;
    }
    let folder = folder();
    let (plain, escapes) = split(&on_a_terminal(folder.path(), 80, &[("NO_COLOR", "1")], &short("b", &[])));
    assert!(plain.contains('▸') && !escapes.contains(&'m') && escapes.contains(&'A'), "{escapes:?}");
}

#[test]
fn a_terminal_that_only_prints_gets_plain_lines() {
    if skipped_for_lack_of_a_terminal() {
        return;
    }
    let folder = folder();
    let (plain, escapes) = split(&on_a_terminal(folder.path(), 80, &[("TERM", "dumb")], &short("b", &[])));
    assert!(escapes.is_empty() && plain.contains("idle: ") && plain.contains("==> "), "{escapes:?} {plain}");
}

#[test]
fn quiet_prints_nothing() {
    if skipped_for_lack_of_a_terminal() {
        return;
    }
    let folder = folder();
    assert_eq!(on_a_terminal(folder.path(), 80, &[], &short("a", &["--quiet"])), "");
    let ran = isolator(folder.path(), &short("b", &["--quiet"])).judged();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let ran = isolator(folder.path(), &["report", "a", "b", "--quiet"]).judged();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn without_a_terminal_a_line_a_row_is_all_that_comes_before_the_table() {
    if skipped_for_lack_of_cpus() {
        return;
    }
    let folder = folder();
    let ran = isolator(folder.path(), &short("b", &["--loads", "idle,timers"])).judged();
    let rows = ran.stderr.lines().map(|line| line.split(": ").next().unwrap()).collect::<Vec<_>>();
    assert_eq!(rows, ["idle", "timers"], "{ran:#?}");
    assert!(!(ran.stdout + &ran.stderr).contains('\u{1b}'));
}

#[test]
fn help_of_every_verb_fits_eighty_columns() {
    let folder = folder();
    let verbs = ["prove", "measure", "load", "report", "compare", "import", "export", "run"];
    for verb in verbs.iter().map(|verb| vec![*verb, "--help"]).chain([vec!["--help"]]) {
        let mut command = command(folder.path(), &verb);
        let ran: Ran = command.env("COLUMNS", "80").output().unwrap().into();
        let text = ran.ended(0).stdout;
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{verb:?}: {line}");
        }
    }
}
