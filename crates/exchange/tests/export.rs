// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence written in other tools' formats: the layout is theirs, and what comes back is what went out.

use evidence::cause::{Cause, CauseKind};
use evidence::manifest::{NotRun, RowKey, Spike};
use evidence::{Bundle, Summary};
use exchange::export::{ExportFormat, RowFilter, export};
use exchange::import::set_load;

use crate::common::{imported, maxima_ns, read, text as fixture};

fn exported(bundle: &Bundle, format: ExportFormat) -> String {
    export(bundle, format, &RowFilter::default()).unwrap()
}

type Figures = (u64, u64, u64, Vec<(u64, u64)>);

fn figures(bundle: &Bundle) -> Vec<Figures> {
    let mut rows = bundle.rows.iter().collect::<Vec<_>>();
    rows.sort_by_key(|row| (row.entry.key.cpu, row.entry.key.probe.clone()));
    let buckets = |row: &&evidence::Row| row.series.latency.buckets().map(|b| (b.from_ns, b.count)).collect();
    let of = |row: &evidence::Row| {
        let summary = Summary::of(row);
        (summary.count, summary.min_ns.unwrap(), summary.max_ns, buckets(&row))
    };
    rows.into_iter().map(of).collect()
}

#[test]
fn cyclictests_own_file_is_written_byte_for_byte() {
    let original = fixture("cyclictest-2.4-histfile.txt");
    let table = |text: &str| {
        let zero = |line: &&str| !line.split_whitespace().skip(1).all(|count| count == "000000");
        let line = |line: &str| line.split(" # ").next().unwrap().to_string();
        text.lines().filter(zero).filter(|line| !line.starts_with("# Thread")).map(line).collect::<Vec<_>>()
    };
    let text = exported(&imported("cyclictest-2.4-histfile.txt"), ExportFormat::Cyclictest);
    assert_eq!(table(&text), table(&original));
    assert!(text.ends_with("# Thread 0:\n# Thread 1: # 00001 others\n\n"), "{text}");
}

