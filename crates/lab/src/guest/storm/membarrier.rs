// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory barriers that a program asks of other CPUs, membarrier(2): of those that run its own threads, and
//! of those whose programs asked to be included. None of the second kind is measured.

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{Result, sys};

pub const OWN: StormKind = StormKind {
    name: "membarrier-own",
    about: "the measuring program's other thread asks for memory barriers of all its threads",
    ready: |_| Barriers::ready(&[PRIVATE]),
    ..StormKind::USUAL
};

pub const OTHER: StormKind = StormKind {
    name: "membarrier-other",
    about: "another program asks for memory barriers, of its own threads and globally",
    ready: |_| Barriers::ready(&[PRIVATE, GLOBAL_EXPEDITED, GLOBAL]),
    ..StormKind::USUAL
};

/// A command of membarrier(2), the one that registers for it, and its name.
type MembarrierCommand = (i32, Option<i32>, &'static str);

// linux/membarrier.h
const QUERY: i32 = 0;
const GLOBAL: MembarrierCommand = (1 << 0, None, "global");
const GLOBAL_EXPEDITED: MembarrierCommand = (1 << 1, Some(1 << 2), "global expedited");
const PRIVATE: MembarrierCommand = (1 << 3, Some(1 << 4), "private expedited");

struct Barriers {
    commands: Vec<MembarrierCommand>,
    done: u64,
}

impl Barriers {
    /// Kernels with nohz_full= have no global one.
    fn ready(commands: &[MembarrierCommand]) -> Result<Box<dyn Storm>> {
        let offered = sys::membarrier(QUERY).map_err(|e| format!("membarrier: {e}"))?;
        let commands = commands.iter().copied().filter(|(command, ..)| offered & command != 0);
        let commands = commands.collect::<Vec<_>>();
        for (_, register, _) in &commands {
            register.map(sys::membarrier).transpose()?;
        }
        if commands.is_empty() {
            return Err("this kernel offers no such membarrier".into());
        }
        Ok(Box::new(Barriers { commands, done: 0 }))
    }
}

impl Storm for Barriers {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        for (command, _, name) in &self.commands {
            sys::membarrier(*command).map_err(|e| format!("{name}: {e}"))?;
            self.done += 1;
        }
        Ok(())
    }

    fn end(&mut self, _: u64) -> Result<String> {
        let names = self.commands.iter().map(|(.., name)| *name).collect::<Vec<_>>().join(", ");
        Ok(format!("{} barriers ({names})", self.done))
    }
}
