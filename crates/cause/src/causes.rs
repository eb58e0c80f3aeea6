// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns an account into causes: spans get kinds and names for the user.

use evidence::cause::{Cause, CauseKind, HYPERVISOR, KernelContext, RETURN, STOPPED, Sender};
use machine::snapshot::Preemption;

use std::collections::BTreeMap;

use crate::account::{Account, Occupant, Point, Span, Withheld, Woken};
use crate::event::{ContextKind, Sent, Task, Vector};
use crate::kept::{KeptBy, context, limit_of, owner, scheduled_as};
use crate::names::{Names, shown};

/// A spike with more causes than this joins those of one name.
const LISTED: usize = 48;

/// Functions of the scheduler's tick.
const TICK: [&str; 3] = ["tick_nohz_handler", "tick_sched_timer", "tick_handle_periodic"];

/// The reasons for which the kernel does not stop a tick, by its bits.
const TICK_DEPENDENCIES: [&str; 6] =
    ["POSIX timer", "perf events", "scheduler", "unstable clock", "RCU", "expedited RCU"];

/// The kernel and the measuring threads of an account.
#[derive(Debug, Default)]
pub struct KernelFacts {
    /// Its names of numbers and addresses.
    pub names: Names,
    /// Its preemption model.
    pub preemption: Preemption,
    /// The kernel's priority of each measuring thread.
    pub priorities: BTreeMap<u32, i32>,
}

/// The causes of an account whose window began at `from_ns`, in the order of their begin.
pub fn causes(account: &Account, from_ns: u64, facts: &KernelFacts) -> Vec<Cause> {
    let names = &facts.names;
    let cause = |span: &Span| {
        let (kind, name) = kind_and_name(span, names);
        let mut cause = Cause::timed(kind, name, span.begin_ns - from_ns, span.duration_ns);
        cause.entry_exit_ns = Some(span.entry_exit_ns).filter(|ns| *ns > 0);
        cause.detail = detail(kind, span, account, names);
        if let Occupant::Thread(task) = &span.occupant {
            cause.owner = owner(task.pid, &task.comm);
        }
        keeps(&mut cause, span, facts);
        cause.sender =
            (kind == CauseKind::Ipi).then(|| span.sent.as_ref().map(|sent| sender(sent, names))).flatten();
        cause
    };
    let point = |(at_ns, point): &(u64, Point)| {
        let (kind, name) = match point {
            Point::Migrated(cpu) => (CauseKind::Migration, format!("to cpu {cpu}")),
            Point::Frequency(khz) => (CauseKind::Frequency, format!("{} MHz", khz / 1000)),
        };
        Cause::timed(kind, name, at_ns - from_ns, 0)
    };
    let mut causes =
        account.spans.iter().map(cause).chain(account.points.iter().map(point)).collect::<Vec<_>>();
    causes.sort_by_key(|cause| cause.begin_ns);
    if causes.len() > LISTED { joined(causes) } else { causes }
}

/// The kernel function in which it delayed the measuring thread.
fn keeps(cause: &mut Cause, span: &Span, facts: &KernelFacts) {
    let Some(kept) = &span.kept else { return };
    let keeps = match &span.occupant {
        // A real-time kernel preempts it as its thread, others never.
        Occupant::Context(ContextKind::Softirq(_)) if facts.preemption != Preemption::RealTime => {
            Some(i32::MAX)
        }
        _ => kept.prio,
    };
    let woken = match kept.woken {
        Some(thread) => facts.priorities.get(&thread),
        // Of several threads on a CPU use the priority that preempts least.
        None => facts.priorities.values().max(),
    };
    let priorities = (keeps, woken.copied());
    KeptBy { stack: &kept.stack, priorities, preemption: facts.preemption.name() }.blame(cause, &facts.names);
}

/// Joins causes of one kind, name and sender; the result begins with the first.
fn joined(causes: Vec<Cause>) -> Vec<Cause> {
    let mut joined: Vec<(Cause, u64)> = Vec::new();
    for cause in causes {
        let same = |(other, _): &&mut (Cause, u64)| {
            (other.kind, &other.name, &other.sender) == (cause.kind, &cause.name, &cause.sender)
        };
        match joined.iter_mut().find(same) {
            Some((first, times)) => {
                let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
                    (None, None) => None,
                    _ => Some(one.unwrap_or(0) + other.unwrap_or(0)),
                };
                first.duration_ns = sum(first.duration_ns, cause.duration_ns);
                first.entry_exit_ns = sum(first.entry_exit_ns, cause.entry_exit_ns);
                *times += 1;
            }
            None => joined.push((cause, 1)),
        }
    }
    let counted = |(mut cause, times): (Cause, u64)| {
        if times > 1 {
            let detail = cause.detail.take().map_or(String::new(), |detail| format!("{detail}, "));
            cause.detail = Some(format!("{detail}{times} times"));
        }
        cause
    };
    joined.into_iter().map(counted).collect()
}

