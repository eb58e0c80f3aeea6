// SPDX-License-Identifier: MIT OR Apache-2.0
//! A series to be measured, before and while it is: what identifies it, what judges it, how it stands.

use std::sync::Arc;
use std::time::Duration;

use evidence::histogram::Histogram;
use evidence::limit::{self, Limits};
use evidence::manifest::{Asked, Followed, Granted, RowEntry, RowKey, RunState, Second, Spike};

/// One series to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesSpec {
    /// Its identity.
    pub key: RowKey,
    /// The limit that judges it.
    pub limit_ns: u64,
    /// Above this a sample is listed as a spike.
    pub threshold_ns: u64,
    /// The thread of a program whose loop it is, where that is followed from outside.
    pub followed: Option<Followed>,
}

impl SeriesSpec {
    /// Another series of the same load and CPU, which `limit_ns` judges and above which its samples are
    /// spikes.
    pub(crate) fn beside(&self, probe: &str, period_ns: u64, limit_ns: u64) -> SeriesSpec {
        SeriesSpec {
            key: RowKey { probe: probe.to_string(), period_ns: Some(period_ns), ..self.key.clone() },
            limit_ns,
            threshold_ns: limit_ns,
            followed: self.followed.clone(),
        }
    }

    /// The same series while its loop has another period, with the limit that was asked for that.
    pub(crate) fn of_period(&self, period_ns: u64, asked: &Asked) -> SeriesSpec {
        let limits = Limits::parse(asked.limit.as_deref().unwrap_or(limit::DEFAULT)).ok();
        let limit_ns = limits.and_then(|limits| limits.ns(Some(period_ns)).ok());
        let limit_ns = limit_ns.unwrap_or(self.limit_ns).min(period_ns);
        let threshold_ns = if self.threshold_ns == self.limit_ns { limit_ns } else { self.threshold_ns };
        let key = RowKey { period_ns: Some(period_ns), ..self.key.clone() };
        SeriesSpec { key, limit_ns, threshold_ns, followed: self.followed.clone() }
    }

    /// Its entry in the manifest while it is measured.
    pub(crate) fn entry(&self, granted: &Granted) -> RowEntry {
        RowEntry {
            state: RunState::Running,
            granted: granted.clone(),
            limit_ns: Some(self.limit_ns),
            followed: self.followed.clone(),
            ..RowEntry::new(self.key.clone())
        }
    }
}

/// How a series stands, for a live display.
#[derive(Debug, Clone)]
pub struct SeriesProgress {
    /// Which series.
    pub key: RowKey,
    /// The thread's number.
    pub thread: u32,
    /// Its real-time priority, 0 where it has none.
    pub priority: u32,
    /// The record so far, as if one second.
    pub so_far: Second,
    /// The latest sample.
    pub last_ns: u64,
    /// The limit that judges it.
    pub limit_ns: u64,
    /// Cycles lost so far.
    pub lost: u64,
    /// All samples so far, where they are wanted live.
    pub latency: Option<Arc<Histogram>>,
    /// The longest spike since the last progress.
    pub spike: Option<Spike>,
}

/// How a row stands.
#[derive(Debug, Clone)]
pub struct RowProgress {
    /// Time since recording began; zero during the warm-up.
    pub elapsed: Duration,
    /// The row's length where it is known.
    pub length: Option<Duration>,
    /// Each series.
    pub series: Vec<SeriesProgress>,
}
