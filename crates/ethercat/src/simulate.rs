// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated segment at the end of a wire: takes each frame, lets it pass, sends it back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use rt::Policy;
use rt::clock::monotonic_ns;
use rt::setup::Setup;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::capture::Capture;
use crate::segment::{Fate, Passed, Segment};
use crate::wire::{Link, own_wire};

/// How often a quiet wire is looked at: the watchdogs run by that, and a stop is seen.
const IDLE_NS: u64 = 10_000_000;

/// The longest frame, and what is more than that.
const ROOM: usize = 2048;

/// SubDevices where there is no device to drive.
const SUB_DEVICES: usize = 3;
/// From one of their clocks to the next, as crystals differ.
const DRIFT_PPB: i64 = 20_000;

/// A segment where there is no device: the MainDevice's end of a wire of its own, and the segment at the
/// other, to be run.
pub fn on_own_wire() -> Result<(Link, Simulation)> {
    let (main, segment) = own_wire()?;
    Ok((main, Simulation::new(Segment::new(SUB_DEVICES, DRIFT_PPB, Vec::new()), segment, None)))
}

/// The work of a simulated segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Did")]
pub struct SimulationOutcome {
    /// Frames that passed.
    pub frames: u64,
    /// Those of them with process data.
    pub process_data: u64,
    /// Frames that were none for SubDevices.
    pub ignored: u64,
    /// Frames that faults befell.
    pub faults: u64,
    /// Frames that could not be sent back.
    pub not_sent: u64,
    /// Each SubDevice, in the order of the line.
    pub sub_devices: Vec<SubDeviceDid>,
}

/// The results of one SubDevice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SubDeviceDid {
    /// Its state in the end: `INIT`, `PRE-OP`, `SAFE-OP`, `OP`.
    pub state: &'static str,
    /// Its AL status code; 0 where it has no error.
    pub status_code: u16,
    /// SYNC0 events with new outputs before them.
    pub sync0_hits: u64,
    /// SYNC0 events without new outputs before them.
    pub sync0_misses: u64,
    /// How often its watchdog expired.
    pub watchdogs: u8,
}

/// The simulation.
#[derive(Debug)]
pub struct Simulation {
    segment: Segment,
    link: Link,
    capture: Option<Capture>,
    /// Frames that are late, and when they are due.
    late: VecDeque<(u64, Vec<u8>)>,
    not_sent: u64,
}

impl Simulation {
    /// Of that segment at that end of a wire.
    pub fn new(segment: Segment, link: Link, capture: Option<Capture>) -> Simulation {
        Simulation { segment, link, capture, late: VecDeque::new(), not_sent: 0 }
    }

    /// Goes on until `stop` is set, before ordinary tasks where the calling thread may have SCHED_FIFO 1: as
    /// SubDevices have no scheduler. It sleeps but for a frame.
    pub fn run_first(&mut self, stop: &AtomicBool) -> Result<()> {
        let first = Setup { cpus: Vec::new(), policy: Policy::Fifo(1), lock_memory: false };
        // Where it may not, MainDevices see answers that are late at times.
        let _ = first.apply();
        self.run(stop)
    }

    /// Goes on until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut frame = [0; ROOM];
        while !stop.load(Ordering::Relaxed) {
            while let Some(length) = self.link.receive(&mut frame)? {
                self.pass(&mut frame[..length.min(ROOM)])?;
            }
            let now_ns = monotonic_ns();
            self.segment.run(now_ns);
            while self.late.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
                if let Some((_, frame)) = self.late.pop_front() {
                    self.send_back(&frame)?;
                }
            }
            let next = self.late.front().map_or(IDLE_NS, |(due_ns, _)| due_ns.saturating_sub(now_ns));
            self.link.wait(next.min(IDLE_NS));
        }
        self.capture.as_mut().map_or(Ok(()), Capture::flush)
    }

    fn pass(&mut self, frame: &mut [u8]) -> Result<()> {
        let now_ns = monotonic_ns();
        if let Some(capture) = &mut self.capture {
            capture.add(frame)?;
        }
        match self.segment.pass(frame, now_ns) {
            Fate::Returned => self.send_back(frame),
            Fate::Late(by_ns) => {
                let due_ns = now_ns.saturating_add(by_ns);
                let place = self.late.iter().take_while(|(other, _)| *other <= due_ns).count();
                self.late.insert(place, (due_ns, frame.to_vec()));
                Ok(())
            }
            Fate::Lost | Fate::Ignored(_) => Ok(()),
        }
    }

    fn send_back(&mut self, frame: &[u8]) -> Result<()> {
        if let Some(capture) = &mut self.capture {
            capture.add(frame)?;
        }
        // A frame that does not go out is one that is lost on the wire: its sender will notice.
        self.not_sent += u64::from(self.link.send(frame).ok() != Some(frame.len()));
        Ok(())
    }

    /// Its work so far.
    pub fn did(&self) -> SimulationOutcome {
        let Passed { frames, process_data, ignored, faults } = self.segment.passed();
        let sub_devices = self.segment.devices().iter().map(|device| SubDeviceDid {
            state: device.state().name(),
            status_code: device.status_code(),
            sync0_hits: device.sync().hits,
            sync0_misses: device.sync().misses,
            watchdogs: device.watchdogs(),
        });
        SimulationOutcome {
            frames,
            process_data,
            ignored,
            faults,
            not_sent: self.not_sent,
            sub_devices: sub_devices.collect(),
        }
    }
}
