// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owner alone: a process with a single thread that has the isolator give it its CPU and its memory for
//! itself (`exclusive`), and spins. The measuring program cannot be that, since other threads of it write
//! down what it sees; here the scope outside and the kernel's page do.
//!
//! It is told to end through a word in memory that it shares with init: any other way would enter the kernel,
//! inside of the window.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rt::Policy;
use rt::isolation::{self, Mask, Tick, since};
use rt::setup::Setup;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use serde::{Deserialize, Serialize};

use crate::guest::sys::{self, SharedWord};
use crate::guest::{LOOK_EVERY, PATIENCE, Result};

/// The hidden verb under which this program is the owner.
pub const VERB: &str = "lab-alone";

/// Thrown away at the beginning: what the start itself leaves to be done.
const WARM_UP: Duration = Duration::from_millis(500);

/// The word says that the window is open, and then that it shall end.
const OPEN: u32 = 1;
const END: u32 = 2;

/// The order to the owner.
#[derive(Debug, Serialize, Deserialize)]
struct OwnerOrder {
    cpu: u32,
    isolate: String,
    word: i32,
}

/// The owner as init sees it.
pub struct Alone {
    process: Child,
    word: SharedWord,
}

impl Alone {
    /// Starts it; it isolates `cpu`, and waits for nothing.
    pub fn start(cpu: u32, isolate: &str) -> Result<Alone> {
        // Not closed when the owner's program is executed, which finds it by its number.
        let file = memfd_create("isolator-word", MemfdFlags::empty())?;
        ftruncate(&file, 4096)?;
        let word = SharedWord::map(&file)?;
        let order = OwnerOrder { cpu, isolate: isolate.to_string(), word: file.as_raw_fd() };
        let process = Command::new("/proc/self/exe")
            .args([VERB, &serde_json::to_string(&order)?])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Alone { process, word })
    }

    /// Waits until its window is open.
    pub fn wait_for_the_window(&mut self) -> Result<()> {
        let began = Instant::now();
        while self.word.get() != OPEN {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("the owner ended with {status} before its window").into());
            }
            if began.elapsed() > PATIENCE {
                self.process.kill()?;
                return Err("the owner did not begin".into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Ends the window; what the kernel counted in it, as JSON.
    pub fn end(mut self) -> Result<String> {
        self.word.set(END);
        let mut said = String::new();
        if let Some(mut out) = self.process.stdout.take() {
            out.read_to_string(&mut said)?;
        }
        match self.process.wait()? {
            status if status.success() => Ok(said),
            status => Err(format!("the owner ended with {status}").into()),
        }
    }
}

/// The owner's main function.
pub fn main(mut args: impl Iterator<Item = String>) -> ExitCode {
    let order = args.next().and_then(|text| serde_json::from_str::<OwnerOrder>(&text).ok());
    let Some(order) = order else { return ExitCode::FAILURE };
    match own(&order) {
        Ok(counted) => {
            println!("{counted}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            // Standard error is the console, where init's words go too.
            eprintln!("isolator: {why}");
            ExitCode::FAILURE
        }
    }
}

fn own(order: &OwnerOrder) -> Result<String> {
    let word = SharedWord::map(&sys::inherited(order.word))?;
    let setup = Setup { cpus: vec![order.cpu], policy: Policy::Fifo(80), lock_memory: true };
    setup.apply()?.memory?;
    let session = isolation::start(Mask::named(&order.isolate)?)?;
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        std::hint::spin_loop();
    }
    session.tick(Tick::SCHED | Tick::RT)?;
    let before = session.page().counters();
    // Written once before: the page is there, and writable, when the window opens.
    word.set(0);
    rt::scope::begin();
    word.set(OPEN);
    while word.get() != END {
        std::hint::spin_loop();
    }
    rt::scope::end();
    let counted = since(&before, &session.page().counters());
    session.stop()?;
    Ok(serde_json::to_string(&counted)?)
}
