// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of the running machine: each with the file, and each can be set back.
//!
//! A plan does not depend on what is set at present: a plan made after it was applied is the same plan.
//! It depends on what there is to be set; missing settings are listed.

use machine::advice::{Aim, SettingId, WhyNot};
use machine::registry;
use machine::snapshot::Device;
use machine::{CpuSet, Profile};

use super::choose::CpuChoice;
use super::facts::PlanFacts;
use super::intent::Intent;
use crate::action::{Action, ActionKind, Disruption, Skipped};
use crate::places::{LIMITS, LIMITS_FILE, PARTITION};
use crate::system::chosen;

/// Gathers actions.
struct RuntimeActions<'a> {
    facts: &'a PlanFacts<'a>,
    aim: Aim<'a>,
    actions: Vec<Action>,
    skipped: &'a mut Vec<Skipped>,
}

/// Why, who says so, what it costs: of what is no single file of the table.
struct Because(&'static str, &'static str, &'static str);

impl RuntimeActions<'_> {
    /// Sets `setting` as the table of advice has it, where the machine has its file and the table does not
    /// leave it.
    fn set(&mut self, setting: SettingId, disruption: Disruption, why: &str) {
        let path = setting.file();
        if self.has(&path)
            && setting.why_not(&self.aim).is_none()
            && let Some(value) = setting.value(&self.aim, None)
        {
            self.write(kind(setting), &path, value, disruption, why);
        }
    }

    /// Writes `value` to the file `path`.
    fn write(&mut self, kind: ActionKind, path: &str, value: String, disruption: Disruption, why: &str) {
        let known = registry::of_file(path);
        let before = match self.facts.machine.settings.get(path) {
            Some(before) => chosen(before).to_string(),
            None => "BEFORE".to_string(),
        };
        self.actions.push(Action {
            kind,
            target: path.to_string(),
            value,
            reason: why.to_string(),
            source: known.map_or("", |known| known.source).to_string(),
            cost: known
                .map(|known| known.cost)
                .filter(|cost| !cost.is_empty())
                .unwrap_or("none known")
                .to_string(),
            disruption,
            verify: format!("cat {path}"),
            undo: format!("echo {before} > {path}"),
        });
    }

    fn has(&self, path: &str) -> bool {
        self.facts.machine.settings.contains_key(path)
    }

    fn skip(&mut self, what: &str, reason: impl Into<String>) {
        self.skipped.push(Skipped { what: what.to_string(), reason: reason.into() });
    }

    fn other(
        &mut self,
        kind: ActionKind,
        target: &str,
        value: String,
        commands: (String, String),
        why: Because,
    ) {
        self.actions.push(Action {
            kind,
            target: target.to_string(),
            value,
            reason: why.0.to_string(),
            source: why.1.to_string(),
            cost: why.2.to_string(),
            disruption: Disruption::Brief,
            verify: commands.0,
            undo: commands.1,
        });
    }
}

/// The kind of the action that writes a setting's file.
fn kind(setting: SettingId) -> ActionKind {
    match setting {
        SettingId::IrqDefault => ActionKind::IrqDefault,
        SettingId::Workqueues | SettingId::WritebackWorkqueue => ActionKind::Workqueues,
        SettingId::CheckInterval => ActionKind::MachineCheck,
        SettingId::HugePages | SettingId::PageSharing => ActionKind::Memory,
        SettingId::Aspm => ActionKind::Links,
        _ => ActionKind::Sysctl,
    }
}

/// The settings of the running machine, in the order in which they are made.
pub(super) fn actions(
    facts: &PlanFacts,
    intent: &Intent,
    choice: &CpuChoice,
    device: Option<&Device>,
    skipped: &mut Vec<Skipped>,
) -> Vec<Action> {
    let mut steps = RuntimeActions { facts, aim: choice.aim(facts, intent), actions: Vec::new(), skipped };
    if !choice.isolated.is_empty() {
        // Else a slice of systemd is the partition: two of the same CPUs are not valid.
        if intent.no_reboot && intent.systemd.is_none() {
            partition(&mut steps, choice);
        }
        interrupts(&mut steps, choice);
        if let Some(device) = device {
            device_interrupts(&mut steps, intent, choice, device);
        }
        kernel_work(&mut steps, choice);
        timers(&mut steps, intent);
        fair_server(&mut steps, choice);
    }
    power(&mut steps, choice);
    steps.set(
        SettingId::Aspm,
        Disruption::None,
        "links to cards stay awake: one that sleeps answers tens of microseconds later",
    );
    memory(&mut steps);
    if SettingId::RtPriority.why_not(&steps.aim).is_none() {
        limits(&mut steps);
    }
    steps.actions
}

