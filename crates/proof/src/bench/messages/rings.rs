// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our ring, and those of other crates, each as its documentation says is fastest: split ends that remember
//! where the other was.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use ringbuf::HeapRb;
use ringbuf::traits::{Consumer as _, Producer as _, Split as _};
use ringbuf::wrap::caching::{CachingCons, CachingProd};
use rt::message::{Receiver, Sender, Size};

use super::ends::{Message, RingEnds, SLOTS, Sends, Takes};

/// The ends of the one CPU, and those of the other.
pub type Both<S, T, M> = (RingEnds<S, T, M>, RingEnds<S, T, M>);

fn both<S, T, M>(ring: impl Fn() -> (S, T)) -> Both<S, T, M> {
    crossed(ring(), ring())
}

fn crossed<S, T, M>((there, from_here): (S, T), (back, from_there): (S, T)) -> Both<S, T, M> {
    (RingEnds::new(there, from_there), RingEnds::new(back, from_here))
}

/// Ours.
pub fn ours<M: Message>() -> rt::Result<Both<Sender, Receiver, M>> {
    let size = Size { slots: SLOTS as u32, bytes: M::BYTES };
    Ok(crossed(rt::message::pair(size)?, rt::message::pair(size)?))
}

impl<M: Message> Sends<M> for Sender {
    #[inline(always)]
    fn post(&mut self, message: &M) -> bool {
        Sender::post(self, message.bytes()).is_ok()
    }
}

impl<M: Message> Takes<M> for Receiver {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8])) -> bool {
        let Ok(Some(message)) = Receiver::take(self) else { return false };
        look(message);
        true
    }
}

/// rtrb.
pub fn rtrb<M: Message>() -> Both<rtrb::Producer<M>, rtrb::Consumer<M>, M> {
    both(|| rtrb::RingBuffer::new(SLOTS))
}

impl<M: Message> Sends<M> for rtrb::Producer<M> {
    #[inline(always)]
    fn post(&mut self, message: &M) -> bool {
        self.push(*message).is_ok()
    }
}

impl<M: Message> Takes<M> for rtrb::Consumer<M> {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8])) -> bool {
        self.pop().map(|message| look(message.bytes())).is_ok()
    }
}

/// Crossbeam's bounded queue, which many may use: it has none for one at each end.
pub struct Crossbeam<M>(Arc<ArrayQueue<M>>);

/// crossbeam.
pub fn crossbeam<M: Message>() -> Both<Crossbeam<M>, Crossbeam<M>, M> {
    both(|| {
        let queue = Arc::new(ArrayQueue::new(SLOTS));
        (Crossbeam(Arc::clone(&queue)), Crossbeam(queue))
    })
}

impl<M: Message> Sends<M> for Crossbeam<M> {
    #[inline(always)]
    fn post(&mut self, message: &M) -> bool {
        self.0.push(*message).is_ok()
    }
}

impl<M: Message> Takes<M> for Crossbeam<M> {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8])) -> bool {
        self.0.pop().map(|message| look(message.bytes())).is_some()
    }
}

type Ringbuf<M> = Arc<HeapRb<M>>;

/// ringbuf.
pub fn ringbuf<M: Message>() -> Both<CachingProd<Ringbuf<M>>, CachingCons<Ringbuf<M>>, M> {
    both(|| HeapRb::new(SLOTS).split())
}

impl<M: Message> Sends<M> for CachingProd<Ringbuf<M>> {
    #[inline(always)]
    fn post(&mut self, message: &M) -> bool {
        self.try_push(*message).is_ok()
    }
}

impl<M: Message> Takes<M> for CachingCons<Ringbuf<M>> {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8])) -> bool {
        self.try_pop().map(|message| look(message.bytes())).is_some()
    }
}

/// heapless, whose ring holds one message less than it has slots. Its rings stay to the end of the program.
pub fn heapless<M: Message>()
-> Both<heapless::spsc::Producer<'static, M>, heapless::spsc::Consumer<'static, M>, M> {
    both(|| Box::leak(Box::new(heapless::spsc::Queue::<M, SLOTS>::new())).split())
}

impl<M: Message> Sends<M> for heapless::spsc::Producer<'_, M> {
    #[inline(always)]
    fn post(&mut self, message: &M) -> bool {
        self.enqueue(*message).is_ok()
    }
}

impl<M: Message> Takes<M> for heapless::spsc::Consumer<'_, M> {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8])) -> bool {
        self.dequeue().map(|message| look(message.bytes())).is_some()
    }
}
