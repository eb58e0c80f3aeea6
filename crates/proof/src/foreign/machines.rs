// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of what machines and their programs say: snapshots, trees, plans, loads' figures.

use std::fs;
use std::path::{Component, Path};

use doctor::{DoctorQuestion, examine};
use load::figures::{FIO_FILE, FigureSource, HeardFigures, STRESS_NG_FILE};
use machine::Snapshot;
use machine::boot::line;
use machine::registry::ValueKind;
use report::terminal::{self, Style};
use tune::plan::{Intent, MadeFor, Plan, WantedCpus};

use super::parts::parts;

const STYLE: Style = Style { color: false, width: 80 };

/// A machine's snapshot as JSON.
pub(crate) fn snapshot(data: &[u8]) {
    if let Ok(machine) = serde_json::from_slice::<Snapshot>(data) {
        look(&machine, Path::new("/nonexistent"));
    }
}

/// A captured tree: files below a folder, cut at lines `=== PATH`.
pub(crate) fn tree(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    for (path, bytes) in parts(data, "proc/cmdline").into_iter().take(64) {
        let path = Path::new(&path);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        if is_below && let Some(parent) = path.parent() {
            // A folder where a file was asked for, and the other way round, are trees too.
            let _ = fs::create_dir_all(folder.path().join(parent));
            let _ = fs::write(folder.path().join(path), bytes);
        }
    }
    look(&inspect::read_whole(folder.path()), folder.path());
}

/// The findings and the plan of a machine.
fn look(machine: &Snapshot, root: &Path) {
    let report = examine(machine, &DoctorQuestion::default());
    let _ = (terminal::doctor(&report, STYLE), serde_json::to_string(&report));
    for cpus in [WantedCpus::Default, WantedCpus::Cores(2)] {
        let intent = Intent::new(doctor::Profile::default(), cpus);
        if let Ok(plan) = tune::plan::plan(machine, &MadeFor::here(root, machine), &intent) {
            shown(&plan, machine);
        }
    }
}

/// A plan that was kept.
pub(crate) fn plan(data: &[u8]) {
    if let Ok(plan) = Plan::read(&String::from_utf8_lossy(data)) {
        shown(&plan, &Snapshot::default());
    }
}

fn shown(plan: &Plan, machine: &Snapshot) {
    let _ = terminal::tune::plan(plan, STYLE);
    let verified = tune::verify::verify(plan, machine, &[]);
    let _ = (terminal::tune::verified(&verified, STYLE), serde_json::to_string(&verified));
}

/// The output of `fw_printenv`.
pub(crate) fn uboot(data: &[u8]) {
    let words = ["isolcpus=2-3", "skew_tick=1"].map(str::to_string);
    if let Ok((_, old)) = tune::boot::uboot::variable(&String::from_utf8_lossy(data), &words, true) {
        let longer = line::with_words(&old.unwrap_or_default(), &words);
        let has = |word: &String| line::kernel_words(&longer).any(|other| other.raw == word);
        assert!(words.iter().all(has), "{longer:?}");
    }
}

/// The output of loads' programs: stress-ng's YAML, fio's JSON, and lines of others.
pub(crate) fn figures(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let files = [STRESS_NG_FILE, FIO_FILE].map(|file| fs::write(folder.path().join(file), data));
    let Ok(folder) = untrusted::Folder::open(folder.path()) else { return };
    assert!(files.iter().all(Result::is_ok));
    let stressors = vec!["cpu".to_string(), "vm".to_string()];
    let sources = [
        FigureSource::StressNg { stressors },
        FigureSource::Fio,
        FigureSource::Engine,
        FigureSource::Interrupts,
        FigureSource::Frames,
        FigureSource::Display,
        FigureSource::Utilisation,
    ];
    for source in &sources {
        let mut heard = HeardFigures::default();
        String::from_utf8_lossy(data).lines().for_each(|line| heard.line(source, line));
        heard.collect(source, &folder);
        let _ = (heard.lacks(source), heard.describe(source));
    }
    let _ = machine::registry::list::read(ValueKind::Cpus, &String::from_utf8_lossy(data), 127);
}
