// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up fleets through the store and the shipped SQL: does it find what is known to be wrong, and nothing
//! else?

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use evidence::{Bundle, Judge};
use fleet::synthetic::{FleetSize, files, write};
use fleet::{FleetDocument, QUERIES, Query, Stored, report, store};

const SMALL: FleetSize = FleetSize { cpus: 2, loads: 2, seconds: 8 };

fn fleet(folder: &Path, machines: u64, runs: u64, drift: impl Fn(u64) -> f64) -> PathBuf {
    let bundles = folder.join("bundles");
    fs::create_dir_all(&bundles).unwrap();
    for number in 0..machines {
        for run in 0..runs {
            write(&bundles.join(format!("m{number}-{run}.tar.zst")), number, run, drift(number), SMALL)
                .unwrap();
        }
    }
    bundles
}

/// Says that it skips where DuckDB is not installed: the store needs it not, the questions do.
fn no_duckdb() -> bool {
    let missing = Command::new("duckdb").arg("--version").output().is_err();
    if missing {
        let _ = writeln!(std::io::stderr(), "skipped: duckdb is not installed: tools/bootstrap test");
    }
    missing
}

fn stored(folder: &Path, bundles: &Path) -> FleetDocument {
    let at = folder.join("store");
    store(&at, &[bundles.to_path_buf()], &Judge::default()).unwrap();
    report(&at).unwrap()
}

/// How many parts a store has.
fn parts(store: &std::path::Path) -> usize {
    let names = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("part-")).count()
}

#[test]
fn a_bundle_is_stored_once_be_it_a_folder_or_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let bundles = fleet(folder.path(), 3, 1, |_| 1.0);
    let at = folder.path().join("store");
    let all = [bundles.clone()];
    assert_eq!(store(&at, &all, &Judge::default()).unwrap(), Stored { added: 3, known: 0, unread: vec![] });
    assert_eq!(store(&at, &all, &Judge::default()).unwrap(), Stored { added: 0, known: 3, unread: vec![] });
    assert_eq!(parts(&at), 1, "nothing new makes no part");
    let unpacked = folder.path().join("unpacked");
    for (name, bytes) in files(1, 0, 1.0, SMALL) {
        let path = unpacked.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(
        store(&at, &[unpacked], &Judge::default()).unwrap(),
        Stored { added: 0, known: 1, unread: vec![] }
    );
    write(&bundles.join("new.tar.zst"), 4, 0, 1.0, SMALL).unwrap();
    assert_eq!(store(&at, &all, &Judge::default()).unwrap(), Stored { added: 1, known: 3, unread: vec![] });
    assert_eq!(parts(&at), 2);
}

#[test]
fn what_cannot_be_read_is_said_and_stays_said() {
    let folder = tempfile::tempdir().unwrap();
    let bundles = folder.path().join("bundles");
    fs::create_dir(&bundles).unwrap();
    write(&bundles.join("good.tar.zst"), 0, 0, 1.0, SMALL).unwrap();
    write(&bundles.join("version.tar.zst"), 9, 0, 1.0, SMALL).unwrap();
    fs::write(bundles.join("letter.tar.zst"), "Dear Sir or Madam,\n").unwrap();
    let at = folder.path().join("store");
    let stored = store(&at, std::slice::from_ref(&bundles), &Judge::default()).unwrap();
    let why = |name: &str| stored.unread.iter().find(|(path, _)| path.ends_with(name)).unwrap().1.clone();
    assert_eq!((stored.added, stored.unread.len()), (1, 2));
    assert_eq!(why("version.tar.zst"), "its schema version is 2, this program reads 1");
    assert_eq!(why("letter.tar.zst"), "it is not a complete .tar.zst (it does not begin as one)");
    assert_eq!(store(&at, std::slice::from_ref(&bundles), &Judge::default()).unwrap().known, 1);
    assert_eq!(parts(&at), 1, "what was said once makes no part");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let line = store(&at, std::slice::from_ref(&empty), &Judge::default()).unwrap_err().to_string();
    let empty = empty.display();
    let cure = "give bundles, or folders that hold some";
    assert_eq!(line, format!("cannot store {empty}: it holds no bundle; {cure}"));
    if no_duckdb() {
        return;
    }
    let document = report(&at).unwrap();
    let unread: Vec<String> = document.unread.iter().map(|one| one.why.clone()).collect();
    assert_eq!(unread, [why("letter.tar.zst"), why("version.tar.zst")]);
}

