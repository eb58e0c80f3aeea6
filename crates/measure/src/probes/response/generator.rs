// SPDX-License-Identifier: MIT OR Apache-2.0
//! A generator on another CPU of this machine: a thread that gives edges to the responder and takes the
//! times.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use machine::units::{count, exact_us, us};
use rt::clock::{Calibration, monotonic_ns};
use rt::setup::Setup;
use rt::{Error, Policy, Result};

use super::poll::{self, GeneratorCounts, MemoryEnd};
use super::{Open, Role, nothing_came};
use crate::pace::Pace;
use crate::probe::LoopOutcome;
use crate::samples::Samples;
use crate::schedule::Cycles;
use crate::watch::Seat;

/// The order to a generator once the row begins.
pub(super) struct GeneratorWork {
    pub cycles: Cycles,
    pub clock: Calibration,
    pub mind_ns: u64,
    pub samples: Samples,
}

/// How edges are given.
type Gives = Box<dyn FnOnce(Pace<'_>, &mut GeneratorWork, &AtomicBool) -> GeneratorCounts + Send>;

/// The thread that gives edges to a responder of this machine.
#[derive(Debug)]
pub(super) struct Generator {
    cpu: u32,
    /// Its thread, as it is watched.
    pub seat: Option<Arc<Seat>>,
    begin: mpsc::Sender<GeneratorWork>,
    thread: JoinHandle<GeneratorCounts>,
    pub done: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

/// Says that the generator is done, however it ends.
struct SaysDone(Arc<AtomicBool>);

impl Drop for SaysDone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Generator {
    /// Starts it on `cpu` with that policy, to give edges to `measured`; it waits for
    /// [`Generator::answered`].
    pub fn start(cpu: u32, policy: Policy, measured: u32, open: &Open) -> Result<Generator> {
        let refuse = |error: &io::Error| {
            Error::os("start the thread that generates edges", error, "raise the limit on processes")
        };
        let gives: Gives = match open {
            Open::Own(memory) => {
                let memory = Arc::clone(memory);
                Box::new(move |pace, work, end| {
                    let ends = MemoryEnd { input: &memory[1], output: &memory[0] };
                    poll::generate(&ends, pace, &work.clock, work.mind_ns, &mut work.samples, end)
                })
            }
            Open::Signal(words) => {
                let ends = Open::end(words, true)?;
                Box::new(move |pace, work, end| {
                    poll::generate(&ends, pace, &work.clock, work.mind_ns, &mut work.samples, end)
                })
            }
            Open::Pins(_) | Open::Lines(_) => Box::new(|_, _, _| GeneratorCounts::default()),
        };
        let (begin, begins) = mpsc::channel::<GeneratorWork>();
        let (say, said) = mpsc::channel();
        let (done, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (says_done, ends) = (SaysDone(Arc::clone(&done)), Arc::clone(&end));
        let thread = std::thread::Builder::new().name(format!("edges-{cpu}")).spawn(move || {
            let _says_done = says_done;
            let set_up = Setup { cpus: vec![cpu], policy, lock_memory: false }.apply();
            let seat = Seat::own("the thread that gives edges".into(), measured);
            // Who started it waits for this.
            let _ = say.send(set_up.map(|_| seat.clone()));
            // If the row never begins, the sender is gone.
            let Ok(mut work) = begins.recv() else { return GeneratorCounts::default() };
            let cycles = work.cycles;
            let pace = Pace::new(&cycles, monotonic_ns()).unmarked();
            let heard = gives(pace, &mut work, &ends);
            // The control thread's last poll comes when it has ended.
            seat.iter().for_each(|seat| seat.poll());
            heard
        });
        let thread = thread.map_err(|error| refuse(&error))?;
        let seat = said.recv().unwrap_or_else(|_| {
            Err(Error::new(
                "start the thread that generates edges",
                "it ended at once",
                "report this as a defect",
            ))
        })?;
        Ok(Generator { cpu, seat, begin, thread, done, end })
    }

    /// Has it begin, and answers its edges until it is done.
    pub fn answered(self, work: GeneratorWork, open: &Open, stop: &AtomicBool) -> LoopOutcome {
        let Generator { cpu, begin, thread, done, end, .. } = self;
        let mind_ns = work.mind_ns;
        // It waits for this; where it is gone, it has said that it is done.
        let _ = begin.send(work);
        match open {
            Open::Own(memory) => {
                poll::answer(&MemoryEnd { input: &memory[0], output: &memory[1] }, &done, stop, &end)
            }
            Open::Signal(words) => {
                if let Ok(ends) = Open::end(words, false) {
                    poll::answer(&ends, &done, stop, &end)
                }
            }
            Open::Pins(_) | Open::Lines(_) => {}
        }
        match thread.join() {
            Ok(GeneratorCounts { answers: 0, .. }) if !stop.load(Ordering::SeqCst) => {
                LoopOutcome { failed: Some(nothing_came(Role::Both)), ..LoopOutcome::default() }
            }
            Ok(heard) => LoopOutcome { note: stood_still(cpu, &heard, mind_ns), ..LoopOutcome::default() },
            Err(_) => {
                let why = "its thread ended in a panic";
                let failed = Some(Error::new("generate edges", why, "report this as a defect"));
                LoopOutcome { failed, ..LoopOutcome::default() }
            }
        }
    }
}

/// The stalls of the generator itself, which its samples do not show.
pub(super) fn stood_still(cpu: u32, heard: &GeneratorCounts, mind_ns: u64) -> Option<String> {
    let GeneratorCounts { stood_still, longest_ns, .. } = *heard;
    (stood_still > 0).then(|| {
        format!(
            "in {} samples the generator on cpu {cpu} itself stood still for longer than {}, {} at the most: \
             these do not say how late the answer was",
            count(stood_still),
            exact_us(mind_ns),
            us(longest_ns)
        )
    })
}
