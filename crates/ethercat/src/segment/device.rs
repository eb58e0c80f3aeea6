// SPDX-License-Identifier: MIT OR Apache-2.0
//! One SubDevice: what each datagram does to it, and what it does by itself.

use super::clock::{DeviceClock, Sync};
use super::fmmu::{self, Fmmu};
use super::frame::{Access, Datagram, DatagramCommand};
use super::mailbox;
use super::memory::{DeviceMemory, at, overlap};
use super::objects::Objects;
use super::sii::Eeprom;
use super::state::{self, Code, DeviceState};
use super::sync_manager::{self, INPUTS, MAILBOX_IN, MAILBOX_OUT, OUTPUTS, SyncManager};

/// A watchdog's unit: the divider counts these, ns.
const WATCHDOG_TICK_NS: u64 = 40;

/// Where a SubDevice is in its line, and when the frame is there.
#[derive(Debug, Clone, Copy)]
pub struct Passage {
    /// When the frame comes by on the way out, on the given clock.
    pub out_ns: u64,
    /// And on the way back, where another SubDevice is behind this one.
    pub back_ns: Option<u64>,
}

/// A simulated SubDevice.
#[derive(Debug, Clone)]
pub struct SubDevice {
    memory: DeviceMemory,
    eeprom: Eeprom,
    objects: Objects,
    clock: DeviceClock,
    sync: Sync,
    counter: u8,
    last_answer: Vec<u8>,
    watched_ns: u64,
}

impl SubDevice {
    /// The one with that serial number, whose clock drifts by `drift_ppb` and began at `local_ns`.
    pub fn new(serial: u32, drift_ppb: i64, local_ns: u64) -> SubDevice {
        let mut memory = DeviceMemory::default();
        memory.put(at::TYPE, &[0x11, 1, 0, 0]);
        memory.put(at::FMMUS, &[fmmu::COUNT as u8]);
        memory.put(at::SYNC_MANAGERS, &[sync_manager::COUNT as u8]);
        memory.put(at::RAM_KIB, &[8]);
        // Two ports with cables.
        memory.put(at::PORTS, &[0x0F]);
        // Distributed clocks of 64 bits with SYNC.
        memory.put(at::FEATURES, &0x010Cu16.to_le_bytes());
        memory.put(at::WATCHDOG_DIVIDER, &0x09C2u16.to_le_bytes());
        memory.put(at::WATCHDOG_TIME, &1000u16.to_le_bytes());
        memory.put(at::WATCHDOG_STATUS, &[1]);
        memory.put(at::SII_CONTROL, &[0xC0, 0]);
        memory.put(at::LOOP_PARAMETERS, &0x1000u16.to_le_bytes());
        state::enter(&mut memory, DeviceState::Init, None);
        state::open_sync_managers(&mut memory, DeviceState::Init);
        SubDevice {
            memory,
            eeprom: Eeprom::new(serial),
            objects: Objects::new(serial),
            clock: DeviceClock::new(local_ns, drift_ppb),
            sync: Sync::default(),
            counter: 0,
            last_answer: Vec::new(),
            watched_ns: 0,
        }
    }

    /// Its memory, to look at.
    #[cfg(test)]
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// Its state.
    pub fn state(&self) -> DeviceState {
        state::current(&self.memory)
    }

    /// Its AL status code; 0 where it has no error.
    pub fn status_code(&self) -> u16 {
        self.memory.u16(at::AL_STATUS_CODE)
    }

    /// How often its watchdog expired.
    pub fn watchdogs(&self) -> u8 {
        self.memory.u8(at::WATCHDOG_COUNT)
    }

    /// How its SYNC0 went.
    pub fn sync(&self) -> Sync {
        self.sync
    }

    /// Says whether a SubDevice is behind it.
    pub fn set_linked(&mut self, is_last: bool) {
        // Ports 2 and 3 are closed; port 0 is open, port 1 if another SubDevice is behind it.
        let status: u16 = 0x5213 | if is_last { 0x0400 } else { 0x0820 };
        self.memory.put(at::DL_STATUS, &status.to_le_bytes());
    }

