// SPDX-License-Identifier: MIT OR Apache-2.0
//! A MainDevice and a simulated segment at the two ends of a wire of their own. Needs root and iproute2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ethercat::main_device::{CycleResult, MainDevice};
use ethercat::segment::Segment;
use ethercat::segment::fault::Fault;
use ethercat::simulate::{Simulation, SimulationOutcome};
use ethercat::wire::{Link, own_wire};
use rt::clock::monotonic_ns;

const PERIOD_NS: u64 = 4_000_000;
/// This machine may be busy: how long a frame may be away before the test says that it does not come.
const PATIENCE_NS: u64 = 500_000_000;
/// Fewer frames than real clocks get, so that tests are short.
const SETTLE: u32 = 500;

/// A simulated segment in a thread of its own.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<SimulationOutcome>>,
}

impl Running {
    fn start(segment: Segment, link: Link) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut simulation = Simulation::new(segment, link, None);
            simulation.run(&told).unwrap();
            simulation.did()
        });
        Running { stop, thread: Some(thread) }
    }

    fn end(mut self) -> SimulationOutcome {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Both ends, or why there are none here.
fn wire() -> Option<(Link, Link)> {
    match own_wire() {
        Ok(ends) => Some(ends),
        Err(why) if !rustix::process::geteuid().is_root() => {
            println!("skipped (77): {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// That many cycles, each as long as it takes.
fn cycles(main: &mut MainDevice, count: usize, patience_ns: u64) -> Vec<CycleResult> {
    let mut due_ns = monotonic_ns();
    let cycle = |_| {
        let now_ns = monotonic_ns();
        std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        let cycle = main.cycle(monotonic_ns() + patience_ns).unwrap();
        let ahead_ns = if let CycleResult::Back { ahead_ns, .. } = cycle { ahead_ns } else { 0 };
        due_ns = (due_ns + PERIOD_NS).saturating_add_signed(-ahead_ns).max(monotonic_ns());
        cycle
    };
    (0..count).map(cycle).collect()
}

fn is_good(cycle: &CycleResult) -> bool {
    matches!(cycle, CycleResult::Back { is_counter_right: true, is_op: true, .. })
}

#[test]
fn three_sub_devices_reach_op_and_every_working_counter_is_right() {
    let Some((main, segment)) = wire() else { return };
    let running = Running::start(Segment::new(3, 20_000, Vec::new()), segment);
    let mut main = MainDevice::start(main, PERIOD_NS, SETTLE).unwrap();
    assert_eq!(main.sub_devices(), 3);
    let done = cycles(&mut main, 100, PATIENCE_NS);
    assert_eq!(done.iter().filter(|cycle| is_good(cycle)).count(), 100, "{done:?}");
    for cycle in done {
        let CycleResult::Back { to_sync0_ns, .. } = cycle else { continue };
        assert!((1..=PERIOD_NS).contains(&to_sync0_ns), "{to_sync0_ns}");
    }
    // How far a clock runs off in the longest wait between two corrections: 20 ppm more than the one before,
    // of 500 ms.
    let most_ns = 20_000 * 2 * PATIENCE_NS as i64 / 1_000_000_000;
    for _ in 0..3 {
        let difference = main.clock_difference(monotonic_ns() + PATIENCE_NS).unwrap().unwrap();
        assert!(difference.abs() <= most_ns, "clocks that drift follow the reference: {difference} ns");
    }
    let did = running.end();
    assert!(did.sub_devices.iter().all(|device| device.state == "OP" && device.status_code == 0), "{did:?}");
    assert!(did.sub_devices.iter().all(|device| device.sync0_hits > 0), "{did:?}");
    assert_eq!((did.ignored, did.faults, did.not_sent), (0, 0, 0), "{did:?}");
}

#[test]
fn clocks_that_drift_differ_until_they_have_settled() {
    const TOO_FEW: u32 = 20;
    let Some((main, segment)) = wire() else { return };
    let running = Running::start(Segment::new(3, 20_000, Vec::new()), segment);
    let mut main = MainDevice::start(main, PERIOD_NS, TOO_FEW).unwrap();
    let differences: Vec<i64> =
        (0..3).map(|_| main.clock_difference(monotonic_ns() + PATIENCE_NS).unwrap().unwrap()).collect();
    assert!(
        differences.iter().any(|difference| *difference != 0),
        "clocks that drift differ: {differences:?}"
    );
    running.end();
}

#[test]
fn each_fault_is_seen_by_the_main_device() {
    let faults = ["lost@300", "late:250ms@310", "counter@320", "unplug:2@330"];
    let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let Some((main, segment)) = wire() else { return };
    let running = Running::start(Segment::new(3, 0, faults), segment);
    let mut main = MainDevice::start(main, PERIOD_NS, SETTLE).unwrap();
    // The way to OP took some of the 300 frames, never all of them. To wait for the lost one lasts longer
    // than the watchdogs: from there on the SubDevices are in SAFE-OP, where working counters are as in
    // OP.
    let done = cycles(&mut main, 340, 200_000_000);
    let places = |wanted: fn(&CycleResult) -> bool| -> Vec<usize> {
        (0..340).filter(|at| wanted(&done[*at])).collect()
    };
    let missing = places(|cycle| matches!(cycle, CycleResult::NotBack));
    let wrong = places(|cycle| matches!(cycle, CycleResult::Back { is_counter_right: false, .. }));
    assert_eq!(missing.len(), 2, "the lost one and the late one: {missing:?}");
    assert_eq!((missing[1] - missing[0], wrong[0] - missing[1]), (10, 10), "{missing:?} {wrong:?}");
    let unplugged: Vec<usize> = (wrong[0] + 10..340).collect();
    assert_eq!(wrong[1..], unplugged, "a wrong counter is wrong once, what is unplugged stays away");
    // The late one came in the meantime.
    assert_eq!(main.late_frames(), 1);
    let did = running.end();
    assert_eq!(did.faults, 4, "{did:?}");
    // The watchdogs of those that got no outputs any more brought them back.
    assert_eq!(did.sub_devices[2].state, "SAFE-OP", "{did:?}");
    assert_eq!(did.sub_devices[2].status_code, 0x1B);
}

#[test]
fn a_wire_without_sub_devices_says_so() {
    let Some((main, _segment)) = wire() else { return };
    let said = MainDevice::start(main, PERIOD_NS, SETTLE).err().unwrap().to_string();
    assert_eq!(
        said,
        "cannot bring the segment at main to OP: no SubDevice answers; look at cables and power"
    );
}

#[test]
fn a_second_main_device_on_the_wire_is_noticed_before_anything_is_sent() {
    let Some((main, segment)) = wire() else { return };
    let listen = Duration::from_millis(200);
    ethercat::interface::check_alone(&main, listen).unwrap();
    // What another MainDevice broadcasts: who is there?
    let mut frame = [0; 60];
    frame[..6].fill(0xFF);
    frame[6..14].copy_from_slice(&[0x01, 1, 1, 1, 1, 1, 0x88, 0xA4]);
    frame[14..18].copy_from_slice(&[0x0D, 0x10, 7, 0]);
    // Also by a thread that did not run while it was to listen.
    for listen in [listen, Duration::ZERO] {
        assert_eq!(segment.send(&frame).unwrap(), 60);
        let said = ethercat::interface::check_alone(&main, listen).unwrap_err().to_string();
        assert!(
            said.contains("another MainDevice is on the wire: EtherCAT frames of 01:01:01:01:01:01 pass"),
            "{said}"
        );
    }
}
