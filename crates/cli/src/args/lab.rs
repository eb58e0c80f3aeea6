// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lab …`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use evidence::cause::Choice;

use super::{DONE, OUTPUT, Output};
use crate::values::duration;

/// The end of `--help`.
pub const HELP: &str = "\
A guest is a real kernel in QEMU with this program as its only process. A storm
is kernel work on its housekeeping CPUs. The scope, a QEMU plugin, counts every
interruption and kernel instruction of the isolated CPU.

Examples:
  isolator lab list
  isolator lab run quiet static-keys --boot full
  isolator lab run all --kernel debian-rt:6.1 --seed 7 -o before
  isolator lab run cyclic --mode virtual
  isolator lab shell --kernel ./bzImage
  isolator lab program --kernel ./bzImage -- ./errors --slow 3

Exit status: 0 done; 1 it could not be done, a storm had no effect, or the
guest's kernel logged a warning; 2 (gate) more interruptions than the baseline.";

const RAN: &str = "\
Exit status: 0 run; 1 not run, a storm without effect, or a kernel's warning.";

const GATED: &str = "\
Exit status: 0 nothing grew; 1 it could not be run, a storm had no effect, or
the guest's kernel logged a warning; 2 more interruptions than the baseline.";

const PROGRAM: &str = "\
Exit status: 0 the program ended with 0; 1 it ended otherwise, was skipped, or
the guest's kernel logged a warning.";

/// `isolator lab …`
#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// Lists scenarios and boot lines
    #[command(after_help = DONE)]
    List(LabListArgs),
    /// Prints a scenario as a file
    #[command(after_help = DONE)]
    Show(LabShowArgs),
    /// Runs scenarios and writes one bundle
    #[command(after_help = RAN)]
    Run(LabRunArgs),
    /// Runs scenarios on several kernels and boot lines, and compares them
    #[command(after_help = RAN)]
    Matrix(LabMatrixArgs),
    /// Repeats the runs of a baseline; fails if interruptions or instructions grew
    #[command(after_help = GATED)]
    Gate(LabGateArgs),
    /// Opens a shell in a guest
    #[command(after_help = DONE)]
    Shell(LabShellArgs),
    /// Runs a program in a guest; checks its exit status and the kernel's log
    #[command(after_help = PROGRAM)]
    Program(LabProgramArgs),
}

