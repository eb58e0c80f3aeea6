// SPDX-License-Identifier: MIT OR Apache-2.0
//! A day of a long run, written second by second as a run writes it: what is left of it is small, and whole.

use std::path::Path;

use evidence::Bundle;
use evidence::cause::{Cause, CauseKind};
use evidence::histogram::index;
use evidence::manifest::{Asked, Manifest, RowEntry, RowKey, RunState, Second, Spike};
use evidence::series::{LEVEL_SHIFT, LEVELS};
use evidence::writer::{BundleWriter, RunningTotals};

const DAY_S: u32 = 86_400;
const PER_SECOND: u64 = 1_000;

/// Rows of eight threads, three each, of which this test writes one.
const ROWS: u64 = 24;

fn key() -> RowKey {
    RowKey { thread_name: Some("servo".into()), ..RowKey::new("loop", "idle", 1, Some(1_000_000)) }
}

fn manifest() -> Manifest {
    Manifest {
        state: RunState::Running,
        ..Manifest::new(
            "isolator",
            Asked {
                probes: vec!["loop".into()],
                loads: vec!["idle".into()],
                limit: Some("10%".into()),
                flight: true,
                ..Asked::default()
            },
        )
    }
}

/// A second of a thousand cycles: (latency, count).
fn second_of(second: u32, latencies: &[(u64, u64)]) -> Second {
    let all = || latencies.iter();
    Second {
        second,
        count: all().map(|(_, count)| count).sum(),
        min_ns: all().map(|(ns, _)| *ns).min().unwrap(),
        sum_ns: all().map(|(ns, count)| ns * count).sum(),
        max_ns: all().map(|(ns, _)| *ns).max().unwrap(),
        missed: 0,
    }
}

/// The latencies of a second, which repeat: half of them the same, the others spread, and in each hour one
/// that is late.
fn latencies(second: u32) -> Vec<(u64, u64)> {
    let spread = (0..20).map(|n| (5_000 + u64::from(second % 50) * 40 + n * 700, PER_SECOND / 40));
    let late = (second % 3_600 == 7).then_some((150_000 + u64::from(second), 1));
    let usual = PER_SECOND / 2 - u64::from(late.is_some());
    spread.chain([(4_000, usual)]).chain(late).collect()
}

fn spike(second: u32, latency_ns: u64) -> Spike {
    let at_ns = u64::from(second) * 1_000_000_000;
    let cause = |n: u64| Cause::timed(CauseKind::Thread, format!("thread-{n}"), n * 1_000, 1_000);
    Spike {
        at_ns,
        monotonic_ns: at_ns,
        causes: (0..20).map(cause).collect(),
        unexplained_ns: Some(0),
        ..Spike::new(key(), latency_ns)
    }
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { size(&path) } else { path.metadata().unwrap().len() }).sum()
}

#[test]
fn a_day_in_flight_is_small_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day");
    let mut manifest = manifest();
    let mut bundle = BundleWriter::create(&path, &manifest).unwrap();
    let mut series = bundle.series(&key(), 3_600.0).unwrap();
    let mut totals = std::collections::BTreeMap::<usize, u64>::new();
    let (mut spikes, mut largest) = (0, 0);
    for second in 0..DAY_S {
        let latencies = latencies(second);
        for (latency_ns, count) in &latencies {
            *totals.entry(index(*latency_ns)).or_default() += count;
        }
        let row = second_of(second, &latencies);
        assert_eq!(row.count, PER_SECOND);
        let latency = totals.iter().map(|(bucket, count)| (*bucket, *count));
        let jitter = latency.clone().map(|(bucket, count)| (bucket as isize, count));
        let cell = |(bucket, count): (usize, u64)| (7 * LEVELS + (bucket >> LEVEL_SHIFT), count);
        let mut cells = std::collections::BTreeMap::<usize, u64>::new();
        latency.clone().map(cell).for_each(|(cell, count)| *cells.entry(cell).or_default() += count);
        series.advance(&[row], RunningTotals { latency, jitter, cells: cells.into_iter() }).unwrap();
        for (latency_ns, _) in latencies.iter().filter(|(ns, _)| *ns > 100_000) {
            spikes += 1;
            // As of a thread that is always late.
            let many: Vec<Spike> = (0..200).map(|_| spike(second, *latency_ns)).collect();
            bundle.spikes(&many).unwrap();
        }
        if second % 300 == 299 {
            largest = largest.max(size(&path));
        }
    }
    bundle.settle_spikes().unwrap();
    series.finish().unwrap();
    let listed = bundle.listed(&key());
    manifest.rows.push(RowEntry {
        limit_ns: Some(100_000),
        spikes: spikes * 200,
        spikes_not_listed: spikes * 200 - listed,
        ..RowEntry::new(key())
    });
    manifest.state = RunState::Interrupted;
    bundle.manifest(&manifest).unwrap();
    let read = Bundle::open(&path).unwrap();
    assert_eq!(read.missing, [""; 0]);
    assert_eq!(read.rows[0].series.latency.count(), u64::from(DAY_S) * PER_SECOND);
    assert_eq!(read.rows[0].series.seconds.len(), DAY_S as usize / 60);
    assert_eq!((read.spikes.len(), listed), (100, 100));
    let (ended, going) = (size(&path) * ROWS, largest * ROWS);
    assert!(ended < 20 << 20, "eight threads would leave {ended} bytes");
    println!("a day of eight threads: {ended} bytes, {going} while it goes on");
}

#[test]
fn the_journal_of_a_loop_that_is_never_the_same_stays_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let mut manifest = manifest();
    let bundle = BundleWriter::create(&path, &manifest).unwrap();
    let mut series = bundle.series(&key(), 3_600.0).unwrap();
    manifest.rows.push(RowEntry { state: RunState::Running, ..RowEntry::new(key()) });
    bundle.manifest(&manifest).unwrap();
    let mut totals = std::collections::BTreeMap::<usize, u64>::new();
    for second in 0..150 {
        let latencies: Vec<(u64, u64)> =
            (0..PER_SECOND).map(|n| (2_000 + (n * 7_919 + u64::from(second) * 31) % 90_000, 1)).collect();
        latencies.iter().for_each(|(ns, count)| *totals.entry(index(*ns)).or_default() += count);
        let latency = totals.iter().map(|(bucket, count)| (*bucket, *count));
        let jitter = latency.clone().map(|(bucket, count)| (bucket as isize, count));
        let totals = RunningTotals { latency, jitter, cells: std::iter::empty() };
        series.advance(&[second_of(second, &latencies)], totals).unwrap();
        let journal = path.join("series").join(format!("{}.journal", key().stem()));
        let length = journal.metadata().unwrap().len();
        assert!(length < 320 << 10, "{length} bytes after second {second}");
        if second % 10 == 9 {
            // As a kill would leave it: nothing is missing but what that may have taken.
            let read = Bundle::open(&path).unwrap();
            let lost =
                "the run did not end in order (killed, or still running): its last second may be missing";
            assert_eq!(read.missing, [lost], "second {second}");
            let (seconds, all) = (&read.rows[0].series.seconds, u64::from(second) + 1);
            assert_eq!(seconds.iter().map(|row| row.count).sum::<u64>(), all * PER_SECOND);
            assert_eq!(read.rows[0].series.latency.count(), all * PER_SECOND);
        }
    }
    series.finish().unwrap();
    // No minute has two lines.
    let read = Bundle::open(&path).unwrap();
    let seconds: Vec<u32> = read.rows[0].series.seconds.iter().map(|row| row.second).collect();
    assert_eq!(seconds, [59, 119, 149]);
}
