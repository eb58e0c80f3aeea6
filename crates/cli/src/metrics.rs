// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures for Prometheus: where they go, and those of a program's loop while it is measured.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evidence::kind::RowKind;
use evidence::{Error, Result};
use measure::series::RowProgress;
use report::prometheus::{Family, MetricsFormat, MonitoredRow, monitor};

use crate::output::{can_write, note};
use crate::serve::Served;

/// A loop's figures are made anew this often.
const EVERY: Duration = Duration::from_secs(1);

/// Where figures go.
pub enum Metrics {
    /// As text, for node_exporter's textfile collector.
    File(PathBuf),
    /// Over HTTP, as text or with native histograms.
    Served(Served),
}

impl Metrics {
    /// A file, or an address with a port to serve on, by threads that stay on the CPUs of this one.
    pub fn open(wanted: &str) -> Result<Metrics> {
        let Ok(address) = wanted.parse::<SocketAddr>() else {
            let path = Path::new(wanted);
            // Better at once than after an interval.
            can_write(path)?;
            return Ok(Metrics::File(path.to_path_buf()));
        };
        let served = Served::on(address)?;
        note(&format!("serving http://{}/metrics", served.at()));
        Ok(Metrics::Served(served))
    }

    /// Replaces the figures.
    pub fn set(&self, families: Vec<Family>) -> Result<()> {
        match self {
            Metrics::Served(served) => {
                served.set(families);
                Ok(())
            }
            Metrics::File(path) => evidence::writer::replace(path, &MetricsFormat::Text.of(&families)),
        }
    }
}

/// A loop's figures: rows that have ended, and the one under way.
pub struct Exposed {
    metrics: Metrics,
    name: String,
    rows: Vec<MonitoredRow>,
    made: Option<Instant>,
    /// How the row under way stood last.
    last: Option<RowProgress>,
    failed: Option<Error>,
}

impl Exposed {
    /// Of the loop `name`, to `metrics`.
    pub fn new(name: String, metrics: Metrics) -> Exposed {
        Exposed { metrics, name, rows: Vec::new(), made: None, last: None, failed: None }
    }

    /// The row under way stands so.
    pub fn progress(&mut self, progress: &RowProgress) {
        if self.made.is_none_or(|made| made.elapsed() >= EVERY) {
            self.made = Some(Instant::now());
            self.show(progress);
        }
        self.last = Some(progress.clone());
    }

    /// The row ended. An error where its figures went nowhere, and why: the measurement went on.
    pub fn row_ended(&mut self) -> Result<()> {
        if let Some(progress) = self.last.take() {
            self.show(&progress);
        }
        self.made = None;
        self.failed.take().map_or(Ok(()), Err)
    }

    fn show(&mut self, progress: &RowProgress) {
        for series in &progress.series {
            let own = series.key.kind() == RowKind::Loop;
            let latency = series.latency.as_deref().cloned().unwrap_or_default();
            let row = MonitoredRow {
                key: series.key.clone(),
                sum_ns: Some(latency.sum_ns()),
                limit_ns: Some(series.limit_ns),
                over_limit: latency.above(series.limit_ns),
                latency,
                missed: own.then_some(series.so_far.missed),
                lost: own.then_some(series.lost),
            };
            match self.rows.iter_mut().find(|known| known.key == row.key) {
                Some(known) => *known = row,
                None => self.rows.push(row),
            }
        }
        self.failed = self.metrics.set(monitor(&self.name, &self.rows)).err();
    }
}
