// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of loads' programs: no panic from the bytes to the last rendering.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proof::foreign::read("figures", data));
