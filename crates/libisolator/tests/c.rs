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
fn the_example_runs_and_no_message_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("examples/loop.c"), folder.path()) else { return };
    let (output, said) = run(&program, &["200"]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("200 cycles, the last due at "), "{said}");
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
fn what_cannot_be_is_refused_with_a_number_and_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("tests/refusals.c"), folder.path()) else { return };
    let (output, said) = run(&program, &[]);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
}

#[test]
fn a_second_call_during_a_poll_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("tests/reentry.c"), folder.path()) else { return };
    let (output, said) = run(&program, &[]);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
}

#[test]
fn the_update_loop_in_cpp_reaches_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("examples/update.cpp"), folder.path()) else { return };
    let (output, said) = run(&program, &["2000"]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("at 1\n"), "{said}");
}

#[test]
fn each_cpp_guard_holds_and_lets_go() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here("tests/guards.cpp"), folder.path()) else { return };
    let (output, said) = run(&program, &[]);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
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
        assert!(said.contains("boot a kernel with the isolator"), "{said}");
    }
}
