// SPDX-License-Identifier: MIT OR Apache-2.0
//! Performance events on the isolated CPU, asked for from another one: each is set up and removed there by an
//! IPI. One with a period is a timer there, the only one that another CPU can arm: timers of programs are
//! armed where they run, and beside the measuring thread none runs.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::time::Duration;

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{Result, sys};

pub const PERF_OPEN: StormKind = StormKind {
    name: "perf-open",
    about: "opens performance events on the isolated CPU, reads and closes them",
    rounds: 24,
    pace: Duration::from_millis(100),
    ready: |_| Ok(Box::new(Events::new(0))),
    ..StormKind::USUAL
};

pub const TIMERS: StormKind = StormKind {
    name: "timers",
    about: "arms timers on the isolated CPU, 100 in a second, by performance events of its clock",
    rounds: 5,
    pace: Duration::from_millis(500),
    ready: |_| Ok(Box::new(Events::new(10_000_000))),
    ..StormKind::USUAL
};

/// Events, one at a time, each from one round to the next.
struct Events {
    period_ns: u64,
    open: Option<File>,
    opened: u64,
    refused: u64,
    counted_ns: u64,
}

impl Events {
    fn new(period_ns: u64) -> Events {
        Events { period_ns, open: None, opened: 0, refused: 0, counted_ns: 0 }
    }

    fn close(&mut self) -> Result<()> {
        let Some(mut event) = self.open.take() else { return Ok(()) };
        let mut counted = [0; 8];
        event.read_exact(&mut counted)?;
        match u64::from_ne_bytes(counted) {
            0 => Err("an event counted nothing".into()),
            ns => {
                self.counted_ns += ns;
                Ok(())
            }
        }
    }
}

impl Storm for Events {
    fn round(&mut self, context: &mut Context) -> Result<()> {
        self.close()?;
        match sys::perf_cpu_clock(context.target, self.period_ns) {
            Ok(event) => {
                self.opened += 1;
                self.open = Some(event.into());
            }
            // A kernel may keep events from an isolated CPU: that is an answer.
            Err(why) if why.kind() == ErrorKind::ResourceBusy => self.refused += 1,
            Err(why) => return Err(format!("perf_event_open: {why}").into()),
        }
        Ok(())
    }

    fn end(&mut self, _: u64) -> Result<String> {
        self.close()?;
        let (opened, refused, ms) = (self.opened, self.refused, self.counted_ns / 1_000_000);
        let what = match self.period_ns {
            0 => String::new(),
            period => format!(", each with a timer every {} ms", period / 1_000_000),
        };
        let refused = if refused == 0 { String::new() } else { format!("; {refused} refused by the kernel") };
        Ok(format!("{opened} events opened{what}, which counted {ms} ms{refused}"))
    }
}
