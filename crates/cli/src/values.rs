// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of options as people write them: times, lists of CPUs, places of a program.

use std::time::Duration;

use machine::CpuSet;
use trace::boundary::PlaceName;

/// A time with its unit: `100us`, `1ms`, `20s`, `1h 30m`; 0 needs none.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(0.0) => return Ok(Duration::ZERO),
        Ok(number) if number > 0.0 && number.is_finite() => {
            return Err(format!("it has no unit; write {text}us, {text}ms or {text}s"));
        }
        _ => {}
    }
    let cure = "write 100us, 1ms, 20s or 24h";
    if text.starts_with('-') {
        return Err(format!("it is not a time above zero; {cure}"));
    }
    humantime::parse_duration(text).map_err(|e| format!("{e}; {cure}"))
}

/// A time above zero.
pub fn interval(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(Duration::ZERO) => Err("it is not a time above zero; write 30m, 6h or 1day".to_string()),
        other => other,
    }
}

/// A list of CPUs that names at least one: `3`, `0,2-5`.
pub fn cpus(text: &str) -> Result<CpuSet, String> {
    match text.parse::<CpuSet>() {
        Ok(cpus) if cpus.is_empty() => Err("it names no CPU; write it as 0,2-5".to_string()),
        Ok(cpus) => Ok(cpus),
        Err(error) => Err(error.to_string()),
    }
}

/// A place of a program.
pub fn place(text: &str) -> Result<Box<PlaceName>, String> {
    text.parse().map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_unit_is_refused_with_the_cure() {
        assert_eq!(duration("1000").unwrap_err(), "it has no unit; write 1000us, 1000ms or 1000s");
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["-1ms", "-1", "nan", "inf", "soon", ""] {
            let error = duration(wrong).unwrap_err();
            assert!(error.ends_with("; write 100us, 1ms, 20s or 24h"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_list_of_cpus_names_one_at_least() {
        assert_eq!(cpus("3,0-1").unwrap().to_string(), "0-1,3");
        for wrong in ["", " ", "3-1", "x"] {
            assert!(cpus(wrong).unwrap_err().ends_with("; write it as 0,2-5"), "{wrong}");
        }
    }
}
