// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disturbed a series, as its taints.

use evidence::manifest::{Granted, RowKey};
use evidence::taint::{self, Taint};

/// The counter may be off by this much before a spin row is tainted.
const LARGEST_DRIFT: f64 = 1e-3;

/// What disturbed one series, as the measuring thread and the kernel saw it.
pub(crate) fn taints(key: &RowKey, granted: &Granted, drift: Option<f64>, lost: u64) -> Vec<Taint> {
    let taint = |code, reason: String, cure: &str| Taint {
        load: Some(key.load.clone()),
        cpu: Some(key.cpu),
        ..Taint::new(code, reason, cure)
    };
    let mut taints = Vec::new();
    let steal_ns = granted.steal_ns.unwrap_or(0);
    if steal_ns > 0 {
        let reason =
            format!("the hypervisor took {} ms from the {} probe's CPU", steal_ns / 1_000_000, key.probe);
        taints.push(taint(
            taint::STEAL,
            reason,
            "measure on the machine itself, or give the guest CPUs of its own",
        ));
    }
    let told = granted.ethercat.clone().unwrap_or_default();
    if told.wrong_counters > 0 || told.not_op > 0 {
        let reason = format!(
            "of {} EtherCAT cycles {} came back with a wrong working counter, {} while not every SubDevice was in OP",
            told.cycles, told.wrong_counters, told.not_op
        );
        taints.push(taint(taint::ETHERCAT, reason, "look at cables and SubDevices, or give a longer period"));
    }
    let faults = granted.page_faults.unwrap_or(0);
    if faults > 0 {
        let reason = format!("the {} probe's thread took {faults} page faults while it measured", key.probe);
        taints.push(taint(
            taint::PAGE_FAULTS,
            reason,
            "let it lock its memory: run as root or raise RLIMIT_MEMLOCK",
        ));
    }
    if lost > 0 {
        let reason =
            format!("{lost} wakeups were lost: the control thread was kept from its CPU for seconds");
        taints.push(taint(taint::SAMPLES_LOST, reason, "give --house-keeping a CPU that is less loaded"));
    }
    let drift = drift.unwrap_or(0.0);
    if drift.abs() > LARGEST_DRIFT {
        let reason = format!("the processor's counter ran {:+.3} % off CLOCK_MONOTONIC", drift * 100.0);
        taints.push(taint(taint::COUNTER_DRIFT, reason, "use a machine with an invariant counter"));
    }
    taints
}
