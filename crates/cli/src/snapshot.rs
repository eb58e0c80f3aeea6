// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of a run that goes on: on SIGUSR1, and after spikes. This program copies the bundle in a process
//! of its own, with less of the CPU than the measurement, and adds verdict and report.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evidence::Bundle;
use evidence::document::ProveDocument;
use run::on_spike::{EVERY, OnSpike, SnapshotCommand, SpikeAction};
use rustix::process::setpriority_process;

use crate::args::SpikeOptions;
use crate::output::note;

/// The hidden verb under which this program takes a snapshot.
pub const VERB: &str = "bundle-snapshot";

/// The reactions to a spike that `options` ask for; a snapshot is also taken on SIGUSR1.
pub fn on_spike(options: &SpikeOptions) -> Result<OnSpike, Box<dyn std::error::Error>> {
    let actions = options.on_spike.iter().map(|text| SpikeAction::parse(text));
    let actions = actions.collect::<error::Result<Vec<_>>>()?;
    let is_asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&is_asked))?;
    let program = std::env::current_exe()
        .map_err(|error| error::Error::new("find this program", error::reason(&error), "mount /proc"))?;
    let snapshots = SnapshotCommand { program, arguments: vec![VERB.into()] };
    Ok(OnSpike::new(actions, options.on_spike_every.unwrap_or(EVERY), snapshots, is_asked))
}

/// Takes a snapshot. Arguments: the bundle, the new folder, a note, milliseconds to wait before.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let all: Vec<OsString> = args.collect();
    let [from, to, why, wait_ms] = &all[..] else { return ExitCode::FAILURE };
    // The control thread of the measurement comes first, but beside a load it is not to take minutes.
    let _ = setpriority_process(None, 5);
    let wait_ms = wait_ms.to_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    std::thread::sleep(Duration::from_millis(wait_ms));
    let to = PathBuf::from(to);
    let taken = evidence::snapshot::snapshot(from.as_ref(), &to, &why.to_string_lossy());
    let taken = taken.and_then(|()| Bundle::open(&to)).and_then(|bundle| {
        let document = ProveDocument::of(&bundle);
        report::write_into(&bundle, &document).map(drop)
    });
    match taken {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("isolator: {error}"));
            ExitCode::FAILURE
        }
    }
}
