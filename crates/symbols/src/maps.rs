// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/proc/PID/maps`: the mappings of a process (Documentation/filesystems/proc.rst).

/// The most mappings of one process that are read: the kernel's default limit (`max_map_count`).
const MOST: usize = 65_530;

/// A part of a process' memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// Whether it is executable.
    pub is_executable: bool,
    /// Its file.
    pub file: FileId,
    /// The file's path, `[heap]` and the like, or empty.
    pub path: String,
}

/// Identifies a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Major and minor number of its device.
    pub device: (u32, u32),
    /// Its inode; 0 without a file.
    pub inode: u64,
}

/// The kernel's code in each process, which has no file.
pub const VDSO: FileId = FileId { device: (0, 0), inode: u64::MAX };

impl Mapping {
    /// Whether it has a file.
    pub fn is_of_file(&self) -> bool {
        self.file.inode != 0
    }

    /// The file's name without its folders, `[heap]` and the like, or `[anon]`.
    pub fn name(&self) -> &str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        let name = if self.is_of_file() { path.rsplit('/').next().unwrap_or(path) } else { path };
        if name.is_empty() || name.starts_with("[anon") { "[anon]" } else { name }
    }
}

/// The mappings in the order of their addresses. Other lines are left out.
pub fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = text.lines().take(MOST).filter_map(line).collect();
    mappings.sort_by_key(|mapping| mapping.start);
    mappings
}

fn line(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let (word, more) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = more.trim_start();
        word
    };
    let (range, permissions, offset, device, inode) = (word(), word(), word(), word(), word());
    let path = rest.to_string();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let half = |text: &str| u32::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let (start, end) = (number(start)?, number(end)?);
    let file = FileId { device: (half(major)?, half(minor)?), inode: inode.parse().ok()? };
    let file = if path == "[vdso]" { VDSO } else { file };
    let is_executable = permissions.contains('x');
    (start < end).then_some(Mapping { start, end, offset: number(offset)?, is_executable, file, path })
}

/// The mapping that contains an address.
pub fn at(mappings: &[Mapping], address: u64) -> Option<usize> {
    let place = mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)?;
    (address < mappings[place].end).then_some(place)
}

/// Replaces the parts of `old` that `new` overlaps; other mappings of unloaded libraries stay known.
pub fn replace(old: &[Mapping], new: Vec<Mapping>) -> Vec<Mapping> {
    let is_gone = |mapping: &&Mapping| {
        let before = new.partition_point(|other| other.end <= mapping.start);
        mapping.is_of_file() && new.get(before).is_none_or(|other| other.start >= mapping.end)
    };
    let room = MOST.saturating_sub(new.len());
    let mut all: Vec<Mapping> = old.iter().filter(is_gone).take(room).cloned().collect();
    all.extend(new);
    all.sort_by_key(|mapping| mapping.start);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
        55d0c0000000-55d0c0001000 r--p 00000000 fd:01 1835 /usr/bin/a name (deleted)\n\
        55d0c0001000-55d0c0002000 r-xp 00001000 fd:01 1835                       /usr/bin/a name (deleted)\n\
        55d0c0005000-55d0c0006000 rw-p 00000000 00:00 0                          [heap]\n\
        7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
        7f0000002000-7f0000003000 r-xp 00000000 00:00 0 [vdso]\n\
        nonsense\n7f0000009000-7f0000008000 r-xp 0 0:0 0\n";

    #[test]
    fn reads_paths_with_spaces_and_deleted_files() {
        let mappings = parse(TEXT);
        let names: Vec<&str> = mappings.iter().map(Mapping::name).collect();
        assert_eq!(names, ["a name", "a name", "[heap]", "[anon]", "[vdso]"]);
        assert_eq!(mappings[1].file, FileId { device: (0xfd, 1), inode: 1835 });
        assert!(mappings[1].is_executable && !mappings[0].is_executable);
        assert_eq!(at(&mappings, 0x55d0_c000_1fff), Some(1));
        assert_eq!(at(&mappings, 0x55d0_c000_2000), None);
        assert_eq!(at(&mappings, 0), None);
    }

    #[test]
    fn keeps_an_unloaded_library_until_replaced() {
        let old = parse(TEXT);
        let elsewhere = parse("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n");
        // Both parts of the file, the vdso, and the new mapping; the heap is gone.
        assert_eq!(replace(&old, elsewhere).len(), 4);
        let there = parse("55d0c0000000-55d0c0001800 r-xp 00000000 fd:01 7 /lib/b.so\n");
        assert_eq!(replace(&old[..2], there.clone()), there);
    }
}
