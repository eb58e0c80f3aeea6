// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated EtherCAT segment: SubDevices in a line, without a wire.
//!
//! ```text
//! frame in ──► SubDevice 1 ──► SubDevice 2 ──► … ──► SubDevice N ──┐
//! frame out ◄──────────────────────────────────────────────────────┘
//! ```
//! Pure: a frame and a time go in, the frame as the SubDevices left it comes out. Enough is there for a
//! MainDevice to bring them to OP and to exchange process data with distributed clocks: all commands with
//! working counters, AL states with their codes, SII, FMMUs, sync managers, mailboxes with CoE, clocks with
//! drift, SYNC0, the watchdog.
//!
//! Limits: a SubDevice answers at once, where a real one takes its time; no segmented SDOs, no descriptions
//! of objects, no other mailbox protocol; a line, no branches, no redundancy; no bit errors. References:
//! ETG.1000.3 to 6, ETG.2010.

mod clock;
mod device;
pub mod fault;
mod fmmu;
pub mod frame;
mod mailbox;
mod memory;
mod objects;
mod sii;
mod state;
mod sync_manager;

#[cfg(test)]
mod tests;

use device::{Passage, SubDevice};
use fault::{Fault, FaultKind};
use frame::{DatagramCommand, Frame, Malformed};

/// From one SubDevice to the next, ns.
const HOP_NS: u64 = 300;

/// At the most so many SubDevices: their positions fit a frame's time, and their memories this machine's.
pub const MOST_DEVICES: usize = 256;

/// The fate of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes back at once.
    Returned,
    /// It goes back so much later, in nanoseconds.
    Late(u64),
    /// It does not go back.
    Lost,
    /// It was none for SubDevices.
    Ignored(Malformed),
}

/// Counts of frames that passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames.
    pub frames: u64,
    /// Those of them with process data.
    pub process_data: u64,
    /// Frames that were none for SubDevices.
    pub ignored: u64,
    /// Frames that faults befell.
    pub faults: u64,
}

/// The segment.
#[derive(Debug, Clone)]
pub struct Segment {
    devices: Vec<SubDevice>,
    /// How many of them are still reached.
    reached: usize,
    faults: Vec<Fault>,
    passed: Passed,
}

impl Segment {
    /// So many SubDevices; the clock of each drifts by `drift_ppb` more than that of the one before.
    pub fn new(devices: usize, drift_ppb: i64, faults: Vec<Fault>) -> Segment {
        let count = devices.clamp(1, MOST_DEVICES);
        let device = |place: usize| {
            // Each was switched on at another time.
            let began_ns = 1_000_000_007 * (place as u64 + 1);
            SubDevice::new(place as u32 + 1, drift_ppb.saturating_mul(place as i64), began_ns)
        };
        let mut segment = Segment {
            devices: (0..count).map(device).collect(),
            reached: count,
            faults,
            passed: Passed::default(),
        };
        segment.link();
        segment
    }

    /// The SubDevices, those that are not reached too.
    pub(crate) fn devices(&self) -> &[SubDevice] {
        &self.devices
    }

    /// The frames that passed so far.
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// Lets the SubDevices do what they do by themselves.
    pub fn run(&mut self, now_ns: u64) {
        self.devices.iter_mut().for_each(|device| device.run(now_ns));
    }

    /// Lets a frame pass: the bytes of a whole Ethernet frame, without its checksum.
    pub fn pass(&mut self, bytes: &mut [u8], now_ns: u64) -> Fate {
        let mut frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(why) => {
                self.passed.ignored += 1;
                return Fate::Ignored(why);
            }
        };
        self.run(now_ns);
        self.passed.frames += 1;
        let mut has_process_data = false;
        frame.each(|datagram| {
            has_process_data |= matches!(datagram.command, DatagramCommand::Logical(_));
        });
        let kinds = if has_process_data { self.befallen() } else { [None; 4] };
        if self.reached == 0 || kinds.iter().flatten().any(|kind| *kind == FaultKind::Lost) {
            return Fate::Lost;
        }
        let reached = &mut self.devices[..self.reached];
        let last = reached.len() as u64;
        frame.each(|datagram| {
            for (place, device) in (0..).zip(reached.iter_mut()) {
                let out_ns = now_ns + place * HOP_NS;
                let back_ns = (place + 1 < last).then(|| now_ns + (2 * (last - 1) - place) * HOP_NS);
                device.pass(datagram, Passage { out_ns, back_ns });
            }
            if kinds.iter().flatten().any(|kind| *kind == FaultKind::Counter)
                && matches!(datagram.command, DatagramCommand::Logical(_))
            {
                datagram.miscount();
            }
        });
        frame.mark_passed();
        let late = kinds.iter().flatten().find_map(|kind| match kind {
            FaultKind::Late(nanoseconds) => Some(*nanoseconds),
            _ => None,
        });
        late.map_or(Fate::Returned, Fate::Late)
    }

    /// The faults that befall this frame of process data, one of each kind; those that last begin.
    fn befallen(&mut self) -> [Option<FaultKind>; 4] {
        self.passed.process_data += 1;
        let number = self.passed.process_data;
        let mut kinds = [None; 4];
        for fault in self.faults.iter().filter(|fault| fault.befalls(number)) {
            let place = match fault.kind {
                FaultKind::Lost => 0,
                FaultKind::Late(_) => 1,
                FaultKind::Counter => 2,
                FaultKind::Unplug(_) => 3,
            };
            kinds[place] = Some(fault.kind);
        }
        self.passed.faults += u64::from(kinds.iter().any(Option::is_some));
        if let Some(FaultKind::Unplug(which)) = kinds[3] {
            self.reached = self.reached.min(which - 1);
            self.link();
        }
        kinds
    }

    fn link(&mut self) {
        let last = self.reached.saturating_sub(1);
        let reached = self.devices[..self.reached].iter_mut().enumerate();
        reached.for_each(|(place, device)| device.set_linked(place == last));
    }
}
