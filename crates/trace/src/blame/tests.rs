// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles with known parts, and their causes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cause::names::Names;
use evidence::cause::{ChainLink, HYPERVISOR, QUOTA, RESERVATION, RT_LIMIT};
use syscalls::Sysno;

use super::*;
use crate::cycle::Blocked;
use crate::record::{Interrupt, Leaving, Predecessor, Stay, ThreadRecord, Waking};

const THREAD: u32 = 10;
const DUE_NS: u64 = 1_000_000;

/// A cycle that was woken 5 us after it was due, began 30 us later and executed for 20 us.
fn cycle() -> LoopCycle {
    LoopCycle {
        due_ns: DUE_NS,
        slept_ns: DUE_NS - 500_000,
        woken_ns: DUE_NS + 5_000,
        began_ns: DUE_NS + 35_000,
        is_begin_unseen: false,
        ended_ns: DUE_NS + 55_000,
        execution_ns: 20_000,
        stolen_ns: 0,
        preempted: Vec::new(),
        blocked: Vec::new(),
        faults: 0,
        migrations: 0,
        cpu: 1,
        waking: Waking {
            due_ns: Some(DUE_NS),
            waker: 77,
            waker_name: "rustc".to_string(),
            ..Waking::default()
        },
        begin: None,
        is_after_loss: false,
        before: None,
    }
}

/// Kernel functions in the format of `/proc/kallsyms`.
fn names() -> Names {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("proc")).unwrap();
    let text = "ffffffff81000100 T hrtimer_interrupt\nffffffff81000200 T asm_sysvec_apic_timer_interrupt\n\
                ffffffff81000300 T unmap_page_range\nffffffff81000400 T exit_mmap\nffffffff81000500 T end\n";
    fs::write(root.path().join("proc/kallsyms"), text).unwrap();
    Names::read(root.path())
}

/// A scene of a program without names of functions.
fn scene<'a>(records: &'a [ThreadRecord], names: &'a Names, preemption: &'a str) -> Scene<'a> {
    static NUMBERS: BTreeMap<u32, u32> = BTreeMap::new();
    static THREADS: BTreeMap<u32, String> = BTreeMap::new();
    let code = Box::leak(Box::default());
    let root = Path::new("/nonexistent");
    let (numbers, threads) = (&NUMBERS, &THREADS);
    Scene { records, stacks: &[], thread: THREAD, names, numbers, threads, preemption, code, root }
}

/// All causes of a cycle.
fn whole(cycle: &LoopCycle, scene: &Scene<'_>) -> Vec<Cause> {
    CycleCauses::of(cycle, scene).response
}

fn causes(cycle: &LoopCycle, records: &[ThreadRecord]) -> Vec<(CauseKind, String, u64, u64)> {
    let names = names();
    let scene = scene(records, &names, "PREEMPT_NONE");
    let made = whole(cycle, &scene).into_iter();
    let part = |cause: Cause| (cause.kind, cause.name, cause.begin_ns.unwrap(), cause.duration_ns.unwrap());
    made.map(part).collect()
}

fn record(at_ns: u64, thread: u32, kind: ThreadEvent) -> ThreadRecord {
    ThreadRecord { thread, cpu: 1, at_ns, kind }
}

/// The stay that begins with the cycle, of this priority; a thread of this name and priority left the CPU to
/// it.
fn begins_after(name: &str, prio: i32, own: i32) -> ThreadRecord {
    let after = Predecessor { id: 77, prio, is_kernel: false, name: name.to_string() };
    let stay = Stay { in_ns: DUE_NS + 35_000, after, prio: own, ..Stay::default() };
    record(DUE_NS + 55_000, THREAD, ThreadEvent::Stay(Box::new(stay)))
}

#[test]
fn a_thread_has_its_name_when_it_left() {
    let parts = causes(&cycle(), &[begins_after("stress", 10, 19)]);
    assert_eq!(parts[1], (CauseKind::Thread, "stress".to_string(), 5_000, 30_000));
}

