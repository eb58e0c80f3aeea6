// SPDX-License-Identifier: MIT OR Apache-2.0
//! A measuring thread of a row, from its set-up to what it leaves behind.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use evidence::manifest::Granted;
use rt::isolation::{self, Page, Session, Tick, since};
use rt::setup::Setup;
use rt::thread;

use super::{Ended, Lane, Pen, Probe, Row, Shared};
use crate::message::{self, Partner};
use crate::spin::{self, Spell};
use crate::toggle::{self, Channel};
use crate::wakeup::{self, Cycles, Timer};
use crate::watch::{Seat, measuring};
use crate::{ethercat, response};

/// A column of the spin probe's persistence picture: a sweep of 100 is as long as a wakeup sweep at 1 kHz.
const SPIN_COLUMN_NS: u64 = 1_000_000;

/// What a measuring thread has once it is set up.
struct Ready {
    timer: Timer,
    partner: Option<Partner>,
    response: Option<response::Ready>,
    ethercat: Option<ethercat::Ready>,
    session: Option<Session>,
    seats: Vec<Arc<Seat>>,
}

/// What a measuring thread tells once it is set up: what it was granted, and the threads that are watched.
pub(super) type SetUp = (Granted, Vec<Arc<Seat>>);

/// What a measuring thread takes along.
pub(super) struct Body {
    pub row: Row,
    pub lane: Lane,
    pub shared: Arc<Shared>,
}

impl Body {
    pub fn run(self, pen: Pen, send: &mpsc::Sender<rt::Result<SetUp>>) -> Ended {
        let (granted, ready) = match self.set_up() {
            Ok((granted, ready)) => (Ok((granted, ready.seats.clone())), Some(ready)),
            Err(error) => (Err(error), None),
        };
        // The control thread waits for this message; it cannot have gone.
        let _ = send.send(granted);
        let Some(Ready { timer, partner, response, mut ethercat, session, seats }) = ready else {
            return Ended::default();
        };
        let start_ns = self.shared.wait(|| match &mut ethercat {
            Some(ready) => ready.keep_alive(),
            None => std::thread::sleep(Duration::from_millis(1)),
        });
        let Some(start_ns) = start_ns else { return Ended::default() };
        if let Some(session) = &session {
            // Lets those run that came to this CPU meanwhile. Where that is refused, isolation has ended, which the
            // counters will tell.
            let _ = session.tick(Tick::SCHED | Tick::RT);
        }
        let page = session.as_ref().map(Session::page);
        let counted = page.map(Page::counters).unwrap_or_default();
        let end_ns = self.row.end_ns(start_ns);
        let stop = &self.shared.stop;
        let before = thread::page_faults();
        // Asked before the next system call, which is an entry of its own.
        let isolation = || page.map(|page| since(&counted, &page.counters()));
        let period_ns = self.lane.key.period_ns.unwrap_or(u64::MAX);
        let cycles = Cycles { period_ns, start_ns, end_ns, loops: self.row.loops };
        let ended = match pen {
            Pen::Wakeups(mut samples) => {
                let (mut failed, mut note) = (None, None);
                match (&self.row.probe, &partner) {
                    (Probe::Response { clock, .. }, _) => {
                        let mind_ns = self.lane.threshold_ns;
                        let told = response.map(|ready| ready.run(&cycles, clock, mind_ns, samples, stop));
                        (failed, note) = told.map(|told| (told.failed, told.note)).unwrap_or_default();
                    }
                    (Probe::Toggle { clock }, _) => {
                        toggle::run(&cycles, clock, &Channel::default(), &mut samples, stop)
                    }
                    (Probe::Message { clock, .. }, Some(partner)) => {
                        failed = message::run(&cycles, clock, partner, &mut samples, stop).err()
                    }
                    _ => wakeup::run(&cycles, &timer, &mut samples, stop),
                }
                let isolation = isolation();
                let page_faults = thread::page_faults() - before;
                Ended { page_faults, isolation, failed, note, ..Ended::default() }
            }
            Pen::Ethercat(mut pens) => {
                let told = ethercat.map(|ready| ready.run(&cycles, &mut pens, stop));
                let isolation = isolation();
                let page_faults = thread::page_faults() - before;
                let (exchanged, failed) = told.unzip();
                let note = exchanged.as_ref().map(ethercat::words);
                Ended {
                    page_faults,
                    isolation,
                    failed: failed.flatten(),
                    note,
                    exchanged,
                    ..Ended::default()
                }
            }
            Pen::Gaps(mut recorder, short) => {
                let threshold_ns = self.lane.threshold_ns;
                let spell = Spell { start_ns, end_ns, threshold_ns, column_ns: SPIN_COLUMN_NS };
                let drift =
                    self.row.clock().map(|clock| spin::run(&spell, &clock, &short, &mut recorder, stop));
                let isolation = isolation();
                let page_faults = thread::page_faults() - before;
                recorder.finish();
                Ended { page_faults, drift, isolation, ..Ended::default() }
            }
        };
        // Once more after the control thread's last look, while the threads are there.
        seats.iter().for_each(|seat| seat.look());
        drop(partner);
        ended
    }

    fn set_up(&self) -> rt::Result<(Granted, Ready)> {
        let setup = Setup {
            cpus: self.lane.affinity.clone(),
            policy: self.lane.policy,
            lock_memory: self.row.lock_memory,
        };
        let timer = match &self.row.probe {
            Probe::Wakeup { timer } => Timer::named(timer)?,
            _ => Timer::Nanosleep,
        };
        // Before this thread has a policy that what it starts would have too.
        let partner = match (&self.row.probe, self.lane.partner) {
            (Probe::Message { means, .. }, Some((cpu, policy))) => Some(Partner::start(*means, cpu, policy)?),
            _ => None,
        };
        let response = match &self.row.probe {
            Probe::Response { wiring, .. } => {
                Some(response::Ready::new(wiring, self.lane.partner, self.lane.key.cpu)?)
            }
            _ => None,
        };
        let ethercat = match &self.row.probe {
            Probe::Ethercat { wire } => {
                Some(ethercat::Ready::new(wire, self.lane.key.period_ns.unwrap_or(1_000_000))?)
            }
            _ => None,
        };
        let granted = setup.apply()?;
        let cpu = self.lane.key.cpu;
        let answers = |id: u32| Seat::of("the thread that answers".into(), std::process::id(), id, cpu, None);
        let seats = [
            Seat::own(measuring(&self.lane.key), cpu),
            partner.as_ref().and_then(|partner| answers(partner.number())),
            response.as_ref().and_then(response::Ready::seat),
        ];
        // Last: the kernel looks at affinity, policy and memory.
        let session = self.row.isolate.map(isolation::start).transpose()?;
        let counter_hz = self.row.clock().map(|clock| clock.hz);
        let other = self.lane.partner.map(|(cpu, _)| cpu);
        let granted = Granted {
            policy: Some(granted.policy.name().to_string()),
            priority: granted.policy.priority(),
            affinity: Some(granted.affinity.into_iter().collect()),
            memory_locked: Some(granted.memory.is_ok()),
            counter_hz,
            thread: Some(thread::id()),
            answers_on: other.filter(|_| response.is_none()),
            edges_from: other.filter(|_| response.is_some()),
            ..Granted::default()
        };
        let seats = seats.into_iter().flatten().collect();
        Ok((granted, Ready { timer, partner, response, ethercat, session, seats }))
    }
}
