// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text patching by static keys: switching one patches the kernel's code and has every CPU serialise its
//! instruction stream (x86: text_poke_bp_batch -> do_sync_core; arm64: kick_all_cpus_sync).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guest::Result;
use crate::guest::storm::tracing::StormInstance;
use crate::guest::storm::{Context, Storm, StormKind};

pub const STATIC_KEYS: StormKind = StormKind {
    name: "static-keys",
    about: "switches the static key of scheduler statistics on and off",
    rounds: 60,
    pace: Duration::from_millis(50),
    ready: |_| SwitchFile::ready("/proc/sys/kernel/sched_schedstats", "schedstats"),
    ..StormKind::USUAL
};

pub const TRACEPOINTS: StormKind = StormKind {
    name: "tracepoints",
    about: "switches a tracepoint on and off, by a static key and a static call",
    rounds: 25,
    pace: Duration::from_millis(100),
    ready: |_| {
        let instance = StormInstance::make("isolator-tracepoints", false)?;
        instance.write(EVENT, "0")?;
        Ok(Box::new(Tracepoint(instance)))
    },
    ..StormKind::USUAL
};

/// A file of a switch that reads as 0 or 1.
struct SwitchFile {
    file: PathBuf,
    what: &'static str,
    before: String,
    switched: u64,
}

impl SwitchFile {
    fn ready(file: &str, what: &'static str) -> Result<Box<dyn Storm>> {
        let file = Path::new(file).to_path_buf();
        let before = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(Box::new(SwitchFile { file, what, before, switched: 0 }))
    }

    fn set(&mut self, value: &str) -> Result<()> {
        fs::write(&self.file, value)?;
        if fs::read_to_string(&self.file)?.trim() != value {
            return Err(format!("{} stays as it was", self.file.display()).into());
        }
        self.switched += 1;
        Ok(())
    }
}

impl Storm for SwitchFile {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        self.set("1")?;
        self.set("0")
    }

    fn end(&mut self, _: u64) -> Result<String> {
        fs::write(&self.file, self.before.trim())?;
        Ok(format!("{} switched {} times", self.what, self.switched))
    }
}

/// The event of a tracepoint with a few places in the kernel, which a storm can make happen.
const EVENT: &str = "events/task/task_rename/enable";

struct Tracepoint(StormInstance);

impl Storm for Tracepoint {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        self.0.write(EVENT, "1")?;
        fs::write("/proc/thread-self/comm", "storm")?;
        self.0.write(EVENT, "0")
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        match self.0.entries()? {
            seen if seen < rounds => {
                Err(format!("{rounds} times on, task:task_rename was seen {seen} times").into())
            }
            seen => {
                Ok(format!("task:task_rename switched {} times, and seen {seen} times while on", 2 * rounds))
            }
        }
    }
}
