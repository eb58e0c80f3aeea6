// SPDX-License-Identifier: MIT OR Apache-2.0
//! A 32-bit program: its system calls have other numbers, and their arguments are in other registers.

use std::path::Path;
use std::time::Duration;

use cause::names::Names;
use trace::model::{FEWEST, infer};
use trace::wait::Wait;

use crate::truth::build;
use crate::truth::run::{load, one_at_a_time, stays};

#[test]
fn finds_the_loop_of_a_32_bit_program() {
    let (_turn, names) = (one_at_a_time(), Names::read(Path::new("/")));
    let (mut program, mut bpf) = match (build::of_32_bits(), load(&names)) {
        (Ok(program), Ok(bpf)) => (program, bpf),
        (Err(why), _) | (_, Err(why)) => return println!("skipped: {why}"),
    };
    // A kernel may run no such program.
    let Ok(mut child) = program.spawn() else { return println!("skipped: it does not start") };
    bpf.watch(child.id()).expect("the program can be watched");
    let mut records = Vec::new();
    while child.try_wait().expect("it is this process' child").is_none() {
        std::thread::sleep(Duration::from_millis(20));
        records.extend(bpf.take());
    }
    records.extend(bpf.take());
    let model = infer(&stays(&records), FEWEST, None).expect("it has a loop");
    assert_eq!(model.wait, Wait::Sleep { clock: 1, is_absolute: true });
    assert_eq!(model.period_ns.map(|ns| ns / 10_000), Some(200));
}
