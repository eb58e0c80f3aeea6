// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: wakeup, spin, hardware; recorder, preflight and the control of a run.

pub mod preflight;