#[test]
fn a_waker_on_another_cpu_does_not_have_this_one() {
    let mut woken = cycle();
    woken.waking.is_elsewhere = true;
    assert!(causes(&woken, &[]).iter().all(|(kind, ..)| *kind != CauseKind::Thread));
    let mut there = begins_after("stress", 10, 19);
    let ThreadEvent::Stay(stay) = &mut there.kind else { panic!() };
    stay.after = Predecessor { id: 5, ..stay.after.clone() };
    assert_eq!(causes(&woken, &[there])[1], (CauseKind::Thread, "stress".to_string(), 5_000, 30_000));
}

#[test]
fn a_wakeup_names_the_thread_that_had_the_cpu() {
    let parts = causes(&cycle(), &[begins_after("rustc", 19, 19)]);
    assert_eq!(
        parts,
        [
            (CauseKind::Timer, OWN_TIMER.to_string(), 0, 5_000),
            (CauseKind::Thread, "rustc".to_string(), 5_000, 30_000),
            (CauseKind::Execution, "the program".to_string(), 35_000, 20_000),
        ]
    );
}

#[test]
fn the_kernel_function_below_the_interrupt_is_named() {
    let stack = [0x100, 0x200, 0x300, 0x400].map(|low| 0xffff_ffff_8100_0008 + low);
    let kind = ThreadEvent::Stack(stack.to_vec());
    let records = [record(DUE_NS + 5_000, THREAD, kind), begins_after("rustc", 120, 19)];
    let names = names();
    let scene = scene(&records, &names, "PREEMPT_NONE");
    let made = of_wakeup(&cycle(), &scene);
    let rustc = made.iter().find(|cause| cause.name == "rustc").unwrap();
    assert_eq!(rustc.function.as_deref(), Some("unmap_page_range"));
    assert_eq!(rustc.stack, ["unmap_page_range", "exit_mmap"]);
    let detail = "ordinary, in the kernel with preemption off (this kernel is PREEMPT_NONE)";
    assert_eq!(rustc.detail.as_deref(), Some(detail));
    assert_eq!(rustc.owner, Some(Owner { tid: 77, name: "rustc".to_string(), ..Owner::default() }));
}

#[test]
fn threads_share_the_time_until_the_begin() {
    let to = Scheduled { id: 9, prio: 120, name: "kworker/1:2".to_string(), ..Scheduled::default() };
    let from = Predecessor { id: 77, prio: 120, is_kernel: false, name: "cc1".to_string() };
    let kind = ThreadEvent::Switched { from, to, is_kernel: true };
    let parts = causes(&cycle(), &[record(DUE_NS + 15_000, 9, kind), begins_after("x", 120, 120)]);
    assert_eq!(parts[1], (CauseKind::Thread, "cc1".to_string(), 5_000, 10_000));
    assert_eq!(parts[2], (CauseKind::Kthread, "kworker/1:2".to_string(), 15_000, 20_000));
}

#[test]
fn an_overrun_is_a_cause_of_the_next_cycle() {
    let late = LoopCycle { slept_ns: DUE_NS + 4_000, ..cycle() };
    let parts = causes(&late, &[]);
    assert_eq!(parts[0], (CauseKind::Execution, "the cycle before".to_string(), 0, 4_000));
    assert_eq!(parts[1], (CauseKind::Timer, OWN_TIMER.to_string(), 4_000, 1_000));
}

#[test]
fn a_sleep_that_no_timer_ended_was_stopped() {
    let late = LoopCycle { waking: Waking { due_ns: None, ..cycle().waking }, ..cycle() };
    let parts = causes(&late, &[]);
    assert_eq!(parts[0], (CauseKind::Stopped, STOPPED.to_string(), 0, 5_000));
}

#[test]
fn a_cycle_before_took_its_time_as_it_was() {
    let of = |execution_ns, blocked| {
        let before = LoopCycle { due_ns: DUE_NS - 1_000_000, execution_ns, blocked, ..cycle() };
        let late = LoopCycle { slept_ns: DUE_NS + 4_000, before: Some(Box::new(before)), ..cycle() };
        let names = names();
        let made = of_wakeup(&late, &scene(&[], &names, "PREEMPT")).into_iter();
        let part = |cause: Cause| (cause.kind, cause.duration_ns.unwrap(), cause.detail);
        made.filter(|cause| cause.kind != CauseKind::Timer).map(part).collect::<Vec<_>>()
    };
    let own = |ns, detail: &str| (CauseKind::Execution, ns, Some(detail.to_string()));
    assert_eq!(of(1_003_000, Vec::new()), [own(4_000, "it took longer than its period")]);
    assert_eq!(of(700_000, Vec::new()), [own(4_000, "it had not ended")]);
    let on = |on, ns| Blocked { from_ns: DUE_NS, ns, on, words: [0; 4], ended_by: None, interrupt: None };
    let stopped = (CauseKind::Stopped, 3_000, None);
    assert_eq!(of(700_000, vec![on(Wait::Stopped, 3_000)]), [own(1_000, "it had not ended"), stopped]);
}

