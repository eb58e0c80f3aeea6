// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: parser, `--help`, man pages and completions come from these types. What several verbs
//! take stands here, the rest in a file per verb.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use evidence::cause::Choice;
use evidence::limit::Until;
use evidence::weakly_hard::LateAllowance;
use machine::{CpuSet, Use};

use crate::values::{
    allowance, causes, claim_per, cpus, duration, interval, policy, purpose, taint, timer, until,
};

mod compare;
mod doctor;
mod ethercat;
mod export;
mod fleet;
mod gate;
#[cfg(feature = "generate")]
mod generate;
mod import;
mod judge;
mod kernel;
mod lab;
mod lint;
mod load;
mod measure;
mod monitor;
mod over;
mod prove;
mod record;
mod report;
mod run;
mod setup_user;
mod task;
mod tune;
mod watch;
mod why;

pub use self::compare::CompareArgs;
pub use self::doctor::DoctorArgs;
pub use self::ethercat::{EthercatVerb, SimulateArgs};
pub use self::export::ExportArgs;
pub use self::fleet::{
    FleetApplyArgs, FleetHosts, FleetPlanArgs, FleetProveArgs, FleetQueryArgs, FleetReportArgs,
    FleetRollbackArgs, FleetStoreArgs, FleetVerb, FleetVerifyArgs,
};
pub use self::gate::GateArgs;
#[cfg(feature = "generate")]
pub use self::generate::GenerateArgs;
pub use self::import::ImportArgs;
pub use self::judge::JudgeArgs;
pub use self::kernel::{KernelBuildArgs, KernelExportArgs, KernelVerb};
pub use self::lab::{
    GuestOptions, LabGateArgs, LabListArgs, LabMatrixArgs, LabProgramArgs, LabRunArgs, LabShellArgs,
    LabShowArgs, LabVerb,
};
pub use self::lint::LintArgs;
pub use self::load::LoadArgs;
pub use self::measure::MeasureArgs;
pub use self::monitor::{LoopPeriod, MonitorArgs};
pub use self::prove::ProveArgs;
pub use self::record::RecordArgs;
pub use self::report::ReportArgs;
pub use self::run::RunArgs;
pub use self::setup_user::SetupUserArgs;
pub use self::task::{TaskListArgs, TaskSetArgs, TaskShowArgs, TaskVerb};
pub use self::tune::{
    TuneApplyArgs, TuneExportArgs, TuneHereArgs, TuneMeasureArgs, TunePlanArgs, TuneRollbackArgs, TuneVerb,
    TuneVerifyArgs, TuneWanted,
};
pub use self::watch::WatchArgs;
pub use self::why::WhyArgs;

/// From a stock Linux machine to a proven deadline.
#[derive(Debug, Parser)]
#[command(
    name = "isolator",
    version = VERSION,
    max_term_width = 100,
    after_help = FIRST_STEPS,
    disable_help_flag = true
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
    /// Print help; isolator help VERB prints all of it
    #[arg(short, long, global = true, action = ArgAction::HelpShort)]
    pub help: Option<bool>,
}

/// Version and commit, as `--version` prints them.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ISOLATOR_COMMIT"), ")");

const FIRST_STEPS: &str = "\
First steps:
  isolator                         guides you from an audit to a proof, step by step
  isolator doctor                  checks this machine for causes of latency
  isolator prove                   measures the idle machine for 20 s, as root
  isolator prove --loads idle,cpu  measures it busy as well
  isolator load --list             lists the loads

Exit status: 0 the limit holds, or the work was done; 1 it could not be done,
and one line states why; 2 the limit does not hold, or is not proven to.";

