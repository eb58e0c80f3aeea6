// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of rt-tests: its tools share a frame.
//!
//! Two keys of the frame carry a stray colon (`"cmdline:"`), which some builds lack; both are read.
//! `resolution_in_ns` is a flag: 1 where the figures are nanoseconds (`-N`). The file says neither priority
//! nor period; they come from the command line in it, where that can be read without doubt.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::column::{ImportedFile, ImportedSeries, Rounding, kernel};
use super::command::{Syntax, ToolCommand};
use super::figures::ToolScreen;
use super::scan::Scan;
use super::scan::format::{Answer, Cpus, Description, End, Half, Missed, StatedSamples, Told, Unit};
use super::threads::{self, ThreadTool};
use super::{cyclictest, json, oslat, pairs};
use evidence::taint;

pub(super) const CYCLICTEST: Description = Description {
    name: "cyclictest JSON",
    program: "cyclictest",
    told: Told::Json(|document| has(document, "cycles")),
    parts: &[],
    unit: Unit::Known,
    rounding: Rounding::Cut,
    cpus: Cpus::Stated,
    samples: StatedSamples::Distribution,
    totals: Answer::Field("cycles"),
    missed: Missed::Skipped,
    end: End::Marked,
    half_line: |_| Half::Dropped,
    worse: threads::BREAK,
    stops: Answer::Never("its break value says so, beside the document"),
    aborts: threads::FAILURES,
    losses: Answer::Field("cycles above the histogram's sum"),
    doubts: threads::DOUBTS,
    read,
};

pub(super) const OSLAT: Description = Description {
    name: "oslat JSON",
    program: "oslat",
    told: Told::Json(|document| has(document, "freq")),
    rounding: Rounding::Up,
    missed: Missed::NoPeriods,
    totals: Answer::Never("the buckets hold every sample"),
    worse: oslat::HIT,
    losses: Answer::Never("the loop sees every sample"),
    ..CYCLICTEST
};

pub(super) const OTHERS: Description = Description {
    name: "rt-tests JSON",
    program: "rt-tests",
    told: Told::Json(is_of_another_tool),
    samples: StatedSamples::Distribution,
    missed: Missed::Counted,
    totals: Answer::Field("cycles, or samples of the sender"),
    losses: Answer::Never("every cycle is in its figures"),
    ..CYCLICTEST
};

/// Whether a thread of the document has a key.
fn has(document: &serde_json::Value, key: &str) -> bool {
    let threads = document.get("thread").and_then(|threads| threads.as_object());
    threads.is_some_and(|threads| threads.values().any(|thread| thread.get(key).is_some()))
}

/// 10000-01-01 in seconds since 1970.
const YEAR_10000: u64 = 253_402_300_800;

#[derive(Debug, Deserialize)]
struct RtTestsDocument {
    #[serde(alias = "cmdline:")]
    cmdline: Option<String>,
    #[serde(alias = "rt_test_version:")]
    rt_test_version: Option<String>,
    start_time: Option<String>,
    end_time: Option<String>,
    return_code: Option<i64>,
    #[serde(default)]
    sysinfo: Sysinfo,
    #[serde(default)]
    resolution_in_ns: u64,
    #[serde(deserialize_with = "json::once")]
    thread: BTreeMap<u32, RtTestsThread>,
}

/// `uname` of the machine.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sysinfo {
    pub nodename: Option<String>,
    pub release: Option<String>,
    pub version: Option<String>,
    pub machine: Option<String>,
    pub realtime: i64,
    pub cpus_online: Option<u64>,
    pub resolution_in_ns: Option<u64>,
}

impl Sysinfo {
    /// Fills the machine in.
    pub fn put_into(self, found: &mut ImportedFile) {
        let machine = &mut found.manifest.machine;
        machine.hostname = self.nodename;
        machine.architecture = self.machine;
        machine.kernel = kernel(self.release, self.version, self.realtime != 0);
    }
}

#[derive(Debug, Deserialize)]
struct RtTestsThread {
    #[serde(default, deserialize_with = "json::once")]
    histogram: BTreeMap<u64, u64>,
    cycles: Option<u64>,
    min: Option<u64>,
    avg: Option<f64>,
    max: Option<u64>,
    cpu: Option<i64>,
    sender: Option<pairs::PairSender>,
    receiver: Option<pairs::PairReceiver>,
}

/// Which tool of rt-tests wrote a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RtTestsTool {
    Cyclictest,
    Oslat,
    /// pmqtest and its family; absent: the file does not say which.
    Pair(Option<&'static str>),
    Thread(ThreadTool),
}

