// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator ethercat`: a simulated segment at an interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::ethercat::capture::Capture;
use ::ethercat::interface;
use ::ethercat::segment::Segment;
use ::ethercat::simulate::{Simulation, SimulationOutcome};
use ::ethercat::wire::Link;
use evidence::manifest::SCHEMA_VERSION;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{EthercatVerb, SimulateArgs};
use crate::outcome::{Outcome, VerbResult, done};
use crate::signals::stop_on_signals;

/// `isolator ethercat simulate --json`.
#[derive(Serialize, JsonSchema)]
pub struct Simulated {
    /// Version of this document.
    schema_version: u32,
    /// The segment's work.
    #[serde(flatten)]
    did: SimulationOutcome,
}

done!(Simulated);

pub fn run(verb: &EthercatVerb) -> VerbResult {
    match verb {
        EthercatVerb::Simulate(args) => simulate(args),
    }
}

fn simulate(args: &SimulateArgs) -> VerbResult {
    args.out.ready()?;
    interface::look(&args.interface)?.check(args.force)?;
    let link = Link::open(&args.interface)?;
    let capture = args.capture.as_deref().map(Capture::create).transpose()?;
    let segment = Segment::new(args.devices, args.drift_ppb, args.fault.clone());
    let stop = stop_on_signals()?;
    if let Some(duration) = args.duration {
        stop_after(duration, &stop);
    }
    let mut simulation = Simulation::new(segment, link, capture);
    let many = if args.devices == 1 { "SubDevice" } else { "SubDevices" };
    args.out.print_text(&format!("{} simulated {many} at {}; Ctrl-C ends it", args.devices, args.interface));
    let ran = simulation.run_first(&stop);
    let did = simulation.did();
    summary(&did).iter().for_each(|line| args.out.print_text(line));
    args.out.json(&Simulated { schema_version: SCHEMA_VERSION, did })?;
    ran?;
    Ok(Outcome::Done)
}

/// A thread that sets `stop` then; the end of the program is its end too.
fn stop_after(duration: Duration, stop: &Arc<AtomicBool>) {
    let (stop, end) = (Arc::clone(stop), Instant::now() + duration);
    std::thread::spawn(move || {
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        stop.store(true, Ordering::SeqCst);
    });
}

fn summary(did: &SimulationOutcome) -> Vec<String> {
    let SimulationOutcome { frames, process_data, ignored, faults, not_sent, .. } = did;
    let mut lines = vec![format!(
        "{frames} frames, {process_data} of them with process data; {faults} with faults, {ignored} ignored, \
         {not_sent} not sent"
    )];
    lines.extend((1..).zip(&did.sub_devices).map(|(number, device)| {
        format!(
            "SubDevice {number}: {}, status code {:#06x}; SYNC0 {} hit, {} missed; watchdog {} times",
            device.state, device.status_code, device.sync0_hits, device.sync0_misses, device.watchdogs
        )
    }));
    lines
}