#[test]
fn a_lock_has_its_owner_and_inheritance() {
    let part = |inherits_priority, words| Blocked {
        from_ns: DUE_NS + 40_000,
        ns: 8_000,
        on: Wait::Lock { address: 0x7000, inherits_priority },
        words,
        ended_by: Some((12, "logger".to_string())),
        interrupt: None,
    };
    let of = |part: Blocked| {
        let mut late = cycle();
        late.blocked.push(part);
        let names = names();
        let scene = scene(&[], &names, "PREEMPT");
        whole(&late, &scene).into_iter().find(|cause| cause.kind == CauseKind::Lock).unwrap()
    };
    let plain = of(part(false, [2, 0, 12, 1]));
    assert_eq!((plain.begin_ns, plain.duration_ns), (Some(40_000), Some(8_000)));
    assert_eq!(plain.owner, Some(Owner { tid: 12, name: "logger".to_string(), ..Owner::default() }));
    assert_eq!(plain.detail.as_deref(), Some("without priority inheritance"));
    assert_eq!(of(part(true, [12, 0, 0, 0])).detail.as_deref(), Some("its owner inherits priority"));
    // If a library keeps no owner, the thread that ended the wait held it.
    assert_eq!(of(part(false, [2, 0, 0, 0])).owner.unwrap().tid, 12);
}

#[test]
fn an_owner_that_waits_for_its_cpu_names_the_thread_that_had_it() {
    let polls = Leaving { sleeps: true, call: Some(Sysno::ppoll as u32), ..Leaving::default() };
    let waker = || Waking { waker: 55, waker_name: "waker".to_string(), ..Waking::default() };
    let stay = |woken_ns, in_ns, after, out_ns| {
        let stay = Stay {
            woken_ns,
            in_ns,
            after,
            out_ns,
            waking: waker(),
            leaving: polls.clone(),
            prio: 120,
            ..Stay::default()
        };
        record(out_ns, 12, ThreadEvent::Stay(Box::new(stay)))
    };
    let rustc = Predecessor { id: 77, prio: 120, is_kernel: false, name: "rustc".to_string() };
    let records = [
        stay(None, DUE_NS, Predecessor::default(), DUE_NS + 40_000),
        stay(Some(DUE_NS + 60_000), DUE_NS + 90_000, rustc, DUE_NS + 100_000),
        stay(Some(DUE_NS + 120_000), DUE_NS + 130_000, Predecessor::default(), DUE_NS + 135_000),
        // Neither its wakeup nor its begin was seen.
        record(
            DUE_NS + 160_000,
            12,
            ThreadEvent::Stay(Box::new(Stay {
                in_ns: DUE_NS + 150_000,
                is_begin_unseen: true,
                out_ns: DUE_NS + 160_000,
                leaving: polls.clone(),
                ..Stay::default()
            })),
        ),
    ];
    let mut late = cycle();
    late.ended_ns = DUE_NS + 200_000;
    late.blocked.push(Blocked {
        from_ns: DUE_NS + 40_000,
        ns: 110_000,
        on: Wait::Lock { address: 0x7000, inherits_priority: false },
        words: [2, 0, 12, 1],
        ended_by: Some((12, "owner".to_string())),
        interrupt: None,
    });
    let names = names();
    let causes = whole(&late, &scene(&records, &names, "PREEMPT"));
    let lock = causes.iter().find(|cause| cause.kind == CauseKind::Lock).unwrap();
    let link = |link: &ChainLink| (link.kind, link.name.clone(), link.duration_ns);
    let links: Vec<_> = lock.chain.iter().map(link).collect();
    let poll = "poll".to_string();
    assert_eq!(
        links,
        [
            (CauseKind::Wait, poll.clone(), 20_000),
            (CauseKind::Thread, "rustc".to_string(), 30_000),
            (CauseKind::Wait, poll.clone(), 20_000),
            (CauseKind::IdleExit, "idle".to_string(), 10_000),
            (CauseKind::Wait, poll, 15_000),
        ]
    );
}

