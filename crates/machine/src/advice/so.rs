// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a machine has a setting already: then nothing is to be done, and no advice says so.

use super::{Advice, Aim, Manual, SettingId};
use crate::boot::line;
use crate::snapshot::Preemption;
use crate::{CpuSet, Snapshot};

impl SettingId {
    /// Whether the machine has it on `cpus` already, as it serves `aim` or stricter. `false` where that is
    /// not known.
    pub fn is_so(self, aim: &Aim, cpus: &CpuSet) -> bool {
        let machine = aim.machine;
        let all = |is_so: &dyn Fn(u32) -> bool| !cpus.is_empty() && cpus.iter().all(is_so);
        let within = |set: &CpuSet| !cpus.is_empty() && cpus.without(set).is_empty();
        match self {
            SettingId::Isolcpus => within(&machine.isolation.set_apart()),
            SettingId::NohzFull => within(&machine.isolation.nohz_full),
            SettingId::RcuNocbs => {
                within(&machine.isolation.nohz_full) || within(&listed(machine, self.name()))
            }
            SettingId::Preempt => {
                matches!(machine.kernel.preemption, Preemption::Full | Preemption::RealTime)
            }
            SettingId::RtRuntime => machine.scheduler.rt_runtime_us == Some(-1),
            SettingId::Governor => all(&|id| {
                let governor = machine.cpu(id).and_then(|cpu| cpu.governor.as_deref());
                governor == Some("performance")
            }),
            SettingId::FairServer => {
                all(&|id| machine.cpu(id).is_some_and(|cpu| cpu.fair_server_runtime_ns == Some(0)))
            }
            SettingId::ResumeLatency => all(&|id| {
                let limit = machine.cpu(id).and_then(|cpu| cpu.idle_latency_limit_us);
                let wanted = self.value(aim, Some(id)).and_then(|value| value.parse().ok());
                limit.zip(wanted).is_some_and(|(limit, wanted): (u64, u64)| limit <= wanted)
            }),
            _ => {
                let has = machine.settings.get(&self.file()).map(|value| value.trim());
                has.zip(self.value(aim, None)).is_some_and(|(has, wanted)| is_same(has, &wanted))
            }
        }
    }

    /// Whether it can be set here: a file system that is not mounted has none of its files.
    pub fn can_be_set(self, aim: &Aim, cpus: &CpuSet) -> bool {
        let is_there = |id| aim.machine.cpu(id).is_some_and(|cpu| cpu.fair_server_runtime_ns.is_some());
        self != SettingId::FairServer || (!cpus.is_empty() && cpus.iter().all(is_there))
    }

    /// The advice to set it on `cpus`; where the machine has it already, only that.
    pub fn advice_unless_so(self, aim: &Aim, cpus: &CpuSet) -> Advice {
        match self.is_so(aim, cpus) {
            true => Manual::Search.advice(format!("{} is as it should be", self.name())),
            false if self.name().contains("cpuN") => self.advice_on(aim, cpus),
            false => self.advice(aim),
        }
    }
}

/// The CPUs of a word on the boot line.
fn listed(machine: &Snapshot, name: &str) -> CpuSet {
    let command_line = machine.kernel.command_line.as_deref().unwrap_or_default();
    line::value(command_line, name).and_then(|list| list.parse().ok()).unwrap_or_default()
}

/// Whether two values of a setting are the same: numbers, and masks with other zeroes before them.
fn is_same(has: &str, wanted: &str) -> bool {
    let mask = |text: &str| text.replace(',', "").trim_start_matches('0').to_ascii_lowercase();
    has == wanted || (!has.is_empty() && !wanted.is_empty() && mask(has) == mask(wanted))
}
