// SPDX-License-Identifier: MIT OR Apache-2.0
//! The AL state machine: which state a SubDevice may go to from where, and why not.
//!
//! References: ETG.1000.6, 6.4 (AL state machine, AL status codes).

use super::memory::{DeviceMemory, at};
use super::sync_manager::{self, INPUTS, MAILBOX_IN, MAILBOX_OUT, OUTPUTS, SyncManager};

/// Where a SubDevice is on its way to exchanging process data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceState {
    /// Nothing but registers.
    Init = 1,
    /// Mailboxes.
    PreOp = 2,
    /// Inputs.
    SafeOp = 4,
    /// Inputs and outputs.
    Op = 8,
}

impl DeviceState {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            DeviceState::Init => "INIT",
            DeviceState::PreOp => "PRE-OP",
            DeviceState::SafeOp => "SAFE-OP",
            DeviceState::Op => "OP",
        }
    }
}

/// Why a request is refused, or a state is left: the AL status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// There is no way from the one state to the other.
    InvalidChange = 0x0011,
    /// There is no such state here.
    UnknownState = 0x0012,
    /// The mailboxes' sync managers are not as they must be.
    Mailbox = 0x0016,
    /// No outputs came for longer than the watchdog's time.
    Watchdog = 0x001B,
    /// The outputs' sync manager is not as it must be.
    Outputs = 0x001D,
    /// The inputs' sync manager is not as it must be.
    Inputs = 0x001E,
    /// SYNC0 is on without a cycle.
    Sync = 0x0030,
}

const ERROR: u8 = 0x10;
const ACKNOWLEDGE: u8 = 0x10;

/// The state that the memory shows.
pub fn current(memory: &DeviceMemory) -> DeviceState {
    match memory.u8(at::AL_STATUS) & 0x0F {
        8 => DeviceState::Op,
        4 => DeviceState::SafeOp,
        2 => DeviceState::PreOp,
        _ => DeviceState::Init,
    }
}

/// Goes to `state`, with an error or without.
pub fn enter(memory: &mut DeviceMemory, state: DeviceState, error: Option<Code>) {
    let flag = if error.is_some() { ERROR } else { 0 };
    memory.put(at::AL_STATUS, &[state as u8 | flag, 0]);
    memory.put(at::AL_STATUS_CODE, &error.map_or(0, |code| code as u16).to_le_bytes());
}

/// Carries out a write to AL control. `lengths` are the bytes of outputs and inputs that are mapped.
pub fn request(memory: &mut DeviceMemory, lengths: (u16, u16)) {
    let asked = memory.u8(at::AL_CONTROL);
    let now = current(memory);
    let has_error = memory.u8(at::AL_STATUS) & ERROR != 0;
    if has_error && asked & ACKNOWLEDGE == 0 && asked & 0x0F != DeviceState::Init as u8 {
        // Until it is acknowledged, an error stands.
        return;
    }
    let wanted = match asked & 0x0F {
        1 => DeviceState::Init,
        2 => DeviceState::PreOp,
        4 => DeviceState::SafeOp,
        8 => DeviceState::Op,
        _ => return enter(memory, now, Some(Code::UnknownState)),
    };
    match refusal(memory, now, wanted, lengths) {
        Some(code) => enter(memory, now, Some(code)),
        None => {
            enter(memory, wanted, None);
            open_sync_managers(memory, wanted);
        }
    }
}

fn refusal(
    memory: &DeviceMemory,
    now: DeviceState,
    wanted: DeviceState,
    (outputs, inputs): (u16, u16),
) -> Option<Code> {
    if wanted <= now {
        return None;
    }
    let mailbox = |number, writes| {
        let manager = SyncManager::of(memory, number);
        manager.is_enabled && manager.is_mailbox && manager.writes == writes && manager.length >= 16
    };
    let data = |number, writes, length: u16| {
        let manager = SyncManager::of(memory, number);
        let is_as_mapped = manager.is_enabled
            && !manager.is_mailbox
            && manager.writes == writes
            && manager.length == length
            && memory.get(manager.start, length.into()).is_some();
        is_as_mapped || (length == 0 && !manager.is_enabled)
    };
    match (now, wanted) {
        (DeviceState::Init, DeviceState::PreOp) => {
            (!mailbox(MAILBOX_OUT, true) || !mailbox(MAILBOX_IN, false)).then_some(Code::Mailbox)
        }
        (DeviceState::PreOp, DeviceState::SafeOp) if !data(OUTPUTS, true, outputs) => Some(Code::Outputs),
        (DeviceState::PreOp, DeviceState::SafeOp) if !data(INPUTS, false, inputs) => Some(Code::Inputs),
        (DeviceState::PreOp, DeviceState::SafeOp) => {
            let is_on = memory.u8(at::SYNC_ACTIVATION) & 3 == 3;
            (is_on && memory.u32(at::SYNC0_CYCLE) == 0).then_some(Code::Sync)
        }
        (DeviceState::SafeOp, DeviceState::Op) => None,
        _ => Some(Code::InvalidChange),
    }
}

/// Opens and closes sync managers from the SubDevice's side, as its state asks for.
pub fn open_sync_managers(memory: &mut DeviceMemory, state: DeviceState) {
    for number in 0..sync_manager::COUNT {
        let least = if number <= MAILBOX_IN { DeviceState::PreOp } else { DeviceState::SafeOp };
        let closed = if state >= least { 0 } else { sync_manager::DISABLED };
        let base = at::SYNC_MANAGER + number * sync_manager::BYTES;
        let kept = memory.u8(base + 7) & !sync_manager::DISABLED;
        // Of mailboxes the MainDevice's side alone decides: they are opened before PRE-OP is asked for.
        if number > MAILBOX_IN {
            memory.put(base + 7, &[kept | closed]);
        } else if state == DeviceState::Init {
            SyncManager::of(memory, number).set_full(memory, false);
        }
    }
}
