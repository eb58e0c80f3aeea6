// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every collector of kernel events can do.

use std::fmt::Debug;

use evidence::cause::Collector;

use crate::Result;
use crate::event::Event;

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
}
