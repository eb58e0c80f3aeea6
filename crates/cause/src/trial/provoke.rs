// SPDX-License-Identifier: MIT OR Apache-2.0
//! Provokes events on a CPU. One thread there sleeps, takes page faults and then spins, with its tick. A
//! second one is moved to the CPU and woken again and again. A third one elsewhere wakes the second, and
//! interrupts the first by memory barriers. The kernel counts the CPU's interrupts.
//!
//! The woken thread has the lowest real-time priority, so that the other CPU sends an interrupt for it, and
//! does nothing. The others are ordinary. They end with the trial; one that does not get its CPU ends as soon
//! as it does.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use inspect::counters::Counters;
use machine::CpuSet;
use machine::counters::CounterClass;
use rt::clock::{monotonic_ns, timespec};
use rt::{Policy, thread};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::ClockId;

use super::kind::{Provoked, TrialKind};
use crate::Result;
use crate::calibrate::Lacking;

/// Sleeps of the thread that is watched.
const SLEEPS: u64 = 8;
const SLEEP_NS: u64 = 1_000_000;

/// Memory barriers, and as many wakeups: with the pause before each they last some ticks of a slow clock.
const ROUNDS: u64 = 16;
const PAUSE: Duration = Duration::from_millis(2);

/// The longest wait for a thread to get its CPU. In an emulator on a busy host that takes long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first touch of a stack takes a page fault for each of its pages.
const STACK: usize = 64 * 1024;
const PAGE: usize = 4096;

/// Provokes events on `cpu` from one of `peers`. It calls `armed` with the number of the interrupted thread
/// before. The inner error is a reason why it cannot.
pub(super) fn on(
    root: &Path,
    cpu: u32,
    peers: &[u32],
    armed: impl FnOnce(u32) -> Result<()>,
) -> Result<Lacking<Provoked>> {
    let shared = Arc::new(Shared::default());
    let (mine, peers) = (Arc::clone(&shared), peers.to_vec());
    // They end also where they are given up.
    let _over = Over(&shared);
    let interrupted = match Seat::start("trial", move |seat| interrupted(cpu, &mine, seat)) {
        Ok(seat) => seat,
        Err(why) => return Ok(Err(why)),
    };
    armed(interrupted.thread)?;
    let before = Counted::now(root, cpu);
    let from_ns = monotonic_ns();
    let mine = Arc::clone(&shared);
    let peer = Seat::start("trial-peer", move |seat| peer(&peers, cpu, &mine, interrupted, seat));
    let outcome = peer.and_then(|peer| Ok((peer.thread, peer.end()?)));
    let mut counts = Counted::now(root, cpu).since(&before);
    Ok(outcome.map(|(by, known)| {
        let Known { interrupted, woken, barriers, counts: own } = known;
        // A wakeup while another thread had the CPU sent no interrupt.
        let calls = counts.get(&TrialKind::CallIpis).copied().unwrap_or(0);
        counts.insert(TrialKind::CallSenders, barriers.min(calls));
        counts.extend(own);
        Provoked { cpu, interrupted, woken, by, from_ns, counts }
    }))
}

/// The state that the threads share.
#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    /// The number of wakeups of that thread.
    wakeups: AtomicU64,
}

/// Sets the end when it is dropped.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
    }
}

/// A thread that reports when it is ready, and waits for a message to go on.
struct Seat<T> {
    thread: u32,
    handle: JoinHandle<()>,
    said: Receiver<Lacking<T>>,
    go: Sender<()>,
}

/// The thread's side of it.
struct Inside<T> {
    say: Sender<Lacking<T>>,
    ready: Sender<Lacking<u32>>,
    go: Receiver<()>,
}

impl<T: Send + 'static> Seat<T> {
    fn start(name: &str, body: impl FnOnce(Inside<T>) + Send + 'static) -> Lacking<Seat<T>> {
        let ((say, said), (ready, is_ready), (go, gone)) = (channel(), channel(), channel());
        let inside = Inside { say, ready, go: gone };
        let spawned = std::thread::Builder::new().name(name.into()).spawn(move || body(inside));
        let handle = spawned.map_err(|why| format!("no thread can be started: {why}"))?;
        let thread = is_ready.recv_timeout(PATIENCE).map_err(|_| starved())??;
        Ok(Seat { thread, handle, said, go })
    }

    fn hear(&self) -> Lacking<T> {
        self.said.recv_timeout(PATIENCE).map_err(|_| starved())?
    }

    /// Its last message; it has ended then.
    fn end(self) -> Lacking<T> {
        let last = self.hear()?;
        self.handle.join().map_err(|_| "its thread panicked".to_string())?;
        Ok(last)
    }
}

fn starved() -> String {
    format!("another thread had the CPU for {PATIENCE:?}")
}

/// The work of the interrupted thread, in two parts: it slept; then it took page faults.
#[derive(Debug)]
enum Did {
    Slept(u64),
    Faulted(u64),
}

fn interrupted(cpu: u32, shared: &Shared, seat: Inside<Did>) {
    let placed = thread::set_affinity(&[cpu]).map(|()| thread::id()).map_err(|error| error.to_string());
    let is_there = placed.is_ok();
    if seat.ready.send(placed).is_err() || !is_there || seat.go.recv().is_err() {
        return;
    }
    for _ in 0..SLEEPS {
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(monotonic_ns() + SLEEP_NS));
    }
    if seat.say.send(Ok(Did::Slept(SLEEPS))).is_err() {
        return;
    }
    let faults = thread::page_faults();
    touch();
    let faults = thread::page_faults() - faults;
    // If this is refused, a CPU in nohz_full= may have no tick meanwhile.
    let _ticked = thread::Ticked::new();
    while !shared.over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    let _ = seat.say.send(Ok(Did::Faulted(faults)));
}

