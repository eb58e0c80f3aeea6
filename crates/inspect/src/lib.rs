// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine, read: the files of a live machine or of a captured tree become the types of `machine`.
//!
//! Everything is read below a root folder, so that a captured tree is as good as a live machine, and
//! everything that was read becomes one serialisable [`Snapshot`]. Reading never fails as a whole: what
//! cannot be known stays empty, and a file that is there but cannot be read or understood is named in
//! [`Snapshot::unread`]. A file that is plainly absent is not: most machines lack most of them.
//!
//! [`boot`]: files of boot loaders. [`counters`]: how often each CPU was interrupted, read again and again.
//!
//! Limits: one moment, file by file, not an atomic picture; no privilege is asked for; nothing is written.
#![forbid(unsafe_code)]

use std::path::Path;

use machine::Snapshot;

pub mod accounts;
pub mod boot;
mod by_boot;
pub mod cgroup;
mod config;
pub mod counters;
mod devices;
mod identity;
mod inventory;
mod layout;
mod power;
mod running_kernel;
mod scheduler;
mod settings;
mod topology;
mod tree;
mod virtualisation;

pub use by_boot::by_boot;
pub use inventory::served::RECORDS;
pub use inventory::{live_thread, sample};

use tree::Tree;

/// Reads the machine whose `/proc`, `/sys`, `/boot` and `/run` lie below `root`; `/` is the live one.
pub fn read(root: &Path) -> Snapshot {
    let mut tree = Tree::new(root);
    let mut machine = basics(&mut tree);
    machine.unread = tree.unread();
    machine
}

/// As [`read`], with the [`machine::inventory::Inventory`]: threads, interrupts, settings, services, devices,
/// the kernel's log. Some of it needs root; what was kept from us is named where it would stand.
pub fn read_whole(root: &Path) -> Snapshot {
    let mut tree = Tree::new(root);
    let mut machine = basics(&mut tree);
    machine.inventory = Some(Box::new(inventory::read(&mut tree, &machine)));
    machine.unread = tree.unread();
    machine
}

/// Whether a CPU of the machine below `root` is offline now. The first one often cannot be.
pub fn is_offline(root: &Path, cpu: u32) -> bool {
    let online = root.join(format!("sys/devices/system/cpu/cpu{cpu}/online"));
    untrusted::text(online).is_ok_and(|online| online.trim() == "0")
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
