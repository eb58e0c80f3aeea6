// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a sample of the running machine: reads counters, waits, reads them again. Nothing is set, and
//! nothing runs meanwhile but the wait.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use machine::counters::CounterClass;
use machine::inventory::{CpuSample, MachineSample, ThreadSample};

use super::threads;
use crate::counters::{Counters, smi_count};
use crate::tree::Tree;
use machine::{CpuSet, Snapshot};

/// Everything that is counted, at one moment.
struct SampleReading {
    counters: Counters,
    throttled: BTreeMap<u32, u64>,
    threads: BTreeMap<u32, ThreadSample>,
    smi: Result<u64, String>,
}

/// Samples the CPUs of this machine, which `machine` is, for `duration`.
pub fn sample(machine: &Snapshot, duration: Duration) -> MachineSample {
    let cpus = machine.online();
    let inventory = machine.inventory.as_deref();
    let intel = inventory.is_some_and(|inventory| inventory.cpu_vendor.as_deref() == Some("GenuineIntel"));
    // In a guest the register is not the machine's; elsewhere it has another meaning.
    let has_smi = intel && machine.hypervisor.is_none();
    let mut ids: Vec<(u32, u32)> = inventory
        .iter()
        .flat_map(|inventory| &inventory.threads)
        .filter(|thread| !thread.kernel && thread.is_real_time())
        .map(|thread| (thread.process, thread.id))
        .collect();
    ids.truncate(1_000);
    let began = Instant::now();
    let first = read(&cpus, &ids, has_smi);
    std::thread::sleep(duration);
    let last = read(&cpus, &ids, has_smi);
    between(&first, &last, began.elapsed(), has_smi)
}

fn read(cpus: &CpuSet, threads: &[(u32, u32)], has_smi: bool) -> SampleReading {
    let mut tree = Tree::new(Path::new("/"));
    let mut throttled = BTreeMap::new();
    for cpu in cpus.iter() {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
        if let Some(count) = tree.number::<u64>(&format!("{folder}/core_throttle_count")) {
            throttled.insert(cpu, count);
        }
    }
    let counts = |(process, id): &(u32, u32)| {
        let stat = tree.hint(&format!("proc/{process}/task/{id}/stat"))?;
        Some((*id, threads::counts(&stat)?))
    };
    let smi = || smi_count(Path::new("/"), 0).map_err(|error| error::reason(&error));
    SampleReading {
        threads: threads.iter().filter_map(counts).collect(),
        throttled,
        // One CPU is enough: an SMI stops all of them together. CPU 0 is left to housekeeping.
        smi: if has_smi { smi() } else { Err(String::new()) },
        counters: Counters::read(Path::new("/"), cpus),
    }
}

fn between(first: &SampleReading, last: &SampleReading, took: Duration, has_smi: bool) -> MachineSample {
    let mut cpus: BTreeMap<u32, CpuSample> =
        last.counters.cpus().iter().map(|cpu| (cpu, CpuSample { cpu, ..CpuSample::default() })).collect();
    for grown in last.counters.since(&first.counters) {
        let Some(cpu) = cpus.get_mut(&grown.cpu) else { continue };
        let name = grown.source.name.clone();
        match grown.source.class {
            CounterClass::Irq => drop(cpu.devices.insert(name, grown.count)),
            CounterClass::Ipi => drop(cpu.calls.insert(name, grown.count)),
            CounterClass::Nmi => drop(cpu.nmis.insert(name, grown.count)),
            CounterClass::Softirq => drop(cpu.softirqs.insert(name, grown.count)),
            CounterClass::LocalTimer => cpu.timer += grown.count,
            CounterClass::Switch => cpu.switches += grown.count,
            CounterClass::Steal => cpu.steal_ticks += grown.count,
        }
    }
    for (cpu, count) in &last.throttled {
        if let (Some(one), Some(before)) = (cpus.get_mut(cpu), first.throttled.get(cpu)) {
            one.throttled = count.saturating_sub(*before);
        }
    }
    let threads = last.threads.iter().filter_map(|(id, now)| {
        let before = first.threads.get(id)?;
        Some(ThreadSample {
            id: *id,
            name: now.name.clone(),
            ran_ticks: now.ran_ticks.saturating_sub(before.ran_ticks),
            minor_faults: now.minor_faults.saturating_sub(before.minor_faults),
            major_faults: now.major_faults.saturating_sub(before.major_faults),
        })
    });
    let smi = last.smi.clone().and_then(|now| Ok(now.wrapping_sub(first.smi.clone()?) & 0xffff_ffff));
    MachineSample {
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1),
        threads: threads.collect(),
        cpus: cpus.into_values().collect(),
        unread: last.counters.unread().iter().chain(first.counters.unread()).cloned().collect(),
        smi_unread: smi.as_ref().err().filter(|_| has_smi).cloned(),
        smi: smi.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(interrupts: &str, faults: u64, smi: Result<u64, String>) -> SampleReading {
        let cpus: CpuSet = "0-1".parse().unwrap();
        let stat = "cpu  0 0\ncpu0 1 0 0 0 0 0 0 5 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\n";
        let thread =
            ThreadSample { id: 7, name: "loop".into(), minor_faults: faults, ..ThreadSample::default() };
        SampleReading {
            counters: Counters::parse([interrupts, "", "", stat], &cpus),
            throttled: [(0, faults)].into(),
            threads: [(7, thread)].into(),
            smi,
        }
    }

    #[test]
    fn what_grew_between_two_readings_is_the_sample() {
        let text = |device: u32, timer: u32, call: u32| {
            format!(
                "           CPU0       CPU1\n 24:  0  {device}  PCI-MSI  eth0\nLOC:  5  {timer}   Local timer interrupts\n\
                 TLB:  0  {call}   TLB shootdowns\n"
            )
        };
        let (first, last) =
            (reading(&text(1, 10, 3), 2, Ok(0xffff_ffff)), reading(&text(5, 30, 3), 9, Ok(1)));
        let sample = between(&first, &last, Duration::from_secs(2), true);
        assert_eq!((sample.duration_ms, sample.smi, sample.cpus.len()), (2_000, Some(2), 2));
        let cpu = &sample.cpus[1];
        assert_eq!(cpu.devices.values().copied().collect::<Vec<_>>(), [4]);
        assert_eq!((cpu.timer, cpu.calls.len()), (20, 0));
        assert_eq!((sample.cpus[0].throttled, sample.threads[0].minor_faults), (7, 7));
        let blind =
            between(&first, &reading(&text(5, 30, 3), 9, Err("no such file".into())), Duration::ZERO, true);
        assert_eq!(
            (blind.smi, blind.smi_unread.as_deref(), blind.duration_ms),
            (None, Some("no such file"), 1)
        );
    }
}
