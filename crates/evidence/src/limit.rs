// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limit as people give it: a time (`100us`), or a share of the period (`10%`).

use std::fmt;
use std::time::Duration;

use crate::{Error, Result};

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
        for wrong in ["", "0", "0%", "-5%", "nan%", "ten", "100"] {
            let error = limit_ns(wrong, Some(1_000_000)).unwrap_err().to_string();
            assert!(error.contains("give a time as 100us"), "{wrong}: {error}");
            assert_eq!(error.contains("it has no unit"), wrong == "100", "{wrong}: {error}");
        }
    }
}