fn kind_and_name(span: &Span, names: &Names) -> (CauseKind, String) {
    match &span.occupant {
        Occupant::Own | Occupant::Unknown | Occupant::Vacant => {
            (CauseKind::Unexplained, "unexplained".to_string())
        }
        Occupant::Hypervisor => (CauseKind::Stolen, HYPERVISOR.to_string()),
        Occupant::Withheld(Withheld::Throttled { prio }) => {
            (CauseKind::Throttled, limit_of(*prio).to_string())
        }
        Occupant::Withheld(Withheld::Stopped) => (CauseKind::Stopped, STOPPED.to_string()),
        Occupant::Idle(state) => (CauseKind::IdleExit, names.idle_state(*state)),
        Occupant::Thread(task) => thread(task),
        Occupant::Nmi(0) => (CauseKind::Nmi, "nmi".to_string()),
        Occupant::Nmi(handler) => (CauseKind::Nmi, names.function_or_address(*handler)),
        Occupant::Fault(_) => (CauseKind::Fault, "page fault".to_string()),
        Occupant::Return => (CauseKind::Syscall, RETURN.to_string()),
        Occupant::Context(context) => match context {
            ContextKind::Irq(number)
                if names.irq_device(*number).is_some_and(|name| name.contains("arch_timer")) =>
            {
                timer(span, names)
            }
            ContextKind::Irq(number) => (CauseKind::Irq, names.irq(*number)),
            ContextKind::Vector(Vector::LocalTimer) => timer(span, names),
            ContextKind::Vector(vector) => self::vector(*vector, span, names),
            ContextKind::Call { function, .. } => {
                (CauseKind::Ipi, format!("call function {}", names.function_or_address(*function)))
            }
            ContextKind::Softirq(number) => (CauseKind::Softirq, names.softirq(*number)),
            ContextKind::Work(function) => (CauseKind::Workqueue, names.function_or_address(*function)),
            ContextKind::Syscall(number) => (CauseKind::Syscall, syscall(*number)),
        },
    }
}

/// The CPU's own timer: the tick, or another timer.
fn timer(span: &Span, names: &Names) -> (CauseKind, String) {
    let functions = || span.timers.iter().filter_map(|address| names.function(*address));
    if functions().any(|name| TICK.contains(&name)) {
        return (CauseKind::Tick, "tick".to_string());
    }
    (CauseKind::Timer, functions().next().unwrap_or("local timer").to_string())
}

fn vector(vector: Vector, span: &Span, names: &Names) -> (CauseKind, String) {
    let asked = span.sent.as_ref().filter(|sent| sent.function != 0);
    match vector {
        Vector::CallFunction => match asked {
            Some(sent) => {
                (CauseKind::Ipi, format!("call function {}", names.function_or_address(sent.function)))
            }
            None => (CauseKind::Ipi, "call function".to_string()),
        },
        Vector::Reschedule => (CauseKind::Ipi, "reschedule".to_string()),
        Vector::IrqWork => (CauseKind::Ipi, "irq work".to_string()),
        Vector::PlatformIpi => (CauseKind::Irq, "platform".to_string()),
        Vector::Thermal => (CauseKind::Irq, "thermal".to_string()),
        Vector::Threshold => (CauseKind::Irq, "machine check threshold".to_string()),
        Vector::DeferredError => (CauseKind::Irq, "deferred error".to_string()),
        Vector::Error => (CauseKind::Irq, "interrupt controller error".to_string()),
        Vector::Spurious => (CauseKind::Irq, "spurious".to_string()),
        Vector::LocalTimer | Vector::Other => (CauseKind::Irq, "other vector".to_string()),
    }
}

fn thread(task: &Task) -> (CauseKind, String) {
    let name = if task.comm.is_empty() { format!("thread {}", task.pid) } else { task.comm.clone() };
    let kind = match task.kernel {
        Some(true) if name.starts_with("irq/") => CauseKind::IrqThread,
        Some(true) => CauseKind::Kthread,
        _ => CauseKind::Thread,
    };
    (kind, name)
}