#[test]
fn rtlas_own_file_is_written_byte_for_byte() {
    let original = fixture("timerlat-6.1.txt");
    let text = exported(&imported("timerlat-6.1.txt"), ExportFormat::Rtla);
    let without_duration = |text: &str| {
        text.lines().filter(|line| !line.starts_with("# Duration")).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(without_duration(&text), without_duration(&original));
}

#[test]
fn what_is_exported_comes_back() {
    for (name, format) in [
        ("cyclictest-2.4-h.txt", ExportFormat::Cyclictest),
        ("cyclictest-2.4.json", ExportFormat::Cyclictest),
        ("cyclictest-2.4.json", ExportFormat::Rtla),
        ("cyclictest-2.4-v.txt", ExportFormat::Cyclictest),
        ("jitterdebugger-0.3.1.json", ExportFormat::Cyclictest),
        ("oslat-2.6.json", ExportFormat::Cyclictest),
        ("oslat-2.4.txt", ExportFormat::Rtla),
        ("timerlat-6.12.txt", ExportFormat::Rtla),
        ("timerlat-6.12-stopped.txt", ExportFormat::Rtla),
        ("osnoise-6.1.txt", ExportFormat::Rtla),
    ] {
        let bundle = imported(name);
        let text = exported(&bundle, format);
        let back = read(&text);
        assert_eq!(back.missing, [""; 0], "{name}");
        for (before, after) in figures(&bundle).iter().zip(figures(&back)) {
            // A maximum may have more digits than the tools' tables, which are floored.
            let whole = |max_ns: u64| max_ns / 1_000;
            let (known, back) = ((before.0, before.1, whole(before.2)), (after.0, after.1, whole(after.2)));
            assert_eq!(known, back, "{name} as {format:?}");
        }
        assert_eq!(figures(&bundle).len(), figures(&back).len(), "{name}");
    }
}

#[test]
fn every_bucket_comes_back_where_both_sides_tell_microseconds_apart() {
    for (name, format) in
        [("cyclictest-2.4-h.txt", ExportFormat::Cyclictest), ("timerlat-6.12.txt", ExportFormat::Rtla)]
    {
        let bundle = imported(name);
        let back = read(&exported(&bundle, format));
        assert_eq!(figures(&bundle), figures(&back), "{name}");
    }
}

#[test]
fn samples_beyond_the_last_bucket_are_overflow_also_where_ours_had_none() {
    let mut bundle = imported("cyclictest-2.4.json");
    for row in &mut bundle.rows {
        row.entry.coarse = None;
        row.series.latency.record(3_000_000_000);
    }
    let text = exported(&bundle, ExportFormat::Cyclictest);
    assert!(text.contains("# Histogram Overflows: 00001 00001\n"), "{text}");
    assert!(text.contains("# Max Latencies: 3000000 3000000\n"), "{text}");
}

#[test]
fn a_table_of_several_loads_or_probes_asks_for_a_choice() {
    let mut bundle = imported("cyclictest-2.4.json");
    let mut under_load = bundle.clone();
    set_load(&mut under_load, "cpu");
    bundle.rows.extend(under_load.rows);
    let error = export(&bundle, ExportFormat::Cyclictest, &RowFilter::default()).unwrap_err().to_string();
    assert!(error.contains("--load unknown --probe wakeup, --load cpu --probe wakeup"), "{error}");
    let choice = RowFilter { load: Some("cpu".into()), probe: None };
    assert_eq!(read(&export(&bundle, ExportFormat::Cyclictest, &choice).unwrap()).rows.len(), 2);

    let timerlat = imported("timerlat-6.12.txt");
    let error = export(&timerlat, ExportFormat::Cyclictest, &RowFilter::default()).unwrap_err().to_string();
    assert!(error.contains("a table holds one probe") && error.contains("--probe timerlat-user"), "{error}");
    let choice = RowFilter { load: None, probe: Some("timerlat-user".into()) };
    let back = read(&export(&timerlat, ExportFormat::Cyclictest, &choice).unwrap());
    assert_eq!(maxima_ns(&back)[0], 48_234_000);
    let error = export(&timerlat, ExportFormat::Csv, &RowFilter { load: Some("net".into()), probe: None })
        .unwrap_err()
        .to_string();
    assert!(error.contains("no row is left by the choice"), "{error}");
}

#[test]
fn csv_and_json_hold_every_bucket_of_every_row() {
    let mut bundle = imported("timerlat-6.12.txt");
    set_load(&mut bundle, "custom=a, \"b\"");
    let total = bundle.rows.iter().map(|row| row.series.latency.count()).sum::<u64>();
    let csv = exported(&bundle, ExportFormat::Csv);
    let counts = csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), total);
    assert!(csv.contains("timerlat-irq,\"custom=a, \"\"b\"\"\",0,,"), "{csv}");

    let json: serde_json::Value = serde_json::from_str(&exported(&bundle, ExportFormat::Json)).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), json["histograms"].as_array().unwrap().len());
    let counts = json["histograms"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    assert_eq!(counts.map(|bucket| bucket[2].as_u64().unwrap()).sum::<u64>(), total);
}

#[test]
fn a_format_is_chosen_by_its_name() {
    for format in ExportFormat::ALL {
        assert_eq!(format.name().parse::<ExportFormat>(), Ok(format));
    }
    let error = "xml".parse::<ExportFormat>().unwrap_err().to_string();
    assert!(error.contains("choose one of cyclictest, rtla, csv, json"), "{error}");
}

#[test]
fn a_minimum_that_is_not_known_is_left_out_and_read_again() {
    let bundle = imported("linuxcnc-histogram.txt");
    let again = read(&exported(&bundle, ExportFormat::Cyclictest));
    assert_eq!(again.missing, [""; 0]);
    let of = |bundle: &Bundle| {
        let rows = bundle.rows.iter().map(Summary::of);
        rows.map(|row| (row.count, row.min_ns, row.max_ns / 1_000)).collect::<Vec<_>>()
    };
    assert_eq!(of(&bundle).len(), of(&again).len());
    assert!(of(&again).iter().all(|row| of(&bundle).contains(row)), "{:?}", of(&again));
    assert!(of(&again).iter().all(|(_, min_ns, _)| min_ns.is_none()));
}

