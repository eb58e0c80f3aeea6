// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disk I/O on the guest's scratch disk, through its file system: direct, and by way of the page cache with a
//! sync.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rand::RngExt;

use crate::disk;
use crate::guest::Result;
use crate::guest::storm::{Context, Storm, StormKind};

pub const DISK: StormKind = StormKind {
    name: "disk",
    about: "reads and writes a file on a disk, directly and through the page cache with a sync",
    ready: |_| Ok(Box::new(Disk::ready()?)),
    ..StormKind::USUAL
};

/// The file; its name is not needed once it is open.
const FILE: &str = "isolator-storm";

/// Where in it: direct I/O in the lower part, the page cache's in the upper one.
const BLOCKS: u64 = 1024;

/// Direct I/O wants its memory aligned as the device's blocks are.
#[repr(align(4096))]
struct AlignedBlock([u8; 64 << 10]);

struct Disk {
    direct: File,
    cached: File,
    block: Box<AlignedBlock>,
    done: (u64, u64),
}

impl Disk {
    fn ready() -> Result<Disk> {
        let file = Path::new(disk::FOLDER).join(FILE);
        let open = |flags| {
            let mut options = OpenOptions::new();
            let opened = options.read(true).write(true).create(true).custom_flags(flags).open(&file);
            opened.map_err(|e| format!("{}: {e}", file.display()))
        };
        let (direct, cached) = (open(libc::O_DIRECT)?, open(0)?);
        fs::remove_file(&file)?;
        Ok(Disk { direct, cached, block: Box::new(AlignedBlock([7; 64 << 10])), done: done()? })
    }
}

/// Reads and writes that the disk has completed (Documentation/block/stat.rst).
fn done() -> Result<(u64, u64)> {
    let file = Path::new("/sys/block").join(disk::DEVICE).join("stat");
    let statistics = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let figures =
        statistics.split_whitespace().map(str::parse).collect::<std::result::Result<Vec<u64>, _>>()?;
    match figures[..] {
        [reads, _, _, _, writes, ..] => Ok((reads, writes)),
        _ => Err(format!("{} is not as it was", file.display()).into()),
    }
}

impl Storm for Disk {
    fn round(&mut self, context: &mut Context) -> Result<()> {
        let block = &mut self.block.0;
        let size = block.len() as u64;
        let at = context.random.random_range(0..BLOCKS) * size;
        self.direct.write_all_at(block, at)?;
        self.direct.read_exact_at(block, at)?;
        self.cached.write_all_at(block, BLOCKS * size + at)?;
        Ok(self.cached.sync_data()?)
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        let (reads, writes) = done()?;
        let (reads, writes) = (reads - self.done.0, writes - self.done.1);
        if reads < rounds || writes < 2 * rounds {
            return Err(format!("in {rounds} rounds the disk counted {reads} reads, {writes} writes").into());
        }
        Ok(format!("{rounds} rounds; the disk counted {reads} reads and {writes} writes"))
    }
}
