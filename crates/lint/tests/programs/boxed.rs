// SPDX-License-Identifier: MIT OR Apache-2.0
//! A message is made on the heap in each cycle.

unsafe extern "C" {
    safe fn loop_set_up();
    safe fn loop_wait();
    safe fn loop_work();
}

fn main() {
    let mut kept = [0u64; 8];
    loop_set_up();
    loop {
        loop_wait();
        loop_work();
        if cfg!(seeded) {
            let message = std::hint::black_box(vec![1u64; 8]); // FAULT allocation
            kept[0] += message[0];
            drop(message); // FAULT allocation
        }
        kept[1] += 1;
        std::hint::black_box(&kept);
    }
}
