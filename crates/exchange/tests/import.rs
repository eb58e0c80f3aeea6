// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports of one tool's output: what is taken from it, what is noted, and what judges it.

use std::fs;

use evidence::{Bundle, Verdict};
use exchange::import::{ImportFormat, import, parse, set_limit, set_load};
use machine::snapshot::Preemption;

use crate::common::{
    changed, codes, figures, has_note, imported, limited, lines, maxima_ns, read, refused, text,
};

#[test]
fn a_table_cut_between_two_lines_says_what_is_absent() {
    let text = text("cyclictest-2.4-h.txt");
    let cut = |end: &str| read(text.split_once(end).unwrap().0);
    let missing = cut("# Max Latencies").missing;
    assert!(missing.iter().any(|what| what.contains("'# Max Latencies:'")), "{missing:?}");
    assert_eq!(maxima_ns(&cut("# Total"))[1], 39_000);
}

#[test]
fn what_the_command_line_tells_is_taken_and_nothing_more() {
    let bundle = imported("cyclictest-2.4.json");
    let asked = &bundle.manifest.asked;
    assert_eq!((asked.policy.as_deref(), asked.priority), (Some("fifo"), Some(80)));
    assert_eq!((asked.periods_ns.as_slice(), asked.duration_ns), (&[1_000_000][..], Some(3_000_000_000)));
    assert_eq!((asked.cpus.to_string().as_str(), asked.loops, asked.dma_latency_us), ("0-1", None, None));
    assert_eq!(bundle.manifest.written_by.version.as_deref(), Some("2.40"));
    assert_eq!(bundle.manifest.machine.kernel.preemption, Preemption::Dynamic);
    assert!(bundle.manifest.started_at.as_deref().unwrap().ends_with('Z'));

    let asked = imported("timerlat-6.1.txt").manifest.asked;
    assert_eq!(
        (asked.policy, asked.priority, asked.periods_ns, asked.duration_ns),
        (None, None, vec![], None)
    );
    let asked = imported("cyclictest-2.4-h.txt").manifest.asked;
    assert_eq!((asked.policy, asked.priority, asked.dma_latency_us), (None, None, Some(0)));
    assert!(asked.cpus.is_empty(), "the columns are threads, not CPUs");
    let asked = imported("oslat-2.6.txt").manifest.asked;
    assert_eq!((asked.policy.as_deref(), asked.priority), (Some("fifo"), Some(1)));
}

/// Some builds write `"cmdline"` where rt-tests write `"cmdline:"`.
#[test]
fn keys_without_a_colon_say_the_same() {
    let whole = text("cyclictest-2.6.json");
    let plain = whole.replace("\"cmdline:\"", "\"cmdline\"").replace("version:\"", "version\"");
    assert_eq!(whole.len() - plain.len(), 2);
    let (whole, plain) = (read(&whole), read(&plain));
    assert!(plain.manifest.written_by.version.is_some());
    assert_eq!((figures(&whole), whole.manifest), (figures(&plain), plain.manifest));
}

#[test]
fn without_a_histogram_each_thread_has_its_own_longer_period() {
    for name in ["cyclictest-2.4-no-histogram.json", "cyclictest-2.4-summary.txt"] {
        assert_eq!(imported(name).manifest.asked.periods_ns, [1_000_000, 1_500_000], "{name}");
    }
}