fn syscall(number: u64) -> String {
    let known = syscalls::Sysno::new(usize::try_from(number).unwrap_or(usize::MAX));
    known.map_or_else(|| format!("system call {number}"), |known| known.name().to_string())
}

fn detail(kind: CauseKind, span: &Span, account: &Account, names: &Names) -> Option<String> {
    let mut words = Vec::new();
    if let Occupant::Thread(task) = &span.occupant {
        words.extend(task.prio.map(scheduled_as));
        if kind == CauseKind::Thread {
            words.push(format!("pid {}", task.pid));
        }
    }
    words.extend(span.woken.as_ref().map(|woken| woken_by(woken, names)));
    if span.occupant == Occupant::Hypervisor {
        words.push("by its own clock of this cpu".to_string());
    }
    if let Occupant::Fault(address) = span.occupant {
        words.push(format!("at {}", shown(address)));
    }
    if kind == CauseKind::Tick
        && let Some(bits) = account.tick_kept
    {
        let kept = TICK_DEPENDENCIES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        words.extend(kept.map(|(_, name)| format!("not stopped: {name}")));
    }
    if matches!(span.occupant, Occupant::Context(ContextKind::Softirq(_))) {
        words.extend(span.timers.first().and_then(|timer| names.function(*timer)).map(str::to_string));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

fn woken_by(woken: &Woken, names: &Names) -> String {
    match woken {
        Woken::There(cpu, task) => match task.context.filter(|context| *context != KernelContext::Task) {
            Some(context) => format!("woken by {} on cpu {cpu}", context.named()),
            None => format!("woken by cpu {cpu} `{}` (pid {})", task.comm, task.pid),
        },
        Woken::Here(occupant) => {
            let span = Span::of(occupant.clone());
            match kind_and_name(&span, names) {
                (CauseKind::Unexplained, _) => "woken by the measured thread".to_string(),
                (CauseKind::IdleExit, _) => "woken from idle".to_string(),
                // The thread that had the CPU has no name there.
                (CauseKind::Throttled | CauseKind::Stopped, _) => "woken on this cpu".to_string(),
                (kind, name) => format!("woken by {}", kind.named(&name)),
            }
        }
    }
}

/// The sender of a request: the thread that ran there, unless something interrupted it.
pub(crate) fn sender(sent: &Sent, names: &Names) -> Sender {
    let function = match sent.function {
        0 => None,
        address => Some(names.function_or_address(address)),
    };
    let context = sent.by.context.or_else(|| context(&sent.stack, names));
    let is_thread = context.is_none_or(|context| context == KernelContext::Task);
    Sender {
        cpu: Some(sent.cpu),
        pid: Some(sent.by.pid).filter(|_| is_thread),
        comm: Some(sent.by.comm.clone()).filter(|comm| is_thread && !comm.is_empty()),
        context,
        function,
        call_site: names.asker(&sent.stack),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::KeptCpu;
    use evidence::cause::Owner;

    fn span(occupant: Occupant, begin_ns: u64, duration_ns: u64) -> Span {
        Span { begin_ns, duration_ns, ..Span::of(occupant) }
    }

    fn account(spans: Vec<Span>) -> Account {
        Account { spans, ..Account::default() }
    }

    fn described(account: &Account) -> Vec<String> {
        let text = |cause: Cause| {
            let detail = cause.detail.map_or(String::new(), |detail| format!(" ({detail})"));
            format!("{} {}{detail}", cause.kind.name(), cause.name)
        };
        causes(account, 1_000, &KernelFacts::default()).into_iter().map(text).collect()
    }

    #[test]
    fn threads_have_a_kind_and_a_priority() {
        let thread = |comm: &str, prio, kernel| {
            let task =
                Task { pid: 7, comm: comm.into(), prio: Some(prio), kernel: Some(kernel), ..Task::default() };
            span(Occupant::Thread(task), 1_000, 5)
        };
        let mut woken = thread("irq/45-nvme0q3", 49, true);
        woken.woken = Some(Woken::Here(Occupant::Context(ContextKind::Irq(45))));
        let account = account(vec![
            woken,
            thread("kworker/3:1H", 100, true),
            thread("hog", 0, false),
            thread("dl", -1, false),
        ]);
        assert_eq!(
            described(&account),
            [
                "irq_thread irq/45-nvme0q3 (real-time priority 50, woken by irq 45)",
                "kthread kworker/3:1H (ordinary)",
                "thread hog (real-time priority 99, pid 7)",
                "thread dl (deadline, pid 7)",
            ]
        );
    }

    #[test]
    fn a_waker_without_a_name_is_only_placed() {
        let woken_here = |occupant| woken_by(&Woken::Here(occupant), &Names::default());
        assert_eq!(woken_here(Occupant::Withheld(Withheld::Stopped)), "woken on this cpu");
        let waker = |context| Task { pid: 7, comm: "innocent".into(), context, ..Task::default() };
        let woken_there = |context| woken_by(&Woken::There(2, waker(context)), &Names::default());
        assert_eq!(woken_there(Some(KernelContext::Hardirq)), "woken by an interrupt on cpu 2");
        assert_eq!(woken_there(Some(KernelContext::Task)), "woken by cpu 2 `innocent` (pid 7)");
    }

    #[test]
    fn an_occupant_has_its_function_and_preemption() {
        let names = Names::of_functions(&["asm_sysvec_apic_timer_interrupt", "exit_mmap"]);
        let stack: Vec<u64> = ["asm_sysvec_apic_timer_interrupt", "exit_mmap"]
            .map(|name| names.address(name).unwrap() + 8)
            .into();
        let described = |occupant, prio, preemption| {
            let kept = Some(KeptCpu { woken: Some(9), prio, stack: stack.clone() });
            let account = account(vec![Span { kept, ..span(occupant, 1_000, 5) }]);
            let priorities = BTreeMap::from([(9, 19)]);
            let facts = KernelFacts { names: names.clone(), preemption, priorities };
            let cause = causes(&account, 1_000, &facts).remove(0);
            assert_eq!(
                (cause.function.as_deref(), &cause.stack[..]),
                (Some("exit_mmap"), &["exit_mmap".to_string()][..])
            );
            (cause.detail.unwrap(), cause.owner)
        };
        let rustc =
            Task { pid: 7, comm: "rustc".into(), prio: Some(120), kernel: Some(false), ..Task::default() };
        let owner = Some(Owner { tid: 7, name: "rustc".into(), ..Owner::default() });
        let detail = "ordinary, pid 7, in the kernel with preemption off (this kernel is PREEMPT_NONE)";
        assert_eq!(
            described(Occupant::Thread(rustc), Some(120), Preemption::None),
            (detail.to_string(), owner)
        );
        // A softirq has no thread's priority, except on a real-time kernel.
        let softirq = || Occupant::Context(ContextKind::Softirq(3));
        let off = described(softirq(), None, Preemption::Full).0;
        assert_eq!(off, "in the kernel with preemption off (this kernel is PREEMPT)");
        assert_eq!(described(softirq(), Some(9), Preemption::RealTime).0, "in the kernel");
    }

    #[test]
    fn an_ipi_has_its_function_and_sender() {
        let by = Task { pid: 42, comm: "echo".into(), ..Task::default() };
        let mut call = span(Occupant::Context(ContextKind::Call { function: 0xf0, request: 1 }), 1_010, 30);
        call.sent = Some(Sent { by, cpu: 0, request: Some(1), function: 0xf0, stack: Vec::new() });
        let causes = causes(&account(vec![call]), 1_000, &KernelFacts::default());
        let sender = causes[0].sender.as_ref().unwrap();
        assert_eq!((causes[0].name.as_str(), causes[0].begin_ns), ("call function 0xf0", Some(10)));
        assert_eq!((sender.cpu, sender.pid, sender.comm.as_deref()), (Some(0), Some(42), Some("echo")));
    }

    #[test]
    fn joins_many_causes_of_one_name() {
        let softirqs = (0..200)
            .map(|n| span(Occupant::Context(ContextKind::Softirq(n % 2 + 2)), 1_000 + u64::from(n), 1));
        let account = account(softirqs.collect());
        assert_eq!(described(&account), ["softirq NET_TX (100 times)", "softirq NET_RX (100 times)"]);
        let causes = causes(&account, 1_000, &KernelFacts::default());
        assert_eq!(causes.iter().filter_map(|cause| cause.duration_ns).sum::<u64>(), 200);
    }

    #[test]
    fn a_system_call_has_its_name() {
        let write = if cfg!(target_arch = "aarch64") { 64 } else { 1 };
        let account = account(vec![span(Occupant::Context(ContextKind::Syscall(write)), 1_000, 5)]);
        assert_eq!(described(&account), ["syscall write"]);
    }
}
