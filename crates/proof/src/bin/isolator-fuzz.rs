// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reader of foreign bytes under libFuzzer, by the name in `READER`; without one the names of all.
//! `tools/fuzz` builds it with the counters that guide the fuzzer, and only then: it is no part of the other
//! builds.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use proof::foreign::{ALL, ForeignReader};

static READER: OnceLock<ForeignReader> = OnceLock::new();

fn choose() {
    let name = std::env::var("READER").unwrap_or_default();
    match ALL.into_iter().find(|reader| reader.name == name) {
        Some(reader) => drop(READER.set(reader)),
        None => {
            ALL.iter().for_each(|reader| println!("{}", reader.name));
            std::process::exit(i32::from(!name.is_empty()));
        }
    }
}

fuzz_target!(init: choose(), |data: &[u8]| if let Some(reader) = READER.get() {
    (reader.read)(data)
});
