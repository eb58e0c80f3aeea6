// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/proc/interrupts`: a column for each CPU that is online, a line for each interrupt.
//!
//! ```text
//!            CPU0       CPU2                                    the others are offline
//!  45:        120          0  IR-PCI-MSI 524291-edge  nvme0q3   number, chip, hardware's number, devices
//! LOC:     643624     444211   Local timer interrupts           x86: a name and what it means
//! IPI0:     12083      11922  Rescheduling interrupts           arm64
//! ERR:          0                                               of no CPU
//! ```

use std::collections::BTreeMap;

use crate::counters::Counters;
use machine::CpuSet;
use machine::counters::CounterClass;

/// Longest name that is kept; a line shared by dozens of devices has their names one after the other.
const NAME: usize = 80;

/// The CPUs that a head line names, in its order.
pub(super) fn columns(head: &str) -> Vec<u32> {
    head.split_whitespace().map_while(|word| word.strip_prefix("CPU")?.parse().ok()).collect()
}

impl Counters {
    pub(super) fn add_interrupts(&mut self, text: &str, cpus: &CpuSet) {
        let mut lines = text.lines();
        let columns = columns(lines.next().unwrap_or_default());
        columns.iter().filter(|cpu| cpus.contains(**cpu)).for_each(|cpu| self.cpus.insert(*cpu));
        for line in lines {
            let Some((label, rest)) = line.split_once(':') else { continue };
            let mut rest = rest;
            let mut counts = Vec::with_capacity(columns.len());
            while counts.len() < columns.len() {
                let word = rest.trim_start();
                let end = word.find(char::is_whitespace).unwrap_or(word.len());
                let Ok(count) = word[..end].parse::<u64>() else { break };
                counts.push(count);
                rest = &word[end..];
            }
            // What has fewer figures than there are CPUs is a total, and says nothing of any of them.
            if counts.len() < columns.len() || columns.is_empty() {
                continue;
            }
            let (class, name) = named(label.trim(), rest.trim());
            let name: String = name.chars().take(NAME).collect();
            for (cpu, count) in columns.iter().zip(counts).filter(|(cpu, _)| cpus.contains(**cpu)) {
                self.add(class, name.clone(), *cpu, count);
            }
        }
    }
}

/// The devices that each numbered interrupt has by its line.
pub(crate) fn devices_of(text: &str) -> BTreeMap<u32, Vec<String>> {
    let mut lines = text.lines();
    let columns = columns(lines.next().unwrap_or_default()).len();
    let line = |line: &str| {
        let (label, rest) = line.split_once(':')?;
        let number = label.trim().parse::<u32>().ok()?;
        let mut rest = rest.trim_start();
        for _ in 0..columns {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            rest[..end].parse::<u64>().ok()?;
            rest = rest[end..].trim_start();
        }
        let names = device(rest.trim());
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        Some((number, names.map(str::to_string).collect()))
    };
    lines.filter_map(line).collect()
}

/// The event that a line counts, from its label and its description.
fn named(label: &str, description: &str) -> (CounterClass, String) {
    let said = |name: &str| name.to_string();
    if label.bytes().all(|byte| byte.is_ascii_digit()) {
        let device = device(description);
        let class = if device == "arch_timer" { CounterClass::LocalTimer } else { CounterClass::Irq };
        let name = if device.is_empty() { label.to_string() } else { format!("{label} {device}") };
        return match class {
            CounterClass::LocalTimer => (class, said("local timer")),
            _ => (class, name),
        };
    }
    match label {
        "NMI" => (CounterClass::Nmi, said("NMI")),
        "PMI" => (CounterClass::Nmi, said("performance counters")),
        "LOC" => (CounterClass::LocalTimer, said("local timer")),
        "RES" => (CounterClass::Ipi, said("reschedule")),
        "CAL" => (CounterClass::Ipi, said("call function")),
        "TLB" => (CounterClass::Ipi, said("TLB shootdown")),
        "IWI" => (CounterClass::Ipi, said("irq work")),
        _ if label.starts_with("IPI") => (CounterClass::Ipi, ipi(description)),
        _ => {
            let what = description.trim_end_matches("interrupts").trim();
            (CounterClass::Irq, if what.is_empty() { label.to_string() } else { format!("{label} {what}") })
        }
    }
}

/// arm64's words for an IPI, as x86's are named above.
fn ipi(description: &str) -> String {
    let words = description.trim_end_matches("interrupts").trim();
    match words {
        "Rescheduling" => "reschedule".to_string(),
        "Function call" => "call function".to_string(),
        "IRQ work" => "irq work".to_string(),
        other => other.to_lowercase(),
    }
}

/// The devices of `IR-PCI-MSI 524291-edge  nvme0q3` or `GICv3  27 Level     arch_timer`: what stands behind
/// the trigger (`edge`, `Level`), or the last word where there is none.
fn device(description: &str) -> String {
    let mut rest = description;
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        let word = word.to_ascii_lowercase();
        let trigger = word.rsplit('-').next().unwrap_or_default();
        if ["edge", "level", "fasteoi", "none"].contains(&trigger) {
            return rest.to_string();
        }
    }
    description.split_whitespace().next_back().unwrap_or_default().to_string()
}
