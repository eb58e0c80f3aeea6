// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds operations of a running program that its real-time threads must avoid.
//!
//! ```text
//! bpf ──► event ──► call, locks ──► judge ──► document
//!                   rule broken     places, counts
//!                   still ───────────┘
//!                   faults of the set-up
//! ```
//! The program is not changed or stopped. While it is watched, functions of its C library are probed, so that
//! each call of them traps into the kernel. This makes the program slower; no time is measured.
//!
//! Limits: it does not see a lock outside of the C library without contention, a function of a binary without
//! symbols, or a rare operation that does not happen during the watch.
#![forbid(unsafe_code)]

pub mod bpf;
pub mod call;
pub mod descriptor;
pub mod document;
pub mod event;
pub mod functions;
pub mod judge;
pub mod locks;
pub mod memory;
pub mod place;
pub mod rule;
pub mod still;
pub mod watch;

pub use document::LintDocument;
pub use error::{Error, Result};
pub use watch::{LintChoice, lint};