#[test]
fn a_part_that_a_kill_left_half_is_no_part() {
    let folder = tempfile::tempdir().unwrap();
    let bundles = fleet(folder.path(), 1, 1, |_| 1.0);
    let at = folder.path().join("store");
    fs::create_dir_all(at.join(".part-0001")).unwrap();
    fs::write(at.join(".part-0001/rows.parquet"), "half").unwrap();
    assert_eq!(store(&at, &[bundles], &Judge::default()).unwrap().added, 1);
    assert_eq!(fs::read_dir(&at).unwrap().count(), 1);
}

#[test]
fn percentiles_of_the_sql_are_those_of_the_histogram_to_a_bucket() {
    if no_duckdb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bundles = fleet(folder.path(), 2, 1, |_| 1.0);
    let at = folder.path().join("store");
    store(&at, std::slice::from_ref(&bundles), &Judge::default()).unwrap();
    let text = Query::named("percentiles").unwrap().text();
    let output = Command::new("duckdb").args(["-json", "-c", &text]).current_dir(&at).output().unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 4, "two machines, two loads");
    for row in rows {
        let bundle = Bundle::open(Path::new(row["path"].as_str().unwrap())).unwrap();
        let mut all = evidence::Histogram::new();
        for one in bundle.rows.iter().filter(|one| row["load"] == one.entry.key.load.as_str()) {
            all.merge(&one.series.latency);
        }
        assert_eq!(row["samples"].as_u64(), Some(all.count()));
        assert_eq!(row["max_ns"].as_u64(), Some(all.max_ns()));
        for (name, fraction) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p99_9_ns", 0.999)] {
            let (exact, found) = (all.quantile_ns(fraction) as f64, row[name].as_f64().unwrap());
            assert!(found >= exact * 0.999 && found <= exact * 1.032, "{name}: {found} for {exact}");
        }
    }
}

#[test]
fn figures_that_an_imported_bundle_does_not_tell_are_null() {
    if no_duckdb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bundles = folder.path().join("bundles");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exchange/tests/fixtures/import");
    // The first file has a histogram, the second only minimum, mean and maximum, the third no maximum.
    let no_max = folder.path().join("no-max.txt");
    let whole = fs::read_to_string(fixtures.join("cyclictest-2.4-h.txt")).unwrap();
    let lines = whole.lines().filter(|line| !line.contains("Max Latencies"));
    fs::write(&no_max, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let files =
        [fixtures.join("cyclictest-2.6.json"), fixtures.join("cyclictest-2.4-no-histogram.json"), no_max];
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let mut bundle = exchange::import::import(&file).unwrap();
        bundle.manifest.machine.hostname = Some(name.to_string());
        evidence::store(&bundle, &bundles.join(name)).unwrap();
    }
    let document = stored(folder.path(), &bundles);
    let mut known = document
        .machines
        .iter()
        .map(|one| (one.hostname.as_str(), one.p99_9_ns.is_some(), one.max_ns.is_some()));
    let mut known = known.by_ref().collect::<Vec<_>>();
    known.sort_unstable();
    let expected = [
        ("cyclictest-2.4-no-histogram.json", false, true),
        ("cyclictest-2.6.json", false, true),
        ("no-max.txt", false, false),
    ];
    assert_eq!(known, expected, "the other's 99.9 % lie beyond its histogram");
    let text = Query::named("percentiles").unwrap().text();
    let at = folder.path().join("store");
    let output = Command::new("duckdb").args(["-json", "-c", &text]).current_dir(at).output().unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let medians = rows.iter().filter(|row| row["p50_ns"].is_number()).count();
    assert_eq!((rows.len(), medians), (4, 2), "{rows:?}");
}

