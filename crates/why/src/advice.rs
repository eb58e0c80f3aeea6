// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice on a cause: one line for each kind, with the machine's own numbers in it.
//!
//! Advice is about the most usual reason; `isolator tune plan` looks at the whole machine. Settings, their
//! values and whether a plan has them are the table's (`machine::advice`).

use std::collections::BTreeMap;

use machine::CpuSet;
use machine::advice::{self, Advice, Aim, Manual, SettingId};
use machine::snapshot::Preemption;

use evidence::cause::{
    Cause, CauseKind, OWN_TIMER, PREEMPTION_OFF, RESERVATION, RETURN, RT_LIMIT, Sender, WENT_OFFLINE,
};
use evidence::kind;
use evidence::manifest::{Granted, Manifest, Spike};

/// The functions of the kernel in which causes of one name could not be preempted, the longest first.
pub(super) type KeptIn<'a> = BTreeMap<(CauseKind, &'a str), Vec<&'a str>>;

/// Whether the kernel did not allow preemption of this cause.
fn is_kept(cause: &Cause) -> bool {
    cause.function.is_some() && cause.detail.as_deref().is_some_and(|detail| detail.contains(PREEMPTION_OFF))
}

/// Where causes of these spikes could not be preempted.
pub(super) fn kept_in<'a>(spikes: &[&'a Spike]) -> KeptIn<'a> {
    let mut kept: Vec<_> =
        spikes.iter().flat_map(|spike| &spike.causes).filter(|cause| is_kept(cause)).collect();
    kept.sort_by_key(|cause| u64::MAX - cause.duration_ns.unwrap_or(0));
    let mut all = KeptIn::new();
    for cause in kept {
        let functions = all.entry((cause.kind, cause.name.as_str())).or_default();
        let function = cause.function.as_deref().unwrap_or_default();
        if !functions.contains(&function) {
            functions.push(function);
        }
    }
    all
}

/// Advice on `cause`, which took the CPUs of `set`.
pub(super) fn on(cause: &Cause, set: &CpuSet, kept: &KeptIn<'_>, manifest: &Manifest) -> Option<String> {
    let place = Place::of(set, manifest);
    let functions = kept.get(&(cause.kind, cause.name.as_str())).filter(|_| is_kept(cause));
    let advice = match functions.map(Vec::as_slice) {
        Some([only]) => place.kept(cause, only),
        Some([first, others @ ..]) => {
            let s = if others.len() == 1 { "" } else { "s" };
            place.kept(cause, &format!("{first} and {} other function{s}", others.len()))
        }
        _ => place.on(cause),
    };
    Some(advice.to_string())
}

/// Where an interrupt woke what took the CPU: advice on that interrupt.
pub(super) fn on_waker(cause: &Cause, set: &CpuSet, manifest: &Manifest) -> Option<String> {
    let (_, waker) = cause.detail.as_deref()?.split_once("woken by irq ")?;
    Some(Place::of(set, manifest).irq(Some(number(waker)?), "").to_string())
}

/// The CPUs that a cause took, and the machine that they are of.
struct Place<'a> {
    set: &'a CpuSet,
    /// `cpu 3`, `cpus 2-3`.
    off: String,
    aim: Aim<'a>,
    manifest: &'a Manifest,
}

impl<'a> Place<'a> {
    fn of(set: &'a CpuSet, manifest: &'a Manifest) -> Self {
        let measured = &manifest.asked.cpus;
        let isolated = if set.without(measured).is_empty() { measured } else { set };
        let aim = Aim {
            machine: &manifest.machine,
            profile: kind::profile(manifest.asked.kinds()),
            isolated: isolated.clone(),
            housekeeping: elsewhere(set, manifest),
        };
        let off = format!("cpu{} {set}", if set.len() == 1 { "" } else { "s" });
        Place { set, off, aim, manifest }
    }

