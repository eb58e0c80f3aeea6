// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of Protocol Buffers, field by field (protobuf.dev/programming-guides/encoding). The crates that
//! read these make types of definition files while they are built; a trace has some dozen fields that matter,
//! and is read without copies.

/// The bytes of the longest name.
const NAME: usize = 128;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtobufValue<'a> {
    /// A number; one below zero as 64 bits of two's complement.
    Number(u64),
    /// A text, bytes, a message, or several numbers.
    Bytes(&'a [u8]),
}

impl<'a> ProtobufValue<'a> {
    pub fn number(self) -> u64 {
        match self {
            ProtobufValue::Number(number) => number,
            ProtobufValue::Bytes(_) => 0,
        }
    }

    /// None in a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            ProtobufValue::Number(_) => &[],
            ProtobufValue::Bytes(bytes) => bytes,
        }
    }

    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// A text that is kept for long: no name is longer than this.
    pub fn name(self) -> String {
        let bytes = self.bytes();
        String::from_utf8_lossy(&bytes[..bytes.len().min(NAME)]).into_owned()
    }

    /// Several numbers, or one of them; `most` at most.
    pub fn numbers(self, most: usize) -> Vec<u64> {
        match self {
            ProtobufValue::Number(number) => vec![number],
            ProtobufValue::Bytes(mut bytes) => std::iter::from_fn(|| varint(&mut bytes)).take(most).collect(),
        }
    }
}

/// The fields of a message: their numbers and values. The last one is `Err` where the message is damaged.
#[derive(Debug, Clone)]
pub struct ProtobufMessage<'a> {
    rest: &'a [u8],
}

impl<'a> ProtobufMessage<'a> {
    pub fn new(bytes: &'a [u8]) -> ProtobufMessage<'a> {
        ProtobufMessage { rest: bytes }
    }

    /// The last field of this number, as far as the message is whole.
    pub fn last(bytes: &'a [u8], number: u32) -> Option<ProtobufValue<'a>> {
        let fields = ProtobufMessage::new(bytes).flatten().filter(|(field, _)| *field == number);
        fields.last().map(|(_, value)| value)
    }

    fn field(&mut self) -> Option<(u32, ProtobufValue<'a>)> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let length = match tag & 7 {
            0 => return Some((number, ProtobufValue::Number(varint(&mut self.rest)?))),
            1 => 8,
            2 => usize::try_from(varint(&mut self.rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let bytes = self.rest.split_off(..length)?;
        let number_of = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Some((
            number,
            if tag & 7 == 2 { ProtobufValue::Bytes(bytes) } else { ProtobufValue::Number(number_of(bytes)) },
        ))
    }
}

impl<'a> Iterator for ProtobufMessage<'a> {
    type Item = Result<(u32, ProtobufValue<'a>), DamagedMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field().ok_or(DamagedMessage);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// A message ends within a field, or has none of the known types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedMessage;

/// A number of seven bits a byte; `None` where it does not end within 64 bits.
pub fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            *bytes = &bytes[place + 1..];
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_of_field_is_read() {
        let bytes = b"\x08\x96\x01\x12\x02hi\x1d\x01\0\0\0\x21\x02\0\0\0\0\0\0\0\x32\x03\x01\x80\x01";
        let fields: Vec<_> = ProtobufMessage::new(bytes).map(Result::unwrap).collect();
        let numbers =
            [(1, 150), (3, 1), (4, 2)].map(|(field, number)| (field, ProtobufValue::Number(number)));
        assert_eq!([fields[0], fields[2], fields[3]], numbers);
        assert_eq!((fields[1].1.text().as_str(), fields[4].1.numbers(9)), ("hi", vec![1, 128]));
        let below = ProtobufMessage::last(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1).unwrap();
        assert_eq!(below.number() as i64, -1);
    }

    #[test]
    fn damage_ends_a_message_once() {
        for bytes in [&b"\x08"[..], b"\x12\x05hi", b"\x0b\x01", b"\0\0", b"\x08\x80", &[0x80; 11]] {
            let fields: Vec<_> = ProtobufMessage::new(bytes).collect();
            assert_eq!(fields, [Err(DamagedMessage)], "{bytes:?}");
        }
    }
}
