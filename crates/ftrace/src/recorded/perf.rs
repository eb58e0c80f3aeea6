// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf.data` of perf: samples of tracepoints, with the fields as the kernel wrote them
//! (tools/perf/Documentation/perf.data-file-format.txt). A section of it is the head that describes these.
//!
//! linux-perf-event-reader reads attributes and records. linux-perf-data, which reads whole files, takes
//! memory by the sizes that a file states, and holds all records of one without rounds: here the sizes are
//! checked, and rounds bounded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use byteorder::{BigEndian, LittleEndian};
use linux_perf_event_reader::{
    Endianness, EventRecord, PerfClock, PerfEventAttr, RawData, RawEventRecord, RecordParseInfo, RecordType,
};

use super::head::{self, Found, Head, HeadResult, text_of};
use super::{AboutTrace, Opened, ReadTrace, TracePart};
use crate::event::{EventName, TraceEvent};
use crate::format::{ByteOrder, Format};
use crate::{Error, Result};

const MAGIC: &[u8] = b"PERFILE2";
const OTHER_ORDER: &[u8] = b"2ELIFREP";

/// The beginning of the header that is read, and where its parts are.
const HEADER: u64 = 104;
const ATTRIBUTES: usize = 24;
const DATA: usize = 40;
const FEATURES: usize = 72;

/// An attribute of another size is none.
const ATTRIBUTE: std::ops::RangeInclusive<u64> = 64..=4_096;

/// Sections of the file, by their bits: the head of the events, the host, its kernel, architecture and CPUs.
const TRACING_DATA: u64 = 1;
const HOSTNAME: u64 = 3;
const RELEASE: u64 = 4;
const ARCHITECTURE: u64 = 6;
const CPUS: u64 = 7;

/// Records (include/uapi/linux/perf_event.h, tools/lib/perf/include/perf/event.h).
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const FINISHED_ROUND: u32 = 68;
const COMPRESSED: [u32; 2] = [81, 83];
const AUXTRACE: u32 = 71;

/// The most records of two rounds that are in memory at once.
const MOST: usize = 1 << 19;

/// Whether these are the first bytes of such a file.
pub fn is(head: &[u8]) -> bool {
    [MAGIC, OTHER_ORDER].iter().any(|magic| head.starts_with(magic))
}

/// Opens a file of tracepoints.
pub fn open(mut file: File) -> Opened {
    let again = file.try_clone().map_err(|error| error::reason(&error))?;
    let mut head = Head::of(again);
    let header = head.bytes(HEADER)?;
    head.order = if header.starts_with(MAGIC) { ByteOrder::Little } else { ByteOrder::Big };
    let number = |at: usize| head.order.number(&header[at..at + 8]);
    let (data_at, data_size) = (number(DATA), number(DATA + 8));
    let attribute = number(16);
    let attributes_at = number(ATTRIBUTES);
    let features: Vec<u64> =
        (0..256).filter(|bit| number(FEATURES + *bit as usize / 64 * 8) >> (bit % 64) & 1 == 1).collect();
    let end = data_at.checked_add(data_size).filter(|end| *end <= head.length && data_size > 0);
    let end = end.ok_or("it was cut short, or perf did not end it")?;
    if !ATTRIBUTE.contains(&attribute) {
        return Err(format!("its attributes have {attribute} bytes"));
    }
    head.at = attributes_at;
    let info = attributes(&head.bytes(attribute)?, head.order)?;
    let mut found = Found::default();
    let mut about = AboutTrace::default();
    let mut has_formats = false;
    for (place, feature) in features.into_iter().enumerate() {
        head.at = end + 16 * place as u64;
        let (at, length) = (head.u64()?, head.u64()?);
        if ![TRACING_DATA, HOSTNAME, RELEASE, ARCHITECTURE, CPUS].contains(&feature) {
            continue;
        }
        head.at = at;
        let section = head.bytes(length)?;
        if feature == TRACING_DATA {
            let mut part = Head::in_memory(section, &head);
            head::begin(&mut part, &mut found)?;
            head::all(&mut part, &mut found)?;
            has_formats = true;
        } else if feature == CPUS {
            about.cpus = section.get(..4).map(|bytes| head.order.number(bytes) as u32);
        } else {
            // A length, and so many bytes with zeroes behind the text.
            let text = text_of(section.get(4..).unwrap_or_default());
            about.uname =
                Some(about.uname.map_or(format!("Linux {text}"), |before| format!("{before} {text}")));
        }
    }
    if !has_formats {
        return Err("it has no samples of tracepoints: record some, as isolator record says".into());
    }
    about.format = "perf.data of perf".into();
    about.clock = Some(info.1);
    (about.threads, about.functions) = (found.about.threads, found.about.functions);
    file.seek(SeekFrom::Start(data_at)).map_err(|error| error::reason(&error))?;
    let reader = Perf {
        records: BufReader::new(file),
        left: data_size,
        order: head.order,
        info: info.0,
        formats: found.formats,
        waiting: BinaryHeap::new(),
        number: 0,
        rounds: [0; 2],
        round_ns: 0,
        event: Record::default(),
        missing: None,
    };
    Ok((about, Box::new(reader)))
}

/// How samples are laid out, and the name of their clock.
fn attributes(bytes: &[u8], order: ByteOrder) -> HeadResult<(RecordParseInfo, String)> {
    let (attribute, endian) = match order {
        ByteOrder::Little => (PerfEventAttr::parse::<_, LittleEndian>(bytes), Endianness::LittleEndian),
        ByteOrder::Big => (PerfEventAttr::parse::<_, BigEndian>(bytes), Endianness::BigEndian),
    };
    let (attribute, _) = attribute.map_err(|error| format!("its attributes cannot be read: {error}"))?;
    let clock = match attribute.clock {
        PerfClock::ClockId(clock) => match format!("{clock:?}").to_lowercase() {
            name if name == "monotonic" => "mono".into(),
            name => name,
        },
        PerfClock::Default => "perf".into(),
    };
    Ok((RecordParseInfo::new(&attribute, endian), clock))
}