/// The end of the help of a verb that does one thing, and judges nothing.
const DONE: &str = "Exit status: 0 done; 1 it could not be done, and one line states why.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measures this machine under loads, and says whether a limit holds
    #[command(after_help = prove::HELP, after_long_help = prove::LONG_HELP)]
    Prove(ProveArgs),
    /// Runs one probe with a live line, and writes a bundle as prove does
    #[command(after_help = measure::HELP, after_long_help = measure::LONG_HELP)]
    Measure(MeasureArgs),
    /// Measures the loops of a running program, and writes a bundle as prove does
    #[command(after_help = monitor::HELP, after_long_help = monitor::LONG_HELP)]
    Monitor(MonitorArgs),
    /// Finds the calls of a program that a real-time thread must not make
    #[command(after_help = lint::HELP)]
    Lint(LintArgs),
    /// Runs loads alone, or lists them
    #[command(after_help = load::HELP)]
    Load(LoadArgs),
    /// Prints the tables of bundles, and writes their HTML report
    #[command(after_help = report::HELP)]
    Report(ReportArgs),
    /// Shows the causes of a bundle's spikes, with advice
    #[command(after_help = why::HELP)]
    Why(WhyArgs),
    /// Prints the commands that record a trace for why and monitor where isolator is not
    #[command(after_help = record::HELP)]
    Record(RecordArgs),
    /// Shows the interrupts of the isolated CPUs now
    #[command(after_help = watch::HELP)]
    Watch(WatchArgs),
    /// Compares two runs of the same options
    #[command(after_help = compare::HELP)]
    Compare(CompareArgs),
    /// Compares a run with its baseline, for CI: status 2 if it is worse
    #[command(after_help = gate::HELP)]
    Gate(GateArgs),
    /// Measures, tunes and ranks many machines
    #[command(subcommand, after_help = fleet::HELP)]
    Fleet(FleetVerb),
    /// Makes a bundle from another tool's output
    #[command(after_help = import::HELP)]
    Import(ImportArgs),
    /// Writes a bundle in another tool's format
    #[command(after_help = export::HELP)]
    Export(ExportArgs),
    /// Boots real kernels in QEMU, and counts interruptions from outside the guest
    #[command(subcommand, after_help = lab::HELP)]
    Lab(LabVerb),
    /// Simulates EtherCAT SubDevices, with faults on demand
    #[command(subcommand, after_help = ethercat::HELP)]
    Ethercat(EthercatVerb),
    /// Builds Linux with the kernel part, for the lab or for a machine
    #[command(subcommand, after_help = kernel::HELP)]
    Kernel(KernelVerb),
    /// Runs a command with affinity, policy and priority
    #[command(after_help = run::HELP)]
    Run(RunArgs),
    /// Audits the machine and suggests fixes; changes nothing
    #[command(after_help = doctor::HELP)]
    Doctor(DoctorArgs),
    /// Shows and sets policy, priority and CPUs of tasks
    #[command(subcommand, after_help = task::HELP)]
    Task(TaskVerb),
    /// Plans, applies, verifies and rolls back changes to a machine
    #[command(subcommand, after_help = tune::HELP)]
    Tune(TuneVerb),
    /// Gives users the rights to measure without root, or takes them back
    #[command(after_help = setup_user::HELP)]
    SetupUser(SetupUserArgs),
    /// Writes JSON schemas, reference pages, man pages and shell completions below a folder
    #[cfg(feature = "generate")]
    #[command(hide = true)]
    Generate(GenerateArgs),
}

impl Verb {
    /// The file with the kernel's types that the user gives to its BPF programs.
    pub fn btf(&self) -> Option<&Path> {
        let types = match self {
            Verb::Prove(args) => &args.options.types,
            Verb::Measure(args) => &args.options.types,
            Verb::Monitor(args) => &args.types,
            Verb::Lint(args) => &args.types,
            Verb::Watch(args) => &args.types,
            _ => return None,
        };
        types.btf.as_deref()
    }

    /// Whether its work is in vain where the reader of standard output has gone: not where it leaves a
    /// bundle or a change, nor where the reader says by going that it has seen enough.
    pub fn is_for_a_reader(&self) -> bool {
        use Verb::{Ethercat, Kernel, Lab, Load, Measure, Monitor, Prove, Run, Watch};
        let leaves_more = matches!(self, Prove(_) | Measure(_) | Monitor(_) | Lab(_) | Kernel(_));
        !(leaves_more || matches!(self, Watch(_) | Load(_) | Ethercat(_) | Run(_)))
    }
}

