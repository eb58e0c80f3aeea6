// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles whose parts contradict one another: each kind of contradiction is found, and none holds.

use std::collections::BTreeMap;
use std::path::Path;

use evidence::manifest::{Asked, Granted, Manifest, RowEntry, RowKey, RunState, Second, Spike};
use evidence::verdict::VerdictOutcome;
use evidence::writer::series_files;
use evidence::{Bundle, Series, Taint, Verdict};
use machine::Snapshot;
use machine::snapshot::{Kernel, Preemption};

type Files = BTreeMap<String, Vec<u8>>;

const SECONDS: u32 = 10;
const IDLE: &str = "series/wakeup-idle-cpu1-1000us";
const CPU: &str = "series/wakeup-cpu-cpu1-1000us";

fn key(load: &str) -> RowKey {
    RowKey::new("wakeup", load, 1, Some(1_000_000))
}

/// Ten seconds at 1 kHz of 5 to 14 us, in the eighth one sample of 60 us that is listed as a spike.
fn series() -> Series {
    let mut series = Series::default();
    for second in 0..SECONDS {
        let mut row = Second { second, count: 1_000, min_ns: u64::MAX, ..Second::default() };
        for n in 0..row.count {
            let value_ns = if (second, n) == (7, 500) { 60_000 } else { 5_000 + 9 * n };
            series.latency.record(value_ns);
            row = Second {
                sum_ns: row.sum_ns + value_ns,
                min_ns: row.min_ns.min(value_ns),
                max_ns: row.max_ns.max(value_ns),
                ..row
            };
        }
        series.seconds.push(row);
    }
    series
}

fn entry(load: &str) -> RowEntry {
    RowEntry {
        granted: Granted { memory_locked: Some(true), policy: Some("fifo".into()), ..Granted::default() },
        limit_ns: Some(100_000),
        spikes: 1,
        ..RowEntry::new(key(load))
    }
}

/// A run of ten seconds at 1 kHz under two loads.
pub(super) fn manifest() -> Manifest {
    let loads = ["idle", "cpu"];
    Manifest {
        started_at: Some("2026-03-01T10:00:00Z".into()),
        ended_at: Some("2026-03-01T10:00:25Z".into()),
        rows: loads.map(entry).to_vec(),
        machine: Snapshot {
            hostname: Some("robot".into()),
            kernel: Kernel { preemption: Preemption::RealTime, ..Kernel::default() },
            ..Snapshot::default()
        },
        ..Manifest::new(
            "isolator",
            Asked {
                probes: vec!["wakeup".into()],
                loads: loads.map(String::from).to_vec(),
                cpus: "1".parse().unwrap(),
                periods_ns: vec![1_000_000],
                duration_ns: Some(u64::from(SECONDS) * 1_000_000_000),
                limit: Some("10%".into()),
                ..Asked::default()
            },
        )
    }
}

fn spike(load: &str) -> Spike {
    Spike { at_ns: 7_500_000_000, monotonic_ns: 9_000_000_000, ..Spike::new(key(load), 60_000) }
}

fn whole() -> Files {
    let mut files = with_manifest(Files::new(), |_| {});
    for load in ["idle", "cpu"] {
        files.extend(series_files(&key(load), &series()).map(|(name, text)| (name, text.into_bytes())));
    }
    with_spikes(files, &[spike("idle"), spike("cpu")])
}

fn with_manifest(mut files: Files, edit: impl Fn(&mut Manifest)) -> Files {
    let mut manifest = manifest();
    edit(&mut manifest);
    files.insert("manifest.json".into(), serde_json::to_vec(&manifest).unwrap());
    files
}

fn with_spikes(mut files: Files, spikes: &[Spike]) -> Files {
    let lines = spikes.iter().map(|spike| serde_json::to_string(spike).unwrap() + "\n").collect::<String>();
    files.insert("spikes.jsonl".into(), lines.into_bytes());
    files
}

fn edited(name: &str, edit: impl Fn(&str) -> String) -> Files {
    let mut files = whole();
    let text = String::from_utf8(files[name].clone()).unwrap();
    let new = edit(&text);
    assert_ne!(text, new, "the edit of {name} changes nothing");
    files.insert(name.into(), new.into_bytes());
    files
}

fn edited_line(name: &str, begin: &str, new: &str) -> Files {
    edited(name, |text| {
        let line = |line: &str| if line.starts_with(begin) { new.to_string() } else { line.to_string() };
        text.lines().map(|old| line(old) + "\n").collect()
    })
}

fn read(files: Files) -> Bundle {
    Bundle::from_files(Path::new("run"), files).unwrap()
}

