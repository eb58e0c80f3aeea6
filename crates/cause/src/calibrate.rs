// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the time of entry and exit on a CPU. A thread there reads the clock without pause while memory
//! barriers and the CPU's tick interrupt it; it also sleeps now and then. Its gaps are compared with the
//! events.
//!
//! The bound is twice the upper quartile. So of two kinds of interruptions the slower one counts (the path to
//! a timer is longer than that to a function call), and an interruption by a hypervisor or a device does not
//! change it. It is measured before each row, under the row's load, and with pauses, since a spike is rare
//! and finds its code displaced from the caches. (In an emulator, interruptions 0.3 ms apart gave bounds that
//! left half of later ones unexplained.)

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rt::clock::{monotonic_ns, timespec};
use rt::thread;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::ClockId;

use crate::Result;
use crate::account::around;
use crate::edges::Edges;
use crate::event::Event;

/// Interruptions, and sleeps.
const ROUNDS: usize = 32;

/// Fewer interruptions give no bound.
const ENOUGH: usize = ROUNDS / 4;

const PAUSE: Duration = Duration::from_millis(4);
const SLEEP_NS: u64 = 1_000_000;

/// A CPU that does not run the thread for so long is not calibrated.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most gaps that are kept; a starved machine has many.
const GAPS: usize = 4096;

/// Two reads of the clock are a gap if they are so many times further apart than the closest two.
const LATE: u64 = 8;

/// Gaps in the thread's program, and the thread's number.
#[derive(Debug)]
pub struct Windows {
    thread: u32,
    windows: Vec<Range<u64>>,
}

/// Reasons for a partial calibration.
pub(crate) type Lacking<T> = std::result::Result<T, String>;

impl Windows {
    /// The begin of the first window.
    pub fn begin_ns(&self) -> u64 {
        self.windows.iter().map(|window| window.start).min().unwrap_or(u64::MAX)
    }

    /// Interrupts a thread on `cpu`, after it called `armed` with its number. The inner error is a reason why
    /// this CPU's edges cannot be measured.
    pub fn on(cpu: u32, armed: impl FnOnce(u32) -> Result<()>) -> Result<Lacking<Windows>> {
        let over = Arc::new(AtomicBool::new(false));
        let (say, said) = channel();
        let (go, gone) = channel();
        let seen = Arc::clone(&over);
        let spawned = std::thread::Builder::new()
            .name("calibrate".into())
            .spawn(move || watched(cpu, &say, &gone, &seen));
        if let Err(why) = spawned {
            return Ok(Err(format!("no thread can be started: {why}")));
        }
        let thread = match hear(&said) {
            Ok(Said::Ready(thread)) => thread,
            Ok(_) => return Ok(Err("its thread gave an unexpected answer".into())),
            Err(why) => return Ok(Err(why)),
        };
        armed(thread)?;
        let windows = go.send(()).map_err(|_| "its thread has ended".to_string()).and_then(|()| {
            let slept = hear(&said)?;
            let sent = interrupt();
            over.store(true, Ordering::SeqCst);
            let looked = hear(&said)?;
            sent?;
            Ok([slept, looked])
        });
        // Also where it was given up: it ends as soon as it runs.
        over.store(true, Ordering::SeqCst);
        let windows = windows.map(|said| {
            let windows = said.into_iter().flat_map(|said| match said {
                Said::Windows(windows) => windows,
                Said::Ready(_) | Said::Refused(_) => Vec::new(),
            });
            Windows { thread, windows: windows.collect() }
        });
        Ok(windows)
    }
}

/// Twice the upper quartiles of the edges that events show for those windows.
pub fn calibrated(cpu: u32, events: &[Event], seen: &Windows) -> Lacking<Edges> {
    let own = [seen.thread];
    let parts = seen.windows.iter().filter_map(|window| around(cpu, events, window.clone(), &own));
    let (mut entries, mut exits, mut returns) = (Vec::new(), Vec::new(), Vec::new());
    for (entry, exit) in parts {
        match entry {
            Some(entry) => {
                entries.push(entry);
                exits.push(exit);
            }
            None => returns.push(exit),
        }
    }
    if entries.len() < ENOUGH {
        let (few, windows) = (entries.len(), seen.windows.len());
        return Err(format!("events show {few} of {ROUNDS} provoked interruptions, in {windows} gaps"));
    }
    let (entry_ns, exit_ns) = (bound(entries), bound(exits));
    let return_ns = if returns.len() < ENOUGH { exit_ns } else { bound(returns) };
    Ok(Edges { entry_ns, exit_ns, return_ns })
}

fn bound(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() * 3 / 4).map_or(0, |quartile| quartile.saturating_mul(2))
}

/// The thread's answer.
enum Said {
    Ready(u32),
    Refused(String),
    Windows(Vec<Range<u64>>),
}

fn hear(said: &Receiver<Said>) -> Lacking<Said> {
    match said.recv_timeout(PATIENCE) {
        Ok(Said::Refused(why)) => Err(why),
        Ok(said) => Ok(said),
        Err(_) => Err(format!("another thread had the CPU for {PATIENCE:?}")),
    }
}

