// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate, in one binary: it is linked once. One file alone: `cargo test --package
//! isolator-evidence --test all -- damage::`.

mod claim;
mod damage;
mod flight;
mod hostile;
mod kinds;