    /// The kernel did not allow preemption of this cause while it was in that function.
    fn kept(&self, cause: &Cause, function: &str) -> Advice {
        let Place { off, aim, .. } = self;
        let named = cause.kind.named(&cause.name);
        let kernel = &aim.machine.kernel;
        match kernel.preemption {
            Preemption::RealTime => self.on(cause).after(format!(
                "{named} held preemption off in {function}, which a real-time kernel does only under raw locks: "
            )),
            Preemption::Full | Preemption::Lazy => Manual::Kernel.advice(format!(
                "{named} held preemption off in {function}: boot a real-time kernel (PREEMPT_RT), which preempts most of \
                 that, or keep it off {off}"
            )),
            _ if kernel.option("PREEMPT_DYNAMIC") == Some(false) => Manual::Kernel.advice(format!(
                "nothing can preempt {named} in {function} on this kernel: boot one that is preemptible (CONFIG_PREEMPT, \
                 PREEMPT_RT), or keep it off {off}"
            )),
            _ => SettingId::Preempt.advice(aim).after(format!("nothing can preempt {named} in {function} on this kernel: ")).then(
                format!(", boot a real-time kernel (PREEMPT_RT), which preempts more, or keep it off {off}"),
            ),
        }
    }

    /// Whether a row of the run is about a thread of that name.
    fn is_measured(&self, thread: &str) -> bool {
        self.manifest.rows.iter().any(|row| row.key.thread_name.as_deref() == Some(thread))
    }

