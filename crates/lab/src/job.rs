// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest's job: the host writes it into the initramfs as `/job.json`, the guest's init reads it.

use machine::CpuSet;
use serde::{Deserialize, Serialize};

/// Where the guest finds its job.
pub const JOB: &str = "/job.json";

/// Where a guest finds the program that it shall run.
pub const PROGRAM: &str = "/program";

/// The file through which edges reach a probe that answers them.
pub const SIGNAL: &str = "/run/signal";

/// The modules that the guest's port needs, where a kernel has it as modules.
pub const PORT_MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_console",
];

/// Name of the port that frames go through.
pub const PORT: &str = "isolator";

/// How the words of a guest begin whose emulator never gave that name to a port.
pub const NO_PORT: &str = "this guest has no virtio port";

/// A guest's first line, once its program runs.
pub const BEGIN: &str = "isolator-guest: begin";

/// The last line of a guest that ended in order.
pub const END: &str = "isolator-guest: end";

/// The job of one guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestJob {
    /// Files of kernel modules to load first, in order.
    pub modules: Vec<String>,
    /// Whether there is a scratch disk to mount.
    pub disk: bool,
    /// Its task.
    pub task: GuestTask,
}

/// The task of a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestTask {
    /// Send the kernel's symbols.
    Symbols,
    /// Measure while storms blow.
    Measure(Measure),
    /// Let a person type.
    Shell,
    /// Run another program.
    Program(ForeignProgram),
}

/// A program that is not this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignProgram {
    /// Its arguments; it lies at [`PROGRAM`].
    pub arguments: Vec<String>,
}

/// A measurement under storms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Arguments of this program, which measures and leaves a bundle in [`BUNDLE`].
    pub arguments: Vec<String>,
    /// The measured CPUs.
    pub measured: CpuSet,
    /// Where storms come from.
    pub house_keeping: CpuSet,
    /// The storms' names.
    pub storms: Vec<String>,
    /// Whether the storms blow together or take turns.
    pub order: StormOrder,
    /// How many times as many rounds each blows as its kind says.
    #[serde(default = "once")]
    pub times: u64,
    /// How long the window is open at the least, where storms blow; without them the arguments say how long.
    pub at_least_ns: u64,
    /// Seed of all that is drawn.
    pub seed: u64,
    /// The collector in the guest that shall watch the measured CPUs too.
    pub witness: Option<String>,
    /// The isolator's mask where the owner shall have its memory for itself; then a process of a
    /// single thread spins on the first measured CPU, and the arguments are not used.
    #[serde(default)]
    pub alone: Option<String>,
}

/// A storm's own rounds, and no more.
pub fn once() -> u64 {
    1
}

/// How several storms share the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StormOrder {
    /// All at once.
    #[default]
    Together,
    /// One round of one of them at a time, drawn from the seed.
    Shuffled,
}

/// Where the guest's measurement leaves its bundle.
pub const BUNDLE: &str = "/run/bundle";
