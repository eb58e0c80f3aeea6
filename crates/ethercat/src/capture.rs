// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of frames that Wireshark and tshark read (pcap, nanoseconds).

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, SystemTime};

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};

use crate::{Error, Result};

/// The file, while it is written.
#[derive(Debug)]
pub struct Capture {
    name: String,
    writer: PcapWriter<BufWriter<File>>,
}

impl Capture {
    /// Begins it; a file that is there already is overwritten.
    pub fn create(path: &Path) -> Result<Capture> {
        let name = path.display().to_string();
        let cure = "choose a folder that may be written";
        let file =
            File::create(path).map_err(|e| Error::os(format!("write the capture {name}"), &e, cure))?;
        let header = PcapHeader {
            endianness: Endianness::Little,
            ts_resolution: TsResolution::NanoSecond,
            datalink: DataLink::ETHERNET,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(BufWriter::new(file), header)
            .map_err(|e| Error::new(format!("write the capture {name}"), e.to_string(), "free some space"))?;
        Ok(Capture { name, writer })
    }

    /// Adds a frame that passed now.
    pub fn add(&mut self, frame: &[u8]) -> Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let packet = PcapPacket::new(now, frame.len() as u32, frame);
        self.writer.write_packet(&packet).map(drop).map_err(|e| {
            Error::new(format!("write the capture {}", self.name), e.to_string(), "free some space")
        })
    }
}
