// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sync managers: who may read and write which part of the memory, and when a mailbox is full.
//!
//! Reference: ETG.1000.4, 6.7.

use super::memory::{DeviceMemory, at, overlap};

/// How many there are.
pub const COUNT: u16 = 4;
pub(super) const BYTES: u16 = 8;

/// The mailbox that the MainDevice writes.
pub const MAILBOX_OUT: u16 = 0;
/// The mailbox that it reads.
pub const MAILBOX_IN: u16 = 1;
/// Process data that it writes.
pub const OUTPUTS: u16 = 2;
/// Process data that it reads.
pub const INPUTS: u16 = 3;

const FULL: u8 = 0x08;
pub(super) const DISABLED: u8 = 0x01;

/// One of them, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncManager {
    number: u16,
    /// Where its part of the memory begins.
    pub start: u16,
    /// And how long that is.
    pub length: u16,
    /// Of one message at a time, instead of the latest of three buffers.
    pub is_mailbox: bool,
    /// The MainDevice writes it.
    pub writes: bool,
    /// Outputs through it keep the watchdog quiet.
    pub is_watched: bool,
    /// Switched on by the MainDevice.
    pub is_enabled: bool,
    /// And open from the SubDevice's side.
    pub is_active: bool,
    /// Of a mailbox: holds a message.
    pub is_full: bool,
}

impl SyncManager {
    /// The one with that number.
    pub fn of(memory: &DeviceMemory, number: u16) -> SyncManager {
        let base = at::SYNC_MANAGER + number * BYTES;
        let control = memory.u8(base + 4);
        SyncManager {
            number,
            start: memory.u16(base),
            length: memory.u16(base + 2),
            is_mailbox: control & 3 == 2,
            writes: control >> 2 & 3 == 1,
            is_watched: control & 0x40 != 0,
            is_enabled: memory.u8(base + 6) & 1 == 1,
            is_active: memory.u8(base + 6) & 1 == 1 && memory.u8(base + 7) & DISABLED == 0,
            is_full: memory.u8(base + 5) & FULL != 0,
        }
    }

    /// All that are active.
    pub fn active(memory: &DeviceMemory) -> impl Iterator<Item = SyncManager> + '_ {
        (0..COUNT).map(|number| SyncManager::of(memory, number)).filter(|manager| manager.is_active)
    }

    /// Whether its last byte is among those.
    pub fn ends_in(&self, start: u16, length: usize) -> bool {
        let last = (usize::from(self.start) + usize::from(self.length)).checked_sub(1);
        last.is_some_and(|last| (usize::from(start)..usize::from(start) + length).contains(&last))
    }

    /// Whether the MainDevice may access those bytes, as far as this one is concerned.
    fn allows(&self, start: u16, length: usize, writes: bool) -> bool {
        if !overlap(start, length, self.start, self.length.into()) {
            return true;
        }
        self.writes == writes && (!self.is_mailbox || self.is_full != writes)
    }

    /// Says that the mailbox holds a message, or none.
    pub fn set_full(&self, memory: &mut DeviceMemory, is_full: bool) {
        let status = at::SYNC_MANAGER + self.number * BYTES + 5;
        let kept = memory.u8(status) & !FULL;
        memory.put(status, &[kept | if is_full { FULL } else { 0 }]);
    }

    /// Whether the MainDevice asks for the last message again; the request is answered by that.
    pub fn take_repeat(&self, memory: &mut DeviceMemory) -> bool {
        let base = at::SYNC_MANAGER + self.number * BYTES;
        let (asked, answered) = (memory.u8(base + 6) & 2, memory.u8(base + 7) & 2);
        if asked == answered {
            return false;
        }
        let kept = memory.u8(base + 7) & !2;
        memory.put(base + 7, &[kept | asked]);
        true
    }
}

/// Puts what the MainDevice writes into the registers of sync managers, but for what is the SubDevice's to
/// say.
pub fn configure(memory: &mut DeviceMemory, start: u16, data: &[u8]) {
    for (at, byte) in (start..).zip(data) {
        if !matches!((at - at::SYNC_MANAGER) % BYTES, 5 | 7) {
            memory.put(at, &[*byte]);
        }
    }
    for number in 0..COUNT {
        let base = at::SYNC_MANAGER + number * BYTES;
        if memory.u8(base + 6) & 1 == 0 {
            let kept = memory.u8(base + 7) & DISABLED;
            memory.put(base + 5, &[0]);
            memory.put(base + 7, &[kept]);
        }
    }
}

/// Whether the MainDevice may read, or write, those bytes of the memory behind the registers.
pub fn may(memory: &DeviceMemory, start: u16, length: usize, writes: bool) -> bool {
    SyncManager::active(memory).all(|manager| manager.allows(start, length, writes))
}