    fn on(&self, cause: &Cause) -> Advice {
        let Place { set, off, aim, .. } = self;
        let name = cause.name.as_str();
        match cause.kind {
            CauseKind::Nmi => self
                .set(SettingId::NmiWatchdog)
                .after(format!("stop NMIs on {off}: "))
                .then(", and end perf sessions there"),
            CauseKind::Irq => self.irq(number(name), name),
            CauseKind::IrqThread => match number(name) {
                Some(number) => self.irq(Some(number), name).then("; its thread follows it"),
                None => {
                    let text = format!("keep irq thread {name} off {off}: move its interrupt");
                    SettingId::IrqAffinity.advice_in(aim, text)
                }
            },
            CauseKind::Ipi => self.ipi(name, cause.sender.as_ref()),
            CauseKind::Softirq => self.softirq(name),
            CauseKind::Workqueue => self.workqueue(name),
            CauseKind::Kthread => self.kthread(name),
            CauseKind::Thread if self.is_measured(name) => Manual::Program.advice(format!(
                "thread {name} is measured here too and goes first: shorten its cycle, or give it a CPU of its own"
            )),
            CauseKind::Thread => self.thread(name, cause.detail.as_deref()),
            CauseKind::Migration
                if cause.detail.as_deref().is_some_and(|why| why.ends_with(WENT_OFFLINE)) =>
            {
                Manual::Session.advice(format!(
                    "the thread moved {name} since its own {WENT_OFFLINE}: leave CPUs online while the program runs"
                ))
            }
            CauseKind::Migration if self.all_pinned() => {
                Manual::Program.advice("the program is pinned: find out what moves it, another CPU mask or a cpuset")
            }
            CauseKind::Migration => {
                Manual::Program.advice(format!("pin the program: isolator run --cpus {set} -- COMMAND"))
            }
            CauseKind::Fault if self.all_locked() => {
                Manual::Program.advice("its memory is locked: touch its pages before its loop (prefault)")
            }
            CauseKind::Fault => advice::LOCK_MEMORY,
            CauseKind::Syscall if name == RETURN => {
                let way = "it is the way out of the kernel after the program slept";
                let rest = "keep loads out of its caches, or let the program poll";
                match SettingId::Governor.is_so(aim, set) {
                    true => Manual::Program.advice(format!("{way}: {rest}")),
                    false => SettingId::Governor
                        .advice_in(aim, format!("{way}: hold the frequency of {off}, {rest}")),
                }
            }
            CauseKind::Syscall => Manual::Program
                .advice(format!("move the system call {name} out of the loop, to a thread on another cpu")),
            CauseKind::IdleExit => {
                let state = match name {
                    // Where there is one alone, or none that has a name.
                    "idle" => "idling".to_string(),
                    name if name.starts_with("state ") => format!("idle {name}"),
                    name => format!("idle state {name}"),
                };
                match SettingId::ResumeLatency.is_so(aim, set) {
                    true => Manual::Program.advice(format!(
                        "{off} was in {state}, within the latency that is allowed there: let the program poll before it \
                         is due"
                    )),
                    false => SettingId::ResumeLatency
                        .advice_on(aim, set)
                        .after(format!("keep {off} out of {state}: "))
                        .then(", or let the program hold /dev/cpu_dma_latency open at the same value"),
                }
            }
            CauseKind::Frequency => {
                let (knob, how) = match SettingId::Governor.is_so(aim, set) {
                    true => (SettingId::LowestFrequency, "lowest = highest, and no turbo"),
                    false => (SettingId::Governor, "governor performance, lowest = highest"),
                };
                knob.advice_in(aim, format!("hold the frequency of {off}: {how}"))
            }
            CauseKind::Firmware => advice::FIRMWARE
                .after("firmware took the cpu: ")
                .then("; isolator measure hardware shows how much it takes"),
            CauseKind::Stolen => {
                advice::PIN_GUEST.after("the hypervisor took the cpu: ").then(", or measure on the host")
            }
            CauseKind::Throttled if name == RT_LIMIT => self.throttled(),
            CauseKind::Throttled if name == RESERVATION => Manual::Program.advice(format!(
                "the thread used up the {name}: ask for more runtime (sched_setattr, chrt --sched-runtime), or shorten \
                 its cycle"
            )),
            CauseKind::Throttled => Manual::Service.advice(format!(
                "the thread used up the {name}: raise or remove it (cpu.max; CPUQuota= of its service)"
            )),
            CauseKind::Stopped => Manual::Session.advice(
                "a signal (SIGSTOP), a debugger or the freezer stopped the thread: end what does that while it runs",
            ),
            CauseKind::Interrupt => Manual::Program.advice(format!(
                "the wait lasted until the interrupt of {name}: move what waits for that device out of the loop, to a \
                 thread on another cpu"
            )),
            CauseKind::Tick => self.tick(cause.detail.as_deref()),
            CauseKind::Timer if name == OWN_TIMER => {
                let policy = match self.all_granted(is_real_time) {
                    true => "",
                    false => "give the loop's thread a real-time policy, whose timers have no slack, and ",
                };
                Manual::Program.advice(format!(
                    "the timer's interrupt came late on {off}: {policy}keep other threads, whose kernel code holds \
                     interrupts off, away from {off}"
                ))
            }
            CauseKind::Timer => Manual::Program.advice(format!(
                "timer {name} fired on {off}: end what armed it (a perf session, a POSIX timer), or isolate {off} before \
                 that starts; the program's own is its wakeup itself"
            )),
            CauseKind::Execution => Manual::Program.advice(
                "the program's own cycle took that long: shorten it, or lengthen its period",
            ),
            CauseKind::Lock => {
                let holder = match &cause.owner {
                    Some(owner) => format!("thread {}", owner.name),
                    None => "the thread that holds it".to_string(),
                };
                Manual::Program.advice(match cause.detail.as_deref() {
                    Some(detail) if detail.contains("inherits") => format!(
                        "hold the lock at {name} for a shorter time in {holder}, or hand the data over without a lock"
                    ),
                    _ => format!(
                        "make the lock at {name} one with priority inheritance (PTHREAD_PRIO_INHERIT), so that {holder} is not \
                         preempted while it holds it, or hand the data over without a lock"
                    ),
                })
            }
            CauseKind::Wait => Manual::Program
                .advice(format!("move what waits in {name} out of the loop, to a thread on another cpu")),
            CauseKind::Unexplained if cause.detail.is_some() => Manual::Search.advice(format!(
                "the interrupt itself was late: isolator measure hardware --cpus {set} shows what firmware and hypervisor \
                 take; in a guest, pin each virtual CPU to an isolated CPU on the host"
            )),
            CauseKind::Unexplained => Manual::Search.advice(format!(
                "nothing that was watched took it: isolator measure hardware --cpus {set} shows firmware and \
                 hypervisor; a busy sibling or a low frequency only slow the cpu"
            )),
        }
    }

