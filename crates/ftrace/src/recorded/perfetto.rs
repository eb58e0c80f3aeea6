// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of Perfetto (perfetto.dev/docs, protos/perfetto/trace/trace_packet.proto): packets, some of which
//! are bundles of the events of one CPU.
//!
//! All packets are read twice. The first time tells what any of them says of the trace: its clock, names of
//! threads, and from when on it holds all CPUs. The second time gives the events. They wait in a window of
//! some bytes, since Perfetto writes what each CPU has, CPU by CPU, whenever it reads the kernel's buffers.
//! An event that comes too late for the window counts as lost.

mod bundle;
mod packets;
mod tables;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek};

use super::named::NamedEvent;
use super::protobuf::{ProtobufMessage, ProtobufValue};
use super::window::SortingWindow;
use super::{AboutTrace, Opened, ReadTrace, THREADS, TracePart};
use crate::{Error, Result};
use bundle::{Bundles, Part};
use packets::Packets;

/// The most CPUs, as of Perfetto itself.
const CPUS: u32 = 1_024;

/// Fields of a packet (trace_packet.proto).
const BUNDLE: u32 = 1;
const PROCESS_TREE: u32 = 2;
const CLOCK_SNAPSHOT: u32 = 6;
const SEQUENCE: u32 = 10;
const INTERNED: u32 = 12;
const FLAGS: u32 = 13;
const FTRACE_STATS: u32 = 34;
const CLEARED: u32 = 41;
const DROPPED: u32 = 42;
const THREAD: u32 = 44;
const SYSTEM_INFO: u32 = 45;

/// The flag of a packet with which lists begin anew (`SEQ_INCREMENTAL_STATE_CLEARED`).
const IS_CLEARED: u64 = 1;

/// Clocks of a snapshot (protos/perfetto/common/builtin_clock.proto).
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// The clocks of one snapshot are read one after the other.
const ONE_SNAPSHOT_NS: u64 = 1_000_000;

/// Whether these are the first bytes of such a file: a packet whose fields lie within it.
pub fn is(head: &[u8]) -> bool {
    let Some((0x0a, mut packet)) = head.split_first().map(|(first, rest)| (*first, rest)) else {
        return false;
    };
    let Some(length) = super::protobuf::varint(&mut packet).and_then(|length| usize::try_from(length).ok())
    else {
        return false;
    };
    let is_cut = length > packet.len();
    let mut fields = ProtobufMessage::new(&packet[..length.min(packet.len())]).peekable();
    let mut count = 0;
    while let Some(field) = fields.next() {
        match field {
            Ok((1..1_000, _)) => count += 1,
            // The last one goes on behind these bytes.
            Err(_) if is_cut && fields.peek().is_none() => break,
            _ => return false,
        }
    }
    // A text that begins with an empty line has no numbers.
    (count > 0 || is_cut) && head.iter().any(|byte| *byte < b'\t')
}

/// Reads what the packets say of the trace.
pub fn open(mut file: File) -> Opened {
    file.rewind().map_err(|error| error::reason(&error))?;
    let mut packets = Packets::new(file);
    let mut found = Found::default();
    // What is damaged is told where the events end.
    while let Ok(Some(packet)) = packets.next() {
        found.add(packet);
    }
    if found.starts.is_empty() {
        let why = "it has no events of the kernel: record the data source linux.ftrace with them";
        return Err(why.into());
    }
    let mut file = packets.into_file();
    file.rewind().map_err(|error| error::reason(&error))?;
    let start_ns = found.starts.values().copied().max().unwrap_or(0);
    let reader = Perfetto {
        packets: Packets::new(file),
        bundles: Bundles::new(start_ns),
        window: SortingWindow::new(),
        late: 0,
        all_late: 0,
        is_over: false,
        event: None,
        missing: None,
    };
    Ok((found.about(), Box::new(reader)))
}

/// The packets' words about the trace.
#[derive(Debug, Default)]
struct Found {
    about: AboutTrace,
    clock: Option<&'static str>,
    /// CLOCK_BOOTTIME is CLOCK_MONOTONIC until the machine is suspended.
    was_suspended: Option<bool>,
    /// Until when each CPU's events were overwritten.
    starts: BTreeMap<u32, u64>,
}

impl Found {
    fn about(self) -> AboutTrace {
        let boot = if self.was_suspended == Some(false) { "mono" } else { "boot" };
        AboutTrace {
            format: "trace of Perfetto".into(),
            clock: Some(self.clock.unwrap_or(boot).into()),
            ..self.about
        }
    }

