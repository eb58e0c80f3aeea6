// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the rings of `collector.bpf.c`. Numbers are those of its `enum kind` and `enum vector`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use evidence::cause::{Collector, KernelContext};

use super::{Bpf, OWN, OWN_WORDS, SLOT_WORDS, unread};
use crate::Result;
use crate::collect::{BEFORE, Collect};
use crate::event::{ContextKind, DelayedWakeup, Event, EventKind, Sent, Task, Vector};

/// Events in a chunk.
const CHUNK_EVENTS: u64 = 256;
/// Chunks of one CPU.
pub const CHUNKS: u32 = 128;
/// Events of one CPU.
const EVENTS: u64 = CHUNK_EVENTS * CHUNKS as u64;
/// An event in words of 64 bits.
const WORDS: usize = 8;
/// A chunk likewise.
pub const CHUNK_WORDS: usize = CHUNK_EVENTS as usize * WORDS;

/// PF_KTHREAD of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

const VECTOR_EXIT: u64 = 4;
const SWITCH: u64 = 10;
const SENT_CALL: u64 = 22;
const SENT: u64 = 23;
const STACK: u64 = 24;
const KEPT: u64 = 27;
const RENAMED: u64 = 28;
const WOKEN: u64 = 29;
const LEFT: u64 = 30;
const THROTTLED: u64 = 31;

/// The most places between the claim of an interrupted program and its write.
const OPEN: u64 = 16;

/// The longest that a program may take to write an event: the hypervisor may stop another CPU's.
const OPEN_FOR: Duration = Duration::from_millis(2);
const PATIENT_LOOKS: usize = 10;

impl Collect for Bpf {
    fn collector(&self) -> Collector {
        self.part.collector()
    }

    fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }

    fn own(&mut self, cpu: u32, threads: &[u32]) -> Result<()> {
        let Some(slot) = self.slot_of.get(&cpu) else { return Ok(()) };
        // The BPF part writes again what it wrote meanwhile of other CPUs, and this overwrites.
        let mut owns = self.owns.get(&0, 0).map_err(|error| unread(&error))?;
        let own = &mut owns[*slot as usize * OWN_WORDS..][..OWN_WORDS];
        own.fill(0);
        for (place, thread) in threads.iter().take(OWN).enumerate() {
            own[place / 2] |= u64::from(*thread) << (place % 2 * 32);
        }
        self.owns.set(0, owns, 0).map_err(|error| unread(&error))
    }

    fn take(&mut self, cpu: u32) -> Result<(Vec<Event>, u64)> {
        let Some(slot) = self.slot_of.get(&cpu).copied() else { return Ok((Vec::new(), 0)) };
        let taken = self.taken.get(&cpu).copied().unwrap_or(0);
        let (events, next, from) = self.patient_look(slot, taken)?;
        self.taken.insert(cpu, next);
        Ok((events, from.saturating_sub(taken)))
    }

    fn since(&mut self, cpu: u32, from_ns: u64) -> Result<(Vec<Event>, u64)> {
        let Some(slot) = self.slot_of.get(&cpu).copied() else { return Ok((Vec::new(), 0)) };
        let taken = self.taken.get(&cpu).copied().unwrap_or(0);
        let told = self.told.get(&cpu).copied().unwrap_or(0).max(taken);
        let until = self.written(slot)?;
        let oldest = until.saturating_sub(EVENTS).max(taken);
        let chunks = oldest / CHUNK_EVENTS..until.div_ceil(CHUNK_EVENTS);
        let later = first_chunk(chunks, |number| {
            Ok(self.begins_ns(slot, number)?.is_none_or(|begins_ns| begins_ns > from_ns))
        })?;
        let first = later.saturating_sub(1) * CHUNK_EVENTS;
        let (events, next, _) =
            self.patient_look(slot, first.saturating_sub(BEFORE as u64 + OPEN).max(taken))?;
        self.told.insert(cpu, next);
        Ok((events, oldest.saturating_sub(told)))
    }
}

