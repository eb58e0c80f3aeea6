// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value that an imported file lacks is unknown, and its worst stated figure wins.

use compare::ComparedFigure;
use evidence::tail::Tail;
use evidence::verdict::VerdictOutcome;
use evidence::{Bundle, Summary, Verdict};
use exchange::export::{self, RowFilter};

use crate::common::read;

/// `rtla timerlat hist -b 10`: the maxima lie within their buckets.
const WIDE: &str = "\
# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:10:00
Index   IRQ-001   Thr-001
0        600000    588000
10            0     12000
over:         0         0
count:   600000    600000
min:          0         3
avg:          1         7
max:          7        18
";

const SUMMARY: &str = "\
# /dev/cpu_dma_latency set to 0us
policy: fifo: loadavg: 0.02 0.03 0.05 1/100 1450

T: 0 (16603) P:99 I:1000 C: 100000 Min:      9 Act:   26 Avg:   38 Max:     409
";

fn judged(text: &str, limit_us: u64) -> (Bundle, Verdict) {
    crate::common::judged(text, limit_us * 1_000)
}

#[test]
fn a_maximum_within_a_wide_bucket_is_late() {
    let (bundle, verdict) = judged(WIDE, 15);
    assert_eq!(bundle.missing, [""; 0]);
    let thread = &verdict.rows[1];
    assert_eq!((thread.held, thread.late, thread.late_at_most), (false, 1, 12_000));
    assert!(verdict.reasons[0].ends_with("maximum 18.0 us exceeds 15.0 us (1 to 12,000 late of 600,000)"));
    assert!(thread.miss_rate_below > 0.02, "{}", thread.miss_rate_below);
    // The stated maximum tells better than the bucket's end.
    assert_eq!((verdict.rows[0].held, verdict.rows[0].late_at_most), (true, 0));
    assert!(judged(WIDE, 19).1.rows.iter().all(|row| row.held));
    // A limit within the first bucket: all of it may be late.
    let (_, verdict) = judged(WIDE, 5);
    assert_eq!((verdict.rows[0].late, verdict.rows[0].late_at_most), (1, 600_000));
    assert_eq!((verdict.rows[1].late, verdict.rows[1].late_at_most), (12_000, 600_000));
}

#[test]
fn percentiles_of_wide_buckets_are_their_ends() {
    let bundle = read(WIDE);
    let row = Summary::of(&bundle.rows[1]);
    assert_eq!((row.p50_ns, row.p99_ns), (Some(9_000), Some(18_000)));
    assert_eq!((row.stddev_ns, row.mean_ns), (None, Some(7_000.0)));
}

#[test]
fn the_width_of_oslats_buckets_is_found() {
    let table = "oslat V 2.60\n    Core:\t 1\n    002 (us):\t 90\n    004 (us):\t 0\n    006 (us):\t 10\n\
                 Minimum:\t 1 (us)\n     Average:\t 2.0 (us)\n     Maximum:\t 7 (us)\n    Duration:\t 1.0 (sec)\n";
    let (bundle, verdict) = judged(table, 6);
    assert_eq!(bundle.missing, [""; 0]);
    assert_eq!((verdict.rows[0].held, verdict.rows[0].late, verdict.rows[0].late_at_most), (false, 1, 10));
    assert_eq!(judged(table, 7).1.rows[0].late_at_most, 0);
}

#[test]
fn a_bucket_without_a_stated_maximum_reaches_its_end() {
    let (text, _) = WIDE.split_once("over:").unwrap();
    let (bundle, verdict) = judged(text, 15);
    assert_eq!(bundle.rows[1].series.latency.max_ns(), 19_000);
    assert_eq!((verdict.outcome, verdict.rows[1].held), (VerdictOutcome::Exceeded, false));
    assert_eq!(Summary::of(&bundle.rows[1]).mean_ns, None);
}

#[test]
fn figures_of_a_summary_alone_are_unknown() {
    let (bundle, _) = judged(SUMMARY, 1_000);
    let row = Summary::of(&bundle.rows[0]);
    assert_eq!(
        (row.count, row.min_ns, row.max_ns, row.mean_ns),
        (100_000, Some(9_000), 409_000, Some(38_000.0))
    );
    assert_eq!([row.p50_ns, row.p99_ns, row.p99_9_ns, row.p99_999_ns, row.p99_9_corrected_ns], [None; 5]);
    assert_eq!((row.stddev_ns, row.jitter_stddev_ns), (None, None));
    assert_eq!((row.jitter_min_ns, row.jitter_max_ns), (None, None));
    assert!(matches!(bundle.rows[0].tail(), Tail::Refused { .. }));
    let (_, verdict) = judged(SUMMARY, 100);
    assert_eq!((verdict.rows[0].late, verdict.rows[0].late_at_most), (1, 100_000));
}

#[test]
fn unknown_figures_are_compared_with_nothing() {
    let before = read(SUMMARY);
    let after = read(&SUMMARY.replace("Avg:   38", "Avg:   76"));
    for change in compare::compare(&before, &after, false).rows {
        let known = matches!(change.figure, ComparedFigure::Max | ComparedFigure::Mean);
        assert_eq!((change.before.is_some(), change.change_percent.is_some()), (known, known), "{change:?}");
        assert_eq!(change.interval_percent, None);
    }
}

#[test]
fn percentiles_among_samples_that_were_only_counted_are_unknown() {
    let text = "# Histogram\n000010 000090\n000011 000005\n# Min Latencies: 00010\n# Avg Latencies: 00030\n\
                # Max Latencies: 00900\n# Histogram Overflows: 00005\n";
    let bundle = read(text);
    let row = Summary::of(&bundle.rows[0]);
    assert_eq!((row.p50_ns, row.p99_ns, row.stddev_ns), (Some(10_007), None, None));
    let csv = export::export(&bundle, export::ExportFormat::Csv, &RowFilter::default()).unwrap();
    assert!(csv.contains(",12000,,4\n"), "{csv}");
    let json = export::export(&bundle, export::ExportFormat::Json, &RowFilter::default()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["histograms"][0][2], serde_json::json!([12_000, null, 4]));
    let one = text.replace("Overflows: 00005", "Overflows: 00001");
    let row = Summary::of(&read(&one).rows[0]);
    assert_eq!(row.p99_9_ns, Some(900_000), "a single one is the maximum");
}
