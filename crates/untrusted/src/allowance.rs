// SPDX-License-Identifier: MIT OR Apache-2.0
//! The amount of work and memory that foreign data may cost.
//!
//! Small files can stand for much: a compressed one unpacks to a thousand times its size, one name may be
//! listed ten thousand times, and a sparse file states a table of a terabyte. So everything that is read or
//! kept of one bundle, or of one process' files, draws on one allowance. Once it is spent it stays spent: a
//! reader that takes damage for the end of a file cannot pass over it, since [`Allowance::check`] fails at
//! the end.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read};

/// The resources that an allowance counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Bytes that are read from files or unpacked.
    Bytes,
    /// Bytes of memory for the data that is kept.
    Memory,
    /// Rows of measurements.
    Rows,
    /// Symbols of program files.
    Symbols,
}

/// The rest of what one source of foreign data may cost.
#[derive(Debug)]
pub struct Allowance {
    source: &'static str,
    most: [u64; 4],
    left: [Cell<u64>; 4],
    spent: Cell<Option<Cost>>,
}

impl Allowance {
    /// A bundle's bytes. A day of 16 CPUs under one load is 50 MiB.
    pub const READ: u64 = 256 << 20;
    /// A bundle's bytes of memory. A day of 46 CPUs under one load fits.
    pub const HELD: u64 = 192 << 20;
    /// A bundle's rows. 128 CPUs under 10 loads with 6 probes have 7,680.
    pub const ROWS: u64 = 10_000;
    /// The bytes of all program files of a process, uncompressed, with the memory for their symbols.
    pub const CODE: u64 = 96 << 20;
    /// Their symbols. Browsers have some hundred thousand; each takes 24 bytes in the file and 40 of memory.
    pub const SYMBOLS: u64 = 1 << 20;

    /// The allowance of one bundle.
    pub fn of_a_bundle() -> Allowance {
        Allowance::new(Allowance::READ, Allowance::HELD)
    }

    /// A bundle's allowance of `read` bytes from files and `held` bytes of memory.
    pub fn new(read: u64, held: u64) -> Allowance {
        Allowance::of("a bundle", [read, held, Allowance::ROWS, 0])
    }

    /// The allowance of the program files of one process, of `bytes` at most.
    pub fn of_a_process(bytes: u64) -> Allowance {
        Allowance::of("a process", [bytes, bytes, 0, Allowance::SYMBOLS])
    }

    fn of(source: &'static str, most: [u64; 4]) -> Allowance {
        Allowance { source, most, left: most.map(Cell::new), spent: Cell::new(None) }
    }

    /// Counts `amount` more of `cost`; an error from then on where that is too much.
    pub fn draw(&self, cost: Cost, amount: u64) -> io::Result<()> {
        let _ = self.grant(cost, amount);
        self.check()
    }

    /// Counts `amount` more of `cost`; `None` where that is too much, and nothing is counted: for parts that
    /// can be left out.
    pub fn grant(&self, cost: Cost, amount: u64) -> Option<()> {
        let left = &self.left[cost as usize];
        let rest = left.get().checked_sub(amount);
        match rest {
            Some(rest) => left.set(rest),
            None => self.spent.set(self.spent.get().or(Some(cost))),
        }
        rest.map(drop)
    }

    /// Whether something was left out since the last call.
    pub fn left_out(&self) -> bool {
        self.spent.take().is_some()
    }

    /// Counts `bytes` of memory that are kept.
    pub fn hold(&self, bytes: usize) -> io::Result<()> {
        self.draw(Cost::Memory, bytes as u64)
    }

    /// Fails where more was wanted than there was.
    pub fn check(&self) -> io::Result<()> {
        let Some(cost) = self.spent.get() else { return Ok(()) };
        let (source, most) = (self.source, self.most[cost as usize]);
        let why = match cost {
            Cost::Bytes => format!("it unpacks to more than {source} may ({} MiB)", most >> 20),
            Cost::Memory => format!("it takes more memory than {source} may ({} MiB)", most >> 20),
            Cost::Rows => format!("{source} has at most {most} rows"),
            Cost::Symbols => format!("{source} has at most {most} symbols"),
        };
        Err(io::Error::new(ErrorKind::FileTooLarge, why))
    }

    /// `from`, each byte of which counts.
    pub fn metered<R: Read>(&self, from: R) -> Metered<'_, R> {
        Metered { from, allowance: self }
    }
}

/// A reader whose bytes draw on an [`Allowance`].
#[derive(Debug)]
pub struct Metered<'a, R> {
    from: R,
    allowance: &'a Allowance,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(buffer)?;
        self.allowance.draw(Cost::Bytes, bytes as u64)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_an_endless_file_at_the_allowance() {
        let allowance = Allowance::new(1 << 20, 0);
        let mut bytes = Vec::new();
        let error = allowance.metered(io::repeat(0)).read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(bytes.len() <= 1 << 20);
    }

    #[test]
    fn draws_on_one_allowance_for_every_file() {
        let allowance = Allowance::new(10, 0);
        for _ in 0..2 {
            assert_eq!(allowance.metered(&[1; 5][..]).read_to_end(&mut Vec::new()).unwrap(), 5);
        }
        assert!(allowance.metered(&[1][..]).read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn grants_what_is_left_after_a_refusal() {
        let allowance = Allowance::of_a_process(10);
        assert_eq!(allowance.grant(Cost::Bytes, 11), None);
        assert!(allowance.left_out() && !allowance.left_out());
        assert_eq!(allowance.grant(Cost::Bytes, 10), Some(()));
        assert_eq!(allowance.grant(Cost::Symbols, Allowance::SYMBOLS + 1), None);
    }

    #[test]
    fn stays_spent_where_the_error_was_passed_over() {
        for cost in [Cost::Bytes, Cost::Memory, Cost::Rows, Cost::Symbols] {
            let allowance = Allowance::of("a test", [10; 4]);
            assert!(allowance.draw(cost, 10).is_ok() && allowance.check().is_ok());
            assert!(allowance.draw(cost, 1).is_err());
            let said = allowance.draw(cost, 0).unwrap_err().to_string();
            assert!(said.contains("a test") && allowance.check().is_err(), "{said}");
        }
    }
}