#[test]
fn a_fleet_gives_up_what_is_wrong_with_it_and_nothing_else() {
    if no_duckdb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bundles = fleet(folder.path(), 240, 1, |_| 1.0);
    let document = stored(folder.path(), &bundles);
    let hosts = |hosts: Vec<&String>| hosts.into_iter().cloned().collect::<Vec<_>>();
    assert_eq!((document.totals.bundles, document.totals.machines, document.totals.classes), (239, 239, 8));
    assert_eq!((document.totals.rows, document.machines.len(), document.classes.len()), (956, 239, 8));

    assert_eq!(document.outliers.first().map(|one| one.hostname.as_str()), Some("host-00007"));
    // Those with the wrong governor are outliers of their class as well; no other machine is.
    let number = |host: &str| host.trim_start_matches("host-").parse::<u64>().unwrap();
    assert!(
        document.outliers.iter().all(|one| one.hostname == "host-00007" || number(&one.hostname) % 5 == 4)
    );

    assert_eq!(document.unfit.len(), 1, "{:?}", document.unfit);
    assert_eq!(document.unfit[0].class, "Made-up machine, Made-up CPU 2, 3 CPUs, 6.12 full");
    assert_eq!((document.unfit[0].set_apart, document.unfit[0].failed), (30, 30));

    assert_eq!(document.settings.len(), 1, "{:?}", document.settings);
    assert_eq!(document.settings[0].settings, ["governor = powersave"]);
    assert_eq!(document.settings[0].with_machines, 47, "every fifth, less the one of another version");

    assert_eq!(hosts(document.clocks.iter().map(|one| &one.hostname).collect()), ["host-00003"]);
    let why = &document.clocks[0].why;
    assert!(why.starts_with("it began ") && why.ends_with(" after it was stored"), "{why}");
    assert_eq!(hosts(document.duplicates.iter().map(|one| &one.hostname).collect()), ["host-00000"]);
    let why = &document.duplicates[0].why;
    assert!(why.starts_with("2 machines of other hardware: Made-up machine, "), "{why}");
    assert_eq!(document.unread.len(), 1);
    assert_eq!(document.drift, []);
    let outcome = |rank: usize| document.machines[rank].outcome.as_str();
    assert_eq!((outcome(0), outcome(238)), ("held", "exceeded"));
    assert!(document.machines.iter().enumerate().all(|(place, one)| one.rank == place as u64 + 1));
}

#[test]
fn drift_is_told_from_what_changes_by_chance() {
    if no_duckdb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Of twelve machines of two classes one gets 8 % later a day, one 8 % earlier.
    let drift = |number: u64| match number {
        10 => 1.08,
        16 => 0.92,
        _ => 1.0,
    };
    let bundles = folder.path().join("bundles");
    fs::create_dir(&bundles).unwrap();
    for number in [0, 2, 8, 10, 16, 18, 24, 26, 32, 40] {
        for run in 0..10 {
            write(&bundles.join(format!("m{number}-{run}.tar.zst")), number, run, drift(number), SMALL)
                .unwrap();
        }
    }
    let document = stored(folder.path(), &bundles);
    let mut seen =
        document.drift.iter().map(|one| (one.hostname.as_str(), one.times > 1.0)).collect::<Vec<_>>();
    seen.sort();
    assert_eq!(seen, [("host-00010", true), ("host-00016", false)], "{:?}", document.drift);
    assert!(
        document.drift.iter().all(|one| one.runs == 10 && one.kernels == 1 && one.first_at < one.last_at)
    );
}

#[test]
fn every_query_says_what_it_answers_and_runs_by_hand() {
    for query in QUERIES {
        let about = query.about();
        assert!(about.ends_with('.') && about.len() > 15, "{}: {about}", query.name);
    }
    let refused = Query::named("nothing").unwrap_err().to_string();
    assert!(refused.contains("there is no such query; choose one of totals, "), "{refused}");
    if no_duckdb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bundles = fleet(folder.path(), 2, 1, |_| 1.0);
    let at = folder.path().join("store");
    store(&at, &[bundles], &Judge::default()).unwrap();
    for query in QUERIES {
        let ran =
            Command::new("duckdb").args(["-bail", "-c", &query.text()]).current_dir(&at).output().unwrap();
        assert!(ran.status.success(), "{}: {}", query.name, String::from_utf8_lossy(&ran.stderr));
    }
    let line = report(folder.path()).unwrap_err().to_string();
    assert!(line.ends_with(": it has no part-0001; fill one with isolator fleet store"), "{line}");
}
