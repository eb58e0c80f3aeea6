// SPDX-License-Identifier: MIT OR Apache-2.0
//! How rows and figures of a gate came out.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use evidence::claim::spelled;
use evidence::manifest::RowKey;
use evidence::row::Row;
use machine::units::us;

/// A row of the candidate that was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatedRow {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Its largest latency; at most, where another tool cut it to whole units.
    pub max_ns: u64,
    /// Its limit; the verdict judges by it, whatever the baseline was.
    pub limit_ns: Option<u64>,
    /// The limit less the largest latency; below zero the limit was exceeded.
    pub margin_ns: Option<i64>,
}

impl GatedRow {
    pub(super) fn of(row: &Row) -> GatedRow {
        let (max_ns, limit_ns) = (row.max_ns()[1], row.entry.limit_ns);
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let margin_ns = limit_ns.map(|limit| signed(limit) - signed(max_ns));
        GatedRow { key: row.entry.key.clone(), max_ns, limit_ns, margin_ns }
    }
}

impl fmt::Display for GatedRow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = us(self.max_ns);
        match (self.limit_ns, self.margin_ns) {
            (Some(limit), Some(margin)) => {
                let side = if margin < 0 { "above" } else { "below" };
                write!(out, "maximum {max}, {} {side} the limit of {}", us(margin.unsigned_abs()), us(limit))
            }
            _ => write!(out, "maximum {max}, no limit"),
        }
    }
}

/// One figure of one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// The figure of the series.
    pub figure: GateFigure,
    /// The baseline's bundle.
    pub baseline: String,
    /// In the baseline.
    pub before: f64,
    /// Now.
    pub after: f64,
    /// The allowed value.
    pub allowed: f64,
    /// Its confidence interval now, with the chance in both runs: [low, high]. Worse if `low` is above
    /// `allowed`.
    pub interval: [f64; 2],
    /// Whether it got worse.
    pub worse: bool,
    /// Whether it was judged: it is worse, or the gate would have seen it doubled.
    pub judged: bool,
}

/// How a figure came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureOutcome {
    /// Within what is allowed.
    Ok,
    /// Above what is allowed, by no more than chance explains.
    Unclear,
    /// Above what is allowed.
    Worse,
    /// A doubling would not have been seen.
    NotJudged,
}

/// The figures that are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Figure")]
pub enum GateFigure {
    /// Median.
    #[serde(rename = "p50_ns")]
    P50,
    /// 99 %.
    #[serde(rename = "p99_ns")]
    P99,
    /// 99.9 %.
    #[serde(rename = "p99_9_ns")]
    P99_9,
    /// The largest latency of a second, the mean of all seconds.
    #[serde(rename = "second_max_ns")]
    SecondMax,
    /// The share of seconds with a late cycle.
    #[serde(rename = "late_seconds")]
    LateSeconds,
    /// The share of periods that were missed.
    #[serde(rename = "missed_rate")]
    MissedRate,
}

impl GateFigure {
    /// All of them, in the order of the document.
    pub const ALL: [GateFigure; 6] = [
        GateFigure::P50,
        GateFigure::P99,
        GateFigure::P99_9,
        GateFigure::SecondMax,
        GateFigure::LateSeconds,
        GateFigure::MissedRate,
    ];

    /// As people read it.
    pub fn label(self) -> &'static str {
        match self {
            GateFigure::P50 => "p50",
            GateFigure::P99 => "p99",
            GateFigure::P99_9 => "p99.9",
            GateFigure::SecondMax => "mean of each second's maximum",
            GateFigure::LateSeconds => "seconds with a late cycle",
            GateFigure::MissedRate => "missed periods",
        }
    }

    /// A value of it with its unit.
    pub fn format(self, value: f64) -> String {
        match self {
            GateFigure::LateSeconds | GateFigure::MissedRate => format!("{:.2} %", 100.0 * value),
            _ => us(value.round() as u64),
        }
    }
}

/// A row, or a figure of one, that could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotJudged {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// The figure of the series; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<GateFigure>,
    /// Why.
    pub why: String,
    /// How long both runs must be to judge it, in seconds; absent where no length helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_s: Option<u64>,
}

impl NotJudged {
    /// A row of which nothing could be judged.
    pub(super) fn row(key: &RowKey, why: String) -> NotJudged {
        NotJudged { key: key.clone(), figure: None, why, needs_s: None }
    }
}

impl NotJudged {
    /// Why, and how long both runs must be.
    pub fn reason(&self) -> String {
        let needs = self.needs_s.map(|seconds| format!("; both runs need {}", length(seconds)));
        let needs = needs.unwrap_or_default();
        format!("{}{needs}", self.why)
    }
}

impl fmt::Display for NotJudged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.figure {
            Some(figure) => write!(out, "{}: {}: {}", self.key, figure.label(), self.reason()),
            None => write!(out, "{}: {}", self.key, self.reason()),
        }
    }
}

/// How long both runs must be, in words.
pub(super) fn length(seconds: u64) -> String {
    // In whole minutes, where that is the unit.
    let seconds = if seconds > 60 { seconds.div_ceil(60).saturating_mul(60) } else { seconds };
    spelled(seconds.saturating_mul(1_000_000_000))
}

impl fmt::Display for Judged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_unit = |value| self.figure.format(value);
        let [low, high] = self.interval.map(with_unit);
        write!(
            out,
            "{}: {}: {} before, {} now (between {low} and {high}), {} allowed",
            self.key,
            self.figure.label(),
            with_unit(self.before),
            with_unit(self.after),
            with_unit(self.allowed)
        )
    }
}

impl Judged {
    /// By which part of its baseline it changed, and its interval; `None` where the baseline is zero.
    pub fn change(&self) -> Option<[f64; 3]> {
        let [low, high] = self.interval;
        (self.before > 0.0).then(|| [self.after, low, high].map(|value| value / self.before - 1.0))
    }

    /// Its outcome.
    pub fn outcome(&self) -> FigureOutcome {
        match (self.worse, self.judged) {
            (true, _) => FigureOutcome::Worse,
            (false, false) => FigureOutcome::NotJudged,
            (false, true) if self.after > self.allowed => FigureOutcome::Unclear,
            (false, true) => FigureOutcome::Ok,
        }
    }

    /// By how much what is surely there exceeds what is allowed: what is worst stands first.
    pub fn excess(&self) -> f64 {
        self.interval[0] / self.allowed.max(f64::MIN_POSITIVE)
    }
}
