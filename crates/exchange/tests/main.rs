// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate, in one binary: it is linked once. One file alone: `cargo test --package
//! isolator-exchange --test all -- export::`.

mod common;
mod export;
mod import;
mod import_expected;
mod import_formats;
mod import_judged;
mod import_kinds;
mod import_lines;
mod import_others;
mod import_truth;
