// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a use asks of a machine.

use std::str::FromStr;

use machine::Profile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A use, and what it asks: `audio:64@48000` or `control:1kHz`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Use {
    /// As it was written.
    pub asked: String,
    /// The profile that goes with it.
    pub profile: Profile,
    /// Time from one cycle to the next, in ns.
    pub period_ns: u64,
    /// How late a cycle may begin, in ns: a tenth of a control loop's period, half of a sound buffer's.
    pub limit_ns: u64,
}

const CURE: &str = "write audio:FRAMES@RATE (audio:64@48000) or control:RATE (control:1kHz)";

impl FromStr for Use {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = |why: &str| format!("{why}; {CURE}");
        let (kind, rest) = text.split_once(':').ok_or_else(|| fail("it names no use"))?;
        let number = |text: &str| -> Result<f64, String> {
            let number: f64 = text.trim().parse().map_err(|_| fail(&format!("'{text}' is not a number")))?;
            if number > 0.0 && number.is_finite() {
                Ok(number)
            } else {
                Err(fail(&format!("'{text}' is not above zero")))
            }
        };
        let (profile, seconds, share) = match kind {
            "audio" => {
                let (frames, rate) = rest.split_once('@').ok_or_else(|| fail("it names no rate"))?;
                // The other half of the buffer's time is the program's own.
                (Profile::Audio, number(frames)? / number(rate)?, 2)
            }
            "control" => {
                let unit = rest.trim_end_matches("Hz").trim_end_matches("hz");
                if unit.len() == rest.len() {
                    return Err(fail("its rate has no unit"));
                }
                let (digits, factor) = match unit.as_bytes().last() {
                    Some(b'k') => (&unit[..unit.len() - 1], 1e3),
                    Some(b'M') => (&unit[..unit.len() - 1], 1e6),
                    _ => (unit, 1.0),
                };
                (Profile::Periodic, 1.0 / (number(digits)? * factor), 10)
            }
            _ => return Err(fail(&format!("unknown use '{kind}'"))),
        };
        let period_ns = (seconds * 1e9).round();
        if !(1_000.0..=3.6e12).contains(&period_ns) {
            return Err(fail("its period is not between 1 us and 1 h"));
        }
        let period_ns = period_ns as u64;
        Ok(Use { asked: text.to_string(), profile, period_ns, limit_ns: period_ns / share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_becomes_period_limit_and_profile() {
        let seen = |text: &str| {
            let asked: Use = text.parse().unwrap();
            (asked.profile, asked.period_ns, asked.limit_ns)
        };
        assert_eq!(seen("audio:64@48000"), (Profile::Audio, 1_333_333, 666_666));
        assert_eq!(seen("control:1kHz"), (Profile::Periodic, 1_000_000, 100_000));
        assert_eq!(seen("control:250Hz"), (Profile::Periodic, 4_000_000, 400_000));
        assert_eq!(seen("control: 2.5 kHz"), (Profile::Periodic, 400_000, 40_000));
    }

    #[test]
    fn what_is_no_use_is_refused_with_the_cure() {
        for wrong in [
            "",
            "audio",
            "audio:64",
            "audio:0@48000",
            "audio:x@1",
            "control:1000",
            "control:-1kHz",
            "control:inf kHz",
            "radio:1kHz",
            "control:2GHz",
            "control:100MHz",
        ] {
            let error = wrong.parse::<Use>().unwrap_err();
            assert!(error.ends_with(CURE), "{wrong}: {error}");
        }
    }
}
