// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator measure`: one probe with a live line, and the same evidence.

use evidence::manifest::Asked;

use crate::args::MeasureArgs;
use crate::live::View;
use crate::outcome::VerbResult;
use crate::verbs::prove;

pub fn run(args: MeasureArgs) -> VerbResult {
    let of_use = args.options.purpose.as_ref().map(|purpose| purpose.probes()[0].to_string());
    let probes = args.probe.or(of_use).into_iter().collect();
    let asked = Asked { probes, loads: vec!["idle".to_string()], ..Asked::default() };
    prove::measure(asked, &args.options, &args.out, View::Threads)
}
