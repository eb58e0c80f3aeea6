// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which answers this kernel can give: causes, loops of a program, its calls, senders of IPIs.
//!
//! Two ways lead into a kernel: BPF, and trace events. Each is open, closed by an obstacle that has a cure,
//! or unknown. The versions and files are those by which the collectors themselves refuse
//! ([`machine::sight`]). Limit: a collector must still pass its trial when it starts, which no file can
//! foretell.

use machine::advice::Advice;
use machine::advice::Manual::{BootLine, Container, Kernel, Search};
use machine::inventory::Reading;
use machine::registry::KernelVersion;
use machine::sight::{self, BTF, LOCKDOWN, TAINTED, TRACER};

use super::{Check, TOLD};
use crate::facts::{AS_ROOT, CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, Evidence, read_in};
use crate::obtain::sight::KernelSupply;

pub(super) const ALL: &[Check] = &[
    Check {
        id: "see-causes",
        question: "Can the causes of late cycles be seen?",
        weights: TOLD,
        why: "without events, isolator why has suspects alone: counters that grew in the second of the spike",
        source: "docs/explanation/why.md; Linux 5.12, kernel/bpf/core.c; Documentation/bpf/btf.rst",
        look: causes,
    },
    Check {
        id: "see-loops",
        question: "Can the loops of a running program be followed?",
        weights: TOLD,
        why: "isolator monitor and prove --program follow the loops of a program that is not changed",
        source: "docs/explanation/monitor.md; Linux 5.15, kernel/trace/bpf_trace.c (bpf_task_pt_regs)",
        look: loops,
    },
    Check {
        id: "see-calls",
        question: "Can lint see the calls of a running program?",
        weights: TOLD,
        why: "isolator lint names the lines of a program that allocate, print or sleep in its loop",
        source: "docs/explanation/lint.md; Linux 5.15, kernel/trace/bpf_trace.c, kernel/trace/Kconfig",
        look: calls,
    },
    Check {
        id: "see-senders",
        question: "Can the senders of IPIs be named?",
        weights: TOLD,
        why: "isolator watch --senders names the task and the function that interrupt an isolated CPU",
        source: "Linux 6.4, include/trace/events/ipi.h; Linux 6.5, include/trace/events/csd.h",
        look: senders,
    },
];

/// The state of a way into the kernel.
enum Way {
    Open(Evidence),
    Closed(Obstacle),
    Unknown(Conclusion),
}

/// An obstacle that closes a way, and its cure.
struct Obstacle {
    says: String,
    read: Evidence,
    fix: Advice,
    /// Whether the cure is a command that opens the way at once.
    is_quick: bool,
}

impl Way {
    fn closed(read: Evidence, says: impl Into<String>, fix: Advice) -> Way {
        Way::Closed(Obstacle { says: says.into(), read, fix, is_quick: false })
    }

    /// Whether it is open, closed or unknown, in words.
    fn state(&self) -> &str {
        match self {
            Way::Open(_) => "open",
            Way::Closed(obstacle) => &obstacle.says,
            Way::Unknown(found) => &found.says,
        }
    }
}

/// The needs of BPF programs of one kind.
struct BpfNeeds {
    since: KernelVersion,
    /// Whether the collector tries an older kernel that took newer parts over, instead of refusing it.
    is_tried: bool,
}

const CAUSES: BpfNeeds = BpfNeeds { since: sight::CAUSES_BY_BPF, is_tried: false };
const LOOPS: BpfNeeds = BpfNeeds { since: sight::LOOPS_BY_BPF, is_tried: true };

fn supply<'a>(facts: &CheckFacts<'a>) -> KernelSupply<'a> {
    KernelSupply::of(facts.machine, facts.profile)
}