/// Makes the kernel interrupt the thread.
fn interrupt() -> Lacking<()> {
    thread::join_own_barriers().map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS {
        std::thread::sleep(PAUSE);
        thread::own_barrier().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The thread. Its answer is lost only where it was given up.
fn watched(cpu: u32, say: &Sender<Said>, go: &Receiver<()>, over: &AtomicBool) {
    if let Err(error) = thread::set_affinity(&[cpu]) {
        let _ = say.send(Said::Refused(error.to_string()));
        return;
    }
    let _ = say.send(Said::Ready(thread::id()));
    if go.recv().is_err() {
        return;
    }
    let mut sleeps = Vec::with_capacity(ROUNDS);
    while sleeps.len() < ROUNDS && !over.load(Ordering::SeqCst) {
        let due_ns = monotonic_ns() + SLEEP_NS;
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(due_ns));
        sleeps.push(due_ns..monotonic_ns().max(due_ns));
    }
    let _ = say.send(Said::Windows(sleeps));
    // If the kernel refuses the tick, a CPU in nohz_full= is calibrated by barriers alone.
    let _ticked = thread::Ticked::new();
    let mut gaps = Vec::with_capacity(GAPS);
    let mut last_ns = monotonic_ns();
    let mut least_ns = u64::MAX;
    while !over.load(Ordering::Relaxed) {
        let now_ns = black_box(monotonic_ns());
        let step_ns = now_ns - last_ns;
        least_ns = least_ns.min(step_ns.max(1));
        if step_ns > least_ns.saturating_mul(LATE) && gaps.len() < GAPS {
            gaps.push(last_ns..now_ns);
        }
        last_ns = now_ns;
    }
    let _ = say.send(Said::Windows(gaps));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ContextKind, EventKind, Task, Vector};

    const IPI: ContextKind = ContextKind::Vector(Vector::CallFunction);

    fn at(monotonic_ns: u64, kind: EventKind) -> Event {
        Event { monotonic_ns, cpu: 1, kind }
    }

    /// An interruption each millisecond, with an entry of 300 ns and an exit of 500 ns; every tenth takes far
    /// longer.
    fn interrupted(times: u64) -> (Vec<Event>, Vec<Range<u64>>) {
        let to = |pid| Task { pid, ..Task::default() };
        let mut events = vec![at(0, EventKind::Switch { from: 0, to: to(7) })];
        let mut windows = Vec::new();
        for n in 1..=times {
            let begin = n * 1_000_000;
            let slow = if n % 10 == 0 { 90_000 } else { 0 };
            events.push(at(begin, EventKind::Enter(IPI)));
            events.push(at(begin + 200, EventKind::Exit(IPI)));
            windows.push(begin - 300 - slow..begin + 700 + slow);
        }
        (events, windows)
    }

    #[test]
    fn a_bound_is_twice_the_upper_quartile() {
        let (events, windows) = interrupted(64);
        let edges = calibrated(1, &events, &Windows { thread: 7, windows });
        assert_eq!(edges, Ok(Edges { entry_ns: 600, exit_ns: 1_000, return_ns: 1_000 }));
    }

    #[test]
    fn a_thread_that_slept_shows_its_return() {
        let (mut events, mut windows) = interrupted(64);
        for n in 100..200 {
            let due = n * 1_000_000;
            events.push(at(due - 500_000, EventKind::Switch { from: 7, to: Task::default() }));
            events.push(at(due + 900, EventKind::Switch { from: 0, to: Task { pid: 7, ..Task::default() } }));
            windows.push(due..due + 1_000);
        }
        let edges = calibrated(1, &events, &Windows { thread: 7, windows }).unwrap();
        assert_eq!((edges.return_ns, edges.entry_ns), (200, 600));
    }

    #[test]
    fn few_interruptions_give_no_bound() {
        let (events, windows) = interrupted(ENOUGH as u64 - 1);
        let said = calibrated(1, &events, &Windows { thread: 7, windows }).unwrap_err();
        assert_eq!(said, "events show 7 of 32 provoked interruptions, in 7 gaps");
        let (_, windows) = interrupted(64);
        assert!(calibrated(1, &[], &Windows { thread: 7, windows }).is_err());
    }

    #[test]
    fn reports_a_cpu_that_does_not_exist() {
        let said = Windows::on(1023, |_| Ok(())).unwrap().unwrap_err();
        assert!(said.starts_with("cannot run on cpus [1023]: "), "{said}");
    }

    /// No collector is needed: the interruptions are memory barriers, which any user may request.
    #[test]
    fn interrupts_its_own_thread_and_leaves_nothing() {
        let Some(cpu) = thread::affinity().into_iter().next() else { return };
        let mut armed = None;
        let windows = Windows::on(cpu, |thread| {
            armed = Some(thread);
            Ok(())
        });
        match windows.unwrap() {
            Ok(windows) => {
                assert_eq!(Some(windows.thread), armed);
                assert!(windows.windows.len() >= ROUNDS, "it slept {ROUNDS} times");
                assert!(windows.windows.iter().all(|window| window.start <= window.end));
            }
            // A starved machine, or a kernel without barriers.
            Err(why) => assert!(why.contains("CPU for") || why.contains("CONFIG_MEMBARRIER"), "{why}"),
        }
    }
}
