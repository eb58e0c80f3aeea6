// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of the kernel's ring buffer: those of `trace_pipe_raw`, and those that trace-cmd saved. Their
//! layout is the same since 2.6.31 (`events/header_page`, `events/header_event`); a kernel of 32 bits has a
//! shorter header.

use std::ops::Range;

use crate::format::ByteOrder;

/// The bits of a page's second word that count bytes; above them are flags.
const LENGTH: u64 = (1 << 30) - 1;

/// Events were lost before this page, and their number stands behind the events.
const LOST: u64 = 1 << 31;
const LOST_COUNTED: u64 = 1 << 30;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// How a kernel lays its pages out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// Its byte order.
    pub order: ByteOrder,
    /// The bytes of its `long`: 4 or 8.
    pub long: usize,
}

impl PageLayout {
    /// That of this machine's kernel.
    pub const NATIVE: PageLayout = PageLayout { order: ByteOrder::NATIVE, long: size_of::<usize>() };
}

/// An event of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEvent {
    /// Its time, by the clock of the trace.
    pub ns: u64,
    /// Where its fields lie in the page.
    pub place: Range<usize>,
}

/// The events of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RingPage {
    /// In the order of time.
    pub events: Vec<PageEvent>,
    /// Events that were lost before them; `Some(0)` where the kernel did not count them.
    pub lost: Option<u64>,
    /// The page's own time, at or before its first event.
    pub ns: u64,
}

/// Reads a page, which may be cut short anywhere.
pub fn read(page: &[u8], layout: PageLayout) -> RingPage {
    let PageLayout { order, long } = layout;
    let number = |bytes: &[u8], at: usize, length: usize| -> Option<u64> {
        Some(order.number(bytes.get(at..at.checked_add(length)?)?))
    };
    let word = |bytes: &[u8], at: usize| number(bytes, at, 4).map(|word| word as u32);
    let mut read = RingPage::default();
    let (Some(mut now), Some(used)) = (number(page, 0, 8), number(page, 8, long)) else { return read };
    read.ns = now;
    let header = 8 + long;
    let length = usize::try_from(used & LENGTH).unwrap_or(usize::MAX);
    let end = header.saturating_add(length).min(page.len());
    if used & LOST != 0 {
        let counted = (used & LOST_COUNTED != 0).then(|| number(page, end, long)).flatten();
        read.lost = Some(counted.unwrap_or(0));
    }
    let mut at = header;
    while let Some(head) = word(&page[..end], at) {
        // In a big-endian kernel the bit fields begin at the other end.
        let (kind, delta) = match order {
            ByteOrder::Little => (head & 31, u64::from(head >> 5)),
            ByteOrder::Big => (head >> 27, u64::from(head & ((1 << 27) - 1))),
        };
        at += 4;
        let next = word(&page[..end], at);
        match kind {
            TIME_EXTEND | TIME_STAMP => {
                let Some(high) = next else { break };
                let time = u64::from(high) << 27 | delta;
                // A stamp has the lower 59 bits of a time; the rest is the page's.
                now =
                    if kind == TIME_EXTEND { now.wrapping_add(time) } else { now & !((1 << 59) - 1) | time };
                at += 4;
            }
            PADDING => {
                // Discarded events have a length; without one the rest of the page is empty.
                let Some(length) = next.filter(|_| delta > 0) else { break };
                now = now.wrapping_add(delta);
                at += length as usize;
            }
            _ => {
                now = now.wrapping_add(delta);
                let (from, length) = match kind {
                    0 => match next {
                        Some(length @ 4..) => (at + 4, length as usize - 4),
                        _ => break,
                    },
                    words => (at, words as usize * 4),
                };
                if page[..end].get(from..from + length).is_none() {
                    break;
                }
                read.events.push(PageEvent { ns: now, place: from..from + length });
                at = from + length.next_multiple_of(4);
            }
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: PageLayout = PageLayout { order: ByteOrder::Little, long: 8 };

    fn page(words: &[u32]) -> Vec<u8> {
        let data = words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let mut page = 1_000u64.to_le_bytes().to_vec();
        page.extend((data.len() as u64 | 1 << 31).to_le_bytes());
        page.extend(data);
        page.extend([0; 64]);
        page
    }

    #[test]
    fn adds_times_of_events_to_the_pages() {
        let head = |kind: u32, delta: u32| kind | delta << 5;
        let words = [
            [head(1, 5), 77, head(TIME_EXTEND, 1), 2],
            [head(2, 3), 88, 99, head(PADDING, 4)],
            [8, 0, head(0, 10), 8],
        ];
        let page = page(&[words.as_flattened(), &[66]].concat());
        let found = read(&page, LITTLE);
        let times = found.events.iter().map(|event| event.ns).collect::<Vec<_>>();
        let extended = 1_005 + (2 << 27 | 1) + 3;
        assert_eq!(times, [1_005, extended, extended + 14]);
        assert_eq!(page[found.events[1].place.clone()], [88u32.to_le_bytes(), 99u32.to_le_bytes()].concat());
        assert_eq!(page[found.events[2].place.clone()], 66u32.to_le_bytes());
        assert_eq!((found.lost, found.ns), (Some(0), 1_000));
    }

    #[test]
    fn a_kernel_of_32_bits_with_the_other_byte_order_has_the_same_events() {
        let mut bytes = 1_000u64.to_be_bytes().to_vec();
        bytes.extend(8u32.to_be_bytes());
        bytes.extend((1u32 << 27 | 5).to_be_bytes());
        bytes.extend(77u32.to_be_bytes());
        let found = read(&bytes, PageLayout { order: ByteOrder::Big, long: 4 });
        assert_eq!((found.events.len(), found.events[0].ns), (1, 1_005));
        assert_eq!(bytes[found.events[0].place.clone()], 77u32.to_be_bytes());
    }

    #[test]
    fn a_page_cut_short_anywhere_ends_there() {
        let page = page(&[2 | 5 << 5, 1, 2, 5 << 5, 12, 7, 8]);
        for length in 0..page.len() {
            assert!(read(&page[..length], LITTLE).events.len() <= 2);
        }
        assert_eq!(read(&page, LITTLE).events.len(), 2);
        assert!(read(&[0xff; 64], LITTLE).events.len() < 64);
    }
}