fn spike(key: &RowKey, monotonic_ns: u64, causes: Vec<Cause>) -> Spike {
    Spike {
        at_ns: 5_000,
        monotonic_ns,
        causes,
        unexplained_ns: Some(500),
        ..Spike::new(key.clone(), 400_500)
    }
}

#[test]
fn a_trace_has_each_spike_and_puts_causes_that_overlap_on_lines_of_their_own() {
    let mut bundle = imported("cyclictest-2.4.json");
    let keys: Vec<RowKey> = bundle.rows.iter().map(|row| row.entry.key.clone()).collect();
    let timed = |name: &str, begin_ns, ns| Cause::timed(CauseKind::Thread, name, begin_ns, ns);
    let causes = vec![
        timed("rustc\u{1b}", 0, 300_000),
        timed("ld", 100_000, 50_000),
        timed("sh", 300_000, 100_000),
        Cause::suspect(CauseKind::Softirq, "NET_RX", 3),
    ];
    let overlapping = spike(&keys[1], 9_000_100, vec![timed("as", 0, 10)]);
    bundle.spikes =
        vec![spike(&keys[0], 1_000_000, causes), overlapping, spike(&keys[1], 9_000_000, Vec::new())];
    let text = exported(&bundle, ExportFormat::Trace);
    assert!(!text.contains('\u{1b}'), "escaped");
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    let of = |name: &str| spans.iter().find(|event| event["name"] == name).unwrap();
    assert_eq!(spans.len(), 7, "{text}");
    assert_eq!(spans.iter().filter(|event| event["name"] == "400.5 us").count(), 3);
    assert_eq!(
        (of("thread ld")["ts"].as_f64(), of("thread ld")["dur"].as_f64()),
        (Some(1_100.0), Some(50.0))
    );
    let line = |name: &str| of(name)["tid"].as_u64().unwrap();
    assert_eq!([line("thread rustc\u{1b}"), line("thread ld"), line("thread sh")], [9, 10, 9]);
    assert_eq!(of("400.5 us")["args"]["suspects"][0], "softirq NET_RX");
    // Spans of one line never overlap: a viewer would take one for a part of the other.
    for one in &spans {
        for other in spans.iter().filter(|other| (&other["pid"], &other["tid"]) == (&one["pid"], &one["tid"]))
        {
            let from = |event: &serde_json::Value| event["ts"].as_f64().unwrap();
            let to = |event: &serde_json::Value| from(event) + event["dur"].as_f64().unwrap();
            assert!(one == other || to(one) <= from(other) || to(other) <= from(one), "{text}");
        }
    }
}

#[test]
fn test_results_have_a_line_a_row_what_was_not_measured_and_the_verdict() {
    let mut bundle = imported("cyclictest-2.4.json");
    bundle.rows[0].entry.limit_ns = Some(1);
    bundle.rows[1].entry.limit_ns = Some(u64::MAX);
    bundle.manifest.not_run.push(NotRun {
        probe: "wakeup".into(),
        load: "disk # 1".into(),
        reason: "no fio\nok 9 verdict".into(),
        optional: false,
    });
    let ktap = exported(&bundle, ExportFormat::Ktap);
    let results: Vec<_> = ktap.lines().filter(|line| !line.starts_with("# ")).collect();
    assert_eq!(results[..2], ["KTAP version 1", "1..4"], "{ktap}");
    assert!(results[2].starts_with("not ok 1 wakeup/unknown/cpu0"), "{ktap}");
    assert!(results[3].starts_with("ok 2 wakeup/unknown/cpu1"), "{ktap}");
    assert!(results[4].starts_with("ok 3 wakeup/disk _ 1 # SKIP no fio"), "{ktap}");
    assert_eq!(results[5..], ["not ok 4 verdict"], "{ktap}");

    let lava = exported(&bundle, ExportFormat::Lava);
    let lines: Vec<_> = lava.lines().collect();
    assert!(lines[0].starts_with("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=wakeup-unknown-cpu0"), "{lava}");
    assert!(lines[0].contains(" RESULT=fail MEASUREMENT=") && lines[0].ends_with(" UNITS=us>"), "{lava}");
    assert_eq!(lines[2], "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=wakeup-disk---1 RESULT=skip>");
    assert_eq!(lines[3], "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=verdict RESULT=fail>");
}
