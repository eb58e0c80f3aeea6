// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that another tool recorded, from files: their events in the order of time.
//!
//! | reader | file | written by |
//! |---|---|---|
//! | `ctf` | a folder with `metadata` of CTF 1.8 | LTTng |
//! | `dat` | `trace.dat`, versions 6 and 7, compressed or not | trace-cmd, KernelShark |
//! | `perf` | `perf.data` with samples of tracepoints | perf |
//! | `perfetto` | a trace with the data source `linux.ftrace`, packed or not | Perfetto |
//! | `text` | text of `trace`, `trace_pipe` and `trace-cmd report` | the kernel, rtla, trace-cmd |
//!
//! A trace is foreign data, of any size: a reader holds one page of each CPU, or a window of so many bytes,
//! and what is damaged ends the trace there, which [`Trace::missing`] then says.

mod ctf;
mod dat;
mod head;
mod named;
mod perf;
mod perfetto;
mod protobuf;
mod text;
mod window;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use untrusted::Folder;

use crate::{Error, Result, TraceEvent};

/// The part of a trace that comes next.
#[derive(Debug)]
pub enum TracePart<'a> {
    /// An event.
    Event(TraceEvent<'a>),
    /// Events that the trace has lost there.
    Lost {
        /// The CPU that lost them; `None` where the trace lacks it.
        cpu: Option<u32>,
        /// When the next one of that CPU came.
        ns: u64,
        /// Their number; 0 where that was not counted.
        count: u64,
    },
}

/// A reader of one kind of file.
pub(crate) trait ReadTrace: Debug {
    /// The next part; `None` at the end.
    fn next(&mut self) -> Result<Option<TracePart<'_>>>;
    /// Why the trace ended before its end, or lacks what came too late, in a sentence.
    fn missing(&self) -> Option<&str>;
}

/// A trace's words about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AboutTrace {
    /// The kind of file, as `trace.dat of trace-cmd, version 7`.
    pub format: String,
    /// The machine's `uname`: system, host, kernel and architecture, as far as it is told.
    pub uname: Option<String>,
    /// The number of the machine's CPUs.
    pub cpus: Option<u32>,
    /// The clock of its times, as tracefs names it: `mono`, `local`.
    pub clock: Option<String>,
    /// The names of threads by their numbers.
    pub threads: BTreeMap<u32, String>,
    /// The kernel's functions, as in `/proc/kallsyms`.
    pub functions: String,
}

/// A trace that is open.
#[derive(Debug)]
pub struct Trace {
    /// Its words about itself.
    pub about: AboutTrace,
    reader: Box<dyn ReadTrace>,
}

impl Trace {
    /// Opens a trace; its first bytes tell its kind.
    pub fn open(path: &Path) -> Result<Trace> {
        let opened = match Source::of(path).map_err(|error| Error::io("read", path, &error))? {
            Source::Folder(folder) if ctf::is(&folder) => ctf::open(&folder),
            Source::Folder(_) => Err("the folder has no metadata, as LTTng's have".into()),
            Source::File(file, head) if dat::is(&head) => dat::open(file),
            Source::File(file, head) if perf::is(&head) => perf::open(file),
            Source::File(file, head) if perfetto::is(&head) => perfetto::open(file),
            Source::File(file, head) => text::open(file, &head),
        };
        let (about, reader) = opened.map_err(|why| refused(path, why))?;
        Ok(Trace { about, reader })
    }

    /// The next part; `None` at the end.
    pub fn next_part(&mut self) -> Result<Option<TracePart<'_>>> {
        self.reader.next()
    }

    /// Why the trace ended before its end, or lacks what came too late, in a sentence.
    pub fn missing(&self) -> Option<&str> {
        self.reader.missing()
    }
}

/// Whether a file is a trace, by its first bytes, or a folder is one.
pub fn is_trace(path: &Path) -> bool {
    match Source::of(path) {
        Ok(Source::Folder(folder)) => ctf::is(&folder),
        Ok(Source::File(_, head)) => [dat::is, perf::is, perfetto::is, text::is].iter().any(|is| is(&head)),
        Err(_) => false,
    }
}

/// The place of a trace.
enum Source {
    /// A file, and its first bytes.
    File(File, Vec<u8>),
    Folder(Folder),
}

impl Source {
    fn of(path: &Path) -> io::Result<Source> {
        if let Ok(folder) = Folder::open(path) {
            return Ok(Source::Folder(folder));
        }
        let file = untrusted::open(path)?;
        let mut head = Vec::new();
        (&file).take(HEAD).read_to_end(&mut head)?;
        Ok(Source::File(file, head))
    }
}

/// The bytes that tell the kind of a file.
const HEAD: u64 = 256;

/// The most names of threads.
const THREADS: usize = 1 << 16;

type Opened = std::result::Result<(AboutTrace, Box<dyn ReadTrace>), String>;

fn refused(path: &Path, why: impl Display) -> Error {
    let cure =
        "give the whole trace.dat of trace-cmd, perf.data of perf, trace of Perfetto, or text of ftrace";
    Error::on("read the trace", path.display(), why, cure)
}

/// The size of a file; 0 where the system lacks it.
fn size(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}
