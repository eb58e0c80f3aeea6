// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taints: what disturbed a measurement or the claim made from it, and the fixed word that names each.
//!
//! Every code stands here once, so that `--accept` can tell a mistyped one. A bundle may hold others, written
//! by another version: in a file a code is any string.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A disturbance, shown in every output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    /// A fixed word for it: `not-real-time-kernel`, `steal`, `page-faults`, …
    pub code: String,
    /// What was found, on what.
    pub reason: String,
    /// What to do about it.
    pub cure: Option<String>,
    /// The load whose rows it disturbed; absent: all.
    pub load: Option<String>,
    /// The CPU whose rows it disturbed; absent: all.
    pub cpu: Option<u32>,
    /// Whether the user said to accept it: shown all the same, but not held against the verdict.
    #[serde(default)]
    pub accepted: bool,
}

impl Taint {
    /// A taint of every row, with one of [`CODES`].
    pub fn new(code: &'static str, reason: impl Into<String>, cure: impl Into<String>) -> Taint {
        debug_assert!(CODES.contains(&code), "'{code}' is not among the codes of taints");
        Taint {
            code: code.into(),
            reason: reason.into(),
            cure: Some(cure.into()),
            load: None,
            cpu: None,
            accepted: false,
        }
    }
}

impl std::fmt::Display for Taint {
    /// `steal under net on cpu 1: the hypervisor took 20 ms`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.code)?;
        if let Some(load) = &self.load {
            write!(out, " under {load}")?;
        }
        if let Some(cpu) = self.cpu {
            write!(out, " on cpu {cpu}")?;
        }
        write!(out, ": {}", self.reason)
    }
}

macro_rules! codes {
    ($($(#[$what:meta])+ $name:ident = $code:literal;)+) => {
        $($(#[$what])+ pub const $name: &str = $code;)+
        /// All of them.
        pub const CODES: &[&str] = &[$($name),+];
    };
}

codes! {
    /// The kernel is not PREEMPT_RT: how long it may delay a thread has no bound.
    NOT_REAL_TIME_KERNEL = "not-real-time-kernel";
    /// The measuring threads had no real-time policy.
    NOT_REAL_TIME_POLICY = "not-real-time-policy";
    /// Their memory could not be locked.
    MEMORY_NOT_LOCKED = "memory-not-locked";
    /// A deadline thread might run on CPUs besides its own.
    DEADLINE_NOT_PINNED = "deadline-not-pinned";
    /// A deadline thread that never sleeps is stopped when its budget is used up.
    DEADLINE_RUNTIME = "deadline-runtime";
    /// The kernel stops real-time threads that do not sleep.
    RT_THROTTLING = "rt-throttling";
    /// The kernel keeps time for ordinary tasks, ahead of real-time threads that do not sleep.
    FAIR_SERVER = "fair-server";
    /// The cgroup's quota stops the measuring threads.
    CPU_QUOTA = "cpu-quota";
    /// The kernel keeps time with a clock that is slow to read.
    CLOCKSOURCE = "clocksource";
    /// Another hardware thread of the measured core may be busy.
    SMT_SIBLING = "smt-sibling";
    /// The CPU may enter an idle state that takes longer to leave than the limit allows.
    DEEP_IDLE = "deep-idle";
    /// The measured CPU went offline while it was measured.
    CPU_OFFLINE = "cpu-offline";
    /// The measuring thread ran on another CPU, or was let run on others.
    MOVED = "moved";
    /// What the measuring thread was granted was changed while it measured: its policy, its priority, its
    /// control group.
    GRANT_LOST = "grant-lost";
    /// The machine slept while it was measured.
    SUSPENDED = "suspended";
    /// A hypervisor took the CPU away while it was measured.
    STEAL = "steal";
    /// The measuring thread took page faults while it measured.
    PAGE_FAULTS = "page-faults";
    /// Wakeups were seen but could not be written down.
    SAMPLES_LOST = "samples-lost";
    /// The processor's counter ran off the clock.
    COUNTER_DRIFT = "counter-drift";
    /// The load died, did nothing, or ran where it must not.
    LOAD = "load";
    /// EtherCAT cycles came back without all SubDevices' process data.
    ETHERCAT = "ethercat";
    /// The machine is an emulator's: its times are of no machine.
    EMULATED = "emulated";
    /// Too little time to watch every CPU.
    TOO_SHORT = "too-short";
    /// Imported: the tool skips missed periods, and there were some.
    MISSED_PERIODS_UNCOUNTED = "missed-periods-uncounted";
    /// Imported: the tool did not record all that the limit forbids.
    THRESHOLD_ABOVE_LIMIT = "threshold-above-limit";
    /// Imported: the tool said of itself that it failed.
    TOOL_FAILED = "tool-failed";
    /// Imported: the file was cut short, or contradicts itself.
    SOURCE_INCOMPLETE = "source-incomplete";
}
