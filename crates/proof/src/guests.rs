// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests that the program `isolator lab` runs, and the documents that it prints.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use evidence::lab::LabDocument;
use lab::architecture::Architecture;
use serde::de::DeserializeOwned;

/// Tables in Markdown of measurements in guests, and the deviations in them.
pub type Proof = (String, Vec<String>);

/// The guests' architecture: `GUEST` in the environment, or this program's.
pub fn architecture() -> Result<Architecture, Box<dyn Error>> {
    match std::env::var("GUEST") {
        Ok(name) => Ok(Architecture::named(&name)?),
        Err(_) => Ok(Architecture::of_this_program()),
    }
}

/// The name of a table for the guests' architecture, which is a part of it unless it is the usual one.
pub fn table(name: &str) -> Result<String, Box<dyn Error>> {
    Ok(match architecture()? {
        Architecture::X86_64 => name.to_string(),
        other => format!("{name} GUEST={other}"),
    })
}

/// `isolator lab program` on that kernel; the caller adds other options and the program.
pub fn program(isolator: &Path, kernel: &str, architecture: Architecture) -> Command {
    let mut command = Command::new(isolator);
    command.args(["lab", "program", "--kernel", kernel, "--arch", &architecture.to_string()]);
    command.stdin(Stdio::null());
    command
}

/// Runs `isolator lab ARGS…` and reads the JSON that it prints; its messages go to standard error.
pub fn lab<T: DeserializeOwned>(isolator: &Path, args: &[&str], folder: &Path) -> Result<T, Box<dyn Error>> {
    let output = printed(isolator, args, folder)?;
    if !output.status.success() {
        return Err(ended(args, &output));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The same for `lab run`, even if its result does not count: the document has the reason.
pub fn run(isolator: &Path, args: &[&str], folder: &Path) -> Result<LabDocument, Box<dyn Error>> {
    let output = printed(isolator, args, folder)?;
    serde_json::from_slice(&output.stdout).map_err(|_| ended(args, &output))
}

fn printed(isolator: &Path, args: &[&str], folder: &Path) -> std::io::Result<Output> {
    let mut command = Command::new(isolator);
    command.arg("lab").args(args).args(["--json", "-", "--quiet", "-o"]).arg(folder);
    let output = command.stdin(Stdio::null()).output()?;
    std::io::stderr().write_all(&output.stderr)?;
    Ok(output)
}

fn ended(args: &[&str], output: &Output) -> Box<dyn Error> {
    format!("isolator lab {} ended with {}", args.join(" "), output.status).into()
}
