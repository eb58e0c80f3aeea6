// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a trace in TSDL (diamon.org/ctf/v1.8.3, C): the part of that language that LTTng and
//! Babeltrace write. Names of types are those of the whole description.

use std::collections::HashMap;
use std::sync::Arc;

use super::types::{Integer, Labels, Struct, Type};
use super::words::{Word, Words};
use crate::format::ByteOrder;

/// The first bytes of a description in packets, in the byte order of its machine.
const PACKETS: u32 = 0x75d1_1d57;

/// The header of such a packet: its sizes in bits.
const HEADER: usize = 37;
const CONTENT_SIZE: usize = 24;
const PACKET_SIZE: usize = 28;

/// Types within types.
const DEPTH: u32 = 32;

/// The events of a stream.
#[derive(Debug, Default)]
pub struct StreamClass {
    pub packet_context: Option<Type>,
    pub event_header: Option<Type>,
    pub event_context: Option<Type>,
}

/// An event.
#[derive(Debug, Default)]
pub struct EventClass {
    pub name: String,
    pub context: Option<Type>,
    pub fields: Option<Type>,
}

/// A description.
#[derive(Debug, Default)]
pub struct Metadata {
    pub packet_header: Option<Type>,
    pub streams: HashMap<u64, StreamClass>,
    /// By their streams' numbers and their own.
    pub events: HashMap<(u64, u64), EventClass>,
    pub env: HashMap<String, String>,
    pub clock: String,
    /// Of the clock's ticks in a second.
    pub frequency: u64,
    order: ByteOrder,
    types: HashMap<String, Type>,
}

