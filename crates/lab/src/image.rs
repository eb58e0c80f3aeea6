// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a file can be a kernel: an emulator boots whatever it is given, and says nothing for minutes.
//!
//! x86-64: Documentation/arch/x86/boot.rst. arm64: Documentation/arch/arm64/booting.rst.

use crate::architecture::Architecture;

/// The bytes and places by which a file is known: the signs of images that QEMU boots.
const SIGNS: &[(Architecture, usize, &[u8])] = &[
    (Architecture::X86_64, 0x202, b"HdrS"),
    (Architecture::X86_64, 0, b"\x7fELF"),
    (Architecture::Aarch64, 0x38, b"ARM\x64"),
    (Architecture::Aarch64, 0, b"\x7fELF"),
    // A compressed Image, and one that unpacks itself under EFI.
    (Architecture::Aarch64, 0, b"\x1f\x8b"),
    (Architecture::Aarch64, 4, b"zimg"),
];

/// Why a file cannot be a kernel of the architecture.
pub fn fault(image: &[u8], architecture: Architecture) -> Option<String> {
    let has = |place: &usize, sign: &[u8]| image.get(*place..).is_some_and(|rest| rest.starts_with(sign));
    let of = |(architecture, place, sign): &(Architecture, usize, &[u8])| {
        has(place, sign).then_some(*architecture)
    };
    let mut kinds = SIGNS.iter().filter_map(of);
    match kinds.clone().find(|kind| *kind == architecture).or_else(|| kinds.next()) {
        None => Some("it is not a kernel image".into()),
        Some(other) if other != architecture => Some(format!("it is a kernel of {other}")),
        Some(_) => cut_short(image).then(|| "it is cut short".into()),
    }
}

/// Whether a bzImage lacks a part of what its header announces; other images do not say how long they are.
fn cut_short(image: &[u8]) -> bool {
    let Some(header) = image.get(0x1f1..0x206).filter(|header| header.ends_with(b"HdrS")) else {
        return false;
    };
    // setup_sects is 0 where it means 4; syssize counts paragraphs of 16 bytes.
    let sectors = if header[0] == 0 { 4 } else { u64::from(header[0]) };
    let paragraphs = u32::from_le_bytes([header[3], header[4], header[5], header[6]]);
    (image.len() as u64) < (sectors + 1) * 512 + u64::from(paragraphs) * 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bzimage(paragraphs: u32) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        image[0x1f4..0x1f8].copy_from_slice(&paragraphs.to_le_bytes());
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image
    }

    #[test]
    fn images_are_told_by_their_signs() {
        let mut arm = vec![0; 64];
        arm[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert_eq!(fault(&bzimage(0), Architecture::X86_64), None);
        assert_eq!(fault(&arm, Architecture::Aarch64), None);
        assert_eq!(fault(b"\x7fELF", Architecture::Aarch64), None);
        assert_eq!(fault(&arm, Architecture::X86_64).unwrap(), "it is a kernel of aarch64");
        assert_eq!(fault(&bzimage(0), Architecture::Aarch64).unwrap(), "it is a kernel of x86_64");
        for zeros in [0, 1, 0x203, 4096] {
            assert_eq!(fault(&vec![0; zeros], Architecture::X86_64).unwrap(), "it is not a kernel image");
        }
    }

    #[test]
    fn a_bzimage_that_announces_more_than_there_is_is_cut_short() {
        let mut image = bzimage(2);
        assert_eq!(fault(&image, Architecture::X86_64).unwrap(), "it is cut short");
        image.resize(1024 + 32, 0);
        assert_eq!(fault(&image, Architecture::X86_64), None);
    }
}
