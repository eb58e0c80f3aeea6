// SPDX-License-Identifier: MIT OR Apache-2.0
//! EtherCAT frames as they pass: the Ethernet and EtherCAT headers, and one datagram after the other, in
//! place.
//!
//! No length in a frame is believed: what does not fit into the bytes that came is a malformed frame, and no
//! SubDevice touches any of it. Reference: ETG.1000.4, 5.3 (frame coding) and 5.4 (datagrams).

use std::ops::Range;

/// EtherCAT's number among the types of Ethernet frames.
pub const ETHERTYPE: u16 = 0x88A4;

/// The bytes before the first datagram: two addresses, the type, EtherCAT's own header.
const HEAD: usize = ETHERNET + 2;
const ETHERNET: usize = 14;
/// The length of a datagram before its data, and after.
const BEFORE: usize = 10;
const AFTER: usize = 2;
/// The EtherCAT header's type for datagrams.
const DATAGRAMS: u16 = 1;
/// The bit of the source address's first byte that says: changed on the way. A SubDevice sets it.
const PASSED: u8 = 0x02;

/// Why a frame is not processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its headers.
    Short,
    /// Of another Ethernet type.
    Foreign,
    /// Of EtherCAT, but without datagrams (mailbox gateway, network variables).
    NoDatagrams,
    /// A length leads out of the frame, or the list of datagrams does not end where the header says.
    Length,
}

/// A datagram's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramCommand {
    /// Nothing.
    Nop,
    /// Of the SubDevice at a position.
    Position(Access),
    /// Of the SubDevice with a configured address.
    Node(Access),
    /// Of all.
    Broadcast(Access),
    /// Of those that map a part of it into their memory.
    Logical(Access),
    /// Read one by position, write all after it.
    PositionReadMultipleWrite,
    /// Read one by address, write the others.
    NodeReadMultipleWrite,
    /// Not one of the fourteen.
    Unknown(u8),
}

/// An access to the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
}

const READ: Access = Access { reads: true, writes: false };
const WRITE: Access = Access { reads: false, writes: true };
const BOTH: Access = Access { reads: true, writes: true };

impl DatagramCommand {
    /// By its number on the wire.
    pub fn of(number: u8) -> DatagramCommand {
        match number {
            0 => DatagramCommand::Nop,
            1 => DatagramCommand::Position(READ),
            2 => DatagramCommand::Position(WRITE),
            3 => DatagramCommand::Position(BOTH),
            4 => DatagramCommand::Node(READ),
            5 => DatagramCommand::Node(WRITE),
            6 => DatagramCommand::Node(BOTH),
            7 => DatagramCommand::Broadcast(READ),
            8 => DatagramCommand::Broadcast(WRITE),
            9 => DatagramCommand::Broadcast(BOTH),
            10 => DatagramCommand::Logical(READ),
            11 => DatagramCommand::Logical(WRITE),
            12 => DatagramCommand::Logical(BOTH),
            13 => DatagramCommand::PositionReadMultipleWrite,
            14 => DatagramCommand::NodeReadMultipleWrite,
            other => DatagramCommand::Unknown(other),
        }
    }
}

/// One datagram within its frame.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Its command.
    pub command: DatagramCommand,
    /// Its address: position or node and offset, or a logical one.
    head: &'a mut [u8],
    /// The data that is read into, or written from.
    pub data: &'a mut [u8],
    counter: &'a mut [u8],
}

impl Datagram<'_> {
    /// The lower half of the address: a position, counted up by each SubDevice, or a configured address.
    pub fn node(&self) -> u16 {
        u16::from_le_bytes([self.head[2], self.head[3]])
    }

    /// Counts the position up.
    pub fn pass(&mut self) {
        let next = self.node().wrapping_add(1).to_le_bytes();
        self.head[2..4].copy_from_slice(&next);
    }

    /// The upper half: where in the SubDevice's memory.
    pub fn offset(&self) -> u16 {
        u16::from_le_bytes([self.head[4], self.head[5]])
    }

    /// The whole of it, of a logical command.
    pub fn logical(&self) -> u32 {
        u32::from_le_bytes([self.head[2], self.head[3], self.head[4], self.head[5]])
    }

    /// The working counter.
    pub fn counter(&self) -> u16 {
        u16::from_le_bytes([self.counter[0], self.counter[1]])
    }

    /// Adds to it.
    pub fn count(&mut self, more: u16) {
        let sum = self.counter().wrapping_add(more).to_le_bytes();
        self.counter.copy_from_slice(&sum);
    }

    /// Makes it wrong: one less than it was, or one where it was none.
    pub fn miscount(&mut self) {
        let wrong = self.counter().checked_sub(1).unwrap_or(1).to_le_bytes();
        self.counter.copy_from_slice(&wrong);
    }
}

/// A frame whose every length was checked.
#[derive(Debug)]
pub struct Frame<'a> {
    bytes: &'a mut [u8],
    /// Where the datagrams lie, one behind the other.
    datagrams: Range<usize>,
}

impl<'a> Frame<'a> {
    /// Checks the bytes of a whole Ethernet frame, without its checksum.
    pub fn parse(bytes: &'a mut [u8]) -> Result<Frame<'a>, Malformed> {
        let word = |at: usize| bytes.get(at..at + 2).map(|word| [word[0], word[1]]).ok_or(Malformed::Short);
        if u16::from_be_bytes(word(ETHERNET - 2)?) != ETHERTYPE {
            return Err(Malformed::Foreign);
        }
        let header = u16::from_le_bytes(word(ETHERNET)?);
        if header >> 12 != DATAGRAMS {
            return Err(Malformed::NoDatagrams);
        }
        let end = HEAD + usize::from(header & 0x7FF);
        if end > bytes.len() {
            return Err(Malformed::Length);
        }
        let mut at = HEAD;
        loop {
            let (next, is_last) = following(&bytes[..end], at).ok_or(Malformed::Length)?;
            at = next;
            if is_last {
                break;
            }
        }
        if at != end {
            return Err(Malformed::Length);
        }
        Ok(Frame { bytes, datagrams: HEAD..end })
    }

    /// Has each datagram passed to `process`, in order.
    pub fn each(&mut self, mut process: impl FnMut(&mut Datagram)) {
        let mut rest = &mut self.bytes[self.datagrams.clone()];
        while rest.len() >= BEFORE + AFTER {
            let (head, behind) = rest.split_at_mut(BEFORE);
            let length = usize::from(u16::from_le_bytes([head[6], head[7]]) & 0x7FF);
            let (data, behind) = behind.split_at_mut(length);
            let (counter, behind) = behind.split_at_mut(AFTER);
            process(&mut Datagram { command: DatagramCommand::of(head[0]), head, data, counter });
            rest = behind;
        }
    }

    /// Marks it as one that passed a SubDevice: a MainDevice knows its own frames by that.
    pub fn mark_passed(&mut self) {
        self.bytes[6] |= PASSED;
    }
}

/// Where the datagram at `at` ends, and whether it is the last.
fn following(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    let head = bytes.get(at..at + BEFORE)?;
    let length = u16::from_le_bytes([head[6], head[7]]);
    let end = at + BEFORE + usize::from(length & 0x7FF) + AFTER;
    (end <= bytes.len()).then_some((end, length & 0x8000 == 0))
}

/// Whether a frame was sent by a MainDevice and has not passed a SubDevice yet.
pub fn is_outgoing(bytes: &[u8]) -> bool {
    bytes.get(6).is_some_and(|first| first & PASSED == 0)
}
