// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate, in one binary, so that it is linked once. To run one file: `cargo test --package
//! isolator-lint --test all -- corpus::`.

mod corpus;
