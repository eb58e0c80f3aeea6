// SPDX-License-Identifier: MIT OR Apache-2.0
//! The causes of a spike: the occupants of the CPU while its program should have run, with their senders.
//!
//! ```text
//! timer due            program runs
//!     |  irq  |    thread    | ipi |  |      begin_ns     from the spike's beginning
//!     0      3.9           407    409 412    duration_ns  exclusive: nested causes are subtracted
//! ```
//! A duration holds the interruption's entry and exit code, as far as it is no longer than such code was
//! measured to take on this machine ([`Edges`]). Durations and the unexplained remainder add up to the
//! spike's length. A cause without times is a *suspect*: a counter that grew in the same second, which proves
//! nothing of this moment.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use machine::counters::CounterClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a cause stands to the measured thread's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// It takes the CPU from a thread of any priority.
    Outranks,
    /// It is a thread, and keeps the CPU from one of a higher priority only while preemption is off.
    Yields,
    /// It is of the measured thread itself, or nothing that ran.
    Own,
}

macro_rules! causes {
    ($(
        $(#[doc = $doc:literal])+
        $kind:ident $name:literal $(before $before:literal)? $label:literal $letter:literal $colour:literal
            $precedence:expr;
    )+) => {
        /// The kind of cause.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[schemars(rename = "Kind")]
        pub enum CauseKind {
            $($(#[doc = $doc])+ #[serde(rename = $name $(, alias = $before)?)] $kind,)+
        }

        impl CauseKind {
            /// All of them.
            pub const ALL: &[CauseKind] = &[$(CauseKind::$kind),+];

            /// As in JSON: `irq_thread`.
            pub fn name(self) -> &'static str {
                match self { $(CauseKind::$kind => $name,)+ }
            }

            /// As people read it: `IRQ thread`.
            pub fn label(self) -> &'static str {
                match self { $(CauseKind::$kind => $label,)+ }
            }

            /// A letter by which a bar of text tells kinds apart.
            pub fn letter(self) -> char {
                match self { $(CauseKind::$kind => $letter,)+ }
            }

            /// A colour of the page's eight: kinds that are alike have one.
            pub fn colour(self) -> usize {
                match self { $(CauseKind::$kind => $colour,)+ }
            }

            /// How it stands to the measured thread's priority.
            pub fn precedence(self) -> Precedence {
                match self { $(CauseKind::$kind => $precedence,)+ }
            }
        }
    };
}

// Name, the name that older bundles have, label, letter, colour, precedence.
causes! {
    /// An interrupt that cannot be masked: watchdog, performance counters.
    Nmi "nmi" "NMI" 'N' 0 Precedence::Outranks;
    /// A device's interrupt, with number and name.
    Irq "irq" "irq" 'i' 0 Precedence::Outranks;
    /// The kernel thread that serves a device's interrupt.
    IrqThread "irq_thread" "irq thread" 'I' 4 Precedence::Yields;
    /// An interrupt that another CPU sent.
    Ipi "ipi" "IPI" 'p' 3 Precedence::Outranks;
    /// Kernel work that follows interrupts, by its kind: `NET_RX`.
    Softirq "softirq" "softirq" 's' 2 Precedence::Outranks;
    /// A function that the kernel's workers ran.
    Workqueue "workqueue" "workqueue" 'w' 4 Precedence::Yields;
    /// Another kernel thread.
    Kthread "kthread" "kernel thread" 'k' 4 Precedence::Yields;
    /// A thread of a program.
    Thread "thread" "thread" 't' 1 Precedence::Yields;
    /// The measured thread was moved to another CPU.
    Migration "migration" "migration" 'm' 1 Precedence::Own;
    /// The measured thread took a page fault.
    Fault "fault" "page fault" 'f' 5 Precedence::Own;
    /// A system call of the measured thread itself.
    Syscall "syscall" "system call" 'c' 5 Precedence::Own;
    /// The CPU left an idle state.
    IdleExit "idle_exit" "idle exit" 'e' 6 Precedence::Outranks;
    /// The CPU changed its frequency.
    Frequency "frequency" "frequency change" 'q' 6 Precedence::Outranks;
    /// System management interrupts and other hidden work of the firmware.
    Firmware "firmware" "firmware" 'F' 7 Precedence::Outranks;
    /// The hypervisor took the CPU.
    Stolen "stolen" before "steal" "steal" 'S' 7 Precedence::Outranks;
    /// The thread was ready, and its cgroup's quota or the limit for real-time threads was used up.
    Throttled "throttled" "throttled by" 'Q' 3 Precedence::Own;
    /// The thread was stopped: by a signal, a debugger, or the freezer.
    Stopped "stopped" "stopped" 'Z' 3 Precedence::Own;
    /// An interrupt's handler by which a wait ended, with the device: `virtio0-req`.
    Interrupt "interrupt" "interrupt" 'n' 0 Precedence::Outranks;
    /// The scheduler's tick, with the reason why it was not stopped.
    Tick "tick" "tick" 'T' 2 Precedence::Outranks;
    /// A timer's interrupt: of another timer than the tick, or the measured one's own, from where it fired.
    Timer "timer" "timer" 'L' 2 Precedence::Outranks;
    /// The measured program itself, within its cycle.
    Execution "execution" "execution" 'x' 7 Precedence::Own;
    /// The measured thread waited for a lock that another thread held.
    Lock "lock" "lock" 'l' 5 Precedence::Own;
    /// The measured thread waited within its cycle.
    Wait "wait" "wait" 'W' 5 Precedence::Own;
    /// The unexplained part.
    Unexplained "unexplained" "unexplained" '.' 7 Precedence::Own;
}

impl CauseKind {
    /// The kind and the name of a cause: `irq 45 nvme0q3`, `interrupt of virtio0-req`. The tick is called so
    /// by its kind and by its name.
    pub fn named(self, name: &str) -> String {
        let label = self.label();
        if matches!(self, CauseKind::Execution | CauseKind::Interrupt) {
            return format!("{label} of {name}");
        }
        if name == label { label.to_string() } else { format!("{label} {name}").trim_end().to_string() }
    }
}

impl From<CounterClass> for CauseKind {
    /// The kind of cause that a counter is a sign of.
    fn from(class: CounterClass) -> CauseKind {
        match class {
            CounterClass::Nmi => CauseKind::Nmi,
            CounterClass::Irq => CauseKind::Irq,
            CounterClass::Ipi => CauseKind::Ipi,
            CounterClass::LocalTimer => CauseKind::Tick,
            CounterClass::Softirq => CauseKind::Softirq,
            CounterClass::Switch => CauseKind::Thread,
            CounterClass::Steal => CauseKind::Stolen,
        }
    }
}

/// The name of the measured thread's way from the switch to its program, a cause of kind
/// [`CauseKind::Syscall`].
pub const RETURN: &str = "return to the program";

/// The name of the delay of the interrupt by which a followed loop's own timer wakes it, a cause of kind
/// [`CauseKind::Timer`].
pub const OWN_TIMER: &str = "interrupt of the loop";

/// The name of a cause of kind [`CauseKind::Stolen`].
pub const HYPERVISOR: &str = "hypervisor";

/// The name of the kernel's limits for real-time threads, a cause of kind [`CauseKind::Throttled`]:
/// `kernel.sched_rt_runtime_us`, or the server for ordinary threads that took its place in Linux 6.12.
pub const RT_LIMIT: &str = "limit for real-time threads";

/// The name of a thread's own runtime by SCHED_DEADLINE, a cause of kind [`CauseKind::Throttled`].
pub const RESERVATION: &str = "runtime of its own SCHED_DEADLINE reservation";

/// The name of a control group's quota, a cause of kind [`CauseKind::Throttled`]; the group may follow it.
pub const QUOTA: &str = "quota of its control group";

/// The end of the detail of a cause of kind [`CauseKind::Migration`], after the CPU that the thread left.
pub const WENT_OFFLINE: &str = "went offline";

/// The name of a cause of kind [`CauseKind::Stopped`].
pub const STOPPED: &str = "by a signal, a debugger or the freezer";

/// The detail of a cause where the measured thread should have preempted, and could not: the kernel
/// allows no preemption there.
pub const PREEMPTION_OFF: &str = "with preemption off";

/// One thing that took the CPU during a spike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Its kind.
    pub kind: CauseKind,
    /// Which one: `45 nvme0q3`, `NET_RX`, `kworker/3:1H`, `call function do_sync_core`. The same thing has
    /// the same name in every spike, since causes are counted by it.
    pub name: String,
    /// Its begin, from the begin of the spike; 0 if it began earlier. Absent for a suspect.
    pub begin_ns: Option<u64>,
    /// Its duration with entry and exit, without the causes that interrupted it. Absent for a suspect.
    pub duration_ns: Option<u64>,
    /// The part of that which is entry and exit: no event marks it, but it borders on this cause, and is
    /// no longer than such code was measured to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_exit_ns: Option<u64>,
    /// How often it happened in the second around the spike, for a suspect.
    #[serde(default)]
    pub count: Option<u64>,
    /// More about this occurrence: `woken by irq 45`, `fifo 50`.
    pub detail: Option<String>,
    /// The sender of an IPI.
    pub sender: Option<Sender>,
    /// The thread that had the lock or the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The function that it was in: of the kernel, or `program!function`. Of a lock, a wait and a page fault:
    /// the measured program's own function that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// That function and its callers, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The recorded activity of a lock's owner beside running, and then of the owner of the lock for which it
    /// waited itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<ChainLink>,
}

