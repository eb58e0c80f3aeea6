// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a plan is: the document that `tune plan --json` prints, `tune apply` reads and `tune verify` checks.

use machine::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the document; 2 took what articles set out of it.
pub const SCHEMA_VERSION: u32 = 2;

/// A plan, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Answer")]
pub enum PlanAnswer {
    /// The changes.
    Plan(Box<Plan>),
    /// Why nothing is planned.
    Refused {
        /// Version of this document.
        schema_version: u32,
        /// The reason, with the cure.
        refused: PlanRefusal,
    },
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("cannot plan: {reason}; {cure}")]
#[schemars(rename = "Refusal")]
pub struct PlanRefusal {
    /// Why.
    pub reason: String,
    /// What to do.
    pub cure: String,
}

/// The changes of one machine, with reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this document.
    pub schema_version: u32,
    /// For which machine and boot it was made.
    pub made_for: MadeFor,
    /// The request.
    pub intent: super::Intent,
    /// CPUs to isolate.
    pub isolated: CpuSet,
    /// The CPUs among them for real-time threads: the first hardware thread of each core. The others stay
    /// idle.
    pub real_time: CpuSet,
    /// The housekeeping CPUs.
    pub housekeeping: CpuSet,
    /// The tokens to add to the kernel's boot line, in order, separated by one space; may be empty.
    pub boot_line: String,
    /// Why these CPUs.
    pub why: String,
    /// The steps, in order.
    pub actions: Vec<Action>,
    /// The omitted actions, with reasons.
    pub skipped: Vec<Skipped>,
    /// A warning before it is done.
    pub warnings: Vec<String>,
    /// SHA-256 of this document without this field, hexadecimal: a plan changed by hand is no longer this
    /// plan.
    pub digest: String,
}

/// The machine and the boot for which a plan was made. Facts that could not be read are absent and not
/// compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MadeFor {
    /// The host's name.
    pub hostname: Option<String>,
    /// SHA-256 of `/etc/machine-id`, which itself is not to leave the machine; hexadecimal.
    pub machine_sha256: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// SHA-256 of `/proc/sys/kernel/random/boot_id`; hexadecimal.
    pub boot_sha256: Option<String>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The kind of change.
    pub kind: ActionKind,
    /// Its target: a boot parameter's name, a file's path, or the object of the kind.
    pub target: String,
    /// The value: the file's new content, or the text after the parameter's `=`; empty without a value.
    pub value: String,
    /// Why.
    pub reason: String,
    /// The source of the advice.
    pub source: String,
    /// Its cost.
    pub cost: String,
    /// Its disturbance while it is done.
    pub disruption: Disruption,
    /// A command that shows whether the change is in force.
    pub verify: String,
    /// A command that takes it back.
    pub undo: String,
}

/// Kinds of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Kind")]
pub enum ActionKind {
    /// A token of the kernel's boot line; `target` is its name.
    BootParameter,
    /// A frequency policy's governor; `target` is the file.
    Governor,
    /// A frequency policy's lower bound; `target` is the file.
    Frequency,
    /// A CPU's longest tolerated exit latency of idle states; `target` is the file.
    PmQos,
    /// A setting below `/proc/sys`; `target` is the file.
    Sysctl,
    /// The default affinity of interrupts; `target` is the file, `value` a mask.
    IrqDefault,
    /// All interrupts that can move; `target` is `/proc/irq`, `value` the CPUs.
    Irqs,
    /// One device's interrupts, to the real-time CPUs; `target` is the device, `value` the CPUs.
    DeviceIrqs,
    /// CPUs that irqbalance must leave alone; `target` is the service, `value` the CPUs.
    IrqBalance,
    /// All kernel threads that can move; `target` is `kthreads`, `value` the CPUs.
    KernelThreads,
    /// The CPUs of unbound workqueues; `target` is the file, `value` a mask.
    Workqueues,
    /// The deadline server for ordinary tasks of one CPU; `target` is the file.
    FairServer,
    /// Huge pages and page sharing; `target` is the file.
    Memory,
    /// Polling of the machine check; `target` is the file.
    MachineCheck,
    /// CPUs that a systemd slice may use; `target` is the unit.
    Slice,
    /// An isolated partition of cgroup version 2; `target` is the folder, `value` the CPUs.
    Partition,
    /// Rights for a group of users; `target` is the file.
    Limits,
    /// The slice of systemd for the isolated CPUs; `target` is the unit, `value` the CPUs.
    RealTimeSlice,
    /// The CPUs of systemd and of all that it starts; `target` is `systemd`, `value` the CPUs.
    ManagerAffinity,
    /// A service's policy, priority and CPUs, `fifo 80 2-3`; `target` is the unit.
    Service,
}

impl ActionKind {
    /// Whether the action writes `value` to the one file `target` in `/proc` or `/sys`, and nothing else.
    pub fn writes_one_file(self) -> bool {
        use ActionKind::*;
        matches!(
            self,
            Governor
                | Frequency
                | PmQos
                | Sysctl
                | IrqDefault
                | Workqueues
                | FairServer
                | Memory
                | MachineCheck
        )
    }
}

/// The disturbance while it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Disruption {
    /// Nothing.
    None,
    /// Running programs notice for a moment.
    Brief,
    /// In force only after a reboot.
    Reboot,
}

/// An omitted action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// What.
    pub what: String,
    /// Why not.
    pub reason: String,
}
