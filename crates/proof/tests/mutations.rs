// SPDX-License-Identifier: MIT OR Apache-2.0
//! The short form of `make proof-mutations`: each reader, from bytes to the last rendering, on some damaged
//! inputs.

use proof::foreign::{ALL, mutation, seeds};

/// Inputs of each reader.
const TIMES: u64 = 100;

#[test]
fn every_seed_is_read_and_rendered() {
    for reader in ALL {
        let seeds = seeds(reader.name);
        assert!(!seeds.is_empty(), "{} has no seeds", reader.name);
        seeds.iter().for_each(|seed| (reader.read)(seed));
    }
}

#[test]
fn damaged_input_makes_no_reader_panic() {
    let failed = ALL.iter().filter_map(|reader| mutation::run(reader, 0, TIMES).err()).collect::<Vec<_>>();
    assert_eq!(failed, Vec::<String>::new());
    let most = mutation::most_resident_bytes().unwrap_or(0);
    assert!(most < 256 << 20, "{most} bytes were resident");
}

#[test]
fn a_number_always_makes_the_same_input() {
    let seeds = seeds("bundle");
    assert_eq!(mutation::mutated(&seeds, 7), mutation::mutated(&seeds, 7));
    assert_ne!(mutation::mutated(&seeds, 7), mutation::mutated(&seeds, 8));
}