/// The text of a description, which may be in packets.
pub fn text(bytes: &[u8]) -> Result<String, String> {
    let order = match bytes.get(..4) {
        Some(magic) if magic == PACKETS.to_le_bytes() => ByteOrder::Little,
        Some(magic) if magic == PACKETS.to_be_bytes() => ByteOrder::Big,
        _ => return Ok(String::from_utf8_lossy(bytes).into_owned()),
    };
    let mut text = Vec::new();
    let mut rest = bytes;
    while let Some(header) = rest.get(..HEADER) {
        let size = |at: usize| order.number(&header[at..at + 4]) as usize / 8;
        if header[32..35] != [0, 0, 0] {
            return Err("its description is compressed, encrypted or has a checksum".into());
        }
        let content = rest.get(HEADER..size(CONTENT_SIZE));
        text.extend(content.ok_or("its description was cut short, or is damaged")?);
        rest = rest.get(size(PACKET_SIZE).max(HEADER)..).unwrap_or_default();
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Reads a description.
pub fn read(text: &str) -> Result<Metadata, String> {
    let mut metadata = Metadata { frequency: 1_000_000_000, ..Metadata::default() };
    metadata.order = order(text)?;
    let mut words = Words::of(text);
    loop {
        match words.take()? {
            Word::End => break,
            Word::Sign(";") => {}
            Word::Name(name) => metadata.add(&name, &mut words)?,
            other => return Err(format!("its description has {other:?}")),
        }
    }
    metadata.types = HashMap::new();
    Ok(metadata)
}

/// The byte order of the trace, which types before that have, too.
fn order(text: &str) -> Result<ByteOrder, String> {
    let mut words = Words::of(text);
    let mut is_trace = false;
    loop {
        match words.take()? {
            Word::End => return Err("its description has no byte order".into()),
            Word::Name(name) if name == "trace" => is_trace = matches!(words.peek()?, Word::Sign("{")),
            Word::Name(name) if is_trace && name == "byte_order" => {
                words.must("=")?;
                return order_named(&words.name()?);
            }
            _ => {}
        }
    }
}

fn order_named(name: &str) -> Result<ByteOrder, String> {
    match name {
        "le" => Ok(ByteOrder::Little),
        "be" | "network" => Ok(ByteOrder::Big),
        other => Err(format!("its description has the byte order {other}")),
    }
}

/// The settings of a block: values, and types.
#[derive(Debug, Default)]
struct Block {
    values: HashMap<String, String>,
    types: HashMap<String, Type>,
}

impl Block {
    fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.parse::<i64>().ok().map(|number| number as u64)
    }
}

impl Metadata {
    fn add(&mut self, kind: &str, words: &mut Words<'_>) -> Result<(), String> {
        match kind {
            "typealias" => self.alias(words, 0)?,
            "struct" | "enum" | "variant" => drop(self.named_type(kind, words, 0)?),
            _ => self.block(kind, words)?,
        }
        words.must(";")
    }

    /// `trace { … }`, `env`, `clock`, `stream`, `event`; others are passed over.
    fn block(&mut self, kind: &str, words: &mut Words<'_>) -> Result<(), String> {
        words.must("{")?;
        let mut block = Block::default();
        while !words.takes("}")? {
            let mut key = words.name()?;
            match key.as_str() {
                "typealias" => {
                    self.alias(words, 0)?;
                    words.must(";")?;
                    continue;
                }
                "struct" | "enum" | "variant" => {
                    self.named_type(&key, words, 0)?;
                    words.must(";")?;
                    continue;
                }
                _ => {}
            }
            while words.takes(".")? {
                key = format!("{key}.{}", words.name()?);
            }
            if words.takes(":=")? {
                let of = self.type_of(words, 0)?;
                block.types.insert(key, of);
            } else {
                words.must("=")?;
                block.values.insert(key, value(words)?);
            }
            words.must(";")?;
        }
        let mut types = std::mem::take(&mut block.types);
        match kind {
            "trace" => self.packet_header = types.remove("packet.header"),
            "env" => self.env.extend(block.values),
            "clock" => {
                self.clock = block.values.get("name").cloned().unwrap_or_default();
                self.frequency = block.number("freq").unwrap_or(1_000_000_000);
            }
            "stream" => {
                let class = StreamClass {
                    packet_context: types.remove("packet.context"),
                    event_header: types.remove("event.header"),
                    event_context: types.remove("event.context"),
                };
                self.streams.insert(block.number("id").unwrap_or(0), class);
            }
            "event" => {
                let class = EventClass {
                    name: block.values.get("name").cloned().unwrap_or_default(),
                    context: types.remove("context"),
                    fields: types.remove("fields"),
                };
                let [stream, id] = ["stream_id", "id"].map(|name| block.number(name).unwrap_or(0));
                self.events.insert((stream, id), class);
            }
            _ => {}
        }
        Ok(())
    }

    /// `typealias TYPE := NAME`
    fn alias(&mut self, words: &mut Words<'_>, depth: u32) -> Result<(), String> {
        let of = self.type_of(words, depth)?;
        words.must(":=")?;
        let mut name = words.name()?;
        while let Word::Name(more) = words.peek()? {
            name = format!("{name} {more}");
            words.take()?;
        }
        self.types.insert(name, of);
        Ok(())
    }

    /// A type before a sign: `struct { … }`, `unsigned long`.
    fn type_of(&mut self, words: &mut Words<'_>, depth: u32) -> Result<Type, String> {
        let name = words.name()?;
        if let Some(of) = self.built_in(&name, words, depth)? {
            return Ok(of);
        }
        let mut name = name;
        while let Word::Name(more) = words.peek()? {
            name = format!("{name} {more}");
            words.take()?;
        }
        self.known(&name)
    }

    fn known(&self, name: &str) -> Result<Type, String> {
        self.types.get(name).cloned().ok_or_else(|| format!("its description lacks the type {name}"))
    }

    fn built_in(&mut self, name: &str, words: &mut Words<'_>, depth: u32) -> Result<Option<Type>, String> {
        if depth > DEPTH {
            return Err("types in its description are within too many others".into());
        }
        Ok(Some(match name {
            "integer" => Type::Integer(self.integer(words)?),
            "floating_point" => {
                let block = attributes(words)?;
                let size = |name| block.number(name).unwrap_or(0);
                let bits = u32::try_from(size("exp_dig") + size("mant_dig")).ok().filter(|bits| *bits <= 128);
                Type::Float(bits.ok_or("a number in its description is too long")?, align(&block, 8)?)
            }
            "string" => {
                if matches!(words.peek()?, Word::Sign("{")) {
                    attributes(words)?;
                }
                Type::String
            }
            "struct" | "enum" | "variant" => self.named_type(name, words, depth)?,
            _ => return Ok(None),
        }))
    }

    fn integer(&self, words: &mut Words<'_>) -> Result<Integer, String> {
        let block = attributes(words)?;
        let text = |name: &str| block.values.get(name).map_or("", String::as_str);
        let size = block.number("size").filter(|size| (1..=64).contains(size));
        let size = size.ok_or("a number in its description has no size up to 64 bits")? as u32;
        let order = match text("byte_order") {
            "" | "native" => self.order,
            order => order_named(order)?,
        };
        Ok(Integer {
            size,
            align: align(&block, if size.is_multiple_of(8) { 8 } else { 1 })?,
            is_signed: ["1", "true", "TRUE"].contains(&text("signed")),
            order,
            is_text: ["UTF8", "ASCII", "utf8", "ascii"].contains(&text("encoding")),
            is_time: text("map").starts_with("clock."),
        })
    }

    /// `struct NAME { … } align(8)`, `enum NAME : TYPE { … }`, `variant NAME <TAG> { … }`; each of their
    /// parts may lack.
    fn named_type(&mut self, kind: &str, words: &mut Words<'_>, depth: u32) -> Result<Type, String> {
        let name = match words.peek()? {
            Word::Name(_) => Some(format!("{kind} {}", words.name()?)),
            _ => None,
        };
        let base = match kind == "enum" && words.takes(":")? {
            true => Some(self.type_of(words, depth + 1)?),
            false => None,
        };
        let tag = if kind == "variant" && words.takes("<")? {
            let mut tag = words.name()?;
            while words.takes(".")? {
                tag = words.name()?;
            }
            words.must(">")?;
            Some(Arc::from(tag))
        } else {
            None
        };
        if !words.takes("{")? {
            let of = self.known(name.as_deref().unwrap_or(kind))?;
            return Ok(match of {
                Type::Variant(_, options) if tag.is_some() => Type::Variant(tag, options),
                of => of,
            });
        }
        let of = match kind {
            "struct" => {
                let fields = self.fields(words, depth)?;
                let mut least = 1;
                if matches!(words.peek()?, Word::Name(word) if word == "align") {
                    words.take()?;
                    words.must("(")?;
                    least = alignment(words.number()?)?;
                    words.must(")")?;
                }
                Type::Struct(Arc::new(Struct::new(fields, least)))
            }
            "enum" => {
                let base = match base {
                    Some(base) => base,
                    None => self.known("int")?,
                };
                let Type::Integer(integer) = base else {
                    return Err("an enumeration in its description is of no whole numbers".into());
                };
                Type::Enum(integer, labels(words)?)
            }
            _ => Type::Variant(tag, self.fields(words, depth)?.into()),
        };
        if let Some(name) = name {
            self.types.insert(name, of.clone());
        }
        Ok(of)
    }

    /// `TYPE NAME[LENGTH]; …}`
    fn fields(&mut self, words: &mut Words<'_>, depth: u32) -> Result<Vec<(Arc<str>, Type)>, String> {
        let mut fields = Vec::new();
        while !words.takes("}")? {
            let first = words.name()?;
            if first == "typealias" {
                self.alias(words, depth + 1)?;
                words.must(";")?;
                continue;
            }
            let (mut of, name) = match self.built_in(&first, words, depth + 1)? {
                Some(of) => (of, words.name()?),
                None => {
                    // The last name is the field's.
                    let mut names = vec![first];
                    while let Word::Name(_) = words.peek()? {
                        names.push(words.name()?);
                    }
                    let name = names.pop().unwrap_or_default();
                    (self.known(&names.join(" "))?, name)
                }
            };
            let mut lengths = Vec::new();
            while words.takes("[")? {
                if let Word::Number(_) = words.peek()? {
                    lengths.push(Ok(words.number()? as u64));
                } else {
                    let mut reference = words.name()?;
                    while words.takes(".")? {
                        reference = words.name()?;
                    }
                    lengths.push(Err(Arc::from(reference)));
                }
                words.must("]")?;
                if lengths.len() > DEPTH as usize {
                    return Err("an array in its description has too many sides".into());
                }
            }
            for length in lengths.into_iter().rev() {
                of = match length {
                    Ok(length) => Type::Array(Arc::new(of), length),
                    Err(reference) => Type::Sequence(Arc::new(of), reference),
                };
            }
            words.must(";")?;
            fields.push((Arc::from(name), of));
        }
        Ok(fields)
    }
}

/// `{ size = 8; align = 8; … }`
fn attributes(words: &mut Words<'_>) -> Result<Block, String> {
    words.must("{")?;
    let mut block = Block::default();
    while !words.takes("}")? {
        let key = words.name()?;
        words.must("=")?;
        let value = value(words)?;
        block.values.insert(key, value);
        words.must(";")?;
    }
    Ok(block)
}

/// A number, a text, or a path of names.
fn value(words: &mut Words<'_>) -> Result<String, String> {
    Ok(match words.take()? {
        Word::Text(text) => text,
        Word::Number(number) => number.to_string(),
        Word::Sign("-") => words.number()?.wrapping_neg().to_string(),
        Word::Name(mut name) => {
            while words.takes(".")? {
                name = format!("{name}.{}", words.name()?);
            }
            name
        }
        other => return Err(format!("its description has {other:?} in the place of a value")),
    })
}

fn align(block: &Block, usual: u32) -> Result<u32, String> {
    block.number("align").map_or(Ok(usual), |align| alignment(align as i64))
}

fn alignment(align: i64) -> Result<u32, String> {
    let align = u32::try_from(align).ok().filter(|align| align.is_power_of_two() && *align <= 4_096);
    align.ok_or_else(|| "its description has an alignment that is none".into())
}

/// `"NAME" = 1, OTHER = 2 ... 5, NEXT }`
fn labels(words: &mut Words<'_>) -> Result<Labels, String> {
    let mut labels = Vec::new();
    let mut next = 0;
    while !words.takes("}")? {
        let (Word::Name(label) | Word::Text(label)) = words.take()? else {
            return Err("an enumeration in its description has no name".into());
        };
        let from = if words.takes("=")? { words.number()? } else { next };
        let to = if words.takes("...")? { words.number()? } else { from };
        next = to.wrapping_add(1);
        labels.push((Arc::from(label), from, to));
        if !words.takes(",")? {
            words.must("}")?;
            break;
        }
    }
    Ok(labels.into())
}
