// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tail of a distribution suggests beyond the largest sample, and when it says nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// A tail estimate with its fit diagnostics, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Tail {
    /// The data support no estimate.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Estimates the tail of `latency`.
pub fn estimate(latency: &Histogram) -> Tail {
    Tail::Refused { reason: format!("{} samples, no fit attempted", latency.count()) }
}
