// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every reader of foreign bytes, driven from the bytes to the last rendering.
//!
//! Reading without a panic is half of it: figures that were read go on into reports, tables, comparisons and
//! gates, and it is there that absurd ones overflow, or loop for long. So each of [`ALL`] renders what it
//! reads. Fuzz targets (`fuzz/`) call them, and [`mutation`] damages seeds by a seeded generator: a few
//! hundred inputs as an ordinary test, and tens of thousands by `make proof-mutations`.
#![forbid(unsafe_code)]

mod fleets;
mod machines;
pub mod mutation;
mod parsers;
mod render;
mod runs;
mod seeds;

pub use render::render;
pub use seeds::seeds;

/// A reader of foreign bytes.
#[derive(Debug, Clone, Copy)]
pub struct ForeignReader {
    /// The name of its fuzz target, and of its folder of seeds.
    pub name: &'static str,
    /// Reads the bytes, and renders what it read.
    pub read: fn(&[u8]),
}

/// All of them.
pub const ALL: [ForeignReader; 22] = [
    ForeignReader { name: "bundle", read: runs::bundle },
    ForeignReader { name: "archive", read: runs::archive },
    ForeignReader { name: "import", read: runs::import },
    ForeignReader { name: "tail", read: runs::tail },
    ForeignReader { name: "guest", read: runs::guest },
    ForeignReader { name: "scenarios", read: runs::scenarios },
    ForeignReader { name: "store", read: runs::store },
    ForeignReader { name: "figures", read: machines::figures },
    ForeignReader { name: "plan", read: machines::plan },
    ForeignReader { name: "snapshot", read: machines::snapshot },
    ForeignReader { name: "tree", read: machines::tree },
    ForeignReader { name: "requests", read: runs::requests },
    ForeignReader { name: "inventory", read: fleets::inventory },
    ForeignReader { name: "events", read: fleets::events },
    ForeignReader { name: "uboot", read: machines::uboot },
    ForeignReader { name: "board", read: parsers::board },
    ForeignReader { name: "boot_files", read: parsers::boot_files },
    ForeignReader { name: "boot_line", read: parsers::boot_line },
    ForeignReader { name: "boot_list", read: parsers::boot_list },
    ForeignReader { name: "counters", read: parsers::counters },
    ForeignReader { name: "cpuset", read: parsers::cpuset },
    ForeignReader { name: "ethercat", read: parsers::ethercat },
];

/// Reads and renders `data` by the reader of that name.
pub fn read(name: &str, data: &[u8]) {
    if let Some(reader) = ALL.into_iter().find(|reader| reader.name == name) {
        (reader.read)(data);
    }
}

/// The parts of an input that lines `=== NAME` part, by their names; what stands before the first has the
/// name `first`.
fn parts(data: &[u8], first: &str) -> Vec<(String, Vec<u8>)> {
    let mut parts: Vec<(String, Vec<u8>)> = vec![(first.to_string(), Vec::new())];
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if let Some(name) = line.strip_prefix(b"=== ") {
            parts.push((String::from_utf8_lossy(name).trim().to_string(), Vec::new()));
        } else if let Some((_, bytes)) = parts.last_mut() {
            bytes.extend(line);
        }
    }
    parts.retain(|(name, bytes)| name != first || !bytes.is_empty());
    parts
}
