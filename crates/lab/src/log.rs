// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's kernel log, judged: a kernel that complains has no result.

use evidence::lab::{GuestLog, LogVerdict};

use crate::job::{BEGIN, END};

/// Words by which the kernel reports a fault of its own: BUG and WARNING (lib/bug.c, panic.c), Oops (arch),
/// stalls (rcu, watchdog.c, hung_task.c, smp.c), lockdep.c, kasan, kcsan, kmemleak and ubsan.
const WRONG: &[&str] = &[
    "BUG:",
    "BUG at",
    "kernel BUG",
    "WARNING:",
    "Oops",
    "general protection fault",
    "Kernel panic",
    "Unable to handle kernel",
    "unable to handle page fault",
    "detected stall",
    "self-detected stall",
    "soft lockup",
    "hard LOCKUP",
    "blocked for more than",
    "possible circular locking",
    "inconsistent lock state",
    "possible recursive locking",
    "suspicious RCU usage",
    "bad unlock balance",
    "sleeping function called",
    "scheduling while atomic",
    "KASAN:",
    "KCSAN:",
    "UBSAN:",
    "suspected memory leaks",
    "csd: Detected non-responsive",
    "rcu_preempt kthread starved",
    "double fault",
    "stack-protector",
];

/// Whether a line says that something is wrong.
pub fn is_complaint(line: &str) -> bool {
    WRONG.iter().any(|wrong| line.contains(wrong))
}

/// Whether a line says only that the guest's CPUs did not run for seconds, as on a host that is too busy: the
/// tick of an isolated CPU that another CPU takes over came more than 3 s late (kernel/sched/core.c).
pub fn is_of_a_busy_host(line: &str) -> bool {
    line.contains("WARNING: ") && line.contains(" at sched_tick_remote+")
        || line.contains("/core.c:") && line.contains(" sched_tick_remote+")
}

/// Lines after a complaint's first that still say what it is about.
const ABOUT: usize = 4;

/// Judges what a guest wrote to its console. Complaints that have a text of `known` in them are left out: a
/// kernel without the isolator has them too.
pub fn judge(console: &str, known: &[String]) -> GuestLog {
    let lines = console.lines().collect::<Vec<_>>();
    let is_known = |at: usize| {
        let about = lines.iter().skip(at).take(1 + ABOUT);
        known.iter().any(|text| about.clone().any(|line| line.contains(text)))
    };
    let wrong = lines.iter().enumerate().filter(|(at, line)| is_complaint(line) && !is_known(*at));
    let warnings = wrong.map(|(_, line)| line.trim().to_string()).collect::<Vec<_>>();
    let verdict = if warnings.is_empty() { LogVerdict::Clean } else { LogVerdict::Bad };
    GuestLog { lines: lines.len() as u64, warnings, verdict }
}

/// The first words of a guest's own program on its console.
pub fn own_words(console: &str) -> Option<&str> {
    console.lines().find(|line| line.starts_with("isolator") && ![BEGIN, END].contains(line))
}

/// Why a guest whose program said nothing left no result: the kernel's complaint, or the last line.
pub fn without_words(console: &str, known: &[String]) -> String {
    let last = console.lines().rev().find(|line| !line.trim().is_empty());
    let judged = judge(console, known);
    let line = judged.warnings.first().map(String::as_str).or(last).unwrap_or("nothing");
    format!("the guest ended without a result; its console says: {}", line.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_the_kernel_make_a_log_bad() {
        for line in [
            "[    1.234] WARNING: CPU: 1 PID: 88 at kernel/rcu/tree.c:680 rcu_irq_work+0x1/0x2",
            "[   30.000] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "[   10.000] BUG: sleeping function called from invalid context at mm/slab.c:1",
            "[   10.000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s!",
            "[   90.000] kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
            "[    4.000] Kernel panic - not syncing: VFS: Unable to mount root fs",
        ] {
            assert_eq!(judge(line, &[]).verdict, LogVerdict::Bad, "{line}");
        }
    }

    #[test]
    fn a_known_complaint_is_left_out_and_no_other() {
        let log = "[   10.1] WARNING: suspicious RCU usage\n[   10.2] 6.12 #1 Not tainted\n\
            [   10.3] -----------------------------\n[   10.4] kernel/rcu/x.h:27 Unsafe read of A_STATE!\n\
            [   20.1] WARNING: suspicious RCU usage\n[   20.4] kernel/rcu/y.h:1 Unsafe read of B_STATE!\n";
        assert_eq!(judge(log, &[]).warnings.len(), 2);
        assert_eq!(judge(log, &["A_STATE".into()]).warnings, ["[   20.1] WARNING: suspicious RCU usage"]);
        assert_eq!(judge(log, &["A_STATE".into(), "B_STATE".into()]).verdict, LogVerdict::Clean);
    }

    #[test]
    fn a_late_remote_tick_is_of_a_busy_host_and_no_other_complaint_is() {
        for (line, expected) in [
            ("static-keys: WARNING: CPU: 0 PID: 50 at sched_tick_remote+0x195/0x1d0", true),
            ("WARNING: CPU: 0 PID: 50 at kernel/sched/core.c:5739 sched_tick_remote+0x195/0x1d0", true),
            ("WARNING: CPU: 0 PID: 50 at kernel/sched/core.c:1240 nohz_csd_func+0x1/0x2", false),
            ("Workqueue: events_unbound sched_tick_remote", false),
        ] {
            assert_eq!(is_of_a_busy_host(line), expected, "{line}");
        }
    }

    #[test]
    fn an_ordinary_boot_is_clean() {
        let boot = "[    0.000000] Linux version 6.12.117+deb12-rt-amd64\n\
            [    0.1] x86/bugs: Spectre V2 : Mitigation: Retpolines\n\
            [    0.2] debug: DEBUG messages are off\n\
            [    0.3] kmemleak: Kernel memory leak detector initialized (mem pool available: 15843)\n[    3.2] Run /init as init process";
        let log = judge(boot, &[]);
        assert_eq!((log.verdict, log.lines), (LogVerdict::Clean, 5), "{:?}", log.warnings);
    }
}
