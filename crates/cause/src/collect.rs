// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every collector of kernel events can do.

use std::fmt::Debug;

use evidence::cause::Collector;

use crate::Result;
use crate::event::Event;

/// Events before a moment that tell what ran on its CPU then.
pub const BEFORE: usize = 512;

/// A collector at work on the CPUs that it was started for, until it is dropped.
pub trait Collect: Debug + Send {
    /// Its name in the evidence.
    fn collector(&self) -> Collector;

    /// What it cannot see, in sentences.
    fn could_not_see(&self) -> &[String];

    /// What its trial could not provoke, so that it may see it or not.
    fn not_tried(&self) -> &[String] {
        &[]
    }

    /// Tells it which threads measure on a CPU.
    fn own(&mut self, cpu: u32, threads: &[u32]) -> Result<()>;

    /// The events of a CPU since the last call, in the order of time, and how many were overwritten unread.
    fn take(&mut self, cpu: u32) -> Result<(Vec<Event>, u64)>;

    /// The events of a CPU from [`BEFORE`] ones before `from_ns` on, as far as they are still there and were
    /// not taken, in the order of time; and how many were overwritten since the last call, which no call
    /// gave. They stay there.
    fn since(&mut self, cpu: u32, from_ns: u64) -> Result<(Vec<Event>, u64)>;
}
