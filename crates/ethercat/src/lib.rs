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
//!
//! # A cycle
//!
//! 1. **Refuse.** The run ends here if the interface does not exist, is down, or has an address or the
//!    default route. It also ends if another MainDevice is heard on it within 200 ms. `--force` accepts all
//!    but the first two.
//! 2. **Start.** `ethercrab` brings the SubDevices to OP: addresses, SII, mailboxes, FMMUs, clocks set and
//!    left to agree, SYNC0. A thread with a large stack does this, before the measuring thread has its
//!    policy. From then on a cycle goes every period, since SubDevices without outputs leave OP.
//! 3. **Cycle.** The measuring thread sleeps until the cycle is due, and sends one frame (the reference's
//!    time, process data, every state). Then it polls the socket and the stack's future by turns until the
//!    frame is back (`ethercat::main_device`). There is no executor, no other thread and no allocation. Due
//!    times follow the reference SubDevice's clock, in the middle between two SYNC0.
//! 4. **Count.** A sample is the time from due to back. A frame that has not returned when the next cycle is
//!    due is given up, and its sample ends there. If it returns later, it counts as late. Two rows beside
//!    have their own samples. `sync0` is the time from the SYNC0 before until process data pass the reference
//!    SubDevice; its limit is the period. `dc-drift` is the distance of a SubDevice's clock from the
//!    reference; its limit is half a period. Working counters, states and late frames are counted
//!    (`granted.ethercat`); a wrong working counter taints.
//!
//! Without a device the segment is `ethercat::segment`, which knows frames and times alone, behind a pair of
//! virtual interfaces in a network namespace without a name. Only sockets refer to it, so the kernel removes
//! it with the process, however the process ends. The load `ethercat` is the same in a process on
//! housekeeping CPUs, at 1 kHz. `isolator ethercat simulate` is the segment alone, for any MainDevice; tests
//! drive it with SOEM and read its captures with tshark.
#![forbid(unsafe_code)]

pub mod capture;
pub mod interface;
pub mod main_device;
pub mod segment;
pub mod simulate;
mod timers;
pub mod wire;

pub use rt::{Error, Result};
