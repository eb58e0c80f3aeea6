// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other tools' formats: [`import`] reads their result files as evidence, [`export`] writes evidence in
//! theirs.
//!
//! A new format is one file of the folder `import`, and its line in `import/formats.rs`.
#![forbid(unsafe_code)]

pub mod export;
pub mod import;
