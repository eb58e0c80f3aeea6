// SPDX-License-Identifier: MIT OR Apache-2.0
//! The object dictionary: what a SubDevice says of itself through its mailbox, and what may be set there.
//!
//! Reference: ETG.1000.6, 5.6.7 (object dictionary, SDO abort codes).

/// The vendor: a number that ETG has not assigned.
pub const VENDOR: u32 = 0x0000_0B0A;
/// Its product code.
pub const PRODUCT: u32 = 0x1501_A70B;
/// Which one of them.
pub const REVISION: u32 = 1;

/// Its name.
pub const NAME: &str = "isolator simulated SubDevice";

/// An entry that process data are made of; all have 32 bits.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    /// Its index.
    pub index: u16,
    /// Its subindex.
    pub sub: u8,
}

/// The MainDevice's output: a number, which comes back as an input.
pub const OUTPUTS: &[Object] = &[Object { index: 0x7000, sub: 1 }];
/// Its inputs: that number; SYNC0 events before which no new outputs came.
pub const INPUTS: &[Object] = &[Object { index: 0x6000, sub: 1 }, Object { index: 0x6000, sub: 2 }];
/// The objects that list them.
pub const OUTPUTS_PDO: u16 = 0x1600;
pub const INPUTS_PDO: u16 = 0x1A00;
const OUTPUTS_ASSIGNED: u16 = 0x1C12;
const INPUTS_ASSIGNED: u16 = 0x1C13;

/// Bytes of process data.
pub const fn bytes(objects: &[Object]) -> u16 {
    4 * objects.len() as u16
}

/// Why an SDO is refused: its abort code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Abort {
    /// A command that is not known here, segments among them: nothing here is long enough for one.
    Command = 0x0504_0001,
    /// Not this way (complete access).
    Access = 0x0601_0000,
    /// It may only be read.
    ReadOnly = 0x0601_0002,
    /// There is no such object.
    NoObject = 0x0602_0000,
    /// Its length is another.
    Length = 0x0607_0010,
    /// It has no such entry.
    NoEntry = 0x0609_0011,
    /// A value that it cannot have.
    Value = 0x0609_0030,
    /// Not in this state.
    State = 0x0800_0022,
}

/// The objects that a MainDevice may set.
#[derive(Debug, Clone, Copy)]
pub struct Objects {
    serial: u32,
    /// Of outputs and inputs: how many lists are assigned, none or one.
    assigned: [u8; 2],
    /// Of outputs and inputs: how they are synchronised, and the cycle in nanoseconds.
    synchronised: [(u16, u32); 2],
}

impl Objects {
    /// Those of the SubDevice with that serial number.
    pub fn new(serial: u32) -> Objects {
        Objects { serial, assigned: [1, 1], synchronised: [(0, 0); 2] }
    }

    /// Bytes of outputs and of inputs that are assigned.
    pub fn lengths(&self) -> (u16, u16) {
        (bytes(OUTPUTS) * u16::from(self.assigned[0]), bytes(INPUTS) * u16::from(self.assigned[1]))
    }

    /// The value of an entry.
    pub fn read(&self, index: u16, sub: u8) -> Result<Vec<u8>, Abort> {
        let one = |value: &[u8]| if sub == 0 { Ok(value.to_vec()) } else { Err(Abort::NoEntry) };
        let list = |values: &[Vec<u8>]| match sub.checked_sub(1) {
            None => Ok(vec![values.len() as u8]),
            Some(at) => values.get(usize::from(at)).cloned().ok_or(Abort::NoEntry),
        };
        let numbers =
            |values: &[u32]| values.iter().map(|value| value.to_le_bytes().to_vec()).collect::<Vec<_>>();
        let mapped = |objects: &[Object]| {
            let entry = |object: &Object| u32::from(object.index) << 16 | u32::from(object.sub) << 8 | 32;
            list(&numbers(&objects.iter().map(entry).collect::<Vec<_>>()))
        };
        let assigned = |which: usize, pdo: u16| match sub {
            0 => Ok(vec![self.assigned[which]]),
            1 => Ok(pdo.to_le_bytes().to_vec()),
            _ => Err(Abort::NoEntry),
        };
        let synchronised =
            |(kind, cycle): (u16, u32)| list(&[kind.to_le_bytes().to_vec(), cycle.to_le_bytes().to_vec()]);
        match index {
            // No profile.
            0x1000 => one(&5001u32.to_le_bytes()),
            0x1001 => one(&[0]),
            0x1008 => one(NAME.as_bytes()),
            0x1009 | 0x100A => one(env!("CARGO_PKG_VERSION").as_bytes()),
            0x1018 => list(&numbers(&[VENDOR, PRODUCT, REVISION, self.serial])),
            OUTPUTS_PDO => mapped(OUTPUTS),
            INPUTS_PDO => mapped(INPUTS),
            0x1C00 => list(&[vec![1], vec![2], vec![3], vec![4]]),
            0x1C10 | 0x1C11 => one(&[0]),
            OUTPUTS_ASSIGNED => assigned(0, OUTPUTS_PDO),
            INPUTS_ASSIGNED => assigned(1, INPUTS_PDO),
            0x1C32 => synchronised(self.synchronised[0]),
            0x1C33 => synchronised(self.synchronised[1]),
            _ => Err(Abort::NoObject),
        }
    }

    /// Sets an entry. What process data are made of may change only before there are any (`is_pre_op`).
    pub fn write(&mut self, index: u16, sub: u8, value: &[u8], is_pre_op: bool) -> Result<(), Abort> {
        // A missing object, or one of another length, is reported first.
        let now = self.read(index, sub)?;
        let which = usize::from(matches!(index, INPUTS_ASSIGNED | 0x1C33));
        let is_assignment = matches!(index, OUTPUTS_ASSIGNED | INPUTS_ASSIGNED);
        if !is_assignment && !matches!((index, sub), (0x1C32 | 0x1C33, 1 | 2)) {
            return Err(Abort::ReadOnly);
        }
        if value.len() != now.len() {
            return Err(Abort::Length);
        }
        if !is_pre_op {
            return Err(Abort::State);
        }
        match (is_assignment, sub) {
            (true, 0) if value[0] > 1 => return Err(Abort::Value),
            (true, 0) => self.assigned[which] = value[0],
            (true, _) if value != now => return Err(Abort::Value),
            (true, _) => {}
            (false, 1) => self.synchronised[which].0 = u16::from_le_bytes([value[0], value[1]]),
            (false, _) => {
                self.synchronised[which].1 = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
            }
        }
        Ok(())
    }
}
