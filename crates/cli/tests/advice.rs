// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice and plans of the same machines and profiles: what is printed never contradicts the plan, says why
//! where the plan leaves a setting, and has the form that its file takes. What users read is parsed, whatever
//! made it.

#[path = "../../doctor/tests/common/mod.rs"]
mod machines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use doctor::Finding;
use evidence::Bundle;
use evidence::cause::{CauseKind as Cause, PREEMPTION_OFF};
use evidence::manifest::{Asked, Manifest, RowKey, Spike};
use machine::advice::{CarriedOutBy, Manual, SettingId};
use machine::registry::{self, SettingKind as Where};
use machine::{CpuSet, Profile, Snapshot};
use run::RunSpec;
use run::preflight::{PreflightRequest, preflight};
use run::privilege::Privilege;
use tune::plan::{Action, ActionKind, Intent, MadeFor, Plan, WantedCpus};
use why::{Question, WhyDocument};

/// How each file, word and setting that names CPUs wants them.
const FORMS: &[(&str, Form)] = &[
    ("/proc/irq/default_smp_affinity", Form::Mask),
    ("/proc/irq/N/smp_affinity_list", Form::List),
    ("/sys/class/net/IF/queues/rx-N/rps_cpus", Form::Mask),
    ("/sys/devices/virtual/workqueue/cpumask", Form::Mask),
    ("/sys/devices/virtual/workqueue/writeback/cpumask", Form::Mask),
    ("kernel.watchdog_cpumask", Form::List),
    ("isolcpus", Form::FlaggedList),
    ("irqaffinity", Form::List),
    ("nohz_full", Form::List),
    ("rcu_nocbs", Form::List),
    ("irqbalance", Form::List),
    ("AllowedCPUs", Form::List),
    ("kthreads", Form::List),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// `0-5`.
    List,
    /// `managed_irq,domain,6-7`.
    FlaggedList,
    /// `3f`.
    Mask,
}

/// How an advice says why no plan has it.
const LEFT: &str = "in no plan here: ";

/// A setting and its value, as a text advises them.
type Set = (&'static str, String);

/// Everything that `text` says to set.
fn printed(text: &str) -> Vec<Set> {
    let mut found = Vec::new();
    for part in text.split("echo ").skip(1) {
        if let Some((value, rest)) = part.split_once(" > ") {
            let path = rest.split([' ', ',', ';', ')']).next().unwrap();
            found.extend(registry::of_file(path).map(|known| (known.name, value.to_string())));
        }
    }
    for (before, name) in
        [("taskset -pc ", "kthreads"), ("@realtime - rtprio ", "rtprio"), ("@realtime - memlock ", "memlock")]
    {
        for part in text.split(before).skip(1) {
            found.push((name, part.split([' ', '\'']).next().unwrap().to_string()));
        }
    }
    for word in text.split(' ') {
        let Some((name, value)) = word.trim_end_matches([',', ';', ':', ')']).split_once('=') else {
            continue;
        };
        let known = match name {
            "IRQBALANCE_BANNED_CPULIST" => registry::runtime_setting("irqbalance"),
            _ => registry::boot_parameter(name).or(registry::runtime_setting(name)),
        };
        let known = known.filter(|known| !value.is_empty() && known.kind != Where::Limit);
        found.extend(known.map(|known| (known.name, value.to_string())));
    }
    found
}

/// The settings of a plan's action.
fn sets(action: &Action) -> Vec<Set> {
    let name = match action.kind {
        ActionKind::BootParameter => registry::boot_parameter(&action.target).unwrap().name,
        ActionKind::Irqs | ActionKind::DeviceIrqs => SettingId::IrqAffinity.name(),
        ActionKind::IrqBalance => SettingId::Irqbalance.name(),
        ActionKind::KernelThreads => SettingId::KernelThreads.name(),
        ActionKind::Slice => SettingId::Slices.name(),
        ActionKind::Partition => return vec![("cpuset.cpus.partition", "isolated".to_string())],
        ActionKind::Limits => {
            let rights = action.value.lines().map(|line| line.rsplit_once(' ').unwrap().1.to_string());
            return [SettingId::RtPriority.name(), SettingId::LockedMemory.name()]
                .into_iter()
                .zip(rights)
                .collect();
        }
        _ => registry::of_file(&action.target).unwrap_or_else(|| panic!("{action:?}")).name,
    };
    vec![(name, action.value.clone())]
}

/// The plans for a machine that isolate the CPUs that are isolated there already, else those that the planner
/// chooses: with and without a reboot.
fn plans(machine: &Snapshot, profile: Profile, isolated: &CpuSet) -> Vec<Plan> {
    let cpus = if isolated.is_empty() { WantedCpus::Default } else { WantedCpus::Cpus(isolated.clone()) };
    let intent = |no_reboot| Intent { no_reboot, split_siblings: true, ..Intent::new(profile, cpus.clone()) };
    let plan = |no_reboot| tune::plan::plan(machine, &MadeFor::default(), &intent(no_reboot)).ok();
    [false, true].into_iter().filter_map(plan).collect()
}

/// All values that these plans give to each setting.
fn planned(plans: &[Plan]) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut all: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in plans.iter().flat_map(|plan| &plan.actions).flat_map(sets) {
        all.entry(name).or_default().insert(value);
    }
    all
}

