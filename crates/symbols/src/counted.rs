// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts reads of a DWARF section: a malicious file can state the same long list in each of a million units,
//! which would take for ever to read.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gimli::{EndianArcSlice, LittleEndian, Reader, ReaderOffsetId};

/// The number of reads that remain to all readers of one file.
#[derive(Debug, Clone)]
pub struct ReadsLeft(Arc<AtomicU64>);

impl ReadsLeft {
    /// A budget of this many reads.
    pub fn new(reads: u64) -> ReadsLeft {
        ReadsLeft(Arc::new(AtomicU64::new(reads)))
    }

    /// Whether it is used up.
    pub fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn take(&self, reads: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(reads), Ordering::Relaxed);
        left >= reads
    }
}

/// A reader that fails once the budget is used up.
#[derive(Debug, Clone)]
pub struct CountedReader {
    inner: EndianArcSlice<LittleEndian>,
    left: ReadsLeft,
}

impl CountedReader {
    /// Of these bytes.
    pub fn new(bytes: Arc<[u8]>, left: &ReadsLeft) -> CountedReader {
        CountedReader { inner: EndianArcSlice::new(bytes, LittleEndian), left: left.clone() }
    }

    fn count(&self, reads: usize) -> gimli::Result<()> {
        match self.left.take(reads as u64) {
            true => Ok(()),
            false => Err(gimli::Error::UnexpectedEof(self.inner.offset_id())),
        }
    }
}

impl Reader for CountedReader {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn empty(&mut self) {
        self.inner.empty();
    }

    fn truncate(&mut self, len: usize) -> gimli::Result<()> {
        self.inner.truncate(len)
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.inner.offset_from(&base.inner)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.inner.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.inner.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let found = self.inner.find(byte)?;
        self.count(1 + found / 8)?;
        Ok(found)
    }

    fn skip(&mut self, len: usize) -> gimli::Result<()> {
        self.count(1)?;
        self.inner.skip(len)
    }

    fn split(&mut self, len: usize) -> gimli::Result<Self> {
        self.count(1)?;
        Ok(CountedReader { inner: self.inner.split(len)?, left: self.left.clone() })
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        self.count(1)?;
        self.inner.to_slice()
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        self.count(1 + self.inner.len() / 8)?;
        self.inner.to_string()
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        self.count(1 + self.inner.len() / 8)?;
        self.inner.to_string_lossy()
    }

    fn read_slice(&mut self, buffer: &mut [u8]) -> gimli::Result<()> {
        self.count(1)?;
        self.inner.read_slice(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fails_once_no_reads_are_left() {
        let left = ReadsLeft::new(2);
        let mut reader = CountedReader::new(Arc::from([1, 2, 3]), &left);
        let mut other = reader.clone();
        assert_eq!((reader.read_u8(), other.read_u8()), (Ok(1), Ok(1)));
        assert!(left.is_used_up());
        assert!(reader.read_u8().is_err() && other.read_u8().is_err());
    }
}
