// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace.dat` of trace-cmd, versions 6 and 7 (trace-cmd.dat.v6(5), trace-cmd.dat.v7(5)): a head with the
//! kernel's `format` files and names, then the pages of each CPU's ring buffer.
//!
//! All numbers have the byte order of the machine that was traced. Every length is checked against the file
//! before memory is taken for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::head::{self, Found, Head, HeadResult, IS_PACKED, MAGIC, Packer, text_of};
use super::{Opened, ReadTrace, TracePart, size};
use crate::Result;
use crate::event::{EventName, TraceEvent};
use crate::format::{ByteOrder, Format};
use crate::page::{self, PageLayout, RingPage};

/// The largest page: kernels may join pages of their buffers.
const LARGEST_PAGE: u32 = 1 << 20;

/// The most pages that are unpacked at once: trace-cmd packs ten. The most bytes of all CPUs together.
const PIECE: u64 = 16;
const AT_ONCE: u64 = 96 << 20;

/// The most CPUs.
const CPUS: u32 = 1_024;

/// Options of the head that are read.
const DONE: u16 = 0;
const BUFFER: u16 = 3;
const CLOCK: u16 = 4;
const UNAME: u16 = 5;
const CPU_COUNT: u16 = 8;
const FIRST_SECTION: u16 = 16;
const FTRACE_EVENTS: u16 = 17;
const EVENTS: u16 = 18;
const KALLSYMS: u16 = 19;
const CMDLINES: u16 = 21;

