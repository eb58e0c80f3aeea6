// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event of the kernel's tracer, whatever brought it: a ring buffer, or a file of another tool.

use std::borrow::Cow;

use crate::format::Format;

/// The context in an event's flags (include/linux/trace_events.h): an NMI, an interrupt, a softirq.
pub const NMI: u8 = 0x40;
/// See [`NMI`].
pub const HARDIRQ: u8 = 0x08;
/// See [`NMI`].
pub const SOFTIRQ: u8 = 0x10;

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct TraceEvent<'a> {
    /// The CPU that wrote it.
    pub cpu: u32,
    /// Its time, by the clock of its trace, in nanoseconds.
    pub ns: u64,
    /// The thread that had the CPU; 0 is the idle one.
    pub thread: u32,
    /// The kernel's flags of the interrupt above that thread (`TRACE_FLAG_…`); `None` where the trace lacks
    /// them.
    pub flags: Option<u8>,
    /// The event.
    pub name: EventName,
    /// Its fields.
    pub fields: Fields<'a>,
}

impl<'a> TraceEvent<'a> {
    /// An event as the kernel wrote it.
    pub fn raw(cpu: u32, ns: u64, name: EventName, format: &'a Format, data: &'a [u8]) -> TraceEvent<'a> {
        let thread = format.number(data, "common_pid").unwrap_or(0) as u32;
        let flags = format.number(data, "common_flags").map(|flags| flags as u8);
        TraceEvent { cpu, ns, thread, flags, name, fields: Fields::Raw(format, data) }
    }
}

/// The fields of an event.
#[derive(Debug, Clone, Copy)]
pub enum Fields<'a> {
    /// As the kernel wrote them.
    Raw(&'a Format, &'a [u8]),
    /// By their names.
    Named(&'a NamedFields),
}

/// Fields by their names, which are the kernel's.
pub type NamedFields = [(Cow<'static, str>, FieldValue)];

/// A field that a file of another tool names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// A number; one below zero as the kernel keeps it.
    Number(u64),
    /// A text.
    Text(String),
    /// Several numbers: the arguments of a call, a stack.
    Numbers(Vec<u64>),
}

impl Fields<'_> {
    fn named(&self, field: &str) -> Option<&FieldValue> {
        let Fields::Named(fields) = self else { return None };
        fields.iter().find(|(name, _)| name == field).map(|(_, value)| value)
    }

    /// A number.
    pub fn number(&self, field: &str) -> Option<u64> {
        match self {
            Fields::Raw(format, data) => format.number(data, field),
            Fields::Named(_) => match self.named(field)? {
                FieldValue::Number(number) => Some(*number),
                _ => None,
            },
        }
    }

    /// A number of 32 bits.
    pub fn small(&self, field: &str) -> Option<u32> {
        self.number(field).map(|number| number as u32)
    }

    /// A name in the field itself.
    pub fn text(&self, field: &str) -> Option<String> {
        match self {
            Fields::Raw(format, data) => format.text(data, field),
            Fields::Named(_) => match self.named(field)? {
                FieldValue::Text(text) => Some(text.clone()),
                _ => None,
            },
        }
    }

    /// A text to which the field points (`__data_loc`).
    pub fn dynamic_text(&self, field: &str) -> Option<String> {
        match self {
            Fields::Raw(format, data) => format.dynamic_text(data, field),
            Fields::Named(_) => self.text(field),
        }
    }

    /// Several numbers in one field.
    pub fn numbers(&self, field: &str) -> Vec<u64> {
        match self {
            Fields::Raw(format, data) => format.array(data, field).unwrap_or_default(),
            Fields::Named(_) => match self.named(field) {
                Some(FieldValue::Numbers(numbers)) => numbers.clone(),
                _ => Vec::new(),
            },
        }
    }

    /// Numbers from a field to the end of the event: a stack.
    pub fn rest(&self, field: &str) -> Vec<u64> {
        match self {
            Fields::Raw(format, data) => format.to_end(data, field),
            Fields::Named(_) => self.numbers(field),
        }
    }

    /// Text from a field to the end of the event.
    pub fn rest_text(&self, field: &str) -> Option<String> {
        match self {
            Fields::Raw(format, data) => format.rest(data, field),
            Fields::Named(_) => self.text(field),
        }
    }
}

/// The names of events that are read, by the kernel's own.
macro_rules! event_names {
    ($($name:ident: $kernel:literal,)*) => {
        /// An event that is read. A trace may hold any others.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventName {
            $(
                #[doc = concat!("`", $kernel, "`")]
                $name,
            )*
        }

        impl EventName {
            /// The event of this name, without its system.
            pub fn of(name: &str) -> Option<EventName> {
                match name {
                    $($kernel => Some(EventName::$name),)*
                    _ => None,
                }
            }

            /// The kernel's name of it.
            pub fn kernel(self) -> &'static str {
                match self {
                    $(EventName::$name => $kernel,)*
                }
            }
        }
    };
}

event_names! {
    Switch: "sched_switch",
    Waking: "sched_waking",
    Wakeup: "sched_wakeup",
    Migrate: "sched_migrate_task",
    LendPriority: "sched_pi_setprio",
    Fork: "sched_process_fork",
    Exec: "sched_process_exec",
    Exit: "sched_process_exit",
    Rename: "task_rename",
    TimerStart: "hrtimer_start",
    TimerExpires: "hrtimer_expire_entry",
    TimerExpired: "hrtimer_expire_exit",
    IrqEntry: "irq_handler_entry",
    IrqExit: "irq_handler_exit",
    SoftirqEntry: "softirq_entry",
    SoftirqExit: "softirq_exit",
    SoftirqRaise: "softirq_raise",
    CallEntry: "sys_enter",
    CallExit: "sys_exit",
    UserFault: "page_fault_user",
    KernelFault: "page_fault_kernel",
    Signal: "signal_deliver",
    Stack: "kernel_stack",
    Mark: "print",
}
