// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of CTF (diamon.org/ctf/v1.8.3, 4), and their values in a packet. A packet is foreign: each value
//! that is read counts, so that a type of many empty parts ends, too.

use std::borrow::Cow;
use std::sync::Arc;

use crate::event::FieldValue;
use crate::format::ByteOrder;

/// The most values of one event.
const VALUES: u32 = 1 << 16;

/// The most numbers of an array that are kept.
const NUMBERS: usize = 64;

/// A whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer {
    /// In bits.
    pub size: u32,
    pub align: u32,
    pub is_signed: bool,
    pub order: ByteOrder,
    /// Whether it is a letter.
    pub is_text: bool,
    /// Whether it is a time of the trace's clock.
    pub is_time: bool,
}

/// The length of a sequence, or the choice of a variant: the last name of its path.
pub type Reference = Arc<str>;

/// The names of an enumeration's numbers, each from one to another.
pub type Labels = Arc<[(Arc<str>, i64, i64)]>;

/// A type.
#[derive(Debug, Clone)]
pub enum Type {
    Integer(Integer),
    /// Its size and alignment.
    Float(u32, u32),
    String,
    Array(Arc<Type>, u64),
    Sequence(Arc<Type>, Reference),
    Struct(Arc<Struct>),
    Enum(Integer, Labels),
    /// A variant without a choice is one of a typealias.
    Variant(Option<Reference>, Arc<[(Arc<str>, Type)]>),
}

/// Several fields, one after the other.
#[derive(Debug)]
pub struct Struct {
    pub fields: Vec<(Arc<str>, Type)>,
    pub align: u32,
}

impl Type {
    fn align(&self) -> u32 {
        match self {
            Type::Integer(integer) | Type::Enum(integer, _) => integer.align,
            Type::Float(_, align) => *align,
            Type::String => 8,
            Type::Array(element, _) | Type::Sequence(element, _) => element.align(),
            Type::Struct(fields) => fields.align,
            Type::Variant(..) => 1,
        }
    }

    /// The letter of a text, where it is an array or a sequence of such.
    fn letter(&self) -> Option<Integer> {
        match self {
            Type::Integer(integer) if integer.is_text && integer.size == 8 => Some(*integer),
            _ => None,
        }
    }
}

impl Struct {
    pub fn new(fields: Vec<(Arc<str>, Type)>, align: u32) -> Struct {
        let align = fields.iter().map(|(_, field)| field.align()).fold(align, u32::max);
        Struct { fields, align }
    }
}

/// The packet ends within a value, or a value is of no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedPacket;

/// The fields of an event, under the names of the trace.
pub type Values = Vec<(Cow<'static, str>, FieldValue)>;

/// Reads values, one after the other.
#[derive(Debug)]
pub struct PacketReader<'a> {
    data: &'a [u8],
    /// In bits.
    pub at: u64,
    end: u64,
    /// The whole numbers so far, to which later types refer.
    seen: Vec<(&'a str, u64, Option<&'a Labels>)>,
    left: u32,
    /// The last time, whose missing high bits are those of the time before.
    pub time: u64,
}

impl<'a> PacketReader<'a> {
    /// From a place in `data`, up to `end`; both in bits.
    pub fn new(data: &'a [u8], at: u64, end: u64, time: u64) -> PacketReader<'a> {
        let end = end.min(data.len() as u64 * 8);
        PacketReader { data, at, end, seen: Vec::new(), left: VALUES, time }
    }

    /// The last number of this name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.seen.iter().rev().find(|(seen, ..)| *seen == name).map(|(_, value, _)| *value)
    }

    fn align(&mut self, align: u32) {
        self.at = self.at.next_multiple_of(u64::from(align.max(1)));
    }

    fn bits(&mut self, integer: Integer) -> Result<u64, DamagedPacket> {
        let Integer { size, align, is_signed, order, .. } = integer;
        self.align(align);
        let end = self.at.checked_add(u64::from(size)).filter(|end| *end <= self.end).ok_or(DamagedPacket)?;
        let mut value: u64 = 0;
        if self.at.is_multiple_of(8) && size.is_multiple_of(8) {
            value = order.number(&self.data[(self.at / 8) as usize..(end / 8) as usize]);
        } else {
            for place in 0..size {
                let at = self.at + u64::from(place);
                let byte = self.data[(at / 8) as usize];
                match order {
                    ByteOrder::Little => value |= u64::from(byte >> (at % 8) & 1) << place,
                    ByteOrder::Big => value = value << 1 | u64::from(byte >> (7 - at % 8) & 1),
                }
            }
        }
        self.at = end;
        let rest = 64 - size;
        Ok(if is_signed { ((value << rest) as i64 >> rest) as u64 } else { value })
    }

    fn tell_time(&mut self, value: u64, size: u32) {
        let mask = u64::MAX >> (64 - size);
        let time = self.time & !mask | value;
        self.time =
            if time < self.time && size < 64 { time.wrapping_add(mask).wrapping_add(1) } else { time };
    }

