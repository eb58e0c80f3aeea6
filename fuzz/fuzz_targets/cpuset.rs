// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU lists: what is read is written in the kernel's own form, and that form reads back as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::CpuSet;

fuzz_target!(|text: &str| {
    if let Ok(cpus) = text.parse::<CpuSet>() {
        let written = cpus.to_string();
        assert_eq!(written.parse::<CpuSet>().as_ref(), Ok(&cpus));
        assert_eq!(cpus.iter().count(), cpus.len());
        assert!(cpus.without(&cpus).is_empty() && cpus.and(&cpus) == cpus && cpus.or(&cpus) == cpus);
    }
});
