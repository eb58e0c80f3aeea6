// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file of the machine says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The content of a file, or the reason why it has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reading {
    /// Its text, without surrounding space; empty for a folder.
    Text(String),
    /// It could not be read.
    Unreadable {
        /// Why.
        unreadable: String,
    },
    /// The machine has no such file.
    Absent,
}
