// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring itself: who writes which word, and in what order.
//!
//! ```text
//! line 0      what the ring is       written once; from word 3 on the maker's notes
//! line 1      closed                 the sender's
//! line 2      credits, closed        the receiver's
//! line 3...   messages up to 8 bytes: seven to a line, as `packed.rs` says
//!             up to 56: slots of 4 or 8 words, of which word 0 is the message's number (low half: sequence,
//!             high half: length) and the others are the message
//!             longer ones: the numbers of all slots, then the messages, each in lines of its own
//! ```
//! Message n lies in slot n modulo slots. The sender writes the message, then its number n + 1 (pair 1). The
//! receiver copies it, and gives slots back as *credits*, the number of the first message that it has not
//! taken, a quarter of the ring at a time (pair 2): so the line with the credits stays in both caches most of
//! the time.
//!
//! A short message travels in the line of its number: a hop costs one transfer. A long one lies apart, since
//! the receiver polls the number: it would take a line away that the sender is still writing. The sender
//! fetches lines that it will write some messages ahead, and so waits for few of them.
//!
//! Each end keeps its own position to itself. What it reads of the other's is checked before it is used: an
//! end that lies loses messages, and can do nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence};

use super::region::{
    self, AtomicU64, BESIDE_BYTES, CacheLine, LINE_BYTES, Ordering, Region, WORDS, load, store,
};
use super::{Failure, Size};
use crate::Result;
use crate::fork::{Home, Wiped};

mod packed;

use packed::Header;

const HEAD_LINES: usize = 3;
const IDENTITY: usize = 0;
const SENDER: usize = 1;
const RECEIVER: usize = 2;

/// Words of line 0.
const VERSION: usize = 0;
const SLOTS: usize = 1;
const BYTES: usize = 2;
const NOTES: usize = 3;

/// Words of lines 1 and 2.
const CLOSED: usize = 0;
const CREDITS: usize = 1;
/// The receiver is about to sleep: low half, as a futex wants it.
pub(super) const WAITING: usize = 2;

/// "isol" and the layout's version.
pub(crate) const THIS_VERSION: u64 = 0x6973_6f6c_0000_0003;

/// Bytes of the longest message of which a line has seven.
const PACKED_BYTES: usize = 8;

/// Bytes that processors fetch at once: two lines. What one CPU writes and another reads, or writes, must not
/// lie that close together, or each write costs as much as a message. So rings and ends have an alignment of
/// that size; it must be written as a number there.
const APART: usize = 128;

/// What both ends know of a ring.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Ring {
    region: Region,
    slots: u32,
    /// A message's number modulo the ring.
    mask: u32,
    bytes: usize,
    shape: Shape,
}

/// Where messages of a size lie.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Seven to a line.
    packed: bool,
    /// The words from one number to the next, as the power of two.
    step: u32,
    /// Lines of a message that lies apart from its number; none where messages lie beside theirs.
    lines: usize,
    /// The first line after the numbers.
    first: usize,
    /// How many messages ahead the sender fetches a slot: about eight lines.
    ahead: u32,
}

impl Shape {
    fn of(size: Size) -> Shape {
        let packed = size.bytes <= PACKED_BYTES;
        let step = match size.bytes {
            0..=24 => 2,
            25..=BESIDE_BYTES => 3,
            _ => 0,
        };
        let numbers = match packed {
            true => packed::lines(size.slots) as usize,
            false => ((size.slots as usize) << step).div_ceil(WORDS),
        };
        let lines = if step == 0 { size.bytes.div_ceil(LINE_BYTES) } else { 0 };
        let ahead = match lines {
            0 if packed => 8 * WORDS as u32,
            0 => 8 << (3 - step),
            lines => (8 / lines as u32).max(1),
        };
        Shape { packed, step, lines, first: HEAD_LINES + numbers, ahead }
    }
}

impl Shape {
    /// The first number from `n` on that a message may have.
    fn number(self, n: u32) -> u32 {
        if self.packed { packed::number(n) } else { n }
    }

