// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of the program, in one binary: it is linked once, and a test that waits leaves its CPU to another. One file alone:
//! `cargo test --package isolator --test all -- json::`.

mod advice;
mod agreement;
mod bad_files;
mod bad_input;
mod command;
mod common;
mod doctor;
mod ending;
mod ethercat;
mod fleet;
mod forbidden;
mod foreign;
mod gate;
mod granted;
mod guests;
mod json;
mod kernel;
mod kills;
mod lab;
mod monitor;
mod options;
mod prometheus;
mod response;
mod structure;
mod task;
mod terminal;
mod tune_change;
mod tune_plan;
mod verdict;
mod watch;
mod why;

#[test]
fn each_file_of_tests_is_named_here() {
    let entries = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let here = include_str!("main.rs");
    for name in names.filter_map(|name| name.strip_suffix(".rs").map(str::to_string)) {
        assert!(name == "main" || here.contains(&format!("mod {name};")), "tests/main.rs lacks: mod {name};");
    }
}
