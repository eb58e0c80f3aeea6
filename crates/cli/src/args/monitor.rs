// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator monitor`: its arguments.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evidence::cause::Choice;
use machine::{CpuSet, Use};
use trace::boundary::PlaceName;
use trace::choice::SourceChoice;

use super::{BootOptions, Detail, OUTPUT, Output, ROWS, SpikeOptions, THREADS, TypesOption, VerdictOptions};
use crate::values::{causes, cpus, duration, loads, place, purpose, source};

/// The end of `--help`.
pub const HELP: &str = "\
Follows the loops of a running program, as root, without a call in its code and
without stopping it. Rows for each thread: loop, the wakeup latency, against the
limit; execution and response, against the period. isolator help monitor has
more options and examples.

Examples:
  isolator monitor 4711                       until Ctrl-C, or the program ends
  isolator monitor 4711 --thread servo --limit 50us
  isolator monitor 4711 --loads idle,cpu --duration 1m
  isolator monitor --duration 10s --command cyclictest -q -p 80

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. Ctrl-C ends it with results.";

/// The end of `isolator help monitor`.
pub const LONG_HELP: &str = "\
Follows the loops of a running program without stopping it. It watches the
real-time threads, or all threads if there are none, until it knows what each
waits for and how often; then it measures each cycle. That needs root, or
CAP_BPF and CAP_PERFMON, and no call in the program's code.

--begin and --end name places of the program: functions that it has, or probes
(USDT) that its author put there. The kernel then interrupts the program at each
of them. From a program that links libisolator, monitor reads the cycles that
the program stamps itself.

Rows for each thread: loop, the wakeup latency, against the limit; execution and
response (due to the next wait), against the period.

Examples:
  isolator monitor 4711                       until Ctrl-C, or the program ends
  isolator monitor 4711 --thread servo --limit 50us
  isolator monitor 4711 --loads idle,cpu --duration 1m
  isolator monitor 4711 --begin servo_step    cycles from the function's first
                                              instruction to its return
  isolator monitor 4711 --begin libjack.so:process --period 2667us
  isolator monitor 4711 --begin usdt:servo:begin --end usdt:servo:end
  isolator monitor 4711 --prometheus 127.0.0.1:9750
  isolator monitor 4711 --flight --on-spike snapshot
  isolator monitor --duration 10s --command cyclictest -q -p 80
  isolator monitor 4711:servo                 one of several loops that
                                              libisolator names

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. Ctrl-C ends it with results.";

/// The options that only a program has that runs here.
const NOT_OF_TRACE: [&str; 12] = [
    "program",
    "command",
    "begin",
    "end",
    "loads",
    "house_keeping",
    "duration",
    "loops",
    "causes",
    "source",
    "btf",
    "prometheus",
];

