// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a running program does that a real-time thread must not.
//!
//! ```text
//! bpf ──► event ──► call, locks ──► judge ──► document
//!                   which rule      where, how often
//!                   still ───────────┘
//!                   what shows without being done
//! ```
//! The program is not changed or stopped. While it is watched, functions of its C library are probed, so that
//! each call of them traps into the kernel; that makes the program slower, and nothing is timed.
//!
//! Limits: a lock that is neither of the C library nor contended is not seen; a function of a binary without
//! symbols is not; and what a thread does seldom may not happen while it is watched.
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
