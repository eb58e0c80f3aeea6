// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the lab's scope in a guest: `lab/scope/bench` on the lab's kernel.

use std::process::Command;

use lab::architecture::Architecture;
use lab::kernel;
use lab::patience::Patience;

/// How many times as much of the host's CPU time a guest takes under the scope; or why that is not known.
pub fn slow_down() -> Result<f64, String> {
    let kernel = kernel::find("debian-rt", Architecture::of_this_program(), &Patience::default(), &|_| ())
        .map_err(|e| e.to_string())?;
    let output = Command::new("lab/scope/bench").arg(&kernel.image).output();
    let output = output.map_err(|e| format!("not measured: lab/scope/bench: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let ratio = said.lines().find_map(|line| {
        line.strip_prefix("all, ")?.strip_suffix(" x")?.split(' ').next_back()?.parse().ok()
    });
    ratio.ok_or_else(|| format!("not measured: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