    /// The advice to make a setting; where the machine has it already, only that.
    fn set(&self, knob: SettingId) -> Advice {
        knob.advice_unless_so(&self.aim, self.set)
    }

    /// Whether each measured thread may run on one CPU alone.
    fn all_pinned(&self) -> bool {
        self.all_granted(|granted| granted.affinity.as_ref().is_some_and(is_one))
    }

    /// Whether the memory of each measured thread is locked.
    fn all_locked(&self) -> bool {
        self.all_granted(|granted| granted.memory_locked == Some(true))
    }

    /// Whether each row of these CPUs was granted that. `false` where a row does not say it.
    fn all_granted(&self, is_so: impl Fn(&Granted) -> bool) -> bool {
        let mut rows = self.manifest.rows.iter().filter(|row| self.set.contains(row.key.cpu)).peekable();
        rows.peek().is_some() && rows.all(|row| is_so(&row.granted))
    }

    /// Real-time threads leave a share of each second to ordinary ones: by a limit, or by a server of each
    /// CPU.
    fn throttled(&self) -> Advice {
        let Place { set, aim, .. } = self;
        let what = "the thread left no time to ordinary threads: let it sleep, or ";
        let is_limited = aim.machine.limits_real_time();
        if is_limited == Some(false)
            || is_limited.is_none() && aim.machine.kernel.at_least(6, 12) == Some(true)
        {
            return match SettingId::FairServer.can_be_set(aim, set) && !SettingId::FairServer.is_so(aim, set)
            {
                true => SettingId::FairServer.advice_on(aim, set).after(what),
                false => Manual::Program.advice(
                    "the thread left no time to ordinary threads: let it sleep, or give it a CPU without any",
                ),
            };
        }
        match SettingId::RtRuntime.is_so(aim, set) {
            true => Manual::Program.advice("the thread left no time to ordinary threads: let it sleep"),
            false => {
                let has_groups = aim.machine.scheduler.rt_group_scheduling == Some(true);
                let group = "; its control group may have less than the machine (cpu.rt_runtime_us)";
                let advice = SettingId::RtRuntime.advice_to(aim, "-1").after(what);
                if has_groups { advice.then(group) } else { advice }
            }
        }
    }

    fn thread(&self, name: &str, detail: Option<&str>) -> Advice {
        let Place { off, aim, .. } = self;
        // One that has no real-time priority has the lowest that there is.
        let is_ordinary = detail.is_some_and(|detail| detail.starts_with(ORDINARY));
        let priority = match is_ordinary {
            true => "",
            false => ", and give what must stay there a lower priority than your program's",
        };
        match SettingId::Isolcpus.is_so(aim, self.set) {
            true => Manual::Program.advice(format!(
                "keep thread {name} off {off}, which is isolated: something put it there, so give it other cpus{priority}"
            )),
            false => Advice::plan(format!("keep thread {name} off {off}: isolate {off}{priority}")),
        }
    }

    fn irq(&self, number: Option<u32>, name: &str) -> Advice {
        let Place { off, aim, .. } = self;
        let Some(number) = number else {
            return SettingId::IrqAffinity.advice_in(aim, format!("move interrupt {name} off {off}"));
        };
        let moved =
            SettingId::IrqAffinity.advice_for(aim, number).after(format!("move irq {number} off {off}: "));
        match SettingId::Isolcpus.is_planned(aim) {
            true => moved.then(format!(
                "; where the kernel refuses, it is managed: boot with {}",
                SettingId::Isolcpus.word(aim)
            )),
            false => moved,
        }
    }

