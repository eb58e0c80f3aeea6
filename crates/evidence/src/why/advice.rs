// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to do about a cause: one line for each kind, with the machine's own numbers in it.
//!
//! Advice is about the most usual reason; `isolator tune plan` looks at the whole machine.

use machine::CpuSet;

use crate::cause::{Cause, Kind, RETURN, Sender};
use crate::manifest::Manifest;

/// Advice on `cause`, which took the CPUs of `set`.
pub(super) fn on(cause: &Cause, set: &CpuSet, manifest: &Manifest) -> Option<String> {
    let (off, others) = (named(set), elsewhere(set, manifest));
    let name = cause.name.as_str();
    Some(match cause.kind {
        Kind::Nmi => format!(
            "stop NMIs on {off}: echo 0 > /proc/sys/kernel/nmi_watchdog, and end perf sessions there"
        ),
        Kind::Irq => irq(number(name), name, &off, &others),
        Kind::IrqThread => match number(name) {
            Some(number) => format!("{}; its thread follows it", irq(Some(number), name, &off, &others)),
            None => format!("keep irq thread {name} off {off}: move its interrupt (isolator tune plan)"),
        },
        Kind::Ipi => ipi(name, cause.sender.as_ref(), &off, manifest),
        Kind::Softirq => softirq(name, &off, &others, set),
        Kind::Workqueue => workqueue(name, &off, &others),
        Kind::Kthread => kthread(name, &off, &others, set),
        Kind::Thread => format!(
            "keep thread {name} off {off}: isolate {off} (isolator tune plan), and give what must stay there a \
             lower priority than your program's"
        ),
        Kind::Migration => format!("pin the program: isolator run --cpus {set} -- COMMAND"),
        Kind::Fault => {
            "lock and touch the program's memory before its loop (mlockall, prefault; libisolator does both)"
                .to_string()
        }
        Kind::Syscall if name == RETURN => format!(
            "it is the way out of the kernel after the program slept: hold the frequency of {off} (isolator tune plan), \
             keep loads out of its caches, or let the program poll"
        ),
        Kind::Syscall => format!("move the system call {name} out of the loop, to a thread on another cpu"),
        Kind::IdleExit => format!(
            "keep {off} out of {}: measure with --dma-latency 0, and let the program hold /dev/cpu_dma_latency open at 0",
            match name {
                // Where there is one alone, or none that has a name.
                "idle" => "idling".to_string(),
                name if name.starts_with("state ") => format!("idle {name}"),
                name => format!("idle state {name}"),
            }
        ),
        Kind::Frequency => format!("hold the frequency of {off}: governor performance, lowest = highest (isolator tune plan)"),
        Kind::Firmware => {
            "firmware took the cpu: look for SMI sources in its set-up (USB legacy, power capping, ECC); isolator \
             measure hardware shows how much it takes"
                .to_string()
        }
        Kind::Steal => "the hypervisor took the cpu: give this virtual cpu one of the host's own, or measure on \
             the host"
            .to_string(),
        Kind::Tick => tick(cause.detail.as_deref(), set, manifest),
        Kind::Timer => format!(
            "timer {name} fired on {off}: end what armed it (a perf session, a POSIX timer), or isolate {off} before \
             that starts; the program's own is its wakeup itself"
        ),
        Kind::Unexplained => format!(
            "nothing that was watched took it: isolator measure hardware --cpus {set} shows firmware and \
             hypervisor; a busy sibling or a low frequency only slow the cpu"
        ),
    })
}

/// Where an interrupt woke what took the CPU: advice on that interrupt.
pub(super) fn on_waker(cause: &Cause, set: &CpuSet, manifest: &Manifest) -> Option<String> {
    let (_, waker) = cause.detail.as_deref()?.split_once("woken by irq ")?;
    let number = number(waker)?;
    Some(irq(Some(number), "", &named(set), &elsewhere(set, manifest)))
}

fn irq(number: Option<u32>, name: &str, off: &str, others: &str) -> String {
    match number {
        Some(number) => format!(
            "move irq {number} off {off}: echo {others} > /proc/irq/{number}/smp_affinity_list (isolator tune \
             plan); where the kernel refuses, it is managed: boot with isolcpus=managed_irq"
        ),
        None => format!("move interrupt {name} off {off} (isolator tune plan)"),
    }
}

fn ipi(name: &str, sender: Option<&Sender>, off: &str, manifest: &Manifest) -> String {
    let of = |part: fn(&Sender) -> Option<&str>| sender.and_then(part).unwrap_or_default();
    let what = [name, of(|s| s.function.as_deref()), of(|s| s.call_site.as_deref())].join(" ");
    let who = match sender.and_then(|sender| sender.comm.as_deref()) {
        Some(comm) => format!("`{comm}`"),
        None => "who sends it".to_string(),
    };
    let has = |words: &[&str]| words.iter().any(|word| what.contains(word));
    let way = if has(&["do_sync_core", "text_poke", "jump_label", "static_key", "patch"]) {
        format!(
            "code was patched: end tracing, module loading and the like by {who} before the program starts"
        )
    } else if has(&["membarrier", "ipi_mb", "ipi_sync_core", "ipi_rseq"]) {
        format!("keep {who} from membarrier(2) while the program runs, or in a process of its own")
    } else if has(&["flush_tlb", "tlb_"]) {
        format!(
            "memory was unmapped: let no thread of the program on other cpus (here {who}) call munmap, mprotect or madvise"
        )
    } else if has(&["reschedule", "Reschedul", "resched"]) {
        format!("something was woken on {off}: pin what {who} wakes elsewhere (isolator tune plan)")
    } else if has(&["lru_add_drain", "drain_", "synchronize", "rcu_", "expedited"]) {
        format!("keep {who} from it while the program runs; boot with rcu_nocbs, rcu_normal_after_boot")
    } else {
        format!("keep {who} from it while the program runs")
    };
    let isolator = if manifest.asked.isolate.is_none() {
        "; a kernel with the isolator defers it (--isolate)"
    } else {
        ""
    };
    format!("{way}{isolator}")
}

