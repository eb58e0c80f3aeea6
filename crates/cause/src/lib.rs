// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of interruptions: kernel events around a spike, and an account of its time.
//!
//! ```text
//! bpf, tracefs ──► event ──► account ──► causes ──► evidence::cause
//!  collectors      of one     occupants   names
//!  (see policy)    CPU        of the CPU
//! ```
//! Before use a collector must report provoked events (`trial`). It is always on, with a ring for each
//! watched CPU that overwrites old events and is read only after a spike. [`start()`] starts one, and
//! [`Explainer`] puts the parts together. Where none is allowed, [`suspects`] and [`rates`] compare readings
//! of the kernel's counters.
#![forbid(unsafe_code)]

pub mod account;
pub mod bpf;
pub mod calibrate;
mod causes;
pub mod collect;
pub mod depth;
pub mod edges;
pub mod event;
pub mod explainer;
pub mod kept;
pub mod names;
pub mod path;
pub mod policy;
mod quota;
pub mod rates;
pub mod senders;
pub mod span;
pub mod start;
pub mod stolen;
pub mod suspects;
pub mod tracefs;
mod trial;
mod unseen;
mod waiting;

pub use collect::Collect;
pub use depth::Depth;
pub use error::{Error, Result};
pub use explainer::Explainer;
pub use start::{Started, WatchSpec, start};
