// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of hwlatdetect: gaps that the kernel's hwlat tracer saw with interrupts off.
//!
//! Only gaps above its threshold are in the file, each as `inner` and `outer`; the larger counts, as in the
//! tool. The CPU of a gap is stated since rt-tests 2.5 (`cpu:1`), and by a CPU list of one CPU; else
//! CPU 0 stands for it, and that is noted. The tracer sleeps between its windows: a gap then is not seen.

use std::collections::BTreeMap;

use super::column::{ImportedFile, ImportedSeries, Rounding, cpus};
use super::figures::second_run;
use super::scan::Scan;
use super::scan::format::{Answer, Cpus, Description, End, Half, Mark, Missed, StatedSamples, Told, Unit};

use machine::units::whole_us;

pub(super) const FORMAT: Description = Description {
    name: "hwlatdetect text",
    program: "hwlatdetect",
    told: Told::Lines(|line| {
        let beginnings = ["hwlatdetect:", "Latency threshold:", "Sample window:", "Samples recorded:", "ts:"];
        Mark::beginning(line, &beginnings)
    }),
    parts: &[],
    unit: Unit::Known,
    rounding: Rounding::Cut,
    cpus: Cpus::Stated,
    samples: StatedSamples::Distribution,
    totals: Answer::Field("Samples recorded: and Samples exceeding threshold:"),
    missed: Missed::NoPeriods,
    end: End::Marked,
    // Half a gap is one that is too short; the other lines show by their absence that they were cut.
    half_line: |line| match line.starts_with("ts:") && !line.contains("cpu:") {
        true => Half::Doubtful,
        false => Half::Whole,
    },
    worse: Answer::Field("Max Latency:"),
    stops: Answer::Never("it has no threshold at which it stops"),
    aborts: Answer::Lines(&["Traceback (most recent call last):", "ERROR:{}", "{}DetectorNotAvailable{}"]),
    losses: Answer::Lines(&["{}[LOST {some} EVENTS]{}"]),
    doubts: Answer::Never("it has no way to find out"),
    read,
};

/// The names that a run states once.
const NAMES: [&str; 4] = ["Latency threshold", "Sample window", "Max Latency", "Samples recorded"];

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let mut found = scan.file();
    let mut figures = BTreeMap::new();
    let mut gaps: BTreeMap<Option<u32>, BTreeMap<u64, u64>> = BTreeMap::new();
    let mut listed = 0;
    while let Some(line) = scan.next()? {
        if let Some(sample) = line.strip_prefix("ts:") {
            let Some((cpu, gap_us)) = gap(sample) else {
                if scan.is_half(&line) {
                    continue;
                }
                return Err(line.unreadable());
            };
            *gaps.entry(cpu).or_default().entry(gap_us).or_default() += 1;
            listed += 1;
        } else if line.contains("inner:") && line.contains("outer:") {
            return Err(line.unreadable());
        } else if let Some(duration) = line.strip_prefix("hwlatdetect:  test duration ") {
            if found.manifest.asked.duration_ns.is_some() {
                return second_run();
            }
            let seconds = duration.trim_end_matches(" seconds").parse::<u64>().ok();
            found.manifest.asked.duration_ns = seconds.and_then(|s| s.checked_mul(1_000_000_000));
        } else if let Some((name, value)) = line.text.split_once(':') {
            if figures.insert(name, value.trim()).is_some() && NAMES.contains(&name) {
                return second_run();
            }
        } else if line.contains("SMIs occured on cpu") {
            found.note(line.text);
        }
    }
    let us = |name: &str| figures.get(name)?.strip_suffix("us")?.parse::<u64>().ok();
    let threshold_us = us("Latency threshold");
    found.manifest.asked.threshold_ns = threshold_us.and_then(|us| us.checked_mul(1_000));
    match threshold_us {
        Some(us) => {
            found.note(format!("hwlatdetect records only gaps above its threshold of {}", whole_us(us)))
        }
        None => found.missing.push("the file does not say the threshold: it was cut short".into()),
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
        found.missing.push("the file has no 'Samples recorded:': it was cut short".into());
    }
    let recorded = recorded.max(stated("Samples exceeding threshold"));
    if let Some(recorded) = recorded.filter(|recorded| *recorded != listed) {
        found.missing.push(format!("{recorded} gaps are stated and {listed} listed: it was cut short"));
    }
    let unlisted = recorded.unwrap_or(0).saturating_sub(listed);
    let largest_us = us("Max Latency");
    let list = figures.get("CPU list").and_then(|list| cpus(list));
    let only = list.as_ref().filter(|list| list.len() == 1).and_then(|list| list.iter().next());
    if gaps.contains_key(&None) && only.is_none() || gaps.is_empty() && list.is_none() {
        found.cpus_known = false;
    }
    let mut by_cpu: BTreeMap<u32, BTreeMap<u64, u64>> = BTreeMap::new();
    if found.cpus_known {
        list.iter().flat_map(|list| list.iter()).for_each(|cpu| {
            by_cpu.entry(cpu).or_default();
        });
    }
    for (cpu, gaps) in gaps {
        let known = by_cpu.entry(cpu.or(only).unwrap_or(0)).or_default();
        gaps.into_iter().for_each(|(gap_us, count)| *known.entry(gap_us).or_default() += count);
    }
    if by_cpu.is_empty() {
        by_cpu.entry(0).or_default();
    }
    for (cpu, gaps) in by_cpu {
        let (min, max) = (gaps.keys().next().copied(), gaps.keys().next_back().copied());
        let buckets = gaps.into_iter().collect();
        let column = ImportedSeries {
            probe: "hardware",
            cpu,
            unit_ns: 1_000,
            width: 1,
            buckets,
            min,
            max,
            ..ImportedSeries::default()
        };
        found.columns.push(column);
    }
    // Which CPU they were on is not said: they count where gaps were longest.
    if let Some(column) = found.columns.iter_mut().max_by_key(|column| column.max) {
        column.unplaced = unlisted;
        if let Some(us) = largest_us.filter(|us| column.max.is_none_or(|max| max < *us)) {
            column.state_max(us);
        }
        if unlisted > 0 {
            column.min = column.min.min(threshold_us).or(threshold_us);
            column.max = column.max.max(threshold_us);
        }
    }
    Ok(found)
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
