// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: parser, `--help`, man pages and completions come from these types.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use machine::CpuSet;

/// From a stock Linux machine to a proven deadline.
///
/// Exit status: 0 the limit holds (or the work was done), 1 it could not be done, 2 the limit does not hold.
#[derive(Debug, Parser)]
#[command(name = "isolator", version = VERSION, max_term_width = 100, infer_subcommands = false)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Version and commit, as `--version` prints them.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ISOLATOR_COMMIT"), ")");

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Does this machine hold its deadline? Loads it while measuring, and gives a verdict with evidence
    Prove(ProveArgs),
    /// Runs one probe with a live line, and writes the same evidence
    Measure(MeasureArgs),
    /// Runs loads alone, or lists them
    Load(LoadArgs),
    /// Makes the HTML report of one or more bundles, and prints the table
    Report(ReportArgs),
    /// Sets two runs side by side, if what was asked of them is the same
    Compare(CompareArgs),
    /// Makes a bundle of another tool's output (cyclictest, oslat, rtla, jitterdebugger, hwlatdetect)
    Import(ImportArgs),
    /// Writes a bundle in another tool's format
    Export(ExportArgs),
    /// Runs a command with affinity, policy and priority set up in the right order
    Run(RunArgs),
    /// Writes JSON schemas, man pages and shell completions below a folder
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// Where a verb's result goes.
#[derive(Debug, Clone, Default, Args)]
pub struct Output {
    /// Write the result as JSON to FILE (a name that ends in .json), or to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Print nothing but errors, and the JSON where it is asked for
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// What to measure and how; what is not given comes from `--plan`, else from the default.
#[derive(Debug, Clone, Default, Args)]
pub struct RunOptions {
    /// Period of the wakeup probe; several make several threads on each CPU (25us,1ms) [default: 1ms]
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = duration)]
    pub period: Vec<Duration>,
    /// Largest latency allowed: a time, or a share of the period [default: 10%]
    #[arg(long, value_name = "TIME|%")]
    pub limit: Option<String>,
    /// CPUs to measure [default: the isolated ones, else the last one]
    #[arg(long, visible_alias = "affinity", value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// CPUs for loads and control [default: all others but siblings of measured ones]
    #[arg(long, value_name = "LIST")]
    pub house_keeping: Option<CpuSet>,
    /// Length of each row [default: 20s for prove; until Ctrl-C for measure]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// End each row after this many cycles
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub loops: Option<u64>,
    /// Throw away this much at the start of each row [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub warm_up: Option<Duration>,
    /// Real-time priority of the measuring threads, for fifo and rr [default: 80]
    #[arg(long, value_name = "1-99")]
    pub priority: Option<u32>,
    /// Scheduling policy of the measuring threads: fifo, rr, deadline, other [default: fifo]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// How the wakeup probe sleeps: nanosleep, timerfd [default: nanosleep]
    #[arg(long, value_name = "TIMER")]
    pub timer: Option<String>,
    /// List every latency or gap above this as a spike [default: the limit]
    #[arg(long, visible_alias = "on-threshold", value_name = "TIME", value_parser = duration)]
    pub threshold: Option<Duration>,
    /// Rate of late cycles that a held verdict claims to stay below, at 95 % confidence [default: 0.001]
    #[arg(long, value_name = "RATE")]
    pub claim: Option<f64>,
    /// Ask the kernel to leave idle states within this many microseconds while measuring [default: not asked]
    #[arg(long, value_name = "US")]
    pub dma_latency: Option<u32>,
    /// Taints that are known and accepted: shown, but not held against the verdict (not-real-time-kernel,steal)
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// Folder of the bundle, which must not hold one yet [default: evidence/TIME]
    #[arg(long, short, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// `isolator prove`
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// What to measure and how.
    #[command(flatten)]
    pub options: RunOptions,
    /// Loads, one row after the other, or 'all'; see isolator load --list [default: idle]
    #[arg(long, value_name = "NAME,…")]
    pub loads: Option<String>,
    /// Probes, one row after the other: wakeup, spin, hardware [default: wakeup]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub probe: Vec<String>,
    /// Take what is asked from FILE: a bundle's manifest.json, or a file with its 'asked' part alone
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
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
    #[arg(long, visible_alias = "house-keeping", value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// How long [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Bundles: folders, or .tar.zst files
    #[arg(required = true)]
    pub bundles: Vec<PathBuf>,
    /// The HTML file [default: report.html in the first bundle's folder]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
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
    /// Compare runs of which different things were asked; the output says so
    #[arg(long)]
    pub force: bool,
    /// Also write an HTML report with both
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
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
    /// The limit that judges it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub limit: Option<Duration>,
    /// Folder of the bundle [default: evidence/FILE's name]
    #[arg(long, short, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The bundle
    pub bundle: PathBuf,
    /// The format: cyclictest, rtla, csv, json
    #[arg(long = "as", value_name = "FORMAT")]
    pub format: String,
    /// Only rows of this load
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// Only rows of this probe
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// `isolator run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// CPUs that the command may use [default: as now]
    #[arg(long, visible_alias = "affinity", value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// fifo, rr, deadline, other, batch, idle
    #[arg(long, default_value = "fifo", value_name = "POLICY")]
    pub policy: String,
    /// Real-time priority, for fifo and rr
    #[arg(long, default_value_t = 80, value_name = "1-99")]
    pub priority: u32,
    /// Children of the command start as ordinary processes
    #[arg(long)]
    pub reset_on_fork: bool,
    /// CPU time of one period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100us")]
    pub runtime: Duration,
    /// When it must be had, for deadline [default: the period]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// The period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1ms")]
    pub period: Duration,
    /// Ask the kernel to leave idle states within this many microseconds while the command runs
    #[arg(long, value_name = "US")]
    pub dma_latency: Option<u32>,
    /// Say each step on standard error
    #[arg(long, short)]
    pub verbose: bool,
    /// The command and its arguments, after --
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `isolator generate`
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The folder; schema, man and completions are made in it
    pub folder: PathBuf,
}

