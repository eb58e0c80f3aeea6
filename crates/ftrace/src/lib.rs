// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trace events of the kernel: their formats, the pages of its ring buffer, and traces that other tools
//! recorded.
//!
//! ```text
//! tracefs ──► page ──┐
//!                    ├──► TraceEvent ──► cause (occupants of a CPU), trace (threads of a program)
//! recorded ──────────┘
//! ```
//! A reader hands events on in the order of time, and says where some were lost. It holds a page of each CPU,
//! not the trace.
#![forbid(unsafe_code)]

pub mod event;
pub mod format;
pub mod instance;
pub mod page;
pub mod recorded;

pub use error::{Error, Result};
pub use event::{EventName, FieldValue, Fields, NamedFields, TraceEvent};
pub use format::{ByteOrder, Format};