/// How to run guests, and output options.
#[derive(Debug, Args)]
pub struct LabHow {
    /// Length of the window; with storms it ends after the last of them [default: 5s; of lab
    /// gate: that of the baseline, and no other]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Time limit of a guest [default: the window and the storms, and 400 s on top]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,
    /// Run guests again instead of using the cache; lab gate always does
    #[arg(long)]
    pub fresh: bool,
    /// Folder of the bundle, which must not hold one yet [default: evidence/TIME]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

impl LabHow {
    /// The window of a run without a baseline.
    pub fn window(&self) -> Duration {
        self.duration.unwrap_or(Duration::from_secs(5))
    }
}

/// `isolator lab matrix`
#[derive(Debug, Args)]
pub struct LabMatrixArgs {
    /// The matrix: short, published, isolator, deferral
    pub matrix: String,
    /// Run the scenarios and the boot line of the first step on this kernel too: a name as of lab run, or
    /// a file; may be given again
    #[arg(long, value_name = "KERNEL")]
    pub also: Vec<String>,
    /// Architecture: x86_64, aarch64 [default: this one's]
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// Seed of the random numbers of storms
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How to run it.
    #[command(flatten)]
    pub how: LabHow,
}

/// `isolator lab gate`
#[derive(Debug, Args)]
pub struct LabGateArgs {
    /// The lab.json of an earlier run
    pub baseline: PathBuf,
    /// Another kernel than the baseline's
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,
    /// Ignore a kernel warning that has this text in its first lines, such as one that the kernel before the
    /// change prints too; may be given again
    #[arg(long, value_name = "TEXT")]
    pub known: Vec<String>,
    /// How to run it.
    #[command(flatten)]
    pub how: LabHow,
}

/// `isolator lab list`
#[derive(Debug, Args)]
pub struct LabListArgs {
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator lab show`
#[derive(Debug, Args)]
pub struct LabShowArgs {
    /// The scenario
    pub scenario: String,
}

/// The parts of every guest.
#[derive(Debug, Clone, Args)]
pub struct GuestOptions {
    /// The kernel: debian-rt, debian, isolator (6.12), with another version as debian-rt:6.1,
    /// isolator:6.12+debug, or a file
    #[arg(long, value_name = "KERNEL", default_value = "debian-rt")]
    pub kernel: String,
    /// The boot line: none, isolcpus, nohz_full, full, plan (what isolator tune plans for the guest) or
    /// plan:poll, or text with {isolated} and {house_keeping} in it
    #[arg(long, value_name = "LINE", default_value = "full")]
    pub boot: String,
    /// CPUs of a guest; the last is isolated
    #[arg(long, value_name = "2-8", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=8))]
    pub cpus: u32,
    /// Architecture: x86_64, aarch64 [default: this one's]
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
}

/// `isolator lab run`
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Scenarios by name, or files of them (.toml)
    #[arg(value_name = "SCENARIO", required = true)]
    pub scenarios: Vec<String>,
    /// The parts of the guests.
    #[command(flatten)]
    pub guest: GuestOptions,
    /// How guests run: count, virtual, real [default: latencies for wakeup at rest, else count]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Housekeeping load, a guest each [default: idle]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub loads: Vec<String>,
    /// Seed of the random numbers of storms
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Trace inside the guest as well, and compare the trace with the scope
    #[arg(long)]
    pub witness: bool,
    /// Have the kernel part defer work on the isolated CPU, as isolator measure does; the guest's kernel
    /// must have it
    #[arg(long, value_name = "WHAT,…", num_args = 0..=1, require_equals = true, default_missing_value = "default")]
    pub isolate: Option<String>,
    /// Give every CPU an NMI each TIME; x86-64, with apic_extnmi=all on the boot line
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub nmi: Option<Duration>,
    /// Collector of the causes of spikes in the guest: off, bpf, tracefs, osnoise, counters
    #[arg(long, value_name = "HOW", default_value_t = Choice::Off)]
    pub causes: Choice,
    /// Ignore a kernel warning that has this text in its first lines, such as one that the kernel before the
    /// change prints too; may be given again
    #[arg(hide_short_help = true, long, value_name = "TEXT")]
    pub known: Vec<String>,
    /// How to run it.
    #[command(flatten)]
    pub how: LabHow,
}

/// `isolator lab program`
#[derive(Debug, Args)]
pub struct LabProgramArgs {
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
    /// The parts of the guest.
    #[command(flatten)]
    pub guest: GuestOptions,
    /// How the guest runs: count, virtual (the clock counts instructions, so a busy host makes nothing late),
    /// real [default: count]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Time limit of the guest [default: 10 min]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,
    /// Copy the files of FOLDER into the guest's root, with the same paths
    #[arg(long, value_name = "FOLDER")]
    pub files: Option<PathBuf>,
    /// Have the scope record between the markers of the program, and write the record to FILE
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Give every CPU an NMI each TIME; x86-64, with apic_extnmi=all on the boot line
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub nmi: Option<Duration>,
    /// Emulate all CPUs on one host thread: slower, and without QEMU's errors with patched code
    #[arg(long)]
    pub by_turns: bool,
    /// Make each two CPUs hardware threads of one core; x86-64, an even number of CPUs
    #[arg(long)]
    pub siblings: bool,
    /// Ignore a kernel warning that has this text in its first lines, such as one that an unpatched kernel
    /// prints too; may be given again
    #[arg(long, value_name = "TEXT")]
    pub known: Vec<String>,
}

/// `isolator lab shell`
#[derive(Debug, Args)]
pub struct LabShellArgs {
    /// The parts of the guest.
    #[command(flatten)]
    pub guest: GuestOptions,
}
