// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locked memory of a process, and the mapped depth of a stack (proc_pid_smaps(5), proc_pid_pagemap(5)).
//! Reading does not change them.

use std::io::{Read, Seek, SeekFrom};

/// Memory that is not locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlocked {
    /// Its size, in KiB.
    pub kib: u64,
    /// The size of all memory that can be locked.
    pub of_kib: u64,
    /// The largest such mapping: its file, `[heap]`, or `memory of no file`.
    pub largest: String,
}

/// A mapping, of `/proc/PID/smaps`.
#[derive(Debug, Default)]
struct Area {
    begin: u64,
    end: u64,
    perms: String,
    name: String,
    flags: String,
}

impl Area {
    /// Whether it can be locked: device memory, huge pages and the kernel's own mappings always stay.
    fn can_be_locked(&self) -> bool {
        let is_special = ["io", "pf", "ht"].iter().any(|flag| self.has(flag));
        let is_kernels = self.name.starts_with("[v") || self.name == "[uprobes]";
        !is_special && !is_kernels && !self.perms.starts_with("---")
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|known| known == flag)
    }

    fn kib(&self) -> u64 {
        (self.end - self.begin) / 1024
    }
}

/// The mappings of a process, read once.
#[derive(Debug)]
pub struct MappedMemory {
    process: u32,
    areas: Vec<Area>,
    page: u64,
}

impl MappedMemory {
    /// Of a process; `None` where they cannot be read.
    pub fn read(process: u32) -> Option<MappedMemory> {
        let smaps = untrusted::text(format!("/proc/{process}/smaps")).ok()?;
        Some(MappedMemory { process, areas: areas(&smaps), page: page_size(&smaps)? })
    }

    /// The unlocked memory; `None` if all is locked.
    pub fn unlocked(&self) -> Option<Unlocked> {
        unlocked_of(&self.areas)
    }

    /// The number of mapped bytes of stack below `sp`, up to 64 KiB; `None` if they suffice: 64 KiB, or the
    /// whole stack of a thread that has less.
    pub fn missing_stack(&self, sp: u64) -> Option<u64> {
        let stack = self.areas.iter().find(|area| (area.begin..area.end).contains(&sp))?;
        let page = self.page;
        let last = sp / page;
        let first = stack.begin.max(sp.saturating_sub(ENOUGH)).div_ceil(page);
        let count = usize::try_from(last - first + 1).ok()?;
        let mut entries = vec![0; count * 8];
        let mut pagemap = untrusted::open(format!("/proc/{}/pagemap", self.process)).ok()?;
        pagemap.seek(SeekFrom::Start(first * 8)).ok()?;
        pagemap.read_exact(&mut entries).ok()?;
        let is_there = |entry: &&[u8]| entry[7] & 0x80 != 0;
        let there = entries.chunks_exact(8).rev().take_while(is_there).count() as u64;
        // The first page contains the stack pointer.
        let bytes = (there * page).saturating_sub(page - sp % page);
        let may_grow = stack.has("gd");
        let is_enough = there == count as u64 && (!may_grow || bytes + page >= ENOUGH);
        (!is_enough).then_some(bytes)
    }
}

fn unlocked_of(areas: &[Area]) -> Option<Unlocked> {
    let areas: Vec<&Area> = areas.iter().filter(|area| area.can_be_locked()).collect();
    let of_kib = areas.iter().map(|area| area.kib()).sum();
    let free: Vec<&&Area> = areas.iter().filter(|area| !area.has("lo")).collect();
    let largest = free.iter().max_by_key(|area| area.kib())?;
    let largest = if largest.name.is_empty() { "memory of no file" } else { &largest.name };
    Some(Unlocked { kib: free.iter().map(|area| area.kib()).sum(), of_kib, largest: largest.to_string() })
}

/// The mappings of `/proc/PID/smaps`: each begins with a line as in `maps`, and ends with its flags.
fn areas(text: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if let Some(area) = areas.last_mut() {
                area.flags = flags.trim().to_string();
            }
            continue;
        }
        let Some(area) = area(line) else { continue };
        areas.push(area);
    }
    areas
}

fn area(line: &str) -> Option<Area> {
    let mut words = line.split_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (begin, end) = (number(begin)?, number(end)?);
    let perms = words.next()?.to_string();
    let name = words.skip(3).collect::<Vec<_>>().join(" ");
    (end > begin).then(|| Area { begin, end, perms, name, flags: String::new() })
}

/// The required stack below the loop, in bytes.
const ENOUGH: u64 = 64 << 10;

/// The size of a page, which each mapping states.
fn page_size(smaps: &str) -> Option<u64> {
    let text = smaps.lines().find_map(|line| line.strip_prefix("KernelPageSize:"))?;
    Some(text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00402000 r-xp 00000000 fe:00 12   /opt/my loop
KernelPageSize:        4 kB
VmFlags: rd ex mr mw me lo 
01000000-01021000 rw-p 00000000 00:00 0    [heap]
KernelPageSize:        4 kB
VmFlags: rd wr mr mw me ac 
7f0000000000-7f0000001000 ---p 00000000 00:00 0
VmFlags: mr mw me
7f0000001000-7f0000009000 rw-s 00000000 00:05 9 /dev/mem
VmFlags: rd wr sh mr mw me ms io pf
7fff00000000-7fff00002000 r-xp 00000000 00:00 0 [vdso]
VmFlags: rd ex mr mw me de
";

    #[test]
    fn counts_lockable_memory_that_is_not_locked() {
        let found = unlocked_of(&areas(SMAPS)).unwrap();
        assert_eq!(found, Unlocked { kib: 132, of_kib: 140, largest: "[heap]".into() });
    }

    #[test]
    fn locked_memory_is_no_finding() {
        assert_eq!(unlocked_of(&areas(&SMAPS.replace("me ac", "me lo"))), None);
    }

    #[test]
    fn separates_mappings_from_their_figures() {
        let areas = areas(SMAPS);
        assert_eq!(areas.len(), 5);
        assert_eq!(areas[0].name, "/opt/my loop");
        assert_eq!(page_size(SMAPS), Some(4096));
    }
}
