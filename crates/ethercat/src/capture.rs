// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of frames that Wireshark and tshark read (pcap, nanoseconds).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::{Error, Result};

/// The file's header: little-endian, times in nanoseconds, version 2.4, no zone, no accuracy stated,
/// whole frames, Ethernet.
const HEADER: [u32; 6] = [0xA1B2_3C4D, 2 | 4 << 16, 0, 0, 65_535, 1];

/// The file, while it is written.
#[derive(Debug)]
pub struct Capture {
    name: String,
    file: BufWriter<File>,
}

impl Capture {
    /// Begins it; a file that is there already is replaced.
    pub fn create(path: &Path) -> Result<Capture> {
        let name = path.display().to_string();
        let cure = "choose a folder that may be written";
        let file =
            untrusted::create(path).map_err(|e| Error::os(format!("write the capture {name}"), &e, cure))?;
        let mut capture = Capture { name, file: BufWriter::new(file) };
        capture.write(&HEADER, &[])?;
        Ok(capture)
    }

    /// Adds a frame that passed now.
    pub fn add(&mut self, frame: &[u8]) -> Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let length = frame.len() as u32;
        self.write(&[now.as_secs() as u32, now.subsec_nanos(), length, length], frame)
    }

    /// Has all frames in the file.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::os(format!("write the capture {}", self.name), error, "free some space")
    }

    fn write(&mut self, numbers: &[u32], frame: &[u8]) -> Result<()> {
        let mut bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        bytes.extend(frame);
        let wrote = self.file.write_all(&bytes);
        wrote.map_err(|e| self.failed(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn replaces_a_file_and_tells_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("capture"));
        fs::write(&victim, "secret").unwrap();
        fs::hard_link(&victim, &link).unwrap();
        let mut capture = Capture::create(&link).unwrap();
        capture.add(&[7; 60]).and_then(|()| capture.flush()).unwrap();
        assert_eq!(
            (fs::read(&victim).unwrap(), fs::read(&link).unwrap().len()),
            (b"secret".to_vec(), 24 + 76)
        );
        let mut full = Capture::create(Path::new("/dev/full")).unwrap();
        let said = full.add(&[7; 60]).and_then(|()| full.flush()).unwrap_err().to_string();
        assert!(said.contains("no space left on device"), "{said}");
    }
}