#[inline(never)]
fn touch() {
    let mut pages = [0u8; STACK];
    for page in pages.chunks_mut(PAGE) {
        page[0] = black_box(1);
    }
    black_box(&mut pages);
}

/// The counts that the threads themselves know.
struct Known {
    interrupted: u32,
    woken: u32,
    barriers: u64,
    counts: Vec<(TrialKind, u64)>,
}

fn peer(peers: &[u32], cpu: u32, shared: &Arc<Shared>, interrupted: Seat<Did>, seat: Inside<Known>) {
    // Without another CPU there are no senders, and the trial continues without them.
    let is_apart = !peers.is_empty() && thread::set_affinity(peers).is_ok();
    if seat.ready.send(Ok(thread::id())).is_ok() {
        let _ = seat.say.send(interrupt(cpu, is_apart, shared, interrupted));
    }
}

fn interrupt(cpu: u32, is_apart: bool, shared: &Arc<Shared>, interrupted: Seat<Did>) -> Lacking<Known> {
    let mine = Arc::clone(shared);
    let woken = Seat::start("trial-woken", move |seat| woken(cpu, &mine, seat))?;
    interrupted.go.send(()).map_err(|_| "its thread has ended".to_string())?;
    let Did::Slept(sleeps) = interrupted.hear()? else {
        return Err("its thread gave an unexpected answer".into());
    };
    let may_interrupt = thread::join_own_barriers().is_ok();
    let (mut barriers, mut wakeups) = (0, 0);
    for _ in 0..ROUNDS {
        std::thread::sleep(PAUSE);
        barriers += u64::from(may_interrupt && is_apart && thread::own_barrier().is_ok());
        if sleeps_now(woken.thread) && woken.go.send(()).is_ok() {
            wakeups += 1;
        }
    }
    shared.over.store(true, Ordering::SeqCst);
    let thread = interrupted.thread;
    let Did::Faulted(faults) = interrupted.end()? else {
        return Err("its thread gave an unexpected answer".into());
    };
    let woken_thread = woken.thread;
    // The thread sees the end when it is woken, or has seen it already.
    let _ = woken.go.send(());
    let is_moved = woken.end()?;
    let counts = vec![
        (TrialKind::Threads, sleeps),
        (TrialKind::Syscalls, sleeps),
        (TrialKind::Faults, faults),
        (TrialKind::Wakers, shared.wakeups.load(Ordering::SeqCst).min(wakeups)),
        (TrialKind::Migrations, u64::from(is_moved)),
    ];
    Ok(Known { interrupted: thread, woken: woken_thread, barriers, counts })
}

/// Returns at its end whether it was moved.
fn woken(cpu: u32, shared: &Shared, seat: Inside<bool>) {
    let from = thread::current_cpu();
    let placed = thread::set_affinity(&[cpu]).map(|()| thread::id()).map_err(|error| error.to_string());
    let is_moved = from != cpu && thread::current_cpu() == cpu;
    // A thread without permission for the priority is woken all the same.
    let _ = Policy::Fifo(1).apply(true);
    if seat.ready.send(placed).is_err() {
        return;
    }
    while seat.go.recv().is_ok() && !shared.over.load(Ordering::SeqCst) {
        shared.wakeups.fetch_add(1, Ordering::SeqCst);
    }
    let _ = seat.say.send(Ok(is_moved));
}

/// Whether a thread of this process sleeps.
fn sleeps_now(thread: u32) -> bool {
    let stat = untrusted::text(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// The kernel's counters of a CPU.
struct Counted {
    counters: Counters,
    cpu: u32,
    idle: u64,
}

impl Counted {
    fn now(root: &Path, cpu: u32) -> Counted {
        let counters = Counters::read(root, &CpuSet::from_iter([cpu]));
        Counted { counters, cpu, idle: idle(root, cpu) }
    }

    fn since(&self, before: &Counted) -> BTreeMap<TrialKind, u64> {
        let mut counts = BTreeMap::new();
        for grown in self.counters.since(&before.counters).iter().filter(|grown| grown.cpu == self.cpu) {
            let kinds: &[TrialKind] = match (grown.source.class, grown.source.name.as_str()) {
                (CounterClass::LocalTimer, _) => &[TrialKind::TimerInterrupts, TrialKind::TimerFunctions],
                (CounterClass::Softirq, _) => &[TrialKind::Softirqs],
                (CounterClass::Ipi, "call function") => &[TrialKind::CallIpis, TrialKind::CalledFunctions],
                (CounterClass::Ipi, "reschedule") => {
                    &[TrialKind::RescheduleIpis, TrialKind::RescheduleSenders]
                }
                _ => &[],
            };
            for kind in kinds {
                *counts.entry(*kind).or_default() += grown.count;
            }
        }
        counts.insert(TrialKind::IdleStates, self.idle.saturating_sub(before.idle));
        counts
    }
}

/// How often a CPU went into any idle state.
fn idle(root: &Path, cpu: u32) -> u64 {
    let folder = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpuidle"));
    let states = fs::read_dir(folder).into_iter().flatten().flatten();
    let usage = states.filter_map(|state| untrusted::text(state.path().join("usage")).ok());
    usage.filter_map(|text| text.trim().parse::<u64>().ok()).sum()
}
