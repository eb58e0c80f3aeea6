// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between an isolated CPU and others: post and poll, neither of which waits, allocates or calls the
//! kernel.
//!
//! ```text
//! Sender ── post ──► [ring of slots] ── poll ──► Receiver       one ring for each direction and each sender
//! Sender ── post ──► [ring of slots] ──┐
//! Sender ── post ──► [ring of slots] ──┴─ poll ► Inbox          many senders to one CPU
//! ```
//! A ring lies in this process ([`pair`]) or in memory that several have ([`Shared`]: a sealed memfd, whose
//! descriptor one process passes to another). Nothing is overwritten: a full ring and a closed one are errors
//! of [`Sender::post`]. An end that dies without closing is seen by [`Sender::receiver_lives`] and
//! [`Receiver::sender_lives`], which ask the kernel and are for the side that is not isolated; a new process
//! may take its place. That side may also sleep for messages ([`Receiver::wait`]), where senders ring
//! ([`Sender::post_and_wake`]).
//!
//! Why a header in each line, and not two indices: see `ring.rs`.

// The model of every interleaving leaves out other processes and sleep.
#![cfg_attr(loom, allow(dead_code))]

mod region;
mod ring;
#[cfg(not(loom))]
mod shared;

#[cfg(not(loom))]
use std::time::Duration;

use region::Region;
pub(crate) use region::{AtomicU64, Ordering};
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) use ring::THIS_VERSION as RING_VERSION;
use ring::{Polling, Posting, Ring};
#[cfg(not(loom))]
pub use shared::Shared;

use crate::{Error, Result};

/// Slots that a ring may have.
const MOST_SLOTS: u32 = 1 << 20;

/// Bytes that a message may have.
const MOST_BYTES: usize = 4088;

/// The capacity of a ring.
///
/// ```
/// use rt::message::{Size, pair};
///
/// assert!(pair(Size { slots: 64, bytes: 8 }).is_ok());
/// // Not a power of two.
/// assert!(pair(Size { slots: 65, bytes: 8 }).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Messages: a power of two, 4 to 1,048,576.
    pub slots: u32,
    /// Bytes of the longest message: 1 to 4,088. Up to 56 it travels in one cache line.
    pub bytes: usize,
}

impl Default for Size {
    fn default() -> Size {
        Size { slots: 256, bytes: 56 }
    }
}

impl Size {
    fn is_possible(self) -> bool {
        self.slots.is_power_of_two()
            && (4..=MOST_SLOTS).contains(&self.slots)
            && (1..=MOST_BYTES).contains(&self.bytes)
    }

    fn checked(self) -> Result<Size> {
        if self.is_possible() {
            return Ok(self);
        }
        let what = format!("make a ring of {} messages of {} bytes", self.slots, self.bytes);
        Err(Error::new(
            what,
            "it cannot have that size",
            "give a power of two from 4 to 1048576, and 1 to 4088 bytes",
        ))
    }
}

/// Why a message was not posted, or none could be taken.
///
/// ```
/// use rt::message::{Failure, Size, pair};
///
/// let (mut sender, receiver) = pair(Size { slots: 4, bytes: 8 })?;
/// assert_eq!(sender.post(&[0; 9]), Err(Failure::TooLarge));
/// (0..4u64).for_each(|n| sender.post(&n.to_ne_bytes()).unwrap());
/// assert_eq!(sender.post(b"one more"), Err(Failure::Full));
/// drop(receiver);
/// assert_eq!(sender.post(b"too late"), Err(Failure::Closed));
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The receiver has not taken what is there.
    #[error("the ring is full")]
    Full,
    /// The other end was closed.
    #[error("the other end is closed")]
    Closed,
    /// More bytes than the ring's slots have.
    #[error("the message is longer than the ring's slots")]
    TooLarge,
    /// Protocol violation by the other end.
    #[error("the other end broke the ring: what it wrote cannot be")]
    Broken,
    /// A child of fork() has no part in its parent's sender.
    #[error("the sender is another process's")]
    Foreign,
}

