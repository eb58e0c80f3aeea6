// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence: what every measurement becomes, and what everything shown is made from.
//!
//! - [`kind`]: what a row can be; [`manifest`]: what was asked, granted and noticed; [`taint`]: what
//!   disturbed it, by the [`fact`]s that do; [`series`]: the data of one row; [`histogram`] under it;
//!   [`known`]: the facts that an imported row states.
//! - [`cause`]: what took the CPU during a spike.
//! - [`writer`] writes a bundle while a run goes on; [`reader`] reads one, whole or cut off; [`snapshot`]
//!   copies one that is being written.
//! - [`summary`], [`tail`] and [`verdict`] say what the data mean; [`claim`], by [`episode`]s, what they
//!   claim beyond themselves; [`judge`] has the options by which they do; [`boots`] joins runs;
//!   [`weakly_hard`] judges limits that allow some late cycles.
//! - [`lab`]: what was seen of a guest from outside; [`document`]: the JSON that other programs rely on;
//!   [`fitness`]: what they say of the use that was asked. [`store()`] writes a bundle that is in memory.
//!
//! Only plain types: no probe, no load, no terminal. Latencies are nanoseconds throughout.
#![forbid(unsafe_code)]

pub mod archive;
pub mod boots;
pub mod cause;
pub mod claim;
mod clock;
mod damage;

pub mod document;
pub mod episode;
pub mod fact;
pub mod fitness;

pub mod histogram;
pub mod judge;
mod kept;
pub mod kind;
pub mod known;

pub mod lab;
pub mod limit;
pub mod manifest;
pub mod reader;
pub mod row;
pub mod series;
pub mod snapshot;
mod starved;
mod store;
pub mod summary;
pub mod tail;
pub mod taint;
mod unseen;
pub mod verdict;
pub mod weakly_hard;
pub mod writer;

pub use error::{Error, Result};
pub use histogram::Histogram;
pub use judge::Judge;
pub use manifest::Manifest;
pub use reader::Bundle;
pub use row::Row;
pub use series::Series;
pub use store::store;
pub use summary::Summary;
pub use taint::Taint;
pub use unseen::next_cause_unseen;
pub use verdict::Verdict;
