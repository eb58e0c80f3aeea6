// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of ethercrab's time-outs. Its futures are polled without pause while they wait, so
//! no wakeup is needed: no thread, no lock, no allocation, as a timer of the standard library's kind would
//! cost.

use std::task::Waker;

use embassy_time_driver::Driver;
use rt::clock::monotonic_ns;

/// A tick of embassy's, unless a feature says otherwise: 1 us.
const TICK_NS: u64 = 1_000_000_000 / embassy_time_driver::TICK_HZ;

struct Polled;

impl Driver for Polled {
    fn now(&self) -> u64 {
        monotonic_ns() / TICK_NS
    }

    fn schedule_wake(&self, _at: u64, _waker: &Waker) {}
}

embassy_time_driver::time_driver_impl!(static POLLED: Polled = Polled);