/// A sample, or a number of lost ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    ns: u64,
    /// The order in the file.
    number: u64,
    cpu: Option<u32>,
    thread: u32,
    lost: Option<u64>,
    data: Vec<u8>,
}

/// An open file.
struct Perf {
    records: BufReader<File>,
    /// Bytes of the data that are not read yet.
    left: u64,
    order: ByteOrder,
    info: RecordParseInfo,
    formats: HashMap<u16, (EventName, Format)>,
    /// Records whose turn has not come: perf writes the buffers of all CPUs one after the other, in rounds.
    waiting: BinaryHeap<Reverse<Record>>,
    number: u64,
    /// The latest time of the round before, and of the one at hand: no record of the next one comes before
    /// the first.
    rounds: [u64; 2],
    /// Records until then have come.
    round_ns: u64,
    /// The one that was handed out.
    event: Record,
    missing: Option<String>,
}

impl Debug for Perf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Perf").finish_non_exhaustive()
    }
}

impl Perf {
    /// Reads one record; whether there was one.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut head = [0; 8];
        if self.left < head.len() as u64 {
            return Ok(false);
        }
        self.records.read_exact(&mut head)?;
        let number = |bytes: &[u8]| self.order.number(bytes);
        let (kind, misc, length) =
            (number(&head[..4]) as u32, number(&head[4..6]) as u16, number(&head[6..]));
        let body = length.checked_sub(8).filter(|body| *body <= self.left - 8);
        let Some(body) = body else { return Err(std::io::Error::other("a record is longer than the rest")) };
        let mut bytes = vec![0; body as usize];
        self.records.read_exact(&mut bytes)?;
        self.left -= length;
        match kind {
            FINISHED_ROUND => {
                self.round_ns = self.rounds[0];
                self.rounds[0] = self.rounds[1];
            }
            SAMPLE | LOST => self.add(kind, misc, &bytes),
            _ if COMPRESSED.contains(&kind) => {
                return Err(std::io::Error::other("it is compressed: record it without -z"));
            }
            AUXTRACE => {
                // What follows is not in its length.
                let more = bytes.get(..8).map_or(0, |bytes| self.order.number(bytes)).min(self.left);
                std::io::copy(&mut (&mut self.records).take(more), &mut std::io::sink())?;
                self.left -= more;
            }
            _ => {}
        }
        Ok(true)
    }

    fn add(&mut self, kind: u32, misc: u16, bytes: &[u8]) {
        let record = RawEventRecord::new(RecordType(kind), misc, RawData::from(bytes), self.info);
        let ns = record.timestamp().unwrap_or(self.rounds[1]);
        self.number += 1;
        let mut waits = Record { ns, number: self.number, ..Record::default() };
        match record.parse() {
            Ok(EventRecord::Sample(sample)) => {
                let (Some(cpu), Some(raw)) = (sample.cpu, sample.raw) else { return };
                let raw = raw.as_slice();
                let id = raw.get(..2).map(|id| self.order.number(id) as u16);
                if !id.is_some_and(|id| self.formats.contains_key(&id)) {
                    return;
                }
                (waits.cpu, waits.data) = (Some(cpu), raw.into_owned());
                waits.thread = sample.tid.map_or(0, |tid| tid.max(0) as u32);
            }
            Ok(EventRecord::Lost(lost)) => waits.lost = Some(lost.count),
            _ => return,
        }
        self.rounds[1] = self.rounds[1].max(ns);
        self.waiting.push(Reverse(waits));
    }

    /// The next record, if those that may come before it have come.
    fn ready(&mut self, is_all: bool) -> Option<Record> {
        let Reverse(first) = self.waiting.peek()?;
        let is_ready = is_all || first.ns <= self.round_ns || self.waiting.len() > MOST;
        is_ready.then(|| self.waiting.pop()).flatten().map(|Reverse(record)| record)
    }
}

impl ReadTrace for Perf {
    fn next(&mut self) -> Result<Option<TracePart<'_>>> {
        let mut is_all = false;
        let record = loop {
            if let Some(record) = self.ready(is_all) {
                break record;
            }
            if is_all {
                return Ok(None);
            }
            match self.read() {
                Ok(is_more) => is_all = !is_more,
                Err(error) if error.raw_os_error().is_some() => {
                    return Err(Error::os("read the trace", &error, "check the medium and try again"));
                }
                Err(error) => {
                    self.missing = Some(format!("the trace ends early: {}", error::reason(&error)));
                    (self.left, is_all) = (0, true);
                }
            }
        };
        // A record of a round that was too long for memory comes late.
        let ns = record.ns.max(self.event.ns);
        self.event = Record { ns, ..record };
        let Record { cpu, thread, data, lost, .. } = &self.event;
        if let Some(count) = *lost {
            return Ok(Some(TracePart::Lost { cpu: *cpu, ns, count }));
        }
        let id = data.get(..2).map_or(0, |id| self.order.number(id) as u16);
        let Some((name, format)) = self.formats.get(&id) else { return Ok(None) };
        let event = TraceEvent::raw(cpu.unwrap_or(0), ns, *name, format, data);
        Ok(Some(TracePart::Event(TraceEvent { thread: *thread, ..event })))
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}
