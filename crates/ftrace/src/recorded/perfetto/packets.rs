// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of a file, one after the other, unpacked.

use std::fs::File;
use std::io::{self, BufReader, Read};

use super::super::head::{PART, Packer};
use super::super::protobuf::{ProtobufMessage, varint};

/// A file is a message whose only field are packets.
const PACKET: u8 = 0x0a;

/// Fields of a packet (protos/perfetto/trace/trace_packet.proto) that hold other packets.
const ZLIB: u32 = 50;
const ZSTD: u32 = 133;

/// The packets of a file.
#[derive(Debug)]
pub struct Packets {
    file: BufReader<File>,
    packet: Vec<u8>,
    /// The packets that were packed in one, and the place of the next of them.
    unpacked: Vec<u8>,
    at: usize,
}

impl Packets {
    pub fn new(file: File) -> Packets {
        Packets {
            file: BufReader::with_capacity(1 << 18, file),
            packet: Vec::new(),
            unpacked: Vec::new(),
            at: 0,
        }
    }

    /// The file, to be read again.
    pub fn into_file(self) -> File {
        self.file.into_inner()
    }

    /// The next packet; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            if self.at < self.unpacked.len() {
                let mut rest = &self.unpacked[self.at..];
                let packet = split(&mut rest);
                let packet = packet.ok_or_else(|| io::Error::other("packed packets are damaged"))?;
                let end = self.unpacked.len() - rest.len();
                let begin = end - packet.len();
                self.at = end;
                return Ok(Some(&self.unpacked[begin..end]));
            }
            if !self.read()? {
                return Ok(None);
            }
            let Some((packer, packed)) = packed(&self.packet) else { return Ok(Some(&self.packet)) };
            self.unpacked = packer.unpack(packed, PART)?;
            self.at = 0;
            if self.unpacked.len() as u64 == PART {
                return Err(io::Error::other(format!("a packet unpacks to more than {} MiB", PART >> 20)));
            }
        }
    }

    /// Reads a packet of the file; whether there was one.
    fn read(&mut self) -> io::Result<bool> {
        let mut byte = [0];
        if self.file.read(&mut byte)? == 0 {
            return Ok(false);
        }
        if byte != [PACKET] {
            return Err(io::Error::other("a packet is damaged"));
        }
        let mut length = Vec::new();
        loop {
            self.file.read_exact(&mut byte)?;
            length.push(byte[0]);
            if byte[0] < 0x80 || length.len() == 10 {
                break;
            }
        }
        let length = varint(&mut &length[..]).filter(|length| *length < PART);
        let length = length.ok_or_else(|| io::Error::other("a packet is damaged, or too long"))?;
        self.packet.clear();
        let read = (&mut self.file).take(length).read_to_end(&mut self.packet)?;
        if (read as u64) < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
    }
}

/// The packet at the beginning of some.
fn split<'a>(packets: &mut &'a [u8]) -> Option<&'a [u8]> {
    packets.split_off_first().filter(|byte| **byte == PACKET)?;
    let length = usize::try_from(varint(packets)?).ok()?;
    packets.split_off(..length)
}

fn packed(packet: &[u8]) -> Option<(Packer, &[u8])> {
    // It is the first field, or comes behind some numbers.
    ProtobufMessage::new(packet).take(8).flatten().find_map(|(field, value)| match field {
        ZLIB => Some((Packer::Zlib, value.bytes())),
        ZSTD => Some((Packer::Zstd, value.bytes())),
        _ => None,
    })
}
