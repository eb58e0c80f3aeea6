// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who interrupted: kernel events around a spike, and an account of its time.
//!
//! ```text
//! bpf, tracefs ──► event ──► account ──► words ──► evidence::cause
//!  collectors      one CPU's    who had     names
//!  (see policy)    past         the CPU
//! ```
//! A collector is always on and forgets by itself: a ring for each watched CPU, read only after a spike. [`watch`]
//! starts one and puts the parts together. [`rates`] needs no collector: it compares readings of the kernel's counters.
#![forbid(unsafe_code)]

pub mod account;
pub mod bpf;
pub mod calibrate;
pub mod depth;
pub mod edges;
pub mod event;
pub mod names;
pub mod policy;
pub mod rates;
mod senders;
pub mod tracefs;
mod unseen;
pub mod watch;
mod words;

pub use depth::Depth;
pub use error::{Error, Result};
pub use watch::{Started, Watch, WatchSpec};
