// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expedited RCU grace periods, which ask CPUs by IPI: each unmounting waits for one (namespace_unlock ->
//! synchronize_rcu_expedited). Real-time kernels turn them into ordinary ones unless told not to.

use std::fs;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::guest::Result;
use crate::guest::storm::{Context, Storm, StormKind};

pub const RCU_EXPEDITED: StormKind = StormKind {
    name: "rcu-expedited",
    about: "waits for expedited RCU grace periods, by unmounting",
    rounds: 25,
    pace: Duration::from_millis(100),
    ready: |_| Ok(Box::new(Graces::ready()?)),
    ..StormKind::USUAL
};

const AT: &str = "/tmp/isolator-rcu";
const NORMAL: &str = "/sys/kernel/rcu_normal";
const EXPEDITED: &str = "/sys/kernel/rcu_expedited";

struct Graces {
    normal: String,
    expedited: String,
}

impl Graces {
    fn ready() -> Result<Graces> {
        let read = |file| fs::read_to_string(file).map_err(|e| format!("{file}: {e}"));
        let before = Graces { normal: read(NORMAL)?, expedited: read(EXPEDITED)? };
        fs::create_dir_all(AT)?;
        for (file, value) in [(NORMAL, "0"), (EXPEDITED, "1")] {
            fs::write(file, value).map_err(|e| format!("{file}: {e}"))?;
            if read(file)?.trim() != value {
                return Err(format!("{file} stays as it was").into());
            }
        }
        Ok(before)
    }
}

fn mounted() -> Result<bool> {
    Ok(fs::read_to_string("/proc/self/mounts")?.contains(AT))
}

impl Storm for Graces {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        mount("tmpfs", AT, "tmpfs", MountFlags::empty(), None)?;
        if !mounted()? {
            return Err(format!("nothing is mounted on {AT}").into());
        }
        unmount(AT, UnmountFlags::empty())?;
        Ok(())
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        fs::write(NORMAL, self.normal.trim())?;
        fs::write(EXPEDITED, self.expedited.trim())?;
        if mounted()? {
            return Err(format!("{AT} is still mounted").into());
        }
        fs::remove_dir(AT)?;
        Ok(format!("{rounds} expedited grace periods waited for, one for each unmounting"))
    }
}