const ROWS: &str = "What to measure";
const THREADS: &str = "How to measure";
const CLAIM: &str = "Limit and claim";
const SPIKES: &str = "Actions on spikes";
const OUTPUT: &str = "Output";
const RESPONSE: &str = "The response probe";
const ETHERCAT: &str = "EtherCAT";

/// The types by which BPF programs read the kernel.
#[derive(Debug, Clone, Default, Args)]
pub struct TypesOption {
    /// Types of this kernel: BTF, or an image of the kernel that has it [default: the kernel's own, or those
    /// that are found]
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = THREADS)]
    pub btf: Option<PathBuf>,
}

/// Output options.
#[derive(Debug, Clone, Default, Args)]
pub struct Output {
    /// Write JSON to standard output, or to FILE.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = OUTPUT)]
    pub json: Option<PathBuf>,
    /// Print nothing but errors, and the JSON
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}

/// How much a verb prints that shows a run.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Detail {
    /// Print every row, taint, note and reason
    ///
    /// Otherwise a screen has the worst rows, and the most serious of the others.
    #[arg(long, short, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub verbose: bool,
}

/// Actions on spikes.
#[derive(Debug, Clone, Default, Args)]
pub struct SpikeOptions {
    /// Action on a spike: snapshot, signal:NAME:PID, or a command for sh -c, with the spike described in
    /// ISOLATOR_… variables; may be given several times
    #[arg(long, hide_short_help = true, value_name = "COMMAND|snapshot|signal:NAME:PID", help_heading = SPIKES)]
    pub on_spike: Vec<String>,
    /// Shortest time between two actions [default: 10s]
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = interval, allow_hyphen_values = true, requires = "on_spike", help_heading = SPIKES)]
    pub on_spike_every: Option<Duration>,
}

/// Runs of other boots.
#[derive(Debug, Clone, Default, Args)]
pub struct BootOptions {
    /// Judge N boots together: without a bad one, fewer than 3/N of boots are bad
    ///
    /// Earlier runs of the same request that lie in the same folder count, one boot each. Run the same
    /// command again after each boot; isolator reboots nothing. The last lines say how many are needed.
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000), help_heading = CLAIM)]
    pub boots: Option<u64>,
    /// Further runs to judge together with this one, from other boots
    #[arg(hide_short_help = true, long, value_name = "RUN,…", value_delimiter = ',', help_heading = CLAIM)]
    pub join: Vec<PathBuf>,
}

/// Options of the response probe.
#[derive(Debug, Clone, Default, Args)]
pub struct ResponseOptions {
    /// Role of the measured CPU: both (it answers edges of another CPU here), responder or generator (the
    /// other role is outside, or a wire from --out to --in) [default: both with shared memory, responder
    /// with lines]
    #[arg(hide_short_help = true, long, value_name = "ROLE", help_heading = RESPONSE)]
    pub role: Option<String>,
    /// Memory that is shared with another machine or program, as ivshmem's resource2: the generator's word,
    /// and the responder's 128 bytes on [default: memory of this program]
    #[arg(hide_short_help = true, long, value_name = "FILE[:OFFSET]", help_heading = RESPONSE)]
    pub signal: Option<String>,
    /// Poll the registers of a board's GPIO: raspberry-pi-4, raspberry-pi-5, phytium-pi, pl061@ADDRESS, or a
    /// file that describes it; after an @ where they are, as @0x9030000 or @/dev/uio0
    #[arg(hide_short_help = true, long, value_name = "NAME|FILE[@PLACE]", help_heading = RESPONSE)]
    pub board: Option<String>,
    /// Wait for edges of the kernel's GPIO lines instead, as gpiochip0; with --board a row for each
    #[arg(hide_short_help = true, long, value_name = "CHIP", help_heading = RESPONSE)]
    pub chip: Option<String>,
    /// The input line
    #[arg(hide_short_help = true, long = "in", value_name = "LINE", allow_negative_numbers = true, help_heading = RESPONSE)]
    pub line_in: Option<u32>,
    /// The output line
    #[arg(hide_short_help = true, long = "out", value_name = "LINE", allow_negative_numbers = true, help_heading = RESPONSE)]
    pub line_out: Option<u32>,
}