#[test]
fn what_the_tool_hides_is_said() {
    let tainted = |name: &str| {
        let bundle = imported(name);
        let codes = codes(&bundle).into_iter().filter(|code| !code.ends_with("-unknown"));
        codes.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(tainted("cyclictest-2.4.json"), ["missed-periods-uncounted", "not-real-time-kernel"]);
    assert_eq!(tainted("cyclictest-2.4-summary.txt"), ["not-real-time-policy", "missed-periods-uncounted"]);
    // It catches up with every period.
    assert_eq!(tainted("jitterdebugger-0.3.1.json"), ["not-real-time-kernel"]);
    let notes = imported("timerlat-6.1.txt").manifest.notes.join("\n");
    assert!(notes.contains("skips missed periods") && notes.contains("1324 samples lie beyond"), "{notes}");
    let stopped = imported("timerlat-6.12-stopped.txt");
    assert_eq!(stopped.manifest.not_run[0].probe, "timerlat-user");
    assert!(has_note(&stopped, "stopped at the threshold"));
}

/// The kernel of a file taints it as it taints a run of this program, where the file names it.
#[test]
fn a_kernel_that_is_not_real_time_taints_an_import() {
    let text = text("cyclictest-2.4.json");
    let on = |version: &str| {
        let mut bundle = read(&text.replace("PREEMPT_DYNAMIC", version));
        set_limit(&mut bundle, Some(1_000_000_000));
        let is_told = codes(&bundle).contains(&"not-real-time-kernel");
        let reasons = Verdict::of(&bundle).reasons;
        assert!(reasons.iter().all(|reason| !reason.contains("no taint says so")), "{reasons:?}");
        is_told
    };
    assert!(text.contains("PREEMPT_DYNAMIC"));
    assert_eq!(["PREEMPT_DYNAMIC", "PREEMPT", "PREEMPT_RT"].map(on), [true, true, false]);
    // A text without the kernel says nothing of it.
    assert!(!codes(&imported("cyclictest-2.4-h.txt")).contains(&"not-real-time-kernel"));
}

#[test]
fn the_width_of_rtlas_buckets_is_found() {
    for (name, width_ns, ends_ns) in
        [("timerlat-6.1-wide-buckets.txt", 5_000, 100_000), ("timerlat-6.1-nanoseconds.txt", 1_000, 100_000)]
    {
        let coarse = imported(name).rows[0].entry.coarse.clone().unwrap();
        assert_eq!((coarse.resolution_ns, coarse.overflow_from_ns), (width_ns, Some(ends_ns)), "{name}");
    }
}

#[test]
fn a_limit_and_a_load_that_are_told_judge_the_rows() {
    let mut bundle = imported("cyclictest-2.4-h.txt");
    set_limit(&mut bundle, Some(100_000));
    set_load(&mut bundle, "cpu");
    let verdict = Verdict::of(&bundle);
    assert_eq!((verdict.held, verdict.limit_ns), (false, Some(100_000)));
    assert_eq!(verdict.rows.iter().map(|row| row.late).collect::<Vec<_>>(), [0, 1]);
    assert!(bundle.manifest.rows.iter().all(|row| row.files.starts_with("wakeup-cpu-cpu")));
}

#[test]
fn nothing_holds_without_a_limit_or_below_what_the_tool_records() {
    let mut quiet = imported("hwlatdetect-2.4-quiet.txt");
    assert!(!Verdict::of(&quiet).held);
    // A gap of the threshold in whole microseconds may be longer by a part of one.
    let threshold_ns = quiet.manifest.asked.threshold_ns.unwrap();
    for limit_ns in [10_000, threshold_ns, threshold_ns + 998] {
        limited(&mut quiet, limit_ns);
        assert!(codes(&quiet).contains(&"threshold-above-limit"), "{limit_ns}");
        assert!(!Verdict::of(&quiet).held);
    }
    limited(&mut quiet, threshold_ns + 999);
    assert!(!codes(&quiet).contains(&"threshold-above-limit"));
    assert!(Verdict::of(&quiet).held, "{:?}", Verdict::of(&quiet).reasons);

    let oslat = imported("oslat-2.6.json");
    let reasons = Verdict::of(&oslat).reasons.join("; ");
    assert!(reasons.contains("no limit judges 2 of 2 rows"), "{reasons}");
}

#[test]
fn a_limit_among_samples_that_were_only_counted_makes_the_bound_wide() {
    let mut bundle = imported("timerlat-6.12.txt");
    set_limit(&mut bundle, Some(1_000_000));
    let verdict = Verdict::of(&bundle);
    let row = verdict.rows.iter().find(|row| row.key.probe == "timerlat-user" && row.key.cpu == 0).unwrap();
    assert!(row.late == 1 && row.miss_rate_below > 1716.0 / 2010.0, "{row:?}");
    let reason = "maximum 48,234 us exceeds 1,000 us (1 to 1,716 late of 2,010)";
    assert!(verdict.reasons[0].ends_with(reason), "{:#?}", verdict.reasons);
    set_limit(&mut bundle, Some(10_000));
    assert!(Verdict::of(&bundle).reasons.iter().all(|reason| !reason.contains(" to ")));
}

#[test]
fn cycles_of_every_tool_must_suffice_for_the_claim() {
    for (name, had) in [("timerlat-6.12.txt", 2010), ("jitterdebugger-0.3.1.json", 2995)] {
        let mut few = imported(name);
        limited(&mut few, 1_000_000_000);
        let verdict = Verdict::of(&few);
        assert!(!verdict.held && verdict.rows.iter().all(|row| row.held), "{name}: {verdict:#?}");
        let reason = format!(
            "{had} samples cannot support a rate of late episodes below 0.001; 3000 without a late one would"
        );
        assert!(verdict.reasons.iter().any(|line| line.ends_with(&reason)), "{name}: {:#?}", verdict.reasons);
        few.manifest.asked.claim = Some(0.01);
        let kernels = few.manifest.taints.iter_mut().filter(|taint| taint.code == "not-real-time-kernel");
        kernels.for_each(|taint| taint.accepted = true);
        assert!(Verdict::of(&few).held, "{name}: {:#?}", Verdict::of(&few).reasons);
    }
}

#[test]
fn an_imported_bundle_is_written_as_a_folder_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let whole = text("timerlat-6.12.txt");
    let cut = read(&whole[..whole.len() / 2]);
    let path = folder.path().join("cut");
    evidence::store(&cut, &path).unwrap();
    let stored = Bundle::open(&path).unwrap();
    assert!(stored.missing.is_empty(), "{:?}", stored.missing);
    assert!(codes(&stored).contains(&"source-incomplete"));
    assert_eq!(figures(&stored), figures(&cut));
    assert!(path.join("verdict.json").exists());
}

