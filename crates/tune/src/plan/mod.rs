// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to change on a machine, and why: a pure function of facts and intent.

mod document;
mod intent;

pub use document::{Action, Answer, Disruption, Kind, MadeFor, Plan, Refusal, SCHEMA_VERSION, Skipped};
pub use intent::{Intent, Profile, Wanted};
