// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: how results leave a guest. A line `frame NAME LENGTH`, then that many bytes, again and again,
//! through a virtio-serial port into a file. A frame that was cut short by the guest's end is not one.

use std::io::{self, Write};

/// Writes one frame.
pub fn write(out: &mut impl Write, name: &str, bytes: &[u8]) -> io::Result<()> {
    writeln!(out, "frame {name} {}", bytes.len())?;
    out.write_all(bytes)?;
    out.flush()
}

/// The whole frames in `bytes`, in order.
pub fn read(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((name, payload, rest)) = first(bytes) {
        frames.push((name.to_string(), payload.to_vec()));
        bytes = rest;
    }
    frames
}

fn first(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&bytes[..end]).ok()?;
    let (name, length) = header.strip_prefix("frame ")?.rsplit_once(' ')?;
    let (payload, rest) = bytes[end + 1..].split_at_checked(length.parse().ok()?)?;
    Some((name, payload, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_and_a_cut_one_is_dropped() {
        let mut bytes = Vec::new();
        write(&mut bytes, "bundle.tar.zst", b"a\nb\0c").unwrap();
        write(&mut bytes, "storm", b"").unwrap();
        let whole = bytes.len();
        write(&mut bytes, "symbols", b"0123456789").unwrap();
        let frames = read(&bytes[..bytes.len() - 1]);
        assert_eq!(frames, [("bundle.tar.zst".into(), b"a\nb\0c".to_vec()), ("storm".into(), vec![])]);
        assert_eq!(read(&bytes[..whole]), frames);
        assert_eq!(read(&bytes).len(), 3);
    }

    #[test]
    fn what_is_no_frame_ends_the_reading() {
        for foreign in ["", "frame", "frame x", "frame x y\n", "frame x 99999999999999999999\n", "\n\n"] {
            assert_eq!(read(foreign.as_bytes()), [], "{foreign:?}");
        }
    }
}
