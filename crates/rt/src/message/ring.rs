// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring itself: who writes which word, and in what order.
//!
//! ```text
//! line 0      what the ring is       written once; from word 3 on the maker's notes
//! line 1      closed                 the sender's, the receiver's
//! line 2      credits                the receiver's
//! line 3...   headers, and messages beside them or behind all of them, as `shape.rs` says
//! ```
//! The sender writes the message, then the header with its number (pair 1). The receiver copies all that came
//! into a line in one look, and touches the line again only when it has taken that. It gives slots back as
//! *credits*, the number of the first message that it has not taken, a quarter of the ring at a time
//! (pair 2): so the line with the credits stays in both caches most of the time. So does the line that says
//! what is closed, at which both look often.
//!
//! A short message travels in the line of its header: a hop costs one transfer. A long one lies apart, since
//! the receiver polls the header: it would take a line away that the sender is still writing. Both ends fetch
//! its first lines ahead of time: the sender those of the next message, the receiver the same ones once it
//! has looked in vain some times, so that they come with the header. Of headers, a receiver that finds a line
//! full fetches the next line.
//!
//! Where CPUs are near, a transfer takes no longer than some hundred instructions. So each end has what it
//! needs for a message in itself, and both calls become part of their caller, where the length of a message
//! is often known.
//!
//! Each end keeps its own position to itself. What it reads of the other's is checked before it is used: an
//! end that lies loses messages, and can do nothing else.

use std::sync::atomic::AtomicUsize;

use super::region::{self, AtomicU64, BESIDE_BYTES, CacheLine, LINE_BYTES, Ordering, Region, WORDS, store};
use super::{Failure, Size};
use crate::Result;
use crate::fork::{Home, Wiped};

mod shape;

use shape::{FETCHED_LINES, Header, PACKED_BYTES, Shape, WORD, word};

const HEAD_LINES: usize = 3;
const IDENTITY: usize = 0;
const CLOSED: usize = 1;
const RECEIVER: usize = 2;

/// Words of line 0.
const VERSION: usize = 0;
const SLOTS: usize = 1;
const BYTES: usize = 2;
const NOTES: usize = 3;

/// Words of line 1: which end is closed.
const SENDER: usize = 0;
const BY_RECEIVER: usize = 1;

/// Words of line 2.
const CREDITS: usize = 0;
/// The receiver is about to sleep: low half, as a futex wants it.
const WAITING: usize = 1;

/// "isol" and the layout's version.
pub(crate) const THIS_VERSION: u64 = 0x6973_6f6c_0000_0004;

/// Bytes that processors fetch at once: two lines. What one CPU writes and another reads, or writes, must not
/// lie that close together, or each write costs as much as a message. So rings and ends have an alignment of
/// that size; it must be written as a number there.
const APART: usize = 128;

/// The part of a ring that both ends know; each has it in itself.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    region: Region,
    slots: u32,
    bytes: usize,
    shape: Shape,
}

impl Ring {
    /// Lines that a ring of that size takes.
    pub(super) fn lines(size: Size) -> usize {
        let shape = Shape::of(size);
        shape.first + size.slots as usize * shape.lines
    }

    /// Writes down what the ring is, in memory that is all zero.
    pub(super) fn create(region: Region, size: Size) -> Ring {
        let identity = &region[IDENTITY].0;
        identity[SLOTS].store(size.slots.into(), Ordering::Relaxed);
        identity[BYTES].store(size.bytes as u64, Ordering::Relaxed);
        let shape = Shape::of(size);
        region[RECEIVER].0[CREDITS].store(shape.number(0).into(), Ordering::Relaxed);
        identity[VERSION].store(THIS_VERSION, Ordering::Release);
        Ring::of(region, size)
    }

