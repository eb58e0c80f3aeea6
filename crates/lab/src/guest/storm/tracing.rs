// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracing instances: the kernel's tracing for one storm, which does not touch other instances.

use std::fs;
use std::path::{Path, PathBuf};

use crate::guest::Result;

/// Where tracefs is mounted.
pub const TRACING: &str = "/sys/kernel/tracing";

/// A tracing instance; removed when dropped, unless it is the kernel's own.
pub struct StormInstance(PathBuf);

impl StormInstance {
    /// The kernel's own one.
    pub fn top() -> StormInstance {
        StormInstance(TRACING.into())
    }

    /// A new one. With `names` its events have names of tasks recorded, by tracepoints of the scheduler that
    /// are switched with them.
    pub fn make(name: &str, names: bool) -> Result<StormInstance> {
        let folder = Path::new(TRACING).join("instances").join(name);
        // It takes this over from the top when it is made, and has no such option itself.
        let option = Path::new(TRACING).join("options/record-cmd");
        let before = fs::read_to_string(&option)?;
        fs::write(&option, if names { "1" } else { "0" })?;
        let made = fs::create_dir(&folder);
        fs::write(&option, before.trim())?;
        made.map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(StormInstance(folder))
    }

    pub fn write(&self, file: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.0.join(file), text).map_err(|e| format!("{file} = {text}: {e}"))?)
    }

    pub fn read(&self, file: &str) -> Result<String> {
        Ok(fs::read_to_string(self.0.join(file)).map_err(|e| format!("{file}: {e}"))?)
    }

    /// Events that its buffers hold.
    pub fn entries(&self) -> Result<u64> {
        let mut sum = 0;
        for cpu in fs::read_dir(self.0.join("per_cpu"))? {
            let stats = fs::read_to_string(cpu?.path().join("stats"))?;
            let entries = stats.lines().find_map(|line| line.strip_prefix("entries: ")?.trim().parse().ok());
            sum += entries.unwrap_or(0u64);
        }
        Ok(sum)
    }
}

impl Drop for StormInstance {
    fn drop(&mut self) {
        if self.0 != Path::new(TRACING) {
            let _ = fs::remove_dir(&self.0);
        }
    }
}
