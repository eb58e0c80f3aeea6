// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads other tools' result files as evidence.
//!
//! | file | probe | a row is |
//! |---|---|---|
//! | cyclictest `--json`, `-h`/`-H`/`--histfile`, `-v`, summary lines | `wakeup` | a thread |
//! | jitterdebugger JSON | `wakeup` | a thread |
//! | stress-ng `--cyclic` | `wakeup` | the first instance |
//! | cyclicdeadline JSON and text | `wakeup` | a thread |
//! | LinuxCNC latency-test, latency-histogram `--nox` | `wakeup`: deviation between two runs | a thread |
//! | rteval XML | `wakeup` (cyclictest), `timerlat-user` (timerlat) | a CPU |
//! | Xenomai latency, latmus table and `-g` | `wakeup`; in the kernel `timerlat-thread`, `timerlat-irq`; with GPIO `response-lines` | a CPU |
//! | rtla timerlat hist and top | `timerlat-irq`, `timerlat-thread`, `timerlat-user` | a CPU |
//! | pmqtest, ptsematest, svsematest, sigwaittest, JSON and text | `message-mqueue`, `-mutex`, `-semaphore`, `-sigwait`: one way; `message-unknown` where the text does not name its tool | a pair |
//! | signaltest JSON and text | `message-signal`: one round through all threads | a thread |
//! | deadline_test text | `execution`: of a loop of fixed length | a thread |
//! | oslat JSON, text and table alone | `spin` | a CPU |
//! | rtla osnoise hist and top, hwnoise | `noise`: only interruptions are counted, not the loop's iterations | a CPU |
//! | hwlatdetect text | `hardware`: only gaps above its threshold | a CPU |
//!
//! The rules: a figure that the file does not state stays `None`; a note or a taint reports hidden ones. The
//! worst figure that a file states wins: neither buckets nor excerpts overrule a maximum, a value at which
//! the tool stopped or a count. Bucket counts are the file's, at the smallest value of the bucket; count,
//! minimum, mean and maximum are the tool's own figures where it states them. A sample beyond the last bucket
//! is counted where the buckets end, one of them at the maximum; [`Coarse`] says from where on and how many,
//! and [`known`](evidence::known) what is then told.
//!
//! No line is dropped in silence. [`text`] takes off what stands around the tool's lines. A line that should
//! be a row and cannot be read is refused by its number; a thread without a sample is a row that was not run.
//! A file that was cut short gives what it still holds and a line in [`Bundle::missing`]. Seconds, spikes and
//! jitter are in none of these formats.
//!
//! Most of these tools state extremes alone: then there is no bucket, and everything is overflow from the
//! minimum on. Overruns, missed deadlines and timeouts that a tool states are periods missed. A screen that
//! is drawn again and again is one run: the last one counts, and the worst maximum of all. More than one run,
//! or results of more than one tool, are refused.
//!
//! Formats as written by rt-tests 2.4 and 2.6, rtla 6.1 and 6.12, jitterdebugger 0.1 and 0.3.1, stress-ng
//! 0.15, Xenomai 2.4 and 3, libevl 0.42, LinuxCNC 2.9, rteval 3.7.
//!
//! [`Coarse`]: evidence::manifest::Coarse

mod column;
mod command;
mod cyclictest;
mod deadline_test;
mod figures;
mod hwlatdetect;
mod jitterdebugger;
mod json;
mod latmus;
mod linuxcnc;
mod oslat;
mod pairs;
mod rt_tests;
mod rteval;
mod rtla;
mod rtla_top;
mod stamps;
mod stress_ng;
mod tell;
pub mod text;
mod threads;
mod unpack;
mod xenomai;

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use evidence::reader::Bundle;
use evidence::taint::{self, Taint};
use evidence::writer::stem;
use evidence::{Error, Result};
use machine::units::us;

/// The load of an imported row whose load is not stated.
pub const UNKNOWN_LOAD: &str = "unknown";

/// No result file is longer than this; a longer one is refused.
const LARGEST: u64 = 256 << 20;

