// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content of `kernel/include/uapi/linux/isolator.h`, in Rust. A test compiles that header and compares.

/// Timers of the CPU.
pub(super) const MASK_CLOCK: u32 = 1 << 0;
/// Requests for a context switch.
pub(super) const MASK_RESCHED: u32 = 1 << 1;
/// Calls of registered functions.
pub(super) const MASK_IPI: u32 = 1 << 2;
/// Flushes of unmapped vmalloc ranges.
pub(super) const MASK_KTLB: u32 = 1 << 3;
/// Refuse if another task can change the owner's address space.
pub(super) const MASK_EXCLUSIVE_MM: u32 = 1 << 16;
/// The mask where no other is requested.
pub(super) const MASK_DEFAULT: u32 = MASK_CLOCK | MASK_RESCHED | MASK_IPI;
/// All that the mask may hold.
pub(super) const MASK_ALL: u32 = MASK_DEFAULT | MASK_KTLB | MASK_EXCLUSIVE_MM;

/// Fire timers, look at the tick, switch if asked to.
pub(super) const TICK_SCHED: u32 = 1 << 0;
/// Sleep until no task waits for the CPU.
pub(super) const TICK_RT: u32 = 1 << 1;
/// Verify the time stamp counter.
pub(super) const TICK_TSC_SYNC: u32 = 1 << 2;
/// All that a tick may ask for.
pub(super) const TICK_ALL: u32 = TICK_SCHED | TICK_RT | TICK_TSC_SYNC;

/// The CPU is in user mode.
pub(super) const PENDING_USER: u32 = 1 << 0;
/// A message waits.
pub(super) const PENDING_MESSAGE: u32 = 1 << 6;
/// Its owner is.
pub(super) const PENDING_OWNER: u32 = 1 << 7;

/// Version of [`IsolatorPage`].
pub(super) const PAGE_VERSION: u32 = 2;
/// Counters that a page has room for.
pub(super) const STAT_ROOM: usize = 64;
/// Call sites that are kept of the last breach.
pub(super) const SITES: usize = 8;
/// In [`IsolatorStatus::cpu`]: the caller's.
pub(super) const THIS_CPU: u32 = u32::MAX;

/// Offset of a CPU's page in the device.
pub(super) const fn mmap_offset(cpu: u32) -> u64 {
    (cpu as u64) << 20
}

/// The counters of a page in order; the header's enumerators are called so, `ISOLATOR_STAT_` before.
pub(super) const STATS: [&str; 26] = [
    "defer_sync",
    "defer_ktlb",
    "defer_order",
    "defer_resched",
    "defer_tick",
    "breach_call",
    "breach_user_tlb",
    "breach_kernel_tlb",
    "breach_stop",
    "breach_signal",
    "breach_irq_work",
    "breach_resched",
    "breach_bound",
    "refused_msr",
    "refused_cpufreq",
    "refused_perf",
    "refused_hotplug",
    "refused_mm",
    "starts",
    "ticks",
    "entries",
    "entries_work",
    "yields",
    "gate_closed",
    "posts",
    "polls",
];

/// struct isolator_page.
#[repr(C)]
pub(super) struct IsolatorPage {
    pub version: u32,
    pub size: u32,
    pub cpu: u32,
    pub mask: u32,
    pub breach_seq: u32,
    pub breach_stat: u32,
    pub breach_func: u64,
    pub breach_ns: u64,
    pub breach_site: [u64; SITES],
    pub reserved0: [u64; 19],
    pub pending: u32,
    pub reserved1: [u32; 31],
    pub stat: [u64; STAT_ROOM],
}

/// struct isolator_status.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IsolatorStatus {
    pub size: u32,
    pub cpu: u32,
    pub owner: i32,
    pub mask: u32,
    pub pending: u32,
    pub max_defer_ms: u32,
    pub refused: u32,
    pub ended: u32,
    pub reserved: [u64; 4],
    pub text: [u8; 96],
}