/// Options of EtherCAT, as a probe or else as a load.
#[derive(Debug, Clone, Default, Args)]
pub struct EthercatOptions {
    /// The interface with SubDevices that ethercat drives, as a probe or else as a load [default: a
    /// simulated segment]
    #[arg(hide_short_help = true, long, value_name = "NAME", help_heading = ETHERCAT)]
    pub device: Option<String>,
    /// Use it although it carries an address or the default route, or another MainDevice is on it
    #[arg(hide_short_help = true, long, help_heading = ETHERCAT)]
    pub force: bool,
}

/// The measures by which a run is judged, and the end of a row by them.
#[derive(Debug, Clone, Default, Args)]
pub struct VerdictOptions {
    /// Allowed latency, or share of the period [default: 10%]
    ///
    /// A cycle above it is late. A time, or a share of the period; for each period its own as
    /// 25us:10us,1ms:100us.
    #[arg(long, value_name = "TIME|%", allow_hyphen_values = true, help_heading = CLAIM)]
    pub limit: Option<String>,
    /// Rate of late episodes to stay below [default: 0.001]
    ///
    /// Begins of episodes among cycles, at 95 % confidence.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, help_heading = CLAIM)]
    pub claim: Option<f64>,
    /// Count of the claim: late episodes; or late cycles (cycle, independent) [default: episode]
    ///
    /// An episode is a run of late cycles. A rate per cycle needs a cluster factor that the data give, or
    /// your word that late cycles are independent.
    #[arg(hide_short_help = true, long, value_name = "UNIT", value_parser = claim_per(), hide_possible_values = true, help_heading = CLAIM)]
    pub claim_per: Option<String>,
    /// Allow M late cycles in any K, as 1in10
    ///
    /// K are consecutive. A missed period is a late cycle. Every window of K cycles is judged.
    #[arg(long, value_name = "MinK", value_parser = allowance, allow_hyphen_values = true, help_heading = CLAIM)]
    pub allow: Option<LateAllowance>,
    /// Taints without effect on the verdict
    ///
    /// They are shown all the same: not-real-time-kernel,steal.
    #[arg(long, value_name = "CODE,…", value_parser = taint(), hide_possible_values = true, value_delimiter = ',', help_heading = CLAIM)]
    pub accept: Vec<String>,
    /// List latencies above this as spikes [default: limit]
    ///
    /// As --on-threshold. By default it is the limit.
    #[arg(long, alias = "on-threshold", value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = CLAIM)]
    pub threshold: Option<Duration>,
    /// End each row early, once the claim is reached (held), or a cycle is late (exceeded); at most
    /// --duration
    #[arg(hide_short_help = true, long, value_name = "held|exceeded", value_parser = until(), hide_possible_values = true, value_delimiter = ',', help_heading = CLAIM)]
    pub until: Vec<Until>,
}

