// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls in which threads wait, from `/proc/TID/syscall` while they wait: no event tells them.
//!
//! A look tells the call of the wait that it falls into. A thread's waits that end alike, by one timer, one
//! interrupt or one waker, are taken to be of one call: so a few looks name all waits of a loop. The records
//! of a thread are held back until its waits have their calls, a little while at most.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;

use rt::clock::monotonic_ns;

use crate::record::{Interrupt, ThreadEvent, ThreadRecord, Waking};

/// How long a thread's records are held back from the first look at it on.
const FIRST_NS: u64 = 300_000_000;

/// How long a wait is held back whose end did not come.
const LONG_NS: u64 = 1_000_000_000;

/// The most records of a thread that are held back, and the most ways in which its waits end.
const HELD: usize = 1 << 14;
const ENDS: usize = 256;

/// More than a line of `/proc/TID/syscall`.
const LINE: usize = 256;

/// A call, with its first arguments.
type Call = (u32, [u64; 4]);

/// A look at a thread that waited in a call.
#[derive(Debug, Clone, Copy)]
struct Look {
    from_ns: u64,
    to_ns: u64,
    call: Call,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WaitEnd {
    /// By a timer: its address, if it has one of its own.
    timer: Option<Option<u64>>,
    interrupt: Option<Interrupt>,
    waker: u32,
}

impl WaitEnd {
    fn of(waking: &Waking) -> WaitEnd {
        let timer = waking.due_ns.map(|_| waking.timer);
        let waker = waking.by().map_or(0, |(waker, _)| waker);
        WaitEnd { timer, interrupt: waking.interrupt.clone().filter(|_| timer.is_none()), waker }
    }
}

/// A thread's records that are held back.
#[derive(Debug, Default)]
struct Held {
    /// `/proc/TID/syscall`
    file: Option<File>,
    records: VecDeque<ThreadRecord>,
    look: Option<Look>,
    /// The calls of waits, by their ends.
    known: Vec<(WaitEnd, Call)>,
    /// The call of a wait whose end did not come yet.
    open: Option<Call>,
    /// When it was looked at first.
    first_ns: Option<u64>,
}

/// The records of all threads.
#[derive(Debug, Default)]
pub(super) struct SampledCalls {
    threads: BTreeMap<u32, Held>,
    ready: VecDeque<ThreadRecord>,
}

impl SampledCalls {
    /// Looks up the call in which a thread waits now.
    pub(super) fn look_at(&mut self, thread: u32) {
        let held = self.threads.entry(thread).or_default();
        if held.file.is_none() {
            held.file = untrusted::open(format!("/proc/{thread}/syscall")).ok();
        }
        // As short as can be: a wait that ends meanwhile is not the one that was looked at.
        let mut line = [0; LINE];
        let from_ns = monotonic_ns();
        let length = held.file.as_ref().and_then(|file| file.read_at(&mut line, 0).ok()).unwrap_or(0);
        let to_ns = monotonic_ns();
        let text = String::from_utf8_lossy(&line[..length]);
        held.look = parsed(&text).map(|call| Look { from_ns, to_ns, call });
        held.first_ns.get_or_insert(from_ns);
    }

    /// Adds a record; those of one thread come in the order of time.
    pub(super) fn add(&mut self, record: ThreadRecord) {
        let held = self.threads.entry(record.thread).or_default();
        if let ThreadEvent::Stay(stay) = &record.kind
            && let Some(call) = held.open.take()
        {
            held.learn(WaitEnd::of(&stay.waking), call);
        }
        held.records.push_back(record);
    }

    /// Hands on what need not be held back. All records up to `now_ns` were added.
    pub(super) fn release(&mut self, now_ns: u64) {
        for held in self.threads.values_mut() {
            held.release(now_ns, &mut self.ready);
        }
        self.threads.retain(|_, held| !held.is_over());
    }

    /// The next record.
    pub(super) fn next_record(&mut self) -> Option<ThreadRecord> {
        self.ready.pop_front()
    }
}

impl Held {
    fn learn(&mut self, end: WaitEnd, call: Call) {
        let room = self.known.len() < ENDS;
        match self.known.iter_mut().find(|(known, _)| *known == end) {
            Some((_, known)) => *known = call,
            None if room => self.known.push((end, call)),
            None => {}
        }
    }

    fn is_over(&self) -> bool {
        self.records.is_empty() && self.first_ns.is_none()
    }

    fn release(&mut self, now_ns: u64, ready: &mut VecDeque<ThreadRecord>) {
        let is_first = self.first_ns.is_none_or(|first_ns| now_ns.saturating_sub(first_ns) < FIRST_NS);
        let is_full = self.records.len() > HELD;
        self.take_look();
        while let Some(mut record) = self.records.pop_front() {
            if let ThreadEvent::Stay(stay) = &mut record.kind
                && (stay.leaving.sleeps || stay.leaving.is_cut)
                && stay.leaving.call.is_none()
            {
                let (call, has_ended) = self.known_call();
                let is_long = now_ns.saturating_sub(stay.out_ns) > LONG_NS;
                if call.is_none() && (is_first || !has_ended) && !is_long && !is_full {
                    self.records.push_front(record);
                    return;
                }
                if let Some((call, arguments)) = call {
                    stay.leaving.is_call_unknown = false;
                    (stay.leaving.call, stay.leaving.arguments) = (Some(call), arguments);
                }
            }
            if record.kind == ThreadEvent::Exited {
                self.first_ns = None;
            }
            ready.push_back(record);
        }
    }