fn softirq(name: &str, off: &str, others: &str, set: &CpuSet) -> String {
    match name {
        "NET_RX" | "NET_TX" => format!(
            "keep network work off {off}: move the card's interrupts to {others} (isolator tune plan), and exclude {off} \
             from /sys/class/net/*/queues/*/{}ps_cpus",
            if name == "NET_RX" { "r" } else { "x" }
        ),
        "TIMER" | "HRTIMER" => format!(
            "timers expire on {off}: isolate it before what arms them starts; boot with nohz_full={set}"
        ),
        "RCU" => format!("move RCU's callbacks off {off}: boot with rcu_nocbs={set}"),
        "SCHED" => format!(
            "take {off} out of load balancing: a cpuset partition, or isolcpus=domain,{set} (isolator tune plan)"
        ),
        "BLOCK" => format!("move the disk's interrupt off {off} (isolator tune plan)"),
        _ => format!("move the interrupt behind softirq {name} off {off} (isolator tune plan)"),
    }
}

fn workqueue(name: &str, off: &str, others: &str) -> String {
    let has = |word: &str| name.contains(word);
    if has("vmstat") {
        return format!("make it rare: sysctl vm.stat_interval=120 ({off} does it while it runs something)");
    }
    if has("lru_add_drain") || has("drain_local") || has("drain_vmap") {
        return "somebody drains per-cpu lists (drop_caches, mlock, compaction, memory hotplug): stop it while the program runs"
            .to_string();
    }
    format!(
        "unbound work: set /sys/devices/virtual/workqueue/cpumask to {others} (isolator tune plan); work queued on \
         {off} itself goes only where what queues it ({name}) goes"
    )
}

fn kthread(name: &str, off: &str, others: &str, set: &CpuSet) -> String {
    let is = |stem: &str| name.starts_with(stem);
    if is("kworker") {
        return format!(
            "a kernel worker ran on {off}: set /sys/devices/virtual/workqueue/cpumask to {others}, and move the \
             interrupts that queue its work (isolator tune plan)"
        );
    }
    if is("ksoftirqd") || is("ktimers") {
        return format!(
            "{name} serves interrupts of {off}: move those away (isolator tune plan), and boot with nohz_full={set}"
        );
    }
    if is("rcu") {
        return format!("move RCU's callbacks off {off}: boot with rcu_nocbs={set} (isolator tune plan)");
    }
    if is("migration") || is("stopper") {
        return format!(
            "something stops every cpu (hotplug, module unloading, a change of affinity): leave that while the program runs, and keep other tasks off {off}"
        );
    }
    if is("watchdog") || is("cpuhp") {
        return "boot with nowatchdog, and leave cpus online as they are while the program runs".to_string();
    }
    format!(
        "move kernel thread {name} off {off}: taskset -pc {others} PID (isolator tune plan); a thread bound to its cpu stays"
    )
}

fn tick(dependency: Option<&str>, set: &CpuSet, manifest: &Manifest) -> String {
    let nohz = &manifest.machine.isolation.nohz_full;
    let stopped = set.iter().all(|cpu| nohz.contains(cpu));
    let keeps = match dependency {
        Some(what) => format!(" ({what} keeps it)"),
        None => String::new(),
    };
    if stopped {
        format!(
            "the tick runs in spite of nohz_full{keeps}: let one task alone run there, with no POSIX cpu timer and no \
             perf session; since Linux 6.12 the fair server keeps it (isolator tune plan)"
        )
    } else {
        format!("stop the tick on cpu {set}: boot with nohz_full={set} (isolator tune plan){keeps}")
    }
}

/// The number that a name begins with, or that of a thread `irq/45-nvme0q3`.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("irq/").unwrap_or(name).split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok())
}

fn named(set: &CpuSet) -> String {
    format!("cpu{} {set}", if set.len() == 1 { "" } else { "s" })
}

/// Where things can go instead.
fn elsewhere(set: &CpuSet, manifest: &Manifest) -> String {
    let online = manifest.machine.online();
    let isolated = &manifest.machine.isolation.isolated;
    let free = |cpus: &CpuSet| -> CpuSet {
        cpus.iter().filter(|cpu| !set.contains(*cpu) && !manifest.asked.cpus.contains(*cpu)).collect()
    };
    let house_keeping = free(&manifest.asked.house_keeping);
    let rest: CpuSet = free(&online).iter().filter(|cpu| !isolated.contains(*cpu)).collect();
    match (house_keeping.is_empty(), rest.is_empty()) {
        (false, _) => house_keeping.to_string(),
        (true, false) => rest.to_string(),
        _ => "CPUS".to_string(),
    }
}
