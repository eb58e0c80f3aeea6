// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dates of a run that cannot be. They change no latency, since those are of CLOCK_MONOTONIC, so they are
//! noted, and not held against the run.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::manifest::Manifest;
use crate::row::Row;

/// How far ahead another machine's clock may be.
const AHEAD: Duration = Duration::from_secs(300);

/// No machine that is measured was set to a time before: of other tools, and of this program, which is
/// younger.
const FIRST: &str = "2000-01-01T00:00:00Z";
const FIRST_OF_OURS: &str = "2025-01-01T00:00:00Z";

/// Dates are in whole seconds, and so are the lengths of rows.
const SLACK: Duration = Duration::from_secs(2);

/// Impossible dates in a manifest, as seen at `now`.
pub(crate) fn doubts(manifest: &Manifest, rows: &[Row], now: SystemTime) -> Vec<String> {
    let first = if manifest.written_by.program == "isolator" { FIRST_OF_OURS } else { FIRST };
    let first = humantime::parse_rfc3339(first).unwrap_or(UNIX_EPOCH);
    let mut doubts = Vec::new();
    let dates = [("began", &manifest.started_at), ("ended", &manifest.ended_at)];
    let [started, ended] = dates.map(|(what, text)| {
        let text = text.as_deref()?;
        let Ok(date) = humantime::parse_rfc3339_weak(text) else {
            doubts.push(format!("the manifest says that the run {what} at '{text}', which is not a date"));
            return None;
        };
        if date < first {
            doubts.push(format!("the manifest says that the run {what} at {text}: its clock was not set"));
        } else if date.duration_since(now).is_ok_and(|ahead| ahead > AHEAD) {
            doubts.push(format!("the manifest says that the run {what} at {text}, which is in the future"));
        }
        Some(date)
    });
    let Some((started, ended)) = started.zip(ended) else { return doubts };
    let Ok(took) = ended.duration_since(started) else {
        doubts.push(
            "the manifest says that the run ended before it began: its clock was set back meanwhile".into(),
        );
        return doubts;
    };
    let measured = Duration::from_secs(measured_s(rows));
    if measured > took + SLACK {
        let (took, measured) = (took.as_secs(), measured.as_secs());
        doubts.push(format!(
            "the manifest says that the run took {took} s, but it has rows of {measured} s: its clock was set back meanwhile"
        ));
    }
    doubts
}

/// Seconds that were measured, load after load: of each the longest row.
fn measured_s(rows: &[Row]) -> u64 {
    let mut longest = BTreeMap::<&str, u64>::new();
    for row in rows {
        let seconds = row.series.seconds.last().map_or(0, |second| u64::from(second.second));
        let known = longest.entry(&row.entry.key.load).or_default();
        *known = seconds.max(*known);
    }
    longest.values().sum()
}