    /// The device's own work: the watchdog over its outputs.
    pub fn run(&mut self, now_ns: u64) {
        if self.state() != DeviceState::Op || !SyncManager::of(&self.memory, OUTPUTS).is_watched {
            self.watched_ns = now_ns;
            return;
        }
        let divider = u64::from(self.memory.u16(at::WATCHDOG_DIVIDER)) + 2;
        let limit_ns = divider * WATCHDOG_TICK_NS * u64::from(self.memory.u16(at::WATCHDOG_TIME));
        if limit_ns > 0 && now_ns.saturating_sub(self.watched_ns) > limit_ns {
            let count = self.memory.u8(at::WATCHDOG_COUNT).saturating_add(1);
            self.memory.put(at::WATCHDOG_COUNT, &[count]);
            self.memory.put(at::WATCHDOG_STATUS, &[0]);
            state::enter(&mut self.memory, DeviceState::SafeOp, Some(Code::Watchdog));
            state::open_sync_managers(&mut self.memory, DeviceState::SafeOp);
            self.sync.pause();
        }
    }

    /// Lets a datagram pass.
    pub fn pass(&mut self, datagram: &mut Datagram, passage: Passage) {
        match datagram.command {
            DatagramCommand::Nop | DatagramCommand::Unknown(_) => {}
            DatagramCommand::Position(access) => {
                if datagram.node() == 0 {
                    self.access(datagram, access, passage, false);
                }
                datagram.pass();
            }
            DatagramCommand::Node(access) => {
                if self.is_called(datagram.node()) {
                    self.access(datagram, access, passage, false);
                }
            }
            DatagramCommand::Broadcast(access) => {
                self.access(datagram, access, passage, true);
                datagram.pass();
            }
            DatagramCommand::Logical(access) => self.exchange(datagram, access, passage.out_ns),
            DatagramCommand::PositionReadMultipleWrite => {
                let reads = datagram.node() == 0;
                self.access(datagram, Access { reads, writes: !reads }, passage, false);
                datagram.pass();
            }
            DatagramCommand::NodeReadMultipleWrite => {
                let reads = self.is_called(datagram.node());
                self.access(datagram, Access { reads, writes: !reads }, passage, false);
            }
        }
    }

    fn is_called(&self, node: u16) -> bool {
        let by_alias = self.memory.u8(at::DL_CONTROL + 3) & 1 == 1;
        node == self.memory.u16(at::STATION_ADDRESS)
            || (by_alias && node == self.memory.u16(at::STATION_ALIAS))
    }

    /// Reads, writes or exchanges a part of the memory, and counts what succeeded.
    fn access(&mut self, datagram: &mut Datagram, access: Access, passage: Passage, is_broadcast: bool) {
        let (start, length) = (datagram.offset(), datagram.data.len());
        if length == 0 || self.memory.get(start, length).is_none() {
            return;
        }
        let written = access.writes.then(|| datagram.data.to_vec());
        let mut counted = 0;
        if access.reads && self.read(start, datagram.data, passage.out_ns, is_broadcast) {
            counted += 1;
        }
        if written.is_some_and(|data| self.write(start, &data, passage)) {
            // An exchange counts one for the reading, and two for the writing.
            counted += if access.reads { 2 } else { 1 };
        }
        datagram.count(counted);
    }

    fn read(&mut self, start: u16, into: &mut [u8], now_ns: u64, is_broadcast: bool) -> bool {
        let length = into.len();
        if start >= at::RAM && !sync_manager::may(&self.memory, start, length, false) {
            return false;
        }
        if overlap(start, length, at::SYSTEM_TIME, 8) {
            let time = self.system_ns(now_ns).to_le_bytes();
            self.memory.put(at::SYSTEM_TIME, &time);
        }
        let bytes = self.memory.get(start, length).unwrap_or_default();
        if is_broadcast {
            into.iter_mut().zip(bytes).for_each(|(into, byte)| *into |= byte);
        } else {
            into.copy_from_slice(bytes);
        }
        if start >= at::RAM {
            let inbox = SyncManager::of(&self.memory, MAILBOX_IN);
            if inbox.is_active && inbox.is_mailbox && inbox.ends_in(start, length) {
                inbox.set_full(&mut self.memory, false);
                self.serve_mailbox(false);
            }
        }
        true
    }

