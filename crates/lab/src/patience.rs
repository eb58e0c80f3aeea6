// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time limits of guests and other programs of the lab.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long guests are waited for.
#[derive(Debug, Clone, Default)]
pub struct Patience {
    /// The time limit of each guest; without one, what its task takes on a busy host.
    pub limit: Option<Duration>,
    /// Set by a request to end.
    pub stop: Arc<AtomicBool>,
}

impl Patience {
    /// The same, with a limit where there was none.
    pub fn or(&self, limit: Duration) -> Patience {
        Patience { limit: Some(self.limit.unwrap_or(limit)), stop: Arc::clone(&self.stop) }
    }
}
