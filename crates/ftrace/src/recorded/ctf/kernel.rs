// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of lttng-modules as the kernel's own (include/instrumentation/events and syscalls of
//! lttng-modules): their names, those of their fields, and priorities, of which lttng-modules subtracts 100.

use std::borrow::Cow;
use std::str::FromStr;

use syscalls::Sysno;

use super::types::Values;
use crate::event::{EventName, FieldValue};

/// The least priority of ordinary threads (`MAX_RT_PRIO`).
const MAX_RT_PRIO: u64 = 100;

/// Systems that are part of a name.
const SYSTEMS: [&str; 4] = ["timer_", "irq_", "x86_exceptions_", "signal_"];

const CALLS: [(&str, EventName); 2] = [("entry_", EventName::CallEntry), ("exit_", EventName::CallExit)];

/// Calls all of whose arguments come in their order. Of others the first one does.
const IN_ORDER: [Sysno; 4] = [Sysno::clock_nanosleep, Sysno::futex, Sysno::fcntl, Sysno::timerfd_settime];

/// An event that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub name: EventName,
    /// Of a system call, where this machine has it.
    call: Option<Sysno>,
}

/// The event of lttng-modules with this name.
pub fn known(name: &str) -> Option<Known> {
    let call = name.strip_prefix("compat_").unwrap_or(name).strip_prefix("syscall_");
    if let Some(rest) = call {
        let (call, name) = CALLS.iter().find_map(|(kind, name)| Some((rest.strip_prefix(kind)?, *name)))?;
        return Some(Known { name, call: Sysno::from_str(call).ok() });
    }
    let of = |name: &str| EventName::of(name).map(|name| Known { name, call: None });
    of(name).or_else(|| SYSTEMS.iter().find_map(|system| of(name.strip_prefix(system)?)))
}

impl Known {
    /// The fields as the kernel names them.
    pub fn fields(self, values: Values) -> Values {
        if matches!(self.name, EventName::CallEntry | EventName::CallExit) {
            return self.call_fields(&values);
        }
        let is_fork = self.name == EventName::Fork;
        let field = |(name, value): (Cow<'static, str>, FieldValue)| {
            // Names begin with a line so that they are no words of the description's language.
            let name = name.strip_prefix('_').unwrap_or(&name);
            // A thread's number is its `tid` here; of a fork the processes' are told, too.
            let named = match name.strip_suffix("tid") {
                Some(before) => format!("{before}pid"),
                None if is_fork && name.ends_with("pid") => return None,
                None => name.to_string(),
            };
            let value = match value {
                FieldValue::Number(prio) if named.ends_with("prio") => {
                    FieldValue::Number(prio.wrapping_add(MAX_RT_PRIO))
                }
                value => value,
            };
            Some((named.into(), value))
        };
        values.into_iter().filter_map(field).collect()
    }

    fn call_fields(self, values: &Values) -> Values {
        let mut fields = Values::new();
        fields.extend(self.call.map(|call| ("id".into(), FieldValue::Number(call.id() as u64))));
        let numbers = values.iter().filter_map(|(_, value)| match value {
            FieldValue::Number(number) => Some(*number),
            _ => None,
        });
        if self.name == EventName::CallEntry {
            let is_in_order = self.call.is_some_and(|call| IN_ORDER.contains(&call));
            let arguments = numbers.take(if is_in_order { 6 } else { 1 }).collect();
            fields.push(("args".into(), FieldValue::Numbers(arguments)));
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_names_of_the_kernel() {
        for (name, event) in [
            ("sched_switch", EventName::Switch),
            ("timer_hrtimer_expire_entry", EventName::TimerExpires),
            ("irq_handler_entry", EventName::IrqEntry),
            ("irq_softirq_raise", EventName::SoftirqRaise),
            ("x86_exceptions_page_fault_user", EventName::UserFault),
            ("syscall_entry_clock_nanosleep", EventName::CallEntry),
            ("compat_syscall_exit_read", EventName::CallExit),
        ] {
            assert_eq!(known(name).map(|known| known.name), Some(event), "{name}");
        }
        assert_eq!([known("timer_init"), known("syscall_other")], [None, None]);
    }

    #[test]
    fn fields_have_the_names_and_priorities_of_the_kernel() {
        let values = |fields: &[(&'static str, i64)]| -> Values {
            fields.iter().map(|(name, value)| ((*name).into(), FieldValue::Number(*value as u64))).collect()
        };
        let named = |name, fields: &[_]| known(name).unwrap().fields(values(fields));
        assert_eq!(
            named("sched_waking", &[("_tid", 7), ("_prio", -81)]),
            values(&[("pid", 7), ("prio", 19)])
        );
        let fork = named("sched_process_fork", &[("_child_tid", 8), ("_child_pid", 7)]);
        assert_eq!(fork, values(&[("child_pid", 8)]));
        let sleep = named("syscall_entry_clock_nanosleep", &[("_which_clock", 1), ("_flags", 1)]);
        assert_eq!(sleep[1].1, FieldValue::Numbers(vec![1, 1]));
        assert_eq!(sleep[0].1, FieldValue::Number(Sysno::clock_nanosleep.id() as u64));
        let read = named("syscall_entry_read", &[("_fd", 3), ("_count", 9)]);
        assert_eq!(read[1].1, FieldValue::Numbers(vec![3]));
    }
}