    fn write(&mut self, start: u16, data: &[u8], passage: Passage) -> bool {
        let length = data.len();
        if start >= at::RAM {
            if !sync_manager::may(&self.memory, start, length, true) {
                return false;
            }
            self.memory.put(start, data);
            let outbox = SyncManager::of(&self.memory, MAILBOX_OUT);
            if outbox.is_active && outbox.is_mailbox && outbox.ends_in(start, length) {
                outbox.set_full(&mut self.memory, true);
                self.serve_mailbox(false);
            }
            return true;
        }
        let touches = |register: u16, bytes: usize| overlap(start, length, register, bytes);
        // What the SubDevice is, and what it says of itself, is not for others to change.
        if touches(at::TYPE, 0x10) || touches(at::DL_STATUS, 2) || touches(at::AL_STATUS, 6) {
            return false;
        }
        if touches(at::PORT_TIMES, 16) {
            self.latch(passage);
            return true;
        }
        if touches(at::SYSTEM_TIME, 8) {
            self.compare(data, passage.out_ns);
            return true;
        }
        if (at::SYNC_MANAGER..at::PORT_TIMES).contains(&start) {
            sync_manager::configure(&mut self.memory, start, data);
            self.serve_mailbox(true);
            return true;
        }
        self.memory.put(start, data);
        if touches(at::AL_CONTROL, 1) {
            let before = self.state();
            state::request(&mut self.memory, self.objects.lengths());
            if self.state() != before {
                self.sync.pause();
                self.watched_ns = passage.out_ns;
                self.memory.put(at::WATCHDOG_STATUS, &[1]);
            }
        }
        if touches(at::SII_CONTROL, 2) {
            self.eeprom.command(&mut self.memory);
        }
        if touches(at::LOOP_PARAMETERS, 2) {
            self.clock.reset();
        }
        if touches(at::SYNC_ACTIVATION, 1) {
            self.sync.pause();
        }
        true
    }

    /// Takes a message out of the one mailbox and puts the answer into the other, where there is room for it.
    fn serve_mailbox(&mut self, was_configured: bool) {
        if self.state() < DeviceState::PreOp {
            return;
        }
        let out = SyncManager::of(&self.memory, MAILBOX_OUT);
        let inbox = SyncManager::of(&self.memory, MAILBOX_IN);
        if was_configured
            && inbox.is_active
            && inbox.take_repeat(&mut self.memory)
            && !self.last_answer.is_empty()
        {
            self.put_answer(&inbox);
            return;
        }
        if !out.is_active || !out.is_full || !inbox.is_active || inbox.is_full {
            return;
        }
        let message = self.memory.get(out.start, out.length.into()).unwrap_or_default().to_vec();
        out.set_full(&mut self.memory, false);
        let is_pre_op = self.state() == DeviceState::PreOp;
        if let Some(answer) = mailbox::answer(&message, &mut self.objects, is_pre_op, &mut self.counter) {
            self.last_answer = answer;
            self.put_answer(&inbox);
        }
    }

    fn put_answer(&mut self, inbox: &SyncManager) {
        let Some(place) = self.memory.get_mut(inbox.start, inbox.length.into()) else { return };
        place.fill(0);
        place.iter_mut().zip(&self.last_answer).for_each(|(place, byte)| *place = *byte);
        inbox.set_full(&mut self.memory, true);
    }

