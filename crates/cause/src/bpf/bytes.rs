// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the fields of a record that a BPF part wrote.

/// The rest of a record. A read gives `None` where the record is too short for the field.
#[derive(Debug)]
pub struct RecordBytes<'a>(pub &'a [u8]);

impl<'a> RecordBytes<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    /// A `u16` of the C part.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    /// A `u32`.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// An `int`.
    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    /// A `u64`.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// A thread's name, of 16 bytes.
    pub fn name(&mut self) -> Option<String> {
        let bytes = self.array::<16>()?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The next bytes.
    pub fn bytes(&self, length: usize) -> Option<&'a [u8]> {
        self.0.get(..length)
    }
}
