// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory and disk space that a load may take; and where scratch files belong.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rustix::fs::FsWord;
use untrusted::{Scratch, temporary_folders};

use crate::cgroup::NAME;

const TMPFS_MAGIC: FsWord = 0x0102_1994;
const RAMFS_MAGIC: FsWord = 0x8584_58f6;

/// Where scratch files go: the first of `output`, TMPDIR, /var/tmp and /tmp that is on a disk and in which a
/// folder can be made that no other user can replace; else the first in memory (the storage load says that it
/// cannot run there).
pub fn scratch_folder(output: &Path) -> PathBuf {
    let folders = std::iter::once(output.to_path_buf()).chain(temporary_folders());
    let usable: Vec<PathBuf> = folders.filter(|folder| Scratch::below(folder, NAME).is_ok()).collect();
    let chosen = usable.iter().find(|folder| !in_memory(folder)).or(usable.first());
    chosen.map_or_else(|| output.to_path_buf(), PathBuf::clone)
}

/// Whether the folder's file system lives in memory, so that no disk is loaded there.
pub fn in_memory(folder: &Path) -> bool {
    let kind = rustix::fs::statfs(folder).map(|stat| stat.f_type);
    kind.is_ok_and(|kind| kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}

/// Bytes that this user may still write below `folder`.
pub fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether files below `folder` can be opened past the page cache.
pub fn direct(folder: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let probe = |scratch: Scratch| open(scratch.path().join("probe"), flags, Mode::RUSR | Mode::WUSR).is_ok();
    Scratch::below(folder, NAME).is_ok_and(probe)
}

/// Bytes of memory that can be taken: what the machine has available, less where a cgroup limits this
/// process.
pub fn available_memory() -> u64 {
    let read = |path: &str| untrusted::text(path).unwrap_or_default();
    let machine = mem_available(&read("/proc/meminfo"));
    let groups = read("/proc/self/cgroup");
    limits(&groups).into_iter().filter_map(|group| headroom(&group)).fold(machine, u64::min)
}

fn mem_available(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Files of a limit and of what is used of it.
type LimitFiles = (PathBuf, PathBuf);

/// The memory limits above this process, by both versions of cgroups, where they are mounted by custom.
fn limits(groups: &str) -> Vec<LimitFiles> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (root, limit, usage) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => continue,
        };
        let mut folder = Path::new(root).join(path.trim_start_matches('/'));
        while folder.starts_with(root) {
            files.push((folder.join(limit), folder.join(usage)));
            folder.pop();
        }
    }
    files
}

/// The rest of a limit; `None` where there is no limit ("max") or no such file.
fn headroom((limit, usage): &LimitFiles) -> Option<u64> {
    let number = |path: &Path| untrusted::text(path).ok()?.trim().parse::<u64>().ok();
    Some(number(limit)?.saturating_sub(number(usage)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        assert_eq!(mem_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), 2 << 20);
        assert_eq!(mem_available("MemTotal: 9 kB\n"), 0);
    }

    #[test]
    fn limits_of_every_level_and_both_versions_are_looked_at() {
        let files = limits("4:memory:/a\n3:cpu:/b\n0::/c/d\n");
        let names: Vec<String> = files.iter().map(|(limit, _)| limit.display().to_string()).collect();
        let root = "/sys/fs/cgroup";
        let expected = [
            format!("{root}/memory/a/memory.limit_in_bytes"),
            format!("{root}/memory/memory.limit_in_bytes"),
            format!("{root}/c/d/memory.max"),
            format!("{root}/c/memory.max"),
            format!("{root}/memory.max"),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn this_machine_has_memory_and_its_shared_memory_is_no_disk() {
        assert!(available_memory() > 0);
        if Path::new("/dev/shm").is_dir() {
            assert!(in_memory(Path::new("/dev/shm")));
            assert_ne!(scratch_folder(Path::new("/proc")), PathBuf::from("/dev/shm"));
        }
    }
}
