// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of an event's fields, as its `format` file defines it (`events/SYSTEM/EVENT/format` of tracefs,
//! and the copies of these files in recorded traces).

use std::collections::BTreeMap;

/// The byte order of a trace: of this machine, or of the one that recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// The least significant byte first.
    #[default]
    Little,
    /// The most significant byte first.
    Big,
}

impl ByteOrder {
    /// That of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// The number in up to eight bytes.
    pub fn number(self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self {
            ByteOrder::Little => bytes.iter().rev().fold(0, add),
            ByteOrder::Big => bytes.iter().fold(0, add),
        }
    }
}

/// A field: where it lies in the event's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    at: usize,
    length: usize,
    /// Of one element, where it is an array.
    element: usize,
    is_signed: bool,
}

/// The layout of an event's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Format {
    /// The number in `common_type`.
    pub id: u16,
    /// The event's name.
    pub name: String,
    order: ByteOrder,
    fields: BTreeMap<String, Field>,
}

impl Format {
    /// Reads a `format` file of a kernel with this byte order.
    pub fn parse(text: &str, order: ByteOrder) -> Option<Format> {
        let mut format = Format { order, ..Format::default() };
        for line in text.lines().map(str::trim) {
            if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok()?;
            } else if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_string();
            } else if let Some(field) = line.strip_prefix("field:") {
                let mut parts = field.split(';').map(str::trim);
                // `unsigned char comm[16]`, `void * func`
                let declared = parts.next()?.rsplit([' ', '*']).next()?;
                let (name, elements) = declared.split_once('[').unwrap_or((declared, ""));
                let number = |part: Option<&str>, name| part?.strip_prefix(name)?.parse().ok();
                let at = number(parts.next(), "offset:")?;
                let length: usize = number(parts.next(), "size:")?;
                let is_signed = parts.next().is_some_and(|signed| signed == "signed:1");
                let elements: usize = elements.trim_end_matches(']').parse().unwrap_or(0);
                let element =
                    length.checked_div(elements).filter(|length| [4, 8].contains(length)).unwrap_or(8);
                format.fields.insert(name.to_string(), Field { at, length, element, is_signed });
            }
        }
        (format.id != 0).then_some(format)
    }

    fn bytes<'a>(&self, data: &'a [u8], field: &str) -> Option<(Field, &'a [u8])> {
        let field = *self.fields.get(field)?;
        Some((field, data.get(field.at..field.at.checked_add(field.length)?)?))
    }

    /// A number of up to 64 bits; one with a sign is extended to that.
    pub fn number(&self, data: &[u8], field: &str) -> Option<u64> {
        let (field, bytes) = self.bytes(data, field)?;
        let bits = match field.length {
            length @ (1 | 2 | 4 | 8) => 64 - 8 * length as u32,
            _ => return None,
        };
        let number = self.order.number(bytes);
        Some(if field.is_signed { ((number << bits) as i64 >> bits) as u64 } else { number })
    }

    /// A name that ends with a zero or with its field.
    pub fn text(&self, data: &[u8], field: &str) -> Option<String> {
        self.bytes(data, field).map(|(_, bytes)| until_zero(bytes))
    }

    /// Text in another part of the event, at the position in the field (`__data_loc`).
    pub fn dynamic_text(&self, data: &[u8], field: &str) -> Option<String> {
        let place = usize::try_from(self.number(data, field)? & 0xffff_ffff).ok()?;
        let (at, length) = (place & 0xffff, place >> 16 & 0xffff);
        Some(until_zero(data.get(at..at.checked_add(length)?)?))
    }

    /// The numbers of an array, from a field on to the end of the event: a stack.
    pub fn to_end(&self, data: &[u8], field: &str) -> Vec<u64> {
        let Some(field) = self.fields.get(field) else { return Vec::new() };
        self.elements(data.get(field.at..).unwrap_or_default(), field)
    }

    /// The numbers of an array: a call's arguments.
    pub fn array(&self, data: &[u8], field: &str) -> Option<Vec<u64>> {
        let (field, bytes) = self.bytes(data, field)?;
        Some(self.elements(bytes, &field))
    }

    fn elements(&self, bytes: &[u8], field: &Field) -> Vec<u64> {
        bytes.chunks_exact(field.element).map(|word| self.order.number(word)).collect()
    }

    /// Text from a field on, to the end of the event.
    pub fn rest(&self, data: &[u8], field: &str) -> Option<String> {
        let field = self.fields.get(field)?;
        Some(until_zero(data.get(field.at..)?))
    }
}

fn until_zero(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char next_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:void * callsite;\toffset:24;\tsize:8;\tsigned:0;\n";

    #[test]
    fn reads_text_elsewhere_within_the_event_only() {
        let text = "ID: 9\n\tfield:__data_loc char[] desc;\toffset:4;\tsize:4;\tsigned:0;\n";
        let format = Format::parse(text, ByteOrder::Little).unwrap();
        let event = |at: u32, length: u32| {
            let mut data = vec![0; 4];
            data.extend((length << 16 | at).to_le_bytes());
            data.extend(b"eth0\0---");
            format.dynamic_text(&data, "desc")
        };
        assert_eq!(event(8, 5).as_deref(), Some("eth0"));
        assert_eq!(event(8, 4).as_deref(), Some("eth0"));
        assert_eq!([event(8, 40), event(65_000, 5)], [None, None]);
    }

    #[test]
    fn fields_are_found_by_their_names_in_either_byte_order() {
        for (order, pid) in [(ByteOrder::Little, [9, 0, 0, 0]), (ByteOrder::Big, [0, 0, 0, 9])] {
            let format = Format::parse(SWITCH, order).unwrap();
            let mut data = vec![0; 32];
            data[4..8].copy_from_slice(&pid);
            data[8..11].copy_from_slice(b"dd\0");
            data[if order == ByteOrder::Little { 24 } else { 31 }] = 1;
            assert_eq!((format.id, format.number(&data, "common_pid")), (316, Some(9)));
            assert_eq!(format.text(&data, "next_comm").as_deref(), Some("dd"));
            assert_eq!((format.number(&data, "callsite"), format.number(&data, "gone")), (Some(1), None));
            assert_eq!(format.number(&data[..6], "common_pid"), None);
            data[4..8].copy_from_slice(&[255; 4]);
            assert_eq!(format.number(&data, "common_pid").map(|number| number as i64), Some(-1));
        }
        assert_eq!(Format::parse("name: x\n", ByteOrder::Little), None);
    }
}