fn partition(steps: &mut RuntimeActions, choice: &CpuChoice) {
    let slices = SettingId::Slices.why_not(&steps.aim);
    if let Some(WhyNot::Cannot(reason)) = slices {
        steps.skip("partition", reason);
        return;
    }
    let source = "Linux, Documentation/admin-guide/cgroup-v2.rst";
    if slices.is_none() {
        for unit in ["init.scope", "system.slice", "user.slice", "machine.slice"] {
            steps.other(
                ActionKind::Slice,
                unit,
                choice.housekeeping.to_string(),
                (
                    format!("systemctl show -p EffectiveCPUs {unit}"),
                    format!("systemctl set-property --runtime {unit} AllowedCPUs="),
                ),
                Because(
                    "services and users make room, without which the partition is not valid",
                    "systemd.resource-control(5)",
                    "what is pinned to the isolated CPUs outside of the partition is moved off",
                ),
            );
        }
    }
    steps.other(
        ActionKind::Partition,
        PARTITION,
        choice.isolated.to_string(),
        (
            format!("cat {PARTITION}/cpuset.cpus.partition"),
            format!("echo member > {PARTITION}/cpuset.cpus.partition; rmdir {PARTITION}"),
        ),
        Because(
            "the scheduler moves nothing there: what isolcpus=domain does, without a reboot",
            source,
            "only programs within the group may use these CPUs: taskset from a shell fails",
        ),
    );
}

fn interrupts(steps: &mut RuntimeActions, choice: &CpuChoice) {
    steps.set(
        SettingId::IrqDefault,
        Disruption::None,
        "interrupts that are set up later begin on housekeeping CPUs",
    );
    steps.other(
        ActionKind::Irqs,
        "/proc/irq",
        choice.housekeeping.to_string(),
        (
            "grep . /proc/irq/*/effective_affinity_list".to_string(),
            "the affinity that each had is kept and written back".to_string(),
        ),
        Because(
            "interrupts that are set up already leave the isolated CPUs",
            "Linux, Documentation/core-api/irq/irq-affinity.rst",
            "housekeeping CPUs serve all devices; some interrupts refuse to move, and are listed",
        ),
    );
    if SettingId::Irqbalance.why_not(&steps.aim).is_none() {
        steps.other(
            ActionKind::IrqBalance,
            "irqbalance.service",
            choice.isolated.to_string(),
            (
                "systemctl show -p Environment irqbalance.service".to_string(),
                "remove the drop-in, systemctl restart irqbalance".to_string(),
            ),
            Because(
                "irqbalance would move interrupts back: it knows isolcpus, not what is done while it runs",
                "irqbalance(1); irqbalance issues 19, 90, 156, 356",
                "irqbalance starts again",
            ),
        );
    }
}

fn device_interrupts(steps: &mut RuntimeActions, intent: &Intent, choice: &CpuChoice, device: &Device) {
    let name = device.name.as_str();
    if intent.profile != Profile::Periodic {
        steps.skip(
            &format!("interrupts of {name}"),
            "only a periodic loop is woken by its device; a polling one takes the device over, others share it",
        );
        return;
    }
    if device.irqs.is_empty() {
        steps.skip(&format!("interrupts of {name}"), "it has none of its own");
        return;
    }
    for (setting, what) in
        [(SettingId::ThreadedNapi, "threaded NAPI"), (SettingId::SendQueues, "send queues (XPS)")]
    {
        if let Some(WhyNot::Unwanted(reason)) = setting.why_not(&steps.aim) {
            steps.skip(&format!("{what} of {name}"), reason);
        }
    }
    let irqs = device.irqs.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let first: CpuSet = choice.real_time.iter().take(1).collect();
    steps.other(
        ActionKind::DeviceIrqs,
        name,
        first.to_string(),
        (
            format!("grep . /proc/irq/{{{irqs}}}/effective_affinity_list"),
            "the affinity that each had is kept and written back".to_string(),
        ),
        Because(
            "the device that the loop waits for interrupts where the loop runs, not by way of another CPU",
            "Linux, Documentation/networking/scaling.rst",
            "its other traffic disturbs the loop too: give it a device of its own",
        ),
    );
}

fn kernel_work(steps: &mut RuntimeActions, choice: &CpuChoice) {
    steps.other(
        ActionKind::KernelThreads,
        "kthreads",
        choice.housekeeping.to_string(),
        (
            "ps -e -o pid=,psr=,comm= --ppid 2".to_string(),
            "the affinity that each had is kept and written back".to_string(),
        ),
        Because(
            "kernel threads that are bound to no CPU leave the isolated ones: before Linux 7.0 only nohz_full does it",
            "Linux, kernel/kthread.c; Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
            "those that come later are not moved until it is done again",
        ),
    );
    steps.set(
        SettingId::Workqueues,
        Disruption::Brief,
        "deferred work that is bound to no CPU runs on housekeeping CPUs",
    );
    steps.set(
        SettingId::WritebackWorkqueue,
        Disruption::Brief,
        "dirty pages are written back from housekeeping CPUs",
    );
}

fn timers(steps: &mut RuntimeActions, intent: &Intent) {
    let why = match intent.profile {
        Profile::Poll => "timers that others start leave the polling CPUs",
        _ => "with nohz_full the loop's own timer would fire on another CPU and wake it by an interrupt",
    };
    for (setting, why) in [
        (SettingId::TimerMigration, why),
        (SettingId::WatchdogCpumask, "the lockup detector's timer and thread stay off the isolated CPUs"),
        (
            SettingId::StatInterval,
            "before Linux 6.5 each CPU adds up memory statistics every second, isolated ones too",
        ),
        (SettingId::NmiWatchdog, "its counter raises an NMI on every CPU, which nothing can mask"),
        (
            SettingId::CheckInterval,
            "the search for corrected hardware errors interrupts every CPU, each five minutes by default",
        ),
    ] {
        steps.set(setting, Disruption::None, why);
    }
}

