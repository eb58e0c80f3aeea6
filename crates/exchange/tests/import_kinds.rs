// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same faults in the texts of many tools: wide buckets, tables that were cut out, figures that are not
//! stated, and results that are empty.

use compare::ComparedFigure;
use evidence::Summary;
use evidence::verdict::VerdictOutcome;

use crate::common::{changed, figures, imported, judged, lines, maxima_ns, read, refused, text};

fn is_counted(line: &str) -> bool {
    line.trim_start().starts_with(|letter: char| letter.is_ascii_digit())
}

/// A histogram of rtla with one column: labels with counts, and the figures below.
fn rtla(tool: &str, unit: &str, rows: &[(u64, u64)], over: u64, min: u64, max: u64) -> String {
    let count = rows.iter().map(|row| row.1).sum::<u64>() + over;
    let rows: String = rows.iter().map(|(label, count)| format!("{label}        {count}\n")).collect();
    let name = if tool == "osnoise" { "CPU-001" } else { "Thr-001" };
    format!(
        "# RTLA {tool} histogram\n# Time unit is {unit}\n# Duration:   0 00:10:00\nIndex   {name}\n{rows}\
         over:     {over}\ncount:    {count}\nmin:      {min}\navg:      {min}\nmax:      {max}\n"
    )
}

#[test]
fn a_limit_within_a_wide_bucket_is_exceeded_by_the_maximum() {
    let (us, ns) = ("microseconds (us)", "nanoseconds (ns)");
    let oslat = |rows: &str, max: u64| {
        format!(
            "oslat V 2.60\n    Core:\t 1\n{rows}Minimum:\t 1 (us)\n     Average:\t 2.0 (us)\n     Maximum:\t {max} (us)\n    \
             Duration:\t 1.0 (sec)\n"
        )
    };
    let xenomai = text("xenomai-3-histogram.txt");
    // An overrun counts as late, too.
    let latmus = changed("latmus-gnuplot.txt", "OVERRUNS: 2", "OVERRUNS: 0");
    for (text, limit_ns, late_at_most, max_ns) in [
        (rtla("timerlat", us, &[(0, 90), (5, 7), (10, 3)], 0, 1, 13), 11_000, 3, 13_000),
        (rtla("timerlat", us, &[(0, 90), (100, 10)], 0, 1, 180), 101_000, 10, 180_000),
        (rtla("timerlat", ns, &[(0, 90), (10_000, 10)], 0, 1, 18_000), 15_000, 10, 18_000),
        (rtla("osnoise", us, &[(0, 50), (20, 2)], 0, 1, 38), 30_000, 2, 38_000),
        (rtla("timerlat", us, &[(0, 90), (5, 7)], 4, 1, 95), 60_000, 4, 95_000),
        (rtla("timerlat", us, &[(0, 90), (50, 7), (100, 1)], 0, 1, 149), 148_000, 1, 149_000),
        (oslat("    004 (us):\t 90\n    008 (us):\t 0\n    012 (us):\t 10\n", 15), 13_000, 10, 15_000),
        (
            oslat("    002 (us):\t 90\n    003 (us):\t 38 (including overflows)\n", 5_000),
            900_000,
            38,
            5_000_000,
        ),
        // Its worst latency lies within the bucket from 12 to 13 us.
        (xenomai.clone(), 12_500, 1, 12_690),
        // One that contradicts the bucket decides nothing within it.
        (
            xenomai.replace("0.084|      1.741|     12.690", "0.000|      1.741|      9.690"),
            12_500,
            1,
            12_999,
        ),
        (latmus, 20_000, 2, 27_904),
    ] {
        let (bundle, verdict) = judged(&text, limit_ns);
        let row = &verdict.rows[0];
        assert_eq!(maxima_ns(&bundle)[0], max_ns, "{text}");
        assert_eq!((row.held, verdict.outcome), (false, VerdictOutcome::Exceeded), "{text}");
        assert!((1..=late_at_most).contains(&row.late) && row.late_at_most == late_at_most, "{row:?} {text}");
        assert_eq!(judged(&text, max_ns + 999).1.rows[0].late_at_most, 0, "{text}");
    }
}

