// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes a machine so that a deadline can hold, and changes it back.
//!
//! [`plan`] says what to change and why, from a snapshot and an intent alone; it touches nothing. Everything
//! that writes reads the previous value first, reads back what it wrote, and can be undone.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod action;
pub mod allowed;
pub mod boot;
pub mod change;
mod generator;
pub mod measure;
pub mod places;
pub mod plan;
pub mod record;
pub mod runtime;
pub mod service;
pub mod system;
pub mod task;
pub mod transaction;
pub mod tuned;
pub mod units;
pub mod user;
pub mod verify;

pub use error::{Error, Result};
