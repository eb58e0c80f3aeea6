// SPDX-License-Identifier: MIT OR Apache-2.0
//! EtherCAT: a MainDevice that is driven cycle by cycle, and a simulated segment to drive.
//!
//! - [`segment`]: simulated SubDevices, as pure code: a frame and a time in, a frame out.
//! - [`simulate`]: a segment on an interface; [`capture`]: what passed there, for Wireshark.
//! - [`interface`]: whether an interface may be driven; [`wire`]: sockets, and a wire of one's own with two
//!   ends.
//! - [`main_device`]: the stack `ethercrab`, brought to OP and driven inline, one cycle at a time; `timers`:
//!   its clock.
//!
//! It stands on rt alone. No process outlives a caller, and no wire: see [`wire`].
#![forbid(unsafe_code)]

pub mod capture;
pub mod interface;
pub mod main_device;
pub mod segment;
pub mod simulate;
mod timers;
pub mod wire;

pub use rt::{Error, Result};
