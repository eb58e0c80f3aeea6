// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the records of `events.bpf.c`, with the numbers of its `enum kind` and the layouts of its
//! structures.

use cause::bpf::RecordBytes;
use symbols::UserRegisters;

use super::PLACE_BYTES;
use crate::event::{CountedPlace, LintEvent, LintEventKind};

/// A record from its bytes; `None` for an unknown kind.
pub fn read(bytes: &[u8]) -> Option<LintEvent> {
    let mut bytes = RecordBytes(bytes);
    let (thread, kind, number) = (bytes.u32()?, bytes.u16()?, bytes.u16()?);
    let place = CountedPlace { kind, number, address: bytes.u64()?, sp: bytes.u64()?, first: bytes.u64()? };
    let at_ns = bytes.u64()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = bytes.u64()?;
    }
    let mut words = [0; 5];
    for word in &mut words {
        *word = bytes.u32()?;
    }
    let stack_bytes = bytes.u32()? as usize;
    let registers = UserRegisters { ip: bytes.u64()?, sp: bytes.u64()?, bp: bytes.u64()?, lr: bytes.u64()? };
    let stack = bytes.bytes(stack_bytes)?.to_vec();
    // The number of a system call; none outside of one.
    let call = Some(u32::from(number)).filter(|_| number != u16::MAX);
    let event_kind = match kind {
        1 => LintEventKind::Called(u32::from(number)),
        2 => LintEventKind::Slept(call),
        3 => LintEventKind::Faulted { code: number },
        4 => LintEventKind::Signalled { signal: number },
        5 => LintEventKind::Function(number),
        6 => LintEventKind::Locked { function: Some(number).filter(|number| *number != 0) },
        7 => LintEventKind::Executed,
        _ => return None,
    };
    Some(LintEvent { thread, kind: event_kind, at_ns, place, arguments, words, registers, stack })
}

/// The key under which the BPF part counts an event.
pub fn place(event: &LintEvent) -> [u8; PLACE_BYTES] {
    let CountedPlace { kind, number, address, sp, first } = event.place;
    let mut key = [0; PLACE_BYTES];
    key[..4].copy_from_slice(&event.thread.to_ne_bytes());
    key[4..6].copy_from_slice(&kind.to_ne_bytes());
    key[6..8].copy_from_slice(&number.to_ne_bytes());
    for (at, value) in [(8, address), (16, sp), (24, first)] {
        key[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    key
}
