// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this Linux machine is.
//!
//! Everything is read below a root folder, so that a captured tree is as good as a live machine, and
//! everything that was read becomes one serialisable [`Snapshot`]. Reading never fails as a whole: what
//! cannot be known stays empty, and a file that is there but cannot be read or understood is named in
//! [`Snapshot::unread`]. A file that is plainly absent is not: most machines lack most of them.
//!
//! [`counters`]: how often each CPU was interrupted, read again and again.
//!
//! Limits: one moment, file by file, not an atomic picture; no privilege is asked for; nothing is written.
#![forbid(unsafe_code)]

use std::path::Path;

pub mod accounts;
pub mod advice;
pub mod boot;
pub mod cgroup;
mod config;
pub mod counters;
pub mod cpuset;
mod devices;
mod identity;
pub mod inventory;
mod layout;
mod likely;
mod power;
mod profile;
pub mod purpose;
pub mod quantity;
mod reading;
pub mod registry;
mod running_kernel;
mod scheduler;
mod settings;
pub mod snapshot;
mod topology;
mod tree;
pub mod units;
mod virtualisation;

pub use boot::Boot;
pub use cpuset::CpuSet;
pub use likely::likely;
pub use profile::Profile;
pub use purpose::Use;
pub use snapshot::Snapshot;

use tree::Tree;

/// Bytes, a digest for example, in hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the machine whose `/proc`, `/sys`, `/boot` and `/run` lie below `root`; `/` is the live one.
pub fn read(root: &Path) -> Snapshot {
    let mut tree = Tree::new(root);
    let mut machine = basics(&mut tree);
    machine.unread = tree.unread();
    machine
}

/// As [`read`], with the [`inventory::Inventory`]: threads, interrupts, settings, services, devices, the
/// kernel's log. Some of it needs root; what was kept from us is named where it would stand.
pub fn read_whole(root: &Path) -> Snapshot {
    let mut tree = Tree::new(root);
    let mut machine = basics(&mut tree);
    machine.inventory = Some(Box::new(inventory::read(&mut tree, &machine)));
    machine.unread = tree.unread();
    machine
}

fn basics(tree: &mut Tree) -> Snapshot {
    let mut machine = Snapshot::default();
    identity::read(tree, &mut machine);
    let config = running_kernel::read(tree, &mut machine.kernel);
    topology::read(tree, &mut machine);
    layout::read(tree, &mut machine);
    devices::read(tree, &mut machine);
    settings::read(tree, &mut machine);
    power::read(tree, &mut machine);
    scheduler::read(tree, &mut machine, config.as_ref());
    machine.cgroup = cgroup::read(tree);
    machine.hypervisor = virtualisation::hypervisor(tree);
    machine.container = virtualisation::container(tree);
    machine
}
