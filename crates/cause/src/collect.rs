// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a collector of kernel events.

use std::fmt::Debug;

use evidence::cause::Collector;

use crate::Result;
use crate::event::Event;

/// The number of events before a moment that suffice to find the occupant of its CPU.
pub const BEFORE: usize = 512;

/// A running collector, on the CPUs that it was started for. Dropping it stops it.
pub trait Collect: Debug + Send {
    /// Its name in the evidence.
    fn collector(&self) -> Collector;

    /// The kinds of events that it cannot see, in sentences.
    fn could_not_see(&self) -> &[String];

    /// The kinds that its trial could not provoke. It may see them or not.
    fn not_tried(&self) -> &[String] {
        &[]
    }

    /// Sets the threads that measure on a CPU.
    fn own(&mut self, cpu: u32, threads: &[u32]) -> Result<()>;

    /// Takes the events of a CPU since the last call, in the order of time, and how many were overwritten
    /// unread.
    fn take(&mut self, cpu: u32) -> Result<(Vec<Event>, u64)>;

    /// Reads the events of a CPU from [`BEFORE`] ones before `from_ns` on, as far as they are still in the
    /// ring, in the order of time, and returns how many were overwritten since the last call. The events stay
    /// in the ring.
    fn since(&mut self, cpu: u32, from_ns: u64) -> Result<(Vec<Event>, u64)>;
}
