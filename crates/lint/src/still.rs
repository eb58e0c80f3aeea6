// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about a thread's set-up, which need no event.

use std::path::Path;

use inspect::live_thread;
use machine::CpuSet;
use machine::inventory::{Thread, ThreadPolicy};

use crate::memory::MappedMemory;
use crate::rule::Rule;

/// A rule that a thread's set-up breaks, with the finding's text.
pub type BrokenRule = (Rule, String);

/// A thread of an interrupt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrqThread {
    name: String,
    priority: u32,
    cpus: CpuSet,
}

/// The threads of interrupts, below a root folder.
pub fn irq_threads() -> Vec<IrqThread> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_irq = |number: &u32| {
        let name = untrusted::text(format!("/proc/{number}/comm"));
        name.is_ok_and(|name| name.starts_with("irq/"))
    };
    let thread = |number| {
        let thread = live_thread(Some(number), number)?;
        let Thread { name, priority, cpus, .. } = thread;
        thread.kernel.then_some(IrqThread { name, priority, cpus })
    };
    numbers.filter(is_irq).filter_map(thread).collect()
}

/// The rules that a thread's policy, priority and affinity break.
pub fn of_thread(thread: &Thread, irqs: &[IrqThread]) -> Vec<BrokenRule> {
    let mut shown = Vec::new();
    if thread.cpus.len() > 1 && thread.policy != ThreadPolicy::Deadline {
        shown.push((Rule::WideAffinity, format!("it may run on the CPUs {}", thread.cpus)));
    }
    let has_priority = matches!(thread.policy, ThreadPolicy::Fifo | ThreadPolicy::RoundRobin);
    let above = |irq: &&IrqThread| {
        irq.priority > thread.priority && thread.cpus.iter().any(|cpu| irq.cpus.contains(cpu))
    };
    if has_priority && let Some(irq) = irqs.iter().filter(above).max_by_key(|irq| irq.priority) {
        let (own, name, its) = (thread.priority, &irq.name, irq.priority);
        shown.push((
            Rule::LowPriority,
            format!("its priority is {own}, and that of {name} on its CPU is {its}"),
        ));
    }
    shown
}

/// The rules that frequency governors below a root folder (`/`) break.
pub fn frequency(root: &Path, cpus: &CpuSet) -> Option<BrokenRule> {
    cpus.iter().find_map(|cpu| {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        let governor = untrusted::text(root.join(file)).ok()?;
        let governor = governor.trim();
        (governor != "performance")
            .then(|| (Rule::Frequency, format!("the governor of CPU {cpu} is {governor}")))
    })
}

/// The rules that the memory of a process breaks.
pub fn memory(mapped: &MappedMemory) -> Option<BrokenRule> {
    let found = mapped.unlocked()?;
    let (kib, of_kib, largest) = (found.kib, found.of_kib, found.largest);
    Some((Rule::NoMlockall, format!("{kib} of {of_kib} KiB are not locked, {largest} among them")))
}

/// The rules that a thread's stack breaks, at its deepest.
pub fn stack(mapped: &MappedMemory, sp: u64) -> Option<BrokenRule> {
    let kib = mapped.missing_stack(sp)? / 1024;
    Some((Rule::NoStackPrefault, format!("{kib} KiB of stack are mapped below the loop")))
}

/// Bits of MXCSR (Intel SDM, volume 1, 10.2.3): a denormal operand or an underflow happened; denormals are
/// taken as zero; results are flushed to zero.
const DENORMAL: u32 = 1 << 1;
const UNDERFLOW: u32 = 1 << 4;
const AS_ZERO: u32 = 1 << 6;
const FLUSHED: u32 = 1 << 15;

/// The rules that a thread's MXCSR breaks.
pub fn denormals(float_state: u32) -> Option<BrokenRule> {
    let has_seen = float_state & (DENORMAL | UNDERFLOW) != 0;
    let is_set = float_state & AS_ZERO != 0 && float_state & FLUSHED != 0;
    (has_seen && !is_set)
        .then(|| (Rule::Denormals, format!("it computed with denormal numbers (MXCSR {float_state:#06x})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(policy: ThreadPolicy, priority: u32, cpus: &str) -> Thread {
        Thread { policy, priority, cpus: cpus.parse().unwrap(), ..Thread::default() }
    }

    fn rules(thread: &Thread) -> Vec<Rule> {
        let irq = |name: &str, priority, cpus: &str| IrqThread {
            name: name.into(),
            priority,
            cpus: cpus.parse().unwrap(),
        };
        let irqs = [irq("irq/24-eth0", 50, "2"), irq("irq/25-nvme", 50, "0-1")];
        of_thread(thread, &irqs).into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn only_interrupts_of_the_same_cpu_count() {
        assert_eq!(rules(&thread(ThreadPolicy::Fifo, 40, "3")), []);
        assert_eq!(rules(&thread(ThreadPolicy::Fifo, 40, "2")), [Rule::LowPriority]);
        assert_eq!(rules(&thread(ThreadPolicy::Fifo, 50, "2")), []);
        assert_eq!(rules(&thread(ThreadPolicy::Other, 0, "2")), []);
    }

    #[test]
    fn a_deadline_thread_may_have_all_cpus() {
        assert_eq!(rules(&thread(ThreadPolicy::Deadline, 0, "0-3")), []);
        assert_eq!(rules(&thread(ThreadPolicy::Fifo, 80, "0-3")), [Rule::WideAffinity]);
    }

    #[test]
    fn notes_only_governors_other_than_performance() {
        let root = tempfile::tempdir().unwrap();
        let cpus: CpuSet = "1".parse().unwrap();
        assert_eq!(frequency(root.path(), &cpus), None);
        let folder = root.path().join("sys/devices/system/cpu/cpu1/cpufreq");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("scaling_governor"), "performance\n").unwrap();
        assert_eq!(frequency(root.path(), &cpus), None);
        std::fs::write(folder.join("scaling_governor"), "schedutil\n").unwrap();
        let found = (Rule::Frequency, "the governor of CPU 1 is schedutil".to_string());
        assert_eq!(frequency(root.path(), &cpus), Some(found));
    }

    #[test]
    fn denormals_count_only_if_they_happened() {
        assert_eq!(denormals(0x1f80), None);
        assert_eq!(denormals(0x1f80 | DENORMAL | AS_ZERO | FLUSHED), None);
        assert!(denormals(0x1f80 | DENORMAL).is_some());
    }
}
