// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a bundle (protos/perfetto/trace/ftrace/ftrace_event_bundle.proto), and what one bundle needs
//! to know of those before it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::super::named::NamedEvent;
use super::super::protobuf::{DamagedMessage, ProtobufMessage, ProtobufValue};
use super::super::window::SortingWindow;
use super::tables::{self, Described, KernelSymbol, Layout, message};
use super::{BUNDLE, CLEARED, CPUS, DROPPED, FLAGS, INTERNED, IS_CLEARED, SEQUENCE};
use crate::event::EventName;

/// Fields of a bundle.
pub const CPU: u32 = 1;
const EVENT: u32 = 2;
const LOST: u32 = 3;
const COMPACT: u32 = 4;
pub const CLOCK: u32 = 5;
const ERROR: u32 = 8;
pub const LAST_READ: u32 = 9;
pub const PREVIOUS_END: u32 = 10;
const DESCRIPTOR: u32 = 11;

/// Fields of an event.
const TIME: u32 = 1;
const THREAD: u32 = 2;
const EVENT_FLAGS: u32 = 5;

/// The functions' names in `InternedData`.
const KERNEL_SYMBOLS: u32 = 26;

/// The most names of functions, and events that are described.
const SYMBOLS: usize = 1 << 16;
const DESCRIPTORS: usize = 256;

/// The most events of a bundle: Perfetto reads 256 pages of a CPU at once, and an event takes 12 bytes.
const EVENTS: usize = 1 << 18;

/// The bytes of a thread's name (`TASK_COMM_LEN`).
const COMM: usize = 16;

/// Numbers of events.
const SWITCH: u32 = 4;
const WAKING: u32 = 20;

/// The clock in a bundle, as tracefs names it.
pub fn clock(number: u64) -> &'static str {
    match number {
        2 => "global",
        3 => "local",
        4 => "mono_raw",
        _ => "unknown",
    }
}

/// An event, or a loss, in the order of time.
#[derive(Debug)]
pub struct Part {
    pub cpu: Option<u32>,
    thread: u32,
    flags: Option<u8>,
    event: Option<(EventName, Layout, Box<[u8]>)>,
    pass: u64,
    function: KernelSymbol,
}

impl Part {
    fn loss(cpu: Option<u32>) -> Part {
        Part { cpu, thread: 0, flags: None, event: None, pass: 0, function: None }
    }

    pub fn is_loss(&self) -> bool {
        self.event.is_none()
    }

    /// The event with its fields.
    pub fn event(self, ns: u64) -> NamedEvent {
        let Part { cpu, thread, flags, event, pass, function } = self;
        let (name, fields) = match event {
            Some((name, layout, bytes)) => (name, layout.fields(&bytes, pass, &function).unwrap_or_default()),
            None => (EventName::Mark, Vec::new()),
        };
        NamedEvent { cpu: cpu.unwrap_or(0), ns, thread, flags, name, fields }
    }
}

/// The thread that has a CPU, by the switch to it.
#[derive(Debug, Clone)]
struct Running {
    thread: u64,
    prio: u64,
    name: Box<[u8]>,
}

/// The knowledge of the bundles before.
#[derive(Debug)]
pub struct Bundles {
    /// Until then one of the CPUs has no events.
    start_ns: u64,
    running: HashMap<u32, Running>,
    symbols: HashMap<(u64, u64), Arc<str>>,
    described: HashMap<u32, (EventName, Described)>,
    /// By writer of packets, its last bundle: the CPU, and the number of its list of addresses.
    passes: HashMap<u64, (u32, u64)>,
    pass: u64,
}

/// An event of a bundle.
enum Found<'a> {
    /// The event, the number of its kind, and its fields.
    Whole(&'a [u8], u32, &'a [u8]),
    Switch {
        state: u64,
        to: Running,
    },
    Waking {
        thread: u64,
        to: u64,
        prio: u64,
        name: &'a [u8],
        flags: Option<u8>,
    },
}

impl Bundles {
    pub fn new(start_ns: u64) -> Bundles {
        Bundles {
            start_ns,
            running: HashMap::new(),
            symbols: HashMap::new(),
            described: HashMap::new(),
            passes: HashMap::new(),
            pass: 0,
        }
    }