#[test]
fn preemption_shows_the_other_threads_priority() {
    let mut late = cycle();
    let by = Scheduled { id: 5, prio: 19, policy: 1, name: "irq/45-eth0".to_string() };
    late.preempted.push(crate::cycle::Preempted {
        from_ns: DUE_NS + 36_000,
        ns: 6_000,
        by,
        is_throttled: false,
    });
    let names = names();
    let scene = scene(&[], &names, "PREEMPT");
    let made = whole(&late, &scene);
    let cause = made.iter().find(|cause| cause.name == "irq/45-eth0").unwrap();
    assert_eq!(cause.detail.as_deref(), Some("real-time priority 80"));
    assert_eq!((cause.begin_ns, cause.duration_ns), (Some(36_000), Some(6_000)));
}

#[test]
fn a_cpu_wait_after_a_lock_names_the_running_thread() {
    let mut late = cycle();
    let woken_ns = DUE_NS + 45_000;
    let part = crate::cycle::Preempted {
        from_ns: woken_ns,
        ns: 5_000,
        by: Scheduled::default(),
        is_throttled: false,
    };
    late.preempted.push(part);
    let waking = Waking { waker: 12, waker_name: "logger".to_string(), ..Waking::default() };
    let after = Predecessor { id: 12, prio: 120, is_kernel: false, name: "logger".to_string() };
    let (in_ns, prio) = (woken_ns + 5_000, 120);
    let stay = Stay { woken_ns: Some(woken_ns), in_ns, after, prio, waking, ..Stay::default() };
    let parts = causes(&late, &[record(woken_ns + 9_000, THREAD, ThreadEvent::Stay(Box::new(stay)))]);
    assert!(parts.contains(&(CauseKind::Thread, "logger".to_string(), 45_000, 5_000)), "{parts:?}");
}

#[test]
fn a_thread_that_gives_way_keeps_no_cpu() {
    let is_thread = |(kind, ..): &(CauseKind, String, u64, u64)| *kind == CauseKind::Thread;
    let of = |prio, own| causes(&cycle(), &[begins_after("innocent", prio, own)]).iter().any(is_thread);
    assert!(!of(120, 19) && !of(50, 19), "nothing shows it in the kernel");
    assert!(of(19, 19) && of(10, 19) && of(120, 120));
    assert!(!causes(&cycle(), &[]).iter().any(is_thread), "its priority is unknown");
}

#[test]
fn a_ready_thread_that_is_passed_over_is_throttled() {
    let of = |prio, ns, to| {
        let mut late = cycle();
        (late.ended_ns, late.execution_ns) = (DUE_NS + 500_000, 5_000);
        let by = Scheduled { id: to, prio: 120, policy: 0, name: "innocent".to_string() };
        late.preempted.push(Preempted { from_ns: DUE_NS + 40_000, ns, by, is_throttled: false });
        let stay = Stay { in_ns: DUE_NS + 40_000 + ns, prio, ..Stay::default() };
        let after = record(DUE_NS + 500_000, THREAD, ThreadEvent::Stay(Box::new(stay)));
        let causes = causes(&late, &[after]).into_iter();
        let found = causes.filter(|(_, _, begin_ns, _)| *begin_ns == 40_000);
        found.map(|(kind, name, ..)| (kind, name)).collect::<Vec<_>>()
    };
    let by = |name: &str| vec![(CauseKind::Throttled, name.to_string())];
    assert_eq!([of(19, 200_000, 9), of(19, 200_000, 0)], [by(RT_LIMIT), by(RT_LIMIT)]);
    assert_eq!([of(-1, 200_000, 9), of(120, 200_000, 0)], [by(RESERVATION), by(QUOTA)]);
    assert_eq!(of(120, 200_000, 9), [(CauseKind::Thread, "innocent".to_string())]);
}