    fn ipi(&self, name: &str, sender: Option<&Sender>) -> Advice {
        let Place { off, .. } = self;
        let of = |part: fn(&Sender) -> Option<&str>| sender.and_then(part).unwrap_or_default();
        let what = [name, of(|s| s.function.as_deref()), of(|s| s.call_site.as_deref())].join(" ");
        let who = match sender.map(|sender| (sender.comm.as_deref(), sender.context, sender.cpu)) {
            Some((Some(comm), ..)) => format!("`{comm}`"),
            Some((None, Some(context), Some(cpu))) => format!("{} on cpu {cpu}", context.named()),
            _ => "its sender".to_string(),
        };
        let has = |words: &[&str]| words.iter().any(|word| what.contains(word));
        let way = if has(&["do_sync_core", "text_poke", "jump_label", "static_key", "patch"]) {
            Manual::Program.advice(format!(
                "code was patched: end tracing, module loading and the like by {who} before the program starts"
            ))
        } else if has(&["membarrier", "ipi_mb", "ipi_sync_core", "ipi_rseq"]) {
            Manual::Program.advice(format!(
                "keep {who} from membarrier(2) while the program runs, or in a process of its own"
            ))
        } else if has(&["flush_tlb", "tlb_"]) {
            Manual::Program.advice(format!(
                "memory was unmapped: let no thread of the program on other cpus (here {who}) call munmap, mprotect or madvise"
            ))
        } else if has(&["reschedule", "Reschedul", "resched"]) {
            Advice::plan(format!("something was woken on {off}: pin what {who} wakes elsewhere"))
        } else if has(&["synchronize", "rcu_", "expedited"]) {
            self.set(SettingId::RcuNormal).after(format!("keep {who} from it while the program runs, or "))
        } else {
            Manual::Program.advice(format!("keep {who} from it while the program runs"))
        };
        match self.manifest.asked.isolate {
            None => way.then("; a kernel with the kernel part defers it (--isolate)"),
            Some(_) => way,
        }
    }

    fn softirq(&self, name: &str) -> Advice {
        let Place { off, aim, .. } = self;
        let away = |text: String| SettingId::IrqAffinity.advice_in(aim, text);
        match name {
            "NET_RX" | "NET_TX" => away(format!(
                "keep network work off {off}: move the card's interrupts away, and exclude {off} from \
                 /sys/class/net/*/queues/*/{}ps_cpus",
                if name == "NET_RX" { "r" } else { "x" }
            )),
            "TIMER" | "HRTIMER" => {
                let isolate = match SettingId::Isolcpus.is_so(aim, self.set) {
                    true => Manual::Program
                        .advice(format!("timers expire on {off}: start what arms them on other cpus")),
                    false => Advice::plan(format!(
                        "timers expire on {off}: isolate it before what arms them starts"
                    )),
                };
                match SettingId::NohzFull.is_planned(aim) && !SettingId::NohzFull.is_so(aim, self.set) {
                    true => isolate.then(format!("; boot with {}", SettingId::NohzFull.word(aim))),
                    false => isolate,
                }
            }
            "RCU" => self.callbacks(),
            "SCHED" if SettingId::Isolcpus.is_so(aim, self.set) => Manual::Program.advice(format!(
                "{off} is isolated, and balances only tasks that were put there: leave one alone on each"
            )),
            "SCHED" => {
                let word = SettingId::Isolcpus.word(aim);
                let text = format!("take {off} out of load balancing: a cpuset partition, or {word}");
                SettingId::Isolcpus.advice_in(aim, text)
            }
            "BLOCK" => away(format!("move the disk's interrupt off {off}")),
            _ => away(format!("move the interrupt behind softirq {name} off {off}")),
        }
    }

