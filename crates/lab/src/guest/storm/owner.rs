// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storms inside the measuring program: what a program's other threads do to its own memory reaches the CPU
//! on which its measuring thread runs, and rightly so. The measuring program is started under [`VERB`] then;
//! it measures as ever, beside a thread on housekeeping CPUs that blows the storms.

use std::ffi::OsString;
use std::io::Read;
use std::process::ExitCode;

use crate::guest::storm::{StormJob, runner::Storms};

/// The hidden verb under which this program measures while storms blow inside of it: the order, then its
/// arguments.
pub const VERB: &str = "lab-owner";

/// Measures by `measure`, which is given the arguments after the order. The storms begin when standard input
/// is closed, and say what they did on standard output.
pub fn main(
    mut args: impl Iterator<Item = OsString>,
    measure: impl FnOnce(Vec<OsString>) -> ExitCode,
) -> ExitCode {
    let order = args.next().and_then(|text| serde_json::from_str::<StormJob>(text.to_str()?).ok());
    let Some(order) = order else { return ExitCode::FAILURE };
    std::thread::spawn(move || blow(&order));
    measure(args.collect())
}

/// Ends with the process only: the end of a thread unmaps its stack.
fn blow(order: &StormJob) {
    let mut storms = Storms::ready(order);
    let _ = std::io::stdin().read(&mut [0]);
    storms.blow();
    for did in storms.end() {
        println!("{}", serde_json::to_string(&did).unwrap_or_default());
    }
    loop {
        std::thread::park();
    }
}
