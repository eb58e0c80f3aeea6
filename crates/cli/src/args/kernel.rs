// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator kernel …`: its arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DONE, OUTPUT, Output};

/// The end of `--help`.
pub const HELP: &str = "\
Builds Linux with the kernel part and a configuration. Builds are cached by the
content of source, kernel part and configuration.

Examples:
  isolator kernel build                     for the lab's guests
  isolator lab run quiet --kernel isolator
  isolator kernel build --with debug        as --kernel isolator:6.12+debug
  isolator kernel build --config debian     packages for this machine
  isolator kernel export -o patches         for git quiltimport, or quilt

Exit status: 0 built; 1 it could not be done, and one line states why.";

/// `isolator kernel …`
#[derive(Debug, Subcommand)]
pub enum KernelVerb {
    /// Builds a kernel and prints its path
    #[command(after_help = DONE)]
    Build(KernelBuildArgs),
    /// Writes the patches, a folder per group, new files first
    #[command(after_help = DONE)]
    Export(KernelExportArgs),
}

/// `isolator kernel build`
#[derive(Debug, Args)]
pub struct KernelBuildArgs {
    /// The version of Linux
    #[arg(long = "version", value_name = "VERSION", default_value = "6.12")]
    pub linux: String,
    /// The architecture: x86_64, arm64 [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// The configuration: lab (small, for guests), debian (the distribution's; makes packages), or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "lab")]
    pub config: String,
    /// Merge a fragment into the configuration: debug, kasan, kcsan, kunit, torture, rt-group, core-sched,
    /// sched-ext, memory, cpufreq, pmu, voluntary, stock, core (no owner; with owner, no other part; with
    /// ktlb, quiesce, refuse, exclusive, messages one more), or a file; may be given again
    #[arg(long, value_name = "NAME|FILE")]
    pub with: Vec<String>,
    /// The source: a folder, which is not changed, or an archive [default: the package linux-source-VERSION]
    #[arg(long, value_name = "DIR|TAR")]
    pub source: Option<PathBuf>,
    /// The series: a folder laid out as kernel/ of the repository [default: the one in this program]
    #[arg(long, value_name = "DIR")]
    pub series: Option<PathBuf>,
    /// Build the same kernel without the series, to compare with
    #[arg(long)]
    pub unpatched: bool,
    /// Root folder, or a capture of one, of the machine that has to boot it; guests' kernels are not judged
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub machine: PathBuf,
    /// Build again instead of using the cache
    #[arg(long)]
    pub fresh: bool,
    /// Also copy the result into this folder
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator kernel export`
#[derive(Debug, Args)]
pub struct KernelExportArgs {
    /// The version of Linux
    #[arg(long = "version", value_name = "VERSION", default_value = "6.12")]
    pub linux: String,
    /// The series: a folder laid out as kernel/ of the repository [default: the one in this program]
    #[arg(long, value_name = "DIR")]
    pub series: Option<PathBuf>,
    /// Export this group only: core, neighbours for any tree; owner for a tree with core; ktlb, quiesce,
    /// refuse, exclusive, messages for one with owner; may be given again
    #[arg(long, value_name = "NAME")]
    pub group: Vec<String>,
    /// The folder
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
}