    /// Gives the wait that the look falls into its call, and learns how that wait ends.
    fn take_look(&mut self) {
        let Some(look) = self.look.take() else { return };
        let mut stays = self.records.iter_mut().filter_map(|record| match &mut record.kind {
            ThreadEvent::Stay(stay) => Some(stay),
            _ => None,
        });
        let (mut waits, mut end) = (None, None);
        for stay in &mut stays {
            if stay.out_ns > look.from_ns {
                end = Some((stay.woken_ns.unwrap_or(stay.in_ns), WaitEnd::of(&stay.waking)));
                break;
            }
            waits = Some(stay);
        }
        let is_within = end.as_ref().is_none_or(|(ended_ns, _)| look.to_ns <= *ended_ns);
        let Some(stay) = waits.filter(|stay| is_within && stay.leaving.sleeps) else { return };
        stay.leaving.is_call_unknown = false;
        (stay.leaving.call, stay.leaving.arguments) = (Some(look.call.0), look.call.1);
        match end {
            Some((_, end)) => self.learn(end, look.call),
            // It goes on.
            None => self.open = Some(look.call),
        }
    }

    /// The call of the wait that the next stay ends, by its end; and whether that stay has come.
    fn known_call(&self) -> (Option<Call>, bool) {
        let next = self.records.iter().find_map(|record| match &record.kind {
            ThreadEvent::Stay(next) => Some(WaitEnd::of(&next.waking)),
            _ => None,
        });
        let known = next.as_ref().and_then(|end| self.known.iter().find(|(known, _)| known == end));
        (known.map(|(_, call)| *call), next.is_some())
    }
}

/// A line of `/proc/TID/syscall`: number, six arguments, stack pointer and instruction pointer; `running`, or
/// `-1` outside of calls.
fn parsed(text: &str) -> Option<Call> {
    let mut words = text.split_whitespace();
    let call = words.next()?.parse::<u32>().ok()?;
    let mut arguments = [0; 4];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((call, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Leaving, Stay};

    const SLEEP: Call = (230, [1, 1, 0, 0]);

    fn stay(in_ns: u64, out_ns: u64, timer: Option<u64>) -> ThreadRecord {
        let waking = Waking { due_ns: Some(in_ns - 5), timer, ..Waking::default() };
        let leaving = Leaving { sleeps: true, ..Leaving::default() };
        let stay = Stay { woken_ns: Some(in_ns - 2), in_ns, out_ns, waking, leaving, ..Stay::default() };
        ThreadRecord { thread: 7, cpu: 1, at_ns: out_ns, kind: ThreadEvent::Stay(Box::new(stay)) }
    }

    fn taken(calls: &mut SampledCalls) -> Vec<(u64, Option<u32>)> {
        let records = std::iter::from_fn(|| calls.next_record());
        let of = |record: ThreadRecord| match record.kind {
            ThreadEvent::Stay(stay) => (stay.out_ns, stay.leaving.call),
            _ => (record.at_ns, None),
        };
        records.map(of).collect()
    }

    fn looked(calls: &mut SampledCalls, from_ns: u64, call: Call) {
        let held = calls.threads.entry(7).or_default();
        held.look = Some(Look { from_ns, to_ns: from_ns + 10, call });
        held.first_ns.get_or_insert(from_ns);
    }

    #[test]
    fn a_look_names_the_wait_that_it_falls_into_and_those_that_end_alike() {
        let mut calls = SampledCalls::default();
        for cycle in 1..=4u64 {
            calls.add(stay(1_000 * cycle, 1_000 * cycle + 100, None));
        }
        // Another timer ends the wait after the fourth.
        calls.add(stay(5_000, 5_100, Some(9)));
        looked(&mut calls, 2_500, SLEEP);
        calls.release(6_000);
        // The end of the last wait did not come, and nothing tells the one before it.
        let first = [(1_100, Some(230)), (2_100, Some(230)), (3_100, Some(230))];
        assert_eq!(taken(&mut calls), first);
        calls.release(6_000 + FIRST_NS);
        assert_eq!(taken(&mut calls), [(4_100, None)]);
        calls.release(6_000 + LONG_NS);
        assert_eq!(taken(&mut calls), [(5_100, None)]);
    }

    #[test]
    fn a_look_into_a_wait_that_goes_on_names_it_at_once_and_its_end_later() {
        let mut calls = SampledCalls::default();
        calls.add(stay(1_000, 1_100, None));
        looked(&mut calls, 1_500, SLEEP);
        calls.release(1_600);
        assert_eq!(taken(&mut calls), [(1_100, Some(230))]);
        calls.add(stay(2_000, 2_100, None));
        calls.add(stay(3_000, 3_100, None));
        calls.release(3_200);
        assert_eq!(taken(&mut calls), [(2_100, Some(230))]);
    }

    #[test]
    fn other_records_keep_their_place_and_a_thread_that_ran_has_no_call() {
        let mut calls = SampledCalls::default();
        calls.add(stay(1_000, 1_100, None));
        let kind = ThreadEvent::Moved { to: 2 };
        calls.add(ThreadRecord { thread: 7, cpu: 1, at_ns: 1_200, kind });
        calls.release(2_000);
        assert_eq!(taken(&mut calls), []);
        calls.release(2_000 + LONG_NS);
        assert_eq!(taken(&mut calls), [(1_100, None), (1_200, None)]);
        let line = "230 0x1 0x1 0x7ffe 0x0 0x0 0x0 0x7ffe 0x7f00\n";
        assert_eq!(parsed(line), Some((230, [1, 1, 0x7ffe, 0])));
        assert_eq!(["running\n", "-1 0x7ffe 0x7f00\n", "", "230 0x1\n"].map(parsed), [None; 4]);
    }
}