    fn callbacks(&self) -> Advice {
        let text = format!("move RCU's callbacks off {}: ", self.off);
        self.set(SettingId::RcuNocbs).after(text)
    }

    fn workqueue(&self, name: &str) -> Advice {
        let Place { off, .. } = self;
        let has = |word: &str| name.contains(word);
        if has("vmstat") {
            return self
                .set(SettingId::StatInterval)
                .after("make it rare: ")
                .then(format!(" ({off} does it while it runs something)"));
        }
        if has("lru_add_drain") || has("drain_local") || has("drain_vmap") {
            return Manual::Program.advice(
                "a program drains per-cpu lists (drop_caches, mlock, compaction, memory hotplug): stop it while yours runs",
            );
        }
        self.set(SettingId::Workqueues)
            .after("unbound work: ")
            .then(format!("; work queued on {off} itself goes only where what queues it ({name}) goes"))
    }

    fn kthread(&self, name: &str) -> Advice {
        let Place { off, aim, .. } = self;
        let is = |stem: &str| name.starts_with(stem);
        if is("kworker") {
            return self
                .set(SettingId::Workqueues)
                .after(format!("a kernel worker ran on {off}: "))
                .then(", and move the interrupts that queue its work");
        }
        if is("ksoftirqd") || is("ktimers") {
            let text = format!("{name} serves interrupts of {off}: move those away");
            return SettingId::IrqAffinity.advice_in(aim, text);
        }
        if is("rcu") {
            return self.callbacks();
        }
        if is("migration") || is("stopper") {
            return Manual::Program.advice(format!(
                "something stops every cpu (hotplug, module unloading, a change of affinity): leave that while the program runs, and keep other tasks off {off}"
            ));
        }
        if is("watchdog") || is("cpuhp") {
            return self
                .set(SettingId::WatchdogCpumask)
                .then(", and leave cpus online as they are while the program runs");
        }
        SettingId::KernelThreads
            .advice(aim)
            .after(format!("move kernel thread {name} off {off}: "))
            .then("; a thread bound to its cpu stays")
    }

    fn tick(&self, dependency: Option<&str>) -> Advice {
        let Place { set, aim, .. } = self;
        let keeps = dependency.map_or(String::new(), |what| format!(" ({what} keeps it)"));
        if !set.without(&self.manifest.machine.isolation.nohz_full).is_empty() {
            return SettingId::NohzFull.advice(aim).after(format!("stop the tick on cpu {set}{keeps}: "));
        }
        let text = format!(
            "the tick runs in spite of nohz_full{keeps}: let one task alone run there, with no POSIX cpu timer and no perf \
             session"
        );
        let is_open = SettingId::FairServer.can_be_set(aim, set) && !SettingId::FairServer.is_so(aim, set);
        match SettingId::FairServer.why_not(aim) {
            None if is_open => {
                SettingId::FairServer.advice_on(aim, set).after(format!("{text}; end the fair server: "))
            }
            _ => Manual::Program.advice(text),
        }
    }
}

/// How a cause's detail begins where its thread has no real-time priority.
const ORDINARY: &str = "ordinary";

fn is_one(cpus: &CpuSet) -> bool {
    cpus.len() == 1
}

fn is_real_time(granted: &Granted) -> bool {
    granted.policy.as_deref().is_some_and(|policy| matches!(policy, "fifo" | "rr" | "deadline"))
}

/// The number that a name begins with, or that of a thread `irq/45-nvme0q3`.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("irq/").unwrap_or(name).split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok())
}

/// Where things can go instead.
fn elsewhere(set: &CpuSet, manifest: &Manifest) -> CpuSet {
    let free = |cpus: &CpuSet| cpus.without(set).without(&manifest.asked.cpus);
    let house_keeping = free(&manifest.asked.house_keeping);
    if house_keeping.is_empty() {
        free(&manifest.machine.online()).without(&manifest.machine.isolation.isolated)
    } else {
        house_keeping
    }
}
