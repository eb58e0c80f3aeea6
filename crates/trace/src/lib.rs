// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of an unmodified program: the waits of each, its cycles, and the causes of their time.
//!
//! ```text
//! bpf ──► record ──► wait ──► model ──► cycle
//!         a stay     its end  its       due, woken, began, ended,
//!         on a CPU            period    preempted, blocked
//! ```
//! Before use the BPF part must report a thread of this program ([`trial`]). The followed program is neither
//! changed nor stopped. The BPF part writes one record for each stay of a thread on a CPU; all else is pure
//! code over records.
#![forbid(unsafe_code)]

pub mod blame;
pub mod boundary;
pub mod bpf;
pub mod code;
pub mod cycle;
pub mod follow;
pub mod model;
pub mod process;
pub mod record;
pub mod scene;
mod search;
pub mod trial;
pub mod wait;
pub mod within;

pub use error::{Error, Result};
