// SPDX-License-Identifier: MIT OR Apache-2.0
//! libisolator: what a control program in C, or in any language that calls C, links.
//!
//! Thin: everything is done by the crate `rt`; here its types become handles, its errors numbers and a line
//! of text. The header `include/isolator.h` documents these functions; `tests/header.rs` holds it against
//! them.
//!
//! - Functions give 0 or a positive result, or a negative errno; what failed, why and what to do says
//!   [`isolator_last_error`].
//! - Handles belong to the caller: each is made by one function and ended by another, once.
//! - No panic gets out: it becomes `-ENOTRECOVERABLE`, or, where a function of the caller runs, ends the
//!   program.
//! - An exception of a function of the caller goes through to the caller.

// The names are C's.
#![allow(non_camel_case_types)]

mod clock;
mod error;
mod message;
mod monitor;
mod nested;
mod preload;
mod session;
mod setup;
mod single;

pub use clock::*;
pub use error::*;
pub use message::*;
pub use monitor::*;
pub use session::*;
pub use setup::*;