/// The unit of a text's figures, where the text does not state it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureUnit {
    /// Microseconds, as most tools have it.
    Microseconds,
    /// Nanoseconds, as with `cyclictest -N`.
    Nanoseconds,
}

impl FigureUnit {
    fn ns(self) -> u64 {
        match self {
            FigureUnit::Microseconds => 1_000,
            FigureUnit::Nanoseconds => 1,
        }
    }
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// `cyclictest --json`.
    CyclictestJson,
    /// `cyclictest -h`, `-H` or `--histfile`.
    CyclictestHistogram,
    /// `cyclictest -v`: `thread:cycle:latency`, a line a sample.
    CyclictestVerbose,
    /// cyclictest's `T: 0 ( 3407) P:80 …` lines alone.
    CyclictestSummary,
    /// `oslat --json`.
    OslatJson,
    /// What oslat prints.
    OslatText,
    /// `rtla timerlat hist`.
    Timerlat,
    /// `rtla osnoise hist`.
    Osnoise,
    /// jitterdebugger's `results.json`.
    Jitterdebugger,
    /// What hwlatdetect prints.
    Hwlatdetect,
    /// Tables of Xenomai's `latency` and of EVL's `latmus`.
    Xenomai,
    /// `latmus -g`.
    Latmus,
    /// `--json` of pmqtest, ptsematest, svsematest, sigwaittest, signaltest and cyclicdeadline.
    RtTestsJson,
    /// What pmqtest, ptsematest, svsematest and sigwaittest print.
    PairsText,
    /// What signaltest prints.
    Signaltest,
    /// What cyclicdeadline prints.
    Cyclicdeadline,
    /// What deadline_test prints.
    DeadlineTest,
    /// `rtla timerlat top`.
    TimerlatTop,
    /// `rtla osnoise top` and `rtla hwnoise`.
    OsnoiseTop,
    /// `stress-ng --cyclic`.
    StressNg,
    /// LinuxCNC's latency-test.
    LinuxcncTest,
    /// LinuxCNC's `latency-histogram --nox`.
    LinuxcncHistogram,
    /// rteval's `summary.xml`.
    Rteval,
}

impl ImportFormat {
    /// All of them.
    pub const ALL: [ImportFormat; 23] = [
        ImportFormat::CyclictestJson,
        ImportFormat::CyclictestHistogram,
        ImportFormat::CyclictestVerbose,
        ImportFormat::CyclictestSummary,
        ImportFormat::OslatJson,
        ImportFormat::OslatText,
        ImportFormat::Timerlat,
        ImportFormat::Osnoise,
        ImportFormat::Jitterdebugger,
        ImportFormat::Hwlatdetect,
        ImportFormat::Xenomai,
        ImportFormat::Latmus,
        ImportFormat::RtTestsJson,
        ImportFormat::PairsText,
        ImportFormat::Signaltest,
        ImportFormat::Cyclicdeadline,
        ImportFormat::DeadlineTest,
        ImportFormat::TimerlatTop,
        ImportFormat::OsnoiseTop,
        ImportFormat::StressNg,
        ImportFormat::LinuxcncTest,
        ImportFormat::LinuxcncHistogram,
        ImportFormat::Rteval,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            ImportFormat::CyclictestJson => "cyclictest JSON",
            ImportFormat::CyclictestHistogram => "cyclictest histogram",
            ImportFormat::CyclictestVerbose => "cyclictest -v",
            ImportFormat::CyclictestSummary => "cyclictest summary",
            ImportFormat::OslatJson => "oslat JSON",
            ImportFormat::OslatText => "oslat text",
            ImportFormat::Timerlat => "rtla timerlat hist",
            ImportFormat::Osnoise => "rtla osnoise hist",
            ImportFormat::Jitterdebugger => "jitterdebugger JSON",
            ImportFormat::Hwlatdetect => "hwlatdetect text",
            ImportFormat::Xenomai => "Xenomai latency",
            ImportFormat::Latmus => "latmus histogram",
            ImportFormat::RtTestsJson => "rt-tests JSON",
            ImportFormat::PairsText => "pmqtest and ptsematest text",
            ImportFormat::Signaltest => "signaltest text",
            ImportFormat::Cyclicdeadline => "cyclicdeadline text",
            ImportFormat::DeadlineTest => "deadline_test text",
            ImportFormat::TimerlatTop => "rtla timerlat top",
            ImportFormat::OsnoiseTop => "rtla osnoise top",
            ImportFormat::StressNg => "stress-ng --cyclic",
            ImportFormat::LinuxcncTest => "LinuxCNC latency-test",
            ImportFormat::LinuxcncHistogram => "LinuxCNC latency-histogram",
            ImportFormat::Rteval => "rteval XML",
        }
    }

    /// Whether a text of it may leave its unit out.
    fn has_untold_unit(self) -> bool {
        use ImportFormat::*;
        matches!(self, CyclictestHistogram | CyclictestVerbose | CyclictestSummary | Jitterdebugger)
    }

    /// The format of a text, from its content.
    pub fn of(text: &str) -> Option<ImportFormat> {
        match json::document(text) {
            Ok(Some(document)) => of_json(&serde_json::from_str(document).ok()?),
            Ok(None) => tell::all(text).first().copied(),
            Err(_) => None,
        }
    }
}

