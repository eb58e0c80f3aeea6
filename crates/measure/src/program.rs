// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program whose loops are measured: it stamps its cycles itself ([`crate::monitor`]), or it is followed
//! from outside and knows nothing of it ([`crate::followed`]).

use std::num::NonZeroU64;

use evidence::manifest::{Followed, Granted};
use machine::inventory::Thread;

use crate::error::Result;
use crate::recording::Recording;
use crate::schedule::Length;
use crate::series::SeriesSpec;

/// A loop of a program, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopFound {
    /// The CPU that its thread ran on last.
    pub cpu: Option<u32>,
    /// The time between two cycles, in nanoseconds.
    pub period: NonZeroU64,
    /// The name by which its rows are told apart, where the program did not name the loop itself.
    pub thread_name: Option<String>,
    /// Its thread, where it is followed from outside.
    pub followed: Option<Followed>,
}

/// The grants of a loop's thread.
pub(crate) fn granted(thread: &Thread) -> Granted {
    Granted {
        policy: Some(thread.policy.name().to_string()),
        priority: Some(thread.priority).filter(|priority| *priority > 0),
        affinity: Some(thread.cpus.clone()),
        memory_locked: thread.locked_kib.map(|kib| kib > 0),
        thread: Some(thread.id),
        ..Granted::default()
    }
}

/// That a loop's thread may leave the CPU that its row is booked to, where it may.
pub(crate) fn may_move(name: &str, thread: &Thread) -> Option<String> {
    let Thread { cpus, last_cpu, .. } = thread;
    let cpu = last_cpu.filter(|_| cpus.len() != 1)?;
    Some(format!("{name} may run on cpus {cpus}, and is booked to cpu {cpu}; pin it to one"))
}

/// A program whose loops are measured.
pub trait Program: std::fmt::Debug {
    /// Its loops, one series each.
    fn loops(&self) -> Vec<LoopFound>;

    /// Notes for a reader of the evidence.
    fn notes(&self) -> Vec<String>;

    /// Whether it has ended; cycles that have come until now are thrown away.
    fn ended(&mut self) -> Result<bool>;

    /// Measures its loops for so long, or until the run is stopped or the program ends; notes which. There is
    /// one of `series` for each loop, in their order; further series are made of it.
    fn measure(&mut self, series: &[SeriesSpec], length: Length, recording: &mut Recording<'_>)
    -> Result<()>;
}
