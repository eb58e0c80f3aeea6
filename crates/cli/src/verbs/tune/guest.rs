// SPDX-License-Identifier: MIT OR Apache-2.0
//! The boot line that a plan gives a guest of the lab: the lab knows nothing of plans, so it is made here and
//! handed to it.

use ::lab::architecture::Architecture;
use ::lab::boot;
use ::lab::kernel::GuestKernel;
use ::tune::plan::{Intent, MadeFor, Profile, WantedCpus, plan};
use machine::Snapshot;
use machine::snapshot::Cpu;

/// Names of boot lines that are planned, and for what: a scope's guest never sleeps on its isolated CPU
/// unless it is asked to.
const NAMES: &[(&str, Profile)] =
    &[("plan", Profile::Periodic), ("plan:periodic", Profile::Periodic), ("plan:poll", Profile::Poll)];

/// The profile, where `asked` is the name of a boot line that is planned.
pub fn profile(asked: &str) -> Option<Profile> {
    NAMES.iter().find(|(name, _)| *name == asked).map(|(_, profile)| *profile)
}

/// A plan's boot line for a guest with so many CPUs, of which the lab isolates the last.
pub fn boot_line(
    profile: Profile,
    kernel: &GuestKernel,
    cpus: u32,
) -> Result<String, Box<dyn std::error::Error>> {
    let intent = Intent::new(profile, WantedCpus::Cpus(boot::isolated(cpus)));
    Ok(plan(&guest(kernel, cpus), &MadeFor::default(), &intent)?.boot_line().to_string())
}

/// A guest as the emulator makes it: cores of one thread each, in one node.
fn guest(kernel: &GuestKernel, cpus: u32) -> Snapshot {
    let cpu = |id| Cpu { id, online: true, siblings: [id].into_iter().collect(), ..Cpu::default() };
    let mut machine = Snapshot { cpus: (0..cpus).map(cpu).collect(), ..Snapshot::default() };
    machine.possible = machine.online();
    machine.architecture = Some(
        match kernel.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        }
        .to_string(),
    );
    machine.kernel.release = Some(kernel.release.clone());
    let text = config(kernel).unwrap_or_default();
    for name in ["CPU_ISOLATION", "NO_HZ_FULL", "RCU_NOCB_CPU"].iter().filter(|_| !text.is_empty()) {
        let on = text.lines().any(|line| line == format!("CONFIG_{name}=y"));
        machine.kernel.options.insert(name.to_string(), if on { "y" } else { "n" }.to_string());
    }
    machine
}

/// The kernel's configuration: beside its image, or where its package has it.
fn config(kernel: &GuestKernel) -> Option<String> {
    let beside = kernel.image.parent()?;
    let package = kernel.modules.as_deref().and_then(|modules| modules.ancestors().nth(3));
    let name = format!("config-{}", kernel.release);
    let places = [
        Some(beside.join(&name)),
        Some(beside.join("config")),
        package.map(|root| root.join("boot").join(&name)),
    ];
    places.into_iter().flatten().find_map(|path| untrusted::text(path).ok())
}
