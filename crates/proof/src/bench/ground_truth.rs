// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stalls of known length, injected under a probe: does it see all of them, and how long does it say they
//! are?
//!
//! A SCHED_FIFO 99 thread on the measured CPU wakes at random times and keeps the CPU for 50 us to 5 ms,
//! timing itself. The spin probe must report each stall as a gap; the wakeup probe must report each stall in
//! which its timer was due as late by what was left of it.
//!
//! Bystanders run meanwhile (`bystanders`): the causes of a spike must name the injector, and none of them.
//!
//! A SCHED_IDLE thread keeps the measured CPU from halting: what a virtual machine's host takes to wake a
//! halted CPU (tens of microseconds, many times a second where it is busy) would be spikes that were not
//! injected.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cause::{Depth, Explainer, WatchSpec};
use evidence::Bundle;
use evidence::cause::Choice;
use evidence::kind::RowKind;
use evidence::manifest::{Asked, Manifest, RowKey, Spike};
use evidence::writer::BundleWriter;
use machine::CpuSet;
use measure::probe::Probe;
use measure::probes::spin::SpinProbe;
use measure::probes::wakeup::{TimerKind, WakeupProbe};
use measure::recording::Recording;
use measure::row::{MeasuringThread, RowPlan, RowSpec};
use measure::schedule::Length;
use measure::series::SeriesSpec;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rt::Policy;
use rt::clock::{Calibration, monotonic_ns, timespec};
use rt::setup::Setup;

use crate::bystanders::{self, Places};

/// A stall as the injector timed it, on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// When it had the CPU.
    pub from_ns: u64,
    /// When it let go.
    pub to_ns: u64,
    /// Whether the injector itself was left alone: it woke on time and kept the CPU no longer than it meant
    /// to.
    pub clean: bool,
}

/// A probe's findings on the stalls.
#[derive(Debug, Clone, Default)]
pub struct StallDetection {
    /// Stalls that the probe must see.
    pub due: usize,
    /// Those that it saw.
    pub seen: usize,
    /// Those that were seen and clean, so that their length can be judged.
    pub clean: usize,
    /// Clean ones whose length it reported within 5 % + 5 us.
    pub right: usize,
    /// Largest error of a clean one's reported length beyond the allowance, ns.
    pub worst_beyond_ns: u64,
    /// Clean ones whose longest cause is the injector; none without a collector of events.
    pub named: usize,
    /// Spikes of both runs with causes.
    pub explained: usize,
    /// Of these, those that name a bystander.
    pub bystander: usize,
    /// Spikes at whose time nothing was injected.
    pub foreign: usize,
    /// Spikes of a run of the same length without injection.
    pub foreign_at_rest: usize,
}

/// The injector's name.
const INJECTOR: &str = "injector";

/// Spikes above this are listed; stalls are longer.
const THRESHOLD_NS: u64 = 40_000;

/// Stalls this soon after the probe's start are not judged.
const SETTLED_NS: u64 = 100_000_000;

/// An injector that is late by this much was itself held up by the host or the scheduler.
const LATE_NS: u64 = 20_000;

/// Period of the wakeup probe here: short, so that most stalls meet a due timer.
const PERIOD_NS: u64 = 100_000;
const PERIOD: NonZeroU64 = NonZeroU64::new(PERIOD_NS).unwrap();

