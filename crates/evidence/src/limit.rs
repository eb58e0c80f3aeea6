// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limit as people give it: a time (`100us`), or a share of the period (`10%`); of several periods one
//! each (`25us:10us,1ms:100us`). With it the late cycles that are allowed (`1in10`), and what a claim counts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};
use machine::units::exact_us;

/// The limit where none is given: a tenth of the period.
pub const DEFAULT: &str = "10%";

/// The period of which a share is one where a probe has none.
const SHARE_OF_NS: u64 = 1_000_000;

/// A limit as it was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// A time, in nanoseconds.
    Time(u64),
    /// A share of the period, as a fraction.
    Share(f64),
}

impl Limit {
    /// Reads `100us` or `10%`.
    pub fn parse(text: &str) -> Result<Limit> {
        let limit = match text.trim().strip_suffix('%') {
            Some(share) => {
                let share: f64 = share.trim().parse().map_err(|_| wrong(text, "it is not a number"))?;
                if share > 100.0 {
                    return Err(wrong(
                        text,
                        "a cycle later than its period misses the next one, and is late anyway",
                    ));
                }
                Limit::Share(share / 100.0)
            }
            None if text.trim().parse::<f64>().is_ok_and(|number| number > 0.0) => {
                return Err(wrong(text, "it has no unit"));
            }
            None => {
                let time = humantime::parse_duration(text.trim()).unwrap_or(Duration::ZERO);
                Limit::Time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
            }
        };
        // Of the longest period too it must be a time.
        limit.ns(Some(u64::MAX)).map_err(|_| wrong(text, NO_TIME))?;
        Ok(limit)
    }

    /// The limit for a period; for a probe without a period a share is one of 1 ms.
    pub fn ns(self, period_ns: Option<u64>) -> Result<u64> {
        let ns = match self {
            Limit::Time(ns) => return if ns > 0 { Ok(ns) } else { Err(wrong("0", NO_TIME)) },
            Limit::Share(share) => (share * period_ns.unwrap_or(SHARE_OF_NS) as f64).round(),
        };
        if ns.is_finite() && ns >= 1.0 { Ok(ns as u64) } else { Err(wrong(&self.to_string(), NO_TIME)) }
    }
}

/// The limits of a run: one for all, or one for each period that is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Periods in ns, each with its limit.
    each: Vec<(u64, Limit)>,
    /// The limit of all other periods, and of probes without one.
    other: Option<Limit>,
}

impl Limits {
    /// Reads `100us`, `10%`, `25us:10us,1ms:100us` or `25us:10us,10%`.
    pub fn parse(text: &str) -> Result<Limits> {
        let mut limits = Limits { each: Vec::new(), other: None };
        for part in text.split(',') {
            let Some((period, limit)) = part.split_once(':') else {
                if limits.other.replace(Limit::parse(part)?).is_some() {
                    return Err(wrong_each(text, "two limits stand for the same periods"));
                }
                continue;
            };
            let time = humantime::parse_duration(period.trim()).ok();
            let period_ns = time.and_then(|time| u64::try_from(time.as_nanos()).ok()).filter(|ns| *ns > 0);
            let why = || format!("'{}' is not a period above zero", period.trim());
            let period_ns = period_ns.ok_or_else(|| wrong_each(text, &why()))?;
            if limits.each.iter().any(|(known, _)| *known == period_ns) {
                return Err(wrong_each(text, &format!("it names the period {} twice", period.trim())));
            }
            limits.each.push((period_ns, Limit::parse(limit)?));
        }
        Ok(limits)
    }

    /// The limit of a period, in ns. A probe without a period has the limit that names none, else the
    /// strictest.
    pub fn ns(&self, period_ns: Option<u64>) -> Result<u64> {
        let named = self.each.iter().find(|(known, _)| Some(*known) == period_ns);
        if let Some(limit) = named.map(|(_, limit)| *limit).or(self.other) {
            return limit.ns(period_ns);
        }
        match period_ns {
            Some(ns) => {
                let why = format!("it has no limit for the period {}", exact_us(ns));
                Err(wrong_each(&self.to_string(), &why))
            }
            None => {
                let each = self.each.iter().map(|(period_ns, limit)| limit.ns(Some(*period_ns)));
                Ok(each.collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or(SHARE_OF_NS))
            }
        }
    }

    /// Refuses a limit for a period that is not one of `periods_ns`.
    pub fn fit(&self, periods_ns: &[u64]) -> Result<()> {
        match self.each.iter().find(|(known, _)| !periods_ns.contains(known)) {
            None => Ok(()),
            Some((unknown, _)) => {
                let why = format!("no thread has the period {}", exact_us(*unknown));
                Err(wrong_each(&self.to_string(), &why))
            }
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.each.iter().map(|(ns, limit)| format!("{}us:{limit}", *ns as f64 / 1e3));
        let all = each.chain(self.other.map(|limit| limit.to_string())).collect::<Vec<_>>();
        out.write_str(&all.join(","))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Time(ns) => write!(out, "{}us", *ns as f64 / 1e3),
            Limit::Share(share) => write!(out, "{}%", share * 100.0),
        }
    }
}

