// SPDX-License-Identifier: MIT OR Apache-2.0
//! A window in which parts of a trace are put in the order of time: a tool writes the buffers of all CPUs one
//! after the other, again and again.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The most bytes that wait at once: some hundred thousand events of usual length.
const AT_ONCE: usize = 64 << 20;

/// A part that waits, and its place in the trace: parts of one time keep their order.
#[derive(Debug)]
struct Waiting<T> {
    ns: u64,
    number: u64,
    bytes: usize,
    part: Box<T>,
}

impl<T> Ord for Waiting<T> {
    /// The first one is the greatest, as a heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.ns, other.number).cmp(&(self.ns, self.number))
    }
}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Waiting<T> {}

/// Parts of a trace that wait for those that may come before them.
#[derive(Debug)]
pub struct SortingWindow<T> {
    waiting: BinaryHeap<Waiting<T>>,
    bytes: usize,
    number: u64,
    last_ns: u64,
}

impl<T> SortingWindow<T> {
    pub fn new() -> SortingWindow<T> {
        SortingWindow { waiting: BinaryHeap::new(), bytes: 0, number: 0, last_ns: 0 }
    }

    /// Takes a part of some bytes, unless a later one has left.
    pub fn push(&mut self, ns: u64, bytes: usize, part: T) -> bool {
        if ns < self.last_ns {
            return false;
        }
        let bytes = bytes + size_of::<Waiting<T>>() + size_of::<T>();
        self.bytes += bytes;
        self.number += 1;
        self.waiting.push(Waiting { ns, number: self.number, bytes, part: Box::new(part) });
        true
    }

    /// Whether a part has to leave before another one comes.
    pub fn is_full(&self) -> bool {
        self.bytes > AT_ONCE
    }

    /// The first part, with its time.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let Waiting { ns, bytes, part, .. } = self.waiting.pop()?;
        self.bytes -= bytes;
        self.last_ns = ns;
        Some((ns, *part))
    }

    /// The time of the last part that left.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_leave_in_the_order_of_time_and_later_ones_are_refused() {
        let mut window = SortingWindow::new();
        for (ns, part) in [(30, 'c'), (10, 'a'), (20, 'b'), (30, 'd')] {
            assert!(window.push(ns, 0, part));
        }
        assert_eq!((window.pop(), window.pop()), (Some((10, 'a')), Some((20, 'b'))));
        assert!(!window.push(19, 0, 'x') && window.push(20, 0, 'y'));
        let rest: Vec<char> = std::iter::from_fn(|| window.pop()).map(|(_, part)| part).collect();
        assert_eq!((rest, window.last_ns(), window.bytes), (vec!['y', 'c', 'd'], 30, 0));
    }

    #[test]
    fn is_full_at_so_many_bytes() {
        let mut window = SortingWindow::new();
        assert!(window.push(1, AT_ONCE, ()) && window.is_full());
        assert!(window.pop().is_some() && !window.is_full());
    }
}
