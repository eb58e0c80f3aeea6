// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator kernel …`: its arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{OUTPUT, Output};

/// What `--help` adds.
pub const HELP: &str = "\
A kernel's source, our series in it and a configuration make a kernel, which is
kept by the content of all of them.

Examples:
  isolator kernel build                     for the lab's guests
  isolator lab run quiet --kernel isolator
  isolator kernel build --with debug        lockdep and its like; --kernel isolator:6.12+debug
  isolator kernel build --config debian     packages for this machine
  isolator kernel export -o patches         for git am, or quilt

Exit status: 0 built; 1 it could not be done, and one line says why.";

/// `isolator kernel …`
#[derive(Debug, Subcommand)]
pub enum KernelVerb {
    /// Builds a kernel and prints where it lies
    Build(KernelBuildArgs),
    /// Writes the whole series of patches, new files first
    Export(KernelExportArgs),
}

/// `isolator kernel build`
#[derive(Debug, Args)]
pub struct KernelBuildArgs {
    /// The version of Linux
    #[arg(long = "version", value_name = "VERSION", default_value = "6.12")]
    pub linux: String,
    /// For which processor: x86_64, arm64 [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// The configuration: lab (small, for guests), debian (the distribution's; makes packages), or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "lab")]
    pub config: String,
    /// Lay a fragment over the configuration: debug, kasan, kcsan, kunit, torture, rt-group, voluntary,
    /// stock, or a file; may be given again
    #[arg(long, value_name = "NAME|FILE")]
    pub with: Vec<String>,
    /// The source: a folder, which is not changed, or an archive [default: the package linux-source-VERSION]
    #[arg(long, value_name = "DIR|TAR")]
    pub source: Option<PathBuf>,
    /// The series: a folder laid out as kernel/ of the repository [default: the one in this program]
    #[arg(long, value_name = "DIR")]
    pub series: Option<PathBuf>,
    /// Leave the series out: the same kernel without it, to compare with
    #[arg(long)]
    pub unpatched: bool,
    /// Root folder, or a capture of one, of the machine that has to boot it; guests' kernels are not judged
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub machine: PathBuf,
    /// Build again what was built before with the same content
    #[arg(long)]
    pub fresh: bool,
    /// Copy what was built into this folder too
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Where results go.
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
    /// The folder
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
}