/// The obstacles that close both ways.
fn refused(facts: &CheckFacts) -> Option<Way> {
    let tainted = facts.hint(TAINTED).unwrap_or_default();
    if sight::taint(tainted) & sight::OOPSED != 0 {
        let fix = Search.advice("dmesg names the fault; boot the machine again");
        let says = "this kernel has oopsed since it was booted, and a collector could hang it";
        return Some(Way::closed(read_in(TAINTED, tainted), says, fix));
    }
    match facts.inventory.files.get(LOCKDOWN) {
        Some(Reading::Unreadable { unreadable }) => {
            return Some(Way::Unknown(Conclusion::unknown(LOCKDOWN, unreadable, AS_ROOT)));
        }
        Some(Reading::Text(text)) if sight::is_confidential(text) => {
            return Some(locked_down(facts, read_in(LOCKDOWN, text)));
        }
        _ => {}
    }
    // Without the file in a captured tree the boot line tells.
    let is_captured = facts.inventory.files.contains_key(LOCKDOWN);
    let asked = facts.boot_value("lockdown").filter(|value| *value == "confidentiality" && !is_captured)?;
    Some(locked_down(facts, read_in("/proc/cmdline", format!("lockdown={asked}"))))
}

const SECURE_BOOT: &str = "secure boot itself asks for integrity alone, which lets root look into the kernel";

fn locked_down(facts: &CheckFacts, read: Evidence) -> Way {
    let fix = match facts.boot_value("lockdown") {
        Some(value @ "confidentiality") => {
            BootLine.advice(format!("take lockdown={value} off the boot line: {SECURE_BOOT}"))
        }
        _ => Kernel.advice(format!(
            "boot a kernel without CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY, or without the service \
             that writes confidentiality there: {SECURE_BOOT}"
        )),
    };
    Way::closed(read, "the kernel is locked down (confidentiality): root may not look into it either", fix)
}

/// The numbers of CAP_SYS_ADMIN, CAP_PERFMON and CAP_BPF (capabilities(7)).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// That a container keeps this program from the kernel: it lacks rights, or sees other numbers of threads.
fn contained(facts: &CheckFacts) -> Option<Way> {
    let kind = facts.machine.container.as_deref()?;
    let session = &facts.inventory.session;
    if session.capabilities.is_none() {
        return Some(Way::Unknown(not_captured("/proc/self/status")));
    }
    let may = session.capable(CAP_SYS_ADMIN) == Some(true)
        || [CAP_BPF, CAP_PERFMON].iter().all(|number| session.capable(*number) == Some(true));
    // The host's PID namespace has kernel threads.
    let is_host_pids = facts.inventory.threads.iter().any(|thread| thread.kernel);
    if may && is_host_pids {
        return None;
    }
    let lacks = if may { "the host's PID namespace" } else { "CAP_BPF and CAP_PERFMON" };
    let fix = if facts.machine.is_pod() {
        "run isolator on the node; a pod needs hostPID: true, and privileged: true in its securityContext"
    } else {
        "run isolator on the host, or docker run --privileged --pid=host"
    };
    let read = read_in("/proc/self/status, /proc/PID/stat", format!("{kind}, without {lacks}"));
    Some(Way::closed(read, format!("this container ({kind}) lacks {lacks}"), Container.advice(fix)))
}

/// Whether BPF programs can be loaded.
fn bpf(facts: &CheckFacts, needs: &BpfNeeds) -> Way {
    if let Some(way) = refused(facts) {
        return way;
    }
    let (major, minor) = needs.since;
    let release = facts.machine.kernel.release.as_deref();
    let read = read_in("/proc/sys/kernel/osrelease", release.unwrap_or_default());
    match facts.at_least(major, minor) {
        None => return Way::Unknown(release_unknown(facts)),
        Some(false) if needs.is_tried && facts.machine.kernel.takes_over() => {
            let why = "this kernel keeps its version and takes over newer parts";
            return Way::Unknown(Conclusion::unknown(read.source, why, "isolator monitor PID tries it"));
        }
        Some(false) => {
            let fix = Kernel.advice(supply(facts).newer_kernel(needs.since));
            return Way::closed(read, format!("BPF needs Linux {major}.{minor}"), fix);
        }
        Some(true) => {}
    }
    for name in ["BPF_SYSCALL", "BPF_EVENTS"] {
        if facts.option(name) == Some(false) {
            let fix = Kernel.advice(supply(facts).kernel_with(&[name, "FTRACE", "UPROBE_EVENTS"]));
            return Way::closed(facts.option_read(name), format!("built without {name}"), fix);
        }
    }
    match types(facts) {
        Way::Open(read) => contained(facts).unwrap_or(Way::Open(read)),
        way => way,
    }
}

