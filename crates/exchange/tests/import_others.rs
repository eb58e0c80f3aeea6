// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of the tools that state little more than their extremes, imported.

use std::fs;

use evidence::{Summary, Verdict};
use exchange::import::{FigureUnit, import_with, parse, parse_with, set_limit};

use crate::common::{changed, fixtures, has_note, imported, judged, maxima_ns, path, read, refused, text};

#[test]
fn another_thread_of_the_same_number_is_another_run() {
    for (name, from, to, count) in [
        ("cyclicdeadline-2.4.txt", "27965", "17965", 3),
        ("signaltest-2.4-v.txt", "22612", "12612", 1),
        ("pmqtest-2.4.txt", "ID22390", "ID12390", 1),
    ] {
        let why = refused(&text(name).repeat(2).replacen(from, to, count));
        assert!(why.contains("it holds more than one run"), "{name}: {why}");
    }
}

#[test]
fn results_of_two_tools_in_one_text_are_refused() {
    let cyclictest = "T: 0 ( 3407) P:99 I:1000 C: 100000 Min:      7 Act:   10 Avg:   10 Max:      18\n";
    for name in ["xenomai-3-latency.txt", "timerlat-top-6.1.txt", "stress-ng-0.15-percentiles.txt"] {
        let why = refused(&format!("{}{cyclictest}", text(name)));
        assert!(why.contains("of cyclictest summary") && why.contains("give each alone"), "{name}: {why}");
    }
    let why = refused(&format!("{}{}", text("pmqtest-2.4.txt"), text("deadline_test-2.4.txt")));
    assert!(why.contains("it holds more than one result"), "{why}");
}

#[test]
fn one_line_that_prose_quotes_is_no_result() {
    for prose in [
        "we saw this\nRTD|      0.723|      2.302|      3.740|       0|     0|      0.723|      3.740\nonce\n",
        "#1 -> #0, Min    3, Cur    4, Avg    4, Max   39\n",
        "CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max\n",
        "Servo thread (1.0ms): 1009075 9075 999413\n",
        "# max latency: 9.2\n",
        "nr_periods : 2001\n",
    ] {
        assert_eq!(refused(prose), "it is in no format that is known", "{prose}");
    }
}

#[test]
fn a_row_that_cannot_be_read_is_refused_with_its_line() {
    for (name, right, wrong, why) in [
        ("xenomai-3-latency.txt", "1.956", "1,956", "line 34: '1,956' is not one of its figures"),
        ("xenomai-3-overrun.txt", "|       1|     0|", "|       1|", "has 6 columns, and the heading others"),
        ("latmus-gnuplot.txt", "\n2 1100\n", "\n2 1.100\n", "line 21: '2 1.100' is not a line of latmus"),
        ("timerlat-top-6.1.txt", "     18665 |", "     1٨665 |", "line 4: '1٨665' is not one of its figures"),
        (
            "osnoise-top-6.1.txt",
            "      50300  ",
            "      5x300  ",
            "line 4: '5x300' is not one of its figures",
        ),
        ("pmqtest-2.4.txt", "Max   39", "Max   3k", "line 3: '#1 -> #0,"),
        ("signaltest-2.4.txt", "Max:     397", "Max:     3.7e2", "line 1: 'T: 0"),
        ("cyclicdeadline-2.4.txt", "C:    401", "C:    4k1", "line 11: 'T: 0"),
        ("deadline_test-2.4.txt", "max_time: 4560us", "max_time: many", "is not a line of deadline_test"),
        ("stress-ng-0.15-percentiles.txt", "max: 394456 ns", "max: 394,456 ns", "line 5: 'min:"),
        ("linuxcnc-latency-test.txt", "9075    ", "9\u{202f}075    ", "a thread has 4 figures"),
        (
            "linuxcnc-histogram.txt",
            "max:  17.100 us",
            "max:  17,100 us",
            "is not a line of latency-histogram",
        ),
        ("rteval-3-cyclictest.xml", "value=\"4890\"", "value=\"4k\"", "core 0 has no bucket"),
        ("rteval-3-cyclictest.xml", "<maximum unit=\"us\">17", "<maximum unit=\"ms\">17", "maximum in us"),
        ("pmqtest-2.4.json", "\"samples\": 948", "\"samples\": -1", "it is damaged"),
    ] {
        let found = refused(&changed(name, right, wrong));
        assert!(found.contains(why), "{name}: {found}");
    }
}

