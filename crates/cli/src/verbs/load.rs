// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator load`: loads alone, or the list of them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::load::{Placement, Running};

use crate::args::LoadArgs;
use crate::output::{Exit, Outcome};
use crate::session;

pub fn run(args: &LoadArgs) -> Outcome {
    if args.list { list(args) } else { together(args) }
}

fn list(args: &LoadArgs) -> Outcome {
    let catalog = ::load::catalog();
    for entry in &catalog {
        let state = entry
            .not_available
            .as_deref()
            .map(|why| format!("\n{:10}   not here: {why}", ""))
            .unwrap_or_default();
        args.out.say(&format!("{:10} {}{state}", entry.name, entry.about));
    }
    args.out.json(&catalog)?;
    Ok(Exit::Held)
}

/// Runs the loads until the time is over or a signal comes, and says what they did.
fn together(args: &LoadArgs) -> Outcome {
    let machine = machine::read(Path::new("/"));
    let isolated = &machine.isolation.isolated;
    let cpus = args.cpus.clone().unwrap_or_else(|| machine.online().without(isolated));
    let placement = Placement {
        house_keeping: cpus,
        measured: isolated.clone(),
        scratch: ::load::scratch_folder(Path::new(".")),
    };
    let loads = ::load::parse(&args.names.join(","))?;
    let stop = session::stop_on_signals()?;
    let running = loads.iter().map(|load| Ok((load.to_string(), load.start(&placement)?)));
    let mut running = running.collect::<Result<Vec<(String, Running)>, ::load::Error>>()?;
    for (name, load) in &mut running {
        load.settle(Duration::from_secs(5)).map_err(|why| format!("load {name}: {why}"))?;
    }
    args.out.say(&format!("loading cpus {}; Ctrl-C ends it", placement.house_keeping));
    let began = Instant::now();
    while !stop.load(Ordering::SeqCst)
        && running.iter_mut().all(|(_, load)| load.alive())
        && args.duration.is_none_or(|duration| began.elapsed() < duration)
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    let did = running.into_iter().map(|(name, load)| (name, load.stop())).collect::<Vec<_>>();
    for (name, did) in &did {
        args.out.say(&format!("{name}: {}", did.words));
    }
    args.out.json(
        &did.iter().map(|(name, did)| serde_json::json!({"load": name, "did": did})).collect::<Vec<_>>(),
    )?;
    match did.into_iter().find_map(|(name, did)| did.loaded.err().map(|why| format!("load {name}: {why}"))) {
        Some(why) => Err(why.into()),
        None => Ok(Exit::Held),
    }
}
