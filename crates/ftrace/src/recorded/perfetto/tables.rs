// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's events as Perfetto's messages: their numbers in `FtraceEvent`, and those of their fields
//! (protos/perfetto/trace/ftrace/ftrace_event.proto, sched.proto, irq.proto, timer.proto, task.proto,
//! raw_syscalls.proto, signal.proto, ftrace.proto, generic.proto of Perfetto v54).

use std::borrow::Cow;
use std::sync::Arc;

use super::super::protobuf::{DamagedMessage, ProtobufMessage, ProtobufValue};
use crate::event::{EventName, FieldValue};

/// The fields of an event: their numbers, names and types.
pub type FieldTable = &'static [(u32, &'static str, FieldKind)];

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Number,
    Text,
    Numbers,
    /// The place of an address in a list that is made anew whenever Perfetto reads the kernel's buffers.
    Address,
    /// Such a place, whose function the packets name.
    Function,
}

use FieldKind::{Address, Function, Number, Numbers, Text};

const WAKES: FieldTable =
    &[(1, "comm", Text), (2, "pid", Number), (3, "prio", Number), (5, "target_cpu", Number)];
const SOFTIRQ: FieldTable = &[(1, "vec", Number)];

/// The event without a message of its own.
pub const GENERIC: u32 = 327;

/// The events that are read.
const EVENTS: &[(u32, EventName, FieldTable)] = &[
    (3, EventName::Mark, &[(2, "buf", Text)]),
    (4, EventName::Switch, SWITCH),
    (17, EventName::Wakeup, WAKES),
    (20, EventName::Waking, WAKES),
    (24, EventName::SoftirqEntry, SOFTIRQ),
    (25, EventName::SoftirqExit, SOFTIRQ),
    (26, EventName::SoftirqRaise, SOFTIRQ),
    (36, EventName::IrqEntry, &[(1, "irq", Number), (2, "name", Text)]),
    (37, EventName::IrqExit, &[(1, "irq", Number), (2, "ret", Number)]),
    (236, EventName::Rename, &[(1, "pid", Number), (2, "oldcomm", Text), (3, "newcomm", Text)]),
    (237, EventName::Exec, &[(1, "filename", Text), (2, "pid", Number), (3, "old_pid", Number)]),
    (238, EventName::Exit, &[(1, "comm", Text), (2, "pid", Number), (4, "prio", Number)]),
    (
        239,
        EventName::Fork,
        &[
            (1, "parent_comm", Text),
            (2, "parent_pid", Number),
            (3, "child_comm", Text),
            (4, "child_pid", Number),
        ],
    ),
    (324, EventName::Signal, &[(1, "code", Number), (2, "sa_flags", Number), (3, "sig", Number)]),
    (329, EventName::CallEntry, &[(1, "id", Number), (2, "args", Numbers)]),
    (330, EventName::CallExit, &[(1, "id", Number), (2, "ret", Number)]),
    (
        353,
        EventName::LendPriority,
        &[(1, "comm", Text), (2, "newprio", Number), (3, "oldprio", Number), (4, "pid", Number)],
    ),
    (
        491,
        EventName::Migrate,
        &[
            (1, "comm", Text),
            (2, "pid", Number),
            (3, "prio", Number),
            (4, "orig_cpu", Number),
            (5, "dest_cpu", Number),
        ],
    ),
    (
        551,
        EventName::TimerStart,
        &[
            (1, "hrtimer", Address),
            (2, "function", Function),
            (3, "expires", Number),
            (4, "softexpires", Number),
            (5, "mode", Number),
        ],
    ),
    (553, EventName::TimerExpires, &[(1, "hrtimer", Address), (2, "now", Number), (3, "function", Function)]),
    (554, EventName::TimerExpired, &[(1, "hrtimer", Address)]),
];

const SWITCH: FieldTable = &[
    (1, "prev_comm", Text),
    (2, "prev_pid", Number),
    (3, "prev_prio", Number),
    (4, "prev_state", Number),
    (5, "next_comm", Text),
    (6, "next_pid", Number),
    (7, "next_prio", Number),
];

/// The event of this number.
pub fn event(number: u32) -> Option<(EventName, FieldTable)> {
    EVENTS.iter().find(|(event, ..)| *event == number).map(|(_, name, table)| (*name, *table))
}

/// The fields of an event that the packets describe: their numbers and names.
pub type Described = Arc<[(u32, String)]>;