const NO_TIME: &str = "it is not a time above zero";

fn wrong(text: &str, why: &str) -> Error {
    let cure = "give a time as 100us, or a share of the period as 10%";
    Error::on("use the limit", format!("'{text}'"), why, cure)
}

fn wrong_each(text: &str, why: &str) -> Error {
    let cure = "give one limit for all periods, or one for each as 25us:10us,1ms:100us";
    Error::on("use the limit", format!("'{text}'"), why, cure)
}

/// At most so many late cycles in so many consecutive ones: `1in10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateAllowance {
    /// Late cycles.
    pub m: u64,
    /// Of so many consecutive ones.
    pub k: u64,
}

impl FromStr for LateAllowance {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<LateAllowance, String> {
        let wrong = || format!("'{text}' is not a number of late cycles in so many; give one such as 1in10");
        let (m, k) = text.split_once("in").ok_or_else(wrong)?;
        let [m, k] = [m, k].map(|number| number.trim().parse::<u64>().map_err(|_| wrong()));
        let (m, k) = (m?, k?);
        if m >= k {
            return Err(format!("'{text}' allows every cycle to be late; give fewer, such as 1in10"));
        }
        Ok(LateAllowance { m, k })
    }
}

impl fmt::Display for LateAllowance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}in{}", self.m, self.k)
    }
}

/// When a row ends before its time, by a rule that is set before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Once it has the cycles that its claim needs. Their number is known before the row, so that the claim
    /// is judged once, and its confidence stays.
    Held,
    /// Once a cycle was late: then the verdict is known.
    Exceeded,
}

impl Until {
    /// All of them, as they are asked for.
    pub const NAMES: [(&'static str, Until); 2] = [("held", Until::Held), ("exceeded", Until::Exceeded)];
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Until, String> {
        let known = Until::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, until)| *until).ok_or_else(|| "choose from held, exceeded".to_string())
    }
}

/// Which rate of late cycles a claim is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimPer {
    /// Late episodes among cycles.
    #[default]
    Episode,
    /// Late cycles among cycles, as they come together in the largest latencies.
    Cycle,
    /// Late cycles among cycles; the user says that they are independent.
    Independent,
}

impl ClaimPer {
    /// All of them, as they are asked for.
    pub const NAMES: [(&'static str, ClaimPer); 3] =
        [("episode", ClaimPer::Episode), ("cycle", ClaimPer::Cycle), ("independent", ClaimPer::Independent)];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_ns(text: &str, period_ns: Option<u64>) -> Result<u64> {
        Limit::parse(text)?.ns(period_ns)
    }

    #[test]
    fn a_limit_is_a_time_or_a_share_of_the_period() {
        assert_eq!(limit_ns("100us", Some(1_000_000)), Ok(100_000));
        assert_eq!(limit_ns("10%", Some(250_000)), Ok(25_000));
        assert_eq!(limit_ns("10%", None), Ok(100_000));
        for wrong in ["", "0", "0%", "-5%", "nan%", "ten", "100", "100.1%", "1000%", "inf%"] {
            let error = limit_ns(wrong, Some(1_000_000)).unwrap_err().to_string();
            assert!(error.contains("give a time as 100us"), "{wrong}: {error}");
            assert_eq!(error.contains("it has no unit"), wrong == "100", "{wrong}: {error}");
        }
    }

    #[test]
    fn each_period_may_have_a_limit_of_its_own() {
        let ns = |text: &str, period_ns| Limits::parse(text)?.ns(period_ns);
        assert_eq!(ns("25us:10us,1ms:100us", Some(25_000)), Ok(10_000));
        assert_eq!(ns("25us:10us, 1ms:20%", Some(1_000_000)), Ok(200_000));
        assert_eq!(ns("25us:10us,10%", Some(2_000_000)), Ok(200_000));
        // A probe without a period.
        assert_eq!((ns("25us:10us,1ms:100us", None), ns("25us:10us,50us", None)), (Ok(10_000), Ok(50_000)));
        assert_eq!(ns("100us", Some(7_000)), Ok(100_000));
        let no_limit = ns("25us:10us", Some(1_000_000)).unwrap_err().to_string();
        assert!(no_limit.contains("it has no limit for the period 1,000 us"), "{no_limit}");
        assert!(Limits::parse("25us:10us").unwrap().fit(&[25_000, 50_000]).is_ok());
        let unknown = Limits::parse("25us:10us").unwrap().fit(&[50_000]).unwrap_err().to_string();
        assert!(unknown.contains("no thread has the period 25 us"), "{unknown}");
    }

    #[test]
    fn limits_that_make_no_sense_are_refused_in_one_line() {
        for wrong in [
            "25us:",
            ":10us",
            "25us:10us,",
            "25us:10us,25us:20us",
            "10us,20us",
            "0us:10us",
            "x:10us",
            "25us:0",
            "25us:10",
            "99999999999999999999s:10us",
            ",",
        ] {
            let error = Limits::parse(wrong).unwrap_err().to_string();
            assert!(error.lines().count() == 1 && error.contains("; give "), "{wrong}: {error}");
        }
    }
}