/// Whether these are the first bytes of such a file.
pub fn is(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Reads the head.
pub fn open(file: File) -> Opened {
    let mut head = Head::of(file);
    let mut found = Found::default();
    let version = head::begin(&mut head, &mut found)?;
    let cpus = match version.as_str() {
        "6" => version_6(&mut head, &mut found)?,
        "7" => version_7(&mut head, &mut found)?,
        _ => return Err(format!("its version is {version}, and 6 and 7 are known")),
    };
    found.about.format = format!("trace.dat of trace-cmd, version {version}");
    if found.page_size < 64 || found.page_size > LARGEST_PAGE {
        return Err(format!("its pages have {} bytes", found.page_size));
    }
    if cpus.is_empty() {
        return Err("it has no events of any CPU".into());
    }
    let most = u64::from(found.page_size) * PIECE * cpus.len() as u64;
    if most > AT_ONCE {
        return Err(format!("its {} CPUs with pages of {} bytes are too many", cpus.len(), found.page_size));
    }
    let layout = PageLayout { order: head.order, long: found.long.unwrap_or(8) };
    let file = head.file;
    let mut reader = Dat {
        file,
        layout,
        formats: found.formats,
        cpus: Vec::new(),
        next: BinaryHeap::new(),
        turns: None,
        missing: None,
    };
    for (cpu, pages) in cpus {
        let mut buffer = CpuPages {
            cpu,
            pages,
            page: Vec::new(),
            events: RingPage::default(),
            at: 0,
            size: found.page_size,
        };
        if buffer.turn(&reader.file, layout, &mut reader.missing) {
            reader.next.push(Reverse((buffer.ns(), reader.cpus.len())));
        }
        reader.cpus.push(buffer);
    }
    Ok((found.about, Box::new(reader)))
}

/// The pages of each CPU.
type CpuPlaces = Vec<(u32, Pages)>;

fn version_6(head: &mut Head, found: &mut Found) -> HeadResult<CpuPlaces> {
    head::all(head, found)?;
    let cpus = head.u32()?;
    let mut kind = head.bytes(10)?;
    let mut buffers = Vec::new();
    if kind == b"options  \0" {
        loop {
            let id = head.u16()?;
            if id == DONE {
                break;
            }
            let length = head.u32()?;
            let data = head.bytes(length.into())?;
            if id == BUFFER && data.len() > 8 {
                buffers.push(head.order.number(&data[..8]));
            } else {
                option(id, &data, head, found);
            }
        }
        kind = head.bytes(10)?;
    }
    if kind != b"flyrecord\0" {
        return Err("it has the text of a latency tracer in the place of events: give that text alone".into());
    }
    let mut places = cpu_places(head, cpus)?;
    // Instances beside the top one, whose CPUs are as many.
    for at in buffers {
        head.at = at;
        if head.bytes(10).is_ok_and(|kind| kind == b"flyrecord\0") {
            places.extend(cpu_places(head, cpus)?);
        }
    }
    Ok(places)
}

fn cpu_places(head: &mut Head, cpus: u32) -> HeadResult<CpuPlaces> {
    if cpus > CPUS {
        return Err(format!("it has {cpus} CPUs"));
    }
    let mut places = Vec::new();
    for cpu in 0..cpus {
        let (at, length) = (head.u64()?, head.u64()?);
        places.extend(Pages::plain(at, length, head).map(|pages| (cpu, pages)));
    }
    Ok(places)
}

fn version_7(head: &mut Head, found: &mut Found) -> HeadResult<CpuPlaces> {
    head.packer = match head.text()?.as_str() {
        "none" => None,
        "zlib" => Some(Packer::Zlib),
        "zstd" => Some(Packer::Zstd),
        other => return Err(format!("it is packed by {other}: pack it by zlib or zstd, or not at all")),
    };
    head.text()?;
    let mut next = head.u64()?;
    let mut buffers = Vec::new();
    let mut sections = BTreeMap::new();
    // Each list is behind the one before it, or nothing is.
    for _ in 0..1_024 {
        if next == 0 {
            break;
        }
        let mut list = head.section(next)?;
        next = 0;
        while list.at < list.length {
            let (id, length) = (list.u16()?, list.u32()?);
            let data = list.bytes(length.into())?;
            let offset = || data.get(..8).map(|bytes| head.order.number(bytes));
            match id {
                DONE => {
                    next = offset().unwrap_or(0);
                    break;
                }
                BUFFER => buffers.push(data),
                FIRST_SECTION..=CMDLINES => sections.extend(offset().map(|at| (id, at))),
                _ => option(id, &data, head, found),
            }
        }
    }
    for (id, at) in sections {
        let mut part = head.section(at)?;
        match id {
            FIRST_SECTION => head::page_header(&mut part, found)?,
            FTRACE_EVENTS => head::ftrace_events(&mut part, found)?,
            EVENTS => head::events(&mut part, found)?,
            KALLSYMS => head::functions(&mut part, found)?,
            CMDLINES => {
                let length = part.u64()?;
                let names = part.bytes(length)?;
                found.add_names(&names);
            }
            _ => {}
        }
    }
    let mut places = Vec::new();
    for data in buffers {
        places.extend(buffer(data, head, found)?);
    }
    Ok(places)
}

/// The pages of one instance: a place in the file for each CPU.
fn buffer(data: Vec<u8>, head: &Head, found: &mut Found) -> HeadResult<CpuPlaces> {
    let mut option = Head::in_memory(data, head);
    let section = option.u64()?;
    option.text()?;
    let clock = option.text()?;
    found.about.clock = Some(clock).filter(|clock| !clock.is_empty()).or(found.about.clock.take());
    found.page_size = option.u32()?;
    let cpus = option.u32()?;
    if cpus > CPUS {
        return Err(format!("it has {cpus} CPUs"));
    }
    let is_packed = head.flags_of(section)? & IS_PACKED != 0;
    let mut places = Vec::new();
    for _ in 0..cpus {
        let (cpu, at, length) = (option.u32()?, option.u64()?, option.u64()?);
        let pages = match head.packer.filter(|_| is_packed) {
            Some(packer) => Pages::packed(packer, at, length, head),
            None => Pages::plain(at, length, head),
        };
        places.extend(pages.map(|pages| (cpu, pages)));
    }
    Ok(places)
}

fn option(id: u16, data: &[u8], head: &Head, found: &mut Found) {
    match id {
        CLOCK => found.add_clock(data),
        UNAME => found.about.uname = Some(text_of(data)),
        CPU_COUNT => found.about.cpus = data.get(..4).map(|bytes| head.order.number(bytes) as u32),
        _ => {}
    }
}

/// Where the pages of a CPU are.
#[derive(Debug)]
enum Pages {
    /// In the file, one after the other.
    Plain(Range<u64>),
    /// In pieces of some pages each; the rest of the piece at hand.
    Packed { packer: Packer, pieces: Range<u64>, left: u32, order: ByteOrder, piece: Vec<u8>, at: usize },
}

impl Pages {
    /// `None` where there are none.
    fn plain(at: u64, length: u64, head: &Head) -> Option<Pages> {
        let end = at.saturating_add(length).min(size(&head.file));
        (at < end).then_some(Pages::Plain(at..end))
    }

    fn packed(packer: Packer, at: u64, length: u64, head: &Head) -> Option<Pages> {
        // The length may be that of the pieces alone.
        let end = at.saturating_add(length).saturating_add(4).min(size(&head.file));
        let mut count = [0; 4];
        head.file.read_exact_at(&mut count, at).ok().filter(|()| length > 4)?;
        let left = head.order.number(&count) as u32;
        let (pieces, piece) = (at + 4..end, Vec::new());
        Some(Pages::Packed { packer, pieces, left, order: head.order, piece, at: 0 })
    }

    /// Reads the next page into `page`; whether there is one.
    fn next(&mut self, page: &mut Vec<u8>, length: u32, file: &File) -> io::Result<bool> {
        page.clear();
        match self {
            Pages::Plain(rest) => {
                let here = u64::from(length).min(rest.end - rest.start);
                page.resize(here as usize, 0);
                file.read_exact_at(page, rest.start)?;
                rest.start += here;
            }
            Pages::Packed { packer, pieces, left, order, piece, at } => {
                if *at >= piece.len() && *left > 0 && pieces.end - pieces.start > 8 {
                    let mut head = [0; 8];
                    file.read_exact_at(&mut head, pieces.start)?;
                    let (packed, unpacked) = (order.number(&head[..4]), order.number(&head[4..]));
                    let packed = packed.min(pieces.end - pieces.start - 8);
                    if packed.max(unpacked) > PIECE * u64::from(length) {
                        return Err(io::Error::other("a piece of it is too long"));
                    }
                    let mut bytes = vec![0; packed as usize];
                    file.read_exact_at(&mut bytes, pieces.start + 8)?;
                    pieces.start += 8 + packed;
                    (*left, *at) = (*left - 1, 0);
                    *piece = packer.unpack(&bytes, unpacked)?;
                }
                let end = at.saturating_add(length as usize).min(piece.len());
                page.extend(piece.get(*at..end).unwrap_or_default());
                *at = end;
            }
        }
        Ok(!page.is_empty())
    }
}

/// The events of one CPU.
#[derive(Debug)]
struct CpuPages {
    cpu: u32,
    pages: Pages,
    size: u32,
    page: Vec<u8>,
    events: RingPage,
    /// The next event of the page; the loss before it comes first.
    at: usize,
}

impl CpuPages {
    /// The time of what comes next.
    fn ns(&self) -> u64 {
        self.events.events.get(self.at).map_or(self.events.ns, |event| event.ns)
    }

    /// Goes to the next page with events; whether there is one.
    fn turn(&mut self, file: &File, layout: PageLayout, missing: &mut Option<String>) -> bool {
        loop {
            match self.pages.next(&mut self.page, self.size, file) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    let why = error::reason(&error);
                    missing.get_or_insert(format!("the events of cpu {} end early: {why}", self.cpu));
                    return false;
                }
            }
            (self.events, self.at) = (page::read(&self.page, layout), 0);
            if !self.events.events.is_empty() || self.events.lost.is_some() {
                return true;
            }
        }
    }
}

