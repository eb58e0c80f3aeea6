// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator gate`: fails a build where a run is worse than its baseline.

use std::path::Path;

use evidence::Bundle;
use evidence::gate::{Choice, judge};

use crate::args::GateArgs;
use crate::output::{Exit, Outcome, print};

pub fn run(args: &GateArgs) -> Outcome {
    args.out.ready()?;
    let junit_on_stdout = args.junit.as_deref() == Some(Path::new("-"));
    if junit_on_stdout && args.out.json_on_stdout() {
        return Err("--junit - cannot be given together with --json -; write one of them to a file".into());
    }
    let baselines = args.baseline.iter().map(|path| Bundle::open(path)).collect::<Result<Vec<_>, _>>()?;
    let candidate = Bundle::open(&args.candidate)?;
    let choice = Choice { tolerance: args.tolerance, seed: args.seed, force: args.force };
    let judged = judge(&baselines, &candidate, &choice)?;
    args.out.json(&judged)?;
    if let Some(path) = &args.junit {
        let text = report::junit(&judged);
        if junit_on_stdout { print(&text)? } else { evidence::writer::replace(path, text.as_bytes())? }
    }
    if !junit_on_stdout {
        args.out.say(&report::terminal::gated(&judged, args.out.style()));
    }
    Ok(if judged.held { Exit::Held } else { Exit::Exceeded })
}
