// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of a program that knows nothing of it: what each waits for, its cycles, and where their time
//! went.
//!
//! ```text
//! bpf ──► record ──► wait ──► model ──► cycle
//!         a stay     what it  its       due, woken, began, ended,
//!         on a CPU   left for period    preempted, blocked
//! ```
//! Before it is used the kernel part has to tell of a thread of ours ([`trial`]).
//! The program is neither changed nor stopped. The kernel part writes one record for each stay of a thread on
//! a CPU; everything else is pure code over records.
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
