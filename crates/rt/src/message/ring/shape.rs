// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the messages of a ring lie, and how they are numbered.
//!
//! ```text
//! word 0      low half: number of the line's newest message; high half: lengths
//! words 1-7   messages of up to 8 bytes, a word each: seven to a line, of lengths of 4 bits
//!             or one message of up to 56 bytes
//!             or the lengths of seven longer ones, each in lines of its own behind all of these
//! ```
//! A message's number is its word's, counted from the first lap on: its lowest three bits are the word in the
//! line. So numbers leave out those of headers, and wrap at 2^32 as others do.

use super::{BESIDE_BYTES, HEAD_LINES, LINE_BYTES, Size, WORDS};

/// Bytes of the longest message of which a line has seven.
pub(super) const PACKED_BYTES: usize = 8;

/// Lines of a message that ends fetch ahead of time: the first ones. One of 4 lines is there a tenth to a
/// fifth earlier then, one of 16 a thirtieth. If all 16 were fetched, a sender on a far CPU would lose those
/// that it is still writing: a round trip took twice as long.
pub(super) const FETCHED_LINES: usize = 4;

/// The bits of a number that are the word in its line; also the last word.
pub(super) const WORD: u32 = WORDS as u32 - 1;

/// The word of a message in its line.
#[inline(always)]
pub(super) fn word(n: u32) -> usize {
    (n & WORD) as usize
}

/// The number of the message after `n`, where seven share a line.
#[inline(always)]
pub(super) fn next_of_seven(n: u32) -> u32 {
    if n & WORD == WORD {
        // A jump, which is predicted: the next call would wait for what is computed.
        std::hint::cold_path();
        return n.wrapping_add(2);
    }
    n.wrapping_add(1)
}

/// The same, where a line has one.
#[inline(always)]
pub(super) fn next_of_one(n: u32) -> u32 {
    n.wrapping_add(WORDS as u32)
}

/// Where messages of a size lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The word of the last message of a line: 7, or 1 where a line has one.
    last: u32,
    /// The bits of a header that are a length, once they are the lowest.
    length: u64,
    /// A line's number modulo the ring.
    line: u32,
    /// A message's number modulo the ring.
    message: u32,
    /// The lines of a message that lies apart from its header; none otherwise.
    pub lines: usize,
    /// The first line after the headers.
    pub first: usize,
    /// Looks in vain before the receiver fetches the lines of a message apart: more than fit between two of a
    /// stream.
    pub patience: u32,
    /// A quarter of the ring: how far numbers go before the receiver gives slots back.
    pub quarter: u32,
}

impl Shape {
    /// Of a possible size.
    pub(super) fn of(size: Size) -> Shape {
        let slots = size.slots;
        let is_beside = (PACKED_BYTES + 1..=BESIDE_BYTES).contains(&size.bytes);
        let lines = if size.bytes > BESIDE_BYTES { size.bytes.div_ceil(LINE_BYTES) } else { 0 };
        // A line is written again only when the receiver has given back all of it, so there is one more than
        // messages fill.
        let headers = if is_beside { slots } else { (slots / 4).max(2) };
        Shape {
            last: if is_beside { 1 } else { WORD },
            length: if is_beside { u32::MAX.into() } else { 15 },
            line: headers - 1,
            message: slots - 1,
            lines,
            patience: 4 * (lines as u32 + 1),
            first: HEAD_LINES + headers as usize,
            quarter: if is_beside { slots / 4 * WORDS as u32 } else { slots / 4 },
        }
    }

    /// Whether seven messages share a line, each a word.
    #[inline(always)]
    pub(super) fn is_packed(self) -> bool {
        self.last == WORD
    }

    /// The line of message `n`, or of its length.
    #[inline(always)]
    pub(super) fn line(self, n: u32) -> usize {
        HEAD_LINES + ((n / WORDS as u32) & self.line) as usize
    }

    /// The first line of message `n`, where it lies apart.
    #[inline(always)]
    pub(super) fn line_apart(self, n: u32) -> usize {
        let count = (n / WORDS as u32).wrapping_mul(self.last) + (n & WORD) - 1;
        self.first + (count & self.message) as usize * self.lines
    }

    /// One number of each line of headers.
    pub(super) fn each_line(self) -> impl Iterator<Item = u32> {
        (0..=self.line).map(|line| line * WORDS as u32)
    }

    /// The number, or the one next to it that a message may have.
    #[inline(always)]
    pub(super) fn number(self, n: u32) -> u32 {
        n & !WORD | (n & WORD).clamp(1, self.last)
    }

    /// The number of the message after `n`.
    #[inline(always)]
    pub(super) fn next(self, n: u32) -> u32 {
        if self.is_packed() { next_of_seven(n) } else { next_of_one(n) }
    }

    /// The number `count` messages after `n`.
    pub(super) fn after(self, n: u32, count: u32) -> u32 {
        let word = (n & WORD) - 1 + count;
        (n & !WORD).wrapping_add(word / self.last * WORDS as u32 + word % self.last + 1)
    }

