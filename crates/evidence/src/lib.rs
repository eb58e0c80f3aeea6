// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence: what every measurement becomes, and what everything shown is made from.
//!
//! - [`manifest`]: what was asked, granted and noticed; [`taint`]: what disturbed it; [`series`]: the data of
//!   one row; [`histogram`] under it; [`known`]: the facts that an imported row states.
//! - [`cause`]: what took the CPU during a spike.
//! - [`writer`] writes a bundle while a run goes on; [`reader`] reads one, whole or cut off; [`snapshot`]
//!   copies one that is being written.
//! - [`summary`], [`tail`] and [`verdict`] say what the data mean; [`compare`] sets two runs side by side.
//! - [`why`]: spikes by their causes.
//! - [`lab`]: what was seen of a guest from outside; [`document`]: the JSON that other programs rely on;
//!   [`fitness`]: what they say of the use that was asked;
//!   [`import`] and [`export`] speak other tools' formats.
//!
//! Only plain types: no probe, no load, no terminal. Latencies are nanoseconds throughout.
#![forbid(unsafe_code)]

pub mod archive;
pub mod cause;
mod clock;
pub mod compare;
mod damage;

pub mod document;
pub mod export;
pub mod fitness;

pub mod gate;
pub mod histogram;
pub mod import;
mod kept;
pub mod known;

pub mod lab;
pub mod limit;
pub mod manifest;
pub mod reader;
pub mod row;
pub mod series;
pub mod snapshot;
mod starved;
pub mod summary;
pub mod tail;
pub mod taint;
pub mod verdict;
pub mod why;
pub mod writer;

pub use compare::Comparison;
pub use error::{Error, Result};
pub use histogram::Histogram;
pub use manifest::Manifest;
pub use reader::Bundle;
pub use row::Row;
pub use series::Series;
pub use summary::Summary;
pub use taint::Taint;
pub use verdict::Verdict;
