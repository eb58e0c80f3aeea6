// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size of a batch, and the figures of one.

use std::time::Duration;

/// Two CPUs: one asks and sends, the other answers and receives.
pub type Pair = [u32; 2];

/// Round trips of a batch, after some that do not count, and messages of a stream.
pub(super) const TRIPS: usize = 5_000;
pub(super) const WARM_UP: usize = 200;
pub(super) const STREAM: u64 = 20_000;

/// Round trips whose middle is looked for together: the counters of some processors step by 10 ns, which is
/// more than what tells one contender from another.
pub(super) const IN_A_ROW: usize = 8;

/// A batch, in ticks of the processor's counter, and how long its stream took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) in_a_row: u64,
    pub(super) p999: u64,
    pub(super) stream: Duration,
}
