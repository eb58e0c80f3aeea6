// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator prove`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use trace::boundary::PlaceName;
use trace::choice::SourceChoice;

use super::{Output, ROWS, RunOptions, THREADS};
use crate::values::{interval, loads, place, probe, source};

/// The end of `--help`.
pub const HELP: &str = "\
Examples:
  isolator prove --loads idle,cpu,net --duration 10s
  isolator prove --cpus 2-3 --period 250us --limit 50us --loads all -o before
  isolator prove --program 4711 --loads idle,cpu --limit 100us
isolator help prove has more options: housekeeping CPUs, timers, idle states,
actions on spikes, GPIO, EtherCAT.

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. Ctrl-C ends it with results.";

/// The end of `isolator help prove`.
pub const LONG_HELP: &str = "\
A row is one probe under one load on one CPU. The limit holds if no sample of
any row exceeds it, no period was missed, every requested row was measured, no
taint applies, and there are enough samples for the claim.

With --program the rows are the loops of an unmodified program, as isolator
monitor follows them. CPUs, policy and priority are the program's own.

The run that --like names may be another person's. The commands (custom=, gpu=),
devices and files that it names are listed, and used only with --allow-commands.

Examples:
  isolator prove --loads idle,cpu,net --duration 10s
  isolator prove --cpus 2-3 --period 250us --limit 50us --loads all -o before
  isolator prove --like before -o after
  isolator prove --every 6h
  isolator prove --program 4711 --loads idle,cpu --limit 100us
  isolator prove --program ./servo --loads all -- --axes 6
  isolator compare before after

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. The first Ctrl-C ends the run with results, the
second ends it at once.";

/// Options of what a program decides itself, or that set up threads of ours.
const PROGRAMS_OWN: [&str; 13] = [
    "probe", "cpus", "policy", "priority", "timer", "warm_up", "isolate", "role", "signal", "board", "chip",
    "line_in", "line_out",
];

/// `isolator prove`
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// Loads, a row each, or 'all' [default: idle]
    ///
    /// All are those that this machine can run; isolator load --list has them.
    #[arg(long, value_name = "NAME,…", value_parser = loads(), hide_possible_values = true, help_heading = ROWS)]
    pub loads: Option<String>,
    /// wakeup, spin, toggle, message, response, ethercat, hardware [default: wakeup]
    ///
    /// Probes, one row after the other.
    #[arg(long, value_name = "NAME,…", value_parser = probe(), hide_possible_values = true, value_delimiter = ',', help_heading = ROWS)]
    pub probe: Vec<String>,
    /// Measure the loops of this program instead
    ///
    /// A process, or PID:NAME for one of several loops that libisolator names; else this command is
    /// started, with the arguments after --, and ended with the run.
    #[arg(long, value_name = "PID|COMMAND", conflicts_with_all = PROGRAMS_OWN, help_heading = ROWS)]
    pub program: Option<String>,
    /// Threads of the program, by name or number [default: the real-time ones]
    #[arg(hide_short_help = true, long, value_name = "NAME|TID,…", value_delimiter = ',', requires = "program", help_heading = ROWS)]
    pub thread: Vec<String>,
    /// With --program, the place at which a cycle begins: FUNCTION, LIBRARY:FUNCTION,
    /// uretprobe:FUNCTION (its return), or usdt:PROVIDER:NAME
    #[arg(hide_short_help = true, long, value_name = "PLACE", value_parser = place, requires = "program", help_heading = ROWS)]
    pub begin: Option<Box<PlaceName>>,
    /// Place at which the cycle ends [default: the return of the function of --begin]
    #[arg(hide_short_help = true, long, value_name = "PLACE", value_parser = place, requires = "begin", help_heading = ROWS)]
    pub end: Option<Box<PlaceName>>,
    /// With --program, source of its events: auto, bpf, tracefs [default: auto, the one that tells more]
    #[arg(hide_short_help = true, long, value_name = "SOURCE", value_parser = source(), hide_possible_values = true, requires = "program", help_heading = THREADS)]
    pub source: Option<SourceChoice>,
    /// With --program, for runs of days: one line per minute instead of per second, and only the longest and
    /// the latest spikes
    #[arg(hide_short_help = true, long, requires = "program", help_heading = ROWS)]
    pub flight: bool,
    /// Measure with the options of an earlier run
    ///
    /// Its folder, its manifest.json, or a file with the 'asked' part of one. Options on the command
    /// line win.
    #[arg(long, alias = "plan", value_name = "RUN", help_heading = ROWS)]
    pub like: Option<PathBuf>,
    /// Run the commands and open the devices and files that the earlier run names
    #[arg(hide_short_help = true, long, requires = "like", help_heading = ROWS)]
    pub allow_commands: bool,
    /// Measure again every TIME, until Ctrl-C or a run that cannot measure; one bundle per run
    #[arg(hide_short_help = true, long, value_name = "TIME", value_parser = interval, allow_hyphen_values = true, conflicts_with = "output", help_heading = ROWS)]
    pub every: Option<Duration>,
    /// Arguments of the command that --program starts
    #[arg(value_name = "ARGUMENT", last = true, requires = "program", hide_short_help = true)]
    pub arguments: Vec<String>,
    /// The measurement's options.
    #[command(flatten)]
    pub options: RunOptions,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Cli, Verb};

    /// The words of `text` between `from` and `to`.
    fn words_between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
        let (_, rest) = text.split_once(from).unwrap();
        rest.split_once(to)
            .unwrap()
            .0
            .split([' ', '[', ']', '"'])
            .map(|word| word.trim_matches(','))
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn what_clusters_are_told_to_run_is_understood() {
        let parsed =
            |words: Vec<&str>| match Cli::try_parse_from([vec!["isolator"], words].concat()).unwrap().verb {
                Verb::Prove(args) => args,
                other => panic!("{other:?}"),
            };
        let job = parsed(words_between(include_str!("../../../../fleet/cluster/job.yaml"), "args: ", "\n"));
        let set =
            parsed(words_between(include_str!("../../../../fleet/cluster/daemonset.yaml"), "args: ", "\n"));
        let script =
            words_between(include_str!("../../../../fleet/cluster/isolator.sbatch"), "set -- ", "\n");
        let script = parsed([vec!["prove"], script].concat());
        for args in [&job, &set, &script] {
            assert_eq!(
                (args.loads.as_deref(), args.options.verdict.limit.as_deref()),
                (Some("idle,timers"), Some("100us"))
            );
        }
        assert!(job.every.is_none() && set.every.is_some());
    }
}