/// Asserts that the bundle is damaged, says why with these words, and does not hold.
fn is_damaged(files: Files, words: &str) {
    let bundle = read(files);
    assert!(bundle.missing.iter().any(|why| why.contains(words)), "{words}: {:?}", bundle.missing);
    assert!(!Verdict::of(&bundle).held, "{words}");
}

fn reasons(files: Files) -> String {
    let verdict = Verdict::of(&read(files));
    assert!(!verdict.held);
    verdict.reasons.join("\n")
}

#[test]
fn a_whole_bundle_misses_nothing_and_holds() {
    let bundle = read(whole());
    assert_eq!((bundle.missing.as_slice(), bundle.rows.len()), (&[][..], 2));
    let mut files = whole();
    files.remove("spikes.jsonl");
    assert!(read(files.clone()).has_all_latencies() && !Verdict::of(&read(files.clone())).held);
    files.remove(&format!("{CPU}.seconds.csv"));
    assert!(!read(files).has_all_latencies());
    let verdict = Verdict::of(&bundle);
    assert!(verdict.held, "{:?}", verdict.reasons);
    let without = Verdict::without_tails(&bundle);
    assert_eq!((without.outcome, &without.reasons), (verdict.outcome, &verdict.reasons));
}

#[test]
fn seconds_that_contradict_the_histogram_are_damage() {
    let name = &format!("{IDLE}.seconds.csv");
    let seconds = series().seconds;
    let line = |second: &Second, count: u64, max_ns: u64| {
        let Second { second, min_ns, sum_ns, missed, .. } = *second;
        format!("{second},{count},{min_ns},{:.3},{max_ns},{missed}", sum_ns as f64 / count as f64)
    };
    let eighth = |count, max_ns| edited_line(name, "7,", &line(&seconds[7], count, max_ns));
    is_damaged(eighth(999, 60_000), "has 9999 of 10000 samples");
    is_damaged(eighth(1_001, 60_000), "has 10000 samples, its seconds have 10001");
    is_damaged(eighth(1_000, 59_999), "maximum is 59999 ns, the histogram's 60000 ns");
    is_damaged(edited_line(name, "3,", "3,1000,4000,9495.500,13991,0"), "minimum is 4000 ns");
    is_damaged(edited_line(name, "3,", "3,1000,5000,9000.000,13991,0"), "the seconds' sum is");
    is_damaged(edited_line(name, "3,", "3,1000,5000,4000.000,13991,0"), "that cannot be");
    is_damaged(edited_line(name, "3,", "3,1000,5000,1e300,13991,0"), "that cannot be");
    is_damaged(edited_line(name, "3,", "3,1000,5000,NaN,13991,0"), "not a row of seconds");
    is_damaged(edited_line(name, "3,", "9,1000,5000,9495.500,13991,0"), "out of order: 4 after 9");
    is_damaged(edited(name, |text| format!("{text}9,0,0,0.000,77,0\n")), "that cannot be");
    is_damaged(edited(name, |text| text.lines().skip(1).map(|line| format!("{line}\n")).collect()), "names");
    // A last second that holds missed periods alone has no sample that the histogram knows of.
    is_damaged(edited(name, |text| format!("{text}10,0,0,0.000,0,40")), "last line was cut short");
    let mut late = series();
    late.seconds.push(Second { second: 10, missed: 40, ..Second::default() });
    let mut files = whole();
    files.extend(series_files(&key("idle"), &late).map(|(name, text)| (name, text.into_bytes())));
    assert!(reasons(files.clone()).contains("40 periods of 10,040 missed"));
    let text = String::from_utf8(files[name].clone()).unwrap();
    files.insert(name.clone(), text.replace("10,0,0,0.000,0,40\n", "").into_bytes());
    is_damaged(files, "the histograms end with second 10, the seconds with 9");
}

#[test]
fn a_histogram_that_contradicts_itself_is_damage() {
    let name = &format!("{IDLE}.histograms.csv");
    for (begin, line, words) in [
        ("# max_ns", "# max_ns 14000", "the maximum 14000 ns is below the last bucket"),
        ("# max_ns", "# max_ns 70000", "the maximum 70000 ns is not in the last bucket"),
        ("# min_ns", "# min_ns 1", "the minimum 1 ns is not in the first bucket"),
        ("# sum_ns", "# sum_ns 5", "the sum 5 ns is not that of its buckets"),
        ("# sum_ns", "# sum_ns", "the sum is missing"),
        ("# min_ns", "# min_ns -1", "minimum or maximum is missing"),
        ("# through_second", "# through_second soon", "which second it speaks"),
        ("# half_life_s", "# half_life_s NaN", "not a half-life"),
    ] {
        is_damaged(edited_line(name, begin, line), words);
    }
    is_damaged(edited(name, |text| text.replace("# end\n", "")), "cut short");
    is_damaged(edited(name, |text| format!("{text}5,5,1\n")), "after its end");
    let (latency, jitter) = ("# latency: from_ns,to_ns,count\n", "# jitter: from_ns,to_ns,count\n");
    for (head, bucket, words) in [
        (latency, "70000,70015,1\n", "not the next bucket"),
        (latency, "100,99999,1\n", "not the next bucket"),
        (jitter, "0,0,20000\n", "its jitter counts"),
    ] {
        is_damaged(edited(name, |text| text.replace(head, &format!("{head}{bucket}"))), words);
    }
}

