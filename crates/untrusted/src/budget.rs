// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much one bundle may make the program read and hold.
//!
//! Small files can stand for much: a compressed one unpacks to a thousand times its size, and one name may be
//! listed ten thousand times. So every read and everything that is kept draws on one budget. Once it is spent
//! it stays spent: a reader that takes damage for the end of a file cannot pass over it, since
//! [`Budget::check`] fails at the end.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read};

/// The rest of a bundle's budget.
#[derive(Debug)]
pub struct Budget {
    read: Cell<u64>,
    held: Cell<u64>,
    spent: Cell<Option<&'static str>>,
}

impl Budget {
    /// Bytes that are read from files or unpacked. A day of 16 CPUs under one load is 50 MiB.
    pub const READ: u64 = 256 << 20;
    /// Bytes of memory for what was read. A day of 46 CPUs under one load fits.
    pub const HELD: u64 = 192 << 20;

    /// The budget of one bundle.
    pub fn of_a_bundle() -> Budget {
        Budget::new(Budget::READ, Budget::HELD)
    }

    /// A budget of `read` bytes from files and `held` bytes of memory.
    pub fn new(read: u64, held: u64) -> Budget {
        Budget { read: Cell::new(read), held: Cell::new(held), spent: Cell::new(None) }
    }

    /// Counts `bytes` of memory that are kept.
    pub fn hold(&self, bytes: usize) -> io::Result<()> {
        self.draw(&self.held, bytes, "it takes more memory than a bundle may (192 MiB)")
    }

    /// Fails where more was wanted than there was.
    pub fn check(&self) -> io::Result<()> {
        self.spent.get().map_or(Ok(()), |why| Err(io::Error::new(ErrorKind::FileTooLarge, why)))
    }

    /// `from`, each byte of which counts.
    pub fn metered<R: Read>(&self, from: R) -> Metered<'_, R> {
        Metered { from, budget: self }
    }

    fn draw(&self, of: &Cell<u64>, bytes: usize, why: &'static str) -> io::Result<()> {
        match of.get().checked_sub(bytes as u64) {
            Some(left) => of.set(left),
            None => self.spent.set(self.spent.get().or(Some(why))),
        }
        self.check()
    }
}

/// A reader whose bytes draw on a [`Budget`].
#[derive(Debug)]
pub struct Metered<'a, R> {
    from: R,
    budget: &'a Budget,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(buffer)?;
        self.budget.draw(&self.budget.read, bytes, "it unpacks to more than a bundle may (256 MiB)")?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_an_endless_file_at_the_budget() {
        let budget = Budget::new(1 << 20, 0);
        let mut bytes = Vec::new();
        let error = budget.metered(io::repeat(0)).read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(bytes.len() <= 1 << 20);
    }

    #[test]
    fn draws_on_one_budget_for_every_file() {
        let budget = Budget::new(10, 0);
        for _ in 0..2 {
            assert_eq!(budget.metered(&[1; 5][..]).read_to_end(&mut Vec::new()).unwrap(), 5);
        }
        assert!(budget.metered(&[1][..]).read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn stays_spent_where_the_error_was_passed_over() {
        let budget = Budget::new(1, 10);
        assert!(budget.hold(11).is_err());
        assert!(budget.hold(0).is_err() && budget.check().is_err());
    }
}
