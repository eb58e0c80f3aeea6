// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bits of a logical address range are which bits of a SubDevice's memory.
//!
//! Reference: ETG.1000.4, 6.6 (Fieldbus Memory Management Unit).

use super::memory::{DeviceMemory, at};

/// How many there are.
pub const COUNT: u16 = 4;
const BYTES: u16 = 16;

/// One of them, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fmmu {
    logical: u32,
    length: u16,
    first_bit: u8,
    last_bit: u8,
    /// Where the memory begins.
    pub physical: u16,
    physical_bit: u8,
    /// The MainDevice reads through it.
    pub reads: bool,
    /// The MainDevice writes through it.
    pub writes: bool,
}

impl Fmmu {
    /// The one with that number; `None` where it is not active, or maps nothing.
    pub fn active(memory: &DeviceMemory, number: u16) -> Option<Fmmu> {
        let base = at::FMMU + number * BYTES;
        if memory.u8(base + 12) & 1 == 0 {
            return None;
        }
        let kind = memory.u8(base + 11);
        let fmmu = Fmmu {
            logical: memory.u32(base),
            length: memory.u16(base + 4),
            first_bit: memory.u8(base + 6) & 7,
            last_bit: memory.u8(base + 7) & 7,
            physical: memory.u16(base + 8),
            physical_bit: memory.u8(base + 10) & 7,
            reads: kind & 1 != 0,
            writes: kind & 2 != 0,
        };
        (fmmu.bits() > 0).then_some(fmmu)
    }

    /// Bits that it maps.
    fn bits(&self) -> u64 {
        let end = u64::from(self.length) * 8 + u64::from(self.last_bit) + 1;
        end.saturating_sub(8 + u64::from(self.first_bit))
    }

    /// Bytes of memory that it touches.
    pub fn bytes(&self) -> usize {
        (u64::from(self.physical_bit) + self.bits()).div_ceil(8) as usize
    }

    fn is_bytewise(&self) -> bool {
        self.first_bit == 0 && self.last_bit == 7 && self.physical_bit == 0
    }

    /// Carries what a datagram at `logical` and this map have in common, from the datagram or into it; how
    /// many bits.
    pub fn carry(&self, logical: u32, data: &mut [u8], memory: &mut [u8], from_datagram: bool) -> u64 {
        let own = u64::from(self.logical) * 8 + u64::from(self.first_bit);
        let theirs = u64::from(logical) * 8;
        let begin = own.max(theirs);
        let end = (own + self.bits()).min(theirs + data.len() as u64 * 8);
        let Some(bits) = end.checked_sub(begin).filter(|bits| *bits > 0) else { return 0 };
        let (there, here) = (begin - theirs, begin - own + u64::from(self.physical_bit));
        if self.is_bytewise() {
            let (there, here, bytes) = ((there / 8) as usize, (here / 8) as usize, (bits / 8) as usize);
            let (there, here) = (data.get_mut(there..there + bytes), memory.get_mut(here..here + bytes));
            match (there, here, from_datagram) {
                (Some(there), Some(here), true) => here.copy_from_slice(there),
                (Some(there), Some(here), false) => there.copy_from_slice(here),
                _ => return 0,
            }
        } else if from_datagram {
            (0..bits).for_each(|bit| copy_bit(data, there + bit, memory, here + bit));
        } else {
            (0..bits).for_each(|bit| copy_bit(memory, here + bit, data, there + bit));
        }
        bits
    }

    /// Whether the last bit that it maps is in a datagram of `length` bytes at `logical`.
    pub fn ends_in(&self, logical: u32, length: usize) -> bool {
        let last = u64::from(self.logical) * 8 + u64::from(self.first_bit) + self.bits() - 1;
        let theirs = u64::from(logical) * 8;
        (theirs..theirs + length as u64 * 8).contains(&last)
    }
}

fn copy_bit(from: &[u8], source: u64, to: &mut [u8], target: u64) {
    let (Some(source_byte), Some(target_byte)) =
        (from.get((source / 8) as usize), to.get_mut((target / 8) as usize))
    else {
        return;
    };
    let mask = 1 << (target % 8);
    if source_byte >> (source % 8) & 1 == 1 { *target_byte |= mask } else { *target_byte &= !mask }
}
