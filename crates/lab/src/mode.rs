// SPDX-License-Identifier: MIT OR Apache-2.0
//! How guests run, chosen and said: the three modes measure different things.

use evidence::lab::Mode;

use crate::{Error, Result};

/// The mode of that name.
pub fn named(name: &str) -> Result<Mode> {
    match name {
        "count" => Ok(Mode::Count),
        "virtual" => Ok(Mode::Virtual),
        "real" => Ok(Mode::Real),
        _ => Err(Error::new(
            "use the mode",
            format!("'{name}'"),
            "there is none of that name",
            "choose count, virtual or real",
        )),
    }
}

/// What the mode's figures are.
pub fn meaning(mode: Mode) -> &'static str {
    match mode {
        Mode::Count => {
            "translated code with the scope: interruptions and instructions are exact, times mean nothing"
        }
        Mode::Virtual => {
            "translated code in instruction-count time: repeatable, in virtual nanoseconds of one instruction each"
        }
        Mode::Real => "on the processor: latencies of this machine under its hypervisor",
    }
}