#[test]
fn a_thread_without_cycles_is_a_row_not_run() {
    for (name, right, wrong) in [
        ("signaltest-2.4.txt", "P:80 C:   1457 Min:     18", "P:80 C:      0 Min:     18"),
        ("cyclicdeadline-2.4.txt", "C:    334", "C:      0"),
        ("pmqtest-2.4.txt", "Cycles 632", "Cycles 0"),
        ("pmqtest-2.4.json", "\"samples\": 632", "\"samples\": 0"),
        ("deadline_test-2.4.txt", "nr_periods : 1819", "nr_periods : 0"),
        ("rteval-3-cyclictest.xml", "<samples>6583", "<samples>0"),
    ] {
        let bundle = read(&changed(name, right, wrong));
        assert_eq!((bundle.rows.len(), bundle.manifest.not_run.len()), (1, 1), "{name}");
    }
    let waiting = "#0: ID1, P80, CPU0, I1000; #1: ID2, P80, CPU0, Cycles 0\n#1 -> #0 (not yet ready)\n";
    let bundle = read(waiting);
    assert_eq!((bundle.rows.len(), bundle.manifest.not_run.len()), (0, 1));
}

#[test]
fn the_worst_maximum_of_all_screens_counts() {
    let later = |name: &str, from: &str, to: &str| {
        let whole = text(name);
        let last = whole.rfind(from).unwrap();
        maxima_ns(&read(&format!("{}{to}{}", &whole[..last], &whole[last + from.len()..])))
    };
    let screen = |cycles: u32, max: u32| {
        format!(
            "#0: ID1, P80, CPU0, I1000; #1: ID2, P80, CPU0, Cycles {cycles}\n#1 -> #0, Min 3, Cur 4, Avg 4, Max {max}\n"
        )
    };
    let pairs = format!("{}{}", screen(10, 80), screen(20, 9));
    assert_eq!(maxima_ns(&read(&pairs))[0], 80_000);
    assert_eq!(later("timerlat-top-6.1-screens.txt", "20865", "  900")[1], 20_865_000);
    assert_eq!(later("cyclicdeadline-2.4-screens.txt", "Max:     110", "Max:      99")[0], 110_000);
    // The lines of a table may be an excerpt: the worst so far is stated in each.
    let lines = text("xenomai-3-overrun.txt");
    let excerpt =
        lines.lines().filter(|line| !line.contains("1203.517|       1|     0|     -0")).collect::<Vec<_>>();
    assert!(excerpt.len() < lines.lines().count());
    let cut = format!("{}\n", excerpt[..excerpt.len() - 2].join("\n"));
    assert_eq!(maxima_ns(&read(&cut))[0], 1_203_517);
}

#[test]
fn overruns_are_periods_missed_and_never_hold() {
    for (name, right, wrong) in [
        ("xenomai-3-latency.txt", "|       0|     0|    00:00:24", "|       3|     0|    00:00:24"),
        ("latmus-gnuplot.txt", "OVERRUNS: 2", "OVERRUNS: 3"),
        ("deadline_test-2.4.txt", "missed deadlines  = 0", "missed deadlines  = 3"),
        ("deadline_test-2.4.txt", "missed periods    = 0", "missed periods    = 3"),
        ("pmqtest-2.4.json", "\"timeoutcount\": 0", "\"timeoutcount\": 3"),
    ] {
        let (_, verdict) = judged(&changed(name, right, wrong), 1_000_000_000);
        assert!(!verdict.held && verdict.rows[0].late == 3, "{name}: {:?}", verdict.reasons);
    }
}

#[test]
fn figures_without_a_number_of_samples_prove_nothing() {
    for name in ["linuxcnc-latency-test.txt", "linuxcnc-histogram.txt"] {
        let (_, verdict) = judged(&text(name), 50_000);
        assert!(!verdict.held && verdict.rows.iter().all(|row| row.held), "{name}: {:?}", verdict.reasons);
    }
}

