// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads: policy, priority, where they may run and where they last ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// A thread, or several ordinary ones of a process that are alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// Its process.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// Whether it is a kernel thread.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel: bool,
    /// Whether the kernel refuses to move it.
    #[serde(skip_serializing_if = "is_default")]
    pub bound: bool,
    /// Its scheduling policy.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: ThreadPolicy,
    /// Its real-time priority.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: u32,
    /// The CPUs on which it may run.
    pub cpus: CpuSet,
    /// The CPU on which it last ran.
    pub last_cpu: Option<u32>,
    /// How many ordinary threads of its process are alike, itself among them; 0 and 1 are one.
    #[serde(skip_serializing_if = "is_default")]
    pub alike: u32,
    /// Locked memory of its process in KiB (real-time threads only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_kib: Option<u64>,
    /// Memory of its process in KiB (real-time threads only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_kib: Option<u64>,
    /// Its control group of version 2 (real-time threads only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

impl Thread {
    /// Whether it goes before every ordinary task.
    pub fn is_real_time(&self) -> bool {
        self.policy.is_real_time()
    }
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Policy")]
pub enum ThreadPolicy {
    /// SCHED_OTHER.
    #[default]
    Other,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    RoundRobin,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_EXT.
    Ext,
}

impl ThreadPolicy {
    /// The kernel's number (include/uapi/linux/sched.h).
    pub fn of(number: u32) -> ThreadPolicy {
        match number {
            1 => ThreadPolicy::Fifo,
            2 => ThreadPolicy::RoundRobin,
            3 => ThreadPolicy::Batch,
            5 => ThreadPolicy::Idle,
            6 => ThreadPolicy::Deadline,
            7 => ThreadPolicy::Ext,
            _ => ThreadPolicy::Other,
        }
    }

    /// Its name, as `sched(7)` has it in small letters.
    pub fn name(self) -> &'static str {
        match self {
            ThreadPolicy::Other => "other",
            ThreadPolicy::Fifo => "fifo",
            ThreadPolicy::RoundRobin => "rr",
            ThreadPolicy::Batch => "batch",
            ThreadPolicy::Idle => "idle",
            ThreadPolicy::Deadline => "deadline",
            ThreadPolicy::Ext => "ext",
        }
    }

    /// Whether it goes before every ordinary task.
    pub fn is_real_time(self) -> bool {
        matches!(self, ThreadPolicy::Fifo | ThreadPolicy::RoundRobin | ThreadPolicy::Deadline)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