    /// Puts the events of a packet into the window; the number of those that came too late.
    pub fn add(&mut self, packet: &[u8], window: &mut SortingWindow<Part>) -> io::Result<u64> {
        let (mut bundle, mut interned, mut sequence) = (None, None, 0);
        let (mut is_cleared, mut is_dropped) = (false, false);
        for field in ProtobufMessage::new(packet) {
            let (field, value) = field.map_err(|DamagedMessage| damaged("packet"))?;
            match field {
                BUNDLE => bundle = Some(value.bytes()),
                INTERNED => interned = Some(value.bytes()),
                SEQUENCE => sequence = value.number(),
                FLAGS => is_cleared |= value.number() & IS_CLEARED != 0,
                CLEARED => is_cleared |= value.number() != 0,
                DROPPED => is_dropped = value.number() != 0,
                _ => {}
            }
        }
        if is_cleared {
            self.symbols.retain(|(of, _), _| *of != sequence);
        }
        let interned = ProtobufMessage::new(interned.unwrap_or_default()).flatten();
        for (_, symbol) in interned.filter(|(field, _)| *field == KERNEL_SYMBOLS) {
            let [place, name] = [1, 2].map(|field| ProtobufMessage::last(symbol.bytes(), field));
            if let (Some(place), Some(name), true) = (place, name, self.symbols.len() < SYMBOLS) {
                self.symbols.insert((sequence, place.number()), name.name().into());
            }
        }
        let Some(bundle) = bundle else { return Ok(0) };
        // The first one has nothing before it.
        let is_lost = is_dropped && self.passes.contains_key(&sequence);
        self.bundle(bundle, sequence, is_cleared, is_lost, window)
    }