#[test]
fn a_cpu_that_knows_no_wakeup_yet_passes_nothing_over() {
    let of = |came_ns| {
        let (to, from) = (Scheduled { id: 9, prio: 120, ..Scheduled::default() }, Predecessor::default());
        let kind = ThreadEvent::Switched { from, to, is_kernel: false };
        let late = LoopCycle { began_ns: DUE_NS + 300_000, ended_ns: DUE_NS + 320_000, ..cycle() };
        let stay = Stay { in_ns: DUE_NS + 300_000, prio: 19, ..Stay::default() };
        let begins = record(DUE_NS + 320_000, THREAD, ThreadEvent::Stay(Box::new(stay)));
        let parts = causes(&late, &[record(DUE_NS + came_ns, 9, kind), begins]);
        parts.iter().any(|(kind, ..)| *kind == CauseKind::Throttled)
    };
    assert!(of(100_000) && !of(270_000));
}

/// A wait of 8 us for a file's data, 40 us after the due time.
fn waits_for_file(ended_by: Option<(u32, String)>, interrupt: Option<Interrupt>) -> LoopCycle {
    let mut late = cycle();
    let (from_ns, ns, on) = (DUE_NS + 40_000, 80_000, Wait::Other(Sysno::fsync as u32));
    late.blocked.push(Blocked { from_ns, ns, on, words: [0; 4], ended_by, interrupt });
    late
}

#[test]
fn a_wait_is_ended_by_its_interrupt() {
    let names = names();
    let detail = |interrupt| {
        let causes = whole(&waits_for_file(None, Some(interrupt)), &scene(&[], &names, "PREEMPT"));
        causes.into_iter().find(|cause| cause.name == "fsync").unwrap().detail.unwrap()
    };
    assert_eq!(
        [Interrupt::Hard("virtio0-req".into()), Interrupt::Soft(3), Interrupt::Nmi].map(detail),
        ["ended by the interrupt of virtio0-req", "ended by the softirq NET_RX", "ended by the NMI"]
    );
}

#[test]
fn a_workers_own_wait_is_told() {
    let stay = |woken_ns, in_ns, out_ns, interrupt| {
        let waking = Waking { waker: 77, waker_name: "innocent".into(), interrupt, ..Waking::default() };
        let leaving = Leaving { sleeps: true, ..Leaving::default() };
        let stay = Stay { woken_ns: Some(woken_ns), in_ns, out_ns, waking, leaving, ..Stay::default() };
        record(out_ns, 30, ThreadEvent::Stay(Box::new(stay)))
    };
    let disk = Some(Interrupt::Hard("virtio0-req".into()));
    let records = [
        stay(DUE_NS, DUE_NS, DUE_NS + 30_000, None),
        stay(DUE_NS + 110_000, DUE_NS + 110_000, DUE_NS + 125_000, disk),
    ];
    let late = waits_for_file(Some((30, "jbd2".into())), None);
    let names = names();
    let causes = whole(&late, &scene(&records, &names, "PREEMPT"));
    let wait = causes.iter().find(|cause| cause.name == "fsync").unwrap();
    assert_eq!(wait.detail.as_deref(), Some("ended by jbd2 (thread 30)"));
    let links: Vec<_> =
        wait.chain.iter().map(|link| (link.kind, link.name.as_str(), link.duration_ns)).collect();
    assert_eq!(links, [(CauseKind::Interrupt, "virtio0-req", 70_000)]);
}

/// The kinds and names of causes.
fn named(causes: &[Cause]) -> Vec<(CauseKind, &str)> {
    causes.iter().map(|cause| (cause.kind, cause.name.as_str())).collect()
}

