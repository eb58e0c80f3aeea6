// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: parser, `--help`, man pages and completions come from these types. All verbs in one file, longer than
//! others for it, so that an option that several have is seen to be one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use machine::CpuSet;

use crate::values::{cpus, duration};

/// From a stock Linux machine to a proven deadline.
#[derive(Debug, Parser)]
#[command(name = "isolator", version = VERSION, max_term_width = 100, after_help = FIRST_STEPS)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Version and commit, as `--version` prints them.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ISOLATOR_COMMIT"), ")");

const FIRST_STEPS: &str = "\
First steps:
  isolator prove                   measures the idle machine for 20 s, as root
  isolator prove --loads idle,cpu  measures it busy as well
  isolator load --list             what it can be busy with

Exit status: 0 the limit holds, or the work was done; 1 it could not be done,
and one line says why; 2 the limit does not hold, or is not proven to.";

const PROVE: &str = "\
A row is one probe under one load on one CPU. The limit holds if no sample of
any row was above it, no period was missed, everything asked was measured,
nothing tainted the run, and there are enough samples for the claim.

Examples:
  isolator prove --loads idle,cpu,net --duration 10s
  isolator prove --cpus 2-3 --period 250us --limit 50us --loads all -o before
  isolator prove --plan before/manifest.json -o after
  isolator compare before after

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. The first Ctrl-C ends the run with results, the
second ends it at once.";

const MEASURE: &str = "\
Examples:
  isolator measure wakeup                    as cyclictest -m -p 80 -i 1000
  isolator measure wakeup --period 25us,1ms  a base and a servo thread a CPU
  isolator measure spin --threshold 2us      as oslat -T 2

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. Ctrl-C ends it with results.";

const LOAD: &str = "\
Examples:
  isolator load --list
  isolator load cpu net --cpus 0-1 --duration 1min
  isolator load custom='dd if=/dev/zero of=/dev/null'";

const REPORT: &str = "\
Exit status: 0 the limit holds in every bundle; 1 a bundle could not be read, or
the report not be written; 2 the limit does not hold in one, or is not proven to.";

const COMPARE: &str = "\
Runs are alike where the same was asked of them; what the limit was does not
matter, and how the machines differ is listed.

Examples:
  isolator prove -o before
  isolator prove --plan before/manifest.json -o after
  isolator compare before after -o both.html

Exit status: 0 compared, whatever came out; 1 the runs are unlike.";

const IMPORT: &str = "\
Reads what these tools write, and tells which one it was from the text:
  cyclictest    --json, -h, --histfile, -v and its summary
  oslat         --json and its text
  rtla          timerlat hist, osnoise hist
  jitterdebugger, hwlatdetect

Examples:
  cyclictest -m -p 80 -i 1000 -D 1m --json=out.json
  isolator import out.json --load idle --limit 100us

Exit status: 0 imported, and with --limit: it holds; 1 the file could not be
read, or the bundle not be written; 2 the limit given does not hold, or is not
proven to.";

const EXPORT: &str = "\
Examples:
  isolator export before --as cyclictest --load idle > idle.txt
  isolator export before --as csv -o before.csv";

const LAB: &str = "\
A guest is a real kernel with this program as its only process. Storms are kernel
work that its housekeeping CPUs do; the scope, a plugin of QEMU, counts what
reaches the isolated CPU, instruction by instruction.

Examples:
  isolator lab list
  isolator lab run quiet static-keys --boot full
  isolator lab run all --kernel debian-rt:6.1 --seed 7 -o before
  isolator lab run cyclic --mode virtual
  isolator lab shell --kernel ./bzImage
  isolator lab program --kernel ./bzImage -- ./errors --slow 3

Exit status: 0 done; 1 it could not be done, a storm took no effect, or the
guest's kernel complained; 2 (gate) more interruptions than the baseline.";

const KERNEL: &str = "\
A kernel's source, our series in it and a configuration make a kernel, which is
kept by the content of all of them.

Examples:
  isolator kernel build                     for the lab's guests
  isolator lab run quiet --kernel isolator
  isolator kernel build --config debian     packages for this machine
  isolator kernel export -o patches         for git am, or quilt

Exit status: 0 built; 1 it could not be done, and one line says why.";

const RUN: &str = "\
The order is: limit on locked memory, idle states, affinity, policy; then the
command takes this program's place, and its exit status is the command's. What
must not be paged out has to be locked by the command itself (mlockall).

