// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of LTTng's kernel tracer: CTF 1.8 (diamon.org/ctf/v1.8.3), a folder with a description, `metadata`,
//! and a file for each CPU of each channel.
//!
//! The crates that read CTF are bindings to Babeltrace's C library, or know the events of programs alone. The
//! whole description is in memory, and a packet of each file.

mod kernel;
mod metadata;
mod stream;
mod types;
mod words;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;

use untrusted::{FileType, Folder};

use super::named::NamedEvent;
use super::{AboutTrace, Opened, ReadTrace, TracePart};
use crate::event::{EventName, Fields};
use crate::{Error, Result};
use kernel::Known;
use metadata::Metadata;
use stream::{Stream, StreamPart};
use types::Values;

/// The description.
const METADATA: &str = "metadata";

/// The folder of the kernel's part, in that of a session.
const KERNEL: &str = "kernel";

/// The longest description: that of all events and calls has a MiB.
const DESCRIPTION: u64 = 16 << 20;

/// The most files of events, and the most bytes of all their packets at once.
const FILES: usize = 1_024;
const AT_ONCE: usize = 256 << 20;

/// Whether a folder has a description.
pub fn is(folder: &Folder) -> bool {
    kernel_of(folder).is_ok_and(|folder| folder.has(METADATA)) || folder.has(METADATA)
}

fn kernel_of(folder: &Folder) -> io::Result<Folder> {
    folder.folder(KERNEL)
}

/// Reads the description, and the first packets.
pub fn open(folder: &Folder) -> Opened {
    let kernel = kernel_of(folder).ok().filter(|kernel| kernel.has(METADATA));
    let folder = kernel.as_ref().unwrap_or(folder);
    let reason = |error: io::Error| error::reason(&error);
    let description = folder.read(METADATA, DESCRIPTION).map_err(reason)?;
    if description.starts_with(b"\x1e") || description.starts_with(b"{") {
        return Err("it is CTF 2: record it with lttng create --trace-format=ctf-1.8, or convert it with \
                    babeltrace2 FOLDER --component=sink.ctf.fs --params='path=\"OUT\",ctf-version=\"1\"'"
            .into());
    }
    let metadata = metadata::read(&metadata::text(&description)?)?;
    let said = |name: &str| metadata.env.get(name).map_or("", String::as_str);
    if said("tracer_name") != "lttng-modules" {
        let tracer = Some(said("tracer_name")).filter(|name| !name.is_empty()).unwrap_or("unknown");
        return Err(format!(
            "its tracer is {tracer}, and lttng-modules is read: give the folder kernel of LTTng"
        ));
    }
    let uname = [said("sysname"), said("hostname"), said("kernel_release")].join(" ");
    let about = AboutTrace {
        format: "trace of LTTng, CTF 1.8".into(),
        uname: Some(uname).filter(|uname| uname.split(' ').all(|word| !word.is_empty())),
        clock: Some(if metadata.clock == "monotonic" { "mono".into() } else { metadata.clock.clone() }),
        ..AboutTrace::default()
    };
    let known = |event: (&(u64, u64), &metadata::EventClass)| Some((*event.0, kernel::known(&event.1.name)?));
    let classes = Classes { known: metadata.events.iter().filter_map(known).collect(), metadata };
    let mut reader = Ctf {
        classes,
        streams: Vec::new(),
        next: BinaryHeap::new(),
        turns: None,
        start: 0,
        running: HashMap::new(),
        event: None,
        missing: None,
    };
    for (name, kind) in folder.entries().map_err(reason)? {
        if kind != FileType::RegularFile || name == METADATA || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if reader.streams.len() == FILES {
            return Err(format!("it has more than {FILES} files"));
        }
        let stream = Stream::new(folder.file(&name).map_err(reason)?);
        reader.streams.push((stream, None));
        reader.turn(reader.streams.len() - 1).map_err(reason)?;
    }
    reader.start = reader.streams.iter().filter_map(|(stream, _)| stream.start).max().unwrap_or(0);
    if reader.next.is_empty() && reader.missing.is_none() {
        return Err("it has no events".into());
    }
    Ok((about, Box::new(reader)))
}

/// The types of all events, and those that are read.
#[derive(Debug)]
pub struct Classes {
    metadata: Metadata,
    known: HashMap<(u64, u64), Known>,
}

/// An open folder.
#[derive(Debug)]
struct Ctf {
    classes: Classes,
    /// With what comes next.
    streams: Vec<(Stream, Option<StreamPart>)>,
    /// The time of each stream's next part.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream whose next part was handed out.
    turns: Option<usize>,
    /// Until then a file has none of its events: they were overwritten.
    start: u64,
    /// The thread that has a CPU: an event does not say it.
    running: HashMap<u32, u32>,
    event: Option<NamedEvent>,
    missing: Option<String>,
}

impl Ctf {
    /// Goes to the next part of a stream.
    fn turn(&mut self, place: usize) -> io::Result<()> {
        let (stream, part) = &mut self.streams[place];
        let held = stream.held();
        let next = match stream.next(&self.classes) {
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(error) => {
                let cpu = stream.cpu.map_or_else(|| "a file".to_string(), |cpu| format!("cpu {cpu}"));
                let why = error::reason(&error);
                self.missing.get_or_insert(format!("the events of {cpu} end early: {why}"));
                None
            }
            Ok(next) => next,
        };
        *part = next.map(|(ticks, part)| {
            self.next.push(Reverse((ticks, place)));
            part
        });
        let is_longer = stream.held() > held;
        if is_longer && self.streams.iter().map(|(stream, _)| stream.held()).sum::<usize>() > AT_ONCE {
            return Err(io::Error::other(format!("its packets have more than {} MiB", AT_ONCE >> 20)));
        }
        Ok(())
    }

    /// An event of the kernel, and the thread that has the CPU from then on.
    fn named(&mut self, known: Known, values: Values, at: (u32, u64, Option<u32>)) -> NamedEvent {
        let ((cpu, ns, thread), fields) = (at, known.fields(values));
        let thread = thread.or(self.running.get(&cpu).copied()).unwrap_or(0);
        if known.name == EventName::Switch
            && let Some(next) = Fields::Named(&fields).small("next_pid")
        {
            self.running.insert(cpu, next);
        }
        NamedEvent { cpu, ns, thread, flags: None, name: known.name, fields }
    }

    fn ns(&self, ticks: u64) -> u64 {
        match self.classes.metadata.frequency {
            1_000_000_000 | 0 => ticks,
            frequency => (u128::from(ticks) * 1_000_000_000 / u128::from(frequency)) as u64,
        }
    }
}

impl ReadTrace for Ctf {
    fn next(&mut self) -> Result<Option<TracePart<'_>>> {
        loop {
            if let Some(place) = self.turns.take() {
                let cure = "check the medium and try again";
                self.turn(place).map_err(|error| Error::os("read the trace", &error, cure))?;
            }
            let Some(Reverse((ticks, place))) = self.next.pop() else { return Ok(None) };
            self.turns = Some(place);
            let ns = self.ns(ticks);
            let (stream, part) = &mut self.streams[place];
            let cpu = stream.cpu;
            match part.take() {
                Some(StreamPart::Event(known, values, thread)) => {
                    let event = self.named(known, values, (cpu.unwrap_or(0), ns, thread));
                    if ticks < self.start {
                        continue;
                    }
                    return Ok(Some(self.event.insert(event).part()));
                }
                Some(StreamPart::Lost(count)) => {
                    self.running.remove(&cpu.unwrap_or(0));
                    return Ok(Some(TracePart::Lost { cpu, ns, count }));
                }
                None => {}
            }
        }
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}
