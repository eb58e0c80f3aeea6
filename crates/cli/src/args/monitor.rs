// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator monitor`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evidence::cause::Choice;
use machine::CpuSet;

use super::{CLAIM, OUTPUT, Output, ROWS, THREADS};
use crate::values::{cpus, duration};

/// What `--help` adds.
pub const HELP: &str = "\
The program links libisolator and calls isolator_monitor_begin() and
isolator_monitor_end() in its loop, which wait for nobody. It goes on when this
one ends; one reads a loop at a time.

Rows: loop, the wakeup latency against the limit; execution, begin to end, and
mark-N, begin to mark, against the period.

Examples:
  isolator monitor 4711                       until Ctrl-C, or the program ends
  isolator monitor 4711:servo --limit 50us    one of several loops
  isolator monitor 4711 --loads idle,cpu --duration 1m
  isolator monitor 4711 --prometheus 127.0.0.1:9750

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. Ctrl-C ends it with results.";

/// `isolator monitor`
#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// The program: its process, PID:NAME for one of several loops, or the path of a loop's descriptor
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// Loads to run meanwhile, one after the other [default: idle]
    #[arg(long, value_name = "LOAD,…", help_heading = ROWS)]
    pub loads: Option<String>,
    /// CPUs for loads and control [default: all others but siblings of the loop's]
    #[arg(long, value_name = "LIST", value_parser = cpus, help_heading = ROWS)]
    pub house_keeping: Option<CpuSet>,
    /// Length of each row [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = ROWS)]
    pub duration: Option<Duration>,
    /// End each row after this many cycles
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = ROWS)]
    pub loops: Option<u64>,
    /// What collects the causes of spikes: auto, bpf, tracefs, osnoise, counters, off [default: auto, the
    /// best that is allowed here]
    #[arg(long, value_name = "HOW", help_heading = THREADS)]
    pub causes: Option<Choice>,
    /// Largest wakeup latency allowed: a time, or a share of the period [default: 10%]
    #[arg(long, value_name = "TIME|%", allow_hyphen_values = true, help_heading = CLAIM)]
    pub limit: Option<String>,
    /// Rate of late cycles to stay below, at 95 % confidence [default: 0.001]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, help_heading = CLAIM)]
    pub claim: Option<f64>,
    /// Taints that you know of: shown, but not held against the verdict (not-real-time-kernel,steal)
    #[arg(long, value_name = "CODE,…", value_delimiter = ',', help_heading = CLAIM)]
    pub accept: Vec<String>,
    /// List every latency above this as a spike [default: the limit]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, help_heading = CLAIM)]
    pub threshold: Option<Duration>,
    /// Folder of the bundle, which must not hold one yet [default: evidence/TIME]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Write the figures in Prometheus' text format to this file, or serve them on ADDRESS:PORT, with native
    /// histograms where the scraper takes them
    #[arg(long, value_name = "FILE|ADDRESS:PORT", help_heading = OUTPUT)]
    pub prometheus: Option<String>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}
