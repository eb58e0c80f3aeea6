// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real output of other tools, imported: its figures are the tools' own. `expected.txt` has a line for each
//! row of each fixture, with figures in the file's unit; `-` is not stated, or not checked.

use evidence::Summary;
use evidence::manifest::RunState;
use exchange::import::UNKNOWN_LOAD;

use crate::common::{codes, fixtures, imported};

const EXPECTED: &str = include_str!("expected.txt");

fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let cells = |line: &'static str| line.split_whitespace().collect::<Vec<_>>();
    EXPECTED.lines().skip(1).map(cells).map(|cells| (cells[0], cells[1..].to_vec())).collect()
}

/// A figure that the tool states, or a quotient of two.
fn figure(text: &str) -> Option<f64> {
    let number = |text: &str| text.parse::<f64>().ok();
    text.split_once('/').map_or(number(text), |(sum, count)| Some(number(sum)? / number(count)?))
}

#[test]
fn every_fixture_is_checked() {
    let files = fixtures().into_iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    let mut there = files.collect::<Vec<_>>();
    let mut checked = rows().iter().map(|row| row.0.to_string()).collect::<Vec<_>>();
    checked.dedup();
    there.sort();
    checked.sort();
    assert_eq!(there, checked);
}

#[test]
fn counts_and_extremes_are_the_tools_own() {
    let rows = rows();
    for rows in rows.chunk_by(|one, next| one.0 == next.0) {
        let name = rows[0].0;
        let bundle = imported(name);
        // Its timerlat adds samples up.
        let missing = usize::from(name == "rteval-3-timerlat.xml");
        assert_eq!(bundle.missing.len(), missing, "{name}: {:?}", bundle.missing);
        let lost = codes(&bundle).contains(&"samples-lost");
        assert_eq!(lost, name == "stress-ng-0.15-distribution.txt", "{name}");
        assert_eq!((bundle.rows.len(), bundle.manifest.state), (rows.len(), RunState::Finished), "{name}");
        for (row, (_, cells)) in bundle.rows.iter().zip(rows) {
            let [unit, probe, cpu, count, min, mean, max, overflow, missed] = cells[..] else {
                panic!("{name}")
            };
            let found = Summary::of(row);
            let what = format!("{name}: {}", found.key);
            let key = [found.key.probe.clone(), found.key.cpu.to_string(), found.key.load.clone()];
            let load = if name.starts_with("rteval") { "hackbench+kcompile" } else { UNKNOWN_LOAD };
            assert_eq!(key, [probe, cpu, load], "{what}");
            assert_eq!([found.count, found.missed].map(|n| n.to_string()), [count, missed], "{what}");
            let ns = |text: &str| figure(text).map(|figure| if unit == "us" { figure * 1e3 } else { figure });
            let whole_ns = |text: &str| ns(text).map(|ns| ns.round() as u64);
            assert_eq!((found.min_ns, found.stated_max_ns()), (whole_ns(min), whole_ns(max)), "{what}");
            let is_mean = match (found.mean_ns, ns(mean)) {
                (Some(found), Some(mean)) => (found - mean).abs() < if overflow == "-" { 1.0 } else { 0.01 },
                (found, mean) => found.unwrap_or_default() == mean.unwrap_or_default(),
            };
            assert!(is_mean, "{what}: {:?}", found.mean_ns);
            let overflow_count = row.entry.coarse.as_ref().unwrap().overflow_count.to_string();
            assert!(overflow == "-" || overflow_count == overflow, "{what}: {overflow_count}");
            assert!(row.series.seconds.is_empty(), "{what}");
        }
    }
}
