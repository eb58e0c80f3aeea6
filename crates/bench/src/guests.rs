// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lab's guests give, as tables in `docs/lab.md`: between two comments that name the table, so that the words
//! around them can be written by hand.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use evidence::lab::LabDocument;
use lab::kernel::Architecture;
use serde::de::DeserializeOwned;

/// Tables in Markdown of what was measured in guests, and what in them is not as it should be.
pub type Proof = (String, Vec<String>);

/// The guests' architecture: `GUEST` in the environment, or this program's.
pub fn architecture() -> Result<Architecture, Box<dyn Error>> {
    match std::env::var("GUEST") {
        Ok(name) => Ok(Architecture::named(&name)?),
        Err(_) => Ok(Architecture::of_this_program()),
    }
}

/// The kernel with the isolator.
const OURS: &str = "isolator";

/// How often a guest is started that the emulator fails.
pub const TRIES: usize = 5;

/// What a table of the guests' architecture is called: with it, where it is not the usual one.
pub fn table(name: &str) -> Result<String, Box<dyn Error>> {
    Ok(match architecture()? {
        Architecture::X86_64 => name.to_string(),
        other => format!("{name} GUEST={other}"),
    })
}

/// `isolator lab program` on that kernel; its other options and the program are to follow.
pub fn program(isolator: &Path, kernel: &str, architecture: Architecture) -> Command {
    let mut command = Command::new(isolator);
    command.args(["lab", "program", "--kernel", kernel, "--arch", &architecture.to_string()]);
    command.stdin(Stdio::null());
    command
}

/// Runs `isolator lab ARGS…` and reads the JSON that it prints; what it says goes to standard error.
pub fn lab<T: DeserializeOwned>(isolator: &Path, args: &[&str], folder: &Path) -> Result<T, Box<dyn Error>> {
    let output = printed(isolator, args, folder)?;
    if !output.status.success() {
        return Err(ended(args, &output));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The same of `lab run`, also where its own judgement makes it no result: the document says why. A kernel that is not ours is
/// tried again where it met stale text.
pub fn run(isolator: &Path, args: &[&str], folder: &Path) -> Result<LabDocument, Box<dyn Error>> {
    let mut output = printed(isolator, args, folder)?;
    for _ in 1..TRIES {
        if args.iter().any(|arg| arg.starts_with(OURS))
            || !met_stale_text(&String::from_utf8_lossy(&output.stderr))
        {
            break;
        }
        eprintln!("again: isolator lab {}", args.join(" "));
        output = printed(isolator, args, folder)?;
    }
    serde_json::from_slice(&output.stdout).map_err(|_| ended(args, &output))
}

/// Whether a guest said that it met a breakpoint which the kernel had put into its text and taken out again: the emulator's
/// threads run instructions that were patched meanwhile, as early as at boot. Not for ours: with the isolator it would be a finding.
pub fn met_stale_text(said: &str) -> bool {
    said.contains("Oops: int3")
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

/// Whether the page has a place for the table of that name; asked before what takes long.
pub fn has_place(page: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    page_with(page, name, "").map(drop)
}

/// Puts `table` into a page in place of the one of that name.
pub fn put(page: &Path, name: &str, table: &str) -> Result<(), Box<dyn Error>> {
    Ok(evidence::writer::replace(page, page_with(page, name, table)?.as_bytes())?)
}

fn page_with(page: &Path, name: &str, table: &str) -> Result<String, Box<dyn Error>> {
    let text = fs::read_to_string(page)?;
    let lacks = || {
        format!("cannot write {}: it has no comments '{}' and '{}'", page.display(), begin(name), end(name))
    };
    Ok(with_table(&text, name, table).ok_or_else(lacks)?)
}

fn begin(name: &str) -> String {
    format!("<!-- {name}: written by make {name}, not to be edited -->\n")
}

fn end(name: &str) -> String {
    format!("<!-- end of {name} -->\n")
}

fn with_table(text: &str, name: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(&begin(name))?;
    let (_, after) = rest.split_once(&end(name))?;
    Some([before, &begin(name), "\n", table.trim_end(), "\n\n", &end(name), after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_one_of_its_name_alone() {
        let page = format!("A\n{}old\n{}B\n{}C\n{}", begin("x"), end("x"), begin("y"), end("y"));
        let once = with_table(&page, "x", "| new |\n").unwrap();
        assert!(once.contains("| new |") && !once.contains("old") && once.contains("C\n"), "{once}");
        assert_eq!(with_table(&once, "x", "| new |").unwrap(), once);
        assert_eq!(with_table(&page, "z", ""), None);
    }
}