    fn add(&mut self, packet: &[u8]) {
        for (field, value) in ProtobufMessage::new(packet).flatten() {
            match field {
                BUNDLE => self.add_bundle(value.bytes()),
                PROCESS_TREE => self.add_threads(value.bytes()),
                CLOCK_SNAPSHOT => self.add_clocks(value.bytes()),
                // ftrace_stats.proto: one `cpu_stats` each.
                FTRACE_STATS => {
                    let cpus = ProtobufMessage::new(value.bytes())
                        .flatten()
                        .filter(|(field, _)| *field == 2)
                        .count();
                    self.about.cpus = self.about.cpus.or(u32::try_from(cpus).ok().filter(|cpus| *cpus > 0));
                }
                // thread_descriptor.proto: `tid`, `thread_name`.
                THREAD => self.add_thread(value, 2, 5),
                SYSTEM_INFO => {
                    // system_info.proto: `utsname` with `release`, `num_cpus`.
                    let utsname =
                        ProtobufMessage::last(value.bytes(), 1).map_or(&[][..], ProtobufValue::bytes);
                    self.about.uname = ProtobufMessage::last(utsname, 3)
                        .map(ProtobufValue::name)
                        .or(self.about.uname.take());
                    let cpus = ProtobufMessage::last(value.bytes(), 8).map(|cpus| cpus.number() as u32);
                    self.about.cpus = cpus.or(self.about.cpus);
                }
                _ => {}
            }
        }
    }

    fn add_bundle(&mut self, bundle: &[u8]) {
        let Some(cpu) = ProtobufMessage::last(bundle, bundle::CPU).map(|cpu| cpu.number() as u32) else {
            return;
        };
        if let Some(clock) = ProtobufMessage::last(bundle, bundle::CLOCK) {
            self.clock = Some(bundle::clock(clock.number()));
        }
        if cpu < CPUS && !self.starts.contains_key(&cpu) {
            let ends =
                [bundle::PREVIOUS_END, bundle::LAST_READ].map(|field| ProtobufMessage::last(bundle, field));
            self.starts.insert(cpu, ends.into_iter().flatten().map(ProtobufValue::number).max().unwrap_or(0));
        }
    }

    /// process_tree.proto: `threads` with `tid` and `name`.
    fn add_threads(&mut self, tree: &[u8]) {
        let threads = ProtobufMessage::new(tree).flatten().filter(|(field, _)| *field == 2);
        threads.for_each(|(_, thread)| self.add_thread(thread, 1, 2));
    }

    fn add_thread(&mut self, thread: ProtobufValue<'_>, id: u32, name: u32) {
        let [id, name] = [id, name].map(|field| ProtobufMessage::last(thread.bytes(), field));
        if let (Some(id), Some(name)) = (id, name)
            && self.about.threads.len() < THREADS
        {
            self.about.threads.insert(id.number() as u32, name.name());
        }
    }

    /// clock_snapshot.proto: `clocks` with `clock_id` and `timestamp`.
    fn add_clocks(&mut self, snapshot: &[u8]) {
        let clocks = ProtobufMessage::new(snapshot).flatten().filter(|(field, _)| *field == 1);
        let clocks: BTreeMap<u64, u64> = clocks
            .filter_map(|(_, clock)| {
                let number = |field| ProtobufMessage::last(clock.bytes(), field).map(ProtobufValue::number);
                Some((number(1)?, number(2)?))
            })
            .collect();
        if let (Some(boot), Some(mono)) = (clocks.get(&BOOTTIME), clocks.get(&MONOTONIC)) {
            let is_apart = boot.abs_diff(*mono) > ONE_SNAPSHOT_NS;
            self.was_suspended = Some(is_apart || self.was_suspended == Some(true));
        }
    }
}

/// An open file.
#[derive(Debug)]
struct Perfetto {
    packets: Packets,
    bundles: Bundles,
    window: SortingWindow<Part>,
    /// Events that came too late since the last part, and in all.
    late: u64,
    all_late: u64,
    is_over: bool,
    event: Option<NamedEvent>,
    missing: Option<String>,
}

impl Perfetto {
    /// Reads packets until a part must leave the window.
    fn fill(&mut self) -> io::Result<()> {
        while !self.is_over && !self.window.is_full() {
            let Some(packet) = self.packets.next()? else {
                self.is_over = true;
                break;
            };
            let late = self.bundles.add(packet, &mut self.window)?;
            self.late += late;
            self.all_late += late;
        }
        Ok(())
    }
}

impl ReadTrace for Perfetto {
    fn next(&mut self) -> Result<Option<TracePart<'_>>> {
        match self.fill() {
            Err(error) if error.raw_os_error().is_some() => {
                return Err(Error::os("read the trace", &error, "check the medium and try again"));
            }
            Err(error) => {
                self.missing = Some(format!("the trace ends early: {}", error::reason(&error)));
                self.is_over = true;
            }
            Ok(()) => {}
        }
        if self.is_over && self.all_late > 0 && self.missing.is_none() {
            let late = self.all_late;
            self.missing = Some(format!("{late} events come too late in the file to be put in order"));
        }
        if self.late > 0 {
            let count = std::mem::take(&mut self.late);
            return Ok(Some(TracePart::Lost { cpu: None, ns: self.window.last_ns(), count }));
        }
        let Some((ns, part)) = self.window.pop() else { return Ok(None) };
        if part.is_loss() {
            return Ok(Some(TracePart::Lost { cpu: part.cpu, ns, count: 0 }));
        }
        Ok(Some(self.event.insert(part.event(ns)).part()))
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}
