// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of Perfetto, made of a trace of trace-cmd by its own messages, and read by its own engine, too.

use std::collections::BTreeMap;
use std::path::Path;

use ftrace::EventName;
use ftrace::recorded::{Trace, TracePart};
use serde_json::{Value, json};

use super::{is_about, recorded, row, seed, skipped_here};
use crate::common::perfetto::{answers, made, skipped_for_lack_of_messages};
use crate::common::{folder, isolator};

#[test]
fn a_trace_of_perfetto_has_the_cycles_of_the_one_of_trace_cmd() {
    skip_if!(skipped_here() || skipped_for_lack_of_messages());
    let folder = folder();
    let at = folder.path();
    skip_if!(!recorded(at));
    let exact = row(at, "trace.dat");
    assert!(exact["count"].as_u64().unwrap() > 100, "{exact}");
    for (name, pass_ms, forms) in [
        ("whole", 10_000, &["symbols"][..]),
        ("compact", 10_000, &["symbols", "compact", "zlib"]),
        ("passes", 100, &["symbols"]),
        ("addresses", 100, &["generic"]),
    ] {
        made(&at.join("trace.dat"), pass_ms, forms, &at.join(name));
        let found = row(at, name);
        // A compact one lacks the first switch of each CPU. A timer that is started in one pass, and expires
        // in the next, is another one by then.
        match pass_ms {
            100 => {
                let count = |row: &Value| row["count"].as_u64().unwrap();
                assert!(count(&found).abs_diff(count(&exact)) <= 2, "{name}: {found} {exact}");
            }
            _ => is_about(&found, &exact),
        }
    }
    let why = isolator(at, &["why", "passes", "--thread", "cyclictest", "--json"]).ended(0).json();
    assert!(why.to_string().contains("cyclictest"), "{why}");
}

/// The slices of threads on CPU 1 in a trace: CPU, begin, length, thread and name, as they are read here.
fn slices(trace: &Path) -> Vec<Value> {
    let mut trace = Trace::open(trace).unwrap();
    let mut running: BTreeMap<u32, (u64, u32, String)> = BTreeMap::new();
    let mut slices = Vec::new();
    while let Some(part) = trace.next_part().unwrap() {
        let TracePart::Event(event) = part else { continue };
        if event.name == EventName::Switch && event.cpu == 1 {
            let (next, name) = (event.fields.small("next_pid"), event.fields.text("next_comm"));
            let ends = running.insert(event.cpu, (event.ns, next.unwrap(), name.unwrap()));
            if let Some((ns, thread, name)) = ends.filter(|(_, thread, _)| *thread != 0) {
                slices.push((ns, json!([event.cpu, ns, event.ns - ns, thread, name])));
            }
        }
    }
    assert_eq!(trace.missing(), None);
    slices.sort_by_key(|(ns, _)| *ns);
    slices.into_iter().map(|(_, slice)| slice).collect()
}

#[test]
fn perfettos_engine_and_the_reader_find_the_same_slices_of_threads() {
    for name in ["perfetto.pftrace", "perfetto-compact.pftrace"] {
        let folder = folder();
        let trace = folder.path().join(name);
        std::fs::write(&trace, seed(name)).unwrap();
        let sched = "select cpu, ts, dur, tid, thread.name from sched join thread using (utid) \
                     where cpu = 1 and dur > 0 and tid > 0 order by ts";
        // The trace that the seeds were made of was shortened at a place of the other CPU.
        let errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0 \
                      and name != 'mismatched_sched_switch_tids'";
        let Some(found) = answers(&trace, &[sched, errors]) else { return };
        assert_eq!(found[1], json!([]), "{name}");
        let slices = slices(&trace);
        assert!(slices.len() > 10, "{name}: {slices:?}");
        assert_eq!(found[0], Value::from(slices), "{name}");
    }
}