#[test]
fn rows_of_one_cycle_name_the_same_causes() {
    let mut late = cycle();
    (late.ended_ns, late.execution_ns) = (DUE_NS + 155_000, 50_000);
    let by = Scheduled { id: 78, prio: 10, policy: 1, name: "irq/45".to_string() };
    late.preempted.push(Preempted { from_ns: DUE_NS + 40_000, ns: 30_000, by, is_throttled: false });
    late.blocked.push(Blocked {
        from_ns: DUE_NS + 80_000,
        ns: 40_000,
        on: Wait::Kernel,
        words: [0; 4],
        ended_by: None,
        interrupt: None,
    });
    let fault = |at_ns, kind| ThreadRecord { thread: THREAD, cpu: 1, at_ns, kind };
    let records = [
        fault(DUE_NS + 75_000, ThreadEvent::Fault { address: 0x1000, code: 6 }),
        fault(DUE_NS + 130_000, ThreadEvent::FaultOver { began_ns: DUE_NS + 75_000 }),
    ];
    let names = names();
    let causes = CycleCauses::of(&late, &scene(&records, &names, "PREEMPT"));
    let all = named(&causes.response);
    for part in [&causes.wakeup, &causes.execution] {
        assert!(!part.is_empty());
        assert!(named(part).iter().all(|one| all.contains(one)), "{part:#?}\n{all:?}");
    }
    // The parts of a CPU's time add up to it, and waits are none.
    let took = |causes: &[Cause]| causes.iter().filter_map(|cause| cause.duration_ns).sum::<u64>();
    assert_eq!(took(&causes.execution), late.execution_ns, "{:#?}", causes.execution);
    assert_eq!(causes.execution[0].begin_ns, Some(0));
    assert!(causes.execution.iter().all(|cause| cause.kind != CauseKind::Thread));
}

/// A cycle that was preempted on cpu 1 at 40 us, moved to cpu 0 at 42 us, and had that one at 90 us; with
/// records of both CPUs.
fn moved_within() -> (LoopCycle, Vec<ThreadRecord>) {
    let mut late = cycle();
    (late.ended_ns, late.execution_ns) = (DUE_NS + 100_000, 15_000);
    let by = Scheduled { id: 5, prio: 10, policy: 1, name: "mover".to_string() };
    late.preempted.push(Preempted { from_ns: DUE_NS + 40_000, ns: 50_000, by, is_throttled: false });
    let on = |cpu, at_ns, thread, kind| ThreadRecord { thread, cpu, at_ns: DUE_NS + at_ns, kind };
    let switched = |id, name: &str| {
        let from = Predecessor { id: 5, prio: 10, is_kernel: false, name: "mover".to_string() };
        let to = Scheduled { id, prio: 120, policy: 0, name: name.to_string() };
        ThreadEvent::Switched { from, to, is_kernel: false }
    };
    let hog = Predecessor { id: 6, prio: 15, is_kernel: false, name: "hog".to_string() };
    let before = Stay { in_ns: DUE_NS + 35_000, out_ns: DUE_NS + 40_000, prio: 19, ..Stay::default() };
    let after =
        Stay { in_ns: DUE_NS + 90_000, after: hog, out_ns: DUE_NS + 100_000, prio: 19, ..Stay::default() };
    let records = vec![
        on(1, 40_000, THREAD, ThreadEvent::Stay(Box::new(before))),
        on(1, 42_000, THREAD, ThreadEvent::Moved { to: 0 }),
        on(1, 60_000, 77, switched(77, "innocent")),
        on(0, 100_000, THREAD, ThreadEvent::Stay(Box::new(after))),
    ];
    (late, records)
}

#[test]
fn a_moved_thread_waits_for_the_cpu_it_was_moved_to() {
    let (late, records) = moved_within();
    let parts = causes(&late, &records);
    assert!(parts.contains(&(CauseKind::Thread, "mover".to_string(), 40_000, 2_000)), "{parts:?}");
    assert!(parts.contains(&(CauseKind::Thread, "hog".to_string(), 42_000, 48_000)), "{parts:?}");
    assert!(parts.iter().all(|(_, name, ..)| name != "innocent"), "{parts:?}");
}

#[test]
fn a_move_from_a_cpu_that_went_offline_says_so() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("sys/devices/system/cpu/cpu1");
    fs::create_dir_all(&folder).unwrap();
    let (late, records) = moved_within();
    let names = names();
    let detail = |online: &str| {
        fs::write(folder.join("online"), online).unwrap();
        let causes = whole(&late, &Scene { root: root.path(), ..scene(&records, &names, "PREEMPT") });
        causes.into_iter().find(|cause| cause.kind == CauseKind::Migration).unwrap().detail
    };
    assert_eq!([detail("1\n"), detail("0\n")], [None, Some("cpu 1 went offline".to_string())]);
}

