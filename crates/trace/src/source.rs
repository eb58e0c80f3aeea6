// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the records of followed threads come from: cycles, blame and advice do not know which.

use evidence::cause::Collector;

use crate::boundary::FoundPlaces;
use crate::bpf::ThreadWatch;
use crate::live::LiveTrace;
use crate::record::ThreadRecord;
use crate::recorded::RecordedSource;
use crate::{Error, Result, process};

/// The most records that are taken at once: about as many as a ring holds. Where others keep this process
/// from its CPU, records may come as fast as it takes them.
pub(crate) const AT_ONCE: usize = 1 << 16;

/// A source of records.
#[derive(Debug)]
pub enum RecordSource {
    /// The BPF part, at work in this kernel.
    Bpf(Box<ThreadWatch>),
    /// Trace events of this kernel.
    Live(Box<LiveTrace>),
    /// A trace that was recorded.
    Recorded(Box<RecordedSource>),
}

impl RecordSource {
    /// The next record; `None` where there is none yet.
    pub fn take_one(&mut self) -> Option<ThreadRecord> {
        match self {
            RecordSource::Bpf(watch) => watch.take_one(),
            RecordSource::Live(live) => live.take_one(),
            RecordSource::Recorded(trace) => trace.take_one(),
        }
    }

    /// All records of what has happened up to now.
    pub fn take_all(&mut self) -> Vec<ThreadRecord> {
        if let RecordSource::Live(live) = self {
            live.look_to_the_end();
        }
        std::iter::from_fn(|| self.take_one()).take(AT_ONCE).collect()
    }

    /// Whether each record of a wait tells its system call.
    pub fn has_calls(&self) -> bool {
        !matches!(self, RecordSource::Live(_))
    }

    /// Watches a thread from now on.
    pub fn watch(&mut self, thread: u32) -> Result<()> {
        match self {
            RecordSource::Bpf(watch) => watch.watch(thread),
            RecordSource::Live(live) => {
                live.watch(thread);
                Ok(())
            }
            RecordSource::Recorded(trace) => {
                trace.watch(thread);
                Ok(())
            }
        }
    }

    /// The same, and copies the stacks of its next waits, so many, where it can.
    pub fn watch_waits_of(&mut self, thread: u32, stacks: u64) -> Result<()> {
        match self {
            RecordSource::Bpf(watch) => watch.watch_waits_of(thread, stacks),
            _ => self.watch(thread),
        }
    }

    /// Returns once the threads that are watched are.
    pub fn arm(&mut self) -> Result<()> {
        match self {
            RecordSource::Live(live) => live.arm(),
            RecordSource::Bpf(_) | RecordSource::Recorded(_) => Ok(()),
        }
    }

    /// From now on a caller of the thread's waits is a part of their place: see [`ThreadWatch`].
    pub fn tell_callers_apart(&mut self, thread: u32, offset: u64) -> Result<()> {
        match self {
            RecordSource::Bpf(watch) => watch.tell_callers_apart(thread, offset),
            _ => Ok(()),
        }
    }

    /// From now on threads of the process of `thread` report when they reach these places.
    pub(crate) fn bound(&mut self, thread: u32, is_begin: bool, found: &FoundPlaces) -> Result<()> {
        match self {
            RecordSource::Bpf(watch) => watch.bound(thread, is_begin, found),
            _ => {
                let why = "trace events do not tell where a program is";
                let cure = "leave out --begin, or follow it by BPF: isolator help monitor";
                Err(Error::new(format!("cut cycles at {}", found.shown), why, cure))
            }
        }
    }

    /// Removes these places.
    pub fn unbound(&mut self) {
        if let RecordSource::Bpf(watch) = self {
            watch.unbound();
        }
    }

    /// From now on reports in which calls the thread spends its time on a CPU.
    pub fn sample(&mut self, thread: u32) {
        if let RecordSource::Bpf(watch) = self {
            watch.sample(thread);
        }
    }

    /// From now on reports when page faults of the thread are over.
    pub fn time_faults_of(&mut self, thread: u32) {
        if let RecordSource::Bpf(watch) = self {
            watch.time_faults_of(thread);
        }
    }

    /// The number of records that were lost so far; of trace events, how often some were.
    pub fn lost(&self) -> u64 {
        match self {
            RecordSource::Bpf(watch) => watch.lost(),
            RecordSource::Live(live) => live.lost(),
            RecordSource::Recorded(trace) => trace.lost(),
        }
    }

    /// The number of stacks that were left out so far.
    pub fn withheld(&self) -> u64 {
        match self {
            RecordSource::Bpf(watch) => watch.withheld(),
            RecordSource::Live(_) | RecordSource::Recorded(_) => 0,
        }
    }

    /// Adds to the list of events that it could not see.
    pub fn lacks(&mut self, what: String) {
        match self {
            RecordSource::Bpf(watch) => watch.lacks(what),
            RecordSource::Live(live) => live.lacks(what),
            RecordSource::Recorded(_) => {}
        }
    }

    /// The kinds of events that it cannot see, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        match self {
            RecordSource::Bpf(watch) => watch.could_not_see(),
            RecordSource::Live(live) => live.could_not_see(),
            RecordSource::Recorded(trace) => trace.could_not_see(),
        }
    }

    /// Its name in evidence.
    pub fn collector(&self) -> Collector {
        match self {
            RecordSource::Bpf(watch) => watch.collector(),
            RecordSource::Live(_) => Collector::Tracefs,
            RecordSource::Recorded(_) => Collector::Trace,
        }
    }

    /// Whether nothing of the process comes any more.
    pub fn is_over(&self, process: u32) -> bool {
        match self {
            RecordSource::Bpf(_) | RecordSource::Live(_) => !process::lives(process),
            RecordSource::Recorded(trace) => trace.is_over(),
        }
    }

    /// Whether more records are there already.
    pub fn is_more(&self) -> bool {
        self.recorded().is_some_and(|trace| !trace.is_over())
    }

    /// The trace, where it is one.
    pub fn recorded(&self) -> Option<&RecordedSource> {
        match self {
            RecordSource::Bpf(_) | RecordSource::Live(_) => None,
            RecordSource::Recorded(trace) => Some(trace),
        }
    }
}