/// The time that causes of one kind and name took of a spike together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CauseShare<'a> {
    /// The longest of them.
    pub longest: &'a Cause,
    /// The begin of the first.
    pub begin_ns: u64,
    /// Their time.
    pub ns: u64,
    /// Their number.
    pub parts: usize,
}

/// The time of these causes by kind and name, the most first: the one rule for a spike's main cause, for
/// advice and for its pictures. What has no time, and the remainder, is none.
pub fn shares(causes: &[Cause]) -> Vec<CauseShare<'_>> {
    let mut shares = BTreeMap::<(CauseKind, &str), CauseShare>::new();
    for cause in causes.iter().filter(|cause| cause.kind != CauseKind::Unexplained) {
        let Some(ns) = cause.duration_ns else { continue };
        let begin_ns = cause.begin_ns.unwrap_or(0);
        let new = CauseShare { longest: cause, begin_ns, ns: 0, parts: 0 };
        let share = shares.entry((cause.kind, &cause.name)).or_insert(new);
        share.ns = share.ns.saturating_add(ns);
        share.parts += 1;
        share.begin_ns = share.begin_ns.min(begin_ns);
        if share.longest.duration_ns < Some(ns) {
            share.longest = cause;
        }
    }
    let mut shares: Vec<_> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    shares
}