/// Makes a ring within this process.
///
/// ```
/// use rt::message::{Size, pair};
///
/// let (mut sender, mut receiver) = pair(Size::default())?;
/// std::thread::spawn(move || sender.post(b"go")).join().unwrap().unwrap();
/// assert_eq!(receiver.take(), Ok(Some(&b"go"[..])));
/// # Ok::<(), rt::Error>(())
/// ```
pub fn pair(size: Size) -> Result<(Sender, Receiver)> {
    let size = size.checked()?;
    let ring = Ring::create(Region::own(Ring::lines(size)), size);
    let sender = Sender { end: Posting::new(ring.clone())?, held: None };
    Ok((sender, Receiver { end: Polling::new(ring), held: None }))
}

/// Tells others that an end is taken; of a ring within one process, nothing.
#[cfg(not(loom))]
type Held = Option<shared::HeldEnd>;
#[cfg(loom)]
type Held = Option<()>;

/// The end that posts.
///
/// ```
/// use rt::message::{Size, pair};
///
/// let (mut sender, mut receiver) = pair(Size::default())?;
/// sender.post(b"stop").unwrap();
/// assert_eq!(receiver.take(), Ok(Some(&b"stop"[..])));
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Sender {
    // Closed before it is let go of.
    end: Posting,
    held: Held,
}

impl Sender {
    /// Posts a message, without waiting and without a system call.
    ///
    /// ```
    /// use rt::message::{Size, pair};
    ///
    /// let (mut sender, mut receiver) = pair(Size::default())?;
    /// if let Err(failure) = sender.post(&7u64.to_ne_bytes()) {
    ///     println!("not posted: {failure}");
    /// }
    /// assert!(receiver.take().unwrap().is_some());
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline(always)]
    pub fn post(&mut self, message: &[u8]) -> std::result::Result<(), Failure> {
        self.end.post(message)
    }

    /// Posts a message, and wakes the receiver if it sleeps: a system call then. For CPUs that are not
    /// isolated.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::message::{Size, pair};
    ///
    /// let (mut sender, mut receiver) = pair(Size::default())?;
    /// let sleeper = std::thread::spawn(move || receiver.wait(Duration::from_secs(60)));
    /// sender.post_and_wake(b"wake up").unwrap();
    /// assert!(sleeper.join().unwrap());
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[cfg(not(loom))]
    pub fn post_and_wake(&mut self, message: &[u8]) -> std::result::Result<(), Failure> {
        self.end.post(message)?;
        // The message before the look; pairs with the fence in `Receiver::wait`.
        std::sync::atomic::fence(Ordering::SeqCst);
        let waiting = self.end.ring().waiting();
        if waiting.load(Ordering::Relaxed) != 0 {
            waiting.store(0, Ordering::Relaxed);
            shared::wake(waiting);
        }
        Ok(())
    }

    /// Whether this is the process that opened the sender, and no child of it.
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn is_home(&self) -> bool {
        self.end.is_home()
    }

    /// Bytes of the longest message.
    ///
    /// ```
    /// use rt::message::{Size, pair};
    ///
    /// let (sender, _receiver) = pair(Size { slots: 4, bytes: 100 })?;
    /// assert!(sender.bytes() >= 100);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn bytes(&self) -> usize {
        self.end.ring().bytes()
    }

    /// Whether nothing can be posted now.
    #[cfg(test)]
    pub(crate) fn is_full(&self) -> bool {
        self.end.is_full()
    }

    /// One of five words that stand beside the ring, for its maker to describe its messages.
    pub(crate) fn note(&self, number: usize) -> &AtomicU64 {
        self.end.ring().note(number)
    }

    /// Whether some process holds the other end. Always so within one process. A system call.
    ///
    /// ```
    /// use rt::message::{Shared, Size};
    ///
    /// let ring = Shared::create(Size::default())?;
    /// let sender = ring.sender()?;
    /// assert!(!sender.receiver_lives());
    /// let _receiver = ring.receiver()?;
    /// assert!(sender.receiver_lives());
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[cfg(not(loom))]
    pub fn receiver_lives(&self) -> bool {
        self.held.as_ref().is_none_or(shared::HeldEnd::other_lives)
    }
}

