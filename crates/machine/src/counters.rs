// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of what interrupted a CPU, by their names; the crate `inspect` reads them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of event that a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Class")]
pub enum CounterClass {
    /// Interrupts that cannot be masked.
    Nmi,
    /// A device's interrupts.
    Irq,
    /// Interrupts that other CPUs sent.
    Ipi,
    /// The local timer's interrupts: the tick, and every other timer of this CPU.
    LocalTimer,
    /// Rounds of a softirq.
    Softirq,
    /// Times that the scheduler put a task on the CPU.
    Switch,
    /// Time that the hypervisor took, in units of 10 ms.
    Steal,
}

/// One counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Source")]
pub struct CounterSource {
    /// The kind of event.
    pub class: CounterClass,
    /// Which one: `45 nvme0q3`, `reschedule`, `NET_RX`.
    pub name: String,
}

/// A counter that grew on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grown {
    /// Which counter.
    #[serde(flatten)]
    pub source: CounterSource,
    /// On which CPU.
    pub cpu: u32,
    /// By how much.
    pub count: u64,
}
