// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules: the forbidden operation, the reason, and the cure. `docs/reference/rules.md` is made from this
//! table.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A rule for real-time threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    // The order matters: of several rules that one call breaks, the first one is reported.
    /// The thread makes a process or a thread.
    Fork,
    /// The thread loads or unloads a library.
    Dlopen,
    /// The thread prints.
    Printing,
    /// The thread sleeps for a relative time, and not until an absolute one.
    RelativeSleep,
    /// The thread sleeps by a clock that can be set.
    SettableClock,
    /// The thread takes a lock without priority inheritance that an ordinary thread takes too.
    LockWithoutInheritance,
    /// The thread allocates or frees memory.
    Allocation,
    /// A signal's handler ran in the thread.
    SignalHandler,
    /// The thread makes a system call that blocks.
    BlockingCall,
    /// The thread takes a page fault.
    PageFault,
    /// The thread may run on more than one CPU.
    WideAffinity,
    /// Interrupt threads of its CPU have a higher priority.
    LowPriority,
    /// The memory of the process is not locked.
    NoMlockall,
    /// The thread's stack is not mapped as deep as it may grow.
    NoStackPrefault,
    /// The thread computes with denormal numbers, which the processor handles slowly.
    Denormals,
    /// The frequency of the thread's CPU changes with load.
    Frequency,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LintSeverity {
    /// The rule is broken.
    Error,
    /// Worth a look; the rule is not counted as broken.
    Note,
}

impl LintSeverity {
    /// `error`, `note`.
    pub fn name(self) -> &'static str {
        match self {
            LintSeverity::Error => "error",
            LintSeverity::Note => "note",
        }
    }
}

/// The texts of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleText {
    /// The rule.
    pub rule: Rule,
    /// Its identifier, which is stable.
    pub id: &'static str,
    /// Its severity, which decides the exit status.
    pub severity: LintSeverity,
    /// The forbidden operation.
    pub what: &'static str,
    /// The reason why it makes cycles late.
    pub why: &'static str,
    /// The cure.
    pub cure: &'static str,
    /// The source of the rule.
    pub source: &'static str,
}

use LintSeverity::{Error, Note};