    /// The number `count` messages after `n`, which is a message's.
    fn after(self, n: u32, count: u32) -> u32 {
        if self.packed { packed::after(n, count) } else { n.wrapping_add(count) }
    }
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
        let Size { slots, bytes } = size;
        let shape = Shape::of(size);
        let lap = if shape.packed { packed::lines(slots) * WORDS as u32 } else { slots };
        Ring { region, slots, mask: lap - 1, bytes, shape }
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

    /// A line of the head, or one with numbers.
    #[inline(always)]
    fn line(&self, at: usize) -> &[AtomicU64; WORDS] {
        debug_assert!(at < self.region.len());
        // SAFETY: `of` looked that the region has the lines of its size, which never change; a number is
        // counted modulo the slots.
        unsafe { &self.region.get_unchecked(at).0 }
    }

    /// Whether the receiver has closed its end.
    #[inline(always)]
    fn receiver_closed(&self) -> bool {
        self.line(RECEIVER)[CLOSED].load(Ordering::Relaxed) != 0
    }

    /// What `look` finds; where that is nothing and the sender has closed its end, what it finds then: the
    /// sender may have posted between.
    #[inline(always)]
    fn came<T>(&self, look: impl Fn() -> Option<T>) -> std::result::Result<Option<T>, Failure> {
        let found = look();
        if found.is_some() || self.line(SENDER)[CLOSED].load(Ordering::Acquire) == 0 {
            return Ok(found);
        }
        look().map(Some).ok_or(Failure::Closed)
    }

    #[inline(always)]
    fn credits(&self) -> u32 {
        // Pair 2: what the receiver copied out is copied before the slot is written again.
        self.line(RECEIVER)[CREDITS].load(Ordering::Acquire) as u32
    }

    /// The words from the number of message `n` to the end of its line.
    #[inline(always)]
    fn number(&self, n: u32) -> &[AtomicU64] {
        let at = ((n & self.mask) as usize) << self.shape.step;
        &self.line(HEAD_LINES + at / WORDS)[at % WORDS..]
    }

    /// The lines of message `n`, where it lies apart.
    #[inline(always)]
    fn lines_of(&self, n: u32) -> &[CacheLine] {
        let first = self.shape.first + (n & self.mask) as usize * self.shape.lines;
        &self.region[first..first + self.shape.lines]
    }

    /// The sequence number in a slot, and the length beside it.
    #[inline(always)]
    fn sequence(&self, n: u32) -> (u32, usize) {
        // Pair 1: the message is not older than its number.
        let word = self.number(n)[0].load(Ordering::Acquire);
        (word as u32, (word >> 32) as usize)
    }

    #[inline(always)]
    fn write(&self, n: u32, message: &[u8]) {
        let number = self.number(n);
        if self.shape.lines == 0 {
            store(&number[1..], message);
        } else {
            for (line, bytes) in self.lines_of(n).iter().zip(message.chunks(LINE_BYTES)) {
                match bytes.try_into() {
                    Ok(whole) => line.write(whole),
                    Err(_) => store(&line.0, bytes),
                }
            }
        }
        let word = u64::from(n.wrapping_add(1)) | (message.len() as u64) << 32;
        // Pair 1: the message before its number.
        number[0].store(word, Ordering::Release);
    }

    /// Fetches, as their writer, the number of the next message, before the receiver comes to poll it, and
    /// all that a message as long will write some messages ahead.
    #[inline(always)]
    fn prefetch(&self, next: u32, ahead: u32, length: usize) {
        if self.shape.packed {
            region::prefetch_to_write(&self.packed_line(ahead)[0]);
            region::prefetch_to_write(&self.packed_line(next)[0]);
            return;
        }
        region::prefetch_to_write(&self.number(ahead)[0]);
        region::prefetch_to_write(&self.number(next)[0]);
        if self.shape.lines > 0 {
            let lines = self.lines_of(ahead).iter().take(length.div_ceil(LINE_BYTES));
            lines.for_each(|line| region::prefetch_to_write(&line.0[0]));
        }
    }

    #[inline(always)]
    fn read(&self, n: u32, message: &mut [u8]) {
        if self.shape.lines == 0 {
            load(&self.number(n)[1..], message);
        } else {
            for (line, bytes) in self.lines_of(n).iter().zip(message.chunks_mut(LINE_BYTES)) {
                match (&mut *bytes).try_into() {
                    Ok(whole) => line.read(whole),
                    Err(_) => load(&line.0, bytes),
                }
            }
        }
    }
}

