// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a plan to a changed machine and back: apply, confirm, status, roll back.
//!
//! Apply does what can be done at once and arms a trial of the boot line. After the trial boot, confirm looks
//! whether the line and the isolation are in force, makes them last, and has the settings done again at every
//! boot. What a process that died left half done is undone before anything else.

mod applied;
mod apply;
mod check;
mod confirm;
mod here;
mod in_force;
mod rollback;
mod status;
mod unit;

pub use crate::places::UNIT;
pub(crate) use applied::line_of;
pub use applied::{Applied, BootChange, SCHEMA_VERSION, StepLine};
pub use apply::{Options, apply};
pub use confirm::confirm;
pub use here::Here;
pub(crate) use rollback::roll_back_all;
pub use rollback::{RecordUndone, RolledBack, roll_back};
pub use status::{RecordStatus, TuneStatus, status};

#[cfg(test)]
mod tests;