/// The first of these chunks that begins late enough; the one after the last if there is none.
fn first_chunk(chunks: Range<u64>, mut is_late: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
    let Range { start: mut low, end: mut high } = chunks;
    while low < high {
        let middle = low + (high - low) / 2;
        if is_late(middle)? { high = middle } else { low = middle + 1 }
    }
    Ok(low)
}

impl Bpf {
    /// As [`Bpf::look`], but waits for an event that is claimed and not yet written, since it hides later
    /// ones.
    fn patient_look(&self, slot: u32, read: u64) -> Result<(Vec<Event>, u64, u64)> {
        let (mut events, mut next, mut until, mut from) = self.look(slot, read)?;
        for _ in 0..PATIENT_LOOKS {
            if next == until {
                break;
            }
            std::thread::sleep(OPEN_FOR);
            (events, next, until, from) = self.look(slot, read)?;
        }
        Ok((events, next, from))
    }

    /// The time of a chunk's first event; `None` where the ring does not contain it, any more or yet.
    fn begins_ns(&self, slot: u32, number: u64) -> Result<Option<u64>> {
        let chunk = self.chunk(slot, number)?;
        let first = number * CHUNK_EVENTS;
        let mut events = chunk.chunks_exact(WORDS).zip(first + 1..);
        Ok(events.find(|(words, number)| words[1] == *number).map(|(words, _)| words[0]))
    }

    fn chunk(&self, slot: u32, number: u64) -> Result<Box<[u64; CHUNK_WORDS]>> {
        let place = (number % u64::from(CHUNKS)) as u32;
        Ok(Box::new(self.ring.get(&(slot * CHUNKS + place), 0).map_err(|error| unread(&error))?))
    }

    /// The events from number `read` on, the number to go on with, the end of the ring, and the number of the
    /// first event that was read.
    fn look(&self, slot: u32, read: u64) -> Result<(Vec<Event>, u64, u64, u64)> {
        let until = self.written(slot)?;
        let from = read.max(until.saturating_sub(EVENTS));
        let mut chunks = BTreeMap::new();
        for number in (from / CHUNK_EVENTS)..until.div_ceil(CHUNK_EVENTS) {
            chunks.insert((number % u64::from(CHUNKS)) as u32, self.chunk(slot, number)?);
        }
        // Events that may have been overwritten meanwhile are dropped.
        let from = from.max(self.written(slot)?.saturating_sub(EVENTS));
        let (events, next) = self::read(chunks, from..until);
        Ok((events, next, until, from))
    }

    fn written(&self, slot: u32) -> Result<u64> {
        let slots = self.slots.get(&0, 0).map_err(|error| unread(&error))?;
        Ok(slots[slot as usize * SLOT_WORDS])
    }
}

/// The events whose numbers (from 0) are in `valid`, in the order of time, and the number to go on with: the
/// first of the last few that is not yet written.
fn read(chunks: BTreeMap<u32, Box<[u64; CHUNK_WORDS]>>, valid: Range<u64>) -> (Vec<Event>, u64) {
    let mut raw = Vec::with_capacity((valid.end - valid.start.min(valid.end)) as usize);
    let mut next = valid.end;
    for number in valid.clone() {
        let place = number % EVENTS;
        let Some(chunk) = chunks.get(&((place / CHUNK_EVENTS) as u32)) else { continue };
        let at = (place % CHUNK_EVENTS) as usize * WORDS;
        let words: [u64; WORDS] = std::array::from_fn(|word| chunk[at + word]);
        // An event that is claimed and not yet written still has the number of its predecessor.
        if words[1] == number + 1 {
            raw.push(words);
        } else if number + OPEN >= valid.end {
            next = number;
            break;
        }
    }
    drop(chunks);
    raw.sort_by_key(|words| (words[0], words[1]));
    (events(&raw), next)
}