/// What a post looks at first. A child of fork() finds it all zero, and so posts nothing.
#[derive(Debug)]
struct Gate {
    /// One more than the longest message that is posted without another look: 0 while a post runs, and always
    /// where each post is checked.
    limit: AtomicUsize,
    /// In the process that opened the end.
    is_home: AtomicBool,
    is_checked: AtomicBool,
    /// Where each post is checked: one runs.
    runs: AtomicBool,
}

/// The end that posts. One at a time: of a ring that several processes share, [`super::Shared`] sees to it.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Posting {
    ring: Arc<Ring>,
    gate: Wiped<Gate>,
    /// The number of the next message.
    next: u32,
    /// The first number that the receiver has not given back, as last read.
    end: u32,
    /// What the line of the last message has, where seven share one.
    header: Header,
}

impl Posting {
    /// Takes the sending end up where the last sender left it: behind the newest message that the receiver
    /// may still take.
    pub(super) fn new(ring: Arc<Ring>) -> Result<Posting> {
        let gate = Gate {
            limit: AtomicUsize::new(ring.bytes + 1),
            is_home: AtomicBool::new(true),
            is_checked: AtomicBool::new(false),
            runs: AtomicBool::new(false),
        };
        // SAFETY: numbers and flags, of which each may be zero.
        let gate = unsafe { Wiped::new(gate) }?;
        let credits = ring.shape.number(ring.credits());
        let end = ring.shape.after(credits, ring.slots);
        let is_sent = |number: u32| number.wrapping_sub(credits) < end.wrapping_sub(credits);
        let (next, header) = if ring.shape.packed {
            ring.last_packed(credits, is_sent)
        } else {
            // A slot has the number of its message and one.
            let sequences = (0..ring.slots).map(|n| ring.sequence(n).0);
            let sent = sequences.filter(|sequence| is_sent(sequence.wrapping_sub(1)));
            let next = sent.max_by_key(|sequence| sequence.wrapping_sub(credits));
            (next.unwrap_or(credits), Header::default())
        };
        ring.region[SENDER].0[CLOSED].store(0, Ordering::Relaxed);
        Ok(Posting { next, end, header, ring, gate })
    }

    /// From now on a post that meets another one is refused from whichever thread: an atomic exchange more.
    pub(super) fn check_each(&self) {
        self.gate.is_checked.store(true, Ordering::Relaxed);
        self.gate.limit.store(0, Ordering::Relaxed);
    }

    /// Whether this is the process that opened the end.
    pub(super) fn is_home(&self) -> bool {
        self.gate.is_home.load(Ordering::Relaxed)
    }

    /// What both ends know.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Posts a message; never waits.
    #[inline]
    pub(super) fn post(&mut self, message: &[u8]) -> std::result::Result<(), Failure> {
        let limit = self.gate.limit.load(Ordering::Relaxed);
        if message.len() >= limit {
            return self.post_otherwise(message);
        }
        // A signal handler that interrupts this post and posts is refused: it finds 0.
        self.gate.limit.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let posted = self.place(message);
        compiler_fence(Ordering::SeqCst);
        self.gate.limit.store(limit, Ordering::Relaxed);
        posted
    }

    /// Where the look at the gate did not suffice.
    #[cold]
    #[inline(never)]
    fn post_otherwise(&mut self, message: &[u8]) -> std::result::Result<(), Failure> {
        if !self.is_home() {
            return Err(Failure::Foreign);
        }
        if message.len() > self.ring.bytes {
            return Err(Failure::TooLarge);
        }
        if !self.gate.is_checked.load(Ordering::Relaxed) || self.gate.runs.swap(true, Ordering::Acquire) {
            return Err(Failure::Busy);
        }
        let posted = self.place(message);
        self.gate.runs.store(false, Ordering::Release);
        posted
    }

