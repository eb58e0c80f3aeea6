// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file per verb.

pub mod compare;
pub mod doctor;
pub mod ethercat;
pub mod export;
pub mod fleet;
pub mod gate;
#[cfg(feature = "generate")]
pub mod generate;
pub mod import;
pub mod kernel;
pub mod lab;
pub mod lint;
pub mod load;
pub mod measure;
pub mod monitor;
pub mod prove;
pub mod record;
pub mod report;
pub mod run;
pub mod setup_user;
pub mod task;
pub mod tune;
pub mod watch;
pub mod why;