    /// The size that the first line of a ring tells; `Err` says what is wrong with it.
    #[cfg(not(loom))]
    pub(super) fn size_in(head: &[u8; LINE_BYTES]) -> std::result::Result<Size, &'static str> {
        let (words, _) = head.as_chunks();
        let word = |at: usize| u64::from_ne_bytes(words[at]);
        Ring::checked_size(word(VERSION), word(SLOTS), word(BYTES))
    }

    fn checked_size(version: u64, slots: u64, bytes: u64) -> std::result::Result<Size, &'static str> {
        if version != THIS_VERSION {
            return Err("it is not a ring of this version");
        }
        let slots = u32::try_from(slots).unwrap_or(0);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let size = Size { slots, bytes };
        if size.is_possible() { Ok(size) } else { Err("its size is not what it says") }
    }

    /// Reads what the ring is; `Err` says what is wrong with it.
    pub(super) fn attach(region: Region) -> std::result::Result<Ring, &'static str> {
        if region.len() < HEAD_LINES {
            return Err("it is too short to be a ring");
        }
        let identity = &region[IDENTITY].0;
        let version = identity[VERSION].load(Ordering::Acquire);
        // Once, and never again: the other side could change it.
        let [slots, bytes] = [SLOTS, BYTES].map(|word| identity[word].load(Ordering::Relaxed));
        let size = Ring::checked_size(version, slots, bytes)?;
        if Ring::lines(size) != region.len() {
            return Err("its size is not what it says");
        }
        Ok(Ring::of(region, size))
    }

    fn of(region: Region, size: Size) -> Ring {
        assert_eq!(region.len(), Ring::lines(size), "a ring has the lines of its size");
        Ring { region, slots: size.slots, bytes: size.bytes, shape: Shape::of(size) }
    }

    /// Bytes that a message may have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// One of the five words in which who made the ring says what travels in it.
    pub(super) fn note(&self, number: usize) -> &AtomicU64 {
        &self.region[IDENTITY].0[NOTES + number]
    }

    /// Where a futex lies: the word that the receiver sets before it sleeps.
    pub(super) fn waiting(&self) -> &AtomicU64 {
        &self.region[RECEIVER].0[WAITING]
    }

    /// A line of the head, or one with a header.
    #[inline(always)]
    fn line(&self, at: usize) -> &[AtomicU64; WORDS] {
        debug_assert!(at < self.region.len());
        // SAFETY: `of` looked that the region has the lines of its size, which never change; a number is
        // counted modulo the headers.
        unsafe { &self.region.get_unchecked(at).0 }
    }

    /// Whether that end is closed.
    #[inline(always)]
    fn is_closed(&self, end: usize) -> bool {
        // After a sender's last message.
        self.line(CLOSED)[end].load(Ordering::Acquire) != 0
    }

    fn close(&self, end: usize) {
        self.line(CLOSED)[end].store(1, Ordering::Release);
    }

    fn reopen(&self, end: usize) {
        self.line(CLOSED)[end].store(0, Ordering::Relaxed);
    }

    #[inline(always)]
    fn credits(&self) -> u32 {
        // Pair 2: what the receiver copied out is copied before the slot is written again.
        self.line(RECEIVER)[CREDITS].load(Ordering::Acquire) as u32
    }

    /// The header of the line of message `n`.
    #[inline(always)]
    fn header(&self, n: u32) -> Header {
        // Pair 1: the messages are not older than their header.
        Header(self.line(self.shape.line(n))[0].load(Ordering::Acquire))
    }

    /// The lines of a message that lies apart, the first of which is there.
    #[inline(always)]
    fn lines_apart(&self, first: usize) -> &[CacheLine] {
        &self.region[first..first + self.shape.lines]
    }

    /// The first word of each line that ends fetch ahead of time, of a message that lies apart.
    #[inline(always)]
    fn first_lines(&self, first: usize) -> impl Iterator<Item = &AtomicU64> {
        self.lines_apart(first).iter().take(FETCHED_LINES).map(|line| &line.0[0])
    }

    /// Copies the line of message `n`, if that has come.
    #[inline(always)]
    fn peek(&self, n: u32, words: &mut [[u8; 8]; WORDS]) -> Option<Header> {
        let header = self.header(n);
        if !header.has(n) {
            return None;
        }
        // All seven, whatever came: without a loop.
        region::load_words(&self.line(self.shape.line(n))[1..], &mut words[1..]);
        Some(header)
    }

    /// The place after the last message that the receiver may still take.
    fn behind_last(&self, credits: u32, end: u32) -> Place {
        let is_sent =
            |n: u32| self.shape.number(n) == n && n.wrapping_sub(credits) < end.wrapping_sub(credits);
        let headers = self.shape.each_line().map(|n| self.header(n));
        let sent = headers.filter(|header| is_sent(header.newest()));
        let last = sent.max_by_key(|header| header.newest().wrapping_sub(credits));
        let (n, lengths) =
            last.map_or((credits, 0), |last| (self.shape.next(last.newest()), last.lengths_before_next()));
        Place { n, lengths, apart: self.shape.line_apart(n) }
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its number.
    n: u32,
    /// The first of its lines, where it lies apart: known before it comes, since to compute it takes time.
    apart: usize,
    /// The lengths of the messages before it in its line.
    lengths: u64,
}

