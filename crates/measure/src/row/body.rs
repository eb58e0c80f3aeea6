// SPDX-License-Identifier: MIT OR Apache-2.0
//! A measuring thread of a row, from its set-up to what it leaves behind.

use std::sync::{Arc, mpsc};

use evidence::manifest::{Granted, RowKey};
use rt::isolation::{self, Page, Session, Tick, since};
use rt::setup::Setup;
use rt::{Policy, thread};

use super::{Ended, RowShared, RowSpec};
use crate::probe::{Arm, HotLoop};
use crate::watch::{Seat, measuring};

/// A measuring thread once it is set up.
struct ReadyThread {
    hot_loop: Box<dyn HotLoop>,
    session: Option<Session>,
    seats: Vec<Arc<Seat>>,
}

/// A measuring thread's report once it is set up: its grants, and the threads that are watched.
pub(super) type SetUp = (Granted, Vec<Arc<Seat>>);

/// The equipment of a measuring thread.
pub(super) struct Body {
    pub key: RowKey,
    pub policy: Policy,
    pub affinity: Vec<u32>,
    pub spec: RowSpec,
    pub shared: Arc<RowShared>,
}

impl Body {
    pub fn run(self, arm: Arm, send: &mpsc::Sender<rt::Result<SetUp>>) -> Ended {
        let (granted, ready) = match self.set_up(arm) {
            Ok((granted, ready)) => (Ok((granted, ready.seats.clone())), Some(ready)),
            Err(error) => (Err(error), None),
        };
        // The control thread waits for this message; it cannot have gone.
        let _ = send.send(granted);
        let Some(ReadyThread { mut hot_loop, session, seats }) = ready else { return Ended::default() };
        let Some(start_ns) = self.shared.wait(|| hot_loop.keep_alive()) else { return Ended::default() };
        if let Some(session) = &session {
            // Lets those run that came to this CPU meanwhile. Where that is refused, isolation has ended,
            // which the counters will tell.
            let _ = session.tick(Tick::SCHED | Tick::RT);
        }
        let page = session.as_ref().map(Session::page);
        let counted = page.map(Page::counters).unwrap_or_default();
        let window = self.spec.length.from(start_ns);
        let before = thread::page_faults();
        hot_loop.run(&window, &self.shared.stop);
        // Read before the next system call, which is an entry of its own.
        let isolation = page.map(|page| since(&counted, &page.counters()));
        let page_faults = thread::page_faults() - before;
        // Once more after the control thread's last poll, while the threads are there.
        seats.iter().for_each(|seat| seat.poll());
        Ended { page_faults, isolation, outcome: hot_loop.ended() }
    }

    fn set_up(&self, arm: Arm) -> rt::Result<(Granted, ReadyThread)> {
        let (policy, lock_memory) = (self.policy, self.spec.lock_memory);
        // Before this thread has a policy that what it starts would have too.
        let hot_loop = arm()?;
        let granted = Setup { cpus: self.affinity.clone(), policy, lock_memory }.apply()?;
        let own = Seat::own(measuring(&self.key), self.key.cpu);
        let seats = own.into_iter().chain(hot_loop.helpers()).collect();
        // Last: the kernel looks at affinity, policy and memory.
        let session = self.spec.isolate.map(isolation::start).transpose()?;
        let mut granted = Granted {
            policy: Some(granted.policy.name().to_string()),
            priority: granted.policy.priority(),
            affinity: Some(granted.affinity.into_iter().collect()),
            memory_locked: Some(granted.memory.is_ok()),
            thread: Some(thread::id()),
            ..Granted::default()
        };
        hot_loop.add_to(&mut granted);
        Ok((granted, ReadyThread { hot_loop, session, seats }))
    }
}
