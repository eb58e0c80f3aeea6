// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeats a scenario with the same seed five times: counts by entry must be equal, or within the tolerance
//! of `lab gate` between two runs; in virtual time the histogram must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use evidence::lab::LabDocument;
use evidence::{Bundle, Summary};
use lab::gate;

use crate::guests;

/// The number of runs.
const TIMES: usize = 5;

/// A quiet run, one storm with a fixed number of interruptions, several together, one in the program's own
/// memory.
const COUNTED: &[&str] = &["quiet", "static-keys", "study", "mprotect-own"];

/// Counts of each run by scenario and entry.
type EntryCounts = BTreeMap<(String, String), Vec<u64>>;

/// The tables in Markdown, and the results that did not repeat.
pub fn run(isolator: &Path, scratch: &Path) -> Result<(String, Vec<String>), Box<dyn Error>> {
    let mut counts = EntryCounts::new();
    let mut kernel = String::new();
    for n in 0..TIMES {
        let args = [&["run"], COUNTED, &["--fresh", "--seed", "1"]].concat();
        let document: LabDocument = guests::lab(isolator, &args, &scratch.join(format!("count-{n}")))?;
        kernel.clone_from(&document.kernel);
        add(&mut counts, &document, n);
    }
    let mut virtual_runs = Vec::new();
    for n in 0..TIMES {
        let folder = scratch.join(format!("virtual-{n}"));
        let args = ["run", "cyclic", "--mode", "virtual", "--fresh"];
        let _: LabDocument = guests::lab(isolator, &args, &folder)?;
        virtual_runs.push(histogram(&folder)?);
    }
    let (mut out, mut differ) = (format!("On {kernel}, boot line `full`, seed 1.\n\n"), Vec::new());
    counted(&mut out, &counts, &mut differ);
    virtual_time(&mut out, &virtual_runs, &mut differ);
    Ok((out, differ))
}

fn add(counts: &mut EntryCounts, document: &LabDocument, n: usize) {
    for row in &document.rows {
        let all = ("all".to_string(), row.excursions);
        for (entry, count) in
            row.by_entry.iter().map(|(name, entry)| (name.clone(), entry.count)).chain([all])
        {
            counts.entry((row.scenario.clone(), entry)).or_insert_with(|| vec![0; TIMES])[n] = count;
        }
    }
}

fn counted(out: &mut String, counts: &EntryCounts, differ: &mut Vec<String>) {
    out.push_str(
        "| scenario | entry | excursions, five runs | spread | allowed | |\n|---|---|---|--:|--:|---|\n",
    );
    for ((scenario, entry), runs) in counts {
        let (least, most) =
            (runs.iter().min().copied().unwrap_or(0), runs.iter().max().copied().unwrap_or(0));
        let (spread, allowed) = (most - least, gate::allowed(least) - least);
        let said = match spread {
            0 => "equal",
            _ if spread <= allowed => "within",
            _ => "**beyond**",
        };
        let list = runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "| {scenario} | `{entry}` | {list} | {spread} | {allowed} | {said} |");
        if spread > allowed {
            differ.push(format!("{entry} in {scenario}: {list}"));
        }
    }
}

/// A histogram's bytes, and its summary.
type HistogramText = (Vec<u8>, Summary);

fn histogram(folder: &Path) -> Result<HistogramText, Box<dyn Error>> {
    let bundle = Bundle::open(folder)?;
    let row = bundle.rows.first().ok_or("a run in virtual time left no histogram")?;
    let file = folder.join("series").join(format!("{}.histograms.csv", row.entry.files));
    Ok((fs::read(file)?, Summary::of(row)))
}

fn virtual_time(out: &mut String, runs: &[HistogramText], differ: &mut Vec<String>) {
    out.push_str(
        "\n| virtual time, run | samples | mean | p99 | max | histogram |\n|--:|--:|--:|--:|--:|---|\n",
    );
    for (n, (bytes, summary)) in runs.iter().enumerate() {
        let same = runs.iter().position(|(other, _)| other == bytes).unwrap_or(n);
        let said =
            if same == n && n > 0 { "**another**".to_string() } else { format!("as run {}", same + 1) };
        let (mean, p99) = (summary.mean_ns.unwrap_or_default(), summary.p99_ns.unwrap_or_default());
        let max = summary.max_ns;
        let _ = writeln!(out, "| {} | {} | {mean:.1} | {p99} | {max} | {said} |", n + 1, summary.count);
    }
    let different = runs.iter().map(|(bytes, _)| bytes).collect::<BTreeSet<_>>().len();
    if different > 1 {
        differ.push(format!("{different} different histograms in virtual time"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_a_count_beyond_the_tolerance() {
        let key = |entry: &str| ("quiet".to_string(), entry.to_string());
        let counts = [
            (key("ipi"), vec![360; 5]),
            (key("timer"), vec![1, 2, 1, 1, 0]),
            (key("fault"), vec![9, 9, 40, 9, 9]),
        ];
        let (mut out, mut differ) = (String::new(), Vec::new());
        counted(&mut out, &counts.into_iter().collect(), &mut differ);
        assert!(out.contains("| quiet | `ipi` | 360 360 360 360 360 | 0 | 36 | equal |"), "{out}");
        assert!(out.contains("| quiet | `timer` | 1 2 1 1 0 | 2 | 5 | within |"), "{out}");
        assert_eq!(differ, ["fault in quiet: 9 9 40 9 9"]);
    }
}