    /// Exchanges process data: what of the logical addresses is mapped here.
    fn exchange(&mut self, datagram: &mut Datagram, access: Access, now_ns: u64) {
        let (logical, length) = (datagram.logical(), datagram.data.len());
        let (mut has_read, mut has_written, mut is_complete) = (false, false, false);
        // Outputs are taken before inputs are put where both are at the same addresses.
        for writes in [true, false] {
            if !(if writes { access.writes } else { access.reads }) {
                continue;
            }
            for number in 0..fmmu::COUNT {
                let Some(fmmu) = Fmmu::active(&self.memory, number) else { continue };
                if (writes && !fmmu.writes) || (!writes && !fmmu.reads) {
                    continue;
                }
                let bytes = fmmu.bytes();
                if !self.is_mappable(fmmu.physical, bytes, writes) {
                    continue;
                }
                let Some(memory) = self.memory.get_mut(fmmu.physical, bytes) else { continue };
                let carried = fmmu.carry(logical, datagram.data, memory, writes) > 0;
                has_written |= carried && writes;
                has_read |= carried && !writes;
                is_complete |= carried && writes && fmmu.ends_in(logical, length);
            }
        }
        if is_complete {
            self.take_outputs(now_ns);
        }
        let both = access.reads && access.writes;
        datagram.count(u16::from(has_read) + if has_written { 1 + u16::from(both) } else { 0 });
    }

    /// Whether a map may lead there: into process data that are open, or to the mailbox's registers (to read
    /// them).
    fn is_mappable(&self, physical: u16, bytes: usize, writes: bool) -> bool {
        if physical < at::RAM {
            return !writes;
        }
        let manager = SyncManager::of(&self.memory, if writes { OUTPUTS } else { INPUTS });
        let within = usize::from(manager.start)..usize::from(manager.start) + usize::from(manager.length);
        let end = usize::from(physical) + bytes;
        manager.is_active
            && manager.writes == writes
            && within.contains(&physical.into())
            && end <= within.end
    }

    /// New outputs are there: in OP they are used, and come back as inputs.
    fn take_outputs(&mut self, now_ns: u64) {
        self.watched_ns = now_ns;
        if self.state() != DeviceState::Op {
            return;
        }
        if self.memory.u8(at::SYNC_ACTIVATION) & 3 == 3 {
            let (start, cycle) = (self.memory.u64(at::SYNC_START), self.memory.u32(at::SYNC0_CYCLE));
            let system_ns = self.system_ns(now_ns);
            self.sync.outputs(system_ns, start, cycle.into());
        }
        let (outputs, inputs) =
            (SyncManager::of(&self.memory, OUTPUTS), SyncManager::of(&self.memory, INPUTS));
        let mut bytes = self.memory.get(outputs.start, outputs.length.into()).unwrap_or_default().to_vec();
        bytes.extend((self.sync.misses as u32).to_le_bytes());
        bytes.truncate(inputs.length.into());
        self.memory.put(inputs.start, &bytes);
    }

    fn system_ns(&mut self, now_ns: u64) -> u64 {
        self.clock.show(now_ns).wrapping_add(self.memory.u64(at::TIME_OFFSET))
    }

    /// Keeps the times at which this frame came by.
    fn latch(&mut self, passage: Passage) {
        let out = self.clock.show(passage.out_ns);
        // The clock does not run back: the way back is added to what it shows now.
        let back = passage.back_ns.map_or(0, |back| out.wrapping_add(back - passage.out_ns) as u32);
        self.memory.put(at::PORT_TIMES, &(out as u32).to_le_bytes());
        self.memory.put(at::PORT_TIMES + 4, &back.to_le_bytes());
        self.memory.put(at::RECEIVE_TIME, &out.to_le_bytes());
    }

    /// The reference's time came by: the difference is shown, and made smaller.
    fn compare(&mut self, received: &[u8], now_ns: u64) {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(received).for_each(|(byte, came)| *byte = *came);
        let reference = u64::from_le_bytes(bytes).wrapping_add(self.memory.u32(at::TIME_DELAY).into());
        let own = self.system_ns(now_ns);
        let difference = match received.len() {
            8.. => own.wrapping_sub(reference) as i64,
            // Half of it is enough to stay in step.
            _ => i64::from((own as u32).wrapping_sub(reference as u32) as i32),
        };
        let size = difference.unsigned_abs().min(0x7FFF_FFFF) as u32;
        let shown = size | if difference < 0 { 0x8000_0000 } else { 0 };
        self.memory.put(at::TIME_DIFFERENCE, &shown.to_le_bytes());
        self.clock.correct(difference, now_ns);
    }
}
