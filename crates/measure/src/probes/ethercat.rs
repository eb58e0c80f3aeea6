// SPDX-License-Identifier: MIT OR Apache-2.0
//! The EtherCAT probe: a MainDevice exchanges process data with its segment once a period, inline on the
//! measured CPU.
//!
//! ```text
//! due ─ sleeps ─► wakes ─ sends ─────────► answer polled       a sample: from due to there
//!                            └► segment ──┘         the period: CLOCK_MONOTONIC, kept in step with SYNC0
//! ```
//! A frame that is not back when the next cycle is due is given up: its sample ends there, and is late by any
//! limit. Two more rows are about SubDevices: `sync0`, from the SYNC0 before until process data pass the
//! reference SubDevice, where a period or more is too late for the next one; and `dc-drift`, how far a
//! SubDevice's clock is from the reference, where half a period has data used in another cycle. What samples
//! do not tell stands in [`Exchanged`]. Beside its sleep, the loop makes the system calls that send a frame
//! and look for the answer; it takes no lock and allocates nothing.
//!
//! Without a device the segment is simulated, on a wire of virtual interfaces, by a thread on the
//! housekeeping CPUs (SCHED_FIFO 1 where that is allowed): what is measured then is this machine's part, and
//! the scheduling of that thread, and no wire.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ethercat::interface;
use ethercat::main_device::{CycleResult, MainDevice, SETTLE};
use ethercat::simulate::{Simulation, on_own_wire};
use evidence::kind::RowKind;
use evidence::manifest::{Asked, Exchanged};
use machine::units::{count, us};
use rt::Error;
use rt::clock::{monotonic_ns, timespec};

use crate::error::Result;
use crate::probe::{HotLoop, LoopOutcome, Opened, Opening, Probe};
use crate::probes::wakeup::{Timer, wait_until};
use crate::samples::{Sample, Samples};
use crate::schedule::{Cycles, Schedule, Window, missed};
use crate::series::SeriesSpec;

/// The probe's name.
pub const PROBE: &str = RowKind::Ethercat.name();

/// In one cycle of so many the clocks are asked how far they are apart.
const ASK_EVERY: NonZeroU64 = NonZeroU64::new(16).unwrap();

/// The probe on one CPU.
#[derive(Debug, Clone)]
pub struct EthercatProbe {
    /// The wire that it drives.
    pub wire: Wire,
    /// Its period, in nanoseconds.
    pub period: NonZeroU64,
}

impl Probe for EthercatProbe {
    fn schedule(&self) -> Schedule {
        Schedule::Periodic(self.period)
    }

    fn open(self: Box<Self>, opening: &Opening<'_>) -> Result<Opened> {
        let EthercatProbe { wire, period } = *self;
        let [sync0, apart] = beside(opening.series, period);
        let (cycles, of_cycles) = opening.cycles_of(opening.series, period)?;
        let (passes, of_sync0) = opening.cycles_of(&sync0, period)?;
        let (drift, of_drift) = opening.cycles_of(&apart, period.saturating_mul(ASK_EVERY))?;
        let sinks = EthercatSinks { cycles, sync0: passes, drift };
        let arm = move || -> rt::Result<Box<dyn HotLoop>> {
            Ok(Box::new(Exchanger {
                ready: ReadySegment::new(&wire, period.get())?,
                period,
                sinks,
                failed: None,
            }))
        };
        let drained = vec![(opening.series.clone(), of_cycles), (sync0, of_sync0), (apart, of_drift)];
        Ok(Opened { arm: Box::new(arm), drained })
    }
}

/// The series beside that of the cycles.
fn beside(cycles: &SeriesSpec, period: NonZeroU64) -> [SeriesSpec; 2] {
    let period_ns = period.get();
    let asked_ns = period.saturating_mul(ASK_EVERY).get();
    [
        cycles.beside(RowKind::Sync0.name(), period_ns, period_ns),
        cycles.beside(RowKind::DcDrift.name(), asked_ns, period_ns / 2),
    ]
}

/// Where samples go.
#[derive(Debug)]
pub struct EthercatSinks {
    /// The cycle latencies.
    pub cycles: Samples,
    /// Row `sync0`.
    pub sync0: Samples,
    /// Row `dc-drift`.
    pub drift: Samples,
}

/// The armed probe.
struct Exchanger {
    ready: ReadySegment,
    period: NonZeroU64,
    sinks: EthercatSinks,
    failed: Option<Error>,
}

impl HotLoop for Exchanger {
    fn keep_alive(&mut self) {
        self.ready.keep_alive();
    }

    fn run(&mut self, window: &Window, stop: &AtomicBool) {
        self.failed = self.ready.run(&window.cycles(self.period), &mut self.sinks, stop);
    }

    fn ended(self: Box<Self>) -> LoopOutcome {
        let exchanged = self.ready.exchanged;
        LoopOutcome {
            failed: self.failed,
            note: Some(describe(&exchanged)),
            exchanged: Some(exchanged),
            ..LoopOutcome::default()
        }
    }
}

