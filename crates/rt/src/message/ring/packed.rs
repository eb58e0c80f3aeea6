// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of messages of up to 8 bytes: seven of them behind one header, so that a stream of them takes few
//! lines from one CPU to the other.
//!
//! ```text
//! word 0      low half: number of the line's newest message; high half: lengths of the seven, 4 bits each
//! words 1-7   the messages
//! ```
//! A message's number is its word's, counted from the first lap on: its lowest three bits are the word in the
//! line. So numbers leave out each multiple of 8, and wrap at 2^32 as others do.

use super::{AtomicU64, Failure, HEAD_LINES, Ordering, PACKED_BYTES, Polling, Ring, WORDS};

/// Messages in a line.
const MESSAGES: u32 = WORDS as u32 - 1;

/// The bits of a number that are the word in its line.
const WORD: u32 = MESSAGES;

/// The lines that so many messages need. A line is written again only when the receiver has given back all of
/// it, so there is one more than they fill.
pub(super) fn lines(slots: u32) -> u32 {
    (slots / 4).max(2)
}

/// The number, or the one after it where it is a header's.
pub(super) fn number(n: u32) -> u32 {
    n | u32::from(!is_number(n))
}

/// Whether a message may have it.
fn is_number(n: u32) -> bool {
    n & WORD != 0
}

/// The word of a message in its line.
#[inline(always)]
fn word(n: u32) -> usize {
    (n & WORD) as usize
}

/// Whether it is the line's first.
#[inline(always)]
pub(super) fn is_first(n: u32) -> bool {
    n & WORD == 1
}

/// The number of the message after this one.
#[inline(always)]
pub(super) fn next(n: u32) -> u32 {
    n.wrapping_add(1 + u32::from(n & WORD == WORD))
}

/// The number `count` messages after this one.
pub(super) fn after(n: u32, count: u32) -> u32 {
    let word = (n & WORD) - 1 + count;
    (n & !WORD).wrapping_add(word / MESSAGES * WORDS as u32 + word % MESSAGES + 1)
}

/// What a line has.
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

    /// The length of a message, up to 15 where the other end wrote nonsense.
    #[inline(always)]
    pub(super) fn length(self, n: u32) -> usize {
        (self.0 >> Header::shift(n)) as usize & 15
    }

    /// The header once message `n` is there, too; the line's first begins a new one.
    #[inline(always)]
    pub(super) fn with(self, n: u32, length: usize) -> Header {
        let lengths = if is_first(n) { 0 } else { self.0 & !u64::from(u32::MAX) };
        Header(lengths | (length as u64) << Header::shift(n) | u64::from(n))
    }

    #[inline(always)]
    fn shift(n: u32) -> u32 {
        28 + 4 * (n & WORD)
    }
}

impl Ring {
    /// The line of message `n`, where seven share one.
    #[inline(always)]
    pub(super) fn packed_line(&self, n: u32) -> &[AtomicU64; WORDS] {
        self.line(HEAD_LINES + (n & self.mask) as usize / WORDS)
    }

    /// What the line of message `n` has.
    #[inline(always)]
    pub(super) fn header(&self, n: u32) -> Header {
        // Pair 1: the messages are not older than their header.
        Header(self.packed_line(n)[0].load(Ordering::Acquire))
    }

    /// Writes message `n` and its header.
    #[inline(always)]
    pub(super) fn write_packed(&self, n: u32, message: &[u8], header: Header) {
        let line = self.packed_line(n);
        let bytes = <[u8; PACKED_BYTES]>::try_from(message).unwrap_or_else(|_| {
            let mut bytes = [0; PACKED_BYTES];
            bytes[..message.len()].copy_from_slice(message);
            bytes
        });
        line[word(n)].store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        // Pair 1: the message before its header.
        line[0].store(header.0, Ordering::Release);
    }

    /// The number of the next message and the header of the last one's line, of those that the receiver may
    /// still take.
    pub(super) fn last_packed(&self, credits: u32, is_sent: impl Fn(u32) -> bool) -> (u32, Header) {
        let headers = (0..=self.mask).step_by(WORDS).map(|n| self.header(n));
        let sent = headers.filter(|header| is_number(header.newest()) && is_sent(header.newest()));
        let last = sent.max_by_key(|header| header.newest().wrapping_sub(credits));
        (last.map_or(credits, |last| next(last.newest())), last.unwrap_or_default())
    }
}

impl Polling {
    /// Takes the next message where seven share a line: all that came are copied at once, since the sender
    /// takes the line back for each.
    #[inline(always)]
    pub(super) fn take_packed(&mut self) -> std::result::Result<Option<&[u8]>, Failure> {
        let n = self.next;
        if !self.header.has(n) {
            let new = || Some(self.ring.header(n)).filter(|header| header.has(n));
            let Some(header) = self.ring.came(new)? else { return Ok(None) };
            let came = word(n)..=word(header.newest());
            let line = self.ring.packed_line(n);
            for (to, word) in self.words[came.clone()].iter_mut().zip(&line[came]) {
                *to = word.load(Ordering::Relaxed).to_ne_bytes();
            }
            self.header = header;
        }
        let length = self.header.length(n);
        if length > self.ring.bytes {
            return Err(Failure::Broken);
        }
        self.next = next(n);
        self.give_back_a_quarter();
        Ok(Some(&self.words[word(n)][..length]))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_without_those_of_headers_also_where_they_wrap() {
        for start in [1, 5, 7, u32::MAX - 2, u32::MAX] {
            let mut n = start;
            for count in 0..100 {
                assert!(is_number(n) && number(n) == n);
                assert_eq!(after(start, count), n, "{count} after {start}");
                n = next(n);
            }
        }
        assert_eq!((next(7), next(u32::MAX), number(16)), (9, 1, 17));
    }

    #[test]
    fn a_header_has_the_messages_of_its_lap_up_to_the_newest_with_their_lengths() {
        let mut header = Header(u64::MAX);
        for (n, length) in (9..=15).zip([8, 0, 3, 8, 1, 2, 7]) {
            header = header.with(n, length);
            assert!(header.has(n) && !header.has(next(n)) && header.length(n) == length);
        }
        assert_eq!((9..=15).map(|n| header.length(n)).collect::<Vec<_>>(), [8, 0, 3, 8, 1, 2, 7]);
        // Those of another lap, or of no lap yet.
        assert!(!header.has(9 + 64) && !header.has(9u32.wrapping_sub(64)));
        assert!(!Header(0).has(u32::MAX) && !Header(0).has(1));
    }

    #[test]
    fn a_full_ring_reaches_no_line_that_the_receiver_still_has() {
        for slots in [4u32, 8, 16, 64, 256, 1 << 20] {
            for begin in 1..8 {
                // The newest message that may be posted, and the oldest that is not given back.
                let newest = after(begin, slots - 1);
                assert!((newest >> 3) - (begin >> 3) < lines(slots), "{slots} from word {begin}");
            }
        }
    }
}
