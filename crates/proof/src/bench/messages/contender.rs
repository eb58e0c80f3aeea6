// SPDX-License-Identifier: MIT OR Apache-2.0
//! A contender: its name, and how each of its sides is made.

use super::ends::{Message, Side};

/// Makes a side, on the thread that it is to stay on.
pub(super) type MakeSide = Box<dyn FnOnce() -> Box<dyn Side> + Send>;

pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) bytes: usize,
    pub(super) asks: MakeSide,
    pub(super) answers: MakeSide,
}

impl Contender {
    pub(super) fn new<M: Message, S: Side + 'static>(
        name: &'static str,
        asks: impl FnOnce() -> S + Send + 'static,
        answers: impl FnOnce() -> S + Send + 'static,
    ) -> Contender {
        Contender {
            name,
            bytes: M::BYTES,
            asks: Box::new(|| Box::new(asks())),
            answers: Box::new(|| Box::new(answers())),
        }
    }

    /// Of sides that may move from one thread to another.
    pub(super) fn of<M: Message, S: Side + Send + 'static>(
        name: &'static str,
        (asks, answers): (S, S),
    ) -> Contender {
        Contender::new::<M, S>(name, || asks, || answers)
    }
}
