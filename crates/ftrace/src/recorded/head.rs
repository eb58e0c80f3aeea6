// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head that trace-cmd and perf put before a trace: descriptions of the kernel's events, and names.
//! trace-cmd's `trace.dat` begins with it (trace-cmd.dat.v6(5)), and it is a section of `perf.data`.
//!
//! All numbers have the byte order of the machine that was traced. Every length is checked against the file
//! before memory is taken for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::{AboutTrace, THREADS, size};
use crate::event::EventName;
use crate::format::{ByteOrder, Format};

/// The first bytes.
pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The most bytes of one part of the head, and of an unpacked piece of a CPU's pages.
pub const PART: u64 = 64 << 20;

/// The longest description of an event, and the most that are kept.
const FORMAT: usize = 64 << 10;
const FORMATS: usize = 256;

/// The longest list of functions.
pub const FUNCTIONS: u32 = 32 << 20;

/// The flag of a section that is packed.
pub const IS_PACKED: u16 = 1;

/// The content of a head.
#[derive(Default)]
pub struct Found {
    pub about: AboutTrace,
    pub formats: HashMap<u16, (EventName, Format)>,
    pub page_size: u32,
    pub long: Option<usize>,
}

impl Found {
    pub fn add_format(&mut self, text: &[u8], order: ByteOrder) {
        if text.len() > FORMAT || self.formats.len() >= FORMATS {
            return;
        }
        let text = String::from_utf8_lossy(text);
        let Some(format) = Format::parse(&text, order) else { return };
        if let Some(name) = EventName::of(&format.name) {
            self.formats.insert(format.id, (name, format));
        }
    }

    /// `field: local_t commit; offset:8; size:8;` has the kernel's word size.
    pub fn add_page_header(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let commit = text.lines().find(|line| line.contains(" commit;"));
        let size = commit.and_then(|line| line.split("size:").nth(1)?.split(';').next()?.trim().parse().ok());
        self.long = size.filter(|size| [4, 8].contains(size));
    }

    /// Lines of numbers and names.
    pub fn add_names(&mut self, cmdlines: &[u8]) {
        let text = String::from_utf8_lossy(cmdlines);
        let named = text.lines().filter_map(|line| {
            let (number, name) = line.trim_start().split_once(' ')?;
            Some((number.parse().ok()?, name.to_string()))
        });
        self.about.threads = named.take(THREADS).collect();
    }

    /// `local [mono] boot`.
    pub fn add_clock(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        self.about.clock = chosen.map(|(clock, _)| clock.to_string());
    }
}

/// A part of the head, or why it is none.
pub type HeadResult<T> = std::result::Result<T, String>;

/// The first bytes: the version, the byte order, the size of pages.
pub fn begin(head: &mut Head, found: &mut Found) -> HeadResult<String> {
    if head.bytes(MAGIC.len() as u64)? != MAGIC {
        return Err("its head is none of trace-cmd's".into());
    }
    let version = head.text()?;
    head.order = match head.bytes(1)?[..] {
        [0] => ByteOrder::Little,
        [1] => ByteOrder::Big,
        _ => return Err("its byte order is none".into()),
    };
    head.skip(1);
    found.page_size = head.u32()?;
    Ok(version)
}

/// All parts, one after the other.
pub fn all(head: &mut Head, found: &mut Found) -> HeadResult<()> {
    page_header(head, found)?;
    ftrace_events(head, found)?;
    events(head, found)?;
    functions(head, found)?;
    let printk = head.u32()?;
    head.skip(printk.into());
    let cmdlines = head.u64()?;
    let names = head.bytes(cmdlines)?;
    found.add_names(&names);
    Ok(())
}

/// `events/header_page` and `events/header_event`.
pub fn page_header(head: &mut Head, found: &mut Found) -> HeadResult<()> {
    for name in [&b"header_page\0"[..], b"header_event\0"] {
        if head.bytes(name.len() as u64)? != name {
            return Err("its head has no description of pages".into());
        }
        let length = head.u64()?;
        let text = head.bytes(length)?;
        if name.starts_with(b"header_page") {
            found.add_page_header(&text);
        }
    }
    Ok(())
}

/// `/proc/kallsyms`.
pub fn functions(head: &mut Head, found: &mut Found) -> HeadResult<()> {
    let length = head.u32()?;
    if length > FUNCTIONS {
        return Err(format!("its list of functions is longer than {} MiB", FUNCTIONS >> 20));
    }
    found.about.functions = text_of(&head.bytes(length.into())?);
    Ok(())
}

/// The formats of the tracer's own events.
pub fn ftrace_events(head: &mut Head, found: &mut Found) -> HeadResult<()> {
    for _ in 0..head.u32()? {
        let length = head.u64()?;
        let text = head.bytes(length)?;
        found.add_format(&text, head.order);
    }
    Ok(())
}