    /// Reads a value, and keeps it where `values` are wanted.
    pub fn read(
        &mut self,
        name: &'a str,
        of: &'a Type,
        values: &mut Option<&mut Values>,
    ) -> Result<(), DamagedPacket> {
        self.left = self.left.checked_sub(1).ok_or(DamagedPacket)?;
        match of {
            Type::Integer(integer) => self.whole(name, *integer, None, values),
            Type::Enum(integer, labels) => self.whole(name, *integer, Some(labels), values),
            Type::Float(size, align) => {
                self.align(*align);
                self.at = self.at.saturating_add(u64::from(*size));
                (self.at <= self.end).then_some(()).ok_or(DamagedPacket)
            }
            Type::String => {
                self.align(8);
                let rest =
                    self.data.get((self.at / 8) as usize..(self.end / 8) as usize).ok_or(DamagedPacket)?;
                let length = rest.iter().position(|byte| *byte == 0).ok_or(DamagedPacket)?;
                self.at += 8 * (length as u64 + 1);
                keep(values, name, || FieldValue::Text(text(&rest[..length])));
                Ok(())
            }
            Type::Array(element, length) => self.elements(name, element, *length, values),
            Type::Sequence(element, reference) => {
                let length = self.number(reference).ok_or(DamagedPacket)?;
                self.elements(name, element, length, values)
            }
            Type::Struct(fields) => {
                self.align(fields.align);
                fields.fields.iter().try_for_each(|(name, field)| self.read(name, field, values))
            }
            Type::Variant(choice, options) => {
                let choice = choice.as_deref().ok_or(DamagedPacket)?;
                let seen = self.seen.iter().rev().find(|(seen, ..)| *seen == choice).ok_or(DamagedPacket)?;
                let (_, value, Some(labels)) = *seen else { return Err(DamagedPacket) };
                let is_of = |from: i64, to: i64| (from..=to).contains(&(value as i64));
                let label = labels.iter().find(|(_, from, to)| is_of(*from, *to)).ok_or(DamagedPacket)?;
                let option = options.iter().find(|(option, _)| *option == label.0).ok_or(DamagedPacket)?;
                self.read(name, &option.1, values)
            }
        }
    }

    fn whole(
        &mut self,
        name: &'a str,
        integer: Integer,
        labels: Option<&'a Labels>,
        values: &mut Option<&mut Values>,
    ) -> Result<(), DamagedPacket> {
        let value = self.bits(integer)?;
        if integer.is_time {
            self.tell_time(value, integer.size);
        }
        self.seen.push((name, value, labels));
        keep(values, name, || FieldValue::Number(value));
        Ok(())
    }

    fn elements(
        &mut self,
        name: &'a str,
        element: &'a Type,
        length: u64,
        values: &mut Option<&mut Values>,
    ) -> Result<(), DamagedPacket> {
        if let Some(letter) = element.letter() {
            self.align(letter.align);
            let from = usize::try_from(self.at / 8).map_err(|_| DamagedPacket)?;
            let end = length.checked_mul(8).and_then(|bits| bits.checked_add(self.at));
            let end = end.filter(|end| *end <= self.end).ok_or(DamagedPacket)?;
            let bytes = self.data.get(from..(end / 8) as usize).ok_or(DamagedPacket)?;
            self.at = end;
            let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            keep(values, name, || FieldValue::Text(text(bytes)));
            return Ok(());
        }
        self.align(element.align());
        let mut numbers = Vec::new();
        for _ in 0..length {
            // Numbers of an array are none that others refer to.
            let before = self.seen.len();
            self.read(name, element, &mut None)?;
            if let (Some((_, value, _)), true) = (self.seen.get(before), numbers.len() < NUMBERS) {
                numbers.push(*value);
            }
            self.seen.truncate(before);
        }
        keep(values, name, || FieldValue::Numbers(numbers));
        Ok(())
    }
}

fn keep(values: &mut Option<&mut Values>, name: &str, value: impl FnOnce() -> FieldValue) {
    if let Some(values) = values {
        values.push((name.to_string().into(), value()));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(size: u32, align: u32, order: ByteOrder) -> Integer {
        Integer { size, align, is_signed: false, order, is_text: false, is_time: false }
    }

    #[test]
    fn bits_begin_at_the_end_that_the_byte_order_names() {
        let read = |order, signed| {
            let mut reader = PacketReader::new(&[0b1010_0110, 0x0f], 0, 16, 0);
            let of = |size| Integer { is_signed: signed, ..integer(size, 1, order) };
            [5, 11].map(|size| reader.bits(of(size)).unwrap() as i64)
        };
        assert_eq!(read(ByteOrder::Little, false), [0b00110, 0b000_0111_1101]);
        assert_eq!(read(ByteOrder::Big, false), [0b10100, 0b110_0000_1111]);
        assert_eq!(read(ByteOrder::Big, true), [-12, -497]);
    }

    #[test]
    fn a_short_time_has_the_high_bits_of_the_one_before() {
        let mut reader = PacketReader::new(&[], 0, 0, 0x1_ffff_fff0);
        reader.tell_time(0xffff_fff8, 32);
        assert_eq!(reader.time, 0x1_ffff_fff8);
        reader.tell_time(2, 32);
        assert_eq!(reader.time, 0x2_0000_0002);
        reader.tell_time(7, 64);
        assert_eq!(reader.time, 7);
    }

    #[test]
    fn an_array_of_empty_structs_ends() {
        let empty = Type::Struct(Arc::new(Struct::new(Vec::new(), 1)));
        let array = Type::Array(Arc::new(empty), u64::MAX);
        let mut reader = PacketReader::new(&[], 0, 0, 0);
        assert_eq!(reader.read("x", &array, &mut None), Err(DamagedPacket));
    }
}
