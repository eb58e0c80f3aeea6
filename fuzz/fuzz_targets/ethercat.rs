// SPDX-License-Identifier: MIT OR Apache-2.0
//! EtherCAT frames: no panic, and what was accepted is as `foreign` says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proof::foreign::read("ethercat", data));
