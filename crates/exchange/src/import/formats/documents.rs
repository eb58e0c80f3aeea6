// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of rt-tests, whose tools share a frame, and jitterdebugger's `results.json`, which is close to it.
//!
//! Two keys of the frame carry a stray colon (`"cmdline:"`), which some builds lack; both are read.
//! `resolution_in_ns` is a flag: 1 where the figures are nanoseconds (`-N`). The file says neither priority
//! nor period; they come from the command line in it, where that can be read without doubt.
//!
//! jitterdebugger catches up with missed periods, so that every one of them is a sample. Samples of 1 ms and
//! above are counted but not listed. Its `cpu` numbers threads: they are CPU numbers only where every online
//! CPU was measured. Priority and period are not in the file. Version 0.1 wrote no `sysinfo`, and always
//! microseconds; a file that lost it is taken as microseconds unless a bucket lies where only nanoseconds
//! have some.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::threads::ThreadTool;
use super::{cyclictest, oslat, pairs};
use crate::import::column::kernel;
use crate::import::json;
use crate::import::scan::prelude::*;
use crate::import::stamps::MONTHS;
use evidence::taint;

pub(in crate::import) const CYCLICTEST: Description = Description {
    lacks: &[Lack::MissedPeriods],
    says: &[
        BREAK,
        FAILURES,
        DOUBTS,
        Says::NoLine(Totals, "cycles"),
        Says::NoLine(Stops, "its break value says so, beside the document"),
        Says::NoLine(Losses, "cycles above the histogram's sum"),
    ],
    ..Description::of(
        "cyclictest JSON",
        "cyclictest",
        Told::Json(|document| has(document, "cycles")),
        Digits::OfCutTimes,
        read,
    )
};

pub(in crate::import) const OSLAT: Description = Description {
    says: oslat::SAYS,
    ..Description::of(
        "oslat JSON",
        "oslat",
        Told::Json(|document| has(document, "freq")),
        Digits::RoundedUp,
        read,
    )
};

pub(in crate::import) const OTHERS: Description = Description {
    says: &[
        BREAK,
        FAILURES,
        DOUBTS,
        Says::NoLine(Totals, "cycles, or samples of the sender"),
        Says::NoLine(Stops, "its break value says so, beside the document"),
        Says::NoLine(Losses, "every cycle is in its figures"),
    ],
    ..Description::of("rt-tests JSON", "rt-tests", Told::Json(is_of_another_tool), Digits::OfCutTimes, read)
};

pub(in crate::import) const JITTERDEBUGGER: Description = Description {
    lacks: &[Lack::Unit],
    says: &[
        Says::Lines(Worse, &["Thread {tid} on CPU {cpu} hit {us} us latency"]),
        Says::Lines(Aborts, &["{}pthread_create(){}", "{}: clock_nanosleep(){}"]),
        Says::Lines(Doubts, &["warning: affinity reduced"]),
        Says::NoLine(Totals, "count"),
        Says::NoLine(Stops, "its -b says so with the value, beside the document"),
        Says::NoLine(Losses, "count above the histogram's sum"),
    ],
    ..Description::of(
        "jitterdebugger JSON",
        "jitterdebugger",
        Told::Json(|document| document.get("cpu").is_some()),
        Digits::Cut,
        read_jitterdebugger,
    )
};

/// Where jitterdebugger's buckets end, for either of its units.
const BUCKETS_END_NS: u64 = 1_000_000;

/// 10000-01-01 in seconds since 1970.
const YEAR_10000: u64 = 253_402_300_800;

#[derive(Debug, Deserialize)]
struct ToolDocument {
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
    #[serde(alias = "cpu", deserialize_with = "json::once")]
    thread: BTreeMap<u32, DocumentThread>,
}

/// `uname` of the machine.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sysinfo {
    nodename: Option<String>,
    release: Option<String>,
    version: Option<String>,
    machine: Option<String>,
    realtime: i64,
    cpus_online: Option<u64>,
    resolution_in_ns: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct DocumentThread {
    #[serde(default, deserialize_with = "json::once")]
    histogram: BTreeMap<u64, u64>,
    #[serde(alias = "count", alias = "samples")]
    cycles: Option<u64>,
    min: Option<u64>,
    avg: Option<f64>,
    max: Option<u64>,
    cpu: Option<i64>,
    priority: Option<u64>,
    interval: Option<u64>,
    #[serde(default)]
    timeoutcount: u64,
    /// The two threads of a pair.
    sender: Option<Box<DocumentThread>>,
    receiver: Option<Box<DocumentThread>>,
}

impl ToolDocument {
    fn read(scan: &Scan) -> Result<ToolDocument, String> {
        serde_json::from_str(scan.text).map_err(|why| format!("it is damaged ({why})"))
    }
}