#[test]
fn jitter_without_a_unit_or_a_name_is_refused() {
    for (text, why) in [
        (
            "Max Interval  Max Jitter  Last interval\nServo thread (1.0ms): 1 2 3\n",
            "not stated to be nanosec",
        ),
        (
            "Servo thread (1.0ms): 1 2 3\nBase thread (25us): 1 2 3\n",
            "does not say which figure is the jitter",
        ),
        ("Servo thread (1.0ms): max jitter 25437\n", "its jitter has no figure in ns"),
    ] {
        let found = refused(text);
        assert!(found.contains(why), "{found}");
    }
    let named = read("Servo thread: max jitter (ns): 12300, max interval (ns): 1012300\n");
    assert_eq!(maxima_ns(&named), [12_300]);
}

#[test]
fn jitter_in_a_table_of_markdown_is_read() {
    let table = "|  | Max Interval (ns) | Max Jitter (ns) | Last interval (ns) |\n|---|---|---|---|\n\
                 | Servo thread (1.0ms) | 1009075 | 9075 | 999413 |\n| Base thread (25us): | 30000 | 6000 | 25010 |\n";
    assert_eq!(maxima_ns(&read(table)), [6_000, 9_075]);
}

#[test]
fn a_thread_that_deadline_test_could_not_run_is_a_row_not_run() {
    let text = format!("{}Thread 2 failed: Failed sched_setattr\n", text("deadline_test-2.4.txt"));
    let bundle = read(&text);
    assert_eq!(bundle.rows.len(), 2);
    let not_run = &bundle.manifest.not_run;
    assert!(not_run[0].reason.ends_with("Failed sched_setattr"), "{not_run:?}");
    assert!(!Verdict::of(&bundle).held);
}

#[test]
fn the_tool_of_a_pair_is_taken_from_its_command_line() {
    let told = format!("$ sudo ./ptsematest -a -t 2\n{}", text("ptsematest-2.4.txt"));
    assert_eq!(read(&told).rows[0].entry.key.probe, "message-mutex");
    assert!(has_note(&imported("ptsematest-2.4.txt"), "does not say which of ptsematest"));
}

#[test]
fn percentiles_of_stress_ng_are_its_own() {
    let latency = &imported("stress-ng-0.15-percentiles.txt").rows[0].series.latency;
    assert_eq!(latency.count(), 3683);
    for (part, ns) in [(0.25, 20_802), (0.5, 26_681), (0.9, 32_809), (0.99, 52_389), (0.999, 188_019)] {
        let found = latency.quantile_ns(part);
        assert!((ns..=ns + ns / 1024 + 1).contains(&found), "{part}: {found}");
    }
}

#[test]
fn nanoseconds_of_a_text_are_taken_where_they_are_told() {
    let line = "T: 0 ( 3407) P:99 I:1000 C: 100000 Min:   7012 Act: 10100 Avg:  10920 Max:   18730\n";
    let told = parse_with(line, None, Some(FigureUnit::Nanoseconds)).unwrap();
    assert!(!has_note(&told, "taken as microseconds"));
    assert_eq!(
        (&told.manifest.asked.periods_ns[..], &maxima_ns(&told)[..]),
        (&[1_000_000][..], &[18_730][..])
    );
    let untold = read(line);
    assert!(has_note(&untold, "--unit ns"), "{:?}", untold.manifest.notes);
    assert_eq!(maxima_ns(&untold), [18_730_000]);
    let unit = Some(FigureUnit::Nanoseconds);
    let error = import_with(&path("xenomai-3-latency.txt"), unit).unwrap_err().to_string();
    assert!(error.contains("the unit of a Xenomai latency is stated in it"), "{error}");
}

#[test]
fn a_file_that_lost_its_unit_tells_it_by_its_buckets() {
    let file = |bucket: u64| {
        format!(
            r#"{{"version": 3, "cpu": {{"0": {{"histogram": {{"{bucket}": 3}}, "count": 3, "min": {bucket}, "max": {bucket}, "avg": {bucket}}}}}}}"#
        )
    };
    let maximum = |text: &str, unit| maxima_ns(&parse_with(text, None, unit).unwrap())[0];
    assert_eq!(maximum(&file(70), None), 70_000);
    assert_eq!(maximum(&file(7_000), None), 7_000);
    assert_eq!(maximum(&file(70), Some(FigureUnit::Nanoseconds)), 70);
}

