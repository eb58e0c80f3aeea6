// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of a contender, the same code for all: one side asks and the other answers, each round
//! trip timed; or one pours and the other drains. Both poll without a pause between looks, as one does on a
//! CPU of one's own. `peers.cpp` has the same for rings in C++.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that a ring holds.
pub const SLOTS: usize = 256;

/// A message of one size, which begins with its number.
pub trait Message: Copy + Send + 'static {
    /// Its bytes.
    const BYTES: usize;

    /// The message of that number.
    fn of(n: u64) -> Self;

    /// All of it.
    fn bytes(&self) -> &[u8];
}

/// A message of a word, packed by those contenders that pack.
#[derive(Clone, Copy)]
pub struct WordMessage([u8; 8]);

impl Message for WordMessage {
    const BYTES: usize = 8;

    #[inline(always)]
    fn of(n: u64) -> WordMessage {
        WordMessage(n.to_ne_bytes())
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A longer message, which begins a line, so that no contender's slot lies across one more than it must.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct LineMessage<const N: usize>([u8; N]);

impl<const N: usize> Message for LineMessage<N> {
    const BYTES: usize = N;

    #[inline(always)]
    fn of(n: u64) -> LineMessage<N> {
        let mut message = LineMessage([0; N]);
        message.0[..8].copy_from_slice(&n.to_ne_bytes());
        message
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An end that posts.
pub trait Sends<M> {
    /// Posts a message; false where there is no room.
    fn post(&mut self, message: &M) -> bool;
}

/// An end that takes.
pub trait Takes<M> {
    /// Takes the next message and shows it; false where there is none.
    fn take(&mut self, look: impl FnOnce(&[u8])) -> bool;
}

/// The work of one CPU, of two.
pub trait Side {
    /// Asks, and waits for the answer, once for each of `ticks`: how long each took, by the processor's
    /// counter.
    fn ask(&mut self, ticks: &mut [u64]);
    /// Answers so many questions.
    fn answer(&mut self, count: u64);
    /// Posts so many messages.
    fn pour(&mut self, count: u64);
    /// Takes so many.
    fn drain(&mut self, count: u64);
}

/// A CPU's ends of two rings, one each way; so far from those of the other CPU that no line of memory holds
/// parts of both.
#[repr(align(128))]
pub struct RingEnds<S, T, M> {
    sends: S,
    takes: T,
    message: std::marker::PhantomData<M>,
}

impl<S, T, M> RingEnds<S, T, M> {
    /// These two.
    pub fn new(sends: S, takes: T) -> RingEnds<S, T, M> {
        RingEnds { sends, takes, message: std::marker::PhantomData }
    }
}

impl<S: Sends<M>, T: Takes<M>, M: Message> Side for RingEnds<S, T, M> {
    fn ask(&mut self, ticks: &mut [u64]) {
        time_each(ticks, |n| {
            post::<M>(&mut self.sends, n);
            take::<M>(&mut self.takes, n);
        });
    }

    fn answer(&mut self, count: u64) {
        for n in 0..count {
            take::<M>(&mut self.takes, n);
            post::<M>(&mut self.sends, n);
        }
    }

    fn pour(&mut self, count: u64) {
        (0..count).for_each(|n| post::<M>(&mut self.sends, n));
    }

    fn drain(&mut self, count: u64) {
        (0..count).for_each(|n| take::<M>(&mut self.takes, n));
    }
}

/// Makes a round trip for each of `ticks`, by its number: how long each took. One look at the counter each.
#[inline(always)]
fn time_each(ticks: &mut [u64], mut trip: impl FnMut(u64)) {
    let mut began = rt::clock::counter();
    for (n, ticks) in ticks.iter_mut().enumerate() {
        trip(n as u64);
        let now = rt::clock::counter();
        *ticks = now.wrapping_sub(began);
        began = now;
    }
}

/// Posts the message of that number.
#[inline(always)]
fn post<M: Message>(end: &mut impl Sends<M>, n: u64) {
    let message = M::of(n);
    while !end.post(&message) {}
}

/// Takes the message of that number and reads all of it, or a compiler would leave parts out.
#[inline(always)]
fn take<M: Message>(end: &mut impl Takes<M>, n: u64) {
    while !end.take(|message| {
        let message = black_box(message);
        assert_eq!(message.len(), M::BYTES, "a message of another length");
        assert_eq!(message[..8], n.to_ne_bytes(), "a message out of order");
    }) {}
}

/// A word in a line of its own, its neighbour too: processors fetch lines by pairs.
#[derive(Default)]
#[repr(align(128))]
struct PaddedWord(AtomicU64);

/// The lower bound of all: a word each way, and for the stream a word in each of as many lines as
/// there are messages in a batch, so that the sender never waits for room.
#[repr(align(128))]
pub struct RawLines {
    mine: Arc<PaddedWord>,
    theirs: Arc<PaddedWord>,
    lines: Arc<[PaddedWord]>,
    /// Of the numbers in the words, which only grow.
    asked: u64,
    streamed: u64,
}

impl RawLines {
    /// Both sides.
    pub fn pair(lines: usize) -> (RawLines, RawLines) {
        let (one, other) = (Arc::<PaddedWord>::default(), Arc::<PaddedWord>::default());
        let lines = (0..lines).map(|_| PaddedWord::default()).collect::<Arc<[PaddedWord]>>();
        let side = |mine: &Arc<PaddedWord>, theirs: &Arc<PaddedWord>| RawLines {
            mine: Arc::clone(mine),
            theirs: Arc::clone(theirs),
            lines: Arc::clone(&lines),
            asked: 0,
            streamed: 0,
        };
        (side(&one, &other), side(&other, &one))
    }
}

impl Side for RawLines {
    fn ask(&mut self, ticks: &mut [u64]) {
        time_each(ticks, |_| {
            self.asked += 1;
            self.mine.0.store(self.asked, Ordering::Release);
            while self.theirs.0.load(Ordering::Acquire) != self.asked {}
        });
    }

    fn answer(&mut self, count: u64) {
        for _ in 0..count {
            self.asked += 1;
            while self.theirs.0.load(Ordering::Acquire) != self.asked {}
            self.mine.0.store(self.asked, Ordering::Release);
        }
    }

    fn pour(&mut self, count: u64) {
        self.streamed += 1;
        for line in &self.lines[..count as usize] {
            line.0.store(self.streamed, Ordering::Release);
        }
    }

    fn drain(&mut self, count: u64) {
        self.streamed += 1;
        for line in &self.lines[..count as usize] {
            while line.0.load(Ordering::Acquire) != self.streamed {}
        }
    }
}

/// A message of 56 bytes and its number in a line.
#[derive(Default)]
#[repr(align(64))]
struct BareLine([AtomicU64; 8]);

/// The lower bound of a ring with a line for each message: such lines without a ring. Nothing says how
/// far the other side is, so there are as many as messages in a stream; round trips use those of a ring.
#[repr(align(128))]
pub struct BareLines {
    mine: Arc<[BareLine]>,
    theirs: Arc<[BareLine]>,
    /// Of the numbers in the lines, which only grow.
    posted: u64,
    taken: u64,
}

impl BareLines {
    /// Both sides.
    pub fn pair(lines: usize) -> (BareLines, BareLines) {
        let lines = || (0..lines).map(|_| BareLine::default()).collect::<Arc<[BareLine]>>();
        let (one, other) = (lines(), lines());
        let side = |mine: &Arc<_>, theirs: &Arc<_>| BareLines {
            mine: Arc::clone(mine),
            theirs: Arc::clone(theirs),
            posted: 0,
            taken: 0,
        };
        (side(&one, &other), side(&other, &one))
    }

    #[inline(always)]
    fn post(&mut self, line: usize, n: u64) {
        let message = LineMessage::<56>::of(n);
        let [number, words @ ..] = &self.mine[line].0;
        self.posted += 1;
        for (to, word) in words.iter().zip(message.bytes().as_chunks().0) {
            to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        number.store(self.posted, Ordering::Release);
    }

    #[inline(always)]
    fn take(&mut self, line: usize, n: u64) {
        let [number, words @ ..] = &self.theirs[line].0;
        self.taken += 1;
        while number.load(Ordering::Acquire) != self.taken {}
        let mut message = [0; 7];
        for (word, from) in message.iter_mut().zip(words) {
            *word = from.load(Ordering::Relaxed);
        }
        assert_eq!(black_box(message)[0], n, "a message out of order");
    }
}

impl Side for BareLines {
    fn ask(&mut self, ticks: &mut [u64]) {
        time_each(ticks, |n| {
            self.post(n as usize % SLOTS, n);
            self.take(n as usize % SLOTS, n);
        });
    }

    fn answer(&mut self, count: u64) {
        for n in 0..count {
            self.take(n as usize % SLOTS, n);
            self.post(n as usize % SLOTS, n);
        }
    }

    fn pour(&mut self, count: u64) {
        (0..count).for_each(|n| self.post(n as usize, n));
    }

    fn drain(&mut self, count: u64) {
        (0..count).for_each(|n| self.take(n as usize, n));
    }
}