    /// Writes a message that is short enough.
    #[inline(always)]
    fn place(&mut self, message: &[u8]) -> std::result::Result<(), Failure> {
        if self.ring.receiver_closed() {
            return Err(Failure::Closed);
        }
        if self.next == self.end {
            self.look_for_room()?;
        }
        if self.ring.shape.packed {
            self.header = self.header.with(self.next, message.len());
            self.ring.write_packed(self.next, message, self.header);
            self.next = packed::next(self.next);
            if !packed::is_first(self.next) {
                return Ok(());
            }
        } else {
            self.ring.write(self.next, message);
            self.next = self.next.wrapping_add(1);
        }
        let ahead = self.next.wrapping_add(self.ring.shape.ahead);
        // Only what the receiver has given back.
        if self.end.wrapping_sub(ahead).cast_signed() > 0 {
            self.ring.prefetch(self.next, ahead, message.len());
        }
        Ok(())
    }

    /// Looks whether the receiver has given slots back.
    fn look_for_room(&mut self) -> std::result::Result<(), Failure> {
        let (credits, shape) = (self.ring.credits(), self.ring.shape);
        let end = shape.after(shape.number(credits), self.ring.slots);
        // The receiver may only have taken what was sent.
        if shape.number(credits) != credits || self.next.wrapping_sub(credits) > end.wrapping_sub(credits) {
            return Err(Failure::Broken);
        }
        self.end = end;
        if self.next == end { Err(Failure::Full) } else { Ok(()) }
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        if !self.is_home() {
            return;
        }
        // After the last message, so that a receiver who sees it closed and looks once more misses none.
        self.ring.region[SENDER].0[CLOSED].store(1, Ordering::Release);
    }
}

/// The end that polls. One at a time.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Polling {
    ring: Arc<Ring>,
    home: Home,
    /// The number of the next message.
    next: u32,
    /// Credits as last written.
    given: u32,
    /// A message is copied here, behind the first [`APART`] bytes, before it is looked at.
    message: Box<[u8]>,
    /// Where seven share a line: what the line of the next message had, and the messages that came since.
    header: Header,
    words: [[u8; PACKED_BYTES]; WORDS],
}

impl Polling {
    /// Takes the receiving end up where the last receiver left it. One that was killed may have taken up to a
    /// quarter of the ring more than it had said: those come again.
    pub(super) fn new(ring: Arc<Ring>) -> Polling {
        let next = ring.shape.number(ring.credits());
        ring.region[RECEIVER].0[CLOSED].store(0, Ordering::Relaxed);
        let message = vec![0; ring.bytes + 2 * APART].into();
        let (header, words) = Default::default();
        Polling { message, header, words, next, given: next, ring, home: Home::here() }
    }

    /// What both ends know.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether a message waits: one load.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        if self.ring.shape.packed {
            return self.header.has(self.next) || self.ring.header(self.next).has(self.next);
        }
        self.ring.sequence(self.next).0 == self.next.wrapping_add(1)
    }

    /// Takes the next message, if there is one; never waits.
    #[inline]
    pub(super) fn take(&mut self) -> std::result::Result<Option<&[u8]>, Failure> {
        if self.ring.shape.packed {
            return self.take_packed();
        }
        let next = self.next;
        let new = || {
            let (number, length) = self.ring.sequence(next);
            (number == next.wrapping_add(1)).then_some(length)
        };
        let Some(length) = self.ring.came(new)? else { return Ok(None) };
        if length > self.ring.bytes {
            return Err(Failure::Broken);
        }
        self.ring.read(self.next, &mut self.message[APART..APART + length]);
        self.next = self.next.wrapping_add(1);
        self.give_back_a_quarter();
        Ok(Some(&self.message[APART..APART + length]))
    }

    #[inline(always)]
    fn give_back_a_quarter(&mut self) {
        if self.next.wrapping_sub(self.given) >= self.ring.slots / 4 {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        // Pair 2: messages are copied before their slots are given back.
        self.ring.region[RECEIVER].0[CREDITS].store(self.next.into(), Ordering::Release);
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
        self.ring.region[RECEIVER].0[CLOSED].store(1, Ordering::Release);
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
        self.next == self.ring.shape.after(self.ring.credits(), self.ring.slots)
    }
}
