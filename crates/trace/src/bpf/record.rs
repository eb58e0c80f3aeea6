// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the records of `threads.bpf.c`, with the numbers of its `enum kind` and the layouts of its
//! structures.

use cause::bpf::RecordBytes;
use symbols::UserRegisters;

use crate::record::{
    Boundary, Leaving, Predecessor, Scheduled, StackTaken, Stay, ThreadEvent, ThreadRecord, UserStack, Waking,
};

/// PF_KTHREAD of the kernel.
const KERNEL_THREAD: u32 = 0x0020_0000;

const BY_TIMER: u32 = 1;
const UNSEEN: u32 = 8;
const ELSEWHERE: u32 = 16;
const INHERITED: u32 = 32;
const GOES_ON: u32 = 64;

/// A record from its bytes; `None` for an unknown kind.
pub fn read(bytes: &[u8]) -> Option<ThreadRecord> {
    let mut bytes = RecordBytes(bytes);
    let (kind, cpu) = (bytes.u16()?, u32::from(bytes.u16()?));
    let (thread, at_ns) = (bytes.u32()?, bytes.u64()?);
    let kind = match kind {
        1 => ThreadEvent::Stay(Box::new(stay(thread, at_ns, &mut bytes, |_| None)?)),
        13 => {
            ThreadEvent::Stay(Box::new(stay(thread, at_ns, &mut bytes, |sp| Some(Boundary::Begin { sp }))?))
        }
        14 => ThreadEvent::Stay(Box::new(stay(thread, at_ns, &mut bytes, |_| Some(Boundary::End))?)),
        2 => stack(&mut bytes),
        3 => switched(thread, &mut bytes)?,
        10 => ThreadEvent::UserStack(Box::new(user_stack(&mut bytes)?)),
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
    let (waker, how, waker_name) = (bytes.u32()?, bytes.u32()?, bytes.name()?);
    let (state, next) = (bytes.u32()?, bytes.u32()?);
    let next = Scheduled { id: next, prio: bytes.i32()?, policy: bytes.u32()?, name: bytes.name()? };
    let call = u32::try_from(bytes.u64()?).ok().filter(|call| *call != u32::MAX);
    let arguments = [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?];
    let words = [bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?];
    let (prio, policy, faults, migrations) = (bytes.i32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?);
    let (id, prio_then, flags, _) = (bytes.u32()?, bytes.i32()?, bytes.u32()?, bytes.u32()?);
    let after = left(id, prio_then, flags, bytes.name()?);
    let waking = Waking {
        due_ns: (how & BY_TIMER != 0).then_some(due_ns),
        timer: Some(timer).filter(|timer| *timer != 0 && how & (INHERITED | GOES_ON) == 0),
        inherited: (how & INHERITED != 0).then_some((due_ns, timer)),
        waker,
        waker_name,
        is_elsewhere: how & ELSEWHERE != 0,
    };
    let boundary = boundary(arguments[0]);
    let leaving = Leaving {
        sleeps: state != 0,
        // Only a stay that is split is followed by the same thread.
        is_cut: state == 0 && next.id == thread && boundary.is_none(),
        boundary,
        call,
        arguments,
        words,
        next,
    };
    let woken_ns = Some(woken_ns).filter(|ns| *ns != 0);
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
    })
}

fn stack(bytes: &mut RecordBytes<'_>) -> ThreadEvent {
    ThreadEvent::Stack(std::iter::from_fn(|| bytes.u64()).take_while(|address| *address != 0).collect())
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
        5 => ThreadEvent::Expired { due_ns: first, timer: second },
        6 => ThreadEvent::Started { process: first as u32, name },
        7 => ThreadEvent::Forked { process: first as u32 },
        8 => ThreadEvent::Executed { name },
        9 => ThreadEvent::Exited,
        11 => ThreadEvent::FaultOver { began_ns: first },
        12 => ThreadEvent::Moved { to: first as u32 },
        _ => return None,
    })
}
