// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each contender does in turn, the same code for all: one side asks and the other answers, each round
//! trip timed; or one pours and the other drains. Both poll without a pause between looks, as one does on a
//! CPU of one's own.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a message: what our slots of one cache line leave of it.
pub const BYTES: usize = 56;

/// Messages that a ring holds.
pub const SLOTS: usize = 256;

/// A message in a line of its own, so that no contender's slot lies across two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct LineMessage(pub [u8; BYTES]);

/// An end that posts.
pub trait Sends {
    /// Posts a message; false where there is no room.
    fn post(&mut self, message: &LineMessage) -> bool;
}

/// An end that takes.
pub trait Takes {
    /// Takes the next message and shows it; false where there is none.
    fn take(&mut self, look: impl FnOnce(&[u8; BYTES])) -> bool;
}

/// What one CPU does, of two.
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

/// What a CPU has of two rings, one each way; so far from what the other CPU has that no line of memory holds
/// parts of both.
#[repr(align(128))]
pub struct RingEnds<S, T>(pub S, pub T);

impl<S: Sends, T: Takes> Side for RingEnds<S, T> {
    fn ask(&mut self, ticks: &mut [u64]) {
        let mut began = rt::clock::counter();
        for (n, ticks) in ticks.iter_mut().enumerate() {
            post(&mut self.0, n as u64);
            take(&mut self.1, n as u64);
            let now = rt::clock::counter();
            *ticks = now.wrapping_sub(began);
            began = now;
        }
    }

    fn answer(&mut self, count: u64) {
        for n in 0..count {
            take(&mut self.1, n);
            post(&mut self.0, n);
        }
    }

    fn pour(&mut self, count: u64) {
        (0..count).for_each(|n| post(&mut self.0, n));
    }

    fn drain(&mut self, count: u64) {
        (0..count).for_each(|n| take(&mut self.1, n));
    }
}

/// Posts a message that begins with its number.
#[inline(always)]
fn post(end: &mut impl Sends, n: u64) {
    let mut message = LineMessage([0; BYTES]);
    message.0[..8].copy_from_slice(&n.to_ne_bytes());
    while !end.post(&message) {}
}

/// Takes the message of that number and reads all of it, or a compiler would leave parts out.
#[inline(always)]
fn take(end: &mut impl Takes, n: u64) {
    while !end.take(|message| {
        let message = black_box(message);
        assert_eq!(message[..8], n.to_ne_bytes(), "a message out of order");
    }) {}
}

/// A word in a line of its own, its neighbour too: processors fetch lines by pairs.
#[derive(Default)]
#[repr(align(128))]
struct PaddedWord(AtomicU64);

/// What nothing can be faster than: a word each way, and for the stream a word in each of as many lines as
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
        let mut began = rt::clock::counter();
        for ticks in ticks {
            self.asked += 1;
            self.mine.0.store(self.asked, Ordering::Release);
            while self.theirs.0.load(Ordering::Acquire) != self.asked {}
            let now = rt::clock::counter();
            *ticks = now.wrapping_sub(began);
            began = now;
        }
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
