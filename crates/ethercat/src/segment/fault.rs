// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults on demand, by the number of a frame of process data: `lost@1000`, `late:2ms@1000/100`, `counter@5`,
//! `unplug:3@2000`.

use std::fmt;
use std::str::FromStr;

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The frame does not come back.
    Lost,
    /// It comes back so much later, in nanoseconds.
    Late(u64),
    /// The working counters of its process data are wrong.
    Counter,
    /// From then on nothing passes beyond the SubDevices before this one, counted from 1.
    Unplug(usize),
}

/// A fault, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The first frame of process data that it befalls, counted from 1.
    pub first: u64,
    /// And every so many after that; 0: no other.
    pub every: u64,
}

impl Fault {
    /// Whether it befalls the frame of process data with that number.
    pub fn befalls(&self, number: u64) -> bool {
        match number.checked_sub(self.first) {
            None => false,
            Some(0) => true,
            Some(since) => self.every > 0 && since.is_multiple_of(self.every),
        }
    }
}

const FORMS: &str = "lost@FRAME, late:TIME@FRAME, counter@FRAME or unplug:SUBDEVICE@FRAME, each with /EVERY";

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let wrong = || format!("cannot make the fault '{text}': it must be {FORMS}");
        let (what, when) = text.split_once('@').ok_or_else(wrong)?;
        let (first, every) = when.split_once('/').unwrap_or((when, "0"));
        let number = |text: &str| text.parse::<u64>().ok();
        let kind = match what.split_once(':') {
            None if what == "lost" => Some(FaultKind::Lost),
            None if what == "counter" => Some(FaultKind::Counter),
            Some(("late", time)) => nanoseconds(time).map(FaultKind::Late),
            Some(("unplug", which)) => {
                number(which).filter(|which| *which > 0).map(|which| FaultKind::Unplug(which as usize))
            }
            _ => None,
        };
        match (kind, number(first), number(every)) {
            (Some(kind), Some(first @ 1..), Some(every)) => Ok(Fault { kind, first, every }),
            _ => Err(wrong()),
        }
    }
}

/// `2ms`, `50us`, `1s` in nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let unit = match &text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// As it is written.
impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FaultKind::Lost => write!(out, "lost")?,
            FaultKind::Late(nanoseconds) => write!(out, "late:{nanoseconds}ns")?,
            FaultKind::Counter => write!(out, "counter")?,
            FaultKind::Unplug(which) => write!(out, "unplug:{which}")?,
        }
        write!(out, "@{}", self.first)?;
        if self.every > 0 { write!(out, "/{}", self.every) } else { Ok(()) }
    }
}
