// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the kernel refused a call, or ended an isolation: the numbers of `enum isolator_reason`, in words and
//! with what to do.

use std::fmt;

/// A reason; numbers that this library does not know come from a newer kernel.
///
/// ```
/// use rt::isolation::Reason;
///
/// let reason = Reason(3);
/// println!("{reason}; {}", reason.cure());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub u32);

const EXCLUSIVE: &str = "do without the exclusive address space";

/// Name, words and cure of each reason, in the order of the header.
pub(crate) const NAMES: [(&str, &str, &str); 38] = [
    ("ok", "not refused", "nothing is to be done"),
    ("not_permitted", "needs CAP_SYS_NICE", "run as root, or grant CAP_SYS_NICE"),
    ("bad_mask", "unknown bits in the mask, or nothing to defer", "ask for clock, resched or ipi"),
    ("not_nohz_full", "this CPU is not in nohz_full=", "boot with nohz_full= and that CPU"),
    (
        "not_isolated",
        "this CPU is not in isolcpus=domain, runs RCU callbacks, or goes offline",
        "boot with isolcpus=domain, and rcu_nocbs= and that CPU",
    ),
    ("many_cpus", "the thread may run on more than one CPU", "pin the thread to one CPU"),
    (
        "rt_bandwidth",
        "the thread's group has limited real-time bandwidth",
        "write -1 to /proc/sys/kernel/sched_rt_runtime_us, or leave the group",
    ),
    (
        "tick_needed",
        "something needs the tick: a CPU timer, a perf event, an unstable clock",
        "end perf and CPU timers, and boot with tsc=reliable where the counter can be trusted",
    ),
    ("owned", "this CPU has another owner", "end the other owner, or choose another CPU"),
    ("owner_already", "the thread owns a CPU already", "stop first"),
    ("foreign_file", "the file was opened by another process", "open /dev/isolator in this process"),
    ("not_owner", "the thread owns no CPU", "start first"),
    (
        "last_housekeeping",
        "this CPU keeps the time, or no housekeeping CPU is online",
        "choose another CPU, and leave one for housekeeping",
    ),
    ("bad_policy", "the thread's scheduling policy is SCHED_DEADLINE or SCHED_EXT", "use SCHED_FIFO"),
    (
        "not_supported",
        "kernel thread, no high resolution timers, Xen PV, or FRED",
        "boot without highres=off and with fred=off, and not under Xen PV",
    ),
    ("no_page", "no memory for the shared page", "free some memory"),
    ("bad_flags", "unknown tick flags", "use a library and a kernel of the same version"),
    (
        "bad_cpu",
        "no such CPU, or the size of the structure is not understood",
        "choose a CPU that there is, and a kernel of this version",
    ),
    ("mm_shared", "exclusive: another task uses the address space", "use a process with a single thread"),
    ("mm_not_locked", "exclusive: not all memory is locked", "lock all memory first (mlockall)"),
    ("mm_shared_file", "exclusive: a file is mapped shared and writable", EXCLUSIVE),
    ("mm_userfault", "exclusive: userfaultfd is registered", EXCLUSIVE),
    ("mm_mergeable", "exclusive: pages may be merged by KSM", EXCLUSIVE),
    ("ended_stop", "stopped", "start again"),
    ("ended_exit", "the owner exited or called exec", "start again"),
    ("ended_close", "the file was closed", "start again"),
    ("ended_affinity", "the owner may run elsewhere", "pin the thread to one CPU, and start again"),
    ("ended_policy", "the owner's policy does not allow it", "use SCHED_FIFO, and start again"),
    ("ended_hotplug", "the CPU went offline", "bring the CPU online, and start again"),
    ("not_owned", "the CPU has no owner to post to", "post once the owner has started"),
    ("ring_full", "the ring is full", "post again once the other end has taken some"),
    ("ring_empty", "there is no message", "poll again later"),
    (
        "ring_broken",
        "the owner has written nonsense into the ring",
        "change only the owner's ends of the rings, and start again",
    ),
    (
        "ended_partition",
        "the CPU's isolated partition is gone",
        "make its cpuset an isolated partition, and start again",
    ),
    (
        "other_file",
        "the CPU's owner was started through another file",
        "use the open file of the owner, which it passes on",
    ),
    (
        "watched",
        "the lockup detector watches this CPU: kernel.watchdog_cpumask",
        "take the CPU out of kernel.watchdog_cpumask",
    ),
    (
        "clock_stays",
        "this CPU's clock event device cannot be stopped: leave CLOCK out",
        "start without clock",
    ),
    (
        "not_built",
        "this kernel was built without that part of the isolator",
        "build the kernel with that part (CONFIG_ISOLATOR_*), or do without ktlb, exclusive and messages",
    ),
];

impl Reason {
    fn row(self) -> Option<&'static (&'static str, &'static str, &'static str)> {
        NAMES.get(self.0 as usize)
    }

    /// Its name: `many_cpus`.
    ///
    /// ```
    /// assert_eq!(rt::isolation::Reason(3).name(), "not_nohz_full");
    /// ```
    pub fn name(self) -> &'static str {
        self.row().map_or("unknown", |row| row.0)
    }

    /// It in words.
    ///
    /// ```
    /// assert_eq!(rt::isolation::Reason(3).text(), "this CPU is not in nohz_full=");
    /// ```
    pub fn text(self) -> &'static str {
        self.row().map_or("for a reason that only a newer library knows", |row| row.1)
    }

    /// The cure.
    ///
    /// ```
    /// assert_eq!(rt::isolation::Reason(3).cure(), "boot with nohz_full= and that CPU");
    /// ```
    pub fn cure(self) -> &'static str {
        self.row().map_or("use a library of the kernel's version", |row| row.2)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[ISOLATOR_OK] = { 0, "not refused" },`, on a line or two
    #[test]
    fn the_words_are_those_of_the_kernel() {
        let Some(kernel) = crate::isolation::kernel_sources() else { return };
        let text = std::fs::read_to_string(kernel.join("isolator/names.c")).unwrap();
        let row = |row: &str| {
            let (name, rest) = row.split_once(']')?;
            let words = rest.strip_prefix(" = { ")?.split('"').nth(1)?;
            Some((name.to_lowercase(), words.to_string()))
        };
        let kernel = text.split("[ISOLATOR_").filter_map(row).collect::<Vec<_>>();
        let own = NAMES.map(|(name, words, _)| (name.to_string(), words.to_string()));
        assert_eq!(kernel, own);
    }

    #[test]
    fn an_unknown_reason_has_words_too() {
        let reason = Reason(1000);
        assert_eq!((reason.name(), reason.cure()), ("unknown", "use a library of the kernel's version"));
    }
}