/// The measurement's options; missing ones come from `--like`, else from the defaults.
#[derive(Debug, Clone, Default, Args)]
pub struct RunOptions {
    /// control:1kHz, linuxcnc:25us+1ms, audio:64@48000, ethercat:1kHz, poll, vm
    ///
    /// The machine's use: gives probe, periods, limits and loads; other options win. Also
    /// control:25us, and linuxcnc:1ms for a servo thread alone.
    #[arg(long = "use", value_name = "USE", value_parser = purpose(), hide_possible_values = true, help_heading = ROWS)]
    pub purpose: Option<Use>,
    /// CPUs to measure [default: the isolated, else the last]
    ///
    /// As --affinity.
    #[arg(long, alias = "affinity", value_name = "LIST", value_parser = cpus, help_heading = ROWS)]
    pub cpus: Option<CpuSet>,
    /// CPUs for loads and control [default: all others but siblings of measured ones]
    #[arg(hide_short_help = true, long, value_name = "LIST", value_parser = cpus, help_heading = ROWS)]
    pub house_keeping: Option<CpuSet>,
    /// Length of a row [default: 20s; measure: endless]
    ///
    /// By default prove measures each row for 20 s, and measure until Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = ROWS)]
    pub duration: Option<Duration>,
    /// End each row of the wakeup probe after this many cycles
    #[arg(hide_short_help = true, long, value_name = "N", allow_negative_numbers = true, help_heading = ROWS)]
    pub loops: Option<u64>,
    /// Time at the start of each row that is not recorded [default: 2s]
    #[arg(hide_short_help = true, long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = ROWS)]
    pub warm_up: Option<Duration>,
    /// Period of the wakeup probe [default: 1ms]
    ///
    /// Several make several threads on each CPU: 25us,1ms.
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = duration, allow_hyphen_values = true, help_heading = THREADS)]
    pub period: Vec<Duration>,
    /// fifo, rr, deadline, other, batch, idle [default: fifo]
    ///
    /// The scheduling policy of the measuring threads.
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true, help_heading = THREADS)]
    pub policy: Option<String>,
    /// Real-time priority, for fifo and rr [default: 80]
    #[arg(long, value_name = "1-99", allow_negative_numbers = true, help_heading = THREADS)]
    pub priority: Option<u32>,
    /// Timer of the wakeup probe: nanosleep, timerfd [default: nanosleep]
    #[arg(hide_short_help = true, long, value_name = "TIMER", value_parser = timer(), hide_possible_values = true, help_heading = THREADS)]
    pub timer: Option<String>,
    /// Limit the exit latency of idle states to this many microseconds while measuring
    #[arg(hide_short_help = true, long, value_name = "US", allow_negative_numbers = true, help_heading = THREADS)]
    pub dma_latency: Option<u32>,
    /// Have the kernel part defer work on the measured CPUs: clock, resched, ipi, ktlb, or
    /// with exclusive only where no other thread can change this program's memory [default: clock, resched,
    /// ipi]
    #[arg(hide_short_help = true, long, value_name = "WHAT,…", num_args = 0..=1, require_equals = true, default_missing_value = "default", help_heading = THREADS)]
    pub isolate: Option<String>,
    /// Collector of the causes of spikes: auto, bpf, tracefs, osnoise, counters, off [default: auto, the
    /// best one available]
    #[arg(hide_short_help = true, long, value_name = "HOW", value_parser = causes(), hide_possible_values = true, help_heading = THREADS)]
    pub causes: Option<Choice>,
    /// The kernel's types.
    #[command(flatten)]
    pub types: TypesOption,
    /// The measures by which it is judged.
    #[command(flatten)]
    pub verdict: VerdictOptions,
    /// Runs of other boots that are judged together with this one.
    #[command(flatten)]
    pub boots: BootOptions,
    /// Actions on spikes.
    #[command(flatten)]
    pub spikes: SpikeOptions,
    /// Options of the response probe.
    #[command(flatten)]
    pub response: ResponseOptions,
    /// Options of EtherCAT.
    #[command(flatten)]
    pub ethercat: EthercatOptions,
    /// Folder of the bundle [default: evidence/TIME]
    ///
    /// It must not hold a bundle yet.
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Serve the run as a page [default: 127.0.0.1:8710]
    ///
    /// It shows rows, histogram, latency over time and spikes while the run goes on, and has a button that
    /// ends it.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8710", help_heading = OUTPUT)]
    pub live: Option<SocketAddr>,
    /// End in order when the session that started the run ends: a connection that is lost, a script
    #[arg(hide_short_help = true, long, help_heading = OUTPUT)]
    pub end_with_session: bool,
    /// How much is printed.
    #[command(flatten)]
    pub detail: Detail,
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
