// SPDX-License-Identifier: MIT OR Apache-2.0
//! One change of a plan: its kind, target and value, and what a reader has to know of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("cannot plan: {reason}; {cure}")]
#[schemars(rename = "Refusal")]
pub struct PlanRefusal {
    /// Why.
    pub reason: String,
    /// The cure.
    pub cure: String,
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

impl Action {
    /// A change that disturbs nothing, without the texts for a reader.
    pub fn new(kind: ActionKind, target: &str, value: impl Into<String>) -> Action {
        Action {
            kind,
            target: target.into(),
            value: value.into(),
            reason: String::new(),
            source: String::new(),
            cost: String::new(),
            disruption: Disruption::None,
            verify: String::new(),
            undo: String::new(),
        }
    }
}

/// The words that a plan adds to the kernel's line, in order. Its text is rendered from them, and never split
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootLine(Vec<String>);

impl BootLine {
    /// The words that `actions` name.
    pub fn of(actions: &[Action]) -> BootLine {
        let words = actions.iter().filter(|action| action.kind == ActionKind::BootParameter);
        BootLine(words.map(|action| line_word(&action.target, &action.value)).collect())
    }

    /// The line without the words that `is_there` already.
    pub fn without(self, is_there: impl Fn(&str) -> bool) -> (BootLine, Vec<String>) {
        let (there, left) = self.0.into_iter().partition(|word| is_there(word));
        (BootLine(left), there)
    }

    /// Whether it has no word.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::ops::Deref for BootLine {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Display for BootLine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0.join(" "))
    }
}

/// A parameter as it stands on the line.
pub fn line_word(name: &str, value: &str) -> String {
    if value.is_empty() { name.to_string() } else { format!("{name}={value}") }
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
    /// Power that links to cards save; `target` is the file.
    Links,
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
                | Links
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