/// The end that posts. One at a time: of a ring that several processes share, [`super::Shared`] sees to it.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Posting {
    ring: Ring,
    /// One more than the bytes of the longest message. A child of fork() finds 0, and so posts nothing.
    limit: Wiped<AtomicUsize>,
    /// Where the next message goes.
    next: Place,
    /// The first number that the receiver has not given back, as last read.
    end: u32,
}

impl Posting {
    /// Takes the sending end up where the last sender left it: behind the newest message that the receiver
    /// may still take.
    pub(super) fn new(ring: Ring) -> Result<Posting> {
        // SAFETY: a number may be zero.
        let limit = unsafe { Wiped::new(AtomicUsize::new(ring.bytes + 1)) }?;
        let credits = ring.shape.number(ring.credits());
        let end = ring.shape.after(credits, ring.slots);
        let next = ring.behind_last(credits, end);
        ring.reopen(SENDER);
        Ok(Posting { next, end, ring, limit })
    }

    /// Whether this is the process that opened the end.
    pub(super) fn is_home(&self) -> bool {
        self.limit.load(Ordering::Relaxed) > 0
    }

    /// The part that both ends know.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Posts a message; never waits.
    #[inline(always)]
    pub(super) fn post(&mut self, message: &[u8]) -> std::result::Result<(), Failure> {
        if message.len() >= self.limit.load(Ordering::Relaxed) {
            return Err(self.refusal());
        }
        if self.ring.is_closed(BY_RECEIVER) {
            return Err(Failure::Closed);
        }
        if self.next.n == self.end {
            self.look_for_room()?;
        }
        self.write(message);
        Ok(())
    }

    /// Writes a message that there is room for, and goes to the next place.
    #[inline(always)]
    fn write(&mut self, message: &[u8]) {
        let (ring, n, length) = (&self.ring, self.next.n, message.len());
        let line = ring.line(ring.shape.line(n));
        // Pair 1: the message before its header.
        let tell = |lengths: u64| line[0].store(Header::of(n, lengths).0, Ordering::Release);
        // Where the length is known, most of these questions are answered.
        if length > BESIDE_BYTES || ring.shape.lines > 0 {
            region::write(ring.lines_apart(self.next.apart), message);
            line[word(n)].store(length as u64, Ordering::Relaxed);
            tell(0);
            self.next.n = shape::next_of_seven(n);
            self.next.apart = ring.shape.line_apart(self.next.n);
            ring.first_lines(self.next.apart).for_each(region::prefetch_to_write);
        } else if length > PACKED_BYTES || !ring.shape.is_packed() {
            store(&line[1..], message);
            tell(Header::lengths(0, n, length));
            self.next.n = shape::next_of_one(n);
        } else {
            store(&line[word(n)..], message);
            let lengths = Header::lengths(self.next.lengths, n, length);
            tell(lengths);
            self.next.n = shape::next_of_seven(n);
            self.next.lengths = if n & WORD == WORD { 0 } else { lengths };
        }
    }

    /// Why nothing so long is posted.
    #[cold]
    #[inline(never)]
    fn refusal(&self) -> Failure {
        if self.is_home() { Failure::TooLarge } else { Failure::Foreign }
    }

    /// Looks whether the receiver has given slots back.
    #[cold]
    #[inline(never)]
    fn look_for_room(&mut self) -> std::result::Result<(), Failure> {
        let (credits, shape) = (self.ring.credits(), self.ring.shape);
        let end = shape.after(shape.number(credits), self.ring.slots);
        // The receiver may only have taken what was sent.
        let n = self.next.n;
        if shape.number(credits) != credits || n.wrapping_sub(credits) > end.wrapping_sub(credits) {
            return Err(Failure::Broken);
        }
        self.end = end;
        if n == end { Err(Failure::Full) } else { Ok(()) }
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        if !self.is_home() {
            return;
        }
        // After the last message, so that a receiver who sees it closed and looks once more misses none.
        self.ring.close(SENDER);
    }
}

/// The end that polls. One at a time.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Polling {
    ring: Ring,
    home: Home,
    /// The number of the next message.
    next: u32,
    /// The first of its lines, where it lies apart.
    apart: usize,
    /// Credits as last written.
    given: u32,
    /// Looks in vain for the next message, up to the shape's patience.
    in_vain: u32,
    /// The number after the newest message that came when its line was looked at, what the header said of the
    /// lengths from the next message on, and the words.
    seen: u32,
    lengths: u64,
    words: [[u8; 8]; WORDS],
    /// A message that lies apart is copied here, behind the first [`APART`] bytes, before it is looked at.
    message: Box<[u8]>,
}

