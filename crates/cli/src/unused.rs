// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that the probes of a run do not use: they are refused, since a figure measured without them would
//! be taken for one measured with them.

use evidence::kind::RowKind;
use load::Load;
use measure::probes::ProbeKind;
use rt::policy::PolicyKind;
use run::RunSpec;

use crate::args::RunOptions;

/// Refuses the first option that no probe and no load of the run uses.
pub fn refuse(options: &RunOptions, spec: &RunSpec) -> Result<(), String> {
    let has = |is: fn(&ProbeKind) -> bool| spec.probes.iter().any(is);
    let is_response = has(|probe| matches!(probe, ProbeKind::Response(_)));
    let is_ethercat = has(|probe| matches!(probe, ProbeKind::Ethercat(_)))
        || spec.loads.iter().any(|load| matches!(load, Load::Ethercat));
    let is_wakeup = has(|probe| matches!(probe, ProbeKind::Wakeup(_)));
    let (response, ethercat) = (&options.response, &options.ethercat);
    let given = [
        ("--period", !options.period.is_empty(), spec.has_kind(RowKind::has_period), "a probe with a period"),
        (
            "--allow",
            options.verdict.allow.is_some(),
            spec.has_kind(RowKind::has_period),
            "a probe with a period",
        ),
        ("--timer", options.timer.is_some(), is_wakeup, "the wakeup probe"),
        (
            "--priority",
            options.priority.is_some(),
            matches!(spec.policy, PolicyKind::Fifo | PolicyKind::RoundRobin),
            "the policies fifo and rr",
        ),
        ("--role", response.role.is_some(), is_response, "the response probe"),
        ("--signal", response.signal.is_some(), is_response, "the response probe"),
        ("--board", response.board.is_some(), is_response, "the response probe"),
        ("--chip", response.chip.is_some(), is_response, "the response probe"),
        ("--in", response.line_in.is_some(), is_response, "the response probe"),
        ("--out", response.line_out.is_some(), is_response, "the response probe"),
        ("--device", ethercat.device.is_some(), is_ethercat, "ethercat, as a probe or a load"),
        ("--force", ethercat.force, is_ethercat, "ethercat, as a probe or a load"),
    ];
    match given.into_iter().find(|(_, is_given, is_used, _)| *is_given && !is_used) {
        None => Ok(()),
        Some((option, _, _, user)) => {
            let probes = spec.probes.iter().map(ProbeKind::name).collect::<Vec<_>>().join(", ");
            Err(format!("{option} has no effect on {probes}: it is for {user}; leave it out"))
        }
    }
}