/// The wire that the probe drives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wire {
    /// The interface; absent: a simulated segment.
    pub device: Option<String>,
    /// It is used even if it carries other traffic, or another MainDevice sends on it.
    pub is_forced: bool,
}

impl Wire {
    /// Of what was asked.
    pub fn of(asked: &Asked) -> Wire {
        let given = asked.ethercat.clone().unwrap_or_default();
        Wire { device: given.device, is_forced: given.forced }
    }

    /// Refuses, before anything is written, devices that cannot be driven.
    pub fn check(asked: &Asked) -> rt::Result<()> {
        let Wire { device: Some(device), is_forced } = Wire::of(asked) else { return Ok(()) };
        let is_probed = asked.kinds().any(|kind| kind == RowKind::Ethercat);
        if !is_probed && !asked.loads.iter().any(|load| load == PROBE || load == "all") {
            return Err(Error::new(
                format!("drive {device}"),
                "neither a probe nor a load is EtherCAT",
                "ask for --probe ethercat or --loads ethercat, or leave --device out",
            ));
        }
        if is_probed && asked.cpus.len() > 1 {
            return Err(Error::new(
                format!("drive {device} from cpus {}", asked.cpus),
                "an interface has one MainDevice",
                "measure one CPU with --cpus",
            ));
        }
        interface::look(&device)?.check(is_forced)
    }
}

/// A simulated segment in a thread.
#[derive(Debug)]
struct Simulator {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Simulator {
    fn start(mut simulation: Simulation) -> rt::Result<Simulator> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let run = move || {
            // Where it fails, no frame comes back, and every cycle says so.
            let _ = simulation.run_first(&told);
        };
        let thread = std::thread::Builder::new().name("ethercat-segment".into()).spawn(run);
        let thread =
            thread.map_err(|e| Error::os("start a simulated segment", &e, "raise the limit on processes"))?;
        Ok(Simulator { stop, thread: Some(thread) })
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// A segment in OP.
pub struct ReadySegment {
    main: MainDevice,
    // Dropped after the MainDevice, which has nothing to say at its end.
    _simulator: Option<Simulator>,
    exchanged: Exchanged,
}

impl ReadySegment {
    /// Brings the segment to OP, before the calling thread has a policy that what it starts would have too.
    pub fn new(wire: &Wire, period_ns: u64) -> rt::Result<ReadySegment> {
        let (link, simulator) = match &wire.device {
            Some(name) => (interface::take(name, wire.is_forced)?, None),
            None => {
                let (main, simulation) = on_own_wire()?;
                (main, Some(Simulator::start(simulation)?))
            }
        };
        let main = MainDevice::start(link, period_ns, SETTLE)?;
        let exchanged = Exchanged {
            device: wire.device.clone(),
            sub_devices: main.sub_devices() as u64,
            ..Exchanged::default()
        };
        Ok(ReadySegment { main, _simulator: simulator, exchanged })
    }

