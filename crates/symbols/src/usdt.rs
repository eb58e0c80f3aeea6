// SPDX-License-Identifier: MIT OR Apache-2.0
//! USDT probes: places that a program marks for tracers, by notes of the owner `stapsdt` in its file
//! (SystemTap's wiki, UserSpaceProbeImplementation).
//!
//! ```text
//! note: addresses of the probe, of .stapsdt.base, and of the semaphore or 0; provider, name, arguments
//! ```
//! A prelinked file is loaded at another address than its notes state; the difference is that of its
//! `.stapsdt.base`.

/// The owner of such notes, and the only version of them.
pub const OWNER: &[u8] = b"stapsdt";
pub const VERSION: u32 = 3;

/// A place of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsdtProbe {
    /// Its provider: most often the program.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Its address in the file.
    pub address: u64,
    /// The address of its semaphore, which is not 0 while the probe is used; `None` without one.
    pub semaphore: Option<u64>,
}

/// The probe of a note, in a file whose `.stapsdt.base` has this address; `None` if the note is cut short.
pub fn probe(note: &[u8], base: Option<u64>) -> Option<UsdtProbe> {
    let number = |at: usize| Some(u64::from_le_bytes(note.get(at..at + 8)?.try_into().ok()?));
    let (address, stated_base, semaphore) = (number(0)?, number(8)?, number(16)?);
    let moved = base.unwrap_or(stated_base).wrapping_sub(stated_base);
    let mut texts = note.get(24..)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    Some(UsdtProbe {
        provider: text()?,
        name: text()?,
        address: address.wrapping_add(moved),
        semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(address: u64, base: u64, semaphore: u64) -> Vec<u8> {
        let numbers = [address, base, semaphore].into_iter().flat_map(u64::to_le_bytes);
        numbers.chain(*b"servo\0cycle\08@%rax\0").collect()
    }

    #[test]
    fn reads_a_note_of_a_prelinked_file() {
        let read = |note: &[u8], base| {
            probe(note, base).map(|probe| (probe.provider, probe.name, probe.address, probe.semaphore))
        };
        let told = |address, semaphore| Some(("servo".to_string(), "cycle".to_string(), address, semaphore));
        assert_eq!(read(&note(0x1000, 0x500, 0), Some(0x500)), told(0x1000, None));
        assert_eq!(read(&note(0x1000, 0x500, 0x40), Some(0x600)), told(0x1100, Some(0x140)));
        assert_eq!(read(&note(0x1000, 0x500, 0x40), None), told(0x1000, Some(0x40)));
        for length in 0..24 {
            assert_eq!(probe(&note(1, 2, 3)[..length], None), None);
        }
    }
}