/// Whether the kernel has its types.
fn types(facts: &CheckFacts) -> Way {
    let absent = |read| {
        if let Some(place) = types_elsewhere(facts) {
            return Way::Open(read_in(place, "present, to be tried"));
        }
        let fix = Kernel.advice(supply(facts).kernel_with_types());
        Way::closed(read, "this kernel has no BTF, the types that BPF needs", fix)
    };
    let built = facts.option("DEBUG_INFO_BTF");
    match (facts.inventory.files.get(BTF), built) {
        (Some(Reading::Text(_)), _) => Way::Open(read_in(BTF, "present")),
        (Some(Reading::Unreadable { unreadable }), _) => {
            Way::Unknown(Conclusion::unknown(BTF, unreadable, AS_ROOT))
        }
        (Some(Reading::Absent), Some(true)) => {
            let why = "there is no such file, and the kernel is built with DEBUG_INFO_BTF";
            Way::Unknown(Conclusion::unknown(BTF, why, "ls /sys/kernel/btf on the machine itself"))
        }
        (Some(Reading::Absent), _) => absent(read_in(BTF, "absent")),
        (None, Some(true)) => Way::Open(facts.option_read("DEBUG_INFO_BTF")),
        (None, Some(false)) => absent(facts.option_read("DEBUG_INFO_BTF")),
        (None, None) => Way::Unknown(not_captured(BTF)),
    }
}

/// A place with types of this kernel besides its own.
fn types_elsewhere(facts: &CheckFacts) -> Option<String> {
    let release = facts.machine.kernel.release.as_deref()?;
    let places = sight::types_elsewhere(release);
    places.into_iter().find(|place| facts.inventory.files.contains_key(place))
}

fn release_unknown(facts: &CheckFacts) -> Conclusion {
    match facts.machine.kernel.release.as_deref() {
        Some(release) => {
            let why = format!("'{release}' is not a release");
            Conclusion::unknown("/proc/sys/kernel/osrelease", why, "look at it")
        }
        None => not_captured("/proc/sys/kernel/osrelease"),
    }
}

/// That tracefs, if the kernel has it, is mounted elsewhere or not at all.
pub(super) fn not_mounted() -> Conclusion {
    let cure = format!("{}, as root", sight::MOUNT_TRACEFS);
    Conclusion::unknown(TRACER, "no tracefs is mounted there", cure)
}

/// Whether trace events can be switched on.
fn events(facts: &CheckFacts) -> Way {
    if let Some(way) = refused(facts) {
        return way;
    }
    let files = &facts.inventory.files;
    let is_below_debugfs = files.contains_key(sight::TRACEFS_BELOW_DEBUGFS);
    let built = facts.option("TRACING");
    let way = match files.get(TRACER) {
        Some(Reading::Text(_)) => Way::Open(read_in(TRACER, "present")),
        _ if is_below_debugfs => Way::Open(read_in(sight::TRACEFS_BELOW_DEBUGFS, "present")),
        Some(Reading::Unreadable { unreadable }) => {
            Way::Unknown(Conclusion::unknown(TRACER, unreadable, AS_ROOT))
        }
        _ if built == Some(false) => {
            let options = ["FTRACE", "ENABLE_DEFAULT_TRACERS"];
            let fix = Kernel.advice(supply(facts).kernel_with(&options));
            Way::closed(facts.option_read("TRACING"), "built without trace events", fix)
        }
        Some(Reading::Absent) if built == Some(true) || facts.hint(sight::TRACEFS).is_some() => {
            let fix = Search.advice(format!("{}, as root", sight::MOUNT_TRACEFS));
            let (says, read) = ("tracefs is not mounted".into(), read_in(TRACER, "absent"));
            Way::Closed(Obstacle { says, read, fix, is_quick: true })
        }
        Some(Reading::Absent) => Way::Unknown(facts.too_old_for(TRACER).unwrap_or_else(not_mounted)),
        None if built == Some(true) => Way::Open(facts.option_read("TRACING")),
        None => Way::Unknown(not_captured(TRACER)),
    };
    match way {
        Way::Open(read) => contained(facts).unwrap_or(Way::Open(read)),
        // A container hides the host's tracefs.
        Way::Closed(obstacle) if facts.machine.container.is_some() && built != Some(false) => {
            contained(facts).unwrap_or(Way::Closed(obstacle))
        }
        way => way,
    }
}