/// A stack belongs to the request, or to the occupant, of the same time and CPU. A quiet cycle is written at
/// its end.
fn events(raw: &[[u64; WORDS]]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::with_capacity(raw.len());
    for words in raw {
        let (monotonic_ns, cpu) = (words[0], cpu(words));
        if code(words) == STACK {
            let mut last = events.iter_mut().rev().take(8);
            let stack = last.find_map(|event| match &mut event.kind {
                _ if event.monotonic_ns != monotonic_ns || event.cpu != cpu => None,
                EventKind::Sent(sent) => Some(&mut sent.stack),
                EventKind::Kept(kept) => Some(&mut kept.stack),
                _ => None,
            });
            if let Some(stack) = stack {
                stack.extend(words[3..].iter().filter(|address| **address != 0));
            }
        } else if code(words) == WOKEN {
            events.extend(quiet_cycle(words));
        } else if let Some(kind) = kind(words) {
            events.extend(stolen(words).map(|ns| Event { monotonic_ns, cpu, kind: EventKind::Stolen(ns) }));
            events.push(Event { monotonic_ns, cpu, kind });
        }
    }
    if !events.is_sorted_by_key(|event| event.monotonic_ns) {
        events.sort_by_key(|event| event.monotonic_ns);
    }
    events
}

/// A measuring thread left the CPU idle, a timer fired, and a measuring thread came; the first two where they
/// have no events of their own.
fn quiet_cycle(words: &[u64; WORDS]) -> impl Iterator<Item = Event> {
    let [pid, function, fired_ns, slept_ns] = [words[3], words[4], words[5], words[6]];
    let at = |monotonic_ns, kind| Event { monotonic_ns, cpu: cpu(words), kind };
    let switch = |from, pid| EventKind::Switch { from, to: Task { pid, ..Task::default() } };
    let slept = (slept_ns != 0).then(|| at(slept_ns, switch(self::pid(words), 0)));
    let fired = (fired_ns != 0).then(|| at(fired_ns, EventKind::Timer(function)));
    [slept, fired, Some(at(words[0], switch(0, pid as u32)))].into_iter().flatten()
}

fn code(words: &[u64; WORDS]) -> u64 {
    words[2] & 0xff
}

/// `enum context` of the C part.
fn context(words: &[u64; WORDS]) -> Option<KernelContext> {
    Some(match words[2] >> 8 & 0xff {
        1 => KernelContext::Task,
        2 => KernelContext::Softirq,
        3 => KernelContext::Hardirq,
        4 => KernelContext::Nmi,
        _ => return None,
    })
}

/// The hypervisor's clock in an event that read it.
fn stolen(words: &[u64; WORDS]) -> Option<u64> {
    let and_one = match code(words) {
        VECTOR_EXIT => words[4],
        SWITCH => words[5],
        KEPT => words[6],
        _ => 0,
    };
    // One that never counted is none: a kernel has its place also where no hypervisor writes there.
    and_one.checked_sub(1).filter(|ns| *ns > 0)
}

fn cpu(words: &[u64; WORDS]) -> u32 {
    (words[2] >> 16 & 0xffff) as u32
}

fn pid(words: &[u64; WORDS]) -> u32 {
    (words[2] >> 32) as u32
}

