// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flat array of counters with one writer, and the list of those that are not zero, so that a reader need
//! not look at all of them.

use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};

use rt::counters::LazyCounters;

/// Counters; one thread writes, any other reads.
#[derive(Debug)]
pub struct Tally {
    counts: LazyCounters<AtomicU64>,
    /// Places of counters above zero in the order of their first count; `used_len` of them are written.
    used: LazyCounters<AtomicU16>,
    used_len: AtomicUsize,
}

impl Tally {
    /// `length` counters, at most 65,536; a page of them takes memory from its first count on.
    pub fn new(length: usize) -> Tally {
        assert!(length <= 1 << 16, "a place must fit 16 bits");
        Tally {
            counts: LazyCounters::new(length),
            used: LazyCounters::new(length),
            used_len: AtomicUsize::new(0),
        }
    }

    /// Touches every page, so that none is left to fault in while a thread measures.
    pub fn touch(&self) {
        self.counts.touch();
        self.used.touch();
    }

    /// Counts one more at `place`. Only one thread may do this: load and store are not one step.
    #[inline(always)]
    pub fn bump(&self, place: usize) {
        let count = &self.counts[place];
        let before = count.load(Ordering::Relaxed);
        count.store(before + 1, Ordering::Relaxed);
        if before == 0 {
            self.first_at(place);
        }
    }

    #[cold]
    #[inline(never)]
    fn first_at(&self, place: usize) {
        let length = self.used_len.load(Ordering::Relaxed);
        self.used[length].store(place as u16, Ordering::Relaxed);
        // Pairs with the acquire in totals: who sees the length sees the place.
        self.used_len.store(length + 1, Ordering::Release);
    }

    /// Places with a count, and their counts, in the order of their first count.
    pub fn totals(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let length = self.used_len.load(Ordering::Acquire);
        self.used[..length].iter().map(|place| {
            let place = usize::from(place.load(Ordering::Relaxed));
            (place, self.counts[place].load(Ordering::Relaxed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counters_above_zero_are_listed_once_each() {
        let tally = Tally::new(1 << 16);
        [65_535, 3, 3, 65_535, 3].iter().for_each(|place| tally.bump(*place));
        assert_eq!(tally.totals().collect::<Vec<_>>(), [(65_535, 2), (3, 3)]);
    }

    #[test]
    fn a_reader_beside_the_writer_never_sees_a_place_before_its_count() {
        let tally = Tally::new(1000);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..200_000).for_each(|n| tally.bump(n * 7 % 1000)));
            while tally.totals().map(|(_, count)| count).sum::<u64>() < 200_000 {
                assert!(tally.totals().all(|(_, count)| count > 0));
            }
        });
    }
}
