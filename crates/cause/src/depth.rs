// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a collector watches.

/// The extent of a watch: events that are not watched cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only the senders of IPIs to the CPUs.
    Senders,
    /// Interruptions of threads that sleep, without the events that each of their own cycles would pay for.
    Sleeping,
    /// Interruptions of threads that never sleep, with their system calls, since they make none in a quiet
    /// cycle.
    Busy,
}

impl Depth {
    /// The most that costs a probe nothing in each of its cycles.
    pub fn of(sleeps: bool) -> Depth {
        if sleeps { Depth::Sleeping } else { Depth::Busy }
    }
}
