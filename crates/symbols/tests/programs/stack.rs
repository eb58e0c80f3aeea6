// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls `capture` through functions of Rust, and prints its registers and stack as `capture.h` does; its
//! callers it prints by name.

use std::arch::asm;
use std::io::Write;

/// The number of bytes of the stack that are printed.
const STACK_BYTES: usize = 4_096;

mod servo {
    pub trait Step {
        fn step(&self);
    }

    pub struct Loop(pub usize);

    impl Step for Loop {
        #[inline(never)]
        fn step(&self) {
            super::capture();
            println!("number {}", self.0);
        }
    }
}

#[inline(never)]
fn capture() {
    let (ip, sp, bp): (usize, usize, usize);
    let mut lr = 0_usize;
    // SAFETY: reads registers only.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp);
        lr += 0;
    }
    // SAFETY: reads registers only.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("adr {}, .", "mov {}, sp", "mov {}, x29", "mov {}, x30", out(reg) ip, out(reg) sp, out(reg) bp, out(reg) lr);
    }
    // SAFETY: more than this is above the stack pointer, in the frame of `main`.
    let stack = unsafe { std::slice::from_raw_parts(sp as *const u8, STACK_BYTES) }.to_vec();
    let hex: String = stack.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("ip {ip:x}\nsp {sp:x}\nbp {bp:x}\nlr {lr:x}\nstack {hex}");
}

#[inline(never)]
fn each(steps: &[Box<dyn servo::Step>]) {
    steps.iter().for_each(|step| step.step());
}

fn wait_for_line(state: &str) {
    println!("{state}");
    std::io::stdout().flush().expect("standard output is a pipe");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("standard input is a pipe");
}

fn main() {
    let room = std::hint::black_box([1_u8; STACK_BYTES]);
    wait_for_line("started");
    each(&[Box::new(servo::Loop(room.len()))]);
    wait_for_line("ready");
    std::hint::black_box(&room);
}
