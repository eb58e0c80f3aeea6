// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that describe a board: no panic, and what was accepted is as `foreign` says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proof::foreign::read("board", data));