impl Polling {
    /// Takes the receiving end up where the last receiver left it. One that was killed may have taken up to a
    /// quarter of the ring more than it had said: those come again.
    pub(super) fn new(ring: Ring) -> Polling {
        let next = ring.shape.number(ring.credits());
        ring.reopen(BY_RECEIVER);
        let message = vec![0; ring.bytes + 2 * APART].into();
        let words = Default::default();
        Polling {
            message,
            seen: next,
            lengths: 0,
            words,
            next,
            apart: ring.shape.line_apart(next),
            given: next,
            in_vain: 0,
            ring,
            home: Home::here(),
        }
    }

    /// The part that both ends know.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether a message waits: one load.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.next != self.seen || self.ring.header(self.next).has(self.next)
    }

    /// Takes the next message, if there is one; never waits.
    #[inline(always)]
    pub(super) fn take(&mut self) -> std::result::Result<Option<&[u8]>, Failure> {
        let (n, shape) = (self.next, self.ring.shape);
        if n == self.seen {
            let Some(header) = self.peek()? else { return Ok(None) };
            self.seen = shape.next(shape.number(header.newest()));
            self.lengths = header.lengths_from(n);
            if header.newest() & WORD == WORD {
                std::hint::cold_path();
                let next_line = shape.line(shape::next_of_one(n));
                region::prefetch(&self.ring.line(next_line)[0]);
            }
        }
        if shape.lines > 0 {
            return self.take_apart();
        }
        let length = shape.first_of(self.lengths);
        if length > self.ring.bytes {
            return Err(Failure::Broken);
        }
        self.lengths = shape::others_of(self.lengths);
        self.took();
        Ok(Some(&self.words.as_flattened()[8 * word(n)..][..length]))
    }

    /// Looks at the line of the next message, once more where the sender has closed its end: it may have
    /// posted between.
    #[inline(always)]
    fn peek(&mut self) -> std::result::Result<Option<Header>, Failure> {
        let found = self.ring.peek(self.next, &mut self.words);
        if found.is_some() || !self.ring.is_closed(SENDER) {
            if found.is_none() {
                self.fetch_again();
            }
            return Ok(found);
        }
        self.ring.peek(self.next, &mut self.words).map(Some).ok_or(Failure::Closed)
    }

    /// After a look in vain: has the lines of a message that lies apart come together with its header, not
    /// after it. Not at once, or in a stream a receiver would take them from a sender that is just writing.
    #[inline(always)]
    fn fetch_again(&mut self) {
        if self.ring.shape.lines == 0 {
            return;
        }
        if self.in_vain < self.ring.shape.patience {
            self.in_vain += 1;
        } else {
            self.ring.first_lines(self.apart).for_each(region::prefetch);
        }
    }

    #[inline(always)]
    fn take_apart(&mut self) -> std::result::Result<Option<&[u8]>, Failure> {
        let n = self.next;
        let length = u64::from_ne_bytes(self.words[word(n)]);
        if length > self.ring.bytes as u64 {
            return Err(Failure::Broken);
        }
        self.in_vain = 0;
        let copied = APART..APART + length as usize;
        region::read(self.ring.lines_apart(self.apart), &mut self.message[copied.clone()]);
        self.took();
        self.apart = self.ring.shape.line_apart(self.next);
        Ok(Some(&self.message[copied]))
    }

    /// Goes to the next message, and gives slots back after a quarter of the ring.
    #[inline(always)]
    fn took(&mut self) {
        self.next = self.ring.shape.next(self.next);
        if self.next.wrapping_sub(self.given) >= self.ring.shape.quarter {
            self.give_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back(&mut self) {
        // Pair 2: messages are copied before their slots are given back.
        self.ring.line(RECEIVER)[CREDITS].store(self.next.into(), Ordering::Release);
        self.given = self.next;
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        // A child's copy of an end is not the end.
        if !self.home.is_here() {
            return;
        }
        self.give_back();
        self.ring.close(BY_RECEIVER);
    }
}

#[cfg(test)]
impl Ring {
    /// As if so many messages had been taken.
    pub(crate) fn pretend_taken(&self, count: u32) {
        self.region[RECEIVER].0[CREDITS].store(count.into(), Ordering::Relaxed);
    }

    /// Writes a word where the ring's ends write theirs.
    pub(crate) fn scribble(&self, line: usize, word: usize, value: u64) {
        self.region[line].0[word].store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Posting {
    /// Whether the receiver has given back no slot.
    pub(crate) fn is_full(&self) -> bool {
        self.next.n == self.ring.shape.after(self.ring.credits(), self.ring.slots)
    }
}
