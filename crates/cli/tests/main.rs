// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of the program, in one binary: it is linked once, and a test that waits leaves its CPU to
//! another. One file alone: `cargo test --package isolator --test all -- json::`.

/// Ends a test on a machine that lacks something it needs. The condition has printed the reason.
macro_rules! skip_if {
    ($lacks:expr) => {
        if $lacks {
            return;
        }
    };
}

mod advice;
mod agreement;
mod attacks;
mod bad_files;
mod bad_input;
mod capabilities;
mod command;
mod common;
mod cycles;
mod doctor;
mod documents;
mod ending;
mod ethercat;
mod exit_status;
mod fleet;
mod forbidden;
mod foreign;
mod gate;
mod granted;
mod guests;
mod guide;
mod hostile;
mod integrations;
mod json;
mod judge;
mod kept;
mod kernel;
mod kills;
mod lab;
mod lint;
mod live;
mod monitor;
mod on_spike;
mod options;
mod program;
mod prometheus;
mod recorded;
mod response;
mod setup_user;
mod sources;
mod structure;
mod task;
mod terminal;
mod tune_change;
mod tune_export;
mod tune_plan;
mod types;
mod uses;
mod verdict;
mod watch;
mod why;
