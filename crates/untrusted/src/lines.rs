// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of a stream, one at a time and of bounded length.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// The lines of a file that is read as a stream.
#[derive(Debug)]
pub struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// The longest line; the first line of a journal, which holds all of a picture's cells, is a tenth of it.
    pub const LONGEST: u64 = 8 << 20;

    /// The lines of `from`.
    pub fn of(from: R) -> Lines<R> {
        Lines { from: BufReader::new(from), line: Vec::new() }
    }

    /// The next line, as far as `most` bytes, and whether it was longer: the rest of it is passed over, so
    /// that one writer's line hides no other's. `None` at the end.
    pub fn next_cut(&mut self, most: u64) -> io::Result<Option<(Cow<'_, str>, bool)>> {
        self.line.clear();
        let bytes = self.from.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        let is_cut = self.line.last() != Some(&b'\n') && self.from.skip_until(b'\n')? > 0;
        Ok((bytes > 0).then(|| (String::from_utf8_lossy(&self.line), is_cut)))
    }

    /// The next line with its line break; the last one may lack it, where it was cut short. `None` at the
    /// end.
    ///
    /// Bytes that are not UTF-8 are replaced.
    pub fn next_line(&mut self) -> io::Result<Option<Cow<'_, str>>> {
        self.line.clear();
        let bytes = self.from.by_ref().take(Self::LONGEST).read_until(b'\n', &mut self.line)? as u64;
        if bytes == Self::LONGEST && self.line.last() != Some(&b'\n') {
            return Err(io::Error::new(ErrorKind::InvalidData, "a line is longer than 8 MiB"));
        }
        Ok((bytes > 0).then(|| String::from_utf8_lossy(&self.line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_line_that_was_cut_without_its_break() {
        let mut lines = Lines::of(&b"a\n\xff\nb"[..]);
        let mut next = || lines.next_line().unwrap().map(Cow::into_owned);
        assert_eq!(
            [next(), next(), next(), next()].map(Option::unwrap_or_default),
            ["a\n", "\u{fffd}\n", "b", ""]
        );
    }

    #[test]
    fn passes_over_the_rest_of_a_line_that_is_cut() {
        let mut lines = Lines::of(&b"abc\nabcdefgh\nabcd\nab"[..]);
        let mut next = || lines.next_cut(4).unwrap().map(|(line, is_cut)| (line.into_owned(), is_cut));
        let seen = [next(), next(), next(), next(), next()].map(Option::unwrap_or_default);
        let expected = [("abc\n", false), ("abcd", true), ("abcd", true), ("ab", false), ("", false)];
        assert_eq!(seen, expected.map(|(line, is_cut)| (line.to_string(), is_cut)));
        let mut endless = Lines::of(io::repeat(b'x').take(70 << 20));
        assert_eq!(endless.next_cut(10).unwrap(), Some(("xxxxxxxxxx".into(), true)));
        assert!(endless.line.capacity() < 1 << 10 && endless.next_cut(10).unwrap().is_none());
    }

    #[test]
    fn refuses_a_line_without_an_end() {
        let error = Lines::of(io::repeat(b'x')).next_line().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
