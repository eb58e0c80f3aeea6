// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes, and how a row of a run is measured.
//!
//! - [`probes`]: the probes that there are, each with its hot loop; [`monitor`]: a program's own loop, read
//!   from its memory, or [`followed`] from outside.
//! - [`probe`]: what differs between the probes that have threads of ours; [`schedule`]: when they measure.
//! - `control`: the control loop of a row, for every source of samples; [`row`]: threads of ours as such a
//!   source; [`recording`]: where its data go.
//! - [`recorder`]: how a hot loop records and a control thread reads; [`drain`]: how that becomes a series,
//!   and where spikes get their causes.
//! - [`watch`]: what was granted, checked to the end of a row.
#![forbid(unsafe_code)]

mod control;
pub mod drain;
pub mod error;
pub mod followed;
mod loop_row;
mod lost;
pub mod monitor;
mod pace;
pub mod probe;
pub mod probes;
pub mod program;
pub mod recorder;
pub mod recording;
mod rhythm;
pub mod row;
pub mod samples;
pub mod schedule;
pub mod series;
mod short_gaps;
pub mod steal;
pub mod tally;
pub mod watch;

pub use error::{MeasureError, Result};