fn fair_server(steps: &mut RuntimeActions, choice: &CpuChoice) {
    if SettingId::FairServer.why_not(&steps.aim).is_some() {
        return;
    }
    let known = |cpu: u32| steps.facts.machine.cpu(cpu).and_then(|cpu| cpu.fair_server_runtime_ns);
    let there: Vec<u32> = choice.real_time.iter().filter(|cpu| known(*cpu).is_some()).collect();
    if there.is_empty() {
        steps.skip(
            "fair server",
            "its setting is in debugfs, which could not be read: a loop that never sleeps loses up to 50 ms a second \
             to ordinary tasks on its CPU; read the machine as root, or keep its CPU free of any",
        );
    }
    for cpu in there {
        steps.write(
            ActionKind::FairServer,
            &SettingId::FairServer.file_of(cpu),
            SettingId::FairServer.value(&steps.aim, Some(cpu)).unwrap_or_default(),
            Disruption::None,
            "the kernel would run waiting ordinary tasks ahead of a loop that never sleeps, and start the tick for it",
        );
    }
}

fn power(steps: &mut RuntimeActions, choice: &CpuChoice) {
    let everywhere = choice.isolated.is_empty();
    let cpus = if everywhere { steps.facts.online() } else { choice.isolated.clone() };
    let machine = steps.facts.machine;
    let mut done = CpuSet::new();
    let mut without_governor = CpuSet::new();
    let mut lowest = Vec::new();
    for id in cpus.iter() {
        let Some(cpu) = machine.cpu(id) else { continue };
        if cpu.governor.is_none() {
            without_governor.insert(id);
            continue;
        }
        if done.contains(id) {
            continue;
        }
        done = done.or(&cpu.frequency_cpus);
        steps.write(
            ActionKind::Governor,
            &SettingId::Governor.file_of(id),
            SettingId::Governor.value(&steps.aim, Some(id)).unwrap_or_default(),
            Disruption::None,
            "a CPU that must first speed up is late",
        );
        if let (Some(highest), false) = (SettingId::LowestFrequency.value(&steps.aim, Some(id)), everywhere) {
            lowest.push((SettingId::LowestFrequency.file_of(id), highest));
        }
    }
    for (path, highest) in lowest {
        steps.write(
            ActionKind::Frequency,
            &path,
            highest,
            Disruption::None,
            "its frequency does not change: a change stops some processors for microseconds",
        );
    }
    if !without_governor.is_empty() {
        steps.skip(
            "governor",
            format!(
                "no frequency policy was found for cpus {without_governor}: firmware sets their frequency, or the host of a \
                 virtual machine"
            ),
        );
    }
    idle_states(steps, if everywhere { cpus } else { choice.real_time.clone() });
}

fn idle_states(steps: &mut RuntimeActions, cpus: CpuSet) {
    if SettingId::ResumeLatency.why_not(&steps.aim).is_some() {
        return;
    }
    let mut without = CpuSet::new();
    for id in cpus.iter() {
        let Some(limit) = SettingId::ResumeLatency.value(&steps.aim, Some(id)) else {
            without.insert(id);
            continue;
        };
        steps.write(
            ActionKind::PmQos,
            &SettingId::ResumeLatency.file_of(id),
            limit,
            Disruption::None,
            "deeper idle states take longer to leave than the loop has; the shallowest stays, since polling heats",
        );
    }
    if !without.is_empty() {
        steps.skip("idle states", format!("cpus {without} have none that the kernel knows, or only polling"));
    }
}

fn memory(steps: &mut RuntimeActions) {
    for (setting, why) in [
        (
            SettingId::HugePages,
            "pages are not joined behind programs' backs, which makes other CPUs forget translations",
        ),
        (
            SettingId::PageSharing,
            "pages that are alike are not merged, which interrupts the CPUs that use them",
        ),
        (SettingId::NumaBalancing, "pages are not unmapped to find their users"),
        (SettingId::CompactionProactiveness, "memory is not moved about in the background"),
        (SettingId::Swappiness, "programs are paged out later"),
    ] {
        steps.set(setting, Disruption::None, why);
    }
}

fn limits(steps: &mut RuntimeActions) {
    steps.actions.push(Action {
        kind: ActionKind::Limits,
        target: LIMITS_FILE.to_string(),
        value: LIMITS.to_string(),
        reason: "members of the group realtime may use real-time policies and lock their memory, without being root"
            .to_string(),
        source: "limits.conf(5)".to_string(),
        cost: "a program of a member can occupy a CPU for good; in force after the next login".to_string(),
        disruption: Disruption::None,
        verify: "ulimit -r -l".to_string(),
        undo: format!("rm {LIMITS_FILE}"),
    });
}
