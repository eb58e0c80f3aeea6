// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream: the packets of one CPU in one file, one after the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Classes;
use super::kernel::Known;
use super::types::{DamagedPacket, PacketReader, Values};

/// The header and the context of a packet lie within so many bytes.
const HEAD: u64 = 4_096;

/// An event takes no more bits: where a packet has as many, none was discarded.
const ROOM: u64 = 256 * 8;

/// The first number of a packet.
const MAGIC: u64 = 0xc1fc_1fc1;

/// The longest packet: LTTng's have some MiB at most.
const PACKET: u64 = 64 << 20;

/// An event, or the number of those that the CPU lost, at a time by the trace's clock. A loss takes time: it
/// comes at its begin, and without a number at its end.
#[derive(Debug)]
pub enum StreamPart {
    Event(Known, Values, Option<u32>),
    Lost(u64),
}

/// A stream that is open.
#[derive(Debug)]
pub struct Stream {
    file: File,
    size: u64,
    /// The next packet.
    at: u64,
    packet: Vec<u8>,
    stream: u64,
    /// In bits.
    event_at: u64,
    end: u64,
    time: u64,
    end_time: u64,
    /// Of the packet before, and of this one.
    discarded: u64,
    number: Option<u64>,
    /// Events that were discarded when the packet was full, from this place on.
    lost: u64,
    full: u64,
    is_lost_until_end: bool,
    lost_before: bool,
    pub cpu: Option<u32>,
    /// When its first packet begins, where others were there before it.
    pub start: Option<u64>,
}

impl Stream {
    pub fn new(file: File) -> Stream {
        let size = super::super::size(&file);
        Stream {
            file,
            size,
            at: 0,
            packet: Vec::new(),
            stream: 0,
            event_at: 0,
            end: 0,
            time: 0,
            end_time: 0,
            discarded: 0,
            number: None,
            lost: 0,
            full: 0,
            is_lost_until_end: false,
            lost_before: false,
            cpu: None,
            start: None,
        }
    }

    /// The bytes that it holds.
    pub fn held(&self) -> usize {
        self.packet.capacity()
    }

    /// The next part, with its time.
    pub fn next(&mut self, classes: &Classes) -> io::Result<Option<(u64, StreamPart)>> {
        loop {
            if std::mem::take(&mut self.lost_before) {
                return Ok(Some((self.time, StreamPart::Lost(0))));
            }
            if self.lost > 0 && self.event_at >= self.full {
                let count = std::mem::take(&mut self.lost);
                (self.event_at, self.is_lost_until_end) = (self.end, true);
                return Ok(Some((self.time, StreamPart::Lost(count))));
            }
            if self.event_at >= self.end {
                if std::mem::take(&mut self.is_lost_until_end) {
                    self.time = self.time.max(self.end_time);
                    return Ok(Some((self.time, StreamPart::Lost(0))));
                }
                if !self.turn(classes)? {
                    return Ok(None);
                }
                continue;
            }
            let mut reader = PacketReader::new(&self.packet, self.event_at, self.end, self.time);
            let event = event(&mut reader, self.stream, classes).map_err(|DamagedPacket| damaged())?;
            // An event without a bit would come for ever.
            if reader.at <= self.event_at {
                return Err(damaged());
            }
            (self.event_at, self.time) = (reader.at, reader.time);
            if let Some((known, values, thread)) = event {
                return Ok(Some((self.time, StreamPart::Event(known, values, thread))));
            }
        }
    }

    /// Reads the next packet; whether there is one.
    fn turn(&mut self, classes: &Classes) -> io::Result<bool> {
        let rest = self.size.saturating_sub(self.at);
        if rest == 0 {
            self.packet = Vec::new();
            return Ok(false);
        }
        self.read(rest.min(HEAD))?;
        let bits = self.packet.len() as u64 * 8;
        let mut reader = PacketReader::new(&self.packet, 0, bits, self.time);
        self.stream = 0;
        if let Some(header) = &classes.metadata.packet_header {
            reader.read("", header, &mut None).map_err(|DamagedPacket| damaged())?;
            if reader.number("magic").is_some_and(|magic| magic != MAGIC) {
                return Err(damaged());
            }
            self.stream = reader.number("stream_id").unwrap_or(0);
        }
        let class = classes.metadata.streams.get(&self.stream).ok_or_else(damaged)?;
        if let Some(context) = &class.packet_context {
            reader.read("", context, &mut None).map_err(|DamagedPacket| damaged())?;
        }
        let whole = reader.number("packet_size").unwrap_or(rest.saturating_mul(8));
        let content = reader.number("content_size").unwrap_or(whole);
        let length = whole / 8;
        if length == 0 || length > rest || content > whole || reader.at > content {
            return Err(damaged());
        }
        // Babeltrace writes the second name.
        let cpu = reader.number("cpu_id").or_else(|| reader.number("_cpu_id"));
        self.cpu = cpu.map(|cpu| cpu as u32).or(self.cpu);
        self.time = reader.number("timestamp_begin").unwrap_or(self.time).max(self.time);
        self.end_time = reader.number("timestamp_end").unwrap_or(self.time);
        let number = reader.number("packet_seq_num");
        let is_first = self.number.is_none();
        self.lost_before = self.number.zip(number).is_some_and(|(before, now)| now != before.wrapping_add(1));
        self.number = number.or(self.number);
        // The counter is that of the packet's end. Nothing is discarded while the packet has room; once a
        // long event was, a short one may have found some.
        let is_later = is_first && number.is_some_and(|number| number > 0);
        if let Some(discarded) = reader.number("events_discarded") {
            self.lost = if is_later { 0 } else { discarded.saturating_sub(self.discarded) };
            self.discarded = discarded;
        }
        if is_later {
            self.start = Some(self.time);
        }
        (self.event_at, self.end) = (reader.at, content);
        self.full = content.min(whole.saturating_sub(ROOM));
        let bytes = content.div_ceil(8);
        if bytes > PACKET {
            return Err(io::Error::other(format!("a packet of it is longer than {} MiB", PACKET >> 20)));
        }
        self.read(bytes)?;
        self.at += length;
        Ok(true)
    }

    fn read(&mut self, length: u64) -> io::Result<()> {
        self.packet.resize(length as usize, 0);
        self.file.read_exact_at(&mut self.packet, self.at)
    }
}

/// Reads an event: its fields, and the thread of its context, where it is one that is read.
fn event<'a>(
    reader: &mut PacketReader<'a>,
    stream: u64,
    classes: &'a Classes,
) -> Result<Option<(Known, Values, Option<u32>)>, DamagedPacket> {
    let class = classes.metadata.streams.get(&stream).ok_or(DamagedPacket)?;
    if let Some(header) = &class.event_header {
        reader.read("", header, &mut None)?;
    }
    // An extended header has the number twice.
    let id = reader.number("id").unwrap_or(0);
    let event = classes.metadata.events.get(&(stream, id)).ok_or(DamagedPacket)?;
    let known = classes.known.get(&(stream, id));
    for context in [&class.event_context, &event.context].into_iter().flatten() {
        reader.read("", context, &mut None)?;
    }
    let thread = reader.number("_tid").map(|thread| thread as u32);
    let mut values = Values::new();
    if let Some(fields) = &event.fields {
        reader.read("", fields, &mut known.is_some().then_some(&mut values))?;
    }
    Ok(known.map(|known| (*known, values, thread)))
}

fn damaged() -> io::Error {
    io::Error::other("a packet of it is damaged")
}