/// A machine and a profile, what the doctor says of them, and their plans.
struct Case {
    /// For messages.
    name: String,
    profile: Profile,
    machine: Snapshot,
    report: doctor::Report,
    plans: Vec<Plan>,
}

/// The cases, made once.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let of = |(name, machine): (String, Snapshot)| {
        Profile::ALL.map(|profile| Case {
            name: format!("{name}, {profile}"),
            profile,
            report: machines::examined(&machine, profile),
            plans: plans(&machine, profile, &isolated(&machine)),
            machine: machine.clone(),
        })
    };
    all_machines().into_iter().flat_map(of).collect()
});

/// The CPUs that are isolated there already.
fn isolated(machine: &Snapshot) -> CpuSet {
    machine.isolation.set_apart().or(&machine.isolation.nohz_full)
}

/// Every captured machine; each again with much set wrongly; and the doctor's own faulty ones.
fn all_machines() -> Vec<(String, Snapshot)> {
    let mut all = Vec::new();
    for name in machines::captured() {
        let tree = machines::lay_out(&name);
        let machine = inspect::read_whole(tree.path());
        for isolated in ["", "last"] {
            let mistuned = mistuned(tree.path(), &machine, isolated);
            all.push((format!("{name}, mistuned {isolated}"), mistuned));
        }
        all.push((name, machine));
    }
    let isolated: &[(&str, &str)] = &[
        ("sys/devices/system/cpu/online", "0-7\n"),
        ("sys/devices/system/cpu/isolated", "6-7\n"),
        ("sys/devices/system/cpu/nohz_full", "6-7\n"),
        ("sys/kernel/debug/sched/fair_server/cpu6/runtime", "50000000\n"),
        ("proc/irq/24/effective_affinity_list", "6\n"),
    ];
    let wrong = [machines::WRONG, isolated].concat();
    all.push(("wrong, seen".to_string(), machines::sound_but(&[&wrong[..], &SEEN].concat())));
    all.push(("wrong".to_string(), machines::sound_but(&wrong)));
    all.push((
        "wrong, none isolated".to_string(),
        machines::sound_but(
            &[
                machines::WRONG,
                &[
                    ("sys/devices/system/cpu/isolated", "\n"),
                    ("sys/devices/system/cpu/nohz_full", "\n"),
                    ("proc/cmdline", "root=/dev/sda1\n"),
                    ("sys/kernel/debug/sched/fair_server/cpu6/runtime", "50000000\n"),
                ],
            ]
            .concat(),
        ),
    ));
    let governors: &[(&str, &str)] = &[
        ("sys/devices/system/cpu/cpu6/cpufreq/scaling_governor", "ondemand\n"),
        ("sys/devices/system/cpu/cpu6/cpufreq/cpuinfo_max_freq", "3000000\n"),
    ];
    all.push(("weak".to_string(), machines::sound_but(&[machines::WEAK, governors].concat())));
    all.push(("sound".to_string(), machines::sound_but(&[])));
    all
}

/// By what a plan knows the services of [`machines::WRONG`], and a kernel that isolates.
const SEEN: [(&str, &str); 3] = [
    ("run/systemd/system/x", ""),
    ("run/irqbalance/x", ""),
    (
        "boot/config-6.12.1-rt-generic",
        "CONFIG_SMP=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_RT_GROUP_SCHED=y\n",
    ),
];

