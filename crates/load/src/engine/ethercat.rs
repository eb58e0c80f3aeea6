// SPDX-License-Identifier: MIT OR Apache-2.0
//! A MainDevice that exchanges process data each millisecond, by the clock of the segment's reference
//! SubDevice: on a given interface, or with three simulated SubDevices on a wire of its own.
//!
//! Figures: `ethercat_cycles` whose frame came back with the right working counter; where there were any,
//! `ethercat_cycles_wrong`, the others.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ethercat::interface;
use ethercat::main_device::{CycleResult, MainDevice, SETTLE};
use ethercat::simulate::on_own_wire;
use ethercat::wire::Link;

use super::{report, sharp_timers, spawn};

const PERIOD: Duration = Duration::from_millis(1);

pub fn run(device: Option<&str>, is_forced: bool) -> Result<(), String> {
    let link = match device {
        // Whether it may be used was checked before; whether it is in use shows only now.
        Some(name) => interface::take(name, is_forced).map_err(|why| why.to_string())?,
        None => simulated()?,
    };
    let period_ns = PERIOD.as_nanos() as u64;
    let mut main = MainDevice::start(link, period_ns, SETTLE).map_err(|why| why.to_string())?;
    let (right, wrong) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&right), Arc::clone(&wrong));
    spawn("ethercat-report", move || {
        // No reader: the supervisor is gone, and this process ends too.
        let _ = report(|| {
            let mut figures = BTreeMap::from([("ethercat_cycles", counts.0.load(Ordering::Relaxed))]);
            let wrong = counts.1.load(Ordering::Relaxed);
            figures.extend((wrong > 0).then_some(("ethercat_cycles_wrong", wrong)));
            figures
        });
    })?;
    sharp_timers();
    loop {
        let cycle = main.paced_cycle().map_err(|why| why.to_string())?;
        let is_right = matches!(cycle, CycleResult::Back { is_counter_right: true, .. });
        if is_right { &right } else { &wrong }.fetch_add(1, Ordering::Relaxed);
    }
}

fn simulated() -> Result<Link, String> {
    let (main, mut simulation) = on_own_wire().map_err(|why| why.to_string())?;
    spawn("ethercat-segment", move || {
        // Where it ends, no frame comes back: that is counted, and no cycle is right any more.
        let _ = simulation.run(&AtomicBool::new(false));
    })?;
    Ok(main)
}
