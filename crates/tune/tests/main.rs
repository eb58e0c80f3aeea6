// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate, in one binary: it is linked once. One file alone: `cargo test --package
//! isolator-tune --test all -- captured::`.

mod booted;
#[path = "../../inspect/tests/common/boots.rs"]
mod boots;
mod captured;
mod common;
mod grub;
mod guides;
mod properties;
mod rollback;
mod uboot;
mod vectors;
mod verified;
