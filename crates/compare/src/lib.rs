// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs beside one another: [`compare`] states how two differ, [`gate`] whether a candidate is worse than its
//! baselines. Both say first how much alike the runs are.
#![forbid(unsafe_code)]

pub mod gate;
mod likeness;
mod resample;
mod runs;

pub use likeness::{
    Difference, asked as asked_differences, boots as boot_differences, is_same_system,
    machine as machine_differences,
};
pub use runs::{Change, ComparedFigure, ComparedRun, Comparison, compare};