/// A time with its unit: `100us`, `1ms`, `20s`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.parse::<f64>().is_ok() && text != "0" {
        return Err(format!("it has no unit; write {text}us, {text}ms or {text}s"));
    }
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|e| format!("{e}; write 100us, 1ms, 20s or 24h"))
}

/// Joins `--json` and the file after it, so that `--json - `, `--json out.json` and a bare `--json` before
/// another argument all mean what they look like.
pub fn join_json(args: impl Iterator<Item = std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let mut joined: Vec<std::ffi::OsString> = Vec::new();
    let mut plain = false;
    for arg in args {
        let file = arg == "-" || arg.to_string_lossy().ends_with(".json");
        match joined.last_mut() {
            Some(last) if !plain && last == "--json" && file => {
                last.push("=");
                last.push(arg);
            }
            _ => {
                plain |= arg == "--";
                joined.push(arg);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_takes_a_dash_or_a_json_file_but_never_a_bundle() {
        let join = |text: &str| {
            let args = text.split(' ').map(std::ffi::OsString::from);
            join_json(args).iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(join("isolator compare --json a b"), "isolator compare --json a b");
        assert_eq!(join("isolator prove --json - --quiet"), "isolator prove --json=- --quiet");
        assert_eq!(join("isolator prove --json out.json"), "isolator prove --json=out.json");
        assert_eq!(join("isolator run -- tool --json -"), "isolator run -- tool --json -");
    }

    #[test]
    fn a_time_without_a_unit_is_refused_with_the_cure() {
        assert_eq!(duration("1000").unwrap_err(), "it has no unit; write 1000us, 1000ms or 1000s");
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert!(duration("-1ms").is_err());
    }
}