fn kind(words: &[u64; WORDS]) -> Option<EventKind> {
    let [first, second, third] = [words[3], words[4], words[5]];
    let number = first as u32;
    Some(match code(words) {
        1 => EventKind::Enter(ContextKind::Irq(number)),
        2 => EventKind::Exit(ContextKind::Irq(number)),
        3 => EventKind::Enter(ContextKind::Vector(vector(first))),
        VECTOR_EXIT => EventKind::Exit(ContextKind::Vector(vector(first))),
        5 => EventKind::Enter(ContextKind::Softirq(number)),
        6 => EventKind::Exit(ContextKind::Softirq(number)),
        7 => EventKind::Enter(ContextKind::Call { function: first, request: second }),
        8 => EventKind::Exit(ContextKind::Call { function: first, request: second }),
        9 => EventKind::Nmi { handler: first, duration_ns: second },
        SWITCH => EventKind::Switch { from: pid(words), to: task(words) },
        11 => {
            let waker = by(words);
            EventKind::Waking { woken: number, waker }
        }
        12 => EventKind::Enter(ContextKind::Work(first)),
        13 => EventKind::Exit(ContextKind::Work(first)),
        14 => EventKind::Timer(first),
        15 => EventKind::Fault(first),
        16 => EventKind::Enter(ContextKind::Syscall(first)),
        17 => EventKind::Exit(ContextKind::Syscall(first)),
        18 => EventKind::Idle(number),
        19 => EventKind::Frequency { khz: first },
        20 => EventKind::TickKept(first),
        21 => EventKind::Migrate { pid: number, to: second as u32 },
        SENT_CALL => EventKind::Sent(Box::new(sent(words, Some(first), second, third))),
        SENT => EventKind::Sent(Box::new(sent(words, None, first, third))),
        25 => EventKind::Enter(ContextKind::Vector(Vector::of_arm(&text(words)))),
        26 => EventKind::Exit(ContextKind::Vector(Vector::of_arm(&text(words)))),
        KEPT => EventKind::Kept(Box::new(DelayedWakeup {
            woken: Some(number).filter(|pid| *pid != 0),
            priorities: (Some(second as i32), (number != 0).then_some((second >> 32) as i32)),
            in_user_mode: third != 0,
            ..DelayedWakeup::default()
        })),
        LEFT => EventKind::Left {
            pid: number,
            prio: Some((first >> 32) as i32),
            is_stopped: second != 0,
            is_throttled: third != 0,
        },
        THROTTLED => EventKind::Throttled { pid: number, prio: (first >> 32) as i32 },
        RENAMED => EventKind::Renamed { pid: number, comm: text(words) },
        _ => return None,
    })
}

fn vector(which: u64) -> Vector {
    match which {
        0 => Vector::LocalTimer,
        1 => Vector::Reschedule,
        2 | 3 => Vector::CallFunction,
        4 => Vector::IrqWork,
        5 => Vector::PlatformIpi,
        6 => Vector::Thermal,
        7 => Vector::Threshold,
        8 => Vector::DeferredError,
        9 => Vector::Error,
        10 => Vector::Spurious,
        _ => Vector::Other,
    }
}

fn task(words: &[u64; WORDS]) -> Task {
    let pid = words[3] as u32;
    let comm = text(words);
    let known = !comm.is_empty();
    Task {
        pid,
        comm,
        prio: known.then_some((words[3] >> 32) as i32),
        kernel: known.then_some(words[4] & KERNEL_THREAD != 0),
        context: None,
    }
}

/// The waker or sender.
fn by(words: &[u64; WORDS]) -> Task {
    Task { pid: pid(words), comm: text(words), context: context(words), ..Task::default() }
}

fn sent(words: &[u64; WORDS], request: Option<u64>, function: u64, call_site: u64) -> Sent {
    Sent { by: by(words), cpu: cpu(words), request, function, stack: vec![call_site] }
}