    fn bundle(
        &mut self,
        bundle: &[u8],
        sequence: u64,
        is_cleared: bool,
        is_dropped: bool,
        window: &mut SortingWindow<Part>,
    ) -> io::Result<u64> {
        let mut events: Vec<(u64, Found<'_>)> = Vec::new();
        let (mut cpu, mut is_lost, mut compact) = (None, false, None);
        for field in ProtobufMessage::new(bundle) {
            let (field, value) = field.map_err(|DamagedMessage| damaged("bundle"))?;
            match field {
                CPU => cpu = u32::try_from(value.number()).ok(),
                LOST => is_lost |= value.number() != 0,
                ERROR => is_lost = true,
                COMPACT => compact = Some(value.bytes()),
                EVENT if events.len() > EVENTS => return Err(damaged("bundle")),
                EVENT => events.extend(event(value.bytes())?),
                DESCRIPTOR if self.described.len() < DESCRIPTORS => {
                    let [number, event] = [1, 2].map(|field| ProtobufMessage::last(value.bytes(), field));
                    if let Some(described) = event.and_then(|event| tables::described(event.bytes())) {
                        self.described.insert(number.map_or(0, |number| number.number() as u32), described);
                    }
                }
                _ => {}
            }
        }
        let cpu = cpu.filter(|cpu| *cpu < CPUS).ok_or_else(|| damaged("bundle"))?;
        events.extend(self::compact(compact.unwrap_or_default())?);
        events.sort_by_key(|(ns, _)| *ns);
        // Perfetto reads the CPUs' buffers in their order, and forgets the list of addresses after the last.
        let pass = match self.passes.get(&sequence) {
            Some((before, pass)) if cpu > *before && !is_cleared => *pass,
            _ => {
                self.pass += 1;
                self.pass
            }
        };
        if self.passes.len() < SYMBOLS {
            self.passes.insert(sequence, (cpu, pass));
        }
        let first_ns = events.first().map_or(window.last_ns(), |(ns, _)| *ns);
        if is_dropped {
            self.running.clear();
            window.push(first_ns.max(window.last_ns()), 0, Part::loss(None));
        } else if is_lost {
            self.running.remove(&cpu);
            window.push(first_ns.max(window.last_ns()), 0, Part::loss(Some(cpu)));
        }
        let mut late = 0;
        for (ns, event) in events {
            let Some(part) = self.part(cpu, event, (sequence, pass)) else { continue };
            let bytes = part.event.as_ref().map_or(0, |(.., bytes)| bytes.len());
            if ns > self.start_ns && !window.push(ns, bytes, part) {
                late += 1;
            }
        }
        Ok(late)
    }

    fn part(&mut self, cpu: u32, event: Found<'_>, list: (u64, u64)) -> Option<Part> {
        let (number, thread, flags, bytes): (u32, u64, Option<u8>, Box<[u8]>) = match event {
            Found::Whole(event, number, fields) => {
                let thread = ProtobufMessage::last(event, THREAD).map_or(0, ProtobufValue::number);
                let flags = ProtobufMessage::last(event, EVENT_FLAGS).map(|flags| flags.number() as u8);
                (number, thread, flags, fields.into())
            }
            Found::Switch { state, to } => {
                let from = self.running.insert(cpu, to.clone())?;
                let fields = message(&[
                    (1, ProtobufValue::Bytes(&from.name)),
                    (2, ProtobufValue::Number(from.thread)),
                    (3, ProtobufValue::Number(from.prio)),
                    (4, ProtobufValue::Number(state)),
                    (5, ProtobufValue::Bytes(&to.name)),
                    (6, ProtobufValue::Number(to.thread)),
                    (7, ProtobufValue::Number(to.prio)),
                ]);
                (SWITCH, from.thread, None, fields)
            }
            Found::Waking { thread, to, prio, name, flags } => {
                let fields = message(&[
                    (1, ProtobufValue::Bytes(name)),
                    (2, ProtobufValue::Number(thread)),
                    (3, ProtobufValue::Number(prio)),
                    (5, ProtobufValue::Number(to)),
                ]);
                (WAKING, self.running.get(&cpu).map_or(0, |running| running.thread), flags, fields)
            }
        };
        let (name, layout) = match (tables::event(number), self.described.get(&number)) {
            (Some((name, table)), _) => (name, Layout::Known(table)),
            (None, Some((name, table))) => (*name, Layout::Described(Arc::clone(table))),
            (None, None) if number == tables::GENERIC => {
                (EventName::of(&ProtobufMessage::last(&bytes, 1)?.text())?, Layout::Generic)
            }
            (None, None) => return None,
        };
        let place = layout.function(&bytes);
        let function = place.and_then(|place| self.symbols.get(&(list.0, place)).cloned());
        let (event, thread) = (Some((name, layout, bytes)), thread as u32);
        Some(Part { cpu: Some(cpu), thread, flags, event, pass: list.1, function })
    }
}

/// An event of its own message; `None` for one that is not read.
fn event(event: &[u8]) -> io::Result<Option<(u64, Found<'_>)>> {
    let (mut ns, mut found) = (None, None);
    for field in ProtobufMessage::new(event) {
        let (field, value) = field.map_err(|DamagedMessage| damaged("event"))?;
        match (field, value) {
            (TIME, ProtobufValue::Number(time)) => ns = Some(time),
            (number, ProtobufValue::Bytes(fields)) => found = Some((number, fields)),
            _ => {}
        }
    }
    let Some((number, fields)) = found else { return Ok(None) };
    Ok(Some((ns.ok_or_else(|| damaged("event"))?, Found::Whole(event, number, fields))))
}

/// The switches and wakeups of `compact_sched`: one list for each of their fields.
fn compact(bytes: &[u8]) -> io::Result<Vec<(u64, Found<'_>)>> {
    let mut lists: [Vec<u64>; 13] = Default::default();
    let mut names: Vec<&[u8]> = Vec::new();
    for field in ProtobufMessage::new(bytes) {
        match field.map_err(|DamagedMessage| damaged("bundle"))? {
            (5, name) => names.push(&name.bytes()[..name.bytes().len().min(COMM)]),
            (number @ 1..13, value) => lists[number as usize].extend(value.numbers(EVENTS)),
            _ => {}
        }
    }
    if lists.iter().any(|list| list.len() > EVENTS) {
        return Err(damaged("bundle"));
    }
    let column = |list: usize, row: usize| lists[list].get(row).copied();
    let name = |list: usize, row: usize| names.get(usize::try_from(column(list, row)?).ok()?).copied();
    let mut events = Vec::new();
    let mut ns: u64 = 0;
    for (row, delta) in lists[1].iter().enumerate() {
        ns = ns.wrapping_add(*delta);
        let to =
            || Some(Running { thread: column(3, row)?, prio: column(4, row)?, name: name(6, row)?.into() });
        let event = column(2, row).zip(to()).ok_or_else(|| damaged("bundle"))?;
        events.push((ns, Found::Switch { state: event.0, to: event.1 }));
    }
    ns = 0;
    for (row, delta) in lists[7].iter().enumerate() {
        ns = ns.wrapping_add(*delta);
        let flags = column(12, row).map(|flags| flags as u8);
        let event = || {
            let (thread, to, prio) = (column(8, row)?, column(9, row)?, column(10, row)?);
            Some(Found::Waking { thread, to, prio, name: name(11, row)?, flags })
        };
        events.push((ns, event().ok_or_else(|| damaged("bundle"))?));
    }
    Ok(events)
}

fn damaged(part: &str) -> io::Error {
    io::Error::other(format!("a {part} is damaged"))
}
