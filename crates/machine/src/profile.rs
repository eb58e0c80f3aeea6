// SPDX-License-Identifier: MIT OR Apache-2.0
//! The purpose of a machine: findings weigh by it, and plans differ.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The purpose of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// A program that sleeps until each period begins: control loops, EtherCAT.
    #[default]
    Periodic,
    /// A program that never sleeps: packets, trading, radio.
    Poll,
    /// Sound: buffers of some milliseconds, on a desktop.
    Audio,
    /// A host whose guests have deadlines.
    Vm,
    /// Throughput: no deadline at all.
    Server,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 5] =
        [Profile::Periodic, Profile::Poll, Profile::Audio, Profile::Vm, Profile::Server];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Periodic => "periodic",
            Profile::Poll => "poll",
            Profile::Audio => "audio",
            Profile::Vm => "vm",
            Profile::Server => "server",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Profile::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| "it is no profile; write periodic, poll, audio, vm or server".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_names() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert!("desktop".parse::<Profile>().is_err());
    }
}
