// SPDX-License-Identifier: MIT OR Apache-2.0
//! The example as its readers run it.

use std::process::Command;

#[test]
fn the_loop_loses_no_message_and_takes_no_page_fault_once_its_memory_is_locked() {
    let run = ["run", "--quiet", "--locked", "--package", "isolator-rt", "--example", "loop", "--", "300"];
    let output = Command::new(env!("CARGO")).args(run).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("300 positions logged"), "{said}");
    if said.contains("memory locked") {
        assert!(said.lines().any(|line| line == "0 page faults in the loop"), "{said}");
    } else {
        println!("skipped the page faults: {said}");
    }
}