/// The end that polls.
///
/// ```
/// use rt::message::{Size, pair};
///
/// let (mut sender, mut receiver) = pair(Size::default())?;
/// sender.post(b"a").unwrap();
/// sender.post(b"b").unwrap();
/// let mut text = Vec::new();
/// assert_eq!(receiver.poll(64, |message| text.extend_from_slice(message)), Ok(2));
/// assert_eq!(text, b"ab");
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Receiver {
    end: Polling,
    held: Held,
}

impl Receiver {
    /// Takes the next message, if there is one. Without waiting, and without a system call.
    ///
    /// ```
    /// use rt::message::{Size, pair};
    ///
    /// let (mut sender, mut receiver) = pair(Size::default())?;
    /// assert_eq!(receiver.take(), Ok(None));
    /// sender.post(b"a").unwrap();
    /// assert_eq!(receiver.take(), Ok(Some(&b"a"[..])));
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline(always)]
    pub fn take(&mut self) -> std::result::Result<Option<&[u8]>, Failure> {
        self.end.take()
    }

    /// Calls `each` with the messages that are there, at most `most`; says how many. `Closed` comes when all
    /// have been taken.
    ///
    /// ```
    /// use rt::message::{Size, pair};
    ///
    /// let (mut sender, mut receiver) = pair(Size::default())?;
    /// (0..3).for_each(|n| sender.post(&[n]).unwrap());
    /// let mut sum = 0;
    /// // Two at a time.
    /// assert_eq!(receiver.poll(2, |message| sum += message[0]), Ok(2));
    /// assert_eq!((receiver.poll(2, |message| sum += message[0]), sum), (Ok(1), 3));
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline]
    pub fn poll(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> std::result::Result<usize, Failure> {
        for taken in 0..most {
            match self.end.take() {
                Ok(Some(message)) => each(message),
                Ok(None) => return Ok(taken),
                // Messages taken before are reported first; the failure lasts.
                Err(_) if taken > 0 => return Ok(taken),
                Err(failure) => return Err(failure),
            }
        }
        Ok(most)
    }

    /// Whether a message waits: one load.
    ///
    /// ```
    /// use rt::message::{Size, pair};
    ///
    /// let (mut sender, mut receiver) = pair(Size::default())?;
    /// assert!(!receiver.waits());
    /// sender.post(b"a").unwrap();
    /// assert!(receiver.waits());
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline]
    pub fn waits(&self) -> bool {
        self.end.waits()
    }

    /// The words of [`Sender::note`]: written by another process, perhaps with ill will.
    pub(crate) fn note(&self, number: usize) -> &AtomicU64 {
        self.end.ring().note(number)
    }

    /// Sleeps until a message waits, or `timeout` has passed; says which. Senders have to post with
    /// [`Sender::post_and_wake`]. For CPUs that are not isolated.
    ///
    /// ```
    /// use rt::message::{Size, pair};
    ///
    /// let (mut sender, mut receiver) = pair(Size::default())?;
    /// sender.post_and_wake(b"a").unwrap();
    /// assert!(receiver.wait(std::time::Duration::from_millis(1)));
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[cfg(not(loom))]
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let until = crate::clock::monotonic_ns().saturating_add(timeout.as_nanos() as u64);
        loop {
            let waiting = self.end.ring().waiting();
            waiting.store(1, Ordering::Relaxed);
            // The flag before the look; pairs with the fence in `Sender::post_and_wake`.
            std::sync::atomic::fence(Ordering::SeqCst);
            let left = until.saturating_sub(crate::clock::monotonic_ns());
            if self.waits() || left == 0 {
                waiting.store(0, Ordering::Relaxed);
                return self.waits();
            }
            shared::sleep(waiting, Duration::from_nanos(left));
        }
    }

    /// Whether some process holds the other end. Always so within one process. A system call.
    ///
    /// ```
    /// use rt::message::{Shared, Size};
    ///
    /// let ring = Shared::create(Size::default())?;
    /// let receiver = ring.receiver()?;
    /// assert!(!receiver.sender_lives());
    /// let _sender = ring.sender()?;
    /// assert!(receiver.sender_lives());
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[cfg(not(loom))]
    pub fn sender_lives(&self) -> bool {
        self.held.as_ref().is_none_or(shared::HeldEnd::other_lives)
    }
}

