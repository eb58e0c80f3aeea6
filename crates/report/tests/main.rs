// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate, in one binary: it is linked once. One file alone: `cargo test --package
//! isolator-report --test all -- browser::`.

mod browser;
mod common;
mod html;
mod lab;
mod outputs;
mod terminal;
mod tune;
