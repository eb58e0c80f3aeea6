// SPDX-License-Identifier: MIT OR Apache-2.0
//! Screens: help, a table that moves on a terminal only, in colour only where that is wanted, and
//! nothing at all with --quiet.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::*;

/// The program's output on a terminal of so many columns and 24 lines; standard output and error are one
/// there.
fn on_a_terminal(folder: &Path, columns: usize, environment: &[(&str, &str)], args: &[&str]) -> String {
    let quoted = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
    let script = format!("stty cols {columns} rows 24; exec '{PROGRAM}' {quoted}");
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
    skip_if!(skipped_for_lack_of_a_terminal());
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
fn the_verdict_stays_in_sight_however_many_rows_there_are() {
    skip_if!(skipped_for_lack_of_a_terminal());
    let folder = folder();
    let periods = (5..21).map(|n| format!("{n}ms")).collect::<Vec<_>>().join(",");
    let screen = |args: &[&str]| {
        let text = on_a_terminal(folder.path(), 80, &[], args);
        split(text.rsplit("\u{1b}[J").next().unwrap()).0
    };
    let last = screen(&short("b", &["--period", &periods]));
    let text = &last[last.find("==> ").unwrap()..];
    assert!(text.lines().count() < 24, "{text}");
    assert!(text.contains(": --verbose shows all") && text.contains("Report: b/report.html"), "{text}");
    let whole = screen(&["report", "b", "--verbose"]);
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("wakeup ")).count();
    assert!(rows(&whole) == 16 && rows(text) < 16, "{whole}");
    // A file has them all.
    assert_eq!(rows(&isolator(folder.path(), &["report", "b"]).judged().stdout), 16);
}

#[test]
fn one_probe_alone_shows_a_line_a_thread() {
    skip_if!(skipped_for_lack_of_a_terminal());
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
    skip_if!(skipped_for_lack_of_a_terminal());
    let folder = folder();
    let (plain, escapes) = split(&on_a_terminal(folder.path(), 80, &[("NO_COLOR", "1")], &short("b", &[])));
    assert!(plain.contains('▸') && !escapes.contains(&'m') && escapes.contains(&'A'), "{escapes:?}");
}

#[test]
fn a_terminal_that_only_prints_gets_plain_lines() {
    skip_if!(skipped_for_lack_of_a_terminal());
    let folder = folder();
    let (plain, escapes) = split(&on_a_terminal(folder.path(), 80, &[("TERM", "dumb")], &short("b", &[])));
    assert!(escapes.is_empty() && plain.contains("idle: ") && plain.contains("==> "), "{escapes:?} {plain}");
}

#[test]
fn quiet_prints_nothing() {
    skip_if!(skipped_for_lack_of_a_terminal());
    let folder = folder();
    assert_eq!(on_a_terminal(folder.path(), 80, &[], &short("a", &["--quiet"])), "");
    let ran = isolator(folder.path(), &short("b", &["--quiet"])).judged();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let ran = isolator(folder.path(), &["report", "a", "b", "--quiet"]).judged();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn without_a_terminal_a_line_a_row_is_all_that_comes_before_the_table() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let ran = isolator(folder.path(), &short("b", &["--loads", "idle,timers"])).judged();
    let rows = ran.stderr.lines().map(|line| line.split(": ").next().unwrap()).collect::<Vec<_>>();
    assert_eq!(rows, ["idle", "timers"], "{ran:#?}");
    assert!(!(ran.stdout + &ran.stderr).contains('\u{1b}'));
}

/// Two screens of 24 lines, and the prompt.
const TWO_SCREENS: usize = 47;

/// The help of `words` at 80 columns.
fn help(folder: &Path, words: &[&str]) -> String {
    let ran: Ran = command(folder, words).env("COLUMNS", "80").output().unwrap().into();
    ran.ended(0).stdout
}

/// The verbs below a help's "Commands:".
fn verbs(help: &str) -> Vec<String> {
    let (_, below) = help.split_once("\nCommands:\n").unwrap_or_default();
    let lines = below.lines().take_while(|line| !line.is_empty());
    let first = lines.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = first.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help");
    names.map(str::to_string).collect()
}

#[test]
fn help_of_every_verb_fits_two_screens_of_eighty_columns() {
    let folder = folder();
    let mut left = vec![Vec::new()];
    let mut seen = 0;
    while let Some(words) = left.pop() {
        let asked: Vec<&str> = words.iter().map(String::as_str).collect();
        let short = help(folder.path(), &[&asked[..], &["--help"]].concat());
        let whole = help(folder.path(), &[&["help"], &asked[..]].concat());
        for line in short.lines().chain(whole.lines()) {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
        let lines = short.lines().count();
        assert!(lines <= TWO_SCREENS, "{words:?}: {lines} lines\n{short}");
        left.extend(verbs(&short).into_iter().map(|verb| [&words[..], &[verb]].concat()));
        seen += 1;
    }
    assert!(seen > 40, "{seen} verbs");
    // What one screen leaves out is not lost.
    let (short, whole) = (help(folder.path(), &["prove", "-h"]), help(folder.path(), &["help", "prove"]));
    assert!(short.contains("isolator help prove") && !short.contains("--on-spike"), "{short}");
    assert!(whole.contains("--on-spike") && whole.contains("--board"), "{whole}");
}
