// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals to the measuring program: one that it ignores, and one that another of its threads handles.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::process::{Signal, getpid, kill_process};

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{Result, sys};

pub const SIGNALS: StormKind = StormKind {
    name: "signals",
    about: "sends the measuring program a signal that it ignores and one that its other threads handle",
    ready: |context| {
        TARGET.store(context.target, Relaxed);
        sys::handle(libc::SIGUSR1, handler)?;
        Ok(Box::new(Signals))
    },
    ..StormKind::USUAL
};

static TARGET: AtomicU32 = AtomicU32::new(u32::MAX);
static HANDLED: AtomicU64 = AtomicU64::new(0);
static HANDLED_ON_TARGET: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: i32) {
    HANDLED.fetch_add(1, Relaxed);
    if rt::thread::current_cpu() == TARGET.load(Relaxed) {
        HANDLED_ON_TARGET.fetch_add(1, Relaxed);
    }
}

struct Signals;

impl Storm for Signals {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        kill_process(getpid(), Signal::URG)?;
        kill_process(getpid(), Signal::USR1)?;
        Ok(())
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        let (handled, on_target) = (HANDLED.load(Relaxed), HANDLED_ON_TARGET.load(Relaxed));
        match handled {
            0 => Err(format!("{rounds} signals sent, none was handled").into()),
            _ => Ok(format!(
                "{rounds} ignored signals and {rounds} others sent; {handled} were handled, {on_target} of them on the isolated CPU"
            )),
        }
    }
}