/// Several rings to one receiver, each of one sender, taken from in turn.
///
/// ```
/// use rt::message::{Inbox, Size, pair};
///
/// let (mut inbox, mut senders) = (Inbox::default(), Vec::new());
/// for _ in 0..2 {
///     let (sender, receiver) = pair(Size::default())?;
///     senders.push(sender);
///     inbox.add(receiver);
/// }
/// senders[1].post(b"second").unwrap();
/// assert_eq!(inbox.poll(|ring, message| assert_eq!((ring, message), (1, &b"second"[..]))), 1);
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Inbox {
    rings: Vec<Receiver>,
    first: usize,
}

impl Inbox {
    /// Adds a ring; its number is how many there were before. Allocates.
    ///
    /// ```
    /// use rt::message::{Inbox, Size, pair};
    ///
    /// let mut inbox = Inbox::default();
    /// assert_eq!(inbox.add(pair(Size::default())?.1), 0);
    /// assert_eq!(inbox.add(pair(Size::default())?.1), 1);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn add(&mut self, receiver: Receiver) -> usize {
        self.rings.push(receiver);
        self.rings.len() - 1
    }

    /// Calls `each` with the number of the ring and the message, at most one from each ring, and begins with
    /// another ring each time; says how many there were. Rings that are closed or broken stay silent: see
    /// [`Inbox::ring`].
    ///
    /// ```
    /// use rt::message::{Inbox, Size, pair};
    ///
    /// let (mut inbox, mut senders) = (Inbox::default(), Vec::new());
    /// for _ in 0..2 {
    ///     let (sender, receiver) = pair(Size::default())?;
    ///     senders.push(sender);
    ///     inbox.add(receiver);
    /// }
    /// senders.iter_mut().for_each(|sender| sender.post(b"a").unwrap());
    /// assert_eq!(inbox.poll(|ring, message| println!("{ring}: {message:?}")), 2);
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline]
    pub fn poll(&mut self, mut each: impl FnMut(usize, &[u8])) -> usize {
        let (count, mut taken) = (self.rings.len(), 0);
        for n in 0..count {
            let ring = (self.first + n) % count;
            if let Ok(Some(message)) = self.rings[ring].take() {
                each(ring, message);
                taken += 1;
            }
        }
        self.first = if count == 0 { 0 } else { (self.first + 1) % count };
        taken
    }

    /// One of the rings.
    ///
    /// ```
    /// use rt::message::{Inbox, Size, pair};
    ///
    /// let (mut inbox, mut senders) = (Inbox::default(), Vec::new());
    /// for _ in 0..2 {
    ///     let (sender, receiver) = pair(Size::default())?;
    ///     senders.push(sender);
    ///     inbox.add(receiver);
    /// }
    /// drop(senders);
    /// let failure = inbox.ring(0).unwrap().take().unwrap_err();
    /// assert_eq!(failure, rt::message::Failure::Closed);
    /// assert!(inbox.ring(2).is_none());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn ring(&mut self, number: usize) -> Option<&mut Receiver> {
        self.rings.get_mut(number)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
