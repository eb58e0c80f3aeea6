// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loops that a user wants to have followed.

use std::num::NonZeroU64;

use crate::boundary::CycleBounds;

/// The selection of a process' loops.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopChoice {
    /// Threads by name or number; empty: the real-time threads, or all where there is none.
    pub threads: Vec<String>,
    /// The period, where the user knows it.
    pub period: Option<NonZeroU64>,
    /// Begin and end of cycles, if the user named them: the loops are those of the threads that reach them.
    pub bounds: Option<CycleBounds>,
    /// Whether the program was just started, and may not have made its threads yet.
    pub is_starting: bool,
}