/// The formats of all others, by their systems.
pub fn events(head: &mut Head, found: &mut Found) -> HeadResult<()> {
    for _ in 0..head.u32()? {
        head.text()?;
        for _ in 0..head.u32()? {
            let length = head.u64()?;
            let text = head.bytes(length)?;
            found.add_format(&text, head.order);
        }
    }
    Ok(())
}

/// Text, without the zeroes behind it.
pub fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string()
}

/// A part of the file that is read from its beginning on.
pub struct Head {
    pub file: Arc<File>,
    /// A part that was packed, in the place of the file.
    unpacked: Option<Vec<u8>>,
    pub at: u64,
    pub length: u64,
    pub order: ByteOrder,
    pub packer: Option<Packer>,
}

/// How parts are packed.
#[derive(Debug, Clone, Copy)]
pub enum Packer {
    Zlib,
    Zstd,
}

impl Packer {
    pub fn unpack(self, packed: &[u8], length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Packer::Zlib => ZlibDecoder::new(packed).take(length).read_to_end(&mut bytes)?,
            Packer::Zstd => {
                let frame = StreamingDecoder::new(packed).map_err(io::Error::other)?;
                frame.take(length).read_to_end(&mut bytes)?
            }
        };
        Ok(bytes)
    }
}

impl Head {
    /// The file from its begin on.
    pub fn of(file: File) -> Head {
        let length = size(&file);
        let file = Arc::new(file);
        Head { file, unpacked: None, at: 0, length, order: ByteOrder::Little, packer: None }
    }

    /// A part that is in memory.
    pub fn in_memory(bytes: Vec<u8>, of: &Head) -> Head {
        let length = bytes.len() as u64;
        Head {
            file: Arc::clone(&of.file),
            unpacked: Some(bytes),
            at: 0,
            length,
            order: of.order,
            packer: of.packer,
        }
    }

    pub fn bytes(&mut self, length: u64) -> HeadResult<Vec<u8>> {
        let cut = || "it was cut short, or is damaged, within its head".to_string();
        let end = self.at.checked_add(length).filter(|end| *end <= self.length).ok_or_else(cut)?;
        if length > PART {
            return Err(format!("a part of its head is longer than {} MiB", PART >> 20));
        }
        let bytes = match &self.unpacked {
            Some(bytes) => bytes[self.at as usize..end as usize].to_vec(),
            None => {
                let mut bytes = vec![0; length as usize];
                self.file.read_exact_at(&mut bytes, self.at).map_err(|error| error::reason(&error))?;
                bytes
            }
        };
        self.at = end;
        Ok(bytes)
    }

    pub fn skip(&mut self, length: u64) {
        self.at = self.at.saturating_add(length);
    }

    pub fn u16(&mut self) -> HeadResult<u16> {
        Ok(self.order.number(&self.bytes(2)?) as u16)
    }

    pub fn u32(&mut self) -> HeadResult<u32> {
        Ok(self.order.number(&self.bytes(4)?) as u32)
    }

    pub fn u64(&mut self) -> HeadResult<u64> {
        Ok(self.order.number(&self.bytes(8)?))
    }

    /// A text that ends with a zero.
    pub fn text(&mut self) -> HeadResult<String> {
        let mut text = Vec::new();
        loop {
            match self.bytes(1)?[..] {
                [0] => return Ok(String::from_utf8_lossy(&text).into_owned()),
                [byte] if text.len() < 4_096 => text.push(byte),
                _ => return Err("a name in its head does not end".into()),
            }
        }
    }

    /// The file from this place on.
    fn file_from(&self, at: u64) -> Head {
        Head { unpacked: None, at, length: size(&self.file), ..Head::in_memory(Vec::new(), self) }
    }

    pub fn flags_of(&self, section: u64) -> HeadResult<u16> {
        let mut head = self.file_from(section);
        head.u16()?;
        head.u16()
    }

    /// The content of the section at this place, unpacked.
    pub fn section(&self, at: u64) -> HeadResult<Head> {
        let mut head = self.file_from(at);
        let (_, flags, _) = (head.u16()?, head.u16()?, head.u32()?);
        let length = head.u64()?;
        let Some(packer) = self.packer.filter(|_| flags & IS_PACKED != 0) else {
            return Ok(Head::in_memory(head.bytes(length)?, self));
        };
        let (packed, unpacked) = (head.u32()?, head.u32()?);
        let bytes = head.bytes(packed.into())?;
        let bytes = packer.unpack(&bytes, u64::from(unpacked).min(PART));
        Ok(Head::in_memory(bytes.map_err(|why| format!("its head cannot be unpacked: {why}"))?, self))
    }
}
