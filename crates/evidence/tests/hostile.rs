// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles that were made to harm the reader: too large, too many, or leading elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use evidence::{Bundle, Error};

const SERIES: &str = "wakeup-idle-cpu1-1000us";

/// A bundle of `rows` rows that all name the same files, with these seconds and histograms.
fn bundle(rows: usize, seconds: &str, histograms: &str) -> BTreeMap<String, Vec<u8>> {
    let mut manifest = super::damage::manifest();
    let mut row = manifest.rows.remove(0);
    row.files = SERIES.to_string();
    manifest.rows = vec![row; rows];
    let manifest = serde_json::to_string(&manifest).unwrap();
    BTreeMap::from([
        ("manifest.json".to_string(), manifest.into_bytes()),
        ("spikes.jsonl".to_string(), Vec::new()),
        (format!("series/{SERIES}.seconds.csv"), seconds.as_bytes().to_vec()),
        (format!("series/{SERIES}.histograms.csv"), histograms.as_bytes().to_vec()),
    ])
}

fn open(files: BTreeMap<String, Vec<u8>>) -> Result<Bundle, Error> {
    Bundle::from_files(Path::new("bundle"), files)
}

fn seconds(count: usize) -> String {
    format!("second,count,min_ns,mean_ns,max_ns,missed\n{}", "1,1,1,1,1,0\n".repeat(count))
}

fn histograms(count: u64) -> String {
    let sum_ns = 1_000 * u128::from(count);
    format!(
        "# through_second 1\n# sum_ns {sum_ns}\n# min_ns 1000\n# max_ns 1000\n# latency: from_ns,to_ns,count\n\
         1000,1000,{count}\n\n\n# jitter: from_ns,to_ns,count\n\n\n# persistence: column,from_ns,count,glow\n# end\n"
    )
}

#[test]
fn reads_a_bundle_of_a_plain_size() {
    let bundle = open(bundle(1, &seconds(3), &histograms(3))).unwrap();
    let damaged = bundle.missing.iter().any(|why| why.contains("is damaged"));
    assert!(!damaged && bundle.rows[0].series.latency.count() == 3, "{:?}", bundle.missing);
}

#[test]
fn refuses_more_rows_than_a_bundle_has() {
    let error = open(bundle(10_001, "", "")).unwrap_err().to_string();
    assert!(error.contains("it has 10001 rows, a bundle has at most 10000"), "{error}");
}

#[test]
fn seconds_beyond_the_most_are_damage() {
    let bundle = open(bundle(1, &seconds(1_000_001), &histograms(3))).unwrap();
    assert!(
        bundle.missing.iter().any(|why| why.contains("more than 1000000 seconds")),
        "{:?}",
        bundle.missing
    );
    assert_eq!(bundle.rows[0].series.seconds.len(), 1_000_000);
}

#[test]
fn rows_that_share_a_large_file_draw_on_one_budget() {
    let error = open(bundle(100, &seconds(400_000), &histograms(400_000))).unwrap_err().to_string();
    assert!(error.contains("than a bundle may"), "{error}");
}

#[test]
fn a_line_without_an_end_is_damage() {
    let bundle = open(bundle(1, &"1".repeat(20 << 20), &histograms(3))).unwrap();
    assert!(
        bundle.missing.iter().any(|why| why.contains("a line is longer than 8 MiB")),
        "{:?}",
        bundle.missing
    );
}

#[test]
fn counts_that_no_run_can_have_are_damage() {
    for count in [1 << 62, u64::MAX, 1_000_000_000_000_001] {
        let bundle = open(bundle(1, &seconds(3), &histograms(count))).unwrap();
        assert!(
            bundle.missing.iter().any(|why| why.contains("more samples than a run can have")),
            "{count}: {:?}",
            bundle.missing
        );
        assert!(matches!(bundle.rows[0].tail(), evidence::tail::Tail::Refused { .. }));
    }
    let most = format!("second,count,min_ns,mean_ns,max_ns,missed\n1,{},1,1,1,0\n", u64::MAX);
    let bundle = open(bundle(1, &most, &histograms(3))).unwrap();
    assert!(bundle.missing.iter().any(|why| why.contains("not a row of seconds")), "{:?}", bundle.missing);
}