impl RtTestsTool {
    fn of(program: &str, document: &RtTestsDocument) -> Result<RtTestsTool, String> {
        let has = |what: fn(&RtTestsThread) -> bool| document.thread.values().any(what);
        Ok(match program {
            "" if has(|thread| thread.receiver.is_some()) => RtTestsTool::Pair(None),
            "" if has(|thread| thread.cycles.is_some()) => RtTestsTool::Cyclictest,
            "" => RtTestsTool::Oslat,
            program if program.contains("cyclictest") => RtTestsTool::Cyclictest,
            program if program.contains("oslat") => RtTestsTool::Oslat,
            program => {
                let pair = pairs::tool(program).map(|tool| RtTestsTool::Pair(Some(tool)));
                pair.or_else(|| ThreadTool::named(program).map(RtTestsTool::Thread))
                    .ok_or_else(|| format!("it is a result of {program}, which is not read"))?
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            RtTestsTool::Cyclictest => "cyclictest",
            RtTestsTool::Oslat => "oslat",
            RtTestsTool::Pair(tool) => tool.unwrap_or("rt-tests"),
            RtTestsTool::Thread(tool) => tool.name(),
        }
    }
}

/// Whether a document says that another tool than cyclictest and oslat wrote it.
fn is_of_another_tool(document: &serde_json::Value) -> bool {
    let line = ["cmdline", "cmdline:"].iter().find_map(|key| document.get(key)?.as_str()).unwrap_or_default();
    let program = program(line);
    has(document, "receiver") || pairs::tool(program).is_some() || ThreadTool::named(program).is_some()
}

/// The program of a command line, without its folder.
fn program(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

fn take_pairs(
    tool: &str,
    threads: BTreeMap<u32, RtTestsThread>,
    found: &mut ImportedFile,
) -> Result<(), String> {
    let pair = |(number, thread): (u32, RtTestsThread)| Some((number, thread.sender?, thread.receiver?));
    let count = threads.len();
    let whole = threads.into_iter().filter_map(pair).collect::<Vec<_>>();
    if whole.len() != count {
        return Err("a thread has no 'sender' or no 'receiver'".into());
    }
    pairs::take(tool, whole, found);
    Ok(())
}

fn take_threads(
    tool: ThreadTool,
    line: &str,
    all: BTreeMap<u32, RtTestsThread>,
    found: &mut ImportedFile,
) -> Result<(), String> {
    let command = tool.syntax().read(line).unwrap_or_default();
    found.manifest.asked.duration_ns = command.time_ns('D');
    found.extremes_alone();
    threads::remarks(tool, found);
    if tool == ThreadTool::Signaltest {
        let priority = command.number('p').filter(|priority| *priority > 0);
        found.scheduled(Some(if priority.is_some() { "fifo" } else { "other" }), priority);
    }
    // Without -a the number of a thread's CPU is that of no CPU.
    found.cpus_known = command.has('a');
    for (number, thread) in all {
        let cpu = thread.cpu.and_then(|cpu| u32::try_from(cpu).ok());
        found.cpus_known &= cpu.is_some();
        let screen = ToolScreen {
            cycles: thread.cycles.ok_or("a thread has no 'cycles'")?,
            min: thread.min,
            avg: thread.avg,
            max: thread.max,
            ..ToolScreen::default()
        };
        let cpu = cpu.filter(|_| command.has('a')).unwrap_or(number);
        let column = ImportedSeries::of_screen(tool.probe(), cpu, 1_000, &screen);
        found.columns.push(column.each_us(tool.period_us(&command, number)));
    }
    Ok(())
}

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let document: RtTestsDocument =
        serde_json::from_str(scan.text).map_err(|e| format!("it is damaged ({e})"))?;
    let line = document.cmdline.clone().unwrap_or_default();
    let tool = RtTestsTool::of(program(&line), &document)?;
    let name = tool.name();
    let is_cyclictest = tool == RtTestsTool::Cyclictest;
    let mut found = ImportedFile::by(name, document.rt_test_version);
    found.manifest.written_by.command_line = document.cmdline;
    for (what, time) in [("start", &document.start_time), ("end", &document.end_time)] {
        if let Some(time) = time.as_deref().filter(|time| utc(time).is_none()) {
            found.note(format!("its {what} '{time}' is not a date"));
        }
    }
    found.manifest.started_at = document.start_time.as_deref().and_then(utc);
    found.manifest.ended_at = document.end_time.as_deref().and_then(utc);
    if let Some(status) = document.return_code.filter(|status| *status != 0) {
        found.taint(taint::TOOL_FAILED, format!("{name} ended with status {status}"), "measure again", None);
    }
    document.sysinfo.put_into(&mut found);
    match tool {
        RtTestsTool::Cyclictest | RtTestsTool::Oslat => {}
        RtTestsTool::Pair(_) => {
            take_pairs(name, document.thread, &mut found)?;
            return Ok(found);
        }
        RtTestsTool::Thread(tool) => {
            take_threads(tool, &line, document.thread, &mut found)?;
            return Ok(found);
        }
    }
    let syntax: &Syntax = if is_cyclictest { &cyclictest::SYNTAX } else { &oslat::SYNTAX };
    let command = syntax.read(&line).filter(|_| !line.is_empty());
    let unit_ns = if document.resolution_in_ns == 0 { 1_000 } else { 1 };
    for (number, thread) in document.thread {
        let cpu = thread.cpu.and_then(|cpu| u32::try_from(cpu).ok());
        found.cpus_known &= cpu.is_some();
        let mut column = ImportedSeries {
            probe: if is_cyclictest { "wakeup" } else { "spin" },
            cpu: cpu.unwrap_or(number),
            unit_ns,
            width: 1,
            buckets: thread.histogram.into_iter().collect(),
            min: thread.min,
            avg: thread.avg,
            max: thread.max,
            ..ImportedSeries::default()
        };
        if let Some(width_ns) =
            command.as_ref().and_then(|command| command.number('W')).filter(|_| !is_cyclictest)
        {
            column.width = (width_ns / unit_ns).max(1);
        }
        if is_cyclictest {
            column.period_ns = command.as_ref().and_then(|command| cyclictest::period_ns(command, number));
            column.overflow_from = command.as_ref().and_then(|c| c.number('h').or(c.number('H')));
            column.set_total(thread.cycles.ok_or("a thread has no 'cycles'")?, &mut found.missing);
        } else {
            oslat::settle(&mut column, &mut found);
        }
        found.columns.push(column);
    }
    found.skips_missed = is_cyclictest;
    if is_cyclictest && found.columns.iter().all(|column| column.buckets.is_empty()) {
        found.extremes_alone();
    }
    if let Some(command) = &command {
        asked(&mut found, command, is_cyclictest);
    }
    Ok(found)
}

fn asked(found: &mut ImportedFile, command: &ToolCommand, is_cyclictest: bool) {
    found.manifest.asked.duration_ns = command.time_ns('D');
    if is_cyclictest {
        cyclictest::asked(found, command);
    } else {
        let priority = command.number('f').filter(|priority| *priority > 0);
        found.scheduled(Some(if priority.is_some() { "fifo" } else { "other" }), priority);
    }
}

/// `Fri, 20 Nov 2026 16:36:08 +0000` as RFC 3339 in UTC.
fn utc(text: &str) -> Option<String> {
    let words = text.split_whitespace().collect::<Vec<_>>();
    let [_, day, month, year, time, zone] = words.as_slice() else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| name == month)? + 1;
    let local = format!("{year}-{month:02}-{day:0>2}T{time}Z");
    let local = humantime::parse_rfc3339(&local).ok()?;
    let (sign, digits) = zone.split_at_checked(1)?;
    let zone: u64 = digits.parse().ok().filter(|zone| *zone < 2400)?;
    let ahead = Duration::from_secs((zone / 100 * 60 + zone % 100) * 60);
    let utc = if sign == "-" { local.checked_add(ahead) } else { local.checked_sub(ahead) }?;
    // RFC 3339 has four digits for the year, and its writer knows no year before 1970.
    let seconds = utc.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    (seconds < YEAR_10000).then(|| humantime::format_rfc3339_seconds(utc).to_string())
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates_become_utc() {
        for (text, expected) in [
            ("Fri, 20 Nov 2026 16:36:08 +0000", Some("2026-11-20T16:36:08Z")),
            ("Fri, 1 Jan 2027 00:30:00 +0130", Some("2026-12-31T23:00:00Z")),
            ("Thu, 31 Dec 2026 20:00:00 -0500", Some("2027-01-01T01:00:00Z")),
            ("Thu, 31 Dec 2026 20:00:00", None),
            ("Thu, 31 Foo 2026 20:00:00 +0000", None),
            ("Thu, 1 Jan 1970 00:00:00 +0100", None),
            ("Fri, 31 Dec 9999 23:59:59 -0100", None),
        ] {
            assert_eq!(utc(text).as_deref(), expected, "{text}");
        }
    }
}
