// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every reader of foreign bytes, driven from the bytes to the last rendering.
//!
//! Reading without a panic is half of it: figures that were read go on into reports, tables, comparisons and gates, and it is
//! there that absurd ones overflow, or loop for long. So each of [`ALL`] renders what it reads. Fuzz targets (`fuzz/`) call
//! them, and [`mutation`] damages seeds by a seeded generator: a few hundred inputs as an ordinary test, and tens of
//! thousands by `make proof-mutations`.
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
pub struct Reader {
    /// The name of its fuzz target, and of its folder of seeds.
    pub name: &'static str,
    /// Reads the bytes, and renders what it read.
    pub read: fn(&[u8]),
}

/// All of them.
pub const ALL: [Reader; 22] = [
    Reader { name: "bundle", read: runs::bundle },
    Reader { name: "archive", read: runs::archive },
    Reader { name: "import", read: runs::import },
    Reader { name: "tail", read: runs::tail },
    Reader { name: "guest", read: runs::guest },
    Reader { name: "scenarios", read: runs::scenarios },
    Reader { name: "store", read: runs::store },
    Reader { name: "figures", read: machines::figures },
    Reader { name: "plan", read: machines::plan },
    Reader { name: "snapshot", read: machines::snapshot },
    Reader { name: "tree", read: machines::tree },
    Reader { name: "requests", read: runs::requests },
    Reader { name: "inventory", read: fleets::inventory },
    Reader { name: "events", read: fleets::events },
    Reader { name: "uboot", read: machines::uboot },
    Reader { name: "board", read: parsers::board },
    Reader { name: "boot_files", read: parsers::boot_files },
    Reader { name: "boot_line", read: parsers::boot_line },
    Reader { name: "boot_list", read: parsers::boot_list },
    Reader { name: "counters", read: parsers::counters },
    Reader { name: "cpuset", read: parsers::cpuset },
    Reader { name: "ethercat", read: parsers::ethercat },
];

/// Reads and renders `data` by the reader of that name.
pub fn read(name: &str, data: &[u8]) {
    if let Some(reader) = ALL.into_iter().find(|reader| reader.name == name) {
        (reader.read)(data);
    }
}

/// The parts of an input that lines `=== NAME` part, by their names; what stands before the first has the name `first`.
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
