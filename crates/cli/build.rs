// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the program which commit it was built from: evidence names its writer.

use std::process::Command;

fn main() {
    let given = std::env::var("ISOLATOR_COMMIT").ok();
    let asked = || {
        let output =
            Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let commit = given.or_else(asked).unwrap_or_else(|| "unknown".to_string());
    println!("cargo::rustc-env=ISOLATOR_COMMIT={commit}");
    println!("cargo::rerun-if-env-changed=ISOLATOR_COMMIT");
    println!("cargo::rerun-if-changed=../../.git/HEAD");
}
