// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that occupies a CPU for which another one was woken: its position in the kernel, and why it was
//! not preempted.
//!
//! The stack is taken on that CPU at the wakeup, within an interrupt. The interrupt's own functions are above
//! its entry, the interrupted ones below: these have the CPU until the kernel lets another thread have it.
//! Nothing is below where the interrupt came in user mode, which cannot delay the wakeup.

use std::path::Path;

use evidence::cause::{Cause, KernelContext, Owner, PREEMPTION_OFF, QUOTA, RESERVATION, RT_LIMIT};

use crate::event::ORDINARY;
use crate::names::Names;

/// The functions by which an interrupt enters the kernel, on x86 and arm64. A page fault is none of them: its
/// work is its thread's. (arch/x86/include/asm/idtentry.h, arch/x86/entry/entry_64_fred.S,
/// arch/arm64/kernel/entry.S)
const ENTRIES: [&str; 7] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "asm_exc_xen_",
    "asm_fred_entrypoint_kernel",
    "el1h_64_irq",
    "el1_interrupt",
    "el1_irq",
];

/// Functions by which an interrupt comes from user mode, and goes back there (kernel/entry/common.c).
const EDGES: [&str; 3] = ["irqentry_enter", "irqentry_exit", "exit_to_user_mode"];

/// Functions that enable interrupts again for a caller that had disabled them.
/// (include/linux/spinlock_api_smp.h, kernel/sched/sched.h)
const OPENING: [&str; 8] = [
    "_raw_spin_unlock",
    "__raw_spin_unlock",
    "_raw_read_unlock",
    "_raw_write_unlock",
    "raw_spin_rq_unlock",
    "raw_local_irq_restore",
    "__local_bh_enable",
    "native_irq_enable",
];

fn is_entry(name: &str) -> bool {
    ENTRIES.iter().any(|begin| name.starts_with(begin))
}

/// The part of a stack that an interrupt interrupted: empty if it came in user mode. `None` without an
/// interrupt.
fn below<'a>(stack: &'a [u64], names: &Names) -> Option<&'a [u64]> {
    let is_entry = |address: &u64| is_entry(caller(*address, names));
    let entry = stack.iter().position(is_entry)?;
    let entries = stack[entry..].iter().take_while(|address| is_entry(address)).count();
    Some(&stack[entry + entries..])
}

/// The part of a stack from the outermost of several interrupts on; empty where that one came in user mode,
/// or where there are not several.
pub fn outer<'a>(stack: &'a [u64], names: &Names) -> &'a [u64] {
    let is_entry = |address: &u64| is_entry(caller(*address, names));
    let first = below(stack, names).map_or(stack.len(), |below| stack.len() - below.len());
    match stack.iter().rposition(is_entry) {
        Some(last) if last >= first && last + 1 < stack.len() => &stack[last..],
        _ => &[],
    }
}

/// The function of a caller. A return address may be the first of the next function.
fn caller(address: u64, names: &Names) -> &str {
    names.function(address.saturating_sub(1)).unwrap_or_default()
}

/// Whether the interrupt of this stack came in user mode.
pub fn is_in_user_mode(stack: &[u64], names: &Names) -> bool {
    below(stack, names).is_some_and(<[u64]>::is_empty)
}

/// Whether the interrupt of this stack came at the entry or exit of another one, which came in user mode: the
/// thread is not in the kernel.
pub fn is_at_edge(stack: &[u64], names: &Names) -> bool {
    let is_edge = |name: &str| is_entry(name) || EDGES.iter().any(|begin| name.starts_with(begin));
    let Some((innermost, callers)) = below(stack, names).and_then(<[u64]>::split_first) else { return false };
    let first = names.function(*innermost).unwrap_or_default();
    is_edge(first)
        && callers.iter().all(|address| is_edge(caller(*address, names)))
        && callers.last().is_some_and(|address| is_entry(caller(*address, names)))
}

/// The context of a stack, where its functions show one that is above threads.
pub fn context(stack: &[u64], names: &Names) -> Option<KernelContext> {
    let of = |name: &str| match name {
        name if is_entry(name) => Some(KernelContext::Hardirq),
        "__do_softirq" | "handle_softirqs" => Some(KernelContext::Softirq),
        name if name.starts_with("exc_nmi") || name == "asm_exc_nmi" => Some(KernelContext::Nmi),
        _ => None,
    };
    stack.iter().find_map(|address| of(caller(*address, names)))
}