/// An open file.
#[derive(Debug)]
struct Dat {
    file: Arc<File>,
    layout: PageLayout,
    formats: HashMap<u16, (EventName, Format)>,
    cpus: Vec<CpuPages>,
    /// The time of each CPU's next event.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The CPU whose page is over.
    turns: Option<usize>,
    missing: Option<String>,
}

impl ReadTrace for Dat {
    fn next(&mut self) -> Result<Option<TracePart<'_>>> {
        if let Some(place) = self.turns.take()
            && self.cpus[place].turn(&self.file, self.layout, &mut self.missing)
        {
            self.next.push(Reverse((self.cpus[place].ns(), place)));
        }
        let found = loop {
            let Some(Reverse((_, place))) = self.next.pop() else { return Ok(None) };
            let here = &mut self.cpus[place];
            if let Some(count) = here.events.lost.take() {
                let (cpu, ns) = (Some(here.cpu), here.ns());
                self.next.push(Reverse((ns, place)));
                return Ok(Some(TracePart::Lost { cpu, ns, count }));
            }
            let event = here.events.events.get(here.at).cloned();
            here.at += 1;
            let is_more = here.at < here.events.events.len();
            let known = event.and_then(|event| {
                let id = here.page.get(event.place.clone())?.get(..2)?;
                let id = self.layout.order.number(id) as u16;
                self.formats.contains_key(&id).then_some((event, id))
            });
            match known {
                Some((event, id)) => break (place, event, id, is_more),
                None if is_more || here.turn(&self.file, self.layout, &mut self.missing) => {
                    self.next.push(Reverse((here.ns(), place)));
                }
                None => {}
            }
        };
        let (place, event, id, is_more) = found;
        // The page must stay as it is until the event was read: it is turned with the next call.
        if is_more {
            self.next.push(Reverse((self.cpus[place].ns(), place)));
        } else {
            self.turns = Some(place);
        }
        let here = &self.cpus[place];
        let (name, format) = &self.formats[&id];
        let data = &here.page[event.place];
        Ok(Some(TracePart::Event(TraceEvent::raw(here.cpu, event.ns, *name, format, data))))
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}
