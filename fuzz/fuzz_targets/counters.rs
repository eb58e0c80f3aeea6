// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's counters: no text makes them panic, nothing grows from itself, and nothing is of a CPU that was not
//! asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::CpuSet;
use machine::counters::Counters;

fuzz_target!(|text: &str| {
    let cpus: CpuSet = (0..4).collect();
    let mut parts = text.split('\u{1}');
    let texts = [(); 4].map(|()| parts.next().unwrap_or_default());
    let counters = Counters::parse(texts, &cpus);
    assert!(counters.cpus().without(&cpus).is_empty());
    assert!(counters.since(&counters).is_empty());
    let nothing = Counters::parse([""; 4], &cpus);
    assert!(counters.since(&nothing).is_empty());
    assert!(nothing.since(&counters).is_empty());
});