/// A part of the time for which a lock was held: its owner did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChainLink {
    /// The thread that did not run.
    pub thread: Owner,
    /// [`CauseKind::Thread`] if another thread had its CPU, [`CauseKind::IdleExit`] if that was leaving idle,
    /// [`CauseKind::Lock`], or [`CauseKind::Wait`].
    pub kind: CauseKind,
    /// Which thread, lock or call.
    pub name: String,
    /// How long.
    pub duration_ns: u64,
    /// The thread that had the CPU or the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

/// The thread that had the CPU or the lock for which the measured one waited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Of a lock: the function in which it released it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

impl Cause {
    /// A cause with its times; detail and sender are left for the caller.
    pub fn timed(kind: CauseKind, name: impl Into<String>, begin_ns: u64, duration_ns: u64) -> Cause {
        Cause {
            begin_ns: Some(begin_ns),
            duration_ns: Some(duration_ns),
            count: None,
            ..Cause::suspect(kind, name, 0)
        }
    }

    /// A counter that grew by `count` in the second around the spike.
    pub fn suspect(kind: CauseKind, name: impl Into<String>, count: u64) -> Cause {
        Cause {
            kind,
            name: name.into(),
            begin_ns: None,
            duration_ns: None,
            entry_exit_ns: None,
            count: Some(count),
            detail: None,
            sender: None,
            owner: None,
            function: None,
            stack: Vec::new(),
            chain: Vec::new(),
        }
    }

    /// Whether it is only known that it happened in the same second.
    pub fn is_suspect(&self) -> bool {
        self.duration_ns.is_none()
    }
}

/// The context in which a CPU woke a thread or sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelContext {
    /// That of the thread that ran there.
    Task,
    /// A softirq.
    Softirq,
    /// A hard interrupt.
    Hardirq,
    /// An NMI.
    Nmi,
}

impl KernelContext {
    /// As people read it, with its article: `a hard interrupt`.
    pub fn named(self) -> &'static str {
        match self {
            KernelContext::Task => "a thread",
            KernelContext::Softirq => "a softirq",
            KernelContext::Hardirq => "an interrupt",
            KernelContext::Nmi => "an NMI",
        }
    }
}

/// The sender of an IPI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Sender {
    /// The sending CPU.
    pub cpu: Option<u32>,
    /// The task that ran there.
    pub pid: Option<u32>,
    /// That task's name.
    pub comm: Option<String>,
    /// The context in which that CPU sent it, where known. In another one than the task's own, the task only
    /// happened to run there, and is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<KernelContext>,
    /// The function that it asked this CPU to run: `do_sync_core`.
    pub function: Option<String>,
    /// The kernel function that asked: `text_poke_bp_batch`.
    pub call_site: Option<String>,
}