Examples:
  isolator run --cpus 3 -- ./controller
  isolator run --cpus 2-3 --policy rr --priority 40 -- ./controller --fast
  isolator run --policy deadline --runtime 200us --period 1ms -- ./controller";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Does this machine hold its deadline? Measures it under loads, and gives a verdict with evidence
    #[command(after_help = PROVE)]
    Prove(ProveArgs),
    /// Runs one probe with a live line, and writes the same evidence
    #[command(after_help = MEASURE)]
    Measure(MeasureArgs),
    /// Runs loads alone, or lists them
    #[command(after_help = LOAD)]
    Load(LoadArgs),
    /// Prints the table of one or more bundles, and writes their HTML report
    #[command(after_help = REPORT)]
    Report(ReportArgs),
    /// Sets two runs side by side, if the same was asked of both
    #[command(after_help = COMPARE)]
    Compare(CompareArgs),
    /// Makes a bundle of another tool's output
    #[command(after_help = IMPORT)]
    Import(ImportArgs),
    /// Writes a bundle in another tool's format
    #[command(after_help = EXPORT)]
    Export(ExportArgs),
    /// Boots real kernels in an emulator, disturbs them and looks on from outside
    #[command(subcommand, after_help = LAB)]
    Lab(LabVerb),
    /// Builds Linux with the isolator in it, for the lab or for a machine
    #[command(subcommand, after_help = KERNEL)]
    Kernel(KernelVerb),
    /// Runs a command with affinity, policy and priority set up in the right order
    #[command(after_help = RUN)]
    Run(RunArgs),
    /// Writes JSON schemas, man pages and shell completions below a folder
    #[command(hide = true)]
    Generate(GenerateArgs),
}

const ROWS: &str = "What is measured";
const THREADS: &str = "How it is measured";
const CLAIM: &str = "What is claimed";
const OUTPUT: &str = "Output";

/// Where a verb's result goes.
#[derive(Debug, Clone, Default, Args)]
pub struct Output {
    /// Write the result as JSON to FILE, whose name ends in .json, or to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = OUTPUT)]
    pub json: Option<PathBuf>,
    /// Print nothing but errors, and the JSON where it is asked for
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}

/// What to measure and how; what is not given comes from `--plan`, else from the default.
#[derive(Debug, Clone, Default, Args)]
pub struct RunOptions {
    /// CPUs to measure [default: the isolated ones, else the last one]
    #[arg(long, visible_alias = "affinity", value_name = "LIST", value_parser = cpus, help_heading = ROWS)]
    pub cpus: Option<CpuSet>,
    /// CPUs for loads and control [default: all others but siblings of measured ones]
    #[arg(long, value_name = "LIST", value_parser = cpus, help_heading = ROWS)]
    pub house_keeping: Option<CpuSet>,
    /// Length of each row [default: 20s in prove, until Ctrl-C in measure]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = ROWS)]
    pub duration: Option<Duration>,
    /// End each row of the wakeup probe after this many cycles
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = ROWS)]
    pub loops: Option<u64>,
    /// Throw away this much at the start of each row [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = ROWS)]
    pub warm_up: Option<Duration>,
    /// Period of the wakeup probe; several make several threads on each CPU (25us,1ms) [default: 1ms]
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = duration, allow_hyphen_values = true, help_heading = THREADS)]
    pub period: Vec<Duration>,
    /// Scheduling policy: fifo, rr, deadline, other, batch, idle [default: fifo]
    #[arg(long, value_name = "POLICY", help_heading = THREADS)]
    pub policy: Option<String>,
    /// Real-time priority, for fifo and rr [default: 80]
    #[arg(long, value_name = "1-99", allow_negative_numbers = true, help_heading = THREADS)]
    pub priority: Option<u32>,
    /// What the wakeup probe sleeps with: nanosleep, timerfd [default: nanosleep]
    #[arg(long, value_name = "TIMER", help_heading = THREADS)]
    pub timer: Option<String>,
    /// Let CPUs enter no idle state that takes longer to leave, in microseconds, while measuring
    #[arg(long, value_name = "US", allow_negative_numbers = true, help_heading = THREADS)]
    pub dma_latency: Option<u32>,
    /// Have the kernel's isolator defer what can wait on the measured CPUs: clock, resched, ipi, ktlb, or with
    /// exclusive only where nobody else can change this program's memory [default: clock, resched, ipi]
    #[arg(long, value_name = "WHAT,…", num_args = 0..=1, require_equals = true, default_missing_value = "default", help_heading = THREADS)]
    pub isolate: Option<String>,
    /// Largest latency allowed: a time, or a share of the period [default: 10%]
    #[arg(long, value_name = "TIME|%", allow_hyphen_values = true, help_heading = CLAIM)]
    pub limit: Option<String>,
    /// Rate of late cycles to stay below, at 95 % confidence [default: 0.001]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, help_heading = CLAIM)]
    pub claim: Option<f64>,
    /// Taints that you know of: shown, but not held against the verdict (not-real-time-kernel,steal)
    #[arg(long, value_name = "CODE,…", value_delimiter = ',', help_heading = CLAIM)]
    pub accept: Vec<String>,
    /// List every latency or gap above this as a spike [default: the limit]
    #[arg(long, visible_alias = "on-threshold", value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = CLAIM)]
    pub threshold: Option<Duration>,
    /// Folder of the bundle, which must not hold one yet [default: evidence/TIME]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
}

