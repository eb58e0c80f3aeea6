// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the records of `threads.bpf.c`, with the numbers of its `enum kind` and the layouts of its
//! structures.
//!
//! Times that one record tells, and the stays of one thread, go forward from here on. In the kernel they need
//! not: two CPUs may read its clock some nanoseconds apart, and where the BPF part is preempted at a
//! boundary, the stay that ends there overlaps the one before. A due time may go back from one cycle to the
//! next: a clock was set, or the program asked for that.

use std::collections::BTreeMap;

use cause::bpf::RecordBytes;
use symbols::UserRegisters;
use syscalls::Sysno;
#[cfg(target_arch = "aarch64")]
use syscalls::arm::Sysno as Compat;
#[cfg(not(target_arch = "aarch64"))]
use syscalls::x86::Sysno as Compat;

use crate::record::{
    Boundary, Interrupt, Leaving, Predecessor, Scheduled, StackTaken, Stay, ThreadEvent, ThreadRecord,
    UserStack, Waking,
};

/// PF_KTHREAD of the kernel.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// The mark of a 32-bit program's call.
const COMPAT: u32 = 1 << 30;

/// States of a thread that was stopped, is traced, or is frozen (include/linux/sched.h).
const STOPPED: u32 = 0x4 | 0x8 | 0x8000;

const BY_TIMER: u32 = 1;
const UNSEEN: u32 = 8;
const ELSEWHERE: u32 = 16;
const INHERITED: u32 = 32;
const GOES_ON: u32 = 64;
const HOLE: u32 = 128;
const THROTTLED: u32 = 256;
const HELD_BACK: u32 = 512;

/// Decodes records, one after the other.
#[derive(Debug, Default)]
pub struct RecordReader {
    /// When each thread left its CPU last.
    left_ns: BTreeMap<u32, u64>,
}

impl RecordReader {
    /// A record from its bytes; `None` for an unknown kind.
    pub fn read(&mut self, bytes: &[u8]) -> Option<ThreadRecord> {
        let mut record = read(bytes)?;
        match &mut record.kind {
            ThreadEvent::Stay(stay) => {
                let left_ns = self.left_ns.entry(record.thread).or_default();
                stay.in_ns = stay.in_ns.max(*left_ns);
                stay.out_ns = stay.out_ns.max(stay.in_ns);
                (record.at_ns, *left_ns) = (stay.out_ns, stay.out_ns);
            }
            ThreadEvent::Exited => drop(self.left_ns.remove(&record.thread)),
            _ => {}
        }
        Some(record)
    }
}

fn read(bytes: &[u8]) -> Option<ThreadRecord> {
    let mut bytes = RecordBytes(bytes);
    let (kind, cpu) = (bytes.u16()?, u32::from(bytes.u16()?));
    let (thread, at_ns) = (bytes.u32()?, bytes.u64()?);
    let kind = match kind {
        1 => ThreadEvent::Stay(Box::new(stay(thread, at_ns, &mut bytes, |_| None)?)),
        12 => {
            ThreadEvent::Stay(Box::new(stay(thread, at_ns, &mut bytes, |sp| Some(Boundary::Begin { sp }))?))
        }
        13 => ThreadEvent::Stay(Box::new(stay(thread, at_ns, &mut bytes, |_| Some(Boundary::End))?)),
        14 => ThreadEvent::Spun(Box::new(stay(thread, at_ns, &mut bytes, |_| None)?)),
        15 => sample(&mut bytes)?,
        2 => stack(&mut bytes),
        3 => switched(thread, &mut bytes)?,
        9 => ThreadEvent::UserStack(Box::new(user_stack(&mut bytes)?)),
        _ => note(kind, &mut bytes)?,
    };
    Some(ThreadRecord { thread, cpu, at_ns, kind })
}

