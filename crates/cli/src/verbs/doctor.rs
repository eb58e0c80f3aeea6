// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator doctor`: reads the machine, or a snapshot of one, and says what the checks find.

use std::path::Path;
use std::time::Duration;

use doctor::DoctorQuestion;
use evidence::Error;
use machine::Snapshot;

use crate::args::DoctorArgs;
use crate::next;
use crate::outcome::{Outcome, VerbResult};

/// Shortest sample from which a rate is computed.
const SHORTEST: Duration = Duration::from_millis(100);
/// Longest sample: counters of the kernel wrap around.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Longest snapshot that is read.
const SNAPSHOT_LIMIT: u64 = 64 << 20;

pub fn run(args: &DoctorArgs) -> VerbResult {
    args.out.ready()?;
    let explained = args.explain.as_deref().map(check).transpose()?;
    let machine = look(args)?;
    if let Some(path) = &args.save {
        let text = serde_json::to_string_pretty(&machine)? + "\n";
        evidence::writer::replace(path, text.as_bytes())?;
    }
    let question = DoctorQuestion {
        profile: args.profile.unwrap_or_default(),
        purpose: args.purpose.clone(),
        only: args.only,
    };
    let mut report = doctor::examine(&machine, &question);
    let style = args.out.style();
    match explained {
        Some(check) => {
            report.checks.retain(|finding| finding.id == check.id);
            args.out.print_text(report::terminal::explained(check, &report, style).trim_end());
        }
        None => {
            args.out.print_text(report::terminal::doctor(&report, style).trim_end());
            next::say(next::after_doctor(args, &report), &args.out);
        }
    }
    args.out.json(&report)?;
    Ok(Outcome::Done)
}

/// The check to be explained.
fn check(id: &str) -> Result<&'static doctor::Check, String> {
    doctor::check(id).ok_or_else(|| {
        let near = doctor::ALL
            .iter()
            .copied()
            .flatten()
            .map(|check| check.id)
            .filter(|known| known.contains(id))
            .take(8);
        let near = near.collect::<Vec<_>>().join(", ");
        let cure = if near.is_empty() {
            "isolator doctor --json names them".to_string()
        } else {
            format!("did you mean {near}?")
        };
        format!("there is no check '{id}'; {cure}")
    })
}

fn look(args: &DoctorArgs) -> Result<Snapshot, Box<dyn std::error::Error>> {
    if let Some(path) = &args.snapshot {
        return saved(path);
    }
    if !args.root.is_dir() {
        let why = "there is no such folder";
        return Err(Error::on(
            "look at",
            args.root.display(),
            why,
            "give the folder that holds proc and sys",
        )
        .into());
    }
    let time = args.sample.unwrap_or_default();
    if args.sample.is_some() && !(SHORTEST..=LONGEST).contains(&time) {
        return Err("cannot sample for that long; give 100ms to 24h".into());
    }
    let mut machine = inspect::read_whole(&args.root);
    if args.sample.is_some() {
        let sample = inspect::sample(&machine, time);
        if let Some(inventory) = &mut machine.inventory {
            inventory.sample = Some(sample);
        }
    }
    Ok(machine)
}

/// A snapshot from a file, as `--save` writes it.
fn saved(path: &Path) -> Result<Snapshot, Box<dyn std::error::Error>> {
    let text = untrusted::read(path, SNAPSHOT_LIMIT).map_err(|e| Error::io("read the snapshot", path, &e))?;
    let machine: Snapshot = serde_json::from_slice(&text).map_err(|e| {
        Error::on("read the snapshot", path.display(), e, "give one of isolator doctor --save")
    })?;
    if machine.inventory.is_none() {
        let why = "it holds no inventory";
        return Err(Error::on(
            "read the snapshot",
            path.display(),
            why,
            "give one of isolator doctor --save",
        )
        .into());
    }
    Ok(machine)
}
