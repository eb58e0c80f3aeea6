// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator load`: loads alone, or the list of them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::load::{CatalogEntry, EthercatDevice, Load, LoadOutcome, Placement, Running};
use evidence::manifest::SCHEMA_VERSION;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::LoadArgs;
use crate::outcome::{Document, Outcome, VerbResult, done};
use crate::signals::stop_on_signals;

/// `isolator load --list --json`.
#[derive(Serialize, JsonSchema)]
pub struct Catalog {
    /// Version of this document.
    schema_version: u32,
    /// The loads that there are.
    loads: Vec<CatalogEntry>,
}

/// `isolator load NAME… --json`.
#[derive(Serialize, JsonSchema)]
pub struct Loaded {
    /// Version of this document.
    schema_version: u32,
    /// The loads that ran, together.
    loads: Vec<LoadRun>,
}

done!(Catalog);

impl Document for Loaded {
    fn ended(&self) -> VerbResult {
        // One that did no work was no load.
        let idle = |one: &LoadRun| Some(format!("load {}: {}", one.load, one.did.loaded.as_ref().err()?));
        self.loads.iter().find_map(idle).map_or(Ok(Outcome::Done), |why| Err(why.into()))
    }
}

/// One load that ran.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoadDid")]
struct LoadRun {
    /// Its name, and its command if it has one.
    load: String,
    /// Its work.
    did: LoadOutcome,
}

pub fn run(args: &LoadArgs) -> VerbResult {
    if args.list { list(args) } else { together(args) }
}

fn list(args: &LoadArgs) -> VerbResult {
    let loads = ::load::catalog();
    for entry in &loads {
        let state = entry
            .not_available
            .as_deref()
            .map(|why| format!("\n{:10}   not here: {why}", ""))
            .unwrap_or_default();
        args.out.print_text(&format!("{:10} {}{state}", entry.name, entry.about));
    }
    args.out.json(&Catalog { schema_version: SCHEMA_VERSION, loads })?;
    Ok(Outcome::Done)
}

/// Runs the loads until the time is over or a signal comes, and says what they did.
fn together(args: &LoadArgs) -> VerbResult {
    let machine = inspect::read(Path::new("/"));
    let isolated = &machine.isolation.isolated;
    let cpus = args.cpus.clone().unwrap_or_else(|| machine.online().without(isolated));
    let unknown = cpus.without(&machine.online());
    if !unknown.is_empty() && !machine.online().is_empty() {
        let online = machine.online();
        return Err(format!("cannot load cpus {unknown}: they are not online; choose from {online}").into());
    }
    let placement = Placement {
        house_keeping: cpus,
        measured: isolated.clone(),
        scratch: ::load::scratch_folder(Path::new(".")),
        device: args
            .ethercat
            .device
            .clone()
            .map(|name| EthercatDevice { name, is_forced: args.ethercat.force }),
    };
    let mut loads: Vec<Load> = Vec::new();
    for name in &args.names {
        loads.extend(
            ::load::parse(name)?.into_iter().filter(|load| !loads.contains(load)).collect::<Vec<_>>(),
        );
    }
    let stop = stop_on_signals()?;
    let running = loads.iter().map(|load| Ok((load.to_string(), load.start(&placement)?)));
    let mut running = running.collect::<Result<Vec<(String, Running)>, ::load::LoadError>>()?;
    for (name, load) in &mut running {
        run::settle(load, &stop).map_err(|why| format!("load {name}: {why}"))?;
    }
    args.out.print_text(&format!("loading cpus {}; Ctrl-C ends it", placement.house_keeping));
    let began = Instant::now();
    while !stop.load(Ordering::SeqCst)
        && running.iter_mut().all(|(_, load)| load.alive())
        && args.duration.is_none_or(|duration| began.elapsed() < duration)
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    let did = running.into_iter().map(|(load, running)| LoadRun { load, did: running.stop() });
    let loads = did.collect::<Vec<_>>();
    for LoadRun { load, did } in &loads {
        args.out.print_text(&format!("{load}: {}", did.words));
    }
    let loaded = Loaded { schema_version: SCHEMA_VERSION, loads };
    args.out.json(&loaded)?;
    loaded.ended()
}
