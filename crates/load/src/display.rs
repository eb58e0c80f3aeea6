// SPDX-License-Identifier: MIT OR Apache-2.0
//! A display in memory for a rendering program, where there is none: Xvfb, run by ourselves.
//!
//! The usual wrapper `xvfb-run` is a shell script that leaves its folder behind when it is terminated.
#![forbid(unsafe_code)]

use std::fs;

use crate::figures::FigureSource;
use crate::part::LoadProgram;

/// The display server: it chooses a free display and prints its number. It listens to no network, as is its
/// default.
pub fn part(program: &str) -> LoadProgram {
    let command = [program, "-displayfd", "1", "-screen", "0", "1280x1024x24", "-noreset"];
    LoadProgram {
        name: "Xvfb".to_string(),
        command: command.map(String::from).to_vec(),
        environment: Vec::new(),
        is_in_folder: true,
        source: FigureSource::Display,
    }
}

/// The display's number, where a line of the server's output is one.
pub fn number(line: &str) -> Option<u32> {
    line.trim().parse().ok()
}

/// Removes what a killed server `pid` left of display `number`.
pub fn clean(number: u32, pid: u32) {
    let lock = format!("/tmp/.X{number}-lock");
    let held_by = untrusted::text(&lock).ok().and_then(|text| text.trim().parse::<u32>().ok());
    if held_by == Some(pid) {
        let _ = fs::remove_file(format!("/tmp/.X11-unix/X{number}"));
        let _ = fs::remove_file(lock);
    }
}
