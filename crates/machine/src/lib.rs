// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this Linux machine is.
//!
//! Everything is read below a root folder, so that a captured tree is as good as a live machine, and
//! everything that was read becomes one serialisable [`Snapshot`]. Reading never fails as a whole: what
//! cannot be known stays empty, and a file that is there but cannot be read or understood is named in
//! [`Snapshot::unread`]. A file that is plainly absent is not: most machines lack most of them.
//!
//! Limits: one moment, file by file, not an atomic picture; no privilege is asked for; nothing is written.
#![forbid(unsafe_code)]

use std::path::Path;

pub mod boot;
mod cgroup;
mod config;
pub mod cpuset;
mod devices;
mod identity;
mod kernel;
mod layout;
mod power;
pub mod registry;
mod scheduler;
mod settings;
pub mod snapshot;
mod topology;
mod tree;
mod virtualisation;

pub use boot::Boot;
pub use cpuset::CpuSet;
pub use snapshot::Snapshot;

use tree::Tree;

/// Reads the machine whose `/proc`, `/sys`, `/boot` and `/run` lie below `root`; `/` is the live one.
pub fn read(root: &Path) -> Snapshot {
    let mut tree = Tree::new(root);
    let mut machine = Snapshot::default();
    identity::read(&mut tree, &mut machine);
    let config = kernel::read(&mut tree, &mut machine.kernel);
    topology::read(&mut tree, &mut machine);
    layout::read(&mut tree, &mut machine);
    devices::read(&mut tree, &mut machine);
    settings::read(&mut tree, &mut machine);
    power::read(&mut tree, &mut machine);
    scheduler::read(&mut tree, &mut machine, config.as_ref());
    machine.cgroup = cgroup::read(&mut tree);
    machine.hypervisor = virtualisation::hypervisor(&mut tree);
    machine.container = virtualisation::container(&mut tree);
    machine.unread = tree.unread();
    machine
}