/// Runs `probe` (`spin` or `wakeup`) on `cpu` for `seconds`, once with and once without stalls.
pub fn run(
    probe: &str,
    cpu: u32,
    seconds: u64,
    seed: u64,
) -> Result<StallDetection, Box<dyn std::error::Error>> {
    let rest = measure(probe, cpu, seconds, None)?;
    let (spikes, stalls) = measure(probe, cpu, seconds, Some(seed))?;
    let mut outcome = StallDetection { foreign_at_rest: rest.0.len(), ..StallDetection::default() };
    let is_explained = |spike: &&Spike| spike.unexplained_ns.is_some();
    let explained = rest.0.iter().chain(&spikes).filter(is_explained).collect::<Vec<_>>();
    let named = explained.iter().filter(|spike| bystanders::are_named(spike));
    for spike in named.clone() {
        eprintln!("ground truth: a bystander is named: {:?}", spike.causes);
    }
    (outcome.explained, outcome.bystander) = (explained.len(), named.count());
    let mut matched = vec![false; spikes.len()];
    // On a busy machine the probe may be armed after the first stalls, which it need not see.
    let start_ns = spikes.first().map_or(0, |spike| spike.monotonic_ns.saturating_sub(spike.at_ns));
    let measured = start_ns + SETTLED_NS..start_ns + seconds * 1_000_000_000;
    for stall in
        stalls.iter().filter(|stall| measured.contains(&stall.from_ns) && measured.contains(&stall.to_ns))
    {
        // A spike belongs to the stall that it ends with: whatever came before cannot end later.
        let within = |spike: &Spike| {
            let end_ns = spike.monotonic_ns + spike.latency_ns;
            spike.monotonic_ns < stall.to_ns && end_ns + 5_000 >= stall.to_ns
        };
        for (place, spike) in spikes.iter().enumerate().filter(|(_, spike)| within(spike)) {
            matched[place] |= spike.monotonic_ns <= stall.to_ns;
        }
        if !due(probe, stall, &spikes) {
            continue;
        }
        outcome.due += 1;
        let Some(spike) = spikes.iter().find(|spike| within(spike)) else { continue };
        outcome.seen += 1;
        let length_ns = match RowKind::of(probe) {
            RowKind::Spin => stall.to_ns - stall.from_ns,
            // What was left of the stall when the timer was due; a little before it, where both came at once.
            _ => stall.to_ns - spike.monotonic_ns,
        };
        if !stall.clean || spike.monotonic_ns + LATE_NS < stall.from_ns {
            continue;
        }
        outcome.clean += 1;
        let longest = spike.causes.iter().max_by_key(|cause| cause.duration_ns);
        outcome.named += usize::from(longest.is_some_and(|cause| cause.name == INJECTOR));
        let beyond = spike.latency_ns.abs_diff(length_ns).saturating_sub(length_ns / 20 + 5_000);
        outcome.right += usize::from(beyond == 0);
        outcome.worst_beyond_ns = outcome.worst_beyond_ns.max(beyond);
    }
    outcome.foreign = matched.iter().filter(|matched| !**matched).count();
    Ok(outcome)
}

/// Whether the probe must see the stall: the spin probe any, the wakeup probe one in which its timer was due
/// for longer than its threshold. The timer's grid is known from any spike.
fn due(probe: &str, stall: &Stall, spikes: &[Spike]) -> bool {
    if RowKind::of(probe) == RowKind::Spin {
        return true;
    }
    let Some(first) = spikes.first() else { return true };
    let grid = first.monotonic_ns % PERIOD_NS;
    let due_ns = (stall.from_ns + PERIOD_NS - 1 - grid) / PERIOD_NS * PERIOD_NS + grid;
    stall.to_ns > due_ns + THRESHOLD_NS + 5_000
}

type SpikesAndStalls = (Vec<Spike>, Vec<Stall>);