#[test]
fn files_outside_of_the_folder_are_not_read() {
    let outer = tempfile::tempdir().unwrap();
    let (folder, outside) = (outer.path().join("bundle"), outer.path().join("outside"));
    std::fs::create_dir_all(folder.join("series")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    for (name, bytes) in bundle(1, &seconds(3), &histograms(3)) {
        std::fs::write(folder.join(&name), &bytes).unwrap();
        if let Some(series) = name.strip_prefix(&format!("series/{SERIES}.")) {
            std::fs::write(outside.join(format!("x.{series}")), &bytes).unwrap();
        }
    }
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("series/link")).unwrap();
    let absolute = format!("{}/x", outside.display());
    for files in ["../../outside/x", absolute.as_str(), "link/x"] {
        let hostile = manifest.replace(SERIES, files);
        std::fs::write(folder.join("manifest.json"), hostile).unwrap();
        let read = Bundle::open(&folder);
        let read_outside = read.is_ok_and(|bundle| bundle.rows[0].series.latency.count() > 0);
        assert!(!read_outside, "{files}");
    }
}

#[test]
fn numbers_at_their_end_are_summed_without_harm() {
    let most = u64::MAX;
    let row = |row: &str| format!("second,count,min_ns,mean_ns,max_ns,missed\n{row}\n{row}\n");
    let histogram = |head: &str, latency: &str| {
        format!(
            "{head}# latency: from_ns,to_ns,count\n{latency}\n\n\n# jitter: from_ns,to_ns,count\n\n\n\
             # persistence: column,from_ns,count,glow\n# end\n"
        )
    };
    let head = |through: &str, sum: &str, min: u64, max: u64| {
        format!("# through_second {through}\n# sum_ns {sum}\n# min_ns {min}\n# max_ns {max}\n")
    };
    let plain = head("1", "3000", 1_000, 1_000);
    let huge = u128::MAX.to_string();
    for (seconds, histograms) in [
        (row(&format!("1,{most},1,1,1,0")), histograms(3)),
        (row(&format!("1,1,{most},{most},{most},0")), histograms(3)),
        (row(&format!("1,1,1,1,1,{most}")), histograms(3)),
        (row(&format!("{most},1,1,1,1,0")), histograms(3)),
        (seconds(3), histogram(&plain, &format!("1000,1000,{most}\n2000,2000,{most}"))),
        (seconds(3), histogram(&plain, &format!("{most},{most},{most}"))),
        (seconds(3), histogram(&plain, &format!("0,{most},3"))),
        (seconds(3), histogram(&head(&most.to_string(), "3000", 1_000, 1_000), "1000,1000,3")),
        (seconds(3), histogram(&head("1", &huge, 1_000, 1_000), "1000,1000,3")),
        (seconds(3), histogram(&head("1", "3000", most, most), "1000,1000,3")),
        (seconds(3), histogram(&head("1", "3000", most, 0), "1000,1000,3")),
        (seconds(3), histogram(&head("1", "0", 0, most), &format!("{most},0,1\n1,1,{most}"))),
    ] {
        let mut bundle = open(bundle(1, &seconds, &histograms)).unwrap();
        bundle.rows[0].entry.limit_ns = Some(1_000_000);
        let verdict = evidence::Verdict::of(&bundle);
        assert_ne!(verdict.outcome, evidence::verdict::VerdictOutcome::Held, "{seconds} {histograms}");
        for row in &bundle.rows {
            let _ = (evidence::Summary::of(row), row.tail());
        }
    }
}