/// START, with the mask by value.
pub(super) const IOC_START: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(b'I', 0x60);
/// TICK, with flags by value.
pub(super) const IOC_TICK: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(b'I', 0x61);
/// STOP.
pub(super) const IOC_STOP: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(b'I', 0x62);
/// STATUS, with a [`IsolatorStatus`].
pub(super) const IOC_STATUS: rustix::ioctl::Opcode =
    rustix::ioctl::opcode::read_write::<IsolatorStatus>(b'I', 0x63);

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::mem::offset_of;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;
    use crate::isolation::kernel_sources;
    use crate::isolation::reason::NAMES;

    fn header() -> Option<PathBuf> {
        Some(kernel_sources()?.join("include/uapi/linux/isolator.h"))
    }

    /// The values that the header's compiler gives these expressions.
    fn compiled(header: &Path, expressions: &[String]) -> Vec<u64> {
        let folder = std::env::temp_dir().join(format!("isolator-uapi-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut text =
            format!("#include <stddef.h>\n#include <stdio.h>\n#include \"{}\"\n", header.display());
        text.push_str("int main(void)\n{\n");
        for expression in expressions {
            writeln!(text, "\tprintf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
        }
        text.push_str("\treturn 0;\n}\n");
        let (source, program) = (folder.join("layout.c"), folder.join("layout"));
        std::fs::write(&source, text).unwrap();
        let built =
            Command::new("cc").arg("-Wall").arg("-Werror").arg(&source).arg("-o").arg(&program).output();
        let built = built.expect("a C compiler, as to link this test");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let said = Command::new(&program).output().unwrap().stdout;
        let _ = std::fs::remove_dir_all(&folder);
        String::from_utf8(said).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }

    /// The enumerators of `enum NAME`, without their common start.
    fn enumerators(text: &str, name: &str, start: &str) -> Vec<String> {
        let body = text.split(&format!("\nenum {name} {{")).nth(1).unwrap().split('}').next().unwrap();
        body.split(',').map(|word| word.trim().trim_start_matches(start).to_lowercase()).collect()
    }

    #[test]
    fn layouts_and_numbers_are_those_of_the_header() {
        let Some(header) = header() else { return };
        let mut table: Vec<(String, u64)> = Vec::new();
        let mut is = |expression: &str, value: u64| table.push((expression.to_string(), value));
        is("sizeof(struct isolator_page)", size_of::<IsolatorPage>() as u64);
        is("sizeof(struct isolator_status)", size_of::<IsolatorStatus>() as u64);
        macro_rules! offsets {
            ($type:ty, $c:literal: $($field:ident),*) => {
                $(is(concat!("offsetof(struct ", $c, ", ", stringify!($field), ")"), offset_of!($type, $field) as u64);)*
            };
        }
        offsets!(IsolatorPage, "isolator_page": version, size, cpu, mask, breach_seq, breach_stat, breach_func);
        offsets!(IsolatorPage, "isolator_page": breach_ns, breach_site, pending, stat);
        offsets!(IsolatorStatus, "isolator_status": size, cpu, owner, mask, pending, max_defer_ms, refused, ended, text);
        for (name, value) in [
            ("MASK_CLOCK", MASK_CLOCK),
            ("MASK_RESCHED", MASK_RESCHED),
            ("MASK_IPI", MASK_IPI),
            ("MASK_KTLB", MASK_KTLB),
            ("MASK_EXCLUSIVE_MM", MASK_EXCLUSIVE_MM),
            ("MASK_DEFAULT", MASK_DEFAULT),
            ("MASK_ALL", MASK_ALL),
            ("TICK_SCHED", TICK_SCHED),
            ("TICK_RT", TICK_RT),
            ("TICK_TSC_SYNC", TICK_TSC_SYNC),
            ("TICK_ALL", TICK_ALL),
            ("PENDING_USER", PENDING_USER),
            ("PENDING_MESSAGE", PENDING_MESSAGE),
            ("PENDING_OWNER", PENDING_OWNER),
            ("PAGE_VERSION", PAGE_VERSION),
            ("THIS_CPU", THIS_CPU),
            ("SITES", SITES as u32),
            ("STAT_ROOM", STAT_ROOM as u32),
            ("STAT_MAX", STATS.len() as u32),
            ("REASON_MAX", NAMES.len() as u32),
        ] {
            is(&format!("ISOLATOR_{name}"), value.into());
        }
        for (name, opcode) in
            [("START", IOC_START), ("TICK", IOC_TICK), ("STOP", IOC_STOP), ("STATUS", IOC_STATUS)]
        {
            is(&format!("ISOLATOR_IOC_{name}"), opcode.into());
        }
        is("ISOLATOR_MMAP_OFFSET(5)", mmap_offset(5));
        let expressions = table.iter().map(|(expression, _)| expression.clone()).collect::<Vec<_>>();
        let said = expressions.iter().cloned().zip(compiled(&header, &expressions)).collect::<Vec<_>>();
        assert_eq!(said, table);
    }

    #[test]
    fn counters_and_reasons_are_called_as_in_the_header() {
        let Some(header) = header() else { return };
        let text = std::fs::read_to_string(header).unwrap();
        let mut stats = enumerators(&text, "isolator_stat", "ISOLATOR_STAT_");
        stats.retain(|name| name != "max");
        assert_eq!(stats, STATS);
        let mut reasons = enumerators(&text, "isolator_reason", "ISOLATOR_");
        reasons.retain(|name| name != "reason_max");
        assert_eq!(reasons, NAMES.map(|(name, ..)| name));
    }
}
