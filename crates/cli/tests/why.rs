// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator why`: its text and JSON for a bundle, and its refusals.

use std::fs;
use std::path::Path;

use crate::common::{bundle, conforms, folder, isolator, skipped_for_lack_of_cpus};
use serde_json::{Value, json};

/// A measured bundle with spikes that are put in afterwards; the row's CPU.
pub fn with_spikes(
    folder: &Path,
    name: &str,
    collector: Option<&str>,
    spikes: &[(u64, Value, Option<u64>)],
) -> u64 {
    let path = bundle(folder, name, &["--quiet"]);
    let mut manifest: Value = serde_json::from_slice(&fs::read(path.join("manifest.json")).unwrap()).unwrap();
    let row = manifest["rows"][0].clone();
    let line = |(place, (latency_ns, causes, unexplained_ns)): (usize, &(u64, Value, Option<u64>))| {
        let spike = json!({
            "probe": row["probe"], "load": row["load"], "cpu": row["cpu"], "period_ns": row["period_ns"],
            "at_ns": 1_000_000 * place, "monotonic_ns": 5_000_000 + place, "latency_ns": latency_ns, "missed": 0,
            "wall_time": "2026-03-01T14:03:22.118204511Z", "causes": causes, "unexplained_ns": unexplained_ns,
        });
        spike.to_string() + "\n"
    };
    fs::write(path.join("spikes.jsonl"), spikes.iter().enumerate().map(line).collect::<String>()).unwrap();
    manifest["rows"][0]["spikes"] = json!(spikes.len());
    manifest["rows"][0]["spikes_not_listed"] = json!(0);
    manifest["causes"] = collector.map_or(
        Value::Null,
        |name| json!({ "collector": name, "could_not_see": ["firmware: no counter"], "lost_events": 3 }),
    );
    fs::write(path.join("manifest.json"), manifest.to_string()).unwrap();
    row["cpu"].as_u64().unwrap()
}

pub fn pictured() -> (u64, Value, Option<u64>) {
    let sender = json!({ "cpu": 0, "pid": 4211, "comm": "echo", "function": "do_sync_core", "call_site": "text_poke_bp_batch" });
    let causes = json!([
        { "kind": "irq", "name": "45 nvme0q3", "begin_ns": 1_100, "duration_ns": 3_900 },
        { "kind": "kthread", "name": "kworker/3:1H", "begin_ns": 5_000, "duration_ns": 402_200, "detail": "woken by irq 45" },
        { "kind": "ipi", "name": "call function do_sync_core", "begin_ns": 407_300, "duration_ns": 1_200, "entry_exit_ns": 900, "sender": sender },
    ]);
    (412_000, causes, Some(4_700))
}

#[test]
fn a_spike_is_a_timeline_and_the_json_is_what_others_rely_on() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let small = (
        150_000,
        json!([{ "kind": "tick", "name": "sched_timer", "begin_ns": 0, "duration_ns": 100_000 }]),
        Some(50_000),
    );
    let cpu = with_spikes(folder.path(), "b", Some("bpf"), &[small, pictured()]);

    let first = isolator(folder.path(), &["why", "b"]).ended(0).stdout;
    assert!(first.contains("402.2 us  kernel thread kworker/3:1H, woken by irq 45"), "{first}");
    assert!(first.contains("advice: ") && first.contains("  unexplained 4.7 us (1.1 %)"), "{first}");
    assert!(!first.contains("not seen: ") && first.contains("isolator why --all"), "{first}");
    assert!(first.lines().count() <= 23, "{first}");
    assert!(first.ends_with("next: isolator tune plan --json plan.json\n"), "{first}");
    let told = isolator(folder.path(), &["why", "b", "--all"]).ended(0).stdout;
    for part in [
        "2 spikes; causes collected by bpf; 3 events were lost".to_string(),
        "not seen: firmware: no counter".to_string(),
        format!("spike 412 us · cpu {cpu} · load idle · 14:03:22.118204511"),
        "       1.1 us  i irq 45 nvme0q3".to_string(),
        "402.2 us  woken by irq 45".to_string(),
        "sent by cpu 0 `echo` (pid 4211) in text_poke_bp_batch, with 0.9 us".to_string(),
        "     412.0 us    program runs   unexplained 4.7 us (1.1 %)".to_string(),
        "more than a tenth of this spike is unexplained".to_string(),
        format!("advice: move irq 45 off cpu {cpu}"),
    ] {
        assert!(told.contains(&part), "{part}\n{told}");
    }

    let document = isolator(folder.path(), &["why", "b", "--json", "--quiet"]).ended(0).json();
    conforms(&document, "why");
    assert_eq!((&document["collector"], &document["lost_events"]), (&json!("bpf"), &json!(3)));
    let spike = &document["spikes"][0];
    assert_eq!(
        (&spike["length_ns"], &spike["cpu"], &spike["load"]),
        (&json!(412_000), &json!(cpu), &json!("idle"))
    );
    assert_eq!((&spike["unexplained_ns"], &spike["time_ns"]), (&json!(4_700), &json!(5_000_001)));
    assert_eq!(spike["causes"][2]["sender"]["call_site"], "text_poke_bp_batch");
    let explained: u64 =
        spike["causes"].as_array().unwrap().iter().filter_map(|cause| cause["duration_ns"].as_u64()).sum();
    assert_eq!(explained + 4_700, 412_000);
    let most = &document["by_cause"][0];
    assert_eq!(
        (&most["kind"], &most["name"], &most["count"]),
        (&json!("kthread"), &json!("kworker/3:1H"), &json!(1))
    );
    assert_eq!((&most["total_ns"], &most["max_ns"]), (&json!(402_200), &json!(402_200)));

    let one = isolator(folder.path(), &["why", "b", "--top", "1", "--json", "--quiet"]).ended(0).json();
    assert_eq!((one["spikes"].as_array().unwrap().len(), &one["spikes_listed"]), (1, &json!(2)));
    let report = isolator(folder.path(), &["report", "b", "--quiet", "-o", "r.html"]);
    assert!(matches!(report.status, Some(0 | 2)), "{report:#?}");
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains(r#"<section id="why">"#) && page.contains("text_poke_bp_batch"));

    let refused = isolator(folder.path(), &["why", "b", "--cpu", "977"]).line();
    assert_eq!(
        refused,
        format!("cannot show cpu 977: the bundle measured {cpu}; choose from these with --cpu")
    );
    let refused = isolator(folder.path(), &["why", "b", "--load", "gpu"]).line();
    assert_eq!(refused, "cannot show load gpu: the bundle measured idle; choose from these with --load");
    let few = isolator(folder.path(), &["why", "b", "--top", "-1"]).line();
    assert!(few.starts_with("cannot use '-1' for --top: "), "{few}");
}