fn stay(
    thread: u32,
    out_ns: u64,
    bytes: &mut RecordBytes<'_>,
    boundary: impl Fn(u64) -> Option<Boundary>,
) -> Option<Stay> {
    let (woken_ns, in_ns, due_ns, timer) = (bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let (in_ns, woken_ns) = (in_ns.min(out_ns), Some(woken_ns).filter(|ns| *ns != 0));
    let woken_ns = woken_ns.map(|ns| ns.min(in_ns));
    // On CLOCK_MONOTONIC, a time of another clock may lie before the boot: below zero.
    let due_ns = i64::try_from(due_ns).map_or(0, |_| due_ns).min(woken_ns.unwrap_or(out_ns));
    let (waker, how, waker_name) = (bytes.u32()?, bytes.u32()?, bytes.name()?);
    let (state, next) = (bytes.u32()?, bytes.u32()?);
    let next = Scheduled { id: next, prio: bytes.i32()?, policy: bytes.u32()?, name: bytes.name()? };
    let call = call(bytes.u64()?);
    let arguments = [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?];
    let words = [bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?];
    let place = bytes.u64()?;
    let (prio, policy, faults, migrations) = (bytes.i32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?);
    let (id, prio_then, flags, lost) = (bytes.u32()?, bytes.i32()?, bytes.u32()?, bytes.u32()?);
    let after = left(id, prio_then, flags, bytes.name()?);
    let interrupt = interrupt(bytes.u32()?, bytes.u32()?, bytes.name()?);
    let (withheld_ns, stolen_before_ns, stolen_within_ns) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let waking = Waking {
        due_ns: (how & BY_TIMER != 0).then_some(due_ns),
        timer: Some(timer).filter(|timer| *timer != 0 && how & (INHERITED | GOES_ON) == 0),
        inherited: (how & INHERITED != 0).then_some((due_ns, timer)),
        waker,
        waker_name,
        interrupt,
        is_elsewhere: how & ELSEWHERE != 0,
        is_throttled: how & HELD_BACK != 0,
    };
    let boundary = boundary(arguments[0]);
    let leaving = Leaving {
        is_call_unknown: false,
        sleeps: state != 0,
        is_stopped: state & STOPPED != 0,
        is_throttled: how & THROTTLED != 0,
        // Only a stay that is split is followed by the same thread.
        is_cut: state == 0 && next.id == thread && boundary.is_none(),
        boundary,
        call,
        arguments,
        words,
        place,
        next,
    };
    let is_begin_unseen = how & UNSEEN != 0;
    Some(Stay {
        woken_ns,
        is_begin_unseen,
        goes_on: how & GOES_ON != 0,
        after,
        in_ns,
        out_ns,
        waking,
        leaving,
        prio,
        policy,
        faults,
        migrations,
        lost,
        has_hole: how & HOLE != 0,
        withheld_ns,
        stolen_before_ns,
        stolen_within_ns,
    })
}

/// The number of a call here, also for one of a 32-bit program. One that only these have keeps its mark.
fn own_call(call: u32) -> u32 {
    let Some(number) = call.checked_sub(COMPAT) else { return call };
    let name = Compat::new(number as usize).map_or("", |call| call.name());
    let name = name.trim_start_matches('_');
    let same =
        [name, name.trim_end_matches("_time64"), name.trim_end_matches("64"), name.trim_start_matches("new")];
    let own = same.into_iter().find_map(|name| name.parse::<Sysno>().ok());
    own.map_or(call, |own| own as u32)
}

/// By the context of tools/per_cpu.h.
fn interrupt(context: u32, number: u32, handler: String) -> Option<Interrupt> {
    match context {
        2 => Some(Interrupt::Soft(number)),
        3 => Some(Interrupt::Hard(handler)),
        4 => Some(Interrupt::Nmi),
        _ => None,
    }
}

fn sample(bytes: &mut RecordBytes<'_>) -> Option<ThreadEvent> {
    let call = call(bytes.u64()?);
    Some(ThreadEvent::Sample { call, callers: addresses(bytes) })
}

fn call(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|call| *call != u32::MAX).map(own_call)
}

fn addresses(bytes: &mut RecordBytes<'_>) -> Vec<u64> {
    std::iter::from_fn(|| bytes.u64()).take_while(|address| *address != 0).collect()
}

fn stack(bytes: &mut RecordBytes<'_>) -> ThreadEvent {
    ThreadEvent::Stack(addresses(bytes))
}

fn user_stack(bytes: &mut RecordBytes<'_>) -> Option<UserStack> {
    let taken = match bytes.u32()? {
        1 => StackTaken::AtWait,
        2 => StackTaken::AtRelease,
        3 => StackTaken::AtFault,
        _ => return None,
    };
    let whose = bytes.u32()?;
    let registers = UserRegisters { ip: bytes.u64()?, sp: bytes.u64()?, bp: bytes.u64()?, lr: bytes.u64()? };
    let length = usize::try_from(bytes.u64()?).ok()?;
    Some(UserStack { taken, whose, registers, bytes: bytes.bytes(length)?.to_vec() })
}

