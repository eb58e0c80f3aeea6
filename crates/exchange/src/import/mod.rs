// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads other tools' result files as evidence.
//!
//! `docs/reference/import.md` lists the files, and the rows that they become.
//!
//! A figure that the file does not state stays `None`. Bucket counts are the file's, at the smallest value of
//! the bucket; count, minimum, mean and maximum are the tool's own figures where it states them. A sample
//! beyond the last bucket is counted where the buckets end, one of them at the maximum; [`Coarse`] says from
//! where on and how many, and [`known`](evidence::known) what is then told. Where a tool states extremes
//! alone there is no bucket, and everything is overflow from the minimum on.
//!
//! No line is dropped in silence. [`text`] takes off what stands around the tool's lines, and the scanner
//! takes out statements: a worse value, a stop, a failure, lost samples, a doubt. A line that should be a row
//! and cannot be read is refused by its number; a thread without a sample is a row that was not run. A file
//! that was cut short gives what it still holds and a line in [`Bundle::missing`]. Seconds, spikes and jitter
//! are in none of these formats.
//!
//! A new format is one file in `formats` with its description and its `read`, its lines in `formats.rs`, and
//! a fixture with its rows in `tests/expected.txt`. The tests `import_formats` then hold for it too.
//!
//! Formats as written by rt-tests 2.4 and 2.6, rtla 6.1 and 6.12, jitterdebugger 0.1 and 0.3.1, stress-ng
//! 0.15, Xenomai 2.4 and 3, libevl 0.42, LinuxCNC 2.9, rteval 3.7.
//!
//! [`Coarse`]: evidence::manifest::Coarse

mod column;
mod command;
mod figures;
mod formats;
mod json;
mod scan;
mod stamps;
mod table;
mod tell;
pub mod text;
mod unpack;

pub use self::formats::ImportFormat;
pub use self::scan::says::FormatQuestion;

use std::io::Read;
use std::path::Path;

use self::scan::Scan;
use evidence::reader::Bundle;
use evidence::taint::{self, Taint};
use evidence::{Error, Result};
use machine::units::us;

pub use evidence::manifest::UNKNOWN_LOAD;

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

impl ImportFormat {
    /// Whether a text of it may leave its unit out.
    fn has_untold_unit(self) -> bool {
        self.description().lacks(scan::format::Lack::Unit)
    }

    /// The format of a text, from its content.
    pub fn of(text: &str) -> Option<ImportFormat> {
        let text = text::plain(text);
        match json::document(&text).ok()? {
            Some(document) => tell::json(document),
            None => tell::all(&text).first().copied(),
        }
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

/// A bundle, or why a text is none.
pub type Parsed = std::result::Result<Bundle, String>;

/// Reads a text in `format`, or in the one that its content shows; an error says why it cannot be read.
pub fn parse(text: &str, format: Option<ImportFormat>) -> Parsed {
    parse_with(text, format, None)
}

/// The same; see [`import_with`].
pub fn parse_with(text: &str, format: Option<ImportFormat>, unit: Option<FigureUnit>) -> Parsed {
    parse_plain(&text::plain(text), format, unit)
}

fn parse_plain(text: &str, format: Option<ImportFormat>, unit: Option<FigureUnit>) -> Parsed {
    if text.trim().is_empty() {
        return Err("it is empty".into());
    }
    let (document, around, told) = match json::document(text)? {
        Some(document) => {
            let start = document.as_ptr() as usize - text.as_ptr() as usize;
            let around = [&text[..start], &text[start + document.len()..]];
            (document, around, tell::json(document))
        }
        None => match tell::all(text)[..] {
            [first, second, ..] if format.is_none() => {
                let two = format!("of {} and of {}", first.name(), second.name());
                return Err(format!("it holds more than one result, {two}: give each alone"));
            }
            ref told => (text, ["", ""], told.first().copied()),
        },
    };
    let Some(format) = format.or(told) else {
        return Err(tell::without_result(document));
    };
    if unit.is_some() && !format.has_untold_unit() {
        return Err(format!("the unit of a {} is stated in it, and was told besides", format.name()));
    }
    let scan = Scan::of(document, around, format.description(), unit.map(FigureUnit::ns))?;
    scan.read()?.into_bundle()
}

/// Says under which load an imported bundle was measured.
pub fn set_load(bundle: &mut Bundle, load: &str) {
    let manifest = &mut bundle.manifest;
    manifest.asked.loads = vec![load.to_string()];
    manifest.not_run.iter_mut().for_each(|row| row.load = load.to_string());
    manifest.taints.retain(|taint| taint.code != taint::LOAD_UNKNOWN || load == UNKNOWN_LOAD);
    let rows = bundle.rows.iter_mut().map(|row| &mut row.entry);
    for entry in rows.chain(&mut manifest.rows) {
        entry.key.load = load.to_string();
        entry.files = entry.key.stem();
    }
}

/// Sets the limit that judges the rows of an imported bundle.
pub fn set_limit(bundle: &mut Bundle, limit_ns: Option<u64>) {
    bundle.manifest.asked.limit = limit_ns.map(|ns| format!("{}us", ns as f64 / 1e3));
    let rows = bundle.rows.iter_mut().map(|row| &mut row.entry);
    rows.chain(&mut bundle.manifest.rows).for_each(|entry| entry.limit_ns = limit_ns);
    thresholds(bundle);
}

/// A taint where the tool left gaps out that are shorter than its threshold and yet above the limit.
pub fn thresholds(bundle: &mut Bundle) {
    let manifest = &mut bundle.manifest;
    manifest.taints.retain(|taint| taint.code != taint::THRESHOLD_ABOVE_LIMIT);
    let rows = bundle.rows.iter().filter(|row| row.entry.key.kind().is_above_threshold_only());
    let limit_ns = rows.clone().filter_map(|row| row.entry.limit_ns).min();
    // The tool compares whole units: a gap of its threshold may be longer by a part of one.
    let above_ns = rows.filter_map(|row| row.entry.coarse.as_ref()).map(|coarse| coarse.above_ns).max();
    let unseen_ns = manifest.asked.threshold_ns.map(|ns| ns.saturating_add(above_ns.unwrap_or(0)));
    if let (Some(limit_ns), Some(unseen_ns)) = (limit_ns, unseen_ns)
        && limit_ns < unseen_ns
    {
        let reason = format!("gaps up to {} were not recorded, the limit is {}", us(unseen_ns), us(limit_ns));
        let cure = "measure again with a threshold below the limit";
        let taint = Taint::new(taint::THRESHOLD_ABOVE_LIMIT, reason, cure);
        let accepted = manifest.asked.accept.contains(&taint.code);
        manifest.taints.push(Taint { accepted, ..taint });
    }
}