#[test]
fn measurements_of_rteval_that_are_not_read_are_rows_not_run() {
    let bundle = imported("rteval-3-timerlat.xml");
    assert_eq!(bundle.manifest.not_run[0].probe, "hwlatdetect");
    let text = text("rteval-3-cyclictest.xml");
    let (start, rest) = text.split_once("      <system").unwrap();
    let (_, end) = rest.split_once("    </cyclictest>").unwrap();
    let bundle = read(&format!("{start}    </cyclictest>{end}"));
    let not_run = &bundle.manifest.not_run;
    assert!(not_run[0].reason.contains("beyond its buckets"), "{not_run:?}");
    assert!(!Verdict::of(&bundle).held);
}

#[test]
fn a_latency_that_ended_rteval_counts() {
    let report = r#"<abort_report reason="breaktrace"><breaktrace latency_threshold="100" measured_latency="143"/></abort_report><system"#;
    let text = changed("rteval-3-cyclictest.xml", "<system", report);
    assert_eq!(maxima_ns(&read(&text)), [17_000, 143_000]);
}

#[test]
fn counts_beyond_all_bounds_are_judged() {
    let huge = u64::MAX;
    let text = text("latmus-gnuplot.txt");
    let text =
        text.replace("\n5 21\n", &format!("\n5 {huge}\n")).replace("\n6 8\n", &format!("\n6 {huge}\n"));
    assert!(!judged(&text, 1_000_000).1.held);
}

#[test]
fn hostile_markup_is_refused() {
    let bomb = "<?xml version=\"1.0\"?><!DOCTYPE rteval [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]><rteval>&b;</rteval>";
    let deep = format!("<rteval>{}", "<a>".repeat(200_000));
    for text in [bomb, "<rteval version=\"3.7\"><Measurements>", &deep, "<html><rteval/></html>", "<rteval/>"]
    {
        assert!(parse(text, None).is_err(), "{}", &text[..text.len().min(80)]);
    }
}

#[test]
fn absurd_numbers_do_no_harm() {
    let huge = u64::MAX;
    let cyclictest = format!(
        r#"{{"cmdline": "cyclictest -i{huge} -d{huge} -t2 -p{huge} -D{huge}d",
            "start_time": "Fri, 99 Nov 99999 99:99:99 +9999", "resolution_in_ns": {huge},
            "thread": {{"4294967295": {{"histogram": {{"{huge}": {huge}, "0": {huge}}},
            "cycles": {huge}, "min": {huge}, "max": 0, "avg": 1e308, "cpu": -1}}}}}}"#
    );
    let table = format!(
        "# Histogram\n{huge} {huge}\n0 {huge}\n# Min Latencies: {huge}\n# Max Latencies: {huge}\n# Histogram Overflows: {huge}\n"
    );
    for text in [cyclictest, table] {
        let (bundle, verdict) = judged(&text, 1);
        assert!(!verdict.held && !bundle.missing.is_empty());
    }
    for text in [
        format!(
            "RTT|  00:00:01  (user, {huge} us period, priority {huge}, CPU{huge})\nRTD|{huge}.0|1.0|9.0|{huge}|{huge}|1.0|9.0\n"
        ),
        format!(
            "RTT|  00:00:01  (user, 1 us period, priority 1)\nRTD|-9223372036854775.8|1.0|9223372036854775.7|{huge}|{huge}|1.0|9.0\n"
        ),
        format!(
            "# max latency: 9223372036854775.7\n# sample count: {huge}\n# OVERRUNS: {huge}\n{huge}+ {huge}\n"
        ),
        format!("T: 0 (1) P:{huge} C: {huge} Min: {huge} Act: {huge} Avg: {huge} Max: {huge}\n"),
        format!("T: 0 (1) I:{huge} C: {huge} Min: {huge} Act: {huge} Avg: {huge} Max: {huge}\n"),
        format!(
            "#0: ID1, P{huge}, CPU4294967295, I{huge}; #1: ID2, P1, CPU0, TO {huge}, Cycles {huge}\n#1 -> #0, Min {huge}, Cur {huge}, Avg {huge}, Max {huge}\n"
        ),
        format!(
            "[1]\nmissed deadlines  = {huge}\nmissed periods    = {huge}\ndeadline   : {huge} us\nnr_periods : {huge}\nmax_time: {huge}us\tmin_time: {huge}us\tavg_time: {huge}us\n"
        ),
        format!(
            "x IRQ Timer Latency (us) |\nCPU COUNT | cur\n4294967295 #{huge} | {huge} {huge} {huge} {huge} | - - - -\n"
        ),
        format!(
            "duration: 1 | time is in us\nCPU Period Runtime Noise % CPU Aval Max Noise Max Single\n0 #{huge} {huge} {huge} 99.0 {huge} {huge} {huge} {huge}\n"
        ),
        format!(
            "x cyclic: sched SCHED_FIFO: {huge} ns delay, {huge} samples\nx cyclic: min: {huge} ns, max: {huge} ns, std.dev. 1\nx cyclic:   99.00%: {huge} ns\nx cyclic: latency distribution ({huge} ns intervals):\nx cyclic: {huge} {huge}\n"
        ),
        format!("{huge} s servo min: -9223372036854775.8 us max: 9223372036854775.7 us sdev: 1 us\n"),
        format!(
            "<rteval><run_info days=\"{huge}\" hours=\"1\" minutes=\"1\" seconds=\"1\"/><Measurements><cyclictest command_line=\"cyclictest -i{huge}\"><core id=\"0\"><statistics><samples>{huge}</samples><minimum unit=\"us\">0</minimum><maximum unit=\"us\">9223372036854775</maximum><mean unit=\"us\">1</mean></statistics><histogram><bucket index=\"{huge}\" value=\"{huge}\"/></histogram></core></cyclictest></Measurements></rteval>"
        ),
    ] {
        let Ok(mut bundle) = parse(&text, None) else { continue };
        set_limit(&mut bundle, Some(1));
        assert!(!Verdict::of(&bundle).held, "{text}");
    }
}