#[test]
fn nobody_is_named_where_records_of_the_wait_were_lost() {
    let (late, mut records) = moved_within();
    let ThreadEvent::Stay(after) = &mut records[3].kind else { panic!() };
    after.has_hole = true;
    let parts = causes(&late, &records);
    let is_named = |(kind, _, begin_ns, _): &(CauseKind, String, u64, u64)| {
        *kind == CauseKind::Thread && *begin_ns >= 40_000
    };
    assert!(!parts.iter().any(is_named), "{parts:?}");
}

/// Woken 5 us late, in the CPU 300 us after it was due, beside an ordinary thread; in its stay this was
/// counted.
fn beside_innocent(counted: Stay) -> Vec<(CauseKind, String, u64, u64)> {
    let mut late = LoopCycle { began_ns: DUE_NS + 300_000, ended_ns: DUE_NS + 320_000, ..cycle() };
    late.waking.is_throttled = counted.waking.is_throttled;
    let after = Predecessor { id: 77, prio: 120, is_kernel: false, name: "innocent".to_string() };
    let stay = Stay { in_ns: DUE_NS + 300_000, after, prio: 120, ..counted };
    let begins = record(DUE_NS + 320_000, THREAD, ThreadEvent::Stay(Box::new(stay)));
    let mut parts = causes(&late, &[begins]);
    parts.retain(|(kind, ..)| !matches!(kind, CauseKind::Execution | CauseKind::Timer));
    parts
}

#[test]
fn a_used_up_quota_is_named_whatever_runs_instead() {
    let throttled = |is_throttled, withheld_ns| {
        let waking = Waking { is_throttled, ..Waking::default() };
        beside_innocent(Stay { waking, withheld_ns, ..Stay::default() })
    };
    let quota = |begin_ns, ns| (CauseKind::Throttled, QUOTA.to_string(), begin_ns, ns);
    let thread = |begin_ns, ns| (CauseKind::Thread, "innocent".to_string(), begin_ns, ns);
    assert_eq!(throttled(false, 0), [thread(5_000, 295_000)]);
    assert_eq!(throttled(true, 0), [quota(5_000, 295_000)], "a kernel that does not count it");
    assert_eq!(throttled(true, 900_000), [quota(5_000, 295_000)], "also from before the wakeup");
    assert_eq!(throttled(true, 250_000), [quota(5_000, 250_000), thread(255_000, 45_000)]);
    assert_eq!(throttled(false, 250_000), [thread(5_000, 45_000), quota(50_000, 250_000)]);
}

#[test]
fn the_hypervisor_has_what_its_clock_says() {
    let stolen = |stolen_before_ns| {
        let woken_ns = Some(DUE_NS + 5_000);
        beside_innocent(Stay { woken_ns, stolen_before_ns, ..Stay::default() })
    };
    let hypervisor = |begin_ns, ns| (CauseKind::Stolen, HYPERVISOR.to_string(), begin_ns, ns);
    assert_eq!(stolen(4_500)[0], hypervisor(0, 4_500), "the interrupt was late");
    // An ordinary thread that had the CPU beside another one may have been the reason.
    assert_eq!(stolen(200_000).len(), 2);
    let mut late = LoopCycle { ended_ns: DUE_NS + 500_000, execution_ns: 165_000, ..cycle() };
    let by = Scheduled { id: 9, prio: 10, policy: 1, name: "higher".to_string() };
    late.preempted.push(Preempted { from_ns: DUE_NS + 40_000, ns: 300_000, by, is_throttled: false });
    let back = Stay { in_ns: DUE_NS + 340_000, prio: 19, stolen_before_ns: 200_000, ..Stay::default() };
    let parts = causes(&late, &[record(DUE_NS + 500_000, THREAD, ThreadEvent::Stay(Box::new(back)))]);
    assert!(parts.contains(&(CauseKind::Thread, "higher".to_string(), 40_000, 100_000)), "{parts:?}");
    assert!(parts.contains(&hypervisor(40_000, 200_000)), "{parts:?}");
}
