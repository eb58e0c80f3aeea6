// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spikes made by hand, and their explanations.

use super::*;
use evidence::cause::{Causes, Sender};
use evidence::manifest::{Asked, RowEntry, RowKey};
use machine::Snapshot;
use machine::snapshot::Cpu;

fn key(cpu: u32, load: &str) -> RowKey {
    RowKey::new("wakeup", load, cpu, Some(1_000_000))
}

fn spike(cpu: u32, load: &str, latency_ns: u64, causes: Vec<Cause>) -> Spike {
    let timed = causes.iter().filter_map(|cause| cause.duration_ns);
    let known: u64 = timed.clone().sum();
    Spike {
        at_ns: 5_000,
        monotonic_ns: 1_000_000 + latency_ns,
        unexplained_ns: timed.clone().next().map(|_| latency_ns - known),
        causes,
        ..Spike::new(key(cpu, load), latency_ns)
    }
}

/// The picture of the issue: an interrupt wakes a worker, an IPI interrupts at its end.
fn pictured() -> Spike {
    let mut worker = Cause::timed(CauseKind::Kthread, "kworker/3:1H", 5_000, 402_200);
    worker.detail = Some("fifo 50, woken by irq 45".into());
    let mut ipi = Cause::timed(CauseKind::Ipi, "call function do_sync_core", 407_300, 1_200);
    ipi.sender = Some(Sender {
        context: None,
        cpu: Some(0),
        pid: Some(4211),
        comm: Some("echo".into()),
        function: Some("do_sync_core".into()),
        call_site: Some("text_poke_bp_batch".into()),
    });
    // Given in another order than they began.
    spike(3, "storage", 412_000, vec![ipi, worker, Cause::timed(CauseKind::Irq, "45 nvme0q3", 1_100, 3_900)])
}

fn bundle(spikes: Vec<Spike>) -> Bundle {
    let mut machine = Snapshot {
        cpus: (0..4).map(|id| Cpu { id, online: true, ..Cpu::default() }).collect(),
        ..Snapshot::default()
    };
    machine.isolation.isolated = "2-3".parse().unwrap();
    let entry = |cpu, load: &str| RowEntry {
        limit_ns: Some(100_000),
        spikes: spikes.iter().filter(|spike| spike.key == key(cpu, load)).count() as u64,
        ..RowEntry::new(key(cpu, load))
    };
    let asked = Asked {
        cpus: "2-3".parse().unwrap(),
        house_keeping: "0-1".parse().unwrap(),
        threshold_ns: Some(100_000),
        ..Asked::default()
    };
    let manifest = Manifest {
        machine,
        rows: [(2, "idle"), (3, "idle"), (2, "storage"), (3, "storage")]
            .map(|(cpu, load)| entry(cpu, load))
            .into(),
        causes: Some(Causes {
            collector: Collector::Bpf,
            could_not_see: Vec::new(),
            not_tried: Vec::new(),
            lost_events: 7,
            edges: Vec::new(),
        }),
        ..Manifest::new("isolator", asked)
    };
    let rows = manifest
        .rows
        .iter()
        .map(|entry| evidence::Row::new(entry.clone(), evidence::Series::default()))
        .collect();
    Bundle { rows, spikes, ..Bundle::new("bundle", manifest) }
}

fn ask(bundle: &Bundle) -> WhyDocument {
    WhyDocument::of(bundle, &Question { top: TOP, ..Question::default() })
}

#[test]
fn durations_and_the_remainder_add_up_to_the_spike() {
    let document = ask(&bundle(vec![pictured()]));
    let spike = &document.spikes[0];
    let begins: Vec<_> = spike.causes.iter().map(|cause| cause.begin_ns.unwrap()).collect();
    assert_eq!(begins, [1_100, 5_000, 407_300]);
    let known: u64 = spike.causes.iter().filter_map(|cause| cause.duration_ns).sum();
    assert_eq!(known + spike.unexplained_ns.unwrap(), spike.latency_ns);
    assert_eq!((spike.unexplained_ns, spike.much_unexplained), (Some(4_700), false));
    assert_eq!(spike.mostly, Some(CauseName { kind: CauseKind::Kthread, name: "kworker/3:1H".into() }));
    assert_eq!((document.collector, document.lost_events), (Some(Collector::Bpf), 7));
}

