// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator measure`: its arguments.

use clap::Args;

use super::{Output, RunOptions};
use crate::values::probe;

/// The end of `--help`.
pub const HELP: &str = "\
Examples:
  isolator measure wakeup                    as cyclictest -m -p 80 -i 1000
  isolator measure wakeup --period 25us,1ms  a base and a servo thread a CPU
  isolator measure spin --threshold 2us      as oslat -T 2
  isolator measure message --cpus 2-3        cpu 2 signals, cpu 3 answers
isolator help measure has more options, and examples of all probes.

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. Ctrl-C ends it with results.";

/// The end of `isolator help measure`.
pub const LONG_HELP: &str = "\
Examples:
  isolator measure wakeup                    as cyclictest -m -p 80 -i 1000
  isolator measure wakeup --period 25us,1ms  a base and a servo thread a CPU
  isolator measure spin --threshold 2us      as oslat -T 2
  isolator measure toggle --period 100us     an edge each period, by the
                                             processor's counter
  isolator measure message --cpus 2-3        cpu 2 signals, cpu 3 answers, by
                                             five means
  isolator measure ethercat --device eth1    an EtherCAT MainDevice; without
                                             --device its segment is simulated
  isolator measure response --cpus 2-3       cpu 3 gives edges in memory, cpu 2
                                             answers
Answers a generator of 200,000 edges per second, and the same by registers and
by the kernel with a wire from 27 to 17:
  isolator measure response --board raspberry-pi-4 --in 17 --out 27 \\
    --period 5us --duration 24h
  isolator measure response --board raspberry-pi-4 --chip gpiochip0 \\
    --in 17 --out 27 --role generator

With the response probe the meaning of a sample depends on the role; the report
states it. The time from edge to edge on the wire needs an oscilloscope.
--period is the period of the edges.

Exit status: 0 the limit holds; 1 it could not be measured; 2 the limit does
not hold, or is not proven to. Ctrl-C ends it with results.";

/// `isolator measure`
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// wakeup, spin, toggle, message, response, ethercat or hardware [default: that of --use]
    ///
    /// The probe; of message also one of its means, as message-futex.
    #[arg(required_unless_present = "purpose", value_parser = probe(), hide_possible_values = true)]
    pub probe: Option<String>,
    /// The measurement's options.
    #[command(flatten)]
    pub options: RunOptions,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