#[test]
fn the_worst_that_any_part_states_decides() {
    let exceeded = |files: Files| {
        let verdict = Verdict::of(&read(files));
        assert_eq!(verdict.outcome, VerdictOutcome::Exceeded, "{:?}", verdict.reasons);
    };
    let (seconds, histogram) = (&format!("{IDLE}.seconds.csv"), &format!("{IDLE}.histograms.csv"));
    exceeded(edited_line(seconds, "7,", "7,1000,5000,9541.000,160000,0"));
    exceeded(edited_line(histogram, "# max_ns", "# max_ns 160000"));
    exceeded(edited(histogram, |text| text.replace("\n\n# jitter", "160000,160127,1\n\n\n# jitter")));
    let mut lost = edited_line(seconds, "7,", "7,1000,5000,9541.000,160000,0");
    lost.remove(histogram);
    exceeded(lost);
    let missed = edited_line(seconds, "7,", "7,1000,5000,9541.000,60000,3");
    exceeded(missed);
}

#[test]
fn rows_that_the_manifest_repeats_or_loses_are_damage() {
    type Edit = fn(&mut Manifest);
    let cases: [(Edit, &str); 9] = [
        (|it| it.rows[1].files = it.rows[0].files.clone(), "those of another row"),
        (|it| it.rows.push(it.rows[0].clone()), "lists this row twice"),
        (|it| drop(it.rows.remove(1)), "wakeup under cpu: its rows are missing"),
        (|it| it.asked.cpus.insert(2), "on cpu 2 every 1,000 us: its row is missing"),
        (|it| it.asked.periods_ns.push(500_000), "every 500 us: its row is missing"),
        (|it| it.asked.probes.push("spin".into()), "spin under idle: its rows are missing"),
        (|it| it.rows[0].state = RunState::Running, "did not end in order"),
        (|it| it.state = RunState::Running, "did not end in order"),
        (|it| it.rows[0].limit_ns = Some(200_000), "limit is 200 us, but 100 us was asked"),
    ];
    for (edit, words) in cases {
        is_damaged(with_manifest(whole(), edit), words);
    }
    let unlimited = with_manifest(whole(), |manifest| manifest.rows[0].limit_ns = None);
    assert!(reasons(unlimited).contains("no limit judges 1 of 2 rows"));
}

#[test]
fn spikes_that_no_row_has_room_for_are_damage() {
    let listed = |spikes: &[Spike]| with_spikes(whole(), spikes);
    let (idle, cpu) = (spike("idle"), spike("cpu"));
    is_damaged(
        listed(&[idle.clone(), idle.clone()]),
        "spikes.jsonl lists 2 spikes of 1 of wakeup under idle on cpu 1",
    );
    is_damaged(listed(&[idle.clone(), idle.clone()]), "spikes.jsonl lists 1 spikes of 2");
    is_damaged(listed(&[idle.clone(), cpu.clone(), spike("net")]), "rows that the manifest does not list");
    let higher = Spike { latency_ns: 300_000, ..cpu.clone() };
    is_damaged(listed(&[idle.clone(), higher]), "a spike of 300 us is above the row's maximum 60.0 us");
    let longer = Spike { missed: 4, ..cpu };
    is_damaged(listed(&[idle, longer]), "its spikes missed 4 periods, its seconds 0");
}

#[test]
fn a_row_that_is_shorter_or_longer_than_its_time_is_damage() {
    let of = |duration_s: u64, period_ns: u64| {
        with_manifest(whole(), move |manifest| {
            manifest.asked.duration_ns = Some(duration_s * 1_000_000_000);
            manifest.asked.periods_ns = vec![period_ns];
            manifest.rows.iter_mut().for_each(|entry| entry.key.period_ns = Some(period_ns));
        })
    };
    is_damaged(of(60, 1_000_000), "it has 10000 cycles of the 60000 that were asked");
    is_damaged(of(10, 2_000_000), "10000 cycles are more than 10 s have room for");
    let mut files = whole();
    files.insert(format!("{CPU}.journal"), Vec::new());
    is_damaged(files, "journal is still there");
}

