// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every reader of foreign bytes, driven from the bytes to the last rendering.
//!
//! Reading without a panic is half of it: figures that were read go on into reports, tables, comparisons and
//! gates, and it is there that absurd ones overflow, or loop for long. So each of [`ALL`] renders what it
//! reads. `isolator-fuzz` gives them to a fuzzer, and [`mutation`] damages seeds by a seeded generator: a few
//! hundred inputs as an ordinary test, and tens of thousands by `make proof-mutations`.

mod fleets;
mod machines;
pub mod mutation;
mod parsers;
mod parts;
mod readers;
mod render;
mod runs;
mod seeds;

pub use readers::{ALL, ForeignReader};
pub use render::render;
pub use seeds::seeds;