fn of_json(document: &Value) -> Option<ImportFormat> {
    if document.get("cpu").is_some() {
        return Some(ImportFormat::Jitterdebugger);
    }
    let threads = document.get("thread")?.as_object()?;
    if rt_tests::is_of_another_tool(document) {
        return Some(ImportFormat::RtTestsJson);
    }
    let has = |key: &str| threads.values().any(|thread| thread.get(key).is_some());
    match (has("cycles"), has("freq")) {
        (true, _) => Some(ImportFormat::CyclictestJson),
        (_, true) => Some(ImportFormat::OslatJson),
        _ => None,
    }
}

/// Reads the result file of another tool; its content tells the tool. The load of its rows is
/// [`UNKNOWN_LOAD`] and they have no limit until [`set_load`] and [`set_limit`] say so.
pub fn import(path: &Path) -> Result<Bundle> {
    import_with(path, None)
}

/// The same; `unit` says in which unit the figures of a text are that does not state it (`cyclictest -N`).
pub fn import_with(path: &Path, unit: Option<FigureUnit>) -> Result<Bundle> {
    let fail = |why: &dyn std::fmt::Display| {
        let cure = "give the whole output of one run of a tool that `isolator import --help` lists";
        Error::on("import", path.display(), why, cure)
    };
    let file = untrusted::open(path).map_err(|e| Error::io("import", path, &e))?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|e| Error::io("import", path, &e))?;
    if bytes.len() as u64 > LARGEST {
        return Err(fail(&format!("it is longer than {} MiB", LARGEST >> 20)));
    }
    let text = text::read(bytes).map_err(|why| fail(&why))?;
    let mut bundle = parse_plain(&text, None, unit).map_err(|why| fail(&why))?;
    bundle.path = path.to_path_buf();
    Ok(bundle)
}

/// Reads a text in `format`, or in the one that its content shows; an error says why it cannot be read.
pub fn parse(text: &str, format: Option<ImportFormat>) -> std::result::Result<Bundle, String> {
    parse_with(text, format, None)
}

/// The same; see [`import_with`].
pub fn parse_with(
    text: &str,
    format: Option<ImportFormat>,
    unit: Option<FigureUnit>,
) -> std::result::Result<Bundle, String> {
    parse_plain(&text::plain(text), format, unit)
}

