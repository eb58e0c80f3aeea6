// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a result file as text: unpacked (gzip, zstd) and decoded (UTF-8, UTF-16).
//!
//! A packed file that is damaged, cut short or followed by other bytes is refused as a whole: what it still
//! holds cannot be told from what was measured. Bytes that are no UTF-8 become U+FFFD, which no importer
//! takes for a digit.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

/// No packed file unpacks to more than this: a few kilobytes can stand for terabytes.
const LARGEST: u64 = 64 << 20;

/// The first bytes of other packers' files.
const OTHER_PACKERS: [(&[u8], &str); 5] = [
    (b"\xfd7zXZ\0", "an xz"),
    (b"BZh", "a bzip2"),
    (b"PK\x03\x04", "a zip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z"),
    (b"\x04\x22\x4d\x18", "an lz4"),
];

/// The text of a file; an error says why it has none.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, String> {
    if let Some((_, packer)) = OTHER_PACKERS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(format!("it is {packer} file: unpack it first"));
    }
    let (packer, unpacked) = match bytes.as_slice() {
        [0x1f, 0x8b, ..] => ("gzip", limited(&mut MultiGzDecoder::new(bytes.as_slice()), Vec::new())),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("zstd", frames(&bytes)),
        _ => return decoded(bytes),
    };
    let bytes = unpacked
        .map_err(|why| format!("it is a {packer} file that was cut short or damaged ({why})"))?
        .ok_or_else(|| format!("it unpacks to more than {} MiB", LARGEST >> 20))?;
    decoded(bytes)
}

/// Reads to the end, behind `bytes`; none where that is too much.
fn limited(packed: &mut impl Read, mut bytes: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    packed.take(LARGEST + 1 - bytes.len() as u64).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= LARGEST))
}

/// All frames of a zstd file, one after the other: `zstd -T`, `pzstd` and `cat` write several.
fn frames(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    use FrameDecoderError::ReadFrameHeaderError as Header;
    let mut bytes = Vec::new();
    while !rest.is_empty() {
        match StreamingDecoder::new(rest) {
            Ok(mut frame) => {
                let Some(more) = limited(&mut frame, bytes)? else { return Ok(None) };
                let stated = frame.decoder.get_checksum_from_data();
                if stated.is_some() && stated != frame.decoder.get_calculated_checksum() {
                    return Err(io::Error::other("its checksum is wrong"));
                }
                (bytes, rest) = (more, frame.get_ref());
            }
            Err(Header(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                // Four bytes of magic, four of length.
                let after = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
                let behind = after.and_then(|after| rest.get(after..));
                rest = behind.ok_or_else(|| io::Error::other("a frame is cut"))?;
            }
            Err(why) => return Err(io::Error::other(why)),
        }
    }
    Ok(Some(bytes))
}

fn decoded(bytes: Vec<u8>) -> Result<String, String> {
    let wide: Option<fn([u8; 2]) -> u16> = match bytes.as_slice() {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        // Without a mark, a text that begins with an ASCII character shows its order by the zero beside it.
        [1..=0x7f, 0, ..] => Some(u16::from_le_bytes),
        [0, 1..=0x7f, ..] => Some(u16::from_be_bytes),
        _ => None,
    };
    let text = match wide {
        Some(order) => {
            let (pairs, rest) = bytes.as_chunks::<2>();
            let units = pairs.iter().map(|pair| order(*pair));
            let half = (!rest.is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            let read = char::decode_utf16(units).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER));
            read.chain(half).collect::<String>()
        }
        None => String::from_utf8(bytes)
            .unwrap_or_else(|other| String::from_utf8_lossy(other.as_bytes()).into_owned()),
    };
    if text.contains('\0') { Err("it is a binary file".into()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn reads_packed_and_wide_text() {
        let plain = "T: 0 — µs 🦀\n";
        for bytes in [
            plain.as_bytes().to_vec(),
            gzip(plain.as_bytes()),
            zstd(plain.as_bytes()),
            utf16(plain, u16::to_le_bytes),
            utf16(plain, u16::to_be_bytes),
            gzip(&utf16(plain, u16::to_le_bytes)),
        ] {
            assert_eq!(text(bytes).as_deref(), Ok(plain));
        }
        let marked = utf16("\u{feff}a", u16::to_be_bytes);
        assert_eq!(text(marked).as_deref(), Ok("\u{feff}a"));
    }

    #[test]
    fn reads_every_member_and_frame() {
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0][..], b"xy"].concat();
        let frames = [zstd(b"one "), skipped, zstd(b"two")].concat();
        assert_eq!(text(frames).as_deref(), Ok("one two"));
        assert_eq!(text([gzip(b"one "), gzip(b"two")].concat()).as_deref(), Ok("one two"));
    }

    #[test]
    fn refuses_a_packed_file_that_is_damaged() {
        let long = (0..3_000).map(|n| format!("{n}\n")).collect::<String>();
        for packed in [gzip(long.as_bytes()), zstd(long.as_bytes())] {
            for end in [6, packed.len() / 2, packed.len() - 1] {
                assert!(text(packed[..end].to_vec()).is_err(), "cut at {end} of {}", packed.len());
            }
            let followed = [&packed[..], b"T: 0"].concat();
            assert!(text(followed).is_err(), "bytes that follow");
        }
    }

    #[test]
    fn refuses_what_unpacks_to_too_much() {
        let zeros = vec![b' '; LARGEST as usize + 1];
        for packed in [gzip(&zeros), zstd(&zeros)] {
            assert_eq!(text(packed), Err("it unpacks to more than 64 MiB".into()));
        }
    }

    #[test]
    fn refuses_other_packers_and_binary_files() {
        for (bytes, why) in [
            (&b"\xfd7zXZ\0\0"[..], "it is an xz file: unpack it first"),
            (b"\x7fELF\0\x01", "it is a binary file"),
            (b"\xff\xfe\0\0a\0\0\0", "it is a binary file"),
        ] {
            assert_eq!(text(bytes.to_vec()), Err(why.to_string()));
        }
    }
}
