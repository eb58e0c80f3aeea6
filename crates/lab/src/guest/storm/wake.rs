// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wakeups of ordinary tasks that are pinned to the isolated CPU. They wait there behind the measuring
//! thread: until the fair server lets them run, or until it is gone.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};

use crate::guest::Result;
use crate::guest::storm::{Context, Storm, StormKind};

pub const WAKE_PINNED: StormKind = StormKind {
    name: "wake-pinned",
    about: "wakes ordinary tasks that are pinned to the isolated CPU",
    rounds: 20,
    pace: Duration::from_millis(150),
    ready: |context| Ok(Box::new(Wakes::ready(context.target, context.rounds)?)),
    ..StormKind::USUAL
};

struct Wakes {
    /// One for each round: a task that was woken and does not get to run cannot be woken again.
    asleep: Vec<OwnedFd>,
    ran: Arc<AtomicU64>,
}

impl Wakes {
    fn ready(target: u32, rounds: u64) -> Result<Wakes> {
        // Two descriptors a task, which may be more than a program is given at first.
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
        let ran = Arc::new(AtomicU64::new(0));
        let mut cpus = CpuSet::new();
        cpus.set(target as usize);
        let mut asleep = Vec::new();
        for _ in 0..rounds {
            let alarm = eventfd(0, EventfdFlags::CLOEXEC)?;
            let (at, ran, (tell, told)) = (alarm.try_clone()?, ran.clone(), channel());
            std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
                let _ = tell.send(gettid());
                // It goes back to sleep and does not end there: the end of a thread is long and holds RCU's
                // grace periods up where the measuring thread takes the CPU back in the
                // middle of it.
                while rustix::io::read(&at, &mut [0; 8]).is_ok() {
                    ran.fetch_add(1, Relaxed);
                }
            })?;
            pin_asleep(told.recv()?, &cpus)?;
            asleep.push(alarm);
        }
        Ok(Wakes { asleep, ran })
    }
}

/// Pins a task once it sleeps: one that runs would be moved there at once.
fn pin_asleep(task: Pid, cpus: &CpuSet) -> Result<()> {
    let state = format!("/proc/self/task/{}/stat", task.as_raw_nonzero());
    // `number (name) state …`; the name may hold spaces.
    while fs::read_to_string(&state)?.rsplit_once(") ").is_none_or(|(_, rest)| !rest.starts_with('S')) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(sched_setaffinity(Some(task), cpus).map_err(|e| format!("cannot pin a task: {e}"))?)
}

impl Storm for Wakes {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        let alarm = self.asleep.pop().ok_or("no task sleeps any more")?;
        rustix::io::write(alarm.as_fd(), &1u64.to_ne_bytes())?;
        Ok(())
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        let ran = self.ran.load(Relaxed);
        Ok(format!("{rounds} pinned tasks woken; {ran} of them got to run while the CPU was measured"))
    }
}
