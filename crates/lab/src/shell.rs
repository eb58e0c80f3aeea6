// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lab shell`: a guest on this terminal.

use evidence::lab::Mode;

use crate::guest::storm;
use crate::initramfs::Parts;
use crate::job::{GuestJob, GuestTask, PORT_MODULES};
use crate::kernel::GuestKernel;
use crate::patience::Patience;
use crate::qemu::{Guest, How};
use crate::{Result, boot, disk, initramfs, qemu};

/// Runs a guest until the person ends it.
pub fn run(kernel: &GuestKernel, boot_line: &str, cpus: u32, patience: Patience) -> Result<()> {
    qemu::version(kernel.architecture)?;
    let job = GuestJob { modules: Vec::new(), disk: true, task: GuestTask::Shell };
    let program = initramfs::guest_program(kernel.architecture)?;
    let modules = PORT_MODULES.iter().chain(disk::MODULES);
    let modules = modules.chain(storm::KINDS.iter().flat_map(|kind| kind.modules)).copied();
    let modules = initramfs::modules(kernel.modules.as_deref(), &modules.collect::<Vec<_>>());
    let carried = storm::KINDS.iter().flat_map(|kind| kind.carried).copied().collect::<Vec<_>>();
    let carried = initramfs::modules(kernel.modules.as_deref(), &carried);
    let guest = Guest {
        kernel,
        initramfs: &initramfs::build(
            &Parts { program: &program, modules, carried, programs: Vec::new(), run: None, laid: None },
            &job,
        )?,
        boot_line: boot::whole(kernel.architecture, boot_line),
        mode: Mode::Count,
        cpus,
        scope: None,
        disk: true,
        how: How::default(),
        patience,
    };
    qemu::interactive(&guest)
}
