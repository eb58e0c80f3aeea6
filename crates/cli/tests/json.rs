// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON that other programs rely on: alone on standard output, and as the published schemas say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::*;
use serde_json::Value;

/// A field and whether its value is of the right kind.
type Field<'a> = (&'a str, fn(&Value) -> bool);

#[track_caller]
fn has(value: &Value, fields: &[Field]) {
    for (name, right) in fields {
        assert!(value.get(*name).is_some_and(*right), "{name} is missing or of another type in {value:#}");
    }
}

/// The names that the project promised.
#[track_caller]
fn has_the_fixed_names_of_a_run(document: &Value) {
    has_the_fixed_names(document, false);
}

/// The same; figures that another tool's file lacks are null.
#[track_caller]
fn has_the_fixed_names(document: &Value, is_imported: bool) {
    has(
        document,
        &[
            ("schema_version", Value::is_u64),
            ("verdict", Value::is_object),
            ("taints", Value::is_array),
            ("rows", Value::is_array),
            ("bundle", Value::is_string),
        ],
    );
    let limit = |value: &Value| value.is_u64() || value.is_null();
    has(
        &document["verdict"],
        &[("held", Value::is_boolean), ("limit_ns", limit), ("reasons", Value::is_array)],
    );
    let rows = document["rows"].as_array().unwrap();
    assert!(!rows.is_empty(), "{document:#}");
    for row in rows {
        has(row, &[("probe", Value::is_string), ("load", Value::is_string), ("cpu", Value::is_u64)]);
        let counts = ["count", "missed", "min_ns", "max_ns"];
        has(row, &counts.map(|name| (name, Value::is_u64 as fn(&Value) -> bool)));
        for name in ["p50_ns", "p99_ns", "p99_9_ns", "p99_999_ns", "mean_ns", "stddev_ns"] {
            let is_known = row[name].is_number() || is_imported && row.get(name) == Some(&Value::Null);
            assert!(is_known, "{name} is missing or of another type in {row:#}");
        }
    }
}

#[test]
fn the_published_reference_is_what_the_program_writes() {
    // Pages by name, without those that people write.
    let pages = |folder: &Path| {
        let files = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        let pages = files.map(|file| {
            let file = file.unwrap();
            (file.file_name(), fs::read_to_string(file.path()).unwrap())
        });
        pages.filter(|(_, text)| text.contains("Written by make docs")).collect::<BTreeMap<_, _>>()
    };
    let (published, written) = (pages(&reference()), pages(&generated().join("reference")));
    assert!(published.keys().eq(written.keys()), "run make docs, or delete a page that it no longer writes");
    for (name, text) in &written {
        assert_eq!(&published[name], text, "run make docs: {}", Path::new(name).display());
    }
    assert!(generated().join("man/isolator-prove.1").exists());
    assert!(generated().join("completions/_isolator").exists());
}

#[test]
fn each_listed_schema_is_written_and_valid() {
    let page = fs::read_to_string(reference().join("json.md")).unwrap();
    let listed: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(listed.len() > 20, "{listed:?}");
    for name in listed {
        let schema = read(&generated().join("schema").join(name));
        jsonschema::validator_for(&schema).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn a_proof_is_json_alone_on_standard_output_and_the_same_in_a_file() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let args = ["--loads", "idle", "--probe", "wakeup,spin", "--json", "-"];
    let ran = isolator(folder.path(), &short("b", &args)).judged();
    let document = ran.json();
    conforms(&document, "prove");
    has_the_fixed_names_of_a_run(&document);
    assert_eq!(document["missing"], serde_json::json!([]), "{document:#}");
    assert_eq!(document["rows"].as_array().map(Vec::len), Some(2), "{document:#}");
    assert!(ran.stderr.contains("==> "), "the table goes to standard error: {ran:#?}");

    // Of the same bundle every output says the same.
    isolator(folder.path(), &["report", "b", "--quiet", "--json", "again.json"]).judged();
    assert_eq!(read(&folder.path().join("again.json")), document);
    let bundle = folder.path().join("b");
    conforms(&read(&bundle.join("manifest.json")), "manifest");
    conforms(&read(&bundle.join("verdict.json")), "verdict");
    let verdict = read(&bundle.join("verdict.json"));
    for (name, value) in document["verdict"].as_object().unwrap() {
        assert_eq!(&verdict[name], value, "{name}");
    }
    assert_eq!((&verdict["taints"], &verdict["use"]), (&document["taints"], &document["use"]));
    for spike in fs::read_to_string(bundle.join("spikes.jsonl")).unwrap().lines() {
        conforms(&serde_json::from_str(spike).unwrap(), "spike");
    }
    let exported = isolator(folder.path(), &["export", "b", "--as", "json"]).ended(0).json();
    conforms(&exported, "export");
    assert_eq!(exported["rows"], document["rows"]);
}

#[test]
fn one_probe_alone_gives_the_same_document() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    for probe in ["wakeup", "spin"] {
        let mut args = short(probe, &["--quiet", "--json"]);
        args.splice(0..1, ["measure", probe]);
        let ran = isolator(folder.path(), &args).judged();
        conforms(&ran.json(), "prove");
        has_the_fixed_names_of_a_run(&ran.json());
        assert_eq!((&ran.json()["rows"][0]["probe"], ran.stderr.as_str()), (&probe.into(), ""));
    }
}