#[test]
fn threads_of_one_cpu_and_period_become_one_row() {
    let bundle = read(&changed("cyclictest-2.6.json", "\"cpu\": 0", "\"cpu\": 1"));
    assert_eq!(bundle.rows.len(), 1);
    let latency = &bundle.rows[0].series.latency;
    assert_eq!((latency.count(), latency.min_ns(), latency.max_ns()), (3996, 6_000, 2_725_000));
}

#[test]
fn figures_that_contradict_each_other_are_said_and_the_worse_one_counts() {
    let bundle =
        read(&changed("cyclictest-2.4-histfile.txt", "Max Latencies: 00088", "Max Latencies: 00008"));
    assert!(bundle.missing.iter().any(|what| what.contains("maximum contradicts")), "{:?}", bundle.missing);
    assert_eq!(maxima_ns(&bundle)[0], 88_000);
}

#[test]
fn a_file_of_nothing_known_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let latin = b"T\xfcr\n".to_vec();
    let hackbench = changed("cyclictest-2.4.json", "cyclictest -m", "hackbench -m");
    for (name, bytes, why) in [
        ("empty", vec![], "it is empty"),
        ("blank", b" \n\n".to_vec(), "it is empty"),
        ("binary", vec![0x7f, b'E', b'L', b'F', 0, 1], "it is a binary file"),
        ("prose", b"the quick brown fox\n".to_vec(), "it is in no format that is known"),
        ("latin", latin, "it is in no format that is known"),
        ("other.json", b"{\"a\": 1}".to_vec(), "it is JSON of a tool that is not known"),
        (
            "cut.json",
            text("oslat-2.4.json").into_bytes()[..200].to_vec(),
            "it is not a complete JSON document",
        ),
        ("hackbench.json", hackbench.into_bytes(), "it is a result of hackbench"),
        ("twice", text("cyclictest-2.4-h.txt").repeat(2).into_bytes(), "it holds more than one run"),
        (
            "head",
            b"# RTLA timerlat histogram\nnothing\n".to_vec(),
            "it holds no result: of rtla only the head",
        ),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = import(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot import {}: {why}", path.display())), "{error}");
        assert!(error.contains("isolator import --help") && error.lines().count() == 1, "{error}");
    }
    assert!(import(&folder.path().join("absent")).unwrap_err().to_string().contains("check the path"));
}

#[test]
fn cycles_that_a_stream_of_samples_lacks_are_said() {
    let bundle = read(&lines("cyclictest-2.4-v.txt", |line| !line.contains(":      50:")));
    assert_eq!(bundle.missing.len(), 2, "{:?}", bundle.missing);
    assert!(bundle.missing[0].contains("thread 0: 1 cycles are not in the file"), "{:?}", bundle.missing);
    assert_eq!(refused(&text("cyclictest-2.4-v.txt").repeat(2)), "it holds more than one run");
}

#[test]
fn windows_line_ends_and_a_named_format_make_no_difference() {
    let text = text("oslat-2.4.txt");
    let named = parse(&text.replace('\n', "\r\n"), Some(ImportFormat::OslatText)).unwrap();
    assert_eq!(figures(&named), figures(&read(&text)));
}
