// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate, in one binary, so that it is linked once. To run one file: `cargo test --package
//! isolator-trace --test all -- styles::`.

mod bounds;
mod compat;
mod plants;
mod slots;
mod styles;
mod truth;
mod turns;