/// `isolator prove`
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// Loads, one row after the other, or 'all'; see isolator load --list [default: idle]
    #[arg(long, value_name = "NAME,…", help_heading = ROWS)]
    pub loads: Option<String>,
    /// Probes, one row after the other: wakeup, spin, hardware [default: wakeup]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = ROWS)]
    pub probe: Vec<String>,
    /// Ask what FILE asks, a bundle's manifest.json or its 'asked' part alone; options go before it
    #[arg(long, value_name = "FILE", help_heading = ROWS)]
    pub plan: Option<PathBuf>,
    /// What to measure and how.
    #[command(flatten)]
    pub options: RunOptions,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator measure`
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// The probe: wakeup, spin or hardware
    pub probe: String,
    /// What to measure and how.
    #[command(flatten)]
    pub options: RunOptions,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator load`
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Loads to run together, or 'all'
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub names: Vec<String>,
    /// List the loads, what they are and whether they can run here
    #[arg(long)]
    pub list: bool,
    /// CPUs to load [default: all but isolated ones]
    #[arg(long, visible_alias = "house-keeping", value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// How long [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Bundles: folders, or .tar.zst files
    #[arg(required = true, value_name = "BUNDLE")]
    pub bundles: Vec<PathBuf>,
    /// The HTML file [default: report.html in the first bundle's folder]
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The bundle before the change
    pub before: PathBuf,
    /// The bundle after it
    pub after: PathBuf,
    /// Compare unlike runs all the same; every output says so
    #[arg(long)]
    pub force: bool,
    /// Also write an HTML report with both
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The other tool's output
    pub file: PathBuf,
    /// The load it was taken under [default: unknown]
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// The limit that judges it [default: none, so there is no verdict]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub limit: Option<Duration>,
    /// Folder of the bundle, which must not hold one yet [default: evidence/FILE without its ending]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The bundle: a folder, or a .tar.zst file
    pub bundle: PathBuf,
    /// The format: cyclictest, rtla, csv, json; or archive: the whole bundle as one .tar.zst, which every verb reads
    #[arg(long = "as", value_name = "FORMAT")]
    pub format: String,
    /// Only rows of this load
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// Only rows of this probe
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
}

/// `isolator run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// CPUs that the command may use [default: as now]
    #[arg(long, visible_alias = "affinity", value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Scheduling policy: fifo, rr, deadline, other, batch, idle
    #[arg(long, default_value = "fifo", value_name = "POLICY")]
    pub policy: String,
    /// Real-time priority, for fifo and rr
    #[arg(long, default_value_t = 80, value_name = "1-99", allow_negative_numbers = true)]
    pub priority: u32,
    /// CPU time of one period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100us", allow_hyphen_values = true)]
    pub runtime: Duration,
    /// When it must be had, for deadline [default: the period]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub deadline: Option<Duration>,
    /// The period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1ms", allow_hyphen_values = true)]
    pub period: Duration,
    /// Children of the command start as ordinary processes; with deadline it may start none otherwise
    #[arg(long)]
    pub reset_on_fork: bool,
    /// Let CPUs enter no idle state that takes longer to leave, in microseconds, while the command runs
    #[arg(long, value_name = "US", allow_negative_numbers = true)]
    pub dma_latency: Option<u32>,
    /// Say each step on standard error
    #[arg(long, short)]
    pub verbose: bool,
    /// The command and its arguments, after --
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `isolator generate`
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The folder; schema, man and completions are made in it
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