#[test]
fn what_woke_the_thread_is_moved_too() {
    let document = ask(&bundle(vec![pictured()]));
    let advice = &document.spikes[0].advice;
    assert_eq!(advice.len(), 2, "{advice:?}");
    assert!(advice[0].contains("echo 3 > /sys/devices/virtual/workqueue/cpumask"), "{advice:?}");
    assert!(
        advice[1].starts_with("move irq 45 off cpu 3: echo 0-1 > /proc/irq/45/smp_affinity_list"),
        "{advice:?}"
    );
}

#[test]
fn causes_are_summed_by_name_and_the_remainder_is_one_of_them() {
    let tick = |ns| vec![Cause::timed(CauseKind::Tick, "sched_timer", 0, ns)];
    let spikes =
        vec![spike(2, "idle", 130_000, tick(10_000)), pictured(), spike(3, "idle", 110_000, tick(100_000))];
    let document = ask(&bundle(spikes));
    let sums: Vec<_> =
        document.by_cause.iter().map(|sum| (sum.kind, sum.count, sum.total_ns, sum.mostly)).collect();
    assert_eq!(sums[0], (CauseKind::Kthread, 1, 402_200, 1));
    assert_eq!(sums[1], (CauseKind::Unexplained, 3, 4_700 + 120_000 + 10_000, 1));
    assert_eq!(sums[2], (CauseKind::Tick, 2, 110_000, 1));
    assert_eq!(document.by_cause[2].max_ns, 100_000);
    let lengths: Vec<_> =
        document.spikes.iter().map(|spike| (spike.latency_ns, spike.much_unexplained)).collect();
    assert_eq!(lengths, [(412_000, false), (130_000, true), (110_000, false)]);
    assert!(document.by_cause[2].advice.as_ref().unwrap().contains("nohz_full=2-3"));
}

#[test]
fn a_cause_that_comes_twice_in_a_spike_is_two_occurrences_in_one_spike() {
    let irq = |begin| Cause::timed(CauseKind::Irq, "45 nvme0q3", begin, 20_000);
    let document = ask(&bundle(vec![spike(2, "idle", 100_000, vec![irq(0), irq(50_000)])]));
    let sum = &document.by_cause[1];
    assert_eq!((sum.count, sum.spikes, sum.total_ns, sum.max_ns), (2, 1, 40_000, 20_000));
}

#[test]
fn suspects_have_no_time_and_explain_nothing() {
    // The collector puts first what is least usual, not what is most frequent.
    let suspects = vec![
        Cause::suspect(CauseKind::Irq, "45 nvme0q3", 12),
        Cause::suspect(CauseKind::Tick, "local timer", 999),
    ];
    let document = ask(&bundle(vec![spike(2, "idle", 100_000, suspects)]));
    let spike = &document.spikes[0];
    assert_eq!((spike.unexplained_ns, spike.much_unexplained, &spike.mostly), (None, false, &None));
    assert!(document.by_cause.iter().all(|sum| sum.suspect && sum.total_ns == 0 && sum.mostly == 0));
    assert_eq!(document.by_cause[0].count, 12);
}