fn switched(id: u32, bytes: &mut RecordBytes<'_>) -> Option<ThreadEvent> {
    let (prio, policy, flags, from) = (bytes.i32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?);
    let to = Scheduled { id, prio, policy, name: bytes.name()? };
    let name = bytes.name()?;
    let from = left(from, bytes.i32()?, bytes.u32()?, name);
    Some(ThreadEvent::Switched { from, to, is_kernel: flags & KERNEL_THREAD != 0 })
}

fn left(id: u32, prio: i32, flags: u32, name: String) -> Predecessor {
    Predecessor { id, prio, is_kernel: flags & KERNEL_THREAD != 0, name }
}

fn note(kind: u16, bytes: &mut RecordBytes<'_>) -> Option<ThreadEvent> {
    let (first, second, name) = (bytes.u64()?, bytes.u64()?, bytes.name()?);
    Some(match kind {
        4 => ThreadEvent::Fault { address: first, code: second },
        5 => ThreadEvent::Started { process: first as u32, name },
        6 => ThreadEvent::Forked { process: first as u32 },
        7 => ThreadEvent::Executed { name },
        8 => ThreadEvent::Exited,
        10 => ThreadEvent::FaultOver { began_ns: first },
        11 => ThreadEvent::Moved { to: first as u32 },
        16 => ThreadEvent::Signalled { signal: first as u32, handler: second },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: u32 = 71;

    /// A stay that a timer began, as the BPF part writes it.
    fn bytes([woken_ns, in_ns, due_ns, out_ns]: [u64; 4]) -> Vec<u8> {
        let mut bytes = [1u16, 0].map(u16::to_ne_bytes).concat();
        bytes.extend(THREAD.to_ne_bytes());
        bytes.extend([out_ns, woken_ns, in_ns, due_ns, 0].map(u64::to_ne_bytes).concat());
        bytes.extend([0, BY_TIMER].map(u32::to_ne_bytes).concat());
        // All that tells how it left.
        bytes.resize(bytes.len() + 16 + 16 + 16 + 8 + 32 + 16 + 8 + 16 + 16 + 16 + 24 + 24, 0);
        bytes
    }

    fn stay(reader: &mut RecordReader, times: [u64; 4]) -> Stay {
        match reader.read(&bytes(times)).map(|record| record.kind) {
            Some(ThreadEvent::Stay(stay)) => *stay,
            other => panic!("{other:?}"),
        }
    }

    fn times(stay: &Stay) -> [Option<u64>; 4] {
        [stay.woken_ns, Some(stay.in_ns), stay.waking.due_ns, Some(stay.out_ns)]
    }

    #[test]
    fn times_of_a_stay_go_forward() {
        let mut reader = RecordReader::default();
        assert_eq!(times(&stay(&mut reader, [20, 30, 10, 40])), [20, 30, 10, 40].map(Some));
        assert_eq!(times(&stay(&mut reader, [57, 56, 58, 55])), [55, 55, 55, 55].map(Some));
    }

    #[test]
    fn a_time_before_the_boot_is_due_at_the_boot() {
        let stay = stay(&mut RecordReader::default(), [20, 30, 5u64.wrapping_sub(1_000), 40]);
        assert_eq!(stay.waking.due_ns, Some(0));
    }

    #[test]
    fn calls_of_32_bit_programs_are_those_of_here() {
        let numbered = |call: Compat| own_call(COMPAT | call as u32);
        for (compat, own) in [
            (Compat::clock_nanosleep, Sysno::clock_nanosleep),
            (Compat::clock_nanosleep_time64, Sysno::clock_nanosleep),
            (Compat::ppoll_time64, Sysno::ppoll),
            (Compat::fcntl64, Sysno::fcntl),
            (Compat::rt_sigtimedwait_time64, Sysno::rt_sigtimedwait),
            (Compat::epoll_pwait, Sysno::epoll_pwait),
        ] {
            assert_eq!(numbered(compat), own as u32, "{compat}");
        }
        assert_eq!(own_call(Sysno::read as u32), Sysno::read as u32);
        assert_eq!(own_call(COMPAT | 99_999), COMPAT | 99_999);
    }

    #[test]
    fn a_stay_begins_when_the_one_before_has_ended() {
        let mut reader = RecordReader::default();
        stay(&mut reader, [20, 30, 10, 400]);
        let next = stay(&mut reader, [0, 300, 0, 350]);
        assert_eq!((next.in_ns, next.out_ns), (400, 400));
    }
}
