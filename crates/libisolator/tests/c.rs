// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library as C and C++ programs meet it: linked, run, and asked for what it refuses.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::{compile, here, shared};

fn run(program: &Path, args: &[&str]) -> (Output, String) {
    let output = Command::new(program).args(args).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, said)
}

/// Builds and runs a program that prints what is not as it should be.
#[track_caller]
fn is_silent(source: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&here(source), folder.path()) else { return };
    let (output, said) = run(&program, &[]);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
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
fn what_cannot_be_is_refused_with_a_number_and_a_line() {
    is_silent("tests/refusals.c");
}

#[test]
fn a_second_call_during_a_poll_is_refused() {
    is_silent("tests/reentry.c");
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
    is_silent("tests/guards.cpp");
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

/// Runs one of the misuses, built once for all tests.
#[track_caller]
fn misuse(name: &str) {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(folder).unwrap();
        compile(&here("tests/misuses.c"), folder)
    };
    let Some(program) = PROGRAM.get_or_init(build) else { return };
    let (output, said) = run(program, &[name]);
    match output.status.code() {
        Some(77) => println!("skipped: {said}"),
        status => assert_eq!((status, said.as_str()), (Some(0), ""), "{name}"),
    }
}

#[test]
fn a_counter_value_becomes_a_time_of_the_clock() {
    misuse("a-time");
}

#[test]
fn a_cycle_before_its_due_time_is_refused() {
    misuse("next-due");
}

#[test]
fn memory_stays_locked_until_the_last_undo() {
    misuse("set-ups-of-two-threads");
}

#[test]
fn an_undo_by_another_thread_is_refused() {
    misuse("undo-elsewhere");
}

#[test]
fn a_small_stack_is_prefaulted_as_far_as_it_goes() {
    misuse("small-stacks");
}

#[test]
fn the_heap_of_any_thread_is_prefaulted() {
    misuse("heap-of-a-thread");
}

#[test]
fn a_failed_call_stores_null_which_can_be_ended() {
    misuse("handles-after-failures");
}

#[test]
fn the_text_of_a_failure_is_never_freed() {
    misuse("text-of-a-failure");
}

#[test]
fn a_child_has_no_part_in_its_parents_objects() {
    misuse("children");
}

#[test]
fn posts_of_a_signal_handler_tear_nothing() {
    misuse("signal-handlers");
}

#[test]
fn a_child_of_a_signal_handler_cannot_post() {
    misuse("forks-in-handlers");
}

#[test]
fn posts_of_two_threads_are_refused_where_checked() {
    misuse("two-threads");
}

#[test]
fn an_exception_leaves_through_the_library() {
    is_silent("tests/throwing.cpp");
}
