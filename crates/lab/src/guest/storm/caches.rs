// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory management that asks something of every CPU: caches dropped and memory compacted
//! (lru_add_drain_all), statistics refreshed (schedule_on_each_cpu). Where the isolated CPU has work to do
//! for it, the writer waits until that CPU's thread lets it, or the fair server does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::guest::Result;
use crate::guest::storm::{Context, Storm, StormKind};

pub const DROP_CACHES: StormKind = StormKind {
    name: "drop-caches",
    about: "has the kernel drop its caches of files, names and inodes",
    rounds: 10,
    pace: Duration::from_millis(250),
    ready: |_| Writes::ready("drop_caches", "3", Some("drop_slab"), "caches dropped"),
    ..StormKind::USUAL
};

pub const COMPACTION: StormKind = StormKind {
    name: "compaction",
    about: "has the kernel compact all its memory",
    rounds: 10,
    pace: Duration::from_millis(250),
    ready: |_| Writes::ready("compact_memory", "1", Some("compact_migrate_scanned"), "memory compacted"),
    ..StormKind::USUAL
};

pub const STAT_REFRESH: StormKind = StormKind {
    name: "stat-refresh",
    about: "has every CPU report its memory statistics; waits for the isolated one",
    rounds: 4,
    pace: Duration::from_millis(600),
    ready: |_| Writes::ready("stat_refresh", "1", None, "statistics refreshed"),
    ..StormKind::USUAL
};

/// A file under /proc/sys/vm that does something when written.
struct Writes {
    file: &'static str,
    value: &'static str,
    /// The counter of /proc/vmstat that must grow, and its value before.
    counter: Option<(&'static str, u64)>,
    what: &'static str,
}

impl Writes {
    fn ready(
        file: &'static str,
        value: &'static str,
        counter: Option<&'static str>,
        what: &'static str,
    ) -> Result<Box<dyn Storm>> {
        if !Path::new("/proc/sys/vm").join(file).exists() {
            return Err(format!("this kernel has no /proc/sys/vm/{file}").into());
        }
        let counter = counter.map(|name| Ok::<_, Box<dyn std::error::Error>>((name, counted(name)?)));
        Ok(Box::new(Writes { file, value, counter: counter.transpose()?, what }))
    }
}

/// A counter of /proc/vmstat.
fn counted(name: &str) -> Result<u64> {
    let all = fs::read_to_string("/proc/vmstat")?;
    let found = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    Ok(found.ok_or_else(|| format!("/proc/vmstat has no {name}"))?)
}

impl Storm for Writes {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        // Names and inodes to drop.
        if self.file == "drop_caches" {
            fs::read_dir("/sys/kernel")?.flatten().for_each(|entry| drop(entry.metadata()));
        }
        let file = Path::new("/proc/sys/vm").join(self.file);
        Ok(fs::write(&file, self.value).map_err(|e| format!("{}: {e}", file.display()))?)
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        let Some((name, before)) = self.counter else { return Ok(format!("{} {rounds} times", self.what)) };
        match counted(name)?.saturating_sub(before) {
            0 => Err(format!("{} {rounds} times, but {name} did not grow", self.what).into()),
            grown => Ok(format!("{} {rounds} times; {name} grew by {grown}", self.what)),
        }
    }
}