impl Sysinfo {
    /// Fills the machine in.
    fn put_into(self, found: &mut ImportedFile) {
        let machine = &mut found.manifest.machine;
        machine.hostname = self.nodename;
        machine.architecture = self.machine;
        machine.kernel = kernel(self.release, self.version, self.realtime != 0);
    }
}

impl DocumentThread {
    fn cycles(&self) -> Result<u64, String> {
        self.cycles.ok_or_else(|| "a thread has no number of cycles".into())
    }

    /// Its histogram and figures.
    fn column(self, probe: impl Into<RowProbe>, cpu: u32, unit_ns: u64) -> ImportedSeries {
        ImportedSeries {
            buckets: self.histogram.into_iter().collect(),
            min: self.min,
            avg: self.avg,
            max: self.max,
            ..ImportedSeries::new(probe, cpu, unit_ns)
        }
    }
}

/// A tool of rt-tests, by what its documents hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RtTestsTool {
    Cyclictest,
    Oslat,
    /// pmqtest and its family.
    Pair,
    Thread(ThreadTool),
}

impl RtTestsTool {
    /// The tool that wrote a document, and its name.
    fn of(program: &str, document: &ToolDocument) -> Result<(RtTestsTool, &'static str), String> {
        let has = |what: fn(&DocumentThread) -> bool| document.thread.values().any(what);
        let is = |name: &str, is_it: bool| program.contains(name) || program.is_empty() && is_it;
        if program.is_empty() && has(|thread| thread.receiver.is_some()) {
            Ok((RtTestsTool::Pair, "rt-tests"))
        } else if is("cyclictest", has(|thread| thread.cycles.is_some())) {
            Ok((RtTestsTool::Cyclictest, "cyclictest"))
        } else if is("oslat", true) {
            Ok((RtTestsTool::Oslat, "oslat"))
        } else {
            let unknown = || format!("it is a result of {program}, which is not read");
            RtTestsTool::other(program).ok_or_else(unknown)
        }
    }

    /// A tool but cyclictest and oslat.
    fn other(program: &str) -> Option<(RtTestsTool, &'static str)> {
        let pair = pairs::tool(program).map(|name| (RtTestsTool::Pair, name));
        pair.or_else(|| ThreadTool::named(program).map(|tool| (RtTestsTool::Thread(tool), tool.name())))
    }
}

/// Whether a thread of the document has a key.
fn has(document: &serde_json::Value, key: &str) -> bool {
    let threads = document.get("thread").and_then(|threads| threads.as_object());
    threads.is_some_and(|threads| threads.values().any(|thread| thread.get(key).is_some()))
}

/// Whether a document says that another tool than cyclictest and oslat wrote it.
fn is_of_another_tool(document: &serde_json::Value) -> bool {
    let line = ["cmdline", "cmdline:"].iter().find_map(|key| document.get(key)?.as_str()).unwrap_or_default();
    has(document, "receiver") || RtTestsTool::other(program(line)).is_some()
}

/// The program of a command line, without its folder.
fn program(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

/// The number of a CPU; notes where a document has none.
fn cpu(stated: Option<i64>, found: &mut ImportedFile) -> Option<u32> {
    let cpu = stated.and_then(|cpu| u32::try_from(cpu).ok());
    found.cpus_known &= cpu.is_some();
    cpu
}

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let document = ToolDocument::read(scan)?;
    let line = document.cmdline.clone().unwrap_or_default();
    let (tool, name) = RtTestsTool::of(program(&line), &document)?;
    let written_by = &mut found.manifest.written_by;
    (written_by.program, written_by.version) = (name.into(), document.rt_test_version);
    written_by.command_line = document.cmdline;
    found.skips_missed = tool == RtTestsTool::Cyclictest;
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
    document.sysinfo.put_into(found);
    let unit_ns = if document.resolution_in_ns == 0 { 1_000 } else { 1 };
    match tool {
        RtTestsTool::Cyclictest => cyclictest(&line, unit_ns, document.thread, found),
        RtTestsTool::Oslat => oslat(&line, unit_ns, document.thread, found),
        RtTestsTool::Pair => pairs(name, document.thread, found),
        RtTestsTool::Thread(tool) => threads(tool, &line, document.thread, found),
    }
}

type Threads = BTreeMap<u32, DocumentThread>;

fn cyclictest(line: &str, unit_ns: u64, threads: Threads, found: &mut ImportedFile) -> Result<(), String> {
    let command = cyclictest::SYNTAX.read(line).filter(|_| !line.is_empty());
    for (number, thread) in threads {
        let (cpu, cycles) = (cpu(thread.cpu, found).unwrap_or(number), thread.cycles()?);
        let mut column = thread.column(RowKind::Wakeup, cpu, unit_ns);
        column.period_ns = command.as_ref().and_then(|command| cyclictest::period_ns(command, number));
        column.overflow_from = command.as_ref().and_then(|c| c.number('h').or(c.number('H')));
        column.set_total(cycles, found);
        found.columns.push(column);
    }
    if found.columns.iter().all(|column| column.buckets.is_empty()) {
        found.extremes_alone();
    }
    if let Some(command) = &command {
        found.manifest.asked.duration_ns = command.time_ns('D');
        cyclictest::asked(found, command);
    }
    Ok(())
}