/// The most fields of such an event, and numbers in one.
const FIELDS: usize = 64;

/// The name and the fields in a `DescriptorProto`.
pub fn described(descriptor: &[u8]) -> Option<(EventName, Described)> {
    let name = EventName::of(&ProtobufMessage::last(descriptor, 1)?.name())?;
    let fields = ProtobufMessage::new(descriptor).flatten().filter(|(number, _)| *number == 2);
    let field = |(_, field): (u32, ProtobufValue<'_>)| {
        let field = field.bytes();
        Some((
            u32::try_from(ProtobufMessage::last(field, 3)?.number()).ok()?,
            ProtobufMessage::last(field, 1)?.name(),
        ))
    };
    Some((name, fields.filter_map(field).take(FIELDS).collect()))
}

/// How the bytes of an event are read.
#[derive(Debug, Clone)]
pub enum Layout {
    Known(FieldTable),
    Described(Described),
    Generic,
}

/// The functions of the kernel by their places in the list of addresses.
pub type KernelSymbol = Option<Arc<str>>;

impl Layout {
    /// The fields of an event. `pass` counts the lists of addresses.
    pub fn fields(
        &self,
        event: &[u8],
        pass: u64,
        function: &KernelSymbol,
    ) -> Result<Vec<(Cow<'static, str>, FieldValue)>, DamagedMessage> {
        let mut fields: Vec<(Cow<'static, str>, FieldValue)> = Vec::new();
        let whole = |value: ProtobufValue<'_>| match value {
            ProtobufValue::Number(number) => FieldValue::Number(number),
            text => FieldValue::Text(text.text()),
        };
        for field in ProtobufMessage::new(event) {
            let (number, value) = field?;
            match self {
                Layout::Generic => fields.extend(generic(number, value)),
                Layout::Described(table) => {
                    let known = table.iter().find(|(field, _)| *field == number);
                    fields.extend(known.map(|(_, name)| (name.clone().into(), whole(value))));
                }
                Layout::Known(table) => {
                    let Some((_, name, kind)) = table.iter().find(|(field, ..)| *field == number) else {
                        continue;
                    };
                    let value = match kind {
                        Number => FieldValue::Number(value.number()),
                        Text => FieldValue::Text(value.text()),
                        Address => FieldValue::Number(pass << 32 | value.number()),
                        Function => match function {
                            Some(function) => FieldValue::Text(function.to_string()),
                            None => continue,
                        },
                        Numbers => match fields.iter_mut().find(|(field, _)| field == name) {
                            Some((_, FieldValue::Numbers(numbers))) => {
                                numbers.extend(value.numbers(FIELDS));
                                continue;
                            }
                            _ => FieldValue::Numbers(value.numbers(FIELDS)),
                        },
                    };
                    fields.push(((*name).into(), value));
                }
            }
        }
        Ok(fields)
    }

    /// The place of the event's function in the list of addresses.
    pub fn function(&self, event: &[u8]) -> Option<u64> {
        let Layout::Known(table) = self else { return None };
        let (number, ..) = table.iter().find(|(.., kind)| *kind == Function)?;
        ProtobufMessage::last(event, *number).map(ProtobufValue::number)
    }
}

/// A field of a `GenericFtraceEvent`.
fn generic(number: u32, field: ProtobufValue<'_>) -> Option<(Cow<'static, str>, FieldValue)> {
    let field = field.bytes();
    let name = (number == 2).then(|| ProtobufMessage::last(field, 1)).flatten()?.text();
    let value = ProtobufMessage::new(field).flatten().find_map(|(number, value)| match number {
        3 => Some(FieldValue::Text(value.text())),
        4 | 5 => Some(FieldValue::Number(value.number())),
        _ => None,
    });
    Some((name.into(), value?))
}

/// The bytes of a message that has these fields.
pub fn message(fields: &[(u32, ProtobufValue<'_>)]) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(64);
    let mut add = |mut number: u64, more: &[u8]| {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes.extend(more);
    };
    for (field, value) in fields {
        let tag = u64::from(*field) << 3;
        match value {
            ProtobufValue::Number(number) => {
                add(tag, &[]);
                add(*number, &[]);
            }
            ProtobufValue::Bytes(text) => {
                add(tag | 2, &[]);
                add(text.len() as u64, text);
            }
        }
    }
    bytes.into()
}