/// A captured tree with its settings at values that no plan has, and its last CPU isolated where asked.
fn mistuned(tree: &std::path::Path, machine: &Snapshot, isolated: &str) -> Snapshot {
    let all = machine.online();
    let last = machine.possible.or(&all).iter().max().unwrap_or_default();
    let (list, mask) = (all.to_string(), all.to_mask(last));
    let apart = if isolated.is_empty() {
        CpuSet::new()
    } else {
        let plan = plans(machine, Profile::Periodic, &CpuSet::new());
        plan.first().map(|plan| plan.isolated.clone()).unwrap_or_default()
    };
    let apart = apart.to_string();
    let line = format!("root=/dev/sda1 isolcpus={apart} nohz_full={apart}");
    let mut wrong: Vec<(&str, &str)> = machines::WRONG
        .iter()
        .copied()
        .filter(|(path, _)| {
            !path.starts_with("sys/devices/system/cpu") && !path.starts_with("sys/devices/system/node")
        })
        .collect();
    wrong.extend([
        ("proc/sys/vm/swappiness", "60"),
        ("proc/sys/vm/compaction_proactiveness", "20"),
        ("proc/sys/kernel/watchdog_cpumask", list.as_str()),
        ("proc/irq/default_smp_affinity", &mask),
        ("proc/irq/24/smp_affinity_list", &list),
        ("proc/irq/24/effective_affinity_list", &apart),
        ("proc/30/status", "Name:\trcuop/5\nCpus_allowed_list:\t0-4095\n"),
        ("proc/700/status", "Name:\tirqbalance\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-4095\n"),
        ("sys/devices/virtual/workqueue/cpumask", &mask),
        ("sys/devices/virtual/workqueue/writeback/cpumask", &mask),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", &mask),
        ("sys/devices/system/cpu/isolated", &apart),
        ("sys/devices/system/cpu/nohz_full", &apart),
        ("proc/cmdline", &line),
    ]);
    let servers: Vec<String> =
        all.iter().map(|cpu| format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime")).collect();
    wrong.extend(servers.iter().map(|path| (path.as_str(), "50000000")));
    wrong.extend(SEEN);
    crate::common::lay_out(tree, &wrong);
    inspect::read_whole(tree)
}

/// The settings that a finding asks for. Of words that others wrote on the boot line, only those that are to
/// be written anew.
fn fixed(finding: &Finding) -> Vec<Set> {
    let (Some(fix), Some(advice)) = (&finding.fix, &finding.advice) else { return Vec::new() };
    if *advice.by() != CarriedOutBy::Manual(Manual::BootLine) {
        return printed(fix);
    }
    let anew = fix.strip_prefix("write ").map(printed).unwrap_or_default();
    let settings = printed(fix).into_iter().filter(|(name, _)| registry::boot_parameter(name).is_none());
    anew.into_iter().chain(settings).collect()
}

#[test]
fn no_fix_of_the_doctor_contradicts_the_plan() {
    let (mut compared, mut left, mut faults) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for Case { name, profile, report, plans, .. } in CASES.iter() {
        let planned = planned(plans);
        for finding in &report.checks {
            let by = finding.advice.as_ref().map(|advice| advice.by());
            let said = format!("{name}, {}: {:?}", finding.id, finding.fix);
            if matches!((by, profile), (Some(CarriedOutBy::Plan(_)), Profile::Server)) {
                faults.push(format!("a server has no plan: {said}"));
            }
            let of_others = by == Some(&CarriedOutBy::Manual(Manual::BootLine));
            for (setting, value) in fixed(finding) {
                if plans.is_empty() || (of_others && registry::boot_parameter(setting).is_some()) {
                    continue;
                }
                match planned.get(setting) {
                    Some(values) if !values.contains(&value) => {
                        faults.push(format!("the plan has {setting}={values:?}: {said}"));
                    }
                    None if !said.contains(LEFT) => faults.push(format!("no plan has {setting}: {said}")),
                    Some(_) => drop(compared.insert(setting)),
                    None => drop(left.insert(setting)),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(compared.len() >= 20 && left.len() >= 8, "too little is compared: {compared:?}, left: {left:?}");
}

#[test]
fn every_printed_value_has_its_files_form() {
    let (mut seen, mut faults) = (BTreeSet::new(), Vec::new());
    for Case { name, machine, report, plans, .. } in CASES.iter() {
        let last = machine.possible.or(&machine.online()).iter().max().unwrap_or_default();
        let actions = plans.iter().flat_map(|plan| &plan.actions).flat_map(sets);
        for (setting, value) in report.checks.iter().flat_map(fixed).chain(actions) {
            match FORMS.iter().find(|(known, _)| *known == setting) {
                Some((_, form)) if fits(*form, &value, last) => drop(seen.insert(setting)),
                None if !names_cpus(setting) => {}
                _ => faults.push(format!("{name}: {setting}={value}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let missing: Vec<_> = FORMS.iter().filter(|(setting, _)| !seen.contains(setting)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The advice of the preflight of a run on a plan's CPUs, and of `isolator why` on each kind of cause there.
fn advised(Case { machine, profile, plans, .. }: &Case) -> Vec<String> {
    let Some(plan) = plans.iter().find(|plan| !plan.isolated.is_empty()) else { return Vec::new() };
    let probes: &[&str] = match profile {
        Profile::Periodic => &["wakeup"],
        Profile::Poll => &["spin"],
        _ => return Vec::new(),
    };
    let asked = Asked {
        probes: probes.iter().map(ToString::to_string).collect(),
        cpus: plan.isolated.clone(),
        house_keeping: plan.housekeeping.clone(),
        periods_ns: vec![1_000_000],
        policy: Some("fifo".into()),
        priority: Some(80),
        limit: Some("1us".into()),
        ..Asked::default()
    };
    let privilege = Privilege {
        cap_sys_nice: false,
        cap_ipc_lock: false,
        rtprio_limit: 0,
        memlock_limit_bytes: Some(0),
        address_space_bytes: 1,
    };
    let spec = RunSpec::of(asked.clone()).unwrap();
    let request = PreflightRequest { spec: &spec, clock_resolution_ns: 1, privilege };
    let mut advised: Vec<String> =
        preflight(machine, &request).into_iter().map(|finding| finding.cure).collect();
    let why = WhyDocument::of(&spikes(machine, asked), &Question::default());
    advised.extend(why.by_cause.into_iter().filter_map(|cause| cause.advice));
    advised
}

/// Names that the explanations of causes tell apart.
const CAUSES: &[(Cause, &[&str])] = &[
    (Cause::Nmi, &["nmi"]),
    (Cause::Irq, &["45 nvme0q3", "x"]),
    (Cause::IrqThread, &["irq/45-nvme0q3", "x"]),
    (Cause::Ipi, &["call function do_sync_core", "reschedule", "rcu_exp_handler", "flush_tlb_func"]),
    (Cause::Softirq, &["NET_RX", "TIMER", "RCU", "SCHED", "BLOCK", "IRQ_POLL"]),
    (Cause::Workqueue, &["vmstat_update", "lru_add_drain_per_cpu", "wb_workfn"]),
    (Cause::Kthread, &["kworker/3:1", "ksoftirqd/3", "rcuc/3", "migration/3", "watchdogd", "jbd2"]),
    (Cause::Thread, &["cc"]),
    (Cause::Migration, &["migration"]),
    (Cause::Fault, &["fault"]),
    (Cause::Syscall, &["write"]),
    (Cause::IdleExit, &["C6"]),
    (Cause::Frequency, &["change"]),
    (Cause::Firmware, &["smi"]),
    (Cause::Stolen, &["hypervisor"]),
    (Cause::Throttled, &[evidence::cause::QUOTA, evidence::cause::RT_LIMIT, evidence::cause::RESERVATION]),
    (Cause::Stopped, &[evidence::cause::STOPPED]),
    (Cause::Interrupt, &["virtio0-req"]),
    (Cause::Tick, &["sched_timer"]),
    (Cause::Timer, &["it_real_fn"]),
    (Cause::Execution, &["the program"]),
    (Cause::Lock, &["0x7f00"]),
    (Cause::Wait, &["read (descriptor 5)"]),
    (Cause::Unexplained, &[""]),
];

/// A bundle with a spike of each of them.
fn spikes(machine: &Snapshot, asked: Asked) -> Bundle {
    let cpu = asked.cpus.iter().next().unwrap();
    let key = RowKey::new(&asked.probes[0], "idle", cpu, None);
    let spike = |kind, name: &str| Spike {
        unexplained_ns: Some(0),
        causes: vec![evidence::cause::Cause::timed(kind, name, 0, 10)],
        ..Spike::new(key.clone(), 10)
    };
    let mut kept = spike(Cause::Thread, "rustc");
    for cause in &mut kept.causes {
        cause.function = Some("exit_mmap".into());
        cause.detail = Some(format!("ordinary, in the kernel {PREEMPTION_OFF}"));
    }
    let causes = CAUSES.iter().flat_map(|(kind, names)| names.iter().map(|name| spike(*kind, name)));
    let spikes = causes.chain([kept]).collect();
    let manifest = Manifest { machine: machine.clone(), ..Manifest::new("isolator", asked) };
    Bundle { spikes, ..Bundle::new("bundle", manifest) }
}

#[test]
fn neither_preflight_nor_explanation_contradicts_the_plan() {
    assert_eq!(CAUSES.len(), Cause::ALL.len());
    let (mut compared, mut left, mut faults) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for case in CASES.iter() {
        let planned = planned(&case.plans);
        let last = case.machine.possible.or(&case.machine.online()).iter().max().unwrap_or_default();
        for text in advised(case) {
            for (setting, value) in printed(&text) {
                let form = FORMS.iter().find(|(known, _)| *known == setting);
                match planned.get(setting) {
                    _ if form.is_some_and(|(_, form)| !fits(*form, &value, last)) => {
                        faults.push(format!("{}: {setting} does not take {value}: {text}", case.name));
                    }
                    Some(values) if !values.contains(&value) => {
                        faults.push(format!("{}: the plan has {setting}={values:?}: {text}", case.name));
                    }
                    None if !text.contains(LEFT) => {
                        faults.push(format!("{}: no plan has {setting}: {text}", case.name));
                    }
                    Some(_) => drop(compared.insert(setting)),
                    None => drop(left.insert(setting)),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(compared.len() >= 8 && left.len() >= 4, "too little is compared: {compared:?}, left: {left:?}");
}

/// Whether a setting's name says that it takes CPUs.
fn names_cpus(setting: &str) -> bool {
    let last = setting.rsplit(['/', '.']).next().unwrap_or_default();
    ["mask", "affinity", "cpus"].iter().any(|part| last.contains(part))
}

/// Whether `value` is how the kernel takes CPUs up to `last`.
fn fits(form: Form, value: &str, last: u32) -> bool {
    let list = |text: &str| {
        text.parse::<CpuSet>()
            .is_ok_and(|cpus| cpus.to_string() == text && cpus.iter().all(|cpu| cpu <= last))
    };
    match form {
        Form::List => !value.is_empty() && list(value),
        Form::FlaggedList => {
            let flags = ["managed_irq,", "domain,", "nohz,"];
            let mut rest = value;
            while let Some(after) = flags.iter().find_map(|flag| rest.strip_prefix(flag)) {
                rest = after;
            }
            list(rest)
        }
        Form::Mask => {
            CpuSet::from_mask(value).is_ok_and(|cpus| !cpus.is_empty() && cpus.to_mask(last) == value)
        }
    }
}

#[test]
fn every_advice_names_an_action_or_a_reason() {
    let mut actions: BTreeSet<&str> = BTreeSet::new();
    CASES.iter().for_each(|case| actions.extend(planned(&case.plans).keys()));
    let mut faults = Vec::new();
    for Case { name, report, .. } in CASES.iter() {
        for finding in &report.checks {
            let Some(advice) = &finding.advice else { continue };
            assert_eq!(finding.fix, Some(advice.to_string()));
            let whole = match advice.by() {
                CarriedOutBy::Plan(setting) => actions.contains(setting.name()),
                CarriedOutBy::Left(..) | CarriedOutBy::Manual(_) => {
                    advice.why_no_plan().is_some_and(|why| !why.is_empty())
                }
            };
            if !whole {
                faults.push(format!("{name}: {advice:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_printed_is_found() {
    let found = printed(
        "echo 3f > /proc/irq/default_smp_affinity; from boot on: irqaffinity=0-5 (isolator tune plan), or sysctl -w kernel.nmi_watchdog=0",
    );
    let names: Vec<_> = found.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(
        names,
        [("/proc/irq/default_smp_affinity", "3f"), ("irqaffinity", "0-5"), ("kernel.nmi_watchdog", "0")]
    );
    assert!(!fits(Form::Mask, "0-5", 7) && !fits(Form::List, "3f", 7) && !fits(Form::Mask, "3", 7));
}
