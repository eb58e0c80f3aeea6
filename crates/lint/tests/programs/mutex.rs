// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state is shared with a thread that logs it: under a mutex, or else as an atomic. The lock is held so
//! long that both meet: a free one is taken without a system call, and is not seen.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    safe fn loop_set_up();
    safe fn loop_wait();
    safe fn loop_work();
}

static SHARED: Mutex<u64> = Mutex::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

fn main() {
    std::thread::spawn(|| {
        loop {
            let mut shared = SHARED.lock().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
            *shared += 1;
            drop(shared);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    loop_set_up();
    loop {
        loop_wait();
        if cfg!(seeded) {
            *SHARED.lock().unwrap() += 1; // FAULT lock-without-inheritance
        }
        COUNT.fetch_add(1, Ordering::Relaxed);
        loop_work();
    }
}