/// The finding where both ways are closed, or whether one is open is unknown; `is_equal`: whether trace
/// events give the answer as BPF does.
fn neither(bpf: Way, events: Way, is_equal: bool, says: &str) -> CheckResult {
    match (bpf, events) {
        (Way::Unknown(found), _) | (_, Way::Unknown(found)) => Err(found),
        (Way::Closed(bpf), Way::Closed(events)) if bpf.says == events.says => {
            Ok(Conclusion::warn(bpf.read, format!("{says}: {}", bpf.says), bpf.fix))
        }
        (Way::Closed(bpf), Way::Closed(events)) => {
            let says = format!("{says}: {}; {}", bpf.says, events.says);
            if is_equal && events.is_quick {
                return Ok(Conclusion::warn(events.read, says, events.fix));
            }
            let fix = Search.advice(format!("trace events: {}; BPF: {}", events.fix, bpf.fix));
            Ok(Conclusion::warn(bpf.read, says, fix))
        }
        // Not asked for: a way is open.
        (Way::Open(read), _) | (_, Way::Open(read)) => Ok(Conclusion::pass(read, says)),
    }
}

fn causes(facts: &CheckFacts) -> CheckResult {
    match (bpf(facts, &CAUSES), events(facts)) {
        (Way::Open(read), _) => Ok(Conclusion::pass(read, "by BPF, as root: each cause with its time")),
        (bpf, Way::Open(read)) => {
            let dearer = "by trace events, as root: each cause with its time, at a higher cost than by BPF";
            Ok(Conclusion::pass(read, format!("{dearer} ({})", bpf.state())))
        }
        (bpf, events) => neither(bpf, events, true, "suspects alone, by the kernel's counters"),
    }
}

fn loops(facts: &CheckFacts) -> CheckResult {
    match (bpf(facts, &LOOPS), events(facts)) {
        (Way::Open(read), _) => Ok(Conclusion::pass(read, "by BPF, as root")),
        (Way::Closed(bpf), Way::Open(_)) => {
            let says =
                "by trace events alone, which see no places in the program (--begin) and no owners of locks";
            Ok(Conclusion::warn(bpf.read, format!("{says}: {}", bpf.says), bpf.fix))
        }
        (Way::Unknown(found), Way::Open(_)) => {
            Err(Conclusion { says: format!("at least by trace events; by BPF: {}", found.says), ..found })
        }
        (bpf, events) => {
            neither(bpf, events, false, "only those of a program that is linked with libisolator")
        }
    }
}

fn calls(facts: &CheckFacts) -> CheckResult {
    let read = match bpf(facts, &LOOPS) {
        Way::Open(read) => read,
        Way::Unknown(found) => return Err(found),
        Way::Closed(bpf) => {
            let says =
                format!("lint cannot watch a program, for which trace events do not suffice: {}", bpf.says);
            return Ok(Conclusion::warn(bpf.read, says, bpf.fix));
        }
    };
    let lacks_events = facts.hint(sight::EVENTS_OF_SCHEDULER).is_some()
        && facts.inventory.files.get(sight::EVENTS_OF_CALLS) == Some(&Reading::Absent);
    if lacks_events || facts.option("HAVE_SYSCALL_TRACEPOINTS") == Some(false) {
        let read = match lacks_events {
            true => read_in(sight::EVENTS_OF_CALLS, "absent"),
            false => facts.option_read("HAVE_SYSCALL_TRACEPOINTS"),
        };
        let fix =
            Kernel.advice("lint the program on x86, arm or arm64, whose kernels have these tracepoints");
        return Ok(Conclusion::warn(
            read,
            "lint cannot watch a program: no tracepoint tells system calls",
            fix,
        ));
    }
    if facts.option("UPROBE_EVENTS") == Some(false) {
        let says = "system calls, and not functions of the C library: built without UPROBE_EVENTS";
        let fix = Kernel.advice(supply(facts).kernel_with(&["UPROBE_EVENTS"]));
        return Ok(Conclusion::warn(facts.option_read("UPROBE_EVENTS"), says, fix));
    }
    Ok(Conclusion::pass(read, "by BPF, as root: system calls, and functions of the C library by uprobes"))
}

