// SPDX-License-Identifier: MIT OR Apache-2.0
//! The SubDevice information interface: an EEPROM that says what the SubDevice is, behind registers.
//!
//! References: ETG.1000.4, 6.4 (the registers), ETG.2010 (what stands in the EEPROM).

use super::memory::{DeviceMemory, at};
use super::objects::{self, Object, PRODUCT, REVISION, VENDOR};

/// Where the mailboxes are, and how long.
pub const MAILBOX_OUT: (u16, u16) = (0x1000, 128);
pub const MAILBOX_IN: (u16, u16) = (0x1080, 128);
/// Where process data are; sync managers with three buffers take three times their length.
pub const OUTPUTS_AT: u16 = 0x1100;
pub const INPUTS_AT: u16 = 0x1180;

/// Words of the EEPROM: 16 kbit.
const WORDS: usize = 1024;
const CATEGORIES: usize = 0x40;

/// EIGHT bytes a read, two bytes of address.
const ABLE: u16 = 0x00C0;
const READ: u16 = 0x0100;
const WRITE: u16 = 0x0200;
const RELOAD: u16 = 0x0400;
const MAY_WRITE: u16 = 0x0001;
const REFUSED: u16 = 0x2000;

/// The EEPROM's words.
#[derive(Debug, Clone)]
pub struct Eeprom(Vec<u16>);

impl Eeprom {
    /// That of the SubDevice with that serial number.
    pub fn new(serial: u32) -> Eeprom {
        let mut words = vec![0xFFFF; WORDS];
        words[..CATEGORIES].fill(0);
        let mut put = |at: usize, value: u32| {
            words[at] = value as u16;
            words[at + 1] = (value >> 16) as u16;
        };
        [(8, VENDOR), (10, PRODUCT), (12, REVISION), (14, serial)]
            .iter()
            .for_each(|(at, value)| put(*at, *value));
        words[0] = 0x0005;
        words[7] = checksum(&words[..7]).into();
        for at in [0x14, 0x18] {
            words[at..at + 4].copy_from_slice(&[MAILBOX_OUT.0, MAILBOX_OUT.1, MAILBOX_IN.0, MAILBOX_IN.1]);
        }
        // CoE.
        words[0x1C] = 0x0004;
        words[0x3E] = (WORDS * 16 / 1024 - 1) as u16;
        words[0x3F] = 1;
        let mut at = CATEGORIES;
        for (kind, content) in categories() {
            let length = content.len().div_ceil(2);
            words[at] = kind;
            words[at + 1] = length as u16;
            for (word, bytes) in words[at + 2..].iter_mut().zip(content.chunks(2)) {
                *word = u16::from_le_bytes([bytes[0], bytes.get(1).copied().unwrap_or(0)]);
            }
            at += 2 + length;
        }
        Eeprom(words)
    }

    fn word(&self, at: u32) -> u16 {
        self.0.get(at as usize).copied().unwrap_or(0xFFFF)
    }

    /// Carries out a write to the control register.
    pub fn command(&mut self, memory: &mut DeviceMemory) {
        let control = memory.u16(at::SII_CONTROL);
        let address = memory.u32(at::SII_ADDRESS);
        let asked = control & (READ | WRITE | RELOAD);
        let is_ours = memory.u8(at::SII_OWNER) & 1 == 0;
        let mut answer = ABLE;
        match asked {
            0 => {}
            READ | RELOAD if is_ours => {
                for number in 0..4u16 {
                    let word = self.word(address.saturating_add(number.into()));
                    memory.put(at::SII_DATA + 2 * number, &word.to_le_bytes());
                }
            }
            WRITE if is_ours && control & MAY_WRITE != 0 => match self.0.get_mut(address as usize) {
                Some(word) => *word = memory.u16(at::SII_DATA),
                None => answer |= REFUSED,
            },
            _ => answer |= REFUSED,
        }
        memory.put(at::SII_CONTROL, &answer.to_le_bytes());
    }
}

/// CRC 8, polynomial 0x07, begun with 0xFF, over bytes in their order.
fn checksum(words: &[u16]) -> u8 {
    words.iter().flat_map(|word| word.to_le_bytes()).fold(0xFF, |sum, byte| {
        (0..8).fold(sum ^ byte, |sum, _| if sum & 0x80 != 0 { sum << 1 ^ 0x07 } else { sum << 1 })
    })
}

fn categories() -> Vec<(u16, Vec<u8>)> {
    let strings = [objects::NAME, "simulated"];
    let mut text = vec![strings.len() as u8];
    strings.iter().for_each(|string| {
        text.push(string.len() as u8);
        text.extend(string.bytes());
    });
    let mut general = vec![0; 32];
    // Group, order and name; CoE with SDOs; two ports with cables.
    (general[0], general[2], general[3], general[5]) = (2, 1, 1, 0x01);
    general[14..16].copy_from_slice(&0x0011u16.to_le_bytes());
    let manager = |(start, length): (u16, u16), control: u8, kind: u8| {
        let [[a, b], [c, d]] = [start.to_le_bytes(), length.to_le_bytes()];
        [a, b, c, d, control, 0, 1, kind]
    };
    let managers = [
        manager(MAILBOX_OUT, 0x26, 1),
        manager(MAILBOX_IN, 0x22, 2),
        manager((OUTPUTS_AT, objects::bytes(objects::OUTPUTS)), 0x64, 3),
        manager((INPUTS_AT, objects::bytes(objects::INPUTS)), 0x20, 4),
    ];
    vec![
        (10, text),
        (30, general),
        (40, vec![1, 2, 3, 0]),
        (41, managers.concat()),
        (50, pdo(objects::INPUTS_PDO, 3, objects::INPUTS)),
        (51, pdo(objects::OUTPUTS_PDO, 2, objects::OUTPUTS)),
    ]
}

fn pdo(index: u16, manager: u8, entries: &[Object]) -> Vec<u8> {
    let [low, high] = index.to_le_bytes();
    let mut bytes = vec![low, high, entries.len() as u8, manager, 0, 0, 0, 0];
    for object in entries {
        let [low, high] = object.index.to_le_bytes();
        // UNSIGNED32 is type 7.
        bytes.extend([low, high, object.sub, 0, 7, 32, 0, 0]);
    }
    bytes
}