#[test]
fn json_in_a_file_leaves_standard_output_to_the_table() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let ran = isolator(folder.path(), &short("b", &["--json", "out.json"])).judged();
    assert!(ran.stdout.contains("==> ") && !ran.stdout.contains('{'), "{ran:#?}");
    conforms(&read(&folder.path().join("out.json")), "prove");
}

#[test]
fn a_comparison_is_json_whether_it_was_refused_or_not() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    bundle(folder.path(), "a", &[]);
    bundle(folder.path(), "b", &[]);
    bundle(folder.path(), "c", &["--priority", "70"]);
    let compare =
        |args: &[&str]| isolator(folder.path(), &[&["compare", "--json", "--quiet"], args].concat());

    let alike = compare(&["a", "b"]).ended(0).json();
    conforms(&alike, "compare");
    has(&alike, &[("comparable", |v| *v == true), ("differences", |v| *v == serde_json::json!([]))]);
    let rows = alike["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "{alike:#}");
    for row in rows {
        has(row, &[("probe", Value::is_string), ("load", Value::is_string), ("cpu", Value::is_u64)]);
        has(row, &[("before", Value::is_number), ("after", Value::is_number)]);
        has(row, &[("change_percent", |v| v.is_number() || v.is_null())]);
        has(row, &[("interval_percent", |v| v.is_array() || v.is_null())]);
    }

    let refused = compare(&["a", "c"]);
    conforms(&refused.json(), "compare");
    assert_eq!(refused.json()["comparable"], false);
    assert_eq!(refused.json()["rows"], serde_json::json!([]));
    let differences = serde_json::json!([{"field": "priority", "before": "80", "after": "70"}]);
    assert_eq!(refused.json()["differences"], differences);
    assert_eq!(
        refused.line(),
        "cannot compare a with c: not the same was asked: priority 80 before but 70 after; measure both alike, or compare unlike runs with --force"
    );

    let forced = compare(&["a", "c", "--force"]).ended(0).json();
    assert_eq!((&forced["comparable"], &forced["forced"]), (&false.into(), &true.into()));
    assert_eq!((&forced["differences"], forced["rows"].as_array().map(Vec::len)), (&differences, Some(6)));
}

#[test]
fn imports_and_lists_of_loads_are_json_too() {
    let folder = folder();
    fs::write(folder.path().join("t.txt"), "T: 0 ( 1) P:80 I:1000 C: 10 Min: 1 Act: 2 Avg: 2 Max: 5\n")
        .unwrap();
    let imported = isolator(folder.path(), &["import", "t.txt", "--json", "-"]).ended(0).json();
    conforms(&imported, "prove");
    has_the_fixed_names(&imported, true);
    assert_eq!((&imported["bundle"], &imported["rows"][0]["max_ns"]), (&"evidence/t".into(), &5000.into()));

    let listed = isolator(folder.path(), &["load", "--list", "--json"]).ended(0).json();
    conforms(&listed, "load-list");
    assert_eq!(listed["loads"][0]["name"], "idle");

    let loaded =
        isolator(folder.path(), &["load", "timers", "--duration", "1s", "--cpus", "0", "--json", "--quiet"]);
    conforms(&loaded.json(), "load");
    if !skipped(loaded.stderr.contains("its supervisor did not run"), &loaded.stderr) {
        loaded.ended(0);
    }
}

#[test]
fn a_result_that_goes_through_a_link_leaves_it_a_link() {
    let folder = folder();
    fs::write(folder.path().join("t.txt"), "T: 0 ( 1) P:80 I:1000 C: 10 Min: 1 Act: 2 Avg: 2 Max: 5\n")
        .unwrap();
    fs::write(folder.path().join("real.json"), "").unwrap();
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink("real.json", &link).unwrap();
    isolator(folder.path(), &["import", "t.txt", "--json", "link.json"]).ended(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    conforms(&read(&folder.path().join("real.json")), "prove");
}
