// SPDX-License-Identifier: MIT OR Apache-2.0
//! A third CPU goes offline and comes back: the first stops every CPU for a moment (stop_machine).

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::guest::Result;
use crate::guest::storm::{Context, Storm, StormKind};

pub const HOTPLUG: StormKind = StormKind {
    name: "hotplug",
    about: "takes a third CPU offline and online again; needs a guest with --cpus 3",
    rounds: 5,
    pace: Duration::from_millis(500),
    ready: |context| Ok(Box::new(Plug::ready(context)?)),
    ..StormKind::USUAL
};

struct Plug(PathBuf);

impl Plug {
    fn ready(context: &Context) -> Result<Plug> {
        let cpu = (1..4096).find(|cpu| !context.measured.iter().any(|measured| measured == *cpu));
        let file = PathBuf::from(format!("/sys/devices/system/cpu/cpu{}/online", cpu.unwrap_or_default()));
        if !file.exists() {
            return Err(
                "there is no CPU to take offline beside the first and the isolated one; run it with --cpus 3"
                    .into(),
            );
        }
        Ok(Plug(file))
    }

    fn set(&self, value: &str) -> Result<()> {
        fs::write(&self.0, value).map_err(|e| format!("{} = {value}: {e}", self.0.display()))?;
        if fs::read_to_string(&self.0)?.trim() == value {
            return Ok(());
        }
        Err(format!("{} stays as it was", self.0.display()).into())
    }
}

impl Storm for Plug {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        self.set("0")?;
        self.set("1")
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        self.set("1")?;
        Ok(format!("{} switched off and on {rounds} times", self.0.display()))
    }
}
