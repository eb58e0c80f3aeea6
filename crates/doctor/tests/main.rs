// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate, in one binary: it is linked once. One file alone: `cargo test --package
//! isolator-doctor --test all -- absent::`.

mod absent;
mod boots;
mod broken;
mod captured;
mod common;
mod cpu_sets;
mod irqbalance;
#[path = "../../inspect/tests/common/boots.rs"]
mod machines;
mod properties;
mod savings;
mod see;
mod session;
mod unknown;
