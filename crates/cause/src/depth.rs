// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep a collector looks.

/// How much is watched: what is not costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Who sends IPIs to the CPUs, and nothing that happens on them.
    Senders,
    /// What interrupts threads that sleep; what each of their own cycles would pay for is left out.
    Sleeping,
    /// What interrupts threads that never sleep: their system calls too, of which they make none.
    Busy,
}

impl Depth {
    /// The deepest that costs a probe nothing in each of its cycles.
    pub fn of(sleeps: bool) -> Depth {
        if sleeps { Depth::Sleeping } else { Depth::Busy }
    }
}
