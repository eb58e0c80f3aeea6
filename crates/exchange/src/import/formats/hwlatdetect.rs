// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of hwlatdetect: gaps that the kernel's hwlat tracer saw with interrupts off.
//!
//! Only gaps above its threshold are in the file, each as `inner` and `outer`; the larger counts, as in the
//! tool. The CPU of a gap is stated since rt-tests 2.5 (`cpu:1`), and by a CPU list of one CPU; else
//! CPU 0 stands for it, and that is noted. The tracer sleeps between its windows: a gap then is not seen.

use std::collections::BTreeMap;

use crate::import::column::cpus;
use crate::import::figures::once;
use crate::import::scan::prelude::*;

use machine::units::whole_us;

pub(in crate::import) const FORMAT: Description = Description {
    // Half a gap is one that is too short; the other lines show by their absence that they were cut.
    half_line: |line| match line.starts_with("ts:") && !line.contains("cpu:") {
        true => Half::Doubtful,
        false => Half::Whole,
    },
    says: &[
        Says::Lines(Losses, &["{}[LOST {some} EVENTS]{}"]),
        Says::Lines(Aborts, &["Traceback (most recent call last):", "ERROR:{}", "{}DetectorNotAvailable{}"]),
        Says::NoLine(Totals, "Samples recorded: and Samples exceeding threshold:"),
        Says::NoLine(Worse, "Max Latency:"),
        Says::NoLine(Stops, "it has no threshold at which it stops"),
        Says::NoLine(Doubts, "it has no way to find out"),
    ],
    ..Description::of("hwlatdetect text", "hwlatdetect", Told::Lines(mark), Digits::Cut, read)
};

fn mark(line: &str) -> Option<Mark> {
    let beginnings = ["hwlatdetect:", "Latency threshold:", "Sample window:", "Samples recorded:", "ts:"];
    Mark::beginning(line, &beginnings)
}

/// The names that a run states once.
const NAMES: [&str; 4] = ["Latency threshold", "Sample window", "Max Latency", "Samples recorded"];

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (mut figures, mut duration) = (BTreeMap::new(), None);
    let mut gaps: Vec<(Option<u32>, u64)> = Vec::new();
    while let Some(line) = scan.next()? {
        if let Some(sample) = line.strip_prefix("ts:") {
            match gap(sample) {
                Some(gap) => gaps.push(gap),
                None if scan.is_half(&line) => {}
                None => return Err(line.unreadable()),
            }
        } else if line.contains("inner:") && line.contains("outer:") {
            return Err(line.unreadable());
        } else if let Some(text) = line.strip_prefix("hwlatdetect:  test duration ") {
            once(&mut duration, text.trim_end_matches(" seconds").parse().ok())?;
        } else if let Some((name, value)) = line.text.split_once(':') {
            second_run_if(figures.insert(name, value.trim()).is_some() && NAMES.contains(&name))?;
        } else if line.contains("SMIs occured on cpu") {
            found.note(line.text);
        }
    }
    found.ran_s(duration.flatten());
    let us = |name: &str| figures.get(name)?.strip_suffix("us")?.parse::<u64>().ok();
    let threshold_us = us("Latency threshold");
    found.manifest.asked.threshold_ns = threshold_us.and_then(|us| us.checked_mul(1_000));
    match threshold_us.map(whole_us) {
        Some(us) => found.note(format!("hwlatdetect records only gaps above its threshold of {us}")),
        None => found.lacks("the file does not say the threshold: it was cut short"),
    }
    if let (Some(window), Some(width)) = (us("Sample window"), us("Sample width"))
        && width < window
    {
        found.note(format!("hwlatdetect looked for {} of every {}", whole_us(width), whole_us(window)));
    }
    if let Some(count) = figures.get("SMIs during run") {
        found.note(format!("{count} SMIs during the run"));
    }
    let stated = |name: &str| figures.get(name).and_then(|count| count.parse::<u64>().ok());
    let recorded = stated("Samples recorded");
    if recorded.is_none() {
        found.lacks("the file has no 'Samples recorded:': it was cut short");
    }
    let listed = gaps.len() as u64;
    let recorded = recorded.max(stated("Samples exceeding threshold"));
    if let Some(recorded) = recorded.filter(|recorded| *recorded != listed) {
        found.lacks(format!("{recorded} gaps are stated and {listed} listed: it was cut short"));
    }
    let unlisted = recorded.unwrap_or(0).saturating_sub(listed);
    let list = figures.get("CPU list").and_then(|list| cpus(list));
    let only = list.as_ref().filter(|list| list.len() == 1).and_then(|list| list.iter().next());
    let is_told = gaps.iter().all(|gap| gap.0.or(only).is_some());
    found.cpus_known = is_told && (list.is_some() || !gaps.is_empty());
    let mut by_cpu: BTreeMap<u32, BTreeMap<u64, u64>> = BTreeMap::new();
    if found.cpus_known {
        by_cpu.extend(list.iter().flat_map(|list| list.iter()).map(|cpu| (cpu, BTreeMap::new())));
    }
    for (cpu, gap_us) in gaps {
        *by_cpu.entry(cpu.or(only).unwrap_or(0)).or_default().entry(gap_us).or_default() += 1;
    }
    if by_cpu.is_empty() {
        by_cpu.entry(0).or_default();
    }
    for (cpu, gaps) in by_cpu {
        let (min, max) = (gaps.keys().next().copied(), gaps.keys().next_back().copied());
        let buckets = gaps.into_iter().collect();
        let column = ImportedSeries::new(RowKind::Hardware, cpu, 1_000);
        found.columns.push(ImportedSeries { buckets, min, max, ..column });
    }
    // What ends before its results says nothing of gaps.
    if recorded.is_none() && listed == 0 && !figures.contains_key("Max Latency") {
        let cpus = found.columns.drain(..).map(|column| column.cpu).collect::<Vec<_>>();
        for cpu in cpus {
            let reason = format!("the file has no result of cpu {cpu}: it was cut short");
            found.not_run(RowKind::Hardware.name(), reason);
        }
    }
    // Which CPU they were on is not said: they count where gaps were longest.
    if let Some(column) = found.columns.iter_mut().max_by_key(|column| column.max) {
        column.unplaced = unlisted;
        if let Some(us) = us("Max Latency").filter(|us| column.max.is_none_or(|max| max < *us)) {
            column.state_max(us);
        }
        if unlisted > 0 {
            column.min = column.min.min(threshold_us).or(threshold_us);
            column.max = us("Max Latency").and(column.max);
        }
    }
    Ok(())
}

/// `1795192966.425385560, inner:10440, outer:12688, cpu:1` as CPU and larger gap.
fn gap(sample: &str) -> Option<(Option<u32>, u64)> {
    let field = |name: &str| -> Option<u64> {
        let fields = sample.split(',').filter_map(|field| field.trim().split_once(':'));
        fields.clone().find(|field| field.0 == name)?.1.trim().parse().ok()
    };
    let larger = field("inner")?.max(field("outer")?);
    Some((field("cpu").and_then(|cpu| cpu.try_into().ok()), larger))
}
