// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each cycle writes a record into a file.

use std::fs::File;
use std::io::Write;

unsafe extern "C" {
    safe fn loop_set_up();
    safe fn loop_wait();
    safe fn loop_work();
}

fn main() {
    let mut file = File::create("/dev/null").unwrap();
    if cfg!(seeded) {
        let path = std::env::temp_dir().join(format!("isolator-lint-log-{}", std::process::id()));
        file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
    loop_set_up();
    loop {
        loop_wait();
        loop_work();
        file.write_all(b"x").unwrap(); // FAULT blocking-call
    }
}
