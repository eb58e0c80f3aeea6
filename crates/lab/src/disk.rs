// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scratch disk for guests whose load or storm needs one: an ext4 file system on a virtio disk, mounted
//! where loads look for a disk. On the host it is a file in memory: it costs what is written to it, and
//! nothing of it is left. It is made the same each time, so that it does not change what a guest does.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{Error, Result};

/// Its size: twice what the largest load writes, and room for the file system itself.
pub const BYTES: u64 = 1 << 30;

/// The guest's name for it.
pub const DEVICE: &str = "vda";

/// Where a guest mounts it: where loads look first for a folder that is not in memory.
pub const FOLDER: &str = "/var/tmp";

/// Its file system.
pub const KIND: &str = "ext4";

/// Modules that a guest needs for it, where a kernel has it as modules.
pub const MODULES: &[&str] = &["virtio_blk", "crc16", "crc32c_generic", "mbcache", "jbd2", "ext4"];

/// Loads and storms that write files and flush them.
const WRITERS: &[&str] = &["io", "l2", "storage", "disk"];

/// Whether a guest with that load and those storms has the disk.
pub fn needed(load: &str, storms: &[String]) -> bool {
    WRITERS.contains(&load) || storms.iter().any(|storm| WRITERS.contains(&storm.as_str()))
}

/// Makes the file system in the file `disk`, by a program that `spawn` starts where it finds that path.
pub fn format(disk: &str, spawn: impl FnOnce(&mut Command) -> io::Result<Child>) -> Result<()> {
    let refuse = |why: String| Error::on("make", "a guest's disk", why, "apt-get install e2fsprogs");
    // An ordinary user's PATH need not have it.
    let places = ["/usr/sbin/mke2fs", "/sbin/mke2fs"];
    let program = places.into_iter().find(|path| Path::new(path).is_file()).unwrap_or("mke2fs");
    let mut command = Command::new(program);
    // Nothing is left for a thread of the guest's kernel to write later, and nothing is drawn.
    command.args(["-q", "-F", "-t", KIND, "-m", "0", "-N", "1024", "-J", "size=16", "-U", UUID, "-E"]);
    command.arg(format!("hash_seed={UUID},lazy_itable_init=0,lazy_journal_init=0")).arg(disk);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = spawn(&mut command).and_then(Child::wait_with_output);
    let output = output.map_err(|e| refuse(format!("{program}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(refuse(said.lines().last().unwrap_or("mke2fs failed").to_string()))
}

const UUID: &str = "00000000-0000-4000-8000-000000000001";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::exchange::GuestFiles;

    #[test]
    fn only_what_writes_files_has_a_disk() {
        let storms = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(needed("storage", &[]) && needed("idle", &storms(&["bpf", "disk"])));
        assert!(!needed("idle", &storms(&["bpf"])) && !needed("system", &[]));
    }

    #[test]
    fn a_disk_is_a_file_system_of_its_size_and_costs_what_is_on_it() {
        let files = GuestFiles::new(b"").unwrap().with_disk().unwrap();
        let disk = files.disk.as_ref().unwrap();
        let file = disk.output().unwrap().metadata().unwrap();
        assert_eq!(file.len(), BYTES);
        assert!(file.blocks() * 512 < 64 << 20, "{} MiB", file.blocks() >> 11);
        let mut magic = [0; 2];
        std::os::unix::fs::FileExt::read_exact_at(&disk.output().unwrap(), &mut magic, 0x438).unwrap();
        assert_eq!(magic, [0x53, 0xef]);
    }
}
