// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the pages of `trace_pipe_raw`, with the fields that `format` files define. The layout of pages is
//! that of the kernel's ring buffer (`events/header_page`, `events/header_event`), the same since 2.6.31.

use std::collections::BTreeMap;

/// A page's header: a time, and the used part of the page.
const HEADER: usize = 16;

/// The bits of the second word that count bytes; above them are flags.
const LENGTH: u64 = (1 << 30) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// One event of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Its time, by the instance's clock.
    pub monotonic_ns: u64,
    /// Its fields.
    pub data: &'a [u8],
}

/// The events of a page, which may be cut short anywhere.
pub fn events(page: &[u8]) -> Vec<Raw<'_>> {
    let mut events = Vec::new();
    let (Some(mut now), Some(used)) = (u64_at(page, 0), u64_at(page, 8)) else { return events };
    let used = usize::try_from(used & LENGTH).unwrap_or(usize::MAX);
    let end = HEADER.saturating_add(used).min(page.len());
    let mut at = HEADER;
    while let Some(head) = u32_at(&page[..end], at) {
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        at += 4;
        let word = u32_at(&page[..end], at);
        match kind {
            TIME_EXTEND | TIME_STAMP => {
                let Some(high) = word else { break };
                let time = u64::from(high) << 27 | delta;
                // A stamp has the lower 59 bits of a time; the rest is the page's.
                now = if kind == TIME_EXTEND { now + time } else { now & !((1 << 59) - 1) | time };
                at += 4;
            }
            PADDING => {
                // Discarded events have a length; without one the rest of the page is empty.
                let Some(length) = word.filter(|_| delta > 0) else { break };
                now += delta;
                at += length as usize;
            }
            _ => {
                now += delta;
                let (from, length) = match kind {
                    0 => match word {
                        Some(length @ 4..) => (at + 4, length as usize - 4),
                        _ => break,
                    },
                    words => (at, words as usize * 4),
                };
                let Some(data) = page[..end].get(from..from + length) else { break };
                events.push(Raw { monotonic_ns: now, data });
                at = from + length.next_multiple_of(4);
            }
        }
    }
    events
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The layout of an event's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Format {
    /// The number in `common_type`.
    pub id: u16,
    fields: BTreeMap<String, (usize, usize)>,
}

impl Format {
    /// Reads a `format` file.
    pub fn parse(text: &str) -> Option<Format> {
        let mut format = Format::default();
        for line in text.lines().map(str::trim) {
            if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok()?;
            } else if let Some(field) = line.strip_prefix("field:") {
                let mut parts = field.split(';').map(str::trim);
                // `unsigned char comm[16]`, `void * func`
                let name = parts.next()?.rsplit([' ', '*']).next()?.split('[').next()?.to_string();
                let number = |part: Option<&str>, name| part?.strip_prefix(name)?.parse().ok();
                let at = number(parts.next(), "offset:")?;
                let length = number(parts.next(), "size:")?;
                format.fields.insert(name, (at, length));
            }
        }
        (format.id != 0).then_some(format)
    }

    /// A number of up to 64 bits.
    pub fn number(&self, data: &[u8], field: &str) -> Option<u64> {
        let (at, length) = *self.fields.get(field)?;
        let bytes = data.get(at..at.checked_add(length)?)?;
        Some(match length {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// A name that ends with a zero or with its field.
    pub fn text(&self, data: &[u8], field: &str) -> Option<String> {
        let (at, length) = *self.fields.get(field)?;
        let bytes = data.get(at..at.checked_add(length)?)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Text in another part of the event, at the position in the field (`__data_loc`).
    pub fn dynamic_text(&self, data: &[u8], field: &str) -> Option<String> {
        let place = usize::try_from(self.number(data, field)?).ok()?;
        let (at, length) = (place & 0xffff, place >> 16 & 0xffff);
        let bytes = data.get(at..at.checked_add(length)?)?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Words from a field on, to the end of the event: a stack.
    pub fn array(&self, data: &[u8], field: &str) -> Vec<u64> {
        let from = self.fields.get(field).and_then(|(at, _)| data.get(*at..)).unwrap_or_default();
        from.chunks_exact(8).filter_map(|word| u64_at(word, 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char next_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:void * callsite;\toffset:24;\tsize:8;\tsigned:0;\n";

    fn page(words: &[u32]) -> Vec<u8> {
        let data = words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        let mut page = 1_000u64.to_ne_bytes().to_vec();
        page.extend((data.len() as u64 | 1 << 31).to_ne_bytes());
        page.extend(data);
        page.extend([0; 64]);
        page
    }

    #[test]
    fn adds_times_of_events_to_the_pages() {
        let head = |kind: u32, delta: u32| kind | delta << 5;
        let page = page(&[
            head(1, 5),
            77,
            head(TIME_EXTEND, 1),
            2,
            head(2, 3),
            88,
            99,
            head(PADDING, 4),
            8,
            0,
            head(0, 10),
            8,
            66,
        ]);
        let found = events(&page);
        let times = found.iter().map(|event| event.monotonic_ns).collect::<Vec<_>>();
        let extended = 1_005 + (2 << 27 | 1) + 3;
        assert_eq!(times, [1_005, extended, extended + 14]);
        assert_eq!(found[1].data, [88u32.to_ne_bytes(), 99u32.to_ne_bytes()].concat());
        assert_eq!(found[2].data, 66u32.to_ne_bytes());
    }

    #[test]
    fn a_page_cut_short_anywhere_ends_there() {
        let page = page(&[2 | 5 << 5, 1, 2, 5 << 5, 12, 7, 8]);
        for length in 0..page.len() {
            assert!(events(&page[..length]).len() <= 2);
        }
        assert_eq!(events(&page).len(), 2);
        assert!(events(&[0xff; 64]).len() < 64);
    }

    #[test]
    fn reads_text_elsewhere_within_the_event_only() {
        let format =
            Format::parse("ID: 9\n\tfield:__data_loc char[] desc;\toffset:4;\tsize:4;\tsigned:0;\n").unwrap();
        let event = |at: u32, length: u32| {
            let mut data = vec![0; 4];
            data.extend((length << 16 | at).to_ne_bytes());
            data.extend(b"eth0\0---");
            format.dynamic_text(&data, "desc")
        };
        assert_eq!(event(8, 5).as_deref(), Some("eth0"));
        assert_eq!(event(8, 4).as_deref(), Some("eth0"));
        assert_eq!([event(8, 40), event(65_000, 5)], [None, None]);
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let format = Format::parse(SWITCH).unwrap();
        let mut data = vec![0; 32];
        data[4] = 9;
        data[8..11].copy_from_slice(b"dd\0");
        data[24] = 1;
        assert_eq!((format.id, format.number(&data, "common_pid")), (316, Some(9)));
        assert_eq!(format.text(&data, "next_comm").as_deref(), Some("dd"));
        assert_eq!((format.number(&data, "callsite"), format.number(&data, "gone")), (Some(1), None));
        assert_eq!(format.number(&data[..6], "common_pid"), None);
        assert_eq!(Format::parse("name: x\n"), None);
    }
}