/// A generator of numbers that always gives the same ones.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        // Numerical Recipes' constants.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// A text with one thing of it changed.
fn mutated(text: &str, dice: &mut Dice) -> String {
    let lines = text.lines().collect::<Vec<_>>();
    let (at, other) = (dice.below(lines.len()), dice.below(lines.len()));
    let mut lines = lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
    match dice.below(7) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(other, lines[at].clone()),
        2 => lines.swap(at, other),
        3 => {
            let cut = dice.below(lines[at].len() + 1);
            lines[at] = lines[at].chars().take(cut).collect();
        }
        kind => {
            let digits =
                ["0", "9", "18446744073709551615", "-1", "1e9", "", "\u{661}", "4294967296", "NaN", "0.5"];
            let words = lines[at].split_whitespace().map(str::to_string).collect::<Vec<_>>();
            let numbers = words.iter().filter(|word| word.contains(|c: char| c.is_ascii_digit()));
            let numbers = numbers.cloned().collect::<Vec<_>>();
            if let Some(word) = numbers.get(dice.below(numbers.len())) {
                let number = word.trim_matches(|c: char| !c.is_ascii_digit()).to_string();
                lines[at] =
                    lines[at].replacen(&number, digits[(dice.below(digits.len()) + kind) % digits.len()], 1);
            }
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn changed_files_never_hold_what_they_exceed() {
    let mut dice = Dice(28);
    let (mut read, mut refused) = (0, 0);
    for path in
        fixtures().iter().filter(|path| path.parent().is_some_and(|folder| folder.ends_with("others")))
    {
        let (name, whole) = (path.display(), fs::read_to_string(path).unwrap());
        for _ in 0..40 {
            let mut changed = mutated(&whole, &mut dice);
            if dice.below(3) == 0 {
                changed = mutated(&changed, &mut dice);
            }
            let Ok(mut bundle) = parse(&changed, None) else {
                refused += 1;
                continue;
            };
            read += 1;
            set_limit(&mut bundle, Some(100_000));
            let verdict = Verdict::of(&bundle);
            let worst_ns = maxima_ns(&bundle).into_iter().max().unwrap_or(0);
            assert!(!verdict.held || worst_ns <= 100_000, "{name}: {worst_ns}\n{changed}");
            bundle.rows.iter().map(Summary::of).for_each(|summary| {
                assert!(summary.min_ns <= Some(summary.max_ns), "{name}\n{changed}");
                assert!(summary.p99_9_ns.is_none_or(|ns| ns <= summary.max_ns), "{name}\n{changed}");
            });
        }
    }
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}
