// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the tools that write names and values in the place of the kernel's bytes.

use std::borrow::Cow;

use super::TracePart;
use crate::event::{EventName, FieldValue, Fields, TraceEvent};

/// An event whose fields are values.
#[derive(Debug)]
pub struct NamedEvent {
    pub cpu: u32,
    pub ns: u64,
    pub thread: u32,
    pub flags: Option<u8>,
    pub name: EventName,
    pub fields: Vec<(Cow<'static, str>, FieldValue)>,
}

impl NamedEvent {
    pub fn part(&self) -> TracePart<'_> {
        let NamedEvent { cpu, ns, thread, flags, name, .. } = *self;
        let fields = Fields::Named(&self.fields);
        TracePart::Event(TraceEvent { cpu, ns, thread, flags, name, fields })
    }
}

/// The event of this name, which some tools give another one.
pub fn named(name: &str) -> Option<EventName> {
    EventName::of(match name {
        "tracing_mark_write" => "print",
        name => name,
    })
}