fn oslat(line: &str, unit_ns: u64, threads: Threads, found: &mut ImportedFile) -> Result<(), String> {
    let command = oslat::SYNTAX.read(line).filter(|_| !line.is_empty());
    let width_ns = command.as_ref().and_then(|command| command.number('W'));
    for (number, thread) in threads {
        let cpu = cpu(thread.cpu, found).unwrap_or(number);
        let mut column = thread.column(RowKind::Spin, cpu, unit_ns);
        column.width = width_ns.map_or(1, |width_ns| (width_ns / unit_ns).max(1));
        oslat::settle(&mut column, None, found);
        found.columns.push(column);
    }
    if let Some(command) = &command {
        found.manifest.asked.duration_ns = command.time_ns('D');
        found.scheduled_fifo(command.number('f'));
    }
    Ok(())
}

fn pairs(tool: &str, threads: Threads, found: &mut ImportedFile) -> Result<(), String> {
    pairs::remark(found);
    found.extremes_alone();
    let senders = threads.values().filter_map(|thread| thread.sender.as_ref()?.priority);
    found.share_priority(senders, Some("fifo"));
    for (number, thread) in threads {
        let (Some(sender), Some(receiver)) = (thread.sender, thread.receiver) else {
            return Err("a thread has no 'sender' or no 'receiver'".into());
        };
        let cpu = cpu(receiver.cpu.or(sender.cpu), found).unwrap_or(number);
        let (overflow, missed) = (sender.cycles()?, receiver.timeoutcount);
        let column = receiver.column(pairs::probe(tool), cpu, 1_000).each_us(sender.interval.unwrap_or(0));
        found.columns.push(ImportedSeries { overflow, missed, ..column });
    }
    Ok(())
}

fn threads(tool: ThreadTool, line: &str, all: Threads, found: &mut ImportedFile) -> Result<(), String> {
    let command = tool.syntax().read(line).unwrap_or_default();
    found.manifest.asked.duration_ns = command.time_ns('D');
    found.extremes_alone();
    tool.remarks(found);
    if tool == ThreadTool::Signaltest {
        found.scheduled_fifo(command.number('p'));
    }
    // Without -a the number of a thread's CPU is that of no CPU.
    found.cpus_known = command.has('a');
    for (number, thread) in all {
        let cpu = cpu(thread.cpu, found).filter(|_| command.has('a')).unwrap_or(number);
        let overflow = thread.cycles()?;
        let column =
            ImportedSeries { overflow, buckets: Vec::new(), ..thread.column(tool.probe(), cpu, 1_000) };
        found.columns.push(column.each_us(tool.period_us(&command, number)));
    }
    Ok(())
}

/// The unit of a file of jitterdebugger, which `told` tells where the file does not state it.
fn unit_ns(document: &ToolDocument, told: Option<u64>, found: &mut ImportedFile) -> Result<u64, String> {
    match (document.sysinfo.resolution_in_ns, told) {
        (Some(stated), Some(told)) if stated != told => {
            Err(format!("its resolution_in_ns is {stated}, and another unit was told"))
        }
        (Some(unit_ns @ (1 | 1_000)), _) | (None, Some(unit_ns)) => Ok(unit_ns),
        (Some(other), _) => Err(format!("its resolution_in_ns is {other}, neither 1 nor 1000")),
        (None, None) => {
            let last = document.thread.values().filter_map(|thread| thread.histogram.last_key_value());
            let is_ns = last.map(|bucket| *bucket.0).max().is_some_and(|last| last >= BUCKETS_END_NS / 1_000);
            let unit = if is_ns { "nanoseconds, for it has buckets above 1000" } else { "microseconds" };
            found.note(format!("the file does not say its resolution_in_ns: taken as {unit}"));
            Ok(if is_ns { 1 } else { 1_000 })
        }
    }
}

fn read_jitterdebugger(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let document = ToolDocument::read(scan)?;
    let unit_ns = unit_ns(&document, scan.unit_ns, found)?;
    found.cpus_known = document.sysinfo.cpus_online == Some(document.thread.len() as u64);
    for (cpu, thread) in document.thread {
        let cycles = thread.cycles()?;
        let mut column = thread.column(RowKind::Wakeup, cpu, unit_ns);
        column.overflow_from = Some(BUCKETS_END_NS / unit_ns);
        column.set_total(cycles, found);
        found.columns.push(column);
    }
    document.sysinfo.put_into(found);
    Ok(())
}

/// `Fri, 20 Nov 2026 16:36:08 +0000` as RFC 3339 in UTC.
fn utc(text: &str) -> Option<String> {
    let words = text.split_whitespace().collect::<Vec<_>>();
    let [_, day, month, year, time, zone] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| name == month)? + 1;
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
