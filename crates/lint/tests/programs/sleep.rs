// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop sleeps for a time.

use std::time::Duration;

unsafe extern "C" {
    safe fn loop_set_up();
    safe fn loop_wait();
    safe fn loop_work();
}

fn main() {
    loop_set_up();
    loop {
        if cfg!(seeded) {
            std::thread::sleep(Duration::from_millis(2)); // FAULT relative-sleep
        } else {
            loop_wait();
        }
        loop_work();
    }
}