    /// The first of some lengths; anything where the other end wrote nonsense.
    #[inline(always)]
    pub(super) fn first_of(self, lengths: u64) -> usize {
        (lengths & self.length) as usize
    }
}

/// The lengths after the first.
#[inline(always)]
pub(super) fn others_of(lengths: u64) -> u64 {
    lengths >> 4
}

/// The header of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header(pub u64);

impl Header {
    /// The number of the newest message.
    pub(super) fn newest(self) -> u32 {
        self.0 as u32
    }

    /// Whether message `n`, which lies in this line, has come.
    #[inline(always)]
    pub(super) fn has(self, n: u32) -> bool {
        let newest = self.newest();
        (newest ^ n) & !WORD == 0 && newest >= n
    }

    /// The lengths in the line of the next message: none where that begins a line.
    pub(super) fn lengths_before_next(self) -> u64 {
        if self.newest() & WORD == WORD { 0 } else { self.0 >> 32 << 32 }
    }

    /// The lengths from message `n` on.
    #[inline(always)]
    pub(super) fn lengths_from(self, n: u32) -> u64 {
        self.0 >> Header::shift(n)
    }

    /// The header of a line with the messages up to `n`, of those lengths.
    #[inline(always)]
    pub(super) fn of(n: u32, lengths: u64) -> Header {
        Header(lengths | u64::from(n))
    }

    /// The lengths of a line, with that of message `n` after those before it.
    #[inline(always)]
    pub(super) fn lengths(before: u64, n: u32, length: usize) -> u64 {
        before | (length as u64) << Header::shift(n)
    }

    #[inline(always)]
    fn shift(n: u32) -> u32 {
        28 + 4 * (n & WORD)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn shape(slots: u32, bytes: usize) -> Shape {
        Shape::of(Size { slots, bytes })
    }

    #[test]
    fn numbers_are_counted_without_those_of_headers_also_where_they_wrap() {
        for shape in [shape(4, 8), shape(4, 56), shape(4, 64)] {
            for start in [1, 5, 7, 9, u32::MAX - 6, u32::MAX - 2, u32::MAX] {
                let start = shape.number(start);
                let mut n = start;
                for count in 0..100 {
                    assert_eq!(shape.number(n), n);
                    assert_eq!(shape.after(start, count), n, "{count} after {start}");
                    n = shape.next(n);
                }
            }
        }
        let packed = shape(4, 8);
        assert_eq!((packed.next(7), packed.next(u32::MAX), packed.number(16)), (9, 1, 17));
        let beside = shape(4, 56);
        assert_eq!((beside.next(1), beside.next(u32::MAX - 6), beside.number(23)), (9, 1, 17));
    }

    #[test]
    fn a_header_has_the_messages_of_its_lap_up_to_the_newest_with_their_lengths() {
        let shape = shape(4, 8);
        let (mut header, mut lengths) = (Header(0), 0);
        for (n, length) in (9..=15).zip([8, 0, 3, 8, 1, 2, 7]) {
            lengths = Header::lengths(lengths, n, length);
            assert_eq!(header.lengths_before_next(), if n > 9 { header.0 >> 32 << 32 } else { 0 });
            header = Header::of(n, lengths);
            assert!(
                header.has(n)
                    && !header.has(shape.next(n))
                    && shape.first_of(header.lengths_from(n)) == length
            );
        }
        let mut lengths = header.lengths_from(9);
        for length in [8, 0, 3, 8, 1, 2, 7] {
            assert_eq!(shape.first_of(lengths), length);
            lengths = others_of(lengths);
        }
        // Those of another lap, or of no lap yet.
        assert!(!header.has(9 + 64) && !header.has(9u32.wrapping_sub(64)));
        assert!(!Header(0).has(u32::MAX) && !Header(0).has(1));
    }

    #[test]
    fn a_full_ring_reaches_no_line_that_the_receiver_still_has() {
        for slots in [4u32, 8, 16, 64, 256, 1 << 20] {
            for shape in [shape(slots, 8), shape(slots, 56), shape(slots, 64)] {
                for begin in (1..8).map(|n| shape.number(n)) {
                    // The newest message that may be posted, and the oldest that is not given back.
                    let newest = shape.after(begin, slots - 1);
                    assert!((newest >> 3) - (begin >> 3) <= shape.line, "{slots} from word {begin}");
                }
            }
        }
    }

    #[test]
    fn messages_apart_share_no_line_also_where_numbers_wrap() {
        let shape = shape(16, 200);
        for start in [1, 5, u32::MAX - 20] {
            let lines = (0..16).map(|count| shape.line_apart(shape.after(start, count)));
            let mut lines = lines.collect::<Vec<_>>();
            lines.sort_unstable();
            assert_eq!(lines, (0..16).map(|n| shape.first + 4 * n).collect::<Vec<_>>());
        }
    }
}