fn parse_plain(
    text: &str,
    format: Option<ImportFormat>,
    unit: Option<FigureUnit>,
) -> std::result::Result<Bundle, String> {
    if text.trim().is_empty() {
        return Err("it is empty".into());
    }
    let (text, told) = match json::document(text)? {
        Some(document) => (document, of_json(&serde_json::from_str(document).unwrap_or_default())),
        None => match tell::all(text)[..] {
            [first, second, ..] if format.is_none() => {
                let (first, second) = (first.name(), second.name());
                return Err(format!(
                    "it holds more than one result, of {first} and of {second}: give each alone"
                ));
            }
            ref told => (text, told.first().copied()),
        },
    };
    let Some(format) = format.or(told) else {
        return Err(tell::without_result(text));
    };
    if unit.is_some() && !format.has_untold_unit() {
        return Err(format!("the unit of a {} is stated in it, and was told besides", format.name()));
    }
    let unit_ns = unit.map(FigureUnit::ns);
    let found = match format {
        ImportFormat::CyclictestJson | ImportFormat::OslatJson | ImportFormat::RtTestsJson => {
            rt_tests::read(text)
        }
        ImportFormat::CyclictestHistogram => cyclictest::read_histogram(text, unit_ns),
        ImportFormat::CyclictestVerbose => cyclictest::read_samples(text, unit_ns),
        ImportFormat::CyclictestSummary => cyclictest::read_summary(text, unit_ns),
        ImportFormat::OslatText => oslat::read(text),
        ImportFormat::Timerlat | ImportFormat::Osnoise => rtla::read(text),
        ImportFormat::Jitterdebugger => jitterdebugger::read(text, unit_ns),
        ImportFormat::Hwlatdetect => hwlatdetect::read(text),
        ImportFormat::Xenomai => xenomai::read(text),
        ImportFormat::Latmus => latmus::read(text),
        ImportFormat::PairsText => pairs::read(text),
        ImportFormat::Signaltest => threads::read(text, threads::PairTool::Signaltest),
        ImportFormat::Cyclicdeadline => threads::read(text, threads::PairTool::Cyclicdeadline),
        ImportFormat::DeadlineTest => deadline_test::read(text),
        ImportFormat::TimerlatTop => rtla_top::read_timerlat(text),
        ImportFormat::OsnoiseTop => rtla_top::read_osnoise(text),
        ImportFormat::StressNg => stress_ng::read(text),
        ImportFormat::LinuxcncTest => linuxcnc::read_test(text),
        ImportFormat::LinuxcncHistogram => linuxcnc::read_histogram(text),
        ImportFormat::Rteval => rteval::read(text),
    }?;
    found.into_bundle()
}

/// Says under which load an imported bundle was measured.
pub fn set_load(bundle: &mut Bundle, load: &str) {
    let manifest = &mut bundle.manifest;
    manifest.asked.loads = vec![load.to_string()];
    manifest.not_run.iter_mut().for_each(|row| row.load = load.to_string());
    let rows = bundle.rows.iter_mut().map(|row| &mut row.entry);
    for entry in rows.chain(&mut manifest.rows) {
        entry.key.load = load.to_string();
        entry.files = stem(&entry.key);
    }
}

/// Sets the limit that judges the rows of an imported bundle; a taint where the tool left gaps out that are
/// shorter than its threshold and yet above the limit.
pub fn set_limit(bundle: &mut Bundle, limit_ns: Option<u64>) {
    let manifest = &mut bundle.manifest;
    manifest.asked.limit = limit_ns.map(|ns| format!("{}us", ns as f64 / 1e3));
    manifest.taints.retain(|taint| taint.code != taint::THRESHOLD_ABOVE_LIMIT);
    let has_threshold = bundle.rows.iter().any(|row| row.entry.key.kind().is_above_threshold_only());
    if let (true, Some(limit_ns), Some(threshold_ns)) = (has_threshold, limit_ns, manifest.asked.threshold_ns)
        && limit_ns < threshold_ns
    {
        let reason =
            format!("gaps up to {} were not recorded, the limit is {}", us(threshold_ns), us(limit_ns));
        let cure = "measure again with a threshold below the limit";
        manifest.taints.push(Taint::new(taint::THRESHOLD_ABOVE_LIMIT, reason, cure));
    }
    let rows = bundle.rows.iter_mut().map(|row| &mut row.entry);
    rows.chain(&mut manifest.rows).for_each(|entry| entry.limit_ns = limit_ns);
}
