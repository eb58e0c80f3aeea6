// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the probe, and whole rows of it over memory.

use std::io::Write;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use evidence::kind::RowKind;
use evidence::manifest::ResponseSetup;
use machine::CpuSet;
use rt::thread;

use super::Medium::{Lines as LINES, Registers as REGISTERS, Shared as SHARED};
use super::generator::stood_still;
use super::*;
use crate::samples::{Sample, sample_ring};

const PERIOD: u64 = 200_000;

fn asked(response: ResponseSetup) -> Asked {
    Asked { cpus: CpuSet::from_iter([1]), response: Some(response), ..Asked::default() }
}

fn lines(board: Option<&str>, chip: Option<&str>) -> ResponseSetup {
    ResponseSetup {
        board: board.map(str::to_string),
        chip: chip.map(str::to_string),
        input: Some(17),
        output: Some(27),
        ..ResponseSetup::default()
    }
}

#[test]
fn the_options_choose_the_means() {
    let of = |response| means(&asked(response));
    assert_eq!(means(&Asked::default()), [SHARED]);
    assert_eq!(of(lines(Some("raspberry-pi-4"), None)), [REGISTERS]);
    assert_eq!(of(lines(Some("raspberry-pi-4"), Some("gpiochip0"))), [REGISTERS, LINES]);
    assert!(
        Medium::NAMES
            .iter()
            .all(|(name, medium)| RowKind::of(name).answers_edges() && medium.probe() == *name)
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_the_option_that_would_help() {
    let role = |role: &str, response| ResponseSetup { role: Some(role.into()), ..response };
    let pi = || lines(Some("raspberry-pi-4"), None);
    let cases = [
        (SHARED, pi(), "shared memory has no lines; give --in and --out with --board or --chip"),
        (
            SHARED,
            role("partner", ResponseSetup::default()),
            "there is no role 'partner'; choose from both, responder, generator",
        ),
        (
            SHARED,
            role("responder", ResponseSetup::default()),
            "no other program shares this program's memory; give --signal",
        ),
        (
            SHARED,
            ResponseSetup { signal: Some("f:x".into()), ..ResponseSetup::default() },
            "'x' is not an offset; give FILE:OFFSET",
        ),
        (REGISTERS, ResponseSetup { signal: Some("f".into()), ..pi() }, "--signal is shared memory"),
        (REGISTERS, role("both", pi()), "choose the role responder, or generator with a wire"),
        (REGISTERS, ResponseSetup { input: None, ..pi() }, "no lines were given; give --in and --out"),
        (
            REGISTERS,
            ResponseSetup { input: Some(27), ..pi() },
            "line 27 would be read and driven; give two lines",
        ),
        (REGISTERS, ResponseSetup { output: Some(58), ..pi() }, "it has lines 0 to 57; give another --out"),
        (REGISTERS, lines(None, Some("gpiochip0")), "no board is named; give --board"),
        (REGISTERS, lines(Some("pi"), None), "there is none of that name; choose from raspberry-pi-4"),
        (LINES, pi(), "no chip is named; give --chip, such as gpiochip0"),
    ];
    for (probe, response, why) in cases {
        let said = Wiring::of(probe, &asked(response)).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
    let two = Asked { cpus: CpuSet::from_iter([1, 2]), ..asked(pi()) };
    assert!(Wiring::of(REGISTERS, &two).unwrap_err().to_string().contains("give --cpus with one CPU"));
    let other = Asked { probes: vec!["toggle".into()], ..asked(pi()) };
    let said = Wiring::check(&other).unwrap_err().to_string();
    assert!(said.ends_with("they are the response probe's; measure response"), "{said}");
}

#[test]
fn a_signal_is_a_file_and_an_offset() {
    let by = |text| signal(text).unwrap();
    assert_eq!(by("/dev/shm/ivshmem"), EdgeMedium::Signal("/dev/shm/ivshmem".into(), 0));
    assert_eq!(by("/dev/shm/ivshmem:4096"), EdgeMedium::Signal("/dev/shm/ivshmem".into(), 4096));
    assert_eq!(by("/dev/shm/ivshmem:0x40"), EdgeMedium::Signal("/dev/shm/ivshmem".into(), 64));
    let mut colons = tempfile::Builder::new().prefix("0000:00:04.0").tempfile().unwrap();
    colons.write_all(&[0; 8]).unwrap();
    let name = colons.path().to_str().unwrap();
    assert_eq!(by(name), EdgeMedium::Signal(name.into(), 0));
    assert_eq!(by(&format!("{name}:4")), EdgeMedium::Signal(name.into(), 4));
}

/// A row that ends when it is stopped, and one that ends by itself, however seldom its threads have a CPU.
const ENDLESS: (u64, u64) = (1 << 40, u64::MAX);
const FIFTY: (u64, u64) = (1 << 40, 50);

/// A row by `wiring` on the last CPU, with the generator on another where there is one.
fn measured(wiring: Wiring, length: (u64, u64), stop: &AtomicBool) -> (Vec<Sample>, LoopOutcome) {
    measured_and_seen(wiring, length, stop, &AtomicUsize::new(0))
}

/// The same, with the number of its samples until now in `seen`.
fn measured_and_seen(
    wiring: Wiring,
    (length, loops): (u64, u64),
    stop: &AtomicBool,
    seen: &AtomicUsize,
) -> (Vec<Sample>, LoopOutcome) {
    let clock = Calibration::measure(Duration::from_millis(5)).unwrap();
    let (samples, mut arrivals) = sample_ring(PERIOD);
    let cpus = thread::affinity();
    let (here, there) = (cpus[cpus.len() - 1], cpus[0]);
    // A thread of its own: it goes to a CPU.
    std::thread::scope(|scope| {
        let body = || {
            let ready = ReadyResponse::new(&wiring, Some((there, Policy::Other)), here).unwrap();
            thread::set_affinity(&[here]).unwrap();
            let start_ns = monotonic_ns() + 10 * PERIOD;
            let end_ns = start_ns + length * PERIOD;
            let cycles = Cycles { period_ns: PERIOD, start_ns, end_ns, loops };
            ready.run(&cycles, &clock, u64::MAX, samples, stop)
        };
        let row = scope.spawn(body);
        let mut taken = Vec::new();
        loop {
            let is_over = row.is_finished();
            taken.extend(std::iter::from_fn(|| arrivals.take()));
            seen.store(taken.len(), Ordering::SeqCst);
            if is_over {
                return (taken, row.join().unwrap());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

fn file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8192).unwrap();
    file
}

fn by_file(file: &tempfile::NamedTempFile, role: &str) -> Wiring {
    let signal = format!("{}:4096", file.path().display());
    let response =
        ResponseSetup { role: Some(role.into()), signal: Some(signal), ..ResponseSetup::default() };
    Wiring::of(SHARED, &asked(response)).unwrap()
}

#[test]
fn edges_of_another_cpu_are_answered_by_own_memory_and_by_a_file_s() {
    let file = file();
    let own = Wiring::of(SHARED, &Asked::default()).unwrap();
    for wiring in [own, by_file(&file, "both")] {
        let (samples, told) = measured(wiring, FIFTY, &AtomicBool::new(false));
        assert!(told.failed.is_none() && told.note.is_none(), "{told:?}");
        assert!(!samples.is_empty());
        for pair in samples.windows(2) {
            assert!(pair[0].woke_ns >= pair[0].due_ns && pair[0].woke_ns <= pair[1].due_ns, "{pair:?}");
        }
    }
    let bytes = std::fs::read(file.path()).unwrap();
    assert_eq!(bytes[4096], bytes[4096 + SIGNAL_APART], "every edge was answered");
    assert!(bytes[..4096].iter().all(|byte| *byte == 0));
}

#[test]
fn a_generator_and_a_responder_that_share_a_file_measure_each_other() {
    let (file, stop, seen) = (file(), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let responder = scope.spawn(|| measured_and_seen(by_file(&file, "responder"), ENDLESS, &stop, &seen));
        // On a busy machine the responder may come to its CPU, or be done with warming up, after fifty edges.
        let given = || measured(by_file(&file, "generator"), FIFTY, &AtomicBool::new(false));
        let both = |given: &[Sample]| !given.is_empty() && seen.load(Ordering::SeqCst) > 0;
        let (given, told) =
            std::iter::repeat_with(given).take(100).find(|(given, _)| both(given)).unwrap_or_default();
        stop.store(true, Ordering::SeqCst);
        assert!(told.failed.is_none() && !given.is_empty(), "{told:?}");
        let (answered, told) = responder.join().unwrap();
        assert!(told.failed.is_none() && !answered.is_empty(), "{told:?}");
    });
}

#[test]
fn a_row_without_any_edge_or_answer_fails_with_the_cure() {
    let file = file();
    let cases = [
        ("responder", (1000, u64::MAX), "connect the generator to --in and start it first"),
        ("generator", ENDLESS, "connect --out to --in, or start the responder first"),
    ];
    for (role, length, cure) in cases {
        let (samples, told) = measured(by_file(&file, role), length, &AtomicBool::new(false));
        let said = told.failed.unwrap().to_string();
        assert!(samples.is_empty() && said.ends_with(cure), "{said}");
    }
}

#[test]
fn leaves_no_thread_if_stopped_before_it_begins() {
    let file = file();
    let own = Wiring::of(SHARED, &Asked::default()).unwrap();
    for wiring in [own, by_file(&file, "both"), by_file(&file, "responder"), by_file(&file, "generator")] {
        let (_, told) = measured(wiring.clone(), ENDLESS, &AtomicBool::new(true));
        assert!(told.failed.is_none(), "{wiring:?} {told:?}");
    }
}

#[test]
fn a_generator_that_no_cpu_has_and_a_row_that_never_begins_are_told() {
    let own = Wiring::of(SHARED, &Asked::default()).unwrap();
    let said = ReadyResponse::new(&own, Some((1023, Policy::Other)), 0).unwrap_err().to_string();
    assert!(said.starts_with("cannot run on cpus [1023]"), "{said}");
    assert!(ReadyResponse::new(&own, None, 0).is_err());
    let never_begun = ReadyResponse::new(&own, Some((thread::affinity()[0], Policy::Other)), 0).unwrap();
    let done = Arc::clone(&never_begun.generator.as_ref().unwrap().done);
    drop(never_begun);
    while !done.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

#[test]
fn where_the_generator_stood_still_itself_is_said() {
    let heard = GeneratorCounts { answers: 9, stood_still: 2, longest_ns: 4_000_000 };
    let note = stood_still(3, &heard, 100_000).unwrap();
    assert!(note.starts_with(
        "in 2 samples the generator on cpu 3 itself stood still for longer than 100 us, 4,000 us"
    ));
    assert_eq!(stood_still(3, &GeneratorCounts { stood_still: 0, ..heard }, 100_000), None);
}