    /// One cycle that is not recorded, while others get ready: without outputs SubDevices leave OP.
    pub fn keep_alive(&mut self) {
        if self.main.paced_cycle().is_err() {
            // The interface is gone: the first recorded cycle will say it.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Exchanges process data once a period until `cycles` are over or `stop` is set.
    /// Returns why it ended before.
    pub fn run(&mut self, cycles: &Cycles, sinks: &mut EthercatSinks, stop: &AtomicBool) -> Option<Error> {
        self.exchange(cycles, sinks, stop).err()
    }

    /// The work of the cycles so far.
    pub fn exchanged(&self) -> &Exchanged {
        &self.exchanged
    }

    fn exchange(&mut self, cycles: &Cycles, sinks: &mut EthercatSinks, stop: &AtomicBool) -> rt::Result<()> {
        let Cycles { period_ns, start_ns, end_ns, loops } = *cycles;
        let (mut due_ns, mut left) = (self.main.due_ns(), loops);
        let mut last_sync0 = None;
        let mut late_before = 0;
        while due_ns < end_ns && left > 0 && !stop.load(Ordering::Relaxed) {
            let is_recorded = due_ns >= start_ns;
            if is_recorded && self.exchanged.cycles == 0 {
                late_before = self.main.late_frames();
                rt::scope::begin();
            }
            let began_ns = wait_until(&Timer::Nanosleep, due_ns, &timespec(due_ns));
            // Where this thread woke later than that, its frame is sent all the same, and looked for once.
            let until_ns = (due_ns + period_ns).max(began_ns);
            let cycle = self.main.cycle(until_ns)?;
            let woke_ns = monotonic_ns();
            if is_recorded {
                sinks.cycles.send(Sample { due_ns, woke_ns });
                left = left.saturating_sub(1 + missed(due_ns, woke_ns, period_ns, end_ns));
                self.exchanged.cycles += 1;
                if let Some(took_ns) = self.exchanged.add(&cycle, &mut last_sync0, period_ns) {
                    sinks.sync0.send(Sample { due_ns: woke_ns.saturating_sub(took_ns), woke_ns });
                }
                self.exchanged.late_frames = self.main.late_frames() - late_before;
                let has_time = woke_ns + period_ns / 2 < due_ns + period_ns;
                if has_time && self.exchanged.cycles.is_multiple_of(ASK_EVERY.get()) {
                    let difference = self.main.clock_difference(due_ns + period_ns)?;
                    if let Some(apart_ns) = difference.map(i64::unsigned_abs) {
                        sinks.drift.send(Sample { due_ns: woke_ns, woke_ns: woke_ns + apart_ns });
                        self.exchanged.clocks_apart_ns = self.exchanged.clocks_apart_ns.max(Some(apart_ns));
                    }
                }
            }
            due_ns = self.main.after(due_ns, cycle, woke_ns);
        }
        if self.exchanged.cycles > 0 {
            rt::scope::end();
        }
        Ok(())
    }
}

/// A cycle's contribution to the figures.
trait Add {
    /// Gives the time from the SYNC0 that the cycle's process data should have followed until they passed the
    /// reference SubDevice.
    fn add(&mut self, cycle: &CycleResult, last_sync0: &mut Option<u64>, period_ns: u64) -> Option<u64>;
}

impl Add for Exchanged {
    #[inline]
    fn add(&mut self, cycle: &CycleResult, last_sync0: &mut Option<u64>, period_ns: u64) -> Option<u64> {
        let CycleResult::Back { is_counter_right, is_op, to_sync0_ns, sync0, .. } = *cycle else {
            self.not_back += 1;
            return None;
        };
        self.wrong_counters += u64::from(!is_counter_right);
        self.not_op += u64::from(!is_op);
        let least = self.sync0_margin_ns.map_or(to_sync0_ns, |least| least.min(to_sync0_ns));
        self.sync0_margin_ns = Some(least);
        let gone_by = last_sync0.map_or(1, |last| sync0.saturating_sub(last));
        self.sync0_missed += gone_by.saturating_sub(1);
        *last_sync0 = Some(sync0);
        Some((gone_by.max(1) * period_ns).saturating_sub(to_sync0_ns))
    }
}

/// The figures in one line.
fn describe(exchanged: &Exchanged) -> String {
    let known = |ns: Option<u64>| ns.map_or("unknown".to_string(), us);
    let segment = exchanged.device.as_deref().unwrap_or("a simulated segment, which has no wire");
    format!(
        "{} SubDevices at {segment}: {} cycles, {} wrong working counters, {} frames not back in time, {} late ones came \
         after all, {} cycles not in OP; at least {} before SYNC0, {} SYNC0 without new data; clocks at most {} apart",
        exchanged.sub_devices,
        count(exchanged.cycles),
        count(exchanged.wrong_counters),
        count(exchanged.not_back),
        count(exchanged.late_frames),
        count(exchanged.not_op),
        known(exchanged.sync0_margin_ns),
        count(exchanged.sync0_missed),
        known(exchanged.clocks_apart_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(sync0: u64, to_sync0_ns: u64, is_counter_right: bool) -> CycleResult {
        CycleResult::Back { is_counter_right, is_op: true, to_sync0_ns, sync0, ahead_ns: 0 }
    }

    #[test]
    fn figures_count_what_latencies_do_not_tell() {
        let mut told = Exchanged::default();
        let mut last = None;
        let cycles = [
            back(10, 500, true),
            back(11, 400, false),
            CycleResult::NotBack,
            back(14, 600, true),
            CycleResult::Refused,
        ];
        let took = cycles.iter().map(|cycle| told.add(cycle, &mut last, 1000)).collect::<Vec<_>>();
        // The fourth passed in the third period after the one that it should have.
        assert_eq!(took, [Some(500), Some(600), None, Some(2400), None]);
        assert_eq!((told.wrong_counters, told.not_back, told.sync0_missed), (1, 2, 2));
        assert_eq!(told.sync0_margin_ns, Some(400));
    }

    #[test]
    fn refuses_a_device_without_or_with_several_drivers() {
        let asked = |probe: &str, load: &str, cpus: &str| Asked {
            probes: vec![probe.into()],
            loads: vec![load.into()],
            cpus: cpus.parse().unwrap(),
            ethercat: Some(evidence::manifest::EthercatSetup { device: Some("lo".into()), forced: false }),
            ..Asked::default()
        };
        let refusal = |asked: &Asked| Wire::check(asked).unwrap_err().to_string();
        assert!(refusal(&asked("wakeup", "idle", "1")).contains("neither a probe nor a load is EtherCAT"));
        assert!(refusal(&asked("ethercat", "idle", "1-2")).contains("an interface has one MainDevice"));
        for (probe, load) in [("ethercat", "idle"), ("wakeup", "ethercat")] {
            assert!(refusal(&asked(probe, load, "1")).contains("it is a loopback"));
        }
        let simulated = Asked { ethercat: None, ..asked("ethercat", "idle", "1-2") };
        assert_eq!(Wire::check(&simulated), Ok(()));
    }
}