fn measure(
    probe: &str,
    cpu: u32,
    seconds: u64,
    seed: Option<u64>,
) -> Result<SpikesAndStalls, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut manifest = manifest(probe, cpu);
    let mut bundle = BundleWriter::create(folder.path(), &manifest)?;
    let thread: Box<dyn Probe> = match RowKind::of(probe) {
        RowKind::Spin => Box::new(SpinProbe { clock: Calibration::measure(Duration::from_millis(50))? }),
        _ => Box::new(WakeupProbe { timer: TimerKind::Nanosleep, period: PERIOD }),
    };
    let period_ns = thread.schedule().period_ns();
    let depth = Depth::of(period_ns.is_some());
    let thread = MeasuringThread {
        probe: thread,
        series: SeriesSpec {
            key: RowKey::new(probe, "idle", cpu, period_ns),
            limit_ns: THRESHOLD_NS,
            threshold_ns: THRESHOLD_NS,
            followed: None,
        },
        policy: Policy::Fifo(80),
        affinity: vec![cpu],
    };
    let length = Length { duration_ns: Some(seconds * 1_000_000_000), loops: None };
    let spec = RowSpec { warm_up_ns: 200_000_000, length, lock_memory: true, isolate: None };
    let row = RowPlan { threads: vec![thread], spec };
    let over = AtomicBool::new(false);
    let mut explainer = explainer(cpu, depth)?;
    let places = Places { measured: Some(cpu), elsewhere: u32::from(cpu == 0) };
    let stalls = std::thread::scope(|scope| {
        scope.spawn(|| keep_awake(cpu, &over));
        let injector = seed.map(|seed| {
            scope.spawn({
                let over = &over;
                move || inject(cpu, seconds, seed, over)
            })
        });
        let measured = bystanders::beside(places, || {
            row.measure(&mut Recording {
                bundle: &mut bundle,
                manifest: &mut manifest,
                stop: &AtomicBool::new(false),
                explainer: &mut explainer,
                wants_latency: false,
                observe: &mut |_| {},
            })
        });
        over.store(true, Ordering::SeqCst);
        let stalls = injector.map_or(Ok(Ok(Vec::new())), |thread| thread.join());
        measured.map_err(Box::<dyn std::error::Error>::from)?;
        let stalls = stalls.map_err(|_| "the injector panicked")?;
        Ok::<_, Box<dyn std::error::Error>>(stalls?)
    })?;
    Ok((spikes(folder.path())?, stalls))
}

/// The best collector that this machine allows, calibrated as before a row.
fn explainer(cpu: u32, depth: Depth) -> Result<Explainer, Box<dyn std::error::Error>> {
    let cpus: CpuSet = [cpu].into_iter().collect();
    let machine = inspect::read(Path::new("/"));
    let mut explainer = Explainer::start(Choice::Auto, &WatchSpec { cpus: cpus.clone(), depth }, &machine)?;
    explainer.calibrate(&cpus);
    Ok(explainer)
}

fn spikes(folder: &Path) -> Result<Vec<Spike>, evidence::Error> {
    Ok(Bundle::open(folder)?.spikes)
}

/// Gives `cpu` something to run whenever no other task needs it.
fn keep_awake(cpu: u32, over: &AtomicBool) -> rt::Result<()> {
    Setup { cpus: vec![cpu], policy: Policy::Idle, lock_memory: false }.apply()?;
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Stalls `cpu` at random times, well inside the measured span.
fn inject(cpu: u32, seconds: u64, seed: u64, over: &AtomicBool) -> rt::Result<Vec<Stall>> {
    let _ = std::fs::write("/proc/thread-self/comm", INJECTOR);
    let setup = Setup { cpus: vec![cpu], policy: Policy::Fifo(99), lock_memory: true };
    let mut random = SmallRng::seed_from_u64(seed);
    let mut stalls = Vec::with_capacity(100 * seconds as usize);
    setup.apply()?;
    let mut next_ns = monotonic_ns() + 800_000_000;
    let end_ns = next_ns + (seconds * 1_000_000_000).saturating_sub(1_000_000_000);
    while next_ns < end_ns && !over.load(Ordering::SeqCst) {
        while monotonic_ns() < next_ns {
            // Woken early by a signal it sleeps again.
            let _ = sleep_until(next_ns);
        }
        let from_ns = monotonic_ns();
        let length_ns = 1_000 * random.random_range(50..5_000u64);
        while monotonic_ns() < from_ns + length_ns {
            std::hint::spin_loop();
        }
        let to_ns = monotonic_ns();
        let clean = from_ns < next_ns + LATE_NS && to_ns < from_ns + length_ns + LATE_NS;
        stalls.push(Stall { from_ns, to_ns, clean });
        next_ns = monotonic_ns() + 1_000 * random.random_range(15_000..60_000u64);
    }
    Ok(stalls)
}

fn sleep_until(until_ns: u64) -> Result<(), rustix::io::Errno> {
    rustix::thread::clock_nanosleep_absolute(rustix::time::ClockId::Monotonic, &timespec(until_ns))
}

pub(crate) fn manifest(probe: &str, cpu: u32) -> Manifest {
    let asked = Asked { probes: vec![probe.into()], cpus: [cpu].into_iter().collect(), ..Asked::default() };
    Manifest::new("isolator-bench", asked)
}
