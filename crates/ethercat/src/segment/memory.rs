// SPDX-License-Identifier: MIT OR Apache-2.0
//! A SubDevice's memory: 4 KiB of registers and 8 KiB for mailboxes and process data.
//!
//! Little-endian throughout. Reference: ETG.1000.4, 6 (attributes) and Beckhoff's register description of the
//! ET1100, whose names these are.

/// Where what is.
pub mod at {
    pub const TYPE: u16 = 0x0000;
    pub const FMMUS: u16 = 0x0004;
    pub const SYNC_MANAGERS: u16 = 0x0005;
    pub const RAM_KIB: u16 = 0x0006;
    pub const PORTS: u16 = 0x0007;
    pub const FEATURES: u16 = 0x0008;
    pub const STATION_ADDRESS: u16 = 0x0010;
    pub const STATION_ALIAS: u16 = 0x0012;
    pub const DL_CONTROL: u16 = 0x0100;
    pub const DL_STATUS: u16 = 0x0110;
    pub const AL_CONTROL: u16 = 0x0120;
    pub const AL_STATUS: u16 = 0x0130;
    pub const AL_STATUS_CODE: u16 = 0x0134;
    pub const WATCHDOG_DIVIDER: u16 = 0x0400;
    pub const WATCHDOG_TIME: u16 = 0x0420;
    pub const WATCHDOG_STATUS: u16 = 0x0440;
    pub const WATCHDOG_COUNT: u16 = 0x0442;
    pub const SII_OWNER: u16 = 0x0500;
    pub const SII_CONTROL: u16 = 0x0502;
    pub const SII_ADDRESS: u16 = 0x0504;
    pub const SII_DATA: u16 = 0x0508;
    pub const FMMU: u16 = 0x0600;
    pub const SYNC_MANAGER: u16 = 0x0800;
    pub const PORT_TIMES: u16 = 0x0900;
    pub const SYSTEM_TIME: u16 = 0x0910;
    pub const RECEIVE_TIME: u16 = 0x0918;
    pub const TIME_OFFSET: u16 = 0x0920;
    pub const TIME_DELAY: u16 = 0x0928;
    pub const TIME_DIFFERENCE: u16 = 0x092C;
    pub const LOOP_PARAMETERS: u16 = 0x0930;
    pub const SYNC_ACTIVATION: u16 = 0x0981;
    pub const SYNC_START: u16 = 0x0990;
    pub const SYNC0_CYCLE: u16 = 0x09A0;
    /// The first byte that is no register.
    pub const RAM: u16 = 0x1000;
}

const BYTES: usize = 0x3000;

/// The memory.
#[derive(Debug, Clone)]
pub struct DeviceMemory(Box<[u8]>);

impl Default for DeviceMemory {
    fn default() -> DeviceMemory {
        DeviceMemory(vec![0; BYTES].into_boxed_slice())
    }
}

impl DeviceMemory {
    /// Bytes from `start` on; `None` where they do not exist.
    pub fn get(&self, start: u16, length: usize) -> Option<&[u8]> {
        self.0.get(usize::from(start)..usize::from(start) + length)
    }

    /// The same, to change.
    pub fn get_mut(&mut self, start: u16, length: usize) -> Option<&mut [u8]> {
        self.0.get_mut(usize::from(start)..usize::from(start) + length)
    }

    /// Puts bytes there; what does not exist stays as it is.
    pub fn put(&mut self, start: u16, bytes: &[u8]) {
        if let Some(place) = self.get_mut(start, bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn array<const N: usize>(&self, start: u16) -> [u8; N] {
        self.get(start, N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    /// A byte.
    pub fn u8(&self, start: u16) -> u8 {
        self.array::<1>(start)[0]
    }

    /// Two bytes.
    pub fn u16(&self, start: u16) -> u16 {
        u16::from_le_bytes(self.array(start))
    }

    /// Four bytes.
    pub fn u32(&self, start: u16) -> u32 {
        u32::from_le_bytes(self.array(start))
    }

    /// Eight bytes.
    pub fn u64(&self, start: u16) -> u64 {
        u64::from_le_bytes(self.array(start))
    }
}

/// Whether two ranges of addresses have one in common.
pub fn overlap(start: u16, length: usize, other: u16, other_length: usize) -> bool {
    let (start, other) = (usize::from(start), usize::from(other));
    start < other + other_length && other < start + length
}