/// The functions that the interrupt of this stack interrupted, innermost first; none if it came in user mode,
/// or if there was no interrupt.
pub fn interrupted(stack: &[u64], names: &Names) -> Vec<String> {
    let Some((innermost, callers)) = below(stack, names).and_then(<[u64]>::split_first) else {
        return Vec::new();
    };
    // The interrupted address is exact.
    let first = names.function(*innermost).unwrap_or_default();
    let all = std::iter::once(first).chain(callers.iter().map(|address| caller(*address, names)));
    all.filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// The scheduling class of a thread with this kernel priority: below 0 deadline, below 100 real-time.
pub fn scheduled_as(prio: i32) -> String {
    match prio {
        ..0 => "deadline".to_string(),
        0..ORDINARY => format!("real-time priority {}", 99 - prio),
        _ => "ordinary".to_string(),
    }
}

/// Whether a thread with the kernel's priority `prio` gives way to one with `to`. Of two ordinary ones the
/// scheduler chooses by other rules.
pub fn gives_way(prio: i32, to: i32) -> bool {
    to < ORDINARY && to < prio
}

/// The name of the time that a thread with this kernel priority has used up, where it is ready and may not
/// run.
pub fn limit_of(prio: i32) -> &'static str {
    match prio {
        ..0 => RESERVATION,
        0..ORDINARY => RT_LIMIT,
        _ => QUOTA,
    }
}

/// The kernel's priority of a thread (`/proc/TID/stat` has it less 100); `None` if the thread is gone.
pub fn priority(root: &Path, thread: u32) -> Option<i32> {
    let stat = untrusted::bytes(root.join(format!("proc/{thread}/stat"))).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let shown: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(15)?.parse().ok()?;
    Some(shown + 100)
}

/// An occupant of a CPU in the kernel.
#[derive(Debug, Clone, Copy)]
pub struct KeptBy<'a> {
    /// The stack at the wakeup.
    pub stack: &'a [u64],
    /// The kernel's priority of the thread that had the CPU, and of the one that was woken.
    pub priorities: (Option<i32>, Option<i32>),
    /// The kernel's preemption model: `PREEMPT_NONE`.
    pub preemption: &'a str,
}

impl KeptBy<'_> {
    /// Adds the kernel function to the cause and, if the woken thread has a higher priority, that preemption
    /// was off.
    pub fn blame(&self, cause: &mut Cause, names: &Names) {
        let functions = interrupted(self.stack, names);
        let is_opening = |name: &&String| OPENING.iter().any(|begin| name.starts_with(begin));
        let named = functions.iter().find(|name| !is_opening(name)).or(functions.first());
        let Some(function) = named else { return };
        cause.function = Some(function.clone());
        cause.stack = functions;
        let detail = match self.priorities {
            (Some(keeps), Some(woken)) if woken < keeps => {
                format!("in the kernel {PREEMPTION_OFF} (this kernel is {})", self.preemption)
            }
            _ => "in the kernel".to_string(),
        };
        cause.detail = Some(match cause.detail.take() {
            Some(before) => format!("{before}, {detail}"),
            None => detail,
        });
    }
}