#[test]
fn without_spikes_or_causes_it_says_so() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    with_spikes(folder.path(), "none", Some("tracefs"), &[]);
    let told = isolator(folder.path(), &["why", "none"]).ended(0).stdout;
    assert!(told.contains("0 spikes") && told.contains("there is nothing to explain"), "{told}");
    with_spikes(folder.path(), "bare", None, &[(200_000, json!([]), None)]);
    let told = isolator(folder.path(), &["why", "bare"]).ended(0).stdout;
    assert!(
        told.contains("1 spike; no causes collected") && told.contains("--causes auto, as root"),
        "{told}"
    );
}

#[test]
fn another_tools_bundle_has_no_causes_and_says_whose_it_is() {
    let folder = folder();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exchange/tests/fixtures/import");
    let path = fixtures.join("cyclictest-2.6.json");
    isolator(folder.path(), &["import", path.to_str().unwrap(), "--load", "idle", "-o", "theirs"]).ended(0);
    let ran = isolator(folder.path(), &["why", "theirs", "--json"]).ended(0);
    let document = ran.json();
    conforms(&document, "why");
    assert_eq!((&document["collector"], &document["spikes"]), (&Value::Null, &json!([])));
    assert!(ran.stderr.contains("cyclictest measured this and keeps no causes"), "{ran:#?}");
}

#[test]
fn what_is_no_bundle_is_refused_in_one_line() {
    let folder = folder();
    let line = isolator(folder.path(), &["why", "nowhere"]).line();
    assert!(line.contains("nowhere"), "{line}");
    let lacks = isolator(folder.path(), &["why"]).line();
    assert_eq!(lacks, "isolator why lacks <BUNDLE|TRACE>; see isolator why --help");
}

#[test]
fn counters_name_suspects_without_times_for_anybody() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    bundle(folder.path(), "b", &["--causes", "counters", "--threshold", "1us", "--quiet"]);
    let ran = isolator(folder.path(), &["why", "b", "--all", "--json"]).ended(0);
    let document = ran.json();
    conforms(&document, "why");
    assert_eq!(document["collector"], "counters");
    assert!(ran.stderr.contains("not seen: times: counters name"), "{ran:#?}");
    let spikes = document["spikes"].as_array().unwrap();
    assert!(!spikes.is_empty(), "nothing wakes within 1 us: {document:#}");
    let causes = || spikes.iter().flat_map(|spike| spike["causes"].as_array().unwrap());
    assert!(causes().all(|cause| cause["duration_ns"].is_null() && cause["count"].as_u64() > Some(0)));
    assert!(spikes.iter().all(|spike| spike["unexplained_ns"].is_null()), "suspects explain nothing");
    if fs::read_to_string("/proc/interrupts").is_ok_and(|text| text.contains("CPU0")) {
        assert!(causes().next().is_some(), "{document:#}");
    }
    bundle(folder.path(), "off", &["--causes", "off", "--threshold", "1us", "--quiet"]);
    let off = isolator(folder.path(), &["why", "off", "--json", "--quiet"]).ended(0).json();
    assert_eq!((&off["collector"], &off["by_cause"]), (&Value::Null, &json!([])));
}