/// All rules, in the order of the page.
pub const RULES: [RuleText; 16] = [
    RuleText {
        rule: Rule::Allocation,
        id: "allocation",
        severity: Error,
        what: "`malloc()`, `free()` and similar functions, `new`, `Box`, `mmap()`, `munmap()`, `brk()` in a cycle",
        why: "the allocator takes locks and asks the kernel for memory, for a time without a bound",
        cure: "allocate before the loop begins; use fixed buffers or a pool in it",
        source: "RealtimeSanitizer of LLVM; malloc(3); realtime:documentation/howto/applications/memory",
    },
    RuleText {
        rule: Rule::PageFault,
        id: "page-fault",
        severity: Error,
        what: "a page fault in a cycle",
        why: "the kernel has to find or read the page before the thread goes on",
        cure: "lock memory with mlockall(MCL_CURRENT | MCL_FUTURE), and touch buffers and stack once before the loop",
        source: "Documentation/trace/rv/monitor_rtapp.rst, monitor pagefault; mlockall(2)",
    },
    RuleText {
        rule: Rule::LockWithoutInheritance,
        id: "lock-without-inheritance",
        severity: Error,
        what: "a mutex, rwlock or spin lock without priority inheritance that an ordinary thread takes too",
        why: "any thread can preempt the ordinary owner while the real-time thread waits (priority inversion)",
        cure: "make the mutex with pthread_mutexattr_setprotocol(PTHREAD_PRIO_INHERIT), or pass data without a lock",
        source: "pthread_mutexattr_setprotocol(3p); Documentation/trace/rv/monitor_rtapp.rst, monitor sleep",
    },
    RuleText {
        rule: Rule::RelativeSleep,
        id: "relative-sleep",
        severity: Error,
        what: "`nanosleep()`, `usleep()`, `clock_nanosleep()` without TIMER_ABSTIME; a timeout as the period",
        why: "the time from reading the clock to sleeping is added to each sleep: a loop without a schedule drifts by it, \
              and one that computes each sleep from a schedule begins later by it",
        cure: "sleep until a time: clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME), or a periodic timerfd",
        source: "clock_nanosleep(2), NOTES; Documentation/trace/rv/monitor_rtapp.rst, monitor sleep",
    },
    RuleText {
        rule: Rule::SettableClock,
        id: "settable-clock",
        severity: Error,
        what: "a sleep, timer or timed wait until a time of CLOCK_REALTIME",
        why: "NTP and administrators set this clock, which makes the sleep longer or shorter",
        cure: "use CLOCK_MONOTONIC; for condition variables pthread_condattr_setclock(CLOCK_MONOTONIC)",
        source: "clock_gettime(2); Documentation/trace/rv/monitor_rtapp.rst, monitor sleep",
    },
    RuleText {
        rule: Rule::BlockingCall,
        id: "blocking-call",
        severity: Error,
        what: "a system call in which the thread slept before its cycle was over, that goes to a file system (sysfs and procfs \
              too), or that waits for a lock of a file",
        why: "how long it takes depends on a disk, a driver, a peer or another thread",
        cure: "let an ordinary thread do it, and pass the data through a queue without locks",
        source: "RealtimeSanitizer of LLVM; realtime:documentation/howto/applications/application_base",
    },
    RuleText {
        rule: Rule::SignalHandler,
        id: "signal-handler",
        severity: Error,
        what: "a signal's handler runs in the thread",
        why: "it interrupts the cycle at any place; delivery takes locks of the whole process",
        cure: "block signals in the thread (pthread_sigmask) and take them in another one with sigwaitinfo or signalfd",
        source: "signal-safety(7); pthread_sigmask(3)",
    },
    RuleText {
        rule: Rule::Printing,
        id: "printing",
        severity: Error,
        what: "`printf()` and similar functions, streams, syslog(), writes to standard output, standard error or a terminal",
        why: "it takes the stream's lock, may allocate, and waits for the reader of a terminal or pipe",
        cure: "put the values into a ring buffer, and print in an ordinary thread",
        source: "RealtimeSanitizer of LLVM; stdio(3); syslog(3)",
    },
    RuleText {
        rule: Rule::Fork,
        id: "fork",
        severity: Error,
        what: "`fork()`, `posix_spawn()`, `system()`, a new thread",
        why: "the kernel copies page tables, and each page that is written afterwards faults; a thread needs a stack",
        cure: "make processes and threads before the loop begins, or from an ordinary process",
        source: "fork(2), NOTES; mlockall(2), NOTES; realtime:documentation/howto/applications/memory",
    },
    RuleText {
        rule: Rule::Dlopen,
        id: "dlopen",
        severity: Error,
        what: "`dlopen()`, `dlclose()`",
        why: "it reads files, maps memory and takes the loader's lock",
        cure: "load libraries before the loop begins, with RTLD_NOW",
        source: "dlopen(3); RealtimeSanitizer of LLVM",
    },
    RuleText {
        rule: Rule::WideAffinity,
        id: "wide-affinity",
        severity: Error,
        what: "the thread may run on more than one CPU (SCHED_DEADLINE excepted, which has to)",
        why: "it is moved to CPUs with cold caches, and isolated CPUs cannot be meant for it",
        cure: "pin it with pthread_setaffinity_np(), or start it with isolator run --cpus N",
        source: "sched_setaffinity(2); sched(7)",
    },
    RuleText {
        rule: Rule::LowPriority,
        id: "low-priority",
        severity: Error,
        what: "interrupt threads (`irq/…`) of the thread's CPU have a higher priority than it",
        why: "each of these interrupts preempts the thread for as long as its handler takes",
        cure: "raise the thread above them, or move those interrupts to other CPUs (isolator tune plan)",
        source: "sched(7); realtime:documentation/howto/applications/application_base; request_threaded_irq (priority 50)",
    },
    RuleText {
        rule: Rule::NoMlockall,
        id: "no-mlockall",
        severity: Error,
        what: "memory of the process is not locked",
        why: "the kernel may take any page away, and its next use is a page fault",
        cure: "call mlockall(MCL_CURRENT | MCL_FUTURE) before the loop begins",
        source: "mlockall(2), NOTES",
    },
    RuleText {
        rule: Rule::NoStackPrefault,
        id: "no-stack-prefault",
        severity: Error,
        what: "less than 64 KiB of stack below the loop are mapped",
        why: "the first deeper call is a page fault",
        cure: "write to an array of the size that the stack may reach before the loop begins",
        source: "mlockall(2), NOTES; realtime:documentation/howto/applications/memory",
    },
    RuleText {
        rule: Rule::Denormals,
        id: "denormals",
        severity: Note,
        what: "the thread computed with denormal numbers, without FTZ and DAZ in MXCSR (x86-64)",
        why: "the processor handles these numbers in microcode, at a hundred times the cost",
        cure: "set FTZ and DAZ in the thread: _mm_setcsr(_mm_getcsr() | 0x8040)",
        source: "Intel SDM, volume 1, 11.6 and volume 3, optimization: denormals",
    },
    RuleText {
        rule: Rule::Frequency,
        id: "frequency",
        severity: Note,
        what: "a CPU of the thread has another frequency governor than performance",
        why: "after an idle time the CPU is slow at first, so execution takes longer",
        cure: "cpupower -c CPUS frequency-set -g performance, or isolator tune plan",
        source: "Documentation/admin-guide/pm/cpufreq.rst",
    },
];

impl Rule {
    /// The rule's texts.
    pub fn text(self) -> &'static RuleText {
        let text = RULES.iter().find(|text| text.rule == self);
        text.expect("each rule has its text")
    }

    /// Its identifier.
    pub fn id(self) -> &'static str {
        self.text().id
    }

    /// The severity of its findings.
    pub fn severity(self) -> LintSeverity {
        self.text().severity
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.id())
    }
}

/// The table of `docs/reference/rules.md`.
pub fn table() -> String {
    let mut table =
        String::from("| Rule | Found | Why it is forbidden | What to do | Source |\n|---|---|---|---|---|\n");
    for text in &RULES {
        let note = if text.severity == Note { " (note)" } else { "" };
        let id = format!("`{}`{note}", text.id);
        let cells = [&id, text.what, text.why, text.cure, text.source].map(|cell| cell.replace('|', "\\|"));
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_identifier_is_that_of_its_rule_in_json() {
        for text in &RULES {
            let value = serde_json::to_value(text.rule).unwrap();
            assert_eq!(value, text.id);
        }
    }
}
