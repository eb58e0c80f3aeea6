// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the records of followed threads come from: cycles, blame and advice do not know which.

use crate::bpf::ThreadWatch;
use crate::record::ThreadRecord;
use crate::recorded::RecordedSource;
use crate::{Result, process};

/// A source of records.
#[derive(Debug)]
pub(crate) enum Source {
    /// The BPF part, at work in this kernel.
    Bpf(Box<ThreadWatch>),
    /// A trace that was recorded.
    Recorded(Box<RecordedSource>),
}

impl Source {
    /// The next record; `None` where there is none yet.
    pub fn take_one(&mut self) -> Option<ThreadRecord> {
        match self {
            Source::Bpf(watch) => watch.take_one(),
            Source::Recorded(trace) => trace.take_one(),
        }
    }

    /// Watches a thread from now on.
    pub fn watch(&mut self, thread: u32) -> Result<()> {
        match self {
            Source::Bpf(watch) => watch.watch(thread),
            Source::Recorded(trace) => {
                trace.watch(thread);
                Ok(())
            }
        }
    }

    /// From now on reports in which calls the thread spends its time on a CPU.
    pub fn sample(&mut self, thread: u32) {
        if let Source::Bpf(watch) = self {
            watch.sample(thread);
        }
    }

    /// From now on reports when page faults of the thread are over.
    pub fn time_faults_of(&mut self, thread: u32) {
        if let Source::Bpf(watch) = self {
            watch.time_faults_of(thread);
        }
    }

    /// The number of records that were lost so far.
    pub fn lost(&self) -> u64 {
        match self {
            Source::Bpf(watch) => watch.lost(),
            Source::Recorded(trace) => trace.lost(),
        }
    }

    /// The number of stacks that were left out so far.
    pub fn withheld(&self) -> u64 {
        match self {
            Source::Bpf(watch) => watch.withheld(),
            Source::Recorded(_) => 0,
        }
    }

    /// The kinds of events that it cannot see, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        match self {
            Source::Bpf(watch) => watch.could_not_see(),
            Source::Recorded(trace) => trace.could_not_see(),
        }
    }

    /// Whether nothing of the process comes any more.
    pub fn is_over(&self, process: u32) -> bool {
        match self {
            Source::Bpf(_) => !process::lives(process),
            Source::Recorded(trace) => trace.is_over(),
        }
    }

    /// Whether more records are there already.
    pub fn is_more(&self) -> bool {
        self.recorded().is_some_and(|trace| !trace.is_over())
    }

    /// The trace, where it is one.
    pub fn recorded(&self) -> Option<&RecordedSource> {
        match self {
            Source::Bpf(_) => None,
            Source::Recorded(trace) => Some(trace),
        }
    }
}
