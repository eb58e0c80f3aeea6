// SPDX-License-Identifier: MIT OR Apache-2.0
//! Some cycles start a process.

use std::process::{Command, Stdio};

unsafe extern "C" {
    safe fn loop_set_up();
    safe fn loop_wait();
    safe fn loop_work();
}

fn main() {
    let mut count = 0u64;
    loop_set_up();
    loop {
        loop_wait();
        loop_work();
        count += 1;
        if cfg!(seeded) && count % 64 == 0 {
            let _ = Command::new("true").stdin(Stdio::null()).status(); // FAULT fork
        }
    }
}
