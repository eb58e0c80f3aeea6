// SPDX-License-Identifier: MIT OR Apache-2.0
//! No line of a result file is dropped in silence, and what stands around the lines is read through.

use std::fs;

use evidence::verdict::VerdictOutcome;
use evidence::{Summary, Verdict};
use exchange::import::import;

use crate::common::{changed, lines, maxima_ns, read, refused, text as fixture};

const HEAD: &str = "# /dev/cpu_dma_latency set to 0us\npolicy: fifo: loadavg: 0.02 0.03 0.05 1/100 1450\n\n";
const FIRST: &str = "T: 0 ( 1449) P:80 I:200 C: 800368 Min:      0 Act:   32 Avg:   22 Max:     128\n";
const SECOND: &str = "T: 1 ( 1450) P:80 I:200 C: 800301 Min:      0 Act:   12 Avg:   23 Max:      70\n";

fn two_threads() -> String {
    format!("{HEAD}{FIRST}{SECOND}")
}

fn outcome(text: &str, limit_us: u64) -> VerdictOutcome {
    judged(text, limit_us).1.outcome
}

fn judged(text: &str, limit_us: u64) -> (evidence::Bundle, Verdict) {
    crate::common::judged(text, limit_us * 1_000)
}

fn figures(text: &str) -> Vec<Summary> {
    let bundle = read(text);
    assert_eq!(bundle.missing, [""; 0]);
    crate::common::figures(&bundle)
}

#[test]
fn a_thread_that_never_woke_up_is_not_run() {
    let starved = "T: 1 ( 1450) P:80 I:200 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n";
    let (bundle, verdict) = judged(&format!("{HEAD}{FIRST}{starved}"), 200);
    assert_eq!((bundle.rows.len(), verdict.outcome), (1, VerdictOutcome::Unproven));
    assert!(bundle.manifest.not_run[0].reason.contains("no sample of thread 1"));
    let json = fixture("cyclictest-2.6.json");
    let none = json.replacen("\"cycles\": 2000", "\"cycles\": 0", 1);
    let none = none.split_once("\"histogram\": {").map(|(head, rest)| {
        let (_, rest) = rest.split_once('}').unwrap();
        format!("{head}\"histogram\": {{}}{}", rest.replacen("\"cycles\": 2000", "\"cycles\": 0", 1))
    });
    assert_eq!(read(&none.unwrap()).manifest.not_run.len(), 1);
}

#[test]
fn a_thread_that_lacks_its_line_is_not_run() {
    let third = SECOND.replace("T: 1", "T: 2");
    let (bundle, verdict) = judged(&format!("{HEAD}{FIRST}{third}"), 200);
    assert_eq!(verdict.outcome, VerdictOutcome::Unproven);
    assert_eq!(bundle.manifest.not_run[0].reason, "the file has no sample of threads 1");
}

#[test]
fn refuses_rows_that_cannot_be_read() {
    for (from, to) in [
        ("Min:      0 Act:   32", "Min:     -1 Act:   32"),
        ("C: 800368", "C: 800,368"),
        ("C: 800368", "C: 800.368"),
        ("C: 800368", "C: 800 368"),
        ("C: 800368", "C: 800\u{202f}368"),
        ("C: 800368", "C: 8003x8"),
        ("Max:     128", "Max:"),
        (" Max:     128", ""),
        ("Max:     128", "Max:     128 Max:      12"),
        ("Max:     128", "Max:  18446744073709551616"),
    ] {
        let text = two_threads().replacen(from, to, 1);
        let why = refused(&text);
        assert!(why.starts_with("line 4: 'T: 0"), "{to}: {why}");
    }
    for line in [
        SECOND.replace("T: 1", "T:\u{663}"),
        SECOND.replace("T: 1", "* T: 1"),
        SECOND.replace("T: 1 ( 1450) P:80", "T: 1 ("),
        SECOND.replace("T: 1 ( 1450)", "rcu: stall T: 1 ( 1450)"),
        SECOND.replace("Max:      70", "Max: 7.0e1"),
    ] {
        let why = refused(&format!("{HEAD}{FIRST}{line}"));
        assert!(why.starts_with("line 5: '"), "{line}: {why}");
    }
    for (text, line) in [
        ("Thread 0 Interval: 1500\n 0: 0: 40\n 0: 1: 4O\n", "line 3"),
        ("# Histogram\n000001 000010\n000002 -00003\n# Min Latencies: 00001\n", "line 3"),
        ("# Histogram\n000001 000010\n# Total: 000,010\n# Min Latencies: 00001\n", "line 3"),
        ("Thread 0 Interval: 1500\n 0: 0: 40\n 0: 1: -4\n 0: 2: 9\n", "line 3"),
        ("Thread 0 Interval: 1500\n 0: 0: 40\n 0: 1:\n 0: 2: 9\n", "line 3"),
        ("Thread 0 Interval: 1500\n 0: 0: 40\n 0: 1: 4,5\n 0: 2: 9\n", "line 3"),
    ] {
        let why = refused(text);
        assert!(why.starts_with(line), "{text}: {why}");
    }
    for (name, from, to) in [
        ("timerlat-6.1.txt", "max:      19420", "max:     -19420"),
        ("timerlat-6.1.txt", "max:      19420", "max:     19,420"),
        ("timerlat-6.1.txt", "max:      19420", "max:        nan"),
        ("oslat-2.6.txt", "Maximum:\t 50350", "Maximum:\t 50.350,0"),
        ("oslat-2.6.txt", "Maximum:\t 50350", "Maximum:\t -50350"),
        ("oslat-2.6.txt", "004 (us)", "004 (ns)"),
        ("oslat-2.6.txt", "004 (us)", "004.5 (us)"),
        ("hwlatdetect-2.4.txt", "outer:19827", "outer:-19827"),
    ] {
        refused(&changed(name, from, to));
    }
}

