// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limit as people give it: a time (`100us`), or a share of the period (`10%`).

use std::time::Duration;

use crate::{Error, Result};

/// The limit where none is given: a tenth of the period.
pub const DEFAULT: &str = "10%";

/// The limit `text` in nanoseconds for a period; for a probe without a period a share is one of 1 ms.
pub fn limit_ns(text: &str, period_ns: Option<u64>) -> Result<u64> {
    let wrong = |why: &str| {
        Error::on(
            "use the limit",
            format!("'{text}'"),
            why,
            "give a time as 100us, or a share of the period as 10%",
        )
    };
    let limit_ns = match text.trim().strip_suffix('%') {
        Some(share) => {
            let share: f64 = share.trim().parse().map_err(|_| wrong("it is no number"))?;
            (share / 100.0 * period_ns.unwrap_or(1_000_000) as f64).round()
        }
        None if text.trim().parse::<f64>().is_ok_and(|number| number > 0.0) => {
            return Err(wrong("it has no unit"));
        }
        None => humantime::parse_duration(text.trim()).unwrap_or(Duration::ZERO).as_nanos() as f64,
    };
    if limit_ns.is_finite() && limit_ns >= 1.0 {
        Ok(limit_ns as u64)
    } else {
        Err(wrong("it is no time above zero"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
