// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a kernel through which Isolator looks into it. The collectors refuse a kernel by these
//! versions and files, and doctor says by the same ones, before any run, which answers a kernel can give.

use crate::registry::KernelVersion;

/// The kernel's types, without which no BPF part of ours is loaded.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Where the types of a kernel without them may lie; `%` is its release. Images lie where libbpf looks for
/// them, too (`btf__load_vmlinux_btf()`); headers come last, since to compile them takes some seconds.
pub const TYPES_ELSEWHERE: [&str; 10] = [
    "/boot/vmlinux-%",
    "/lib/modules/%/vmlinux",
    "/lib/modules/%/vmlinux-%",
    "/lib/modules/%/build/vmlinux",
    "/lib/modules/%/kernel/vmlinux",
    "/usr/lib/debug/boot/vmlinux-%",
    "/usr/lib/debug/boot/vmlinux-%.debug",
    "/usr/lib/debug/lib/modules/%/vmlinux",
    "/usr/lib/debug/usr/lib/modules/%/vmlinux",
    "/lib/modules/%/build/Makefile",
];
/// Where the kernel shows how far it is locked down.
pub const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// Where the kernel shows what it complained of.
pub const TAINTED: &str = "/proc/sys/kernel/tainted";
/// The mount point of tracefs; the kernel makes it if it has trace events.
pub const TRACEFS: &str = "/sys/kernel/tracing";
/// The command that mounts it.
pub const MOUNT_TRACEFS: &str = "mount -t tracefs tracefs /sys/kernel/tracing";
/// A file that each mounted tracefs has.
pub const TRACER: &str = "/sys/kernel/tracing/current_tracer";
/// The same tracefs, below debugfs.
pub const TRACEFS_BELOW_DEBUGFS: &str = "/sys/kernel/debug/tracing";
/// Events that every kernel with trace events has: if this folder is absent, no event was captured.
pub const EVENTS_OF_SCHEDULER: &str = "/sys/kernel/tracing/events/sched";
/// Events of the begin and end of system calls.
pub const EVENTS_OF_CALLS: &str = "/sys/kernel/tracing/events/raw_syscalls";
/// The event that names the sender of a call on another CPU.
pub const EVENT_OF_CALL_SENDERS: &str = "/sys/kernel/tracing/events/csd/csd_queue_cpu";
/// The event that names the sender of another IPI.
pub const EVENT_OF_SENDERS: &str = "/sys/kernel/tracing/events/ipi/ipi_send_cpu";

/// The oldest kernel whose BPF can collect causes: it has fetch-and-add.
pub const CAUSES_BY_BPF: KernelVersion = (5, 12);
/// The oldest kernel whose BPF can follow loops and see calls: it has `bpf_task_pt_regs`.
pub const LOOPS_BY_BPF: KernelVersion = (5, 15);
/// The oldest kernel with [`EVENT_OF_SENDERS`].
pub const SENDERS_SINCE: KernelVersion = (6, 4);
/// The oldest kernel with [`EVENT_OF_CALL_SENDERS`].
pub const CALL_SENDERS_SINCE: KernelVersion = (6, 5);

/// The bit of the kernel's taint for an oops or BUG (Documentation/admin-guide/tainted-kernels.rst).
pub const OOPSED: u64 = 1 << 7;

/// The files of [`TYPES_ELSEWHERE`] for a kernel.
pub fn types_elsewhere(release: &str) -> [String; TYPES_ELSEWHERE.len()] {
    TYPES_ELSEWHERE.map(|place| place.replace('%', release))
}

/// The bits of [`TAINTED`]; 0 if they cannot be read.
pub fn taint(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

/// Whether [`LOCKDOWN`] says that root, too, may read no memory of the kernel: neither by BPF nor by trace
/// events (security/lockdown: LOCKDOWN_BPF_READ_KERNEL, LOCKDOWN_TRACEFS).
pub fn is_confidential(lockdown: &str) -> bool {
    lockdown.contains("[confidentiality]")
}