/// Which senders the kernel has events of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SenderEvents {
    All,
    /// Those of reschedule IPIs.
    Reschedules,
    None,
}

fn sender_events(facts: &CheckFacts) -> Result<(SenderEvents, Evidence), Conclusion> {
    let is_there = |path: &str| facts.hint(path).is_some();
    let folder = "/sys/kernel/tracing/events";
    match [sight::EVENT_OF_SENDERS, sight::EVENT_OF_CALL_SENDERS].map(is_there) {
        [true, true] => return Ok((SenderEvents::All, read_in(folder, "ipi_send_cpu, csd_queue_cpu"))),
        [true, false] => return Ok((SenderEvents::Reschedules, read_in(folder, "ipi_send_cpu"))),
        _ if is_there(sight::EVENTS_OF_SCHEDULER) => {
            return Ok((SenderEvents::None, read_in(folder, "neither ipi_send_cpu nor csd_queue_cpu")));
        }
        _ => {}
    }
    let source = "/proc/sys/kernel/osrelease";
    let read = read_in(source, facts.machine.kernel.release.as_deref().unwrap_or_default());
    let at_least = |(major, minor): KernelVersion| facts.at_least(major, minor);
    match (at_least(sight::CALL_SENDERS_SINCE), at_least(sight::SENDERS_SINCE)) {
        (Some(true), _) => Ok((SenderEvents::All, read)),
        (Some(false), _) if facts.machine.kernel.takes_over() => {
            let why = "this kernel keeps its version and takes over newer parts";
            Err(Conclusion::unknown(
                source,
                why,
                format!("{}, as root: then doctor sees it", sight::MOUNT_TRACEFS),
            ))
        }
        (_, Some(true)) => Ok((SenderEvents::Reschedules, read)),
        (_, Some(false)) => Ok((SenderEvents::None, read)),
        _ => Err(release_unknown(facts)),
    }
}

fn senders(facts: &CheckFacts) -> CheckResult {
    if facts.online.len() == 1 {
        return Err(Conclusion::not_applicable("one CPU alone gets no IPI"));
    }
    let (seen, read) = sender_events(facts)?;
    let newer = || {
        let (major, minor) = sight::CALL_SENDERS_SINCE;
        match facts.at_least(major, minor) {
            Some(true) => Kernel.advice(supply(facts).kernel_with(&["SMP", "FTRACE"])),
            _ => Kernel.advice(supply(facts).newer_kernel(sight::CALL_SENDERS_SINCE)),
        }
    };
    let rates = "not at all; the rates of IPIs are seen";
    if seen == SenderEvents::None {
        let says =
            format!("{rates}: this kernel has no events of senders, which came with Linux 6.4 and 6.5");
        return Ok(Conclusion::warn(read, says, newer()));
    }
    let by = match (bpf(facts, &CAUSES), events(facts)) {
        (Way::Open(_), _) => "by BPF",
        (_, Way::Open(_)) => "by trace events",
        (bpf, events) => return neither(bpf, events, true, rates),
    };
    Ok(match seen {
        SenderEvents::Reschedules => {
            let says =
                format!("{by}, as root, of reschedule IPIs alone: calls have an event since Linux 6.5");
            Conclusion::warn(read, says, newer())
        }
        _ => {
            Conclusion::pass(read, format!("{by}, as root: the task, the function and the call site of each"))
        }
    })
}
