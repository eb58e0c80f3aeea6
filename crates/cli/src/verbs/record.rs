// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator record`: the commands that record a trace for `why` and `monitor --from` where only trace-cmd or
//! perf is.

use std::time::Duration;

use evidence::manifest::SCHEMA_VERSION;
use schemars::JsonSchema;
use serde::Serialize;
use trace::recorded::{CALLS, EVENTS};

use crate::args::RecordArgs;
use crate::outcome::{Outcome, VerbResult, done};

/// The length of a trace where none is given.
const DURATION: Duration = Duration::from_secs(10);

/// `isolator record --json`.
#[derive(Serialize, JsonSchema)]
pub struct RecordCommands {
    /// Version of this document.
    schema_version: u32,
    /// The command for a machine with trace-cmd.
    trace_cmd: String,
    /// The command for a machine with perf.
    perf: String,
}

done!(RecordCommands);

pub fn run(args: &RecordArgs) -> VerbResult {
    let seconds = args.duration.unwrap_or(DURATION).as_secs_f64();
    let calls = if args.without_calls { &[][..] } else { CALLS };
    let events: Vec<&str> = EVENTS.iter().chain(calls).copied().collect();
    let of_trace_cmd: String = events.iter().map(|event| format!(" -e {event}")).collect();
    let commands = RecordCommands {
        schema_version: SCHEMA_VERSION,
        trace_cmd: format!("trace-cmd record -C mono -b 16384{of_trace_cmd} -o trace.dat sleep {seconds}"),
        perf: format!("perf record -a -k mono -m 4096 -o perf.data -e {} sleep {seconds}", events.join(",")),
    };
    args.out.json(&commands)?;
    args.out.print_text(&format!(
        "One of these, as root, while the program runs:\n\n{}\n\n{}\n\nthen here: isolator why trace.dat, or perf.data",
        commands.trace_cmd, commands.perf
    ));
    Ok(Outcome::Done)
}