#[test]
fn a_question_chooses_cpu_and_load() {
    let idle = |cpu| spike(cpu, "idle", 120_000, Vec::new());
    let bundle = bundle(vec![idle(2), pictured(), idle(3)]);
    let about = |cpus: Option<&str>, load: Option<&str>| {
        let cpus = cpus.map(|cpus| cpus.parse().unwrap());
        WhyDocument::of(&bundle, &Question { top: TOP, cpus, load: load.map(Into::into) })
    };
    let seen = |document: &WhyDocument| (document.spikes_seen, document.spikes.len());
    assert_eq!(seen(&about(Some("3"), None)), (2, 2));
    assert_eq!(seen(&about(Some("3"), Some("idle"))), (1, 1));
    let none = about(Some("1"), Some("net"));
    assert_eq!(seen(&none), (0, 0));
    assert_eq!(
        none.notes,
        ["no spike of cpus 1 under net is listed; the bundle has cpus 2-3 under idle, storage"]
    );
}

#[test]
fn a_bundle_without_spikes_or_causes_or_of_another_tool_says_so() {
    let none = ask(&bundle(Vec::new()));
    assert!(none.notes[0].starts_with("no spike above 100 us was recorded"), "{:?}", none.notes);
    let mut old = bundle(vec![spike(2, "idle", 120_000, Vec::new())]);
    old.manifest.causes = None;
    assert!(ask(&old).notes[0].starts_with("no causes were collected"));
    old.manifest.written_by.program = "cyclictest".into();
    assert!(ask(&old).notes[0].starts_with("cyclictest measured this and keeps no causes"));
}

#[test]
fn every_kind_has_advice() {
    let machine = bundle(Vec::new()).manifest;
    for kind in CauseKind::ALL.iter().copied() {
        let set = CpuSet::from_iter([3]);
        let advice = advice::on(&Cause::timed(kind, "x", 0, 1), &set, &KeptIn::new(), &machine).unwrap();
        assert!(advice.len() > 20 && !advice.contains("  "), "{kind:?}: {advice}");
    }
}

#[test]
fn a_thread_that_is_measured_too_is_not_to_be_kept_off() {
    let mut manifest = bundle(Vec::new()).manifest;
    manifest.rows[0].key.thread_name = Some("base".into());
    let of = |name| {
        let cause = Cause::timed(CauseKind::Thread, name, 0, 1);
        advice::on(&cause, &CpuSet::from_iter([3]), &KeptIn::new(), &manifest).unwrap()
    };
    assert_eq!(
        of("base"),
        "thread base is measured here too and goes first: shorten its cycle, or give it a CPU of its own"
    );
    assert!(of("rustc").starts_with("keep thread rustc off cpu 3"));
}

#[test]
fn durations_beyond_all_bounds_do_not_overflow() {
    let huge = || Cause::timed(CauseKind::Thread, "x", u64::MAX, u64::MAX);
    let mut one = spike(2, "idle", 5, Vec::new());
    one.causes = vec![huge(), huge()];
    let document = ask(&bundle(vec![one.clone(), one]));
    assert_eq!(document.spikes[0].unexplained_ns, Some(0));
    assert_eq!(document.by_cause[0].total_ns, u64::MAX);
}

#[test]
fn what_no_thread_could_preempt_is_advised_by_the_kernels_preemption() {
    use machine::snapshot::Preemption;
    let mut rustc = Cause::timed(CauseKind::Thread, "rustc", 0, 4_800_000);
    rustc.function = Some("exit_mmap".into());
    rustc.detail = Some(format!("ordinary, pid 9, in the kernel {}", evidence::cause::PREEMPTION_OFF));
    let advised = |preemption, option: Option<&str>, rustc: &Cause| {
        let mut bundle = bundle(vec![spike(3, "idle", 4_800_000, vec![rustc.clone()])]);
        let kernel = &mut bundle.manifest.machine.kernel;
        kernel.preemption = preemption;
        kernel.options.extend(option.map(|value| ("PREEMPT_DYNAMIC".to_string(), value.to_string())));
        WhyDocument::of(&bundle, &Question::default()).by_cause[0].advice.clone().unwrap()
    };
    for preemption in [Preemption::None, Preemption::Voluntary] {
        let advice = advised(preemption, None, &rustc);
        assert!(
            advice.starts_with("nothing can preempt thread rustc in exit_mmap on this kernel: "),
            "{advice}"
        );
        assert!(advice.contains("preempt=full") && advice.contains("PREEMPT_RT"), "{advice}");
    }
    let fixed = advised(Preemption::None, Some("n"), &rustc);
    assert!(!fixed.contains("preempt=full") && fixed.contains("CONFIG_PREEMPT"), "{fixed}");
    let full = advised(Preemption::Full, None, &rustc);
    assert!(full.contains("held preemption off in exit_mmap: boot a real-time kernel"), "{full}");
    let real_time = advised(Preemption::RealTime, None, &rustc);
    assert!(real_time.contains("in exit_mmap") && real_time.contains("keep thread rustc off"), "{real_time}");
    // One of higher priority may have the CPU wherever it is.
    rustc.detail = Some("real-time priority 99, pid 9, in the kernel".into());
    let higher = advised(Preemption::None, None, &rustc);
    assert!(higher.starts_with("keep thread rustc off"), "{higher}");
}