/// The last two words as a name.
fn text(words: &[u64; WORDS]) -> String {
    let bytes = words[6..].iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(number: u64, monotonic_ns: u64, kind: u64, cpu: u64, pid: u64, words: [u64; 5]) -> [u64; WORDS] {
        let mut raw = [monotonic_ns, number + 1, kind | cpu << 16 | pid << 32, 0, 0, 0, 0, 0];
        raw[3..].copy_from_slice(&words);
        raw
    }

    fn chunks(raw: &[[u64; WORDS]]) -> BTreeMap<u32, Box<[u64; CHUNK_WORDS]>> {
        let mut chunks = BTreeMap::new();
        for words in raw {
            let place = (words[1] - 1) % EVENTS;
            let at = (place % CHUNK_EVENTS) as usize * WORDS;
            let chunk =
                chunks.entry((place / CHUNK_EVENTS) as u32).or_insert_with(|| Box::new([0; CHUNK_WORDS]));
            chunk[at..at + WORDS].copy_from_slice(words);
        }
        chunks
    }

    #[test]
    fn kinds_have_the_numbers_of_the_c_part() {
        let source = include_str!("../../bpf/ring.h");
        let kinds = source.split_once("enum kind {").unwrap().1.split_once("};").unwrap().0;
        let names = kinds.lines().filter_map(|line| line.trim().split([',', ' ']).next());
        let names = names.filter(|name| !name.is_empty()).collect::<Vec<_>>();
        let number = |name: &str| names.iter().position(|one| *one == name).unwrap() as u64 + 1;
        assert_eq!((number("SENT_CALL"), number("SENT"), number("STACK")), (SENT_CALL, SENT, STACK));
        assert_eq!((number("KEPT"), number("RENAMED"), number("WOKEN")), (KEPT, RENAMED, WOKEN));
        assert_eq!((number("VECTOR_EXIT"), number("SWITCH"), number("LEFT")), (VECTOR_EXIT, SWITCH, LEFT));
        assert_eq!(number("THROTTLED"), THROTTLED);
        let source = include_str!("../../../../tools/per_cpu.h");
        let contexts = source.split_once("enum context {").unwrap().1.split_once("};").unwrap().0;
        let names = contexts.split(',').map(str::trim).filter(|name| !name.is_empty()).collect::<Vec<_>>();
        assert_eq!(names, ["UNKNOWN_CONTEXT", "IN_TASK", "IN_SOFTIRQ", "IN_HARDIRQ", "IN_NMI"]);
        let story = [
            ("IRQ_ENTER", EventKind::Enter(ContextKind::Irq(0))),
            ("SOFTIRQ_EXIT", EventKind::Exit(ContextKind::Softirq(0))),
            ("NMI", EventKind::Nmi { handler: 0, duration_ns: 0 }),
            ("WORK_EXIT", EventKind::Exit(ContextKind::Work(0))),
            ("TIMER", EventKind::Timer(0)),
            ("FAULT", EventKind::Fault(0)),
            ("SYSCALL_EXIT", EventKind::Exit(ContextKind::Syscall(0))),
            ("IDLE", EventKind::Idle(0)),
            ("TICK_KEPT", EventKind::TickKept(0)),
            ("MIGRATE", EventKind::Migrate { pid: 0, to: 0 }),
            ("IPI_EXIT", EventKind::Exit(ContextKind::Vector(Vector::Other))),
        ];
        for (name, expected) in story {
            assert_eq!(kind(&raw(0, 0, number(name), 0, 0, [0; 5])), Some(expected), "{name}");
        }
    }

    #[test]
    fn reads_whole_events_in_the_order_of_time() {
        let first = EVENTS - 1;
        let raw = [
            raw(first, 200, 18, 3, 0, [1, 0, 0, 0, 0]),
            raw(first + 1, 150, 18, 3, 0, [2, 0, 0, 0, 0]),
            raw(first + 3, 300, 18, 3, 0, [4, 0, 0, 0, 0]),
        ];
        // The third one is claimed and not yet written: the next read begins with it.
        let (found, next) = read(chunks(&raw), first..first + 4);
        let states = found.iter().map(|event| (event.monotonic_ns, &event.kind)).collect::<Vec<_>>();
        assert_eq!((states, next), (vec![(150, &EventKind::Idle(2)), (200, &EventKind::Idle(1))], first + 2));
        let (found, next) = read(chunks(&raw), first + 3..first + 4);
        assert_eq!((found.len(), next), (1, first + 4));
        let (found, next) = read(chunks(&raw), first..first + 2 + OPEN + 1);
        assert_eq!((found.len(), next), (3, first + 4), "an event that is never written is given up");
    }

    #[test]
    fn finds_the_first_chunk_that_is_late_enough() {
        let begins = [10, 20, 20, 30];
        let of = |from: u64| first_chunk(7..11, |number| Ok(begins[number as usize - 7] > from)).unwrap();
        assert_eq!([9, 10, 19, 20, 30].map(of), [7, 8, 8, 10, 11]);
        assert_eq!(first_chunk(7..7, |_| Ok(true)).unwrap(), 7);
    }

    #[test]
    fn callers_belong_to_their_request() {
        let comm = u64::from_le_bytes(*b"dd\0\0\0\0\0\0");
        let raw = [
            raw(0, 100, SENT_CALL, 1, 42, [0xc5d, 0xf, 0xca11, comm, 0]),
            raw(1, 100, STACK, 1, 0, [1, 2, 3, 4, 5]),
            raw(2, 100, STACK, 1, 1, [6, 0, 0, 0, 0]),
        ];
        let (found, _) = read(chunks(&raw), 0..3);
        let [Event { cpu: 1, kind: EventKind::Sent(sent), .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!((sent.by.pid, sent.by.comm.as_str(), sent.request), (42, "dd", Some(0xc5d)));
        assert_eq!(sent.stack, [0xca11, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn callers_belong_to_the_delayed_wakeup() {
        let raw = [
            raw(0, 100, KEPT, 1, 42, [7, 19 << 32 | 120, 0, 1_001, 0]),
            raw(1, 100, STACK, 1, 0, [1, 2, 3, 4, 5]),
            raw(2, 100, STACK, 1, 1, [6, 0, 0, 0, 0]),
            raw(3, 101, STACK, 1, 1, [9, 0, 0, 0, 0]),
        ];
        let (found, _) = read(chunks(&raw), 0..4);
        let priorities = (Some(120), Some(19));
        let kept = DelayedWakeup {
            woken: Some(7),
            priorities,
            stack: (1..=6).collect(),
            ..DelayedWakeup::default()
        };
        let kinds = [EventKind::Stolen(1_000), EventKind::Kept(Box::new(kept))];
        assert_eq!(found, kinds.map(|kind| Event { monotonic_ns: 100, cpu: 1, kind }));
    }

    #[test]
    fn a_waker_and_a_sender_have_their_context() {
        let raw =
            [raw(0, 100, 11 | 3 << 8, 2, 42, [7, 0, 0, 0, 0]), raw(1, 101, SENT | 1 << 8, 2, 42, [0; 5])];
        let (found, _) = read(chunks(&raw), 0..2);
        let EventKind::Waking { waker, .. } = &found[0].kind else { panic!("{found:?}") };
        let EventKind::Sent(sent) = &found[1].kind else { panic!("{found:?}") };
        assert_eq!(
            (waker.context, sent.by.context),
            (Some(KernelContext::Hardirq), Some(KernelContext::Task))
        );
    }

    #[test]
    fn a_quiet_cycle_becomes_all_its_events() {
        let raw = [
            raw(0, 150, 18, 1, 0, [2, 0, 0, 0, 0]),
            raw(1, 300, WOKEN, 1, 7, [8, 0xf0, 200, 100, 0]),
            raw(2, 400, WOKEN, 1, 7, [7, 0xf0, 0, 0, 0]),
        ];
        let (found, _) = read(chunks(&raw), 0..3);
        let switch = |from, pid| EventKind::Switch { from, to: Task { pid, ..Task::default() } };
        let events = [
            (100, switch(7, 0)),
            (150, EventKind::Idle(2)),
            (200, EventKind::Timer(0xf0)),
            (300, switch(0, 8)),
            (400, switch(0, 7)),
        ];
        assert_eq!(found, events.map(|(monotonic_ns, kind)| Event { monotonic_ns, cpu: 1, kind }));
    }

    #[test]
    fn a_renamed_thread_has_its_new_name() {
        let comm = u64::from_le_bytes(*b"stress\0\0");
        let (found, _) = read(chunks(&[raw(0, 100, RENAMED, 1, 0, [42, 0, 0, comm, 0])]), 0..1);
        assert_eq!(found[0].kind, EventKind::Renamed { pid: 42, comm: "stress".into() });
    }
}
