// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of CPUs as the boot line has them: no CPU beyond the last, and the kernel's own form reads back as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::registry::{Takes, known, list};

fuzz_target!(|text: &str| {
    let last = 127;
    for takes in [Takes::Cpus, Takes::FlagsAndCpus, Takes::MaybeCpus] {
        if let Ok(listed) = list::read(takes, text, last) {
            assert!(listed.cpus.iter().all(|cpu| cpu <= last));
            let again = list::read(Takes::Cpus, &listed.cpus.to_string(), last).unwrap();
            assert_eq!(again.cpus, listed.cpus);
        }
    }
    if let Some(meant) = known::meant(text) {
        assert!(known::is_known(meant) && !known::is_known(text));
    }
});