/// `isolator lab …`
#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// Lists scenarios and boot lines
    List(LabListArgs),
    /// Shows a scenario as its file would hold it
    Show(LabShowArgs),
    /// Runs scenarios and writes one bundle of what was seen
    Run(LabRunArgs),
    /// Runs scenarios on several kernels and boot lines, and sets them side by side
    Matrix(LabMatrixArgs),
    /// Runs what a baseline ran; fails where more interruptions or instructions came
    Gate(LabGateArgs),
    /// A guest to type in
    Shell(LabShellArgs),
    /// Runs a static program in a guest, and judges its status and the kernel's log
    Program(LabProgramArgs),
}

/// How guests are run, and where what they gave goes.
#[derive(Debug, Args)]
pub struct LabHow {
    /// Length of the window in which interruptions count; with storms it ends after the last of them
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub duration: Duration,
    /// The time after which a guest is given up [default: 210 s and the window]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,
    /// Run guests again that ran before with the same content
    #[arg(long)]
    pub fresh: bool,
    /// Folder of what is written, which must not hold a bundle yet [default: evidence/TIME]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator lab matrix`
#[derive(Debug, Args)]
pub struct LabMatrixArgs {
    /// The matrix: short, published, isolator
    pub matrix: String,
    /// The guests' architecture: x86_64, aarch64 [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// Seed of everything that storms draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How it is run.
    #[command(flatten)]
    pub how: LabHow,
}

/// `isolator lab gate`
#[derive(Debug, Args)]
pub struct LabGateArgs {
    /// A lab.json that was kept
    pub baseline: PathBuf,
    /// Another kernel than the baseline's
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,
    /// How it is run.
    #[command(flatten)]
    pub how: LabHow,
}

/// `isolator lab list`
#[derive(Debug, Args)]
pub struct LabListArgs {
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator lab show`
#[derive(Debug, Args)]
pub struct LabShowArgs {
    /// The scenario
    pub scenario: String,
}

/// What every guest is made of.
#[derive(Debug, Clone, Args)]
pub struct GuestOptions {
    /// The kernel: debian-rt, debian, isolator (6.12), with another version as debian-rt:6.1, or a file
    #[arg(long, value_name = "KERNEL", default_value = "debian-rt")]
    pub kernel: String,
    /// The boot line: none, isolcpus, nohz_full, full, or text with {isolated} and {house_keeping} in it
    #[arg(long, value_name = "LINE", default_value = "full")]
    pub boot: String,
    /// CPUs of a guest; the last one is isolated
    #[arg(long, value_name = "2-8", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=8))]
    pub cpus: u32,
    /// The guests' architecture: x86_64, aarch64 [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
}

/// `isolator lab run`
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Scenarios by name, or files of them (.toml)
    #[arg(value_name = "SCENARIO", required = true)]
    pub scenarios: Vec<String>,
    /// What guests are made of.
    #[command(flatten)]
    pub guest: GuestOptions,
    /// How guests run: count, virtual, real [default: latencies for wakeup at rest, else count]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Loads on housekeeping CPUs, one guest each; see isolator load --list [default: idle]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub loads: Vec<String>,
    /// Seed of everything that storms draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Let the guest's own tracing watch too, and compare it with the scope
    #[arg(long)]
    pub witness: bool,
    /// Have the guest's isolator defer what can wait on the isolated CPU, as isolator measure does; the kernel must have it
    #[arg(long, value_name = "WHAT,…", num_args = 0..=1, require_equals = true, default_missing_value = "default")]
    pub isolate: Option<String>,
    /// How it is run.
    #[command(flatten)]
    pub how: LabHow,
}

/// `isolator lab program`
#[derive(Debug, Args)]
pub struct LabProgramArgs {
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
    /// What the guest is made of.
    #[command(flatten)]
    pub guest: GuestOptions,
    /// The time after which the guest is given up [default: 10 min]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,
}

/// `isolator lab shell`
#[derive(Debug, Args)]
pub struct LabShellArgs {
    /// What the guest is made of.
    #[command(flatten)]
    pub guest: GuestOptions,
}

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
    /// Lay a fragment over the configuration: debug, kcsan, or a file; may be given again
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