#[test]
fn figures_stay_where_the_table_was_cut_out() {
    let without = |name: &str| lines(name, |line| !is_counted(line));
    let one_bucket = |line: &str| !is_counted(line) || line.starts_with("000005");
    let json = |thread: &str| {
        format!(
            r#"{{"file_version": 1, "cmdline": "cyclictest", "num_threads": 1, "resolution_in_ns": 0, "thread": {{"0": {thread}}}}}"#
        )
    };
    for (name, text, worst_us) in [
        ("cyclictest -h", without("cyclictest-2.4-h.txt"), 447),
        ("cyclictest -H", without("cyclictest-2.4-H.txt"), 2_449),
        ("cyclictest --histfile", without("cyclictest-2.4-histfile.txt"), 151),
        ("rtla timerlat hist", without("timerlat-6.1.txt"), 19_680),
        ("rtla osnoise hist", without("osnoise-6.12.txt"), 88_570),
        ("oslat", lines("oslat-2.6.txt", |line| !line.contains("(us):")), 50_350),
        ("oslat 2.4", lines("oslat-2.4.txt", |line| !line.contains("(us):")), 0),
        ("latmus", without("latmus-gnuplot.txt"), 27),
        ("Xenomai", lines("xenomai-3-histogram.txt", |line| !line.starts_with("HSD")), 12),
        ("one bucket left", lines("cyclictest-2.4-h.txt", one_bucket), 447),
        (
            "JSON",
            json(r#"{"histogram": {}, "cycles": 100, "min": 1, "max": 900, "avg": 2.0, "cpu": 0}"#),
            900,
        ),
        ("JSON without its key", json(r#"{"cycles": 100, "min": 1, "max": 900, "avg": 2.0, "cpu": 0}"#), 900),
    ] {
        let rows = figures(&read(&text));
        let max_ns = rows.iter().map(|row| row.max_ns).max().unwrap();
        if worst_us > 0 {
            assert_eq!(max_ns / 1_000, worst_us, "{name}");
        }
        assert!(rows.iter().all(|row| row.count > 0 && row.p50_ns.is_none()), "{name}: {rows:#?}");
        let (_, verdict) = judged(&text, max_ns - 1_000);
        assert_eq!(verdict.outcome, VerdictOutcome::Exceeded, "{name}: {verdict:#?}");
    }
}

#[test]
fn figures_that_a_tool_does_not_state_are_unknown() {
    let mut seen = 0;
    for name in [
        "cyclictest-2.4-summary.txt",
        "cyclicdeadline-2.4.json",
        "cyclicdeadline-2.4.txt",
        "deadline_test-2.4.txt",
        "latmus-table.txt",
        "osnoise-top-6.1.txt",
        "pmqtest-2.4.txt",
        "ptsematest-2.4.json",
        "signaltest-2.4.txt",
        "sigwaittest-2.4.json",
        "svsematest-2.4.json",
        "timerlat-top-6.1.txt",
        "timerlat-top-user.txt",
        "xenomai-2.4-latency.txt",
        "xenomai-3-latency.txt",
    ] {
        let bundle = imported(name);
        for row in bundle.rows.iter().filter(|row| row.series.latency.count() > 1) {
            let found = Summary::of(row);
            let unknown =
                [found.p50_ns, found.p99_ns, found.p99_9_ns, found.p99_999_ns, found.p99_9_corrected_ns];
            assert_eq!(unknown, [None; 5], "{name}");
            assert_eq!((found.stddev_ns, found.jitter_stddev_ns), (None, None), "{name}");
            assert_eq!((found.jitter_min_ns, found.jitter_max_ns), (None, None), "{name}");
            seen += 1;
        }
        for change in compare::compare(&bundle, &bundle, true).rows {
            let stated = matches!(change.figure, ComparedFigure::Max | ComparedFigure::Mean);
            assert!(stated || change.before.is_none(), "{name}: {change:?}");
        }
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn an_empty_result_is_called_empty_and_holds_nothing() {
    let top = |name: &str| lines(name, |line| !is_counted(line));
    let xenomai = "== Sampling period: 1000 us\n== Test mode: periodic user-mode task\n== All results in microseconds\nwarming up...\n";
    let head = "# /dev/cpu_dma_latency set to 0us\npolicy: fifo: loadavg: 0.02 0.03 0.05 1/100 1450\n\n";
    for (text, words) in [
        ("".to_string(), "it is empty"),
        ("\u{feff}\r\n".to_string(), "it is empty"),
        ("# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\nIndex\nover:\ncount:\nmin:\navg:\nmax:\n".to_string(), "its histogram is empty"),
        ("# RTLA timerlat histogram\n# Time unit is microseconds (us)\n".to_string(), "of rtla only the head"),
        (top("timerlat-top-6.1.txt").replace("CPU COUNT", ""), "of rtla timerlat top only the head"),
        (top("hwnoise-6.12.txt"), "it holds no result"),
        (xenomai.to_string(), "of Xenomai's latency or EVL's latmus only the head"),
        (head.to_string(), "only the head is there"),
        (lines("stress-ng-0.15-distribution.txt", |line| !line.contains("cyclic: ")), "of stress-ng only the head"),
        ("oslat V 2.60\nTotal runtime: \t\t2 seconds\n".to_string(), "of oslat only the head"),
        (r#"{"file_version": 1, "cmdline": "cyclictest", "num_threads": 0, "thread": {}}"#.to_string(), "its list of threads is empty"),
        (r#"{"version": 3, "cpu": {}}"#.to_string(), "it holds no result"),
    ] {
        let why = refused(&text);
        assert!(why.contains(words), "{why}: {text}");
    }
    // What has a column and no sample in it was not run.
    let zero = "Min Latencies: 00000\n# Avg Latencies: 00000\n# Max Latencies: 00000\n# Histogram Overflows: 00000\n";
    for text in [
        "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\nIndex   Thr-000\nover:   0\ncount:  0\nmin:    -\navg:    -\nmax:    -\n".to_string(),
        "oslat V 2.60\n    Core:\t 1\n    001 (us):\t 0\n    002 (us):\t 0\nMinimum:\t 0 (us)\n     Average:\t 0.0 (us)\n     Maximum:\t 0 (us)\n    Duration:\t 0.0 (sec)\n".to_string(),
        format!("# Histogram\n000000 000000\n000001 000000\n# Total: 000000000\n# {zero}"),
        r#"{"version": 3, "cpu": {"0": {"histogram": {}, "count": 0, "min": 18446744073709551615, "max": 0, "avg": 0}}}"#.to_string(),
        format!("{xenomai}RTT|  00:00:01  (periodic user-mode task, 1000 us period, priority 99)\nRTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\n"),
        top("latmus-gnuplot.txt").replace("3999", "0").replace("27.904", "0.000"),
        format!("{head}T: 0 ( 1450) P:80 I:200 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n"),
    ] {
        let (bundle, verdict) = judged(&text, 1_000_000_000);
        assert_eq!((bundle.rows.len(), verdict.outcome), (0, VerdictOutcome::Unproven), "{text}");
        assert!(bundle.manifest.not_run[0].reason.contains("no sample of"), "{text}");
    }
}