#[test]
fn refuses_a_second_run_in_the_same_text() {
    let again = two_threads().replace("1449", "1711").replace("1450", "1712").replace("128", "108");
    for second in [again.clone(), again.replace(HEAD, ""), format!("root@board:~# cyclictest -q\n{again}")] {
        let why = refused(&format!("{}{second}", two_threads()));
        assert_eq!(why, "it holds more than one run");
    }
    let both = format!("{}{}", fixture("timerlat-6.1.txt"), fixture("hwlatdetect-2.4.txt"));
    assert!(refused(&both).contains("more than one result"));
    let twice = r#"{"thread": {"0": {"cycles": 9, "min": 1, "avg": 2, "max": 99, "cpu": 0},
                    "0": {"cycles": 9, "min": 1, "avg": 2, "max": 9, "cpu": 0}}}"#;
    assert!(refused(twice).contains("\"0\" occurs twice"));
}

#[test]
fn lines_that_are_drawn_again_are_one_run() {
    let early = FIRST.replace("800368", "   100").replace("128", " 28");
    let text = format!("{HEAD}{early}\u{1b}[2A{FIRST}{SECOND}");
    let rows = figures(&text);
    assert_eq!((rows.len(), rows[0].count, rows[0].max_ns), (2, 800_368, 128_000));
    // A maximum that sinks is another run's.
    let text = format!("{HEAD}{FIRST}{}", FIRST.replace("800368", "900000").replace("128", " 28"));
    assert_eq!(refused(&text), "it holds more than one run");
}

#[test]
fn the_value_at_which_the_tool_stopped_counts() {
    let samples = (0..9).map(|n| format!("       0: {n:7}: {:7}\n", 40 + n)).collect::<String>();
    let end = "# Thread Ids: 23394\n# Break thread: 23394\n# Break value: 8443\n";
    let head = "# /dev/cpu_dma_latency set to 0us\nThread 0 using cpu 1.\nThread 0 Interval: 1500\n";
    let text = format!("{head}{samples}{end}");
    let (bundle, verdict) = judged(&text, 3_000);
    assert_eq!((verdict.outcome, verdict.rows[0].late), (VerdictOutcome::Exceeded, 1));
    assert_eq!(Summary::of(&bundle.rows[0]).max_ns, 8_443_000);
    // Without a line end the value may be half of one.
    assert_eq!(judged(text.trim_end(), 3_000).1.outcome, VerdictOutcome::Exceeded);
    assert_eq!(read(text.trim_end()).missing.len(), 1);
    // The second of two threads.
    let two = samples.clone() + &samples.replace("       0:      ", "       1:      ");
    let end = end.replace("Ids: 23394", "Ids: 23393 23394");
    let (bundle, _) = judged(&format!("{HEAD}{two}{end}"), 3_000);
    assert_eq!(maxima_ns(&bundle), [48_000, 8_443_000]);
}

#[test]
fn maxima_that_other_tools_state_on_stopping_count() {
    let stop = "oslat: Trace threshold (20 us) triggered on cpu 1 with 99999 us!\n";
    let rows = figures(&format!("{stop}{}", fixture("oslat-2.6.txt")));
    assert_eq!(rows[1].max_ns, 99_999_000);
    let max = "max:      47738     48061     48234 \n";
    let bundle = read(&changed("timerlat-6.12.txt", max, &max.replace("48234", "98234")));
    assert_eq!(maxima_ns(&bundle).into_iter().max(), Some(98_234_000));
    assert_eq!(bundle.missing.len(), 1);
    let stop = "rtla timerlat hit stop tracing\n## CPU 1 hit stop tracing, analyzing it ##\n\
                Thread latency:                                        99999.05 us (100%)\n";
    let rows = figures(&format!("{}{stop}", fixture("timerlat-6.1-no-irq.txt")));
    assert_eq!(rows.iter().map(|row| row.max_ns).collect::<Vec<_>>(), [11_929_000, 99_999_050]);
}