#[test]
fn advice_is_on_the_longest_of_the_causes_of_one_name() {
    let short = Cause::timed(CauseKind::Thread, "rustc", 0, 1_000);
    let mut long = Cause::timed(CauseKind::Thread, "rustc", 0, 4_800_000);
    long.function = Some("exit_mmap".into());
    long.detail = Some(format!("in the kernel {}", evidence::cause::PREEMPTION_OFF));
    let bundle = bundle(vec![spike(3, "idle", 1_000, vec![short]), spike(3, "idle", 4_800_000, vec![long])]);
    let document = WhyDocument::of(&bundle, &Question::default());
    assert!(document.by_cause[0].advice.as_deref().unwrap().contains("exit_mmap"));
}

#[test]
fn what_took_the_most_in_many_parts_is_the_main_cause_and_has_the_advice() {
    let part = |name: &str, n: u64, ns: u64| Cause::timed(CauseKind::Thread, name, n * 1_000, ns);
    let mut parts: Vec<Cause> = (0..400).map(|n| part("rustc", n, 900)).collect();
    parts.push(part("rust-lld", 400, 40_000));
    let document = ask(&bundle(vec![spike(3, "idle", 402_000, parts)]));
    let spike = &document.spikes[0];
    assert_eq!(spike.mostly.as_ref().map(|cause| cause.name.as_str()), Some("rustc"));
    assert_eq!(spike.advice.len(), 1, "{:?}", spike.advice);
    assert!(spike.advice[0].starts_with("keep thread rustc off cpu 3"), "{:?}", spike.advice);
    assert_eq!(document.by_cause[0].name, "rustc");
    let share = shares(&spike.causes)[0];
    assert_eq!((share.parts, share.ns, share.begin_ns), (400, 360_000, 0));
}

#[test]
fn real_time_threads_are_limited_as_the_kernel_does() {
    let advised = |release: &str, groups| {
        let limit = Cause::timed(CauseKind::Throttled, evidence::cause::RT_LIMIT, 0, 9_000);
        let mut bundle = bundle(vec![spike(3, "idle", 10_000, vec![limit])]);
        bundle.manifest.machine.kernel.release = Some(release.to_string());
        bundle.manifest.machine.scheduler.rt_group_scheduling = groups;
        ask(&bundle).by_cause[0].advice.clone().unwrap()
    };
    // (kernel, RT group scheduling, whether a limit stops the thread and no server for ordinary ones).
    for (release, groups, is_limit) in [
        ("6.6.0", None, true),
        ("6.12.1", Some(true), true),
        ("6.12.1", Some(false), false),
        ("7.2.0", None, false),
    ] {
        let advice = advised(release, groups);
        assert_eq!(advice.contains("sched_rt_runtime_us"), is_limit, "{release} {groups:?}: {advice}");
        assert_eq!(
            advice.contains("cpu.rt_runtime_us"),
            groups == Some(true),
            "{release} {groups:?}: {advice}"
        );
    }
}
