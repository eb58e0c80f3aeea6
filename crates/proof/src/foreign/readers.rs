// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all readers.

use super::{fleets, machines, parsers, runs};

/// A reader of foreign bytes.
#[derive(Debug, Clone, Copy)]
pub struct ForeignReader {
    /// The name by which the fuzzer is given it, and of its folder of seeds.
    pub name: &'static str,
    /// Reads the bytes, and renders what it read.
    pub read: fn(&[u8]),
}

/// All of them.
pub const ALL: [ForeignReader; 23] = [
    ForeignReader { name: "bundle", read: runs::bundle },
    ForeignReader { name: "archive", read: runs::archive },
    ForeignReader { name: "import", read: runs::import },
    ForeignReader { name: "tail", read: runs::tail },
    ForeignReader { name: "traces", read: runs::trace },
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
