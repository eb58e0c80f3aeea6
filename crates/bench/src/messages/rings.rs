// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our ring, and those of other crates, each as its documentation says is fastest: split ends that remember
//! where the other was.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use ringbuf::HeapRb;
use ringbuf::traits::{Consumer as _, Producer as _, Split as _};
use ringbuf::wrap::caching::{CachingCons, CachingProd};
use rt::message::{Receiver, Sender, Size};

use super::ends::{BYTES, LineMessage, RingEnds, SLOTS, Sends, Takes};

/// What the one CPU has, and what the other.
pub type Both<S, T> = (RingEnds<S, T>, RingEnds<S, T>);

fn both<S, T>(ring: impl Fn() -> (S, T)) -> Both<S, T> {
    crossed(ring(), ring())
}

fn crossed<S, T>((there, from_here): (S, T), (back, from_there): (S, T)) -> Both<S, T> {
    (RingEnds(there, from_there), RingEnds(back, from_here))
}

/// Ours.
pub fn ours() -> rt::Result<Both<Sender, Receiver>> {
    let size = Size { slots: SLOTS as u32, bytes: BYTES };
    Ok(crossed(rt::message::pair(size)?, rt::message::pair(size)?))
}

impl Sends for Sender {
    #[inline(always)]
    fn post(&mut self, message: &LineMessage) -> bool {
        Sender::post(self, &message.0).is_ok()
    }
}

impl Takes for Receiver {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8; BYTES])) -> bool {
        let Ok(Some(message)) = Receiver::take(self) else { return false };
        message.try_into().map(look).is_ok()
    }
}

/// rtrb.
pub fn rtrb() -> Both<rtrb::Producer<LineMessage>, rtrb::Consumer<LineMessage>> {
    both(|| rtrb::RingBuffer::new(SLOTS))
}

impl Sends for rtrb::Producer<LineMessage> {
    #[inline(always)]
    fn post(&mut self, message: &LineMessage) -> bool {
        self.push(*message).is_ok()
    }
}

impl Takes for rtrb::Consumer<LineMessage> {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8; BYTES])) -> bool {
        self.pop().map(|message| look(&message.0)).is_ok()
    }
}

/// Crossbeam's bounded queue, which many may use: it has none for one at each end.
pub struct Crossbeam(Arc<ArrayQueue<LineMessage>>);

/// crossbeam.
pub fn crossbeam() -> Both<Crossbeam, Crossbeam> {
    both(|| {
        let queue = Arc::new(ArrayQueue::new(SLOTS));
        (Crossbeam(Arc::clone(&queue)), Crossbeam(queue))
    })
}

impl Sends for Crossbeam {
    #[inline(always)]
    fn post(&mut self, message: &LineMessage) -> bool {
        self.0.push(*message).is_ok()
    }
}

impl Takes for Crossbeam {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8; BYTES])) -> bool {
        self.0.pop().map(|message| look(&message.0)).is_some()
    }
}

type Ringbuf = Arc<HeapRb<LineMessage>>;

/// ringbuf.
pub fn ringbuf() -> Both<CachingProd<Ringbuf>, CachingCons<Ringbuf>> {
    both(|| HeapRb::new(SLOTS).split())
}

impl Sends for CachingProd<Ringbuf> {
    #[inline(always)]
    fn post(&mut self, message: &LineMessage) -> bool {
        self.try_push(*message).is_ok()
    }
}

impl Takes for CachingCons<Ringbuf> {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8; BYTES])) -> bool {
        self.try_pop().map(|message| look(&message.0)).is_some()
    }
}

/// heapless, whose ring holds one message less than it has slots. Its rings stay to the end of the program.
pub fn heapless()
-> Both<heapless::spsc::Producer<'static, LineMessage>, heapless::spsc::Consumer<'static, LineMessage>> {
    both(|| Box::leak(Box::new(heapless::spsc::Queue::<LineMessage, SLOTS>::new())).split())
}

impl Sends for heapless::spsc::Producer<'_, LineMessage> {
    #[inline(always)]
    fn post(&mut self, message: &LineMessage) -> bool {
        self.enqueue(*message).is_ok()
    }
}

impl Takes for heapless::spsc::Consumer<'_, LineMessage> {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8; BYTES])) -> bool {
        self.dequeue().map(|message| look(&message.0)).is_some()
    }
}
