// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value that an imported file lacks is unknown, and its worst stated figure wins.

use compare::ComparedFigure;
use evidence::tail::Tail;
use evidence::verdict::VerdictOutcome;
use evidence::{Bundle, Summary, Verdict};
use exchange::export::{self, RowFilter};

use crate::common::{lines, read, text};

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
fn a_maximum_that_a_file_lacks_is_unknown() {
    let without = |name: &str, word: &str| lines(name, |line| !line.contains(word));
    let thread = r#""histogram": {"2": 3000}, "count": 3004, "min": 2, "avg": 2.1"#;
    for text in [
        without("cyclictest-2.4-h.txt", "Max Latencies"),
        without("timerlat-6.12.txt", "max:"),
        without("oslat-2.4.txt", "Maximum"),
        without("latmus-gnuplot.txt", "max latency").replace("OVERRUNS: 2", "OVERRUNS: 0"),
        format!(r#"{{"version": 3, "cpu": {{"0": {{{thread}}}}}}}"#),
        QUIET.replace("threshold: 0", "threshold: 4").replace("Max Latency: Below threshold\n", ""),
    ] {
        let (bundle, verdict) = judged(&text, 1_000_000);
        assert_eq!((verdict.kept, verdict.outcome), (None, VerdictOutcome::Unproven), "{text}");
        let open = verdict.rows.iter().zip(&bundle.rows).filter(|(judged, _)| judged.unknown.is_some());
        for (judged, row) in open {
            assert!(!judged.held && judged.late_at_most > 0, "{judged:?}");
            assert_eq!((row.stated_max_ns(), Summary::of(row).max_known), (None, false), "{text}");
        }
        // No output makes the rows pass, or a maximum up.
        let export = |format| export::export(&bundle, format, &RowFilter::default()).unwrap();
        let (ktap, lava) = (export(export::ExportFormat::Ktap), export(export::ExportFormat::Lava));
        let passed = ktap.lines().filter(|line| line.starts_with("ok ")).count();
        let open = verdict.rows.iter().filter(|row| row.unknown.is_some()).count();
        assert!(open > 0 && passed == verdict.rows.len() - open, "{ktap}");
        assert_eq!(lava.matches("MEASUREMENT=").count(), 0, "{lava}");
    }
}

const QUIET: &str = "\
hwlatdetect:  test duration 60 seconds
   detector: tracer
   parameters:
        CPU list:          1
        Latency threshold: 10us
        Sample window:     1000000us
        Sample width:      500000us

Starting test
test finished
Max Latency: Below threshold
Samples recorded: 0
Samples exceeding threshold: 0
";

#[test]
fn cycles_and_gaps_that_no_tool_counted_decide_nothing() {
    let (head, _) = QUIET.split_once("test finished").unwrap();
    // A threshold above the limit; an end before the results; missed periods that are not counted.
    let skipped = SUMMARY.replace("Max:     409", "Max:    5200");
    for (text, limit_us, rows) in [(QUIET, 10, 1), (head, 50, 0), (&skipped, 10_000, 1)] {
        let (bundle, verdict) = judged(text, limit_us);
        assert_eq!((bundle.rows.len(), verdict.kept), (rows, None), "{text}");
        assert!(verdict.rows.iter().all(|row| !row.held && row.unknown.is_some()), "{text}");
    }
    // No gap above the threshold: its figures are absent, and the limit holds.
    let (bundle, verdict) = judged(QUIET, 50);
    let row = Summary::of(&bundle.rows[0]);
    assert_eq!((row.min_ns, row.stated_max_ns(), verdict.kept), (None, None, Some(true)));
    assert_eq!(Summary::of(&judged(&skipped, 10_000).0.rows[0]).stated_missed(), None);
}

#[test]
fn no_share_or_claim_is_made_of_unknown_numbers() {
    // LinuxCNC does not say how many cycles there were.
    let (bundle, verdict) = judged(&text("linuxcnc-latency-test.txt"), 1);
    let document = evidence::document::ProveDocument::without_tails(&bundle);
    assert_eq!(verdict.outcome, VerdictOutcome::Exceeded);
    assert!(document.rows.iter().all(|row| row.late_share.is_none() && row.stated_count().is_none()));
    assert_eq!(document.parts().cycles.due(), None);
    assert_eq!(verdict.claim.map(|claim| (claim.per, claim.per_ns)), Some(("run".to_string(), None)));
    // Nor is one made of its minimum and maximum, where all is within the limit.
    let (_, verdict) = judged(&text("linuxcnc-latency-test.txt"), 1_000);
    let told = verdict.reasons.iter().filter(|why| why.contains("does not state how many samples"));
    assert!(verdict.outcome == VerdictOutcome::Unproven && told.count() == 2, "{:?}", verdict.reasons);
    assert!(verdict.rows.iter().all(|row| row.held && row.miss_rate_below == 1.0), "{:?}", verdict.rows);
    assert!(!verdict.reasons.iter().any(|why| why.contains("2 samples")), "{:?}", verdict.reasons);
    // A file without times may have as many episodes as late cycles.
    let (_, verdict) = judged(&SUMMARY.replace("100000", "200"), 100);
    let row = &verdict.rows[0];
    assert_eq!((row.late_at_most, row.late_episodes), (200, 200));
    assert!(verdict.claim.unwrap().below > 200.0);
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
