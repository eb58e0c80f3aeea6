// SPDX-License-Identifier: MIT OR Apache-2.0
//! Architectures that guests have.

use std::fmt;

use crate::{Error, Result};

/// A guest's architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// arm64.
    Aarch64,
}

impl Architecture {
    /// That of this program.
    pub fn of_this_program() -> Architecture {
        if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 }
    }

    /// The one of that name, in the kernel's spelling or the distribution's.
    pub fn named(name: &str) -> Result<Architecture> {
        match name {
            "x86_64" | "amd64" => Ok(Architecture::X86_64),
            "aarch64" | "arm64" => Ok(Architecture::Aarch64),
            _ => Err(Error::on(
                "use the architecture",
                name,
                "there is no lab for it",
                "choose x86_64 or aarch64",
            )),
        }
    }

    pub(crate) fn debian(self) -> &'static str {
        match self {
            Architecture::X86_64 => "amd64",
            Architecture::Aarch64 => "arm64",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        })
    }
}