#[test]
fn a_disturbance_without_its_taint_counts_all_the_same() {
    let granted = |edit: fn(&mut Granted)| {
        reasons(with_manifest(whole(), |manifest| edit(&mut manifest.rows[1].granted)))
    };
    assert!(granted(|granted| granted.page_faults = Some(3)).contains("page faults, and no taint says so"));
    assert!(granted(|granted| granted.steal_ns = Some(3)).contains("its CPU away, and no taint says so"));
    assert!(granted(|granted| granted.memory_locked = Some(false)).contains("was not locked"));
    assert!(granted(|granted| granted.policy = Some("other".into())).contains("no real-time policy"));
    let stock = with_manifest(whole(), |manifest| {
        manifest.machine.kernel.preemption = Preemption::Full;
    });
    assert!(reasons(stock).contains("the kernel is not PREEMPT_RT"));
    let tainted = |accept: &'static [&str]| {
        with_manifest(whole(), move |manifest| {
            let taint = Taint { accepted: true, ..Taint::new(evidence::taint::STEAL, "20 ms", "none") };
            manifest.taints.push(taint);
            manifest.asked.accept = accept.iter().map(|code| code.to_string()).collect();
        })
    };
    assert!(reasons(tainted(&[])).contains("tainted by steal"));
    assert!(Verdict::of(&read(tainted(&["steal"]))).held);
}

#[test]
fn a_claim_that_is_no_rate_supports_nothing() {
    for claim in [0.0, -1.0, 1.0, 7.0] {
        let files = with_manifest(whole(), |manifest| manifest.asked.claim = Some(claim));
        assert!(reasons(files).contains("is not a rate between 0 and 1"), "{claim}");
    }
}

#[test]
fn the_verdict_that_is_kept_is_not_read() {
    let mut files = whole();
    let exceeded =
        files_verdict(&edited_line(&format!("{IDLE}.seconds.csv"), "7,", "7,1000,5000,9541.000,160000,0"));
    files.insert("verdict.json".into(), exceeded);
    assert!(Verdict::of(&read(files)).held);
}

fn files_verdict(files: &Files) -> Vec<u8> {
    serde_json::to_vec(&Verdict::of(&read(files.clone()))).unwrap()
}

#[test]
fn a_file_cut_anywhere_is_damaged() {
    for name in [format!("{IDLE}.seconds.csv"), format!("{CPU}.histograms.csv"), "spikes.jsonl".into()] {
        let bytes = whole()[&name].clone();
        for end in (0..bytes.len()).step_by(bytes.len() / 60 + 1) {
            let mut files = whole();
            files.insert(name.clone(), bytes[..end].to_vec());
            let bundle = read(files);
            assert!(!bundle.missing.is_empty(), "{name} cut at {end}");
        }
    }
}

#[test]
fn dates_that_cannot_be_are_noted_and_not_held_against_the_run() {
    let notes = |started: &str, ended: &str| {
        let bundle = read(with_manifest(whole(), |manifest| {
            manifest.started_at = Some(started.into());
            manifest.ended_at = Some(ended.into());
        }));
        assert!(Verdict::of(&bundle).held && bundle.missing.is_empty(), "{started}");
        bundle.notes().join("\n")
    };
    assert_eq!(notes("2026-03-01T10:00:00Z", "2026-03-01T10:00:25Z"), "");
    assert!(notes("2999-03-01T10:00:00Z", "2999-03-01T10:00:25Z").contains("which is in the future"));
    assert!(notes("1970-01-01T00:00:07Z", "1970-01-01T00:00:32Z").contains("its clock was not set"));
    // This program is younger; results of other tools are not.
    assert!(notes("2010-03-01T10:00:00Z", "2010-03-01T10:00:25Z").contains("its clock was not set"));
    let imported = read(with_manifest(whole(), |manifest| {
        manifest.written_by.program = "cyclictest".into();
        manifest.started_at = Some("2010-03-01T10:00:00Z".into());
        manifest.ended_at = None;
    }));
    assert_eq!(imported.notes(), [""; 0]);
    assert!(notes("2026-03-01T10:00:00Z", "2026-03-01T09:00:00Z").contains("ended before it began"));
    assert!(
        notes("2026-03-01T10:00:00Z", "2026-03-01T10:00:15Z").contains("took 15 s, but it has rows of 18 s")
    );
    assert!(notes("yesterday", "2026-03-01T10:00:15Z").contains("'yesterday', which is not a date"));
}