#[test]
fn gaps_that_are_stated_and_not_listed_count() {
    let text = lines("hwlatdetect-2.4.txt", |line| !line.starts_with("ts:"));
    assert!(text.contains("Samples recorded: 5") && text.contains("Max Latency: 19827us"), "{text}");
    let (bundle, verdict) = judged(&text, 15_000);
    let row = Summary::of(&bundle.rows[0]);
    assert_eq!((row.count, row.max_ns, row.p99_9_ns), (5, 19_827_000, None));
    assert_eq!(
        (verdict.outcome, verdict.rows[0].late, verdict.rows[0].late_at_most),
        (VerdictOutcome::Exceeded, 1, 5)
    );
}

#[test]
fn a_histogram_without_its_rows_keeps_its_figures() {
    let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n# Total: 000297214 000297199\n\
                # Min Latencies: 00005 00005\n# Avg Latencies: 00023 00026\n# Max Latencies: 00081 00085\n\
                # Histogram Overflows: 00000 00000\n# Histogram Overflow at cycle number:\n# Thread 0:\n# Thread 1:\n";
    let (bundle, verdict) = judged(text, 50);
    assert_eq!(verdict.outcome, VerdictOutcome::Exceeded);
    let row = Summary::of(&bundle.rows[1]);
    assert_eq!(
        (row.count, row.min_ns, row.max_ns, row.mean_ns),
        (297_199, Some(5_000), 85_000, Some(26_000.0))
    );
    assert_eq!((row.p50_ns, row.over_limit, row.over_limit_at_most), (None, 1, 297_199));
    // The tool cuts: 85 us may be above 85 us.
    assert_eq!([85, 86].map(|us| outcome(text, us)), [VerdictOutcome::Unproven, VerdictOutcome::Held]);
    // Some of the rows: the others' samples may lie anywhere.
    let some = text.replace("# Total", "000006 000100 000100\n# Total");
    let (bundle, verdict) = judged(&some, 82);
    assert_eq!((verdict.outcome, bundle.missing.len()), (VerdictOutcome::Exceeded, 2));
    assert_eq!((verdict.rows[1].count, verdict.rows[1].late_at_most), (297_199, 297_099));
}

#[test]
fn an_empty_histogram_of_rtla_says_so() {
    for figures in ["over:\ncount:\nmin:\navg:\nmax:\n", "over: 0\ncount: 0\nmin: 0\navg: 0\nmax: 0\n"] {
        let text = format!(
            "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\nIndex\n{figures}"
        );
        let why = refused(&text);
        assert!(why.contains("its histogram is empty"), "{why}");
    }
}

#[test]
fn a_single_line_without_its_end_counts() {
    assert_eq!(outcome(two_threads().trim_end(), 60), VerdictOutcome::Exceeded);
}

#[test]
fn packed_and_wide_files_are_read() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let text = fixture("cyclictest-2.4-h.txt");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let wide = text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    for (name, bytes) in
        [("h.txt.gz", gzip.finish().unwrap()), ("h.txt", [&[0xff, 0xfe][..], &wide].concat())]
    {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert_eq!(crate::common::figures(&import(&path).unwrap()), figures(&text), "{name}");
    }
}

#[test]
fn dates_that_cannot_be_are_noted() {
    let text = fixture("cyclictest-2.6.json");
    let (_, rest) = text.split_once("\"start_time\": \"").unwrap();
    let (start, _) = rest.split_once('"').unwrap();
    for (date, note) in [
        ("Thu, 1 Jan 1970 00:00:09 +0000", "its clock was not set"),
        ("Fri, 1 Jan 2900 00:00:00 +0000", "is in the future"),
        ("Fri, 1 Jan 2900 00:00:00 +0000", "ended before it began"),
        ("sometime", "is not a date"),
    ] {
        let notes = read(&text.replace(start, date)).notes();
        assert!(notes.iter().any(|line| line.contains(note)), "{date}: {notes:?}");
    }
}

#[test]
fn one_line_of_a_format_is_not_enough() {
    let text =
        format!("# RTLA timerlat histogram\nhwlatdetect: was not run\n12:34:56\n{}12:40:00\n", two_threads());
    assert_eq!(figures(&text).len(), 2);
}

#[test]
fn samples_that_are_stated_and_not_listed_are_missing() {
    let lost = lines("xenomai-3-histogram.txt", |line| !line.starts_with("HSD|    avg|   1 -"));
    let why = "10000 samples are stated and 3980 listed: lines are missing";
    assert_eq!(read(&lost).missing, [why]);
}
