// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator measure`: one probe with a live line, and the same evidence.

use evidence::manifest::Asked;

use crate::args::MeasureArgs;
use crate::live::View;
use crate::output::VerbResult;
use crate::verbs::prove;

pub fn run(args: MeasureArgs) -> VerbResult {
    let asked = Asked { probes: vec![args.probe], loads: vec!["idle".to_string()], ..Asked::default() };
    prove::measure(asked, &args.options, &args.out, View::Threads)
}
