// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library as C and C++ programs meet it: linked, run, and asked for what it refuses.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{compile, here, shared};

fn run(program: &Path, args: &[&str]) -> (Output, String) {
    let output = Command::new(program).args(args).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, said)
}

#[test]
fn a_program_finds_nothing_wrong() {
    for (sentence, source) in [
        ("an impossible request is refused with a number and a line", "tests/refusals.c"),
        ("a second call during a poll is refused", "tests/reentry.c"),
        ("each C++ guard holds and lets go", "tests/guards.cpp"),
        ("an exception leaves through the library", "tests/throwing.cpp"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(&here(source), folder.path()) else { return };
        let (output, said) = run(&program, &[]);
        assert!(output.status.success() && said.is_empty(), "{sentence}: {said}");
    }
}

#[test]
fn an_example_runs_to_its_end() {
    for (name, source, cycles, words) in [
        ("no message is lost", "examples/loop.c", "200", "200 cycles, the last due at "),
        ("the update loop in C++ reaches its position", "examples/update.cpp", "2000", "at 1\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(&here(source), folder.path()) else { return };
        let (output, said) = run(&program, &[cycles]);
        assert!(output.status.success() && said.contains(words), "{name}: {said}");
    }
}

#[test]
fn the_loop_of_the_page_compiles_and_runs() {
    let page = std::fs::read_to_string(here("../../docs/reference/library.md")).unwrap();
    let source = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("servo.c"), source).unwrap();
    let Some(program) = compile(&folder.path().join("servo.c"), folder.path()) else { return };
    let (output, said) = run(&program, &[]);
    assert!(output.status.success(), "{said}");
}

#[test]
fn the_example_is_clean_under_valgrind() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("examples/loop.c"), folder.path()) else { return };
    let valgrind = Command::new("valgrind")
        .args(["-q", "--error-exitcode=9", "--leak-check=full"])
        .arg(program)
        .arg("20")
        .output();
    match valgrind {
        Ok(output) => {
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => println!("skipped: no valgrind here: {error}"),
    }
}

#[test]
fn a_loop_takes_no_page_fault_after_its_set_up() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("tests/faults.c"), folder.path()) else { return };
    let (output, said) = run(&program, &[]);
    match output.status.code() {
        Some(77) => println!("skipped: {said}"),
        status => assert_eq!((status, said.as_str()), (Some(0), "0 page faults\n")),
    }
}

#[test]
fn a_preloaded_session_that_is_refused_ends_the_program_and_without_the_variable_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = shared(folder.path()) else { return };
    let shell = |names: Option<&str>, script: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .env("LD_PRELOAD", &library)
            .envs(names.map(|names| ("ISOLATOR_SESSION", names)));
        let output = shell.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(shell(None, "exit 7"), (Some(7), String::new()));
    let (status, said) = shell(Some("everything"), "exit 7");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.starts_with("isolator: cannot isolate with 'everything'"), "{said}");
    if !Path::new("/dev/isolator").exists() {
        let (status, said) = shell(Some("default"), "exit 7");
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("boot a kernel with the kernel part"), "{said}");
    }
}

#[test]
fn a_misuse_is_refused_or_survived() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("tests/misuses.c"), folder.path()) else { return };
    for (sentence, name) in [
        ("a counter value becomes a time of the clock", "a-time"),
        ("a cycle before its due time is refused", "next-due"),
        ("memory stays locked until the last undo", "set-ups-of-two-threads"),
        ("an undo by another thread is refused", "undo-elsewhere"),
        ("a small stack is prefaulted as far as it goes", "small-stacks"),
        ("the heap of any thread is prefaulted", "heap-of-a-thread"),
        ("a failed call stores null which can be ended", "handles-after-failures"),
        ("the text of a failure is never freed", "text-of-a-failure"),
        ("a child has no part in its parents objects", "children"),
        ("posts of a signal handler tear nothing", "signal-handlers"),
        ("a child of a signal handler cannot post", "forks-in-handlers"),
        ("posts of two threads are refused where checked", "two-threads"),
    ] {
        let (output, said) = run(&program, &[name]);
        match output.status.code() {
            Some(77) => println!("skipped: {sentence}: {said}"),
            status => assert_eq!((status, said.as_str()), (Some(0), ""), "{sentence}"),
        }
    }
}