/// `isolator monitor`
#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// PID, or PID:NAME for one of several named loops
    ///
    /// Or the path of the descriptor of a loop that libisolator names.
    #[arg(value_name = "PROGRAM", required_unless_present_any = ["command", "from"])]
    pub program: Option<String>,
    /// Read the loops of a trace that was recorded elsewhere
    ///
    /// The trace.dat of trace-cmd, the perf.data of perf, a trace of Perfetto, the folder of LTTng, or the
    /// text of tracefs' file trace. isolator help record has the command whose trace answers most.
    #[arg(long, value_name = "TRACE", conflicts_with_all = NOT_OF_TRACE)]
    pub from: Option<PathBuf>,
    /// Start this program; comes last
    ///
    /// It is ended with the run.
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true, conflicts_with = "program")]
    pub command: Vec<String>,
    /// Limits of a use: control:1kHz, audio:64@48000
    ///
    /// Also linuxcnc:25us+1ms. Of audio the callback's period too.
    #[arg(long = "use", value_name = "USE", value_parser = purpose(), hide_possible_values = true, help_heading = ROWS)]
    pub purpose: Option<Use>,
    /// Follow these threads [default: the real-time ones]
    ///
    /// By name or number.
    #[arg(long, value_name = "NAME|TID,…", value_delimiter = ',', help_heading = ROWS)]
    pub thread: Vec<String>,
    /// The loop's period [default: auto, as it is found]
    #[arg(long, value_name = "auto|TIME", value_parser = period, help_heading = ROWS)]
    pub period: Option<LoopPeriod>,
    /// Place in the program at which a cycle begins: FUNCTION, LIBRARY:FUNCTION,
    /// uretprobe:FUNCTION (its return), or usdt:PROVIDER:NAME
    #[arg(hide_short_help = true, long, value_name = "PLACE", value_parser = place, help_heading = ROWS)]
    pub begin: Option<Box<PlaceName>>,
    /// Place at which the cycle ends [default: the return of the function of --begin]
    #[arg(hide_short_help = true, long, value_name = "PLACE", value_parser = place, requires = "begin", help_heading = ROWS)]
    pub end: Option<Box<PlaceName>>,
    /// Loads, one after the other [default: idle]
    #[arg(long, value_name = "LOAD,…", value_parser = loads(), hide_possible_values = true, help_heading = ROWS)]
    pub loads: Option<String>,
    /// CPUs for loads and control [default: all others but siblings of the loop's]
    #[arg(hide_short_help = true, long, value_name = "LIST", value_parser = cpus, help_heading = ROWS)]
    pub house_keeping: Option<CpuSet>,
    /// Length of each row [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = ROWS)]
    pub duration: Option<Duration>,
    /// End each row after this many cycles
    #[arg(hide_short_help = true, long, value_name = "N", allow_negative_numbers = true, help_heading = ROWS)]
    pub loops: Option<u64>,
    /// Collector of the causes of spikes: auto, bpf, tracefs, osnoise, counters, off [default: auto, the
    /// best one available]
    #[arg(hide_short_help = true, long, value_name = "HOW", value_parser = causes(), hide_possible_values = true, help_heading = THREADS)]
    pub causes: Option<Choice>,
    /// Source of the program's events: auto, bpf, tracefs [default: auto, the one that tells more]
    #[arg(hide_short_help = true, long, value_name = "SOURCE", value_parser = source(), hide_possible_values = true, help_heading = THREADS)]
    pub source: Option<SourceChoice>,
    /// The kernel's types.
    #[command(flatten)]
    pub types: TypesOption,
    /// The measures by which it is judged.
    #[command(flatten)]
    pub verdict: VerdictOptions,
    /// Runs of other boots that are judged together with this one.
    #[command(flatten)]
    pub boots: BootOptions,
    /// For runs of days: one line per minute instead of per second, and only the longest and the latest
    /// spikes of each row
    #[arg(hide_short_help = true, long, help_heading = ROWS)]
    pub flight: bool,
    /// Actions on spikes.
    #[command(flatten)]
    pub spikes: SpikeOptions,
    /// Folder of the bundle [default: evidence/TIME]
    ///
    /// It must not hold a bundle yet.
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Write the figures to a file, or serve them
    ///
    /// To a file, or on ADDRESS:PORT, in Prometheus' text format, or with native histograms if the
    /// scraper accepts them.
    #[arg(long, value_name = "FILE|ADDR", help_heading = OUTPUT)]
    pub prometheus: Option<String>,
    /// How much is printed.
    #[command(flatten)]
    pub detail: Detail,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// A loop's period, or that it is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopPeriod {
    /// From when the loop is due.
    Auto,
    /// In nanoseconds.
    Given(NonZeroU64),
}

fn period(text: &str) -> Result<LoopPeriod, String> {
    if text == "auto" {
        return Ok(LoopPeriod::Auto);
    }
    let ns = duration(text)?.as_nanos();
    let ns = u64::try_from(ns).ok().and_then(NonZeroU64::new);
    ns.map(LoopPeriod::Given).ok_or_else(|| "a period is longer than 0; give one such as 1ms, or auto".into())
}
