// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of `fw_printenv`, U-Boot's environment: no panic from the bytes to the last rendering.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proof::foreign::read("uboot", data));
