// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taints: what disturbed a measurement or the claim made from it, and the fixed word that names each.
//!
//! Every code is given here once, with its meaning and the usual cure: `--accept` finds a mistyped one, and
//! `docs/reference/taints.md` is made from this table. A bundle may hold others, written by another version:
//! in a file a code is any string.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A disturbance, shown in every output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    /// A fixed word for it: `not-real-time-kernel`, `steal`, `page-faults`, …
    pub code: String,
    /// The finding, with its object.
    pub reason: String,
    /// The cure.
    pub cure: Option<String>,
    /// The load whose rows it disturbed; absent: all.
    pub load: Option<String>,
    /// The CPU whose rows it disturbed; absent: all.
    pub cpu: Option<u32>,
    /// Whether the user accepted it: it is shown, but does not count against the verdict.
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

/// Refuses to accept a taint that there is not.
pub fn known(codes: &[String]) -> Result<()> {
    let Some(code) = codes.iter().find(|code| !CODES.contains(&code.as_str())) else { return Ok(()) };
    let cure = match machine::likely(code, CODES.iter().copied()) {
        Some(likely) => format!("did you mean {likely}?"),
        None => format!("choose from {}", CODES.join(", ")),
    };
    Err(Error::on("accept", format!("'{code}'"), "there is no such taint", cure))
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

/// The meaning of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaintText {
    /// The code.
    pub code: &'static str,
    /// Its meaning for a run.
    pub meaning: &'static str,
    /// The usual cure; a run's own taint names CPUs, files and values.
    pub cure: &'static str,
}

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $name:ident = $code:literal, $cure:literal;)+) => {
        $($(#[doc = $meaning])+ pub const $name: &str = $code;)+
        /// All of them.
        pub const CODES: &[&str] = &[$($name),+];
        /// All of them, with meaning and cure.
        pub const TEXTS: &[TaintText] =
            &[$(TaintText { code: $code, meaning: concat!($($meaning),+), cure: $cure }),+];
    };
}

codes! {
    /// The kernel is not PREEMPT_RT: how long it may delay a thread has no bound.
    NOT_REAL_TIME_KERNEL = "not-real-time-kernel",
        "boot a PREEMPT_RT kernel";
    /// The measuring threads had no real-time policy.
    NOT_REAL_TIME_POLICY = "not-real-time-policy",
        "measure with --policy fifo, or give the program's thread SCHED_FIFO";
    /// The memory of the measuring threads could not be locked.
    MEMORY_NOT_LOCKED = "memory-not-locked",
        "raise the limit on locked memory (memlock), or grant CAP_IPC_LOCK";
    /// A deadline thread might run on CPUs besides its own.
    DEADLINE_NOT_PINNED = "deadline-not-pinned",
        "isolate that CPU alone, or measure with --policy fifo";
    /// A deadline thread that never sleeps is stopped when its budget is used up.
    DEADLINE_RUNTIME = "deadline-runtime",
        "measure with --policy fifo";
    /// The kernel stops real-time threads that do not sleep.
    RT_THROTTLING = "rt-throttling",
        "sysctl -w kernel.sched_rt_runtime_us=-1, where no other task needs the isolated CPU";
    /// The kernel keeps time for ordinary tasks, ahead of real-time threads that do not sleep.
    FAIR_SERVER = "fair-server",
        "switch the fair server of the measured CPUs off, in debugfs";
    /// The cgroup's quota stops the measuring threads.
    CPU_QUOTA = "cpu-quota",
        "write max to cpu.max of the control group";
    /// The kernel keeps time with a clock that is slow to read.
    CLOCKSOURCE = "clocksource",
        "find out in the kernel's log why the processor's own counter is not used";
    /// A time daemon slewed the clock: real latencies and periods were longer or shorter than stated.
    CLOCK_SLEWED = "clock-slewed",
        "let the time daemon settle first (chronyc waitsync), or limit its slew (maxslewrate 500 in chrony.conf)";
    /// Another hardware thread of the measured core may be busy.
    SMT_SIBLING = "smt-sibling",
        "take the sibling offline, or isolate it and keep it out of --house-keeping";
    /// The CPU may enter an idle state that takes longer to leave than the limit allows.
    DEEP_IDLE = "deep-idle",
        "limit the CPU's exit latency (pm_qos_resume_latency_us), or measure with --dma-latency";
    /// The measured CPU went offline while it was measured.
    CPU_OFFLINE = "cpu-offline",
        "leave the CPU online while it is measured";
    /// The measuring thread ran on another CPU, or its affinity was widened.
    MOVED = "moved",
        "leave the measuring thread's affinity alone: stop what moves tasks";
    /// The policy, priority or control group of the measuring thread was changed while it measured.
    GRANT_LOST = "grant-lost",
        "stop the program that changes policies, priorities or control groups";
    /// The machine slept while it was measured.
    SUSPENDED = "suspended",
        "mask sleep.target while it measures";
    /// A hypervisor took the CPU away while it was measured.
    STEAL = "steal",
        "on the host: pin each virtual CPU to an isolated CPU";
    /// The measuring thread took page faults while it measured.
    PAGE_FAULTS = "page-faults",
        "lock and touch the program's memory before its loop";
    /// Wakeups were seen but could not be recorded.
    SAMPLES_LOST = "samples-lost",
        "give --house-keeping a CPU that is less loaded";
    /// The loop changed its period while it was measured; its cycles are in the rows of each.
    PERIOD_CHANGED = "period-changed",
        "give the --period that the loop is to keep";
    /// The processor's counter ran off the clock.
    COUNTER_DRIFT = "counter-drift",
        "use a machine with an invariant counter";
    /// The load died, did no work, or ran on a measured CPU.
    LOAD = "load",
        "run the load alone and read its reason: isolator load NAME";
    /// EtherCAT cycles came back without all SubDevices' process data.
    ETHERCAT = "ethercat",
        "look at cables and SubDevices, or give a longer period";
    /// The machine is emulated: its times are those of no real machine.
    EMULATED = "emulated",
        "measure on a real machine";
    /// Too little time to watch every CPU.
    TOO_SHORT = "too-short",
        "give a longer --duration";
    /// The evidence does not state the kernel: how long it may delay a thread may have no bound.
    KERNEL_UNKNOWN = "kernel-unknown",
        "import the tool's JSON, which names the kernel, or accept it where you know the kernel";
    /// The evidence does not state the machine: the figures may be of another one.
    MACHINE_UNKNOWN = "machine-unknown",
        "import the tool's JSON, which names the machine, or accept it where you know the machine";
    /// The evidence does not state the load: the machine may have been idle.
    LOAD_UNKNOWN = "load-unknown",
        "name the load: isolator import --load NAME";
    /// Imported: the tool skips missed periods, and there were some.
    MISSED_PERIODS_UNCOUNTED = "missed-periods-uncounted",
        "measure with a tool that counts missed periods: isolator prove";
    /// Imported: the tool recorded only latencies above a threshold that is longer than the limit.
    THRESHOLD_ABOVE_LIMIT = "threshold-above-limit",
        "measure again with a threshold at or below the limit";
    /// Imported: the tool reports that it failed.
    TOOL_FAILED = "tool-failed",
        "find out why the tool failed, and measure again";
    /// Imported: the file was cut short, or contradicts itself.
    SOURCE_INCOMPLETE = "source-incomplete",
        "import the whole file, or measure again";
}
