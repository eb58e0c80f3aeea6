// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole run by a program that is not `isolator`.

use std::path::Path;

use evidence::cause::Choice;
use evidence::manifest::{Asked, RunState};
use run::RunSpec;

#[test]
fn a_spec_becomes_a_bundle() {
    let machine = inspect::read(Path::new("/"));
    if machine.online().len() < 2 {
        println!("skipped (77): one CPU is measured, and another one does the housekeeping");
        return;
    }
    let asked = Asked {
        probes: vec!["wakeup".into(), "spin".into()],
        loads: vec!["idle".into()],
        policy: Some("other".into()),
        duration_ns: Some(300_000_000),
        warm_up_ns: Some(0),
        causes: Some(Choice::Off),
        ..Asked::default()
    };
    let spec = RunSpec::of(run::complete(asked, &machine)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bundle = run::prove(&spec, &folder.path().join("bundle")).unwrap();
    let probes: Vec<_> = bundle.rows.iter().map(|row| row.entry.key.probe.as_str()).collect();
    assert_eq!(probes, ["wakeup", "spin"]);
    assert!(bundle.rows.iter().all(|row| row.series.latency.count() > 0));
    assert_eq!((bundle.manifest.state, bundle.missing.len()), (RunState::Finished, 0));
    assert_eq!(bundle.manifest.asked, spec.asked);
    // An ordinary policy proves nothing.
    assert!(!evidence::Verdict::of(&bundle).held);
}
