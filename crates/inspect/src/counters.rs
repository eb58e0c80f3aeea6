// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each CPU was interrupted, and by what, by kernel counters that need no privilege:
//! `/proc/interrupts` (Documentation/filesystems/proc.rst), `/proc/softirqs`, `/proc/schedstat`
//! (Documentation/scheduler/sched-stats.rst) and `/proc/stat`. The difference of two readings names who
//! interrupted a CPU between them, without times.
//!
//! Limits: one file after the other, not an atomic picture. Of a wide machine only the columns asked for are
//! kept.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::tree::Tree;
use machine::CpuSet;
use machine::counters::{CounterClass, CounterSource, Grown};

mod interrupts;

pub(crate) use interrupts::devices_of;
#[cfg(test)]
mod tests;

/// `/proc/interrupts` of a machine with thousands of interrupts and hundreds of CPUs is some megabytes long.
const TEXT_LIMIT: u64 = 32 << 20;

/// The kernel counts times in this unit for user space, whatever its own tick is.
const NS_PER_USER_HZ: u64 = 10_000_000;

/// One reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// CPUs that were online, of those asked for.
    cpus: CpuSet,
    counts: BTreeMap<CounterSource, BTreeMap<u32, u64>>,
    unread: Vec<String>,
}

impl Counters {
    /// Reads the counters of `cpus` below `root`; unreadable files are in [`Counters::unread`].
    pub fn read(root: &Path, cpus: &CpuSet) -> Counters {
        let mut tree = Tree::new(root);
        let mut counters = Counters::default();
        let mut text = |path: &str| {
            let bytes = tree.bytes(path, TEXT_LIMIT)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let texts = ["proc/interrupts", "proc/softirqs", "proc/schedstat", "proc/stat"].map(&mut text);
        for (text, path) in texts.iter().zip(["/proc/interrupts", "/proc/softirqs"]) {
            if text.is_none() {
                counters.unread.push(format!("{path} cannot be read"));
            }
        }
        counters.unread.extend(tree.unread());
        let [interrupts, softirqs, schedstat, stat] = texts.map(Option::unwrap_or_default);
        counters.add_interrupts(&interrupts, cpus);
        counters.add_softirqs(&softirqs, cpus);
        counters.add_schedstat(&schedstat, cpus);
        counters.add_stat(&stat, cpus);
        counters
    }

    /// The same from the texts of the four files, in their order above.
    pub fn parse(texts: [&str; 4], cpus: &CpuSet) -> Counters {
        let mut counters = Counters::default();
        counters.add_interrupts(texts[0], cpus);
        counters.add_softirqs(texts[1], cpus);
        counters.add_schedstat(texts[2], cpus);
        counters.add_stat(texts[3], cpus);
        counters
    }

    /// CPUs that it has counts of: those asked for that were online.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// The counters that could not be read, and why.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Whether nothing could be counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The count of one counter on one CPU; `None` where it is not known.
    pub fn count(&self, class: CounterClass, name: &str, cpu: u32) -> Option<u64> {
        self.counts.get(&CounterSource { class, name: name.to_string() })?.get(&cpu).copied()
    }

    /// The growth since `earlier`, by CPU. Of a CPU that came online meanwhile nothing is known.
    pub fn since(&self, earlier: &Counters) -> Vec<Grown> {
        let mut grown = Vec::new();
        for (source, counts) in &self.counts {
            let before = earlier.counts.get(source);
            for (cpu, now) in counts.iter().filter(|(cpu, _)| earlier.cpus.contains(**cpu)) {
                let count = match before.and_then(|before| before.get(cpu)) {
                    Some(before) => grew(*before, *now),
                    // It was registered meanwhile; a whole file that was not read before says nothing.
                    None if earlier.counts.keys().any(|other| other.class == source.class) => *now,
                    None => 0,
                };
                if count > 0 {
                    grown.push(Grown { source: source.clone(), cpu: *cpu, count });
                }
            }
        }
        grown.sort_by_key(|one| one.cpu);
        grown
    }

    fn add(&mut self, class: CounterClass, name: String, cpu: u32, count: u64) {
        let of_cpu = self.counts.entry(CounterSource { class, name }).or_default().entry(cpu).or_default();
        *of_cpu = of_cpu.saturating_add(count);
    }

    /// `          HI:          0          0`, below a line that names the CPUs.
    fn add_softirqs(&mut self, text: &str, cpus: &CpuSet) {
        let mut lines = text.lines();
        let columns = interrupts::columns(lines.next().unwrap_or_default());
        for line in lines {
            let Some((name, counts)) = line.split_once(':') else { continue };
            for (cpu, word) in columns.iter().zip(counts.split_whitespace()) {
                let Ok(count) = word.parse() else { break };
                if cpus.contains(*cpu) {
                    self.add(CounterClass::Softirq, name.trim().to_string(), *cpu, count);
                }
            }
        }
    }

    /// `cpu0 0 0 3471 1242 2068 1510 1158842212 98451203 2211`: the last figure counts what ran there.
    fn add_schedstat(&mut self, text: &str, cpus: &CpuSet) {
        for (cpu, figures) in of_cpus(text, cpus) {
            if let Some(count) = figures.get(8) {
                self.add(CounterClass::Switch, "tasks".to_string(), cpu, *count);
            }
        }
    }

    /// `cpu0 42167 30851 11315 35550 277 0 23 69 0 0`: the eighth figure is steal.
    fn add_stat(&mut self, text: &str, cpus: &CpuSet) {
        for (cpu, figures) in of_cpus(text, cpus) {
            if let Some(count) = figures.get(7) {
                self.add(CounterClass::Steal, "hypervisor".to_string(), cpu, *count);
            }
        }
    }
}

/// How much a counter grew. `/proc/interrupts` prints 32 bits, which wrap; what is smaller without having
/// wrapped began anew: its interrupt was freed and given to another device.
fn grew(before: u64, now: u64) -> u64 {
    const WRAP: u64 = 1 << 32;
    match now.checked_sub(before) {
        Some(count) => count,
        None if before < WRAP && before > WRAP / 4 * 3 && now < WRAP / 4 => WRAP - before + now,
        None => now,
    }
}

/// Steal's count as a time.
pub fn steal_ns(count: u64) -> u64 {
    count.saturating_mul(NS_PER_USER_HZ)
}

/// System management interrupts of a CPU since power-on: MSR_SMI_COUNT (Intel SDM vol. 4, 0x34), which Linux
/// shows in `/dev/cpu/N/msr` (module `msr`). Where that is not another's CPU the kernel reads it there, by an
/// IPI.
pub fn smi_count(root: &Path, cpu: u32) -> io::Result<u64> {
    const MSR_SMI_COUNT: u64 = 0x34;
    let mut value = [0; 8];
    let msr = untrusted::open(root.join(format!("dev/cpu/{cpu}/msr")))?;
    msr.read_exact_at(&mut value, MSR_SMI_COUNT)?;
    // The upper half is reserved.
    Ok(u64::from_ne_bytes(value) & 0xffff_ffff)
}

/// The figures of lines that begin with `cpuN`, of the CPUs asked for.
fn of_cpus<'a>(text: &'a str, cpus: &'a CpuSet) -> impl Iterator<Item = (u32, Vec<u64>)> + 'a {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let cpu: u32 = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        cpus.contains(cpu).then(|| (cpu, words.map_while(|word| word.parse().ok()).collect()))
    })
}
