// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes, and the control of a run.
//!
//! - [`wakeup`], [`spin`], [`toggle`], [`message`], [`response`], [`ethercat`]: the hot loops; [`hardware`]: the kernel's own view of what firmware takes.
//! - [`monitor`]: no probe of ours but a program's own loop, read from its memory.
//! - [`preflight`]: what would spoil a run, said before it begins; [`control`]: where the control thread stays.
//! - [`recorder`]: how a hot loop records and a control thread reads.
//! - [`explain`]: where spikes get their causes; [`suspects`]: the least of them, for anybody.
//! - `watch`: what was granted, checked to the end of a row.
//! - [`row`]: one row, from arming its threads to the finished series.
#![forbid(unsafe_code)]

pub mod control;
mod disturbed;
pub mod drain;
pub mod error;
pub mod ethercat;
pub mod explain;
pub mod hardware;
pub mod message;
pub mod monitor;
mod pace;
pub mod preflight;
pub mod privilege;
pub mod recorder;
pub mod response;
pub mod row;
pub mod samples;
pub mod spin;
pub mod steal;
pub mod suspects;
pub mod tally;
pub mod toggle;
pub mod wakeup;
mod watch;

pub use error::{Error, Result};