/// The thread that had the CPU, for a cause; none if its name is unknown.
pub fn owner(thread: u32, name: &str) -> Option<Owner> {
    (thread != 0 && !name.is_empty()).then(|| Owner {
        tid: thread,
        name: name.to_string(),
        ..Owner::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::cause::CauseKind;
    use std::fs;

    const TEXT: u64 = 0xffff_ffff_8100_0000;

    const FUNCTIONS: [&str; 8] = [
        "hrtimer_interrupt",
        "asm_sysvec_apic_timer_interrupt",
        "clear_page_erms",
        "exc_page_fault",
        "asm_exc_page_fault",
        "el1_interrupt",
        "el1h_64_irq",
        "_raw_spin_unlock_irqrestore",
    ];

    fn within(place: u64) -> u64 {
        TEXT + place * 0x100 + 8
    }

    #[test]
    fn functions_below_the_interrupt_were_interrupted() {
        let names = Names::of_functions(&FUNCTIONS);
        let stack = [within(0), within(1), within(2), within(3), within(4)];
        assert_eq!(interrupted(&stack, &names), ["clear_page_erms", "exc_page_fault", "asm_exc_page_fault"]);
        // arm64 enters by two functions.
        assert_eq!(interrupted(&[within(0), within(5), within(6), within(2)], &names), ["clear_page_erms"]);
    }

    #[test]
    fn the_edge_of_another_interrupt_is_not_the_thread() {
        let names = Names::of_functions(&[
            "hrtimer_interrupt",
            "asm_sysvec_apic_timer_interrupt",
            "irqentry_exit_to_user_mode",
            "asm_sysvec_reschedule_ipi",
            "task_work_run",
            "entry_SYSCALL_64",
        ]);
        let at_edge =
            |places: &[u64]| is_at_edge(&places.iter().copied().map(within).collect::<Vec<_>>(), &names);
        assert!(at_edge(&[0, 1, 2, 3]));
        // Work of the thread on that way, a way out of a system call, an interrupt of user mode itself.
        for other in [&[0, 1, 4, 2, 3][..], &[0, 1, 2, 5], &[0, 1, 4, 5], &[0, 1], &[0]] {
            assert!(!at_edge(other), "{other:?}");
        }
    }

    #[test]
    fn an_interrupt_of_user_mode_names_no_function() {
        let names = Names::of_functions(&FUNCTIONS);
        assert_eq!(interrupted(&[within(0), within(1)], &names), [""; 0]);
        assert_eq!(
            interrupted(&[within(2), within(3)], &names),
            [""; 0],
            "a wakeup without an interrupt names none"
        );
        assert_eq!(interrupted(&[], &names), [""; 0]);
    }

    #[test]
    fn a_stack_shows_what_the_interrupt_came_to() {
        let names = Names::of_functions(&[&FUNCTIONS[..], &["handle_softirqs", "ttwu_queue", "x"]].concat());
        for (stack, in_user_mode, context) in [
            (&[0, 1][..], true, Some(KernelContext::Hardirq)),
            (&[0, 5, 6], true, Some(KernelContext::Hardirq)),
            (&[0, 1, 2], false, Some(KernelContext::Hardirq)),
            // A softirq that an interrupt in user mode left behind.
            (&[9, 8, 1], true, Some(KernelContext::Softirq)),
            // A system call of the thread that wakes.
            (&[9, 10], false, None),
            (&[], false, None),
        ] {
            let stack: Vec<u64> = stack.iter().map(|place| within(*place)).collect();
            assert_eq!(
                (is_in_user_mode(&stack, &names), super::context(&stack, &names)),
                (in_user_mode, context)
            );
        }
    }

    #[test]
    fn under_a_softirq_lies_the_threads_own_part() {
        let names = Names::of_functions(&[&FUNCTIONS[..], &["handle_softirqs"]].concat());
        for (stack, part) in [
            // The wakeup's interrupt came in a softirq, and that one's in the kernel, or in user mode.
            (&[0, 1, 8, 1, 2, 3][..], &[1, 2, 3][..]),
            (&[0, 1, 8, 1], &[]),
            (&[0, 1, 2, 3], &[]),
            (&[2, 3], &[]),
        ] {
            let stack: Vec<u64> = stack.iter().map(|place| within(*place)).collect();
            let part: Vec<u64> = part.iter().map(|place| within(*place)).collect();
            assert_eq!(outer(&stack, &names), part);
        }
    }

    #[test]
    fn a_call_at_the_end_belongs_to_its_function() {
        let names = Names::of_functions(&FUNCTIONS);
        // A return address may be the first address of the next function; the interrupted function may be at
        // its first instruction.
        let stack = [within(0), within(1), TEXT + 0x300, TEXT + 0x300];
        assert_eq!(interrupted(&stack, &names), ["exc_page_fault", "clear_page_erms"]);
    }

    #[test]
    fn functions_that_enable_interrupts_are_skipped() {
        let names = Names::of_functions(&FUNCTIONS);
        let function = |stack: &[u64]| {
            let mut cause = Cause::timed(CauseKind::Thread, "rustc", 0, 5);
            KeptBy { stack, priorities: (None, None), preemption: "PREEMPT" }.blame(&mut cause, &names);
            (cause.function.unwrap(), cause.stack.len())
        };
        let opening = [within(0), within(1), within(7), within(2)];
        assert_eq!(function(&opening), ("clear_page_erms".to_string(), 2));
        assert_eq!(function(&opening[..3]), ("_raw_spin_unlock_irqrestore".to_string(), 1));
    }

    #[test]
    fn only_a_thread_of_lower_priority_had_preemption_off() {
        let names = Names::of_functions(&FUNCTIONS);
        let stack = [within(0), within(1), within(2)];
        let detail = |priorities| {
            let mut cause = Cause::timed(CauseKind::Thread, "rustc", 0, 5);
            KeptBy { stack: &stack, priorities, preemption: "PREEMPT_NONE" }.blame(&mut cause, &names);
            assert_eq!(cause.function.as_deref(), Some("clear_page_erms"));
            cause.detail.unwrap()
        };
        let off = "in the kernel with preemption off (this kernel is PREEMPT_NONE)";
        assert_eq!(detail((Some(120), Some(19))), off);
        assert_eq!(detail((Some(0), Some(19))), "in the kernel");
        assert_eq!(detail((Some(19), Some(19))), "in the kernel");
        assert_eq!(detail((None, Some(19))), "in the kernel");
    }

    #[test]
    fn each_class_has_a_limit_of_its_own() {
        assert_eq!([-1, 19, 120].map(limit_of), [RESERVATION, RT_LIMIT, QUOTA]);
        assert!(gives_way(120, 19) && !gives_way(19, 19) && !gives_way(139, 120));
    }

    #[test]
    fn reads_the_priority_behind_any_name() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/7")).unwrap();
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 -81 0 1 0 55 0 0\n";
        fs::write(root.path().join("proc/7/stat"), stat).unwrap();
        assert_eq!(priority(root.path(), 7), Some(19));
        assert_eq!(priority(root.path(), 8), None);
        assert_eq!(
            [-1, 19, 120].map(scheduled_as),
            ["deadline", "real-time priority 80", "ordinary"].map(str::to_string)
        );
    }
}
