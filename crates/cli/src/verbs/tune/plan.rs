// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune plan`: what to change on this machine, or on a captured one.

use std::path::Path;

use ::tune::plan::{
    Intent, MadeFor, PlanAnswer, PlanRefusal, SCHEMA_VERSION, SystemdIntent, WantedCpus, list, plan, units,
};
use evidence::Error;
use machine::Snapshot;

use crate::args::{TunePlanArgs, TuneWanted};
use crate::next;
use crate::outcome::{Document, VerbResult};

pub fn run(args: &TunePlanArgs) -> VerbResult {
    args.out.ready()?;
    let answer = answer(args)?;
    args.out.json(&answer)?;
    if let PlanAnswer::Plan(plan) = &answer {
        args.out.print_text(report::terminal::tune::plan(plan, args.out.style()).trim_end());
        next::say(next::after_plan(args), &args.out);
    }
    answer.ended()
}

fn answer(args: &TunePlanArgs) -> Result<PlanAnswer, Box<dyn std::error::Error>> {
    let (machine, made_for) = match &args.snapshot {
        Some(path) => {
            let machine = snapshot(path)?;
            let made_for = MadeFor {
                hostname: machine.hostname.clone(),
                kernel: machine.kernel.release.clone(),
                ..MadeFor::default()
            };
            (machine, made_for)
        }
        None => {
            if !args.root.is_dir() {
                let why = "there is no such folder";
                return Err(
                    Error::on("read the machine below", args.root.display(), why, "check the path").into()
                );
            }
            let machine = inspect::read(&args.root);
            let made_for = MadeFor::here(&args.root, &machine);
            (machine, made_for)
        }
    };
    let planned = whole_intent(args).and_then(|intent| plan(&machine, &made_for, &intent));
    Ok(match planned {
        Ok(plan) => PlanAnswer::Plan(Box::new(plan)),
        Err(refused) => PlanAnswer::Refused { schema_version: SCHEMA_VERSION, refused },
    })
}

/// The user's intent, with units of systemd.
fn whole_intent(args: &TunePlanArgs) -> Result<Intent, PlanRefusal> {
    let services = args.services.iter().map(|text| units::service(text)).collect::<Result<Vec<_>, _>>()?;
    let wanted = args.systemd || !services.is_empty();
    Ok(Intent { systemd: wanted.then_some(SystemdIntent { services }), ..intent(&args.wanted)? })
}

/// The user's intent, as the planner takes it.
pub fn intent(wanted: &TuneWanted) -> Result<Intent, PlanRefusal> {
    let cpus = match (&wanted.cores, &wanted.cpus) {
        (_, Some(text)) => WantedCpus::Cpus(list::cpus(text)?),
        (Some(text), None) => WantedCpus::Cores(list::count(text)?),
        (None, None) => WantedCpus::Default,
    };
    let profile =
        wanted.purpose.as_ref().map(|purpose| purpose.profile).or(wanted.profile).unwrap_or_default();
    Ok(Intent {
        device: wanted.device.clone(),
        no_reboot: wanted.no_reboot,
        split_siblings: wanted.split_siblings,
        nosmt: wanted.nosmt,
        ..Intent::new(profile, cpus)
    })
}

/// Longest snapshot that is read.
const SNAPSHOT: u64 = 64 << 20;

/// The snapshot in a file: alone, or as the `machine` of a bundle's manifest.
fn snapshot(path: &Path) -> Result<Snapshot, Error> {
    let text = untrusted::read(path, SNAPSHOT).map_err(|error| Error::io("read", path, &error))?;
    let cure = "give a snapshot, or a bundle's manifest.json";
    let wrong = |why: String| Error::on("read the snapshot", path.display(), why, cure);
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| wrong(format!("no JSON: {error}")))?;
    let inner = value.get("machine").cloned().unwrap_or(value);
    if inner.get("cpus").is_none() {
        return Err(wrong("it has no CPUs".to_string()));
    }
    serde_json::from_value(inner).map_err(|error| wrong(error.to_string()))
}
