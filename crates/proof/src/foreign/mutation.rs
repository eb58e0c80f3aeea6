// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeds, damaged: the same number always makes the same input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::readers::ForeignReader;
use super::seeds::seeds;

/// Longest input: what grows by copies of itself must end somewhere.
const LONGEST: usize = 1 << 18;

/// Damages to one input at the most.
const MOST: usize = 8;

/// Replacements of numbers and words in a text.
const WORDS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e308",
    "1e-308",
    "NaN",
    "inf",
    "",
    "null",
    "\u{1b}[31m",
    "<b>",
    "\"",
    "\0",
    "\u{202e}",
];

/// An input made of `seeds` by the generator's seed `number`.
pub fn mutated(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(number);
    let Some(mut data) = seeds.get(rng.random_range(0..seeds.len().max(1))).cloned() else {
        return Vec::new();
    };
    for _ in 0..rng.random_range(1..=MOST) {
        damage(&mut data, seeds, &mut rng);
        data.truncate(LONGEST);
    }
    data
}

fn damage(data: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Xoshiro256PlusPlus) {
    let length = data.len();
    let at = rng.random_range(0..=length);
    let end = (at + rng.random_range(0..=64)).min(length);
    match rng.random_range(0..9) {
        0 if length > 0 => data[at.min(length - 1)] ^= 1 << rng.random_range(0..8),
        1 if length > 0 => data[at.min(length - 1)] = rng.random(),
        2 => drop(data.drain(at..end)),
        3 => data.truncate(at),
        4 => {
            let copy = data[at..end].to_vec();
            drop(data.splice(at..at, copy));
        }
        // A part of another seed.
        5 => {
            let other = &seeds[rng.random_range(0..seeds.len())];
            let from = rng.random_range(0..=other.len());
            let part = other[from..(from + rng.random_range(0..=256)).min(other.len())].to_vec();
            drop(data.splice(at..end, part));
        }
        // A line again, or instead of another.
        6 => {
            let lines: Vec<Vec<u8>> =
                data.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            if !lines.is_empty() {
                let mut lines = lines;
                let (from, to) = (rng.random_range(0..lines.len()), rng.random_range(0..lines.len()));
                lines[to] = lines[from].clone();
                *data = lines.concat();
            }
        }
        // A number becomes another: texts state most of what is believed as numbers.
        _ => {
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let Some(from) = data[at..].iter().position(is_digit).map(|place| at + place) else { return };
            let to =
                data[from..].iter().position(|byte| !is_digit(byte)).map_or(length, |place| from + place);
            let word = WORDS[rng.random_range(0..WORDS.len())];
            drop(data.splice(from..to, word.bytes()));
        }
    }
}

/// Inputs from `first` on, `times` of them, through a reader; the first that makes it panic, and how.
pub fn run(reader: &ForeignReader, first: u64, times: u64) -> Result<(), String> {
    let seeds = seeds(reader.name);
    if seeds.is_empty() {
        return Err(format!("{}: it has no seeds", reader.name));
    }
    for number in first..first + times {
        let data = mutated(&seeds, number);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (reader.read)(&data))) {
            let why = panic.downcast_ref::<String>().cloned();
            let why =
                why.or_else(|| panic.downcast_ref::<&str>().map(|why| why.to_string())).unwrap_or_default();
            return Err(format!("{} panics on mutation {number}: {why}", reader.name));
        }
    }
    Ok(())
}

/// The most memory that this process ever had resident, in bytes; `None` where the system does not report it.
pub fn most_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