/// Activity on a sibling of the measured CPU during a spike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnSibling {
    /// The sibling.
    pub cpu: u32,
    /// The cause.
    #[serde(flatten)]
    pub cause: Cause,
}

/// How causes were collected during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Causes {
    /// Their collector.
    pub collector: Collector,
    /// The events that it could not see, and how to see them, in sentences.
    pub could_not_see: Vec<String>,
    /// Kinds of events that its trial could not provoke. It may see them or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_tried: Vec<String>,
    /// Events that were lost because a buffer was full.
    pub lost_events: u64,
    /// The bounds of entry and exit on each CPU; empty if not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<Edges>,
}

/// The longest time that a cause of a CPU is given for its entry and exit, which no event marks: twice the
/// upper quartile of provoked interruptions before a row. Of several rows the longest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edges {
    /// The CPU.
    pub cpu: u32,
    /// From the program to the first event.
    pub entry_ns: u64,
    /// From the last event of an interrupt back to the program.
    pub exit_ns: u64,
    /// From the switch to a thread back to its program.
    pub return_ns: u64,
}

/// A collector of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Collector {
    /// Programs in the kernel (BPF).
    Bpf,
    /// The same, by types of the kernel that were found elsewhere (`--btf`).
    #[serde(rename = "bpf-found-types")]
    BpfFoundTypes,
    /// The kernel's trace events.
    Tracefs,
    /// The kernel's osnoise tracer without its threads, and trace events.
    Osnoise,
    /// The kernel's counters, before and after: suspects without times.
    Counters,
    /// A trace that another tool recorded.
    Trace,
}

impl Collector {
    /// As in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Collector::Bpf => "bpf",
            Collector::BpfFoundTypes => "bpf-found-types",
            Collector::Tracefs => "tracefs",
            Collector::Osnoise => "osnoise",
            Collector::Counters => "counters",
            Collector::Trace => "trace",
        }
    }
}

/// Which collector a user asks for (`--causes`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The first of the following that this machine and the user's permissions allow.
    #[default]
    Auto,
    /// [`Collector::Bpf`], or an error.
    Bpf,
    /// [`Collector::Tracefs`], or an error.
    Tracefs,
    /// [`Collector::Osnoise`], or an error; never chosen by `auto`.
    Osnoise,
    /// [`Collector::Counters`].
    Counters,
    /// None.
    Off,
}

impl Choice {
    /// All of them, as they are written.
    pub const NAMES: [&str; 6] = ["auto", "bpf", "tracefs", "osnoise", "counters", "off"];
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        Ok(match text {
            "auto" => Choice::Auto,
            "bpf" => Choice::Bpf,
            "tracefs" => Choice::Tracefs,
            "osnoise" => Choice::Osnoise,
            "counters" => Choice::Counters,
            "off" => Choice::Off,
            _ => return Err(format!("there is no such collector; give {}", Choice::NAMES.join(", "))),
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Choice::Auto => "auto",
            Choice::Bpf => "bpf",
            Choice::Tracefs => "tracefs",
            Choice::Osnoise => "osnoise",
            Choice::Counters => "counters",
            Choice::Off => "off",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_name_and_letter() {
        let letters: std::collections::BTreeSet<char> =
            CauseKind::ALL.iter().map(|kind| kind.letter()).collect();
        let names: std::collections::BTreeSet<&str> = CauseKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!((letters.len(), names.len()), (CauseKind::ALL.len(), CauseKind::ALL.len()));
        assert!(CauseKind::ALL.iter().all(|kind| kind.colour() < 8 && !kind.label().is_empty()));
    }

    #[test]
    fn names_are_those_of_the_json() {
        for kind in CauseKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for name in Choice::NAMES {
            let choice: Choice = name.parse().unwrap();
            assert_eq!(
                (choice.to_string(), serde_json::to_value(choice).unwrap()),
                (name.into(), name.into())
            );
        }
        assert_eq!(
            "ebpf".parse::<Choice>().unwrap_err(),
            "there is no such collector; give auto, bpf, tracefs, osnoise, counters, off"
        );
    }

    #[test]
    fn what_an_older_program_wrote_of_a_cause_is_enough() {
        let text = r#"{"kind":"irq_thread","name":"irq/45-nvme0q3"}"#;
        let cause: Cause = serde_json::from_str(text).unwrap();
        assert!(cause.is_suspect());
        assert_eq!((cause.kind, cause.count, cause.sender), (CauseKind::IrqThread, None, None));
        let stolen: CauseKind = serde_json::from_str(r#""steal""#).unwrap();
        assert_eq!(stolen, CauseKind::Stolen);
    }
}
