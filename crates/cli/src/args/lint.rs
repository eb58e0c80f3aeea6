// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lint`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{OUTPUT, Output, TypesOption};
use crate::values::duration;

/// The end of `--help`.
pub const HELP: &str = "\
Watches the real-time threads of a running program: system calls, page faults,
signals, and calls of malloc(), printf(), dlopen() and of locks. Each finding
has a rule, the line or function of the program's own code, how often, and what
to do instead. What a thread did before its loop runs is its beginning, and
allowed. The rules are in docs/reference/rules.md.

Probes in the C library slow the program meanwhile: do not watch a controller
while its machine moves. lint needs root; with CAP_BPF and CAP_PERFMON alone it
does not see calls of the C library.

Examples:
  isolator lint 4711
  isolator lint $(pgrep -x servo) --duration 1m   rare calls need longer
  isolator lint --thread servo 4711               also an ordinary thread
  isolator lint --sarif lint.sarif --junit lint.xml --command ./servo --test

Exit status: 0 no rule is broken, though there may be notes; 1 the program could
not be watched; 2 a rule is broken.";

/// `isolator lint`
#[derive(Debug, Args)]
pub struct LintArgs {
    /// The program's process number
    #[arg(value_name = "PID", required_unless_present = "command")]
    pub process: Option<u32>,
    /// Start this program, and end it afterwards; comes last
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true, conflicts_with = "process")]
    pub command: Vec<String>,
    /// Watch these threads, by name or number [default: the real-time ones]
    #[arg(long, value_name = "NAME|TID,…", value_delimiter = ',')]
    pub thread: Vec<String>,
    /// Duration of the watch, once the loops run
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,
    /// The kernel's types.
    #[command(flatten)]
    pub types: TypesOption,
    /// Write the findings as JUnit to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub junit: Option<PathBuf>,
    /// Write the findings as SARIF 2.1.0 to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub sarif: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
