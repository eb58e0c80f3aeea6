// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run: what is asked becomes types once, is checked against the machine, measured under loads, and read
//! back as evidence.
//!
//! ```text
//! Asked ── complete ──► Asked ── RunSpec::of ──► RunSpec ── prove ──► Bundle
//! text     defaults     text     one parse       types      rows      evidence
//! ```
//! - [`spec`]: from text to types; [`preflight`]: what of it would spoil the run on this machine.
//! - [`session`]: the run itself; [`rows`]: the measuring threads of each row.
//! - [`recorded`]: a trace of another machine in the place of a program that runs.
//! - [`control`]: where the control thread stays; [`on_spike`]: what is done beside the measurement.
//! - [`turns`]: the effect of a plan's setting, measured without it and with it; [`held`]: settings in force
//!   meanwhile.
#![forbid(unsafe_code)]

pub mod control;
mod error;
pub mod finding;
pub mod held;
pub mod on_spike;
pub mod preflight;
pub mod privilege;
pub mod recorded;
pub mod rows;
pub mod session;
pub mod spec;
pub mod turns;

pub use error::{Result, RunError};
pub use session::{
    NoObserver, Observer, SessionContext, command_line, default_folder, prove, prove_in, settle,
    unused_folder,
};
pub use spec::{RunSpec, complete, read_asked};
