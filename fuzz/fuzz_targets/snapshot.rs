// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's snapshot: no panic from the bytes to the last rendering.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proof::foreign::read("snapshot", data));
