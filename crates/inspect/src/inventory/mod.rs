// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inventory of a machine, read: each file of this folder reads one part of it.

use crate::boot;
use crate::tree::Tree;
use machine::Snapshot;
use machine::inventory::Inventory;

mod devices;
mod files;
mod irqbalance;
pub(crate) mod irqs;
mod live;
mod log;
mod power;
mod sampling;
pub(crate) mod served;
mod services;
mod session;
mod system;
mod threads;
mod units;

pub use sampling::sample;
pub use threads::live_thread;

pub(crate) fn read(tree: &mut Tree, machine: &Snapshot) -> Inventory {
    let cpuinfo = tree.hint("proc/cpuinfo").unwrap_or_default();
    let (threads, threads_unread) = threads::read(tree);
    let root_device = system::root_device(tree, machine.kernel.release.as_deref());
    let mut inventory = Inventory {
        whole: tree.whole(),
        as_root: tree.live() && live::is_root(),
        files: files::read(tree, machine),
        boot: boot::read_tree(tree),
        log: log::read(tree),
        threads,
        threads_unread,
        irqs: irqs::read(tree),
        workqueues: irqs::workqueues(tree),
        frequencies: power::frequencies(tree),
        cpu_power: power::cpus(tree, machine),
        dma_latency: power::dma_latency(tree),
        served: served::read(tree),
        session: session::read(tree),
        modules: system::modules(tree),
        interfaces: devices::interfaces(tree),
        graphics: devices::graphics(tree),
        distribution: system::distribution(tree),
        kernels: system::kernels(tree, &root_device),
        root_device,
        cpu_vendor: crate::identity::field(&cpuinfo, "vendor_id").map(str::to_string),
        cpu_flags: system::cpu_flags(&cpuinfo),
        clock_resolution_ns: tree.live().then(live::clock_resolution_ns).flatten(),
        ..Inventory::default()
    };
    inventory.services = services::read(tree, &inventory.threads);
    inventory
}
