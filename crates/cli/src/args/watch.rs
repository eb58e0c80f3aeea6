// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator watch`: its arguments.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use machine::CpuSet;

use super::{OUTPUT, TypesOption};
use crate::values::{cpus, duration};

/// The end of `--help`.
pub const HELP: &str = "\
Rates come from the kernel's counters, which need no privilege; reading them
disturbs no other CPU. The local timer is the tick and every other timer of a
CPU. On a terminal q ends it; the last line has the keys that sort and scroll.

--senders counts requests, of which several may share one IPI, by task, function
and call site. Its tracepoints cost the senders, not the watched CPUs.

Examples:
  isolator watch
  isolator watch --live
  isolator watch --cpus 3 --interval 200ms --count 50 --json > noise.jsonl
  isolator watch --quiet --prometheus /var/lib/node_exporter/isolator.prom
  isolator watch --quiet --prometheus 127.0.0.1:9750

Exit status: 0 watched until q, Ctrl-C, the count, or a closed pipe; 1 it
could not be done, and one line states why.";

/// `isolator watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// CPUs to watch [default: the isolated ones, else all]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Sampling interval
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", allow_hyphen_values = true)]
    pub interval: Duration,
    /// End after this many intervals [default: at Ctrl-C]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub count: Option<u64>,
    /// Name the senders of IPIs to these CPUs: needs root, and traces while it runs
    #[arg(long)]
    pub senders: bool,
    /// The kernel's types.
    #[command(flatten)]
    pub types: TypesOption,
    /// Write a line of JSON per interval to standard output, or to FILE.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = OUTPUT)]
    pub json: Option<PathBuf>,
    /// Write the figures to a file, or serve them, in Prometheus' text format
    #[arg(long, value_name = "FILE|ADDRESS:PORT", help_heading = OUTPUT)]
    pub prometheus: Option<String>,
    /// Serve it as a page, with a button that ends it [default: 127.0.0.1:8710]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8710", help_heading = OUTPUT)]
    pub live: Option<SocketAddr>,
    /// Show nothing on the terminal
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}
