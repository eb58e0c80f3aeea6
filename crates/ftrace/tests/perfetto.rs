// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of Perfetto beside the one of trace-cmd that they were made of
//! (crates/cli/tests/recorded/to_perfetto.py).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ftrace::EventName;
use ftrace::recorded::{AboutTrace, Trace, TracePart, is_trace};

fn seed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/traces").join(name)
}

/// Fields of numbers, and of texts, that a kernel's event has in either form.
const NUMBERS: [&str; 12] = [
    "prev_pid",
    "prev_prio",
    "prev_state",
    "next_pid",
    "next_prio",
    "pid",
    "target_cpu",
    "vec",
    "irq",
    "id",
    "softexpires",
    "now",
];
const TEXTS: [&str; 4] = ["prev_comm", "next_comm", "comm", "filename"];

#[derive(Debug, Default)]
struct Read {
    about: AboutTrace,
    /// One line an event, from its time to its fields.
    events: Vec<String>,
    /// The CPUs that lost some, and when.
    lost: Vec<(Option<u32>, u64)>,
    /// Functions of timers that are texts.
    functions: BTreeSet<String>,
    missing: Option<String>,
}

fn read(path: &Path) -> Read {
    let mut trace = Trace::open(path).unwrap();
    let mut read = Read { about: trace.about.clone(), ..Read::default() };
    while let Some(part) = trace.next_part().unwrap() {
        match part {
            TracePart::Lost { cpu, ns, .. } => read.lost.push((cpu, ns)),
            TracePart::Event(event) => {
                let fields = &event.fields;
                let numbers = NUMBERS.map(|field| fields.number(field).map(|number| number as i64));
                let texts = TEXTS.map(|field| fields.dynamic_text(field).or_else(|| fields.text(field)));
                let texts = texts.map(|text| text.filter(|text| !text.is_empty()));
                let arguments = fields.numbers("args");
                read.functions.extend(fields.text("function"));
                read.events.push(format!(
                    "{} {} {} {:?} {numbers:?} {texts:?} {arguments:?}",
                    event.ns, event.cpu, event.thread, event.name
                ));
            }
        }
    }
    read.missing = trace.missing().map(str::to_string);
    read
}

/// The events of the trace that the others were made of.
fn original() -> Vec<String> {
    read(&seed("version-6.dat")).events
}

#[test]
fn a_trace_of_perfetto_has_the_events_of_the_one_it_was_made_of() {
    let found = read(&seed("perfetto.pftrace"));
    let original = original();
    assert!(original.len() > 200);
    assert_eq!(found.events, original);
    assert!(found.functions.contains("hrtimer_wakeup"), "{:?}", found.functions);
    let about = &found.about;
    assert_eq!((about.format.as_str(), about.clock.as_deref()), ("trace of Perfetto", Some("mono")));
    assert_eq!((about.uname.as_deref(), about.cpus), (Some("6.18.44-rt"), Some(2)));
    assert!(about.threads.values().any(|name| name == "cyclictest"), "{:?}", about.threads);
    assert_eq!((found.missing, found.lost), (None, vec![]));
}

#[test]
fn compact_wakeups_and_switches_are_completed_from_the_ones_before() {
    let found = read(&seed("perfetto-compact.pftrace"));
    let mut original = original();
    // Nothing tells the thread before the first switch of a CPU.
    for cpu in [" 0 ", " 1 "] {
        let of_cpu = |event: &String| event[event.find(' ').unwrap()..].starts_with(cpu);
        let first = original.iter().position(|event| of_cpu(event) && event.contains(" Switch "));
        original.remove(first.unwrap());
    }
    assert_eq!(found.events.len(), original.len());
    let pairs = found.events.iter().zip(&original);
    let differ: Vec<_> = pairs.filter(|(one, other)| one != other).map(|(one, _)| one).collect();
    let is_of_scheduler = |event: &&String| event.contains(" Waking ") || event.contains(" Switch ");
    // Two of them before the first switches, and two at a place that the original was shortened at.
    assert!(differ.len() == 4 && differ.iter().all(is_of_scheduler), "{differ:#?}");
    assert_eq!((found.missing, found.lost), (None, vec![]));
}

#[test]
fn a_loss_comes_where_the_bundle_says_so_and_events_without_a_message_are_read() {
    let found = read(&seed("perfetto-lost.pftrace"));
    let original = original();
    assert_eq!(found.events, original);
    assert!(original.iter().any(|event| event.contains(" SoftirqEntry ")));
    let ns = |event: &String| event.split_once(' ').unwrap().0.parse::<u64>().unwrap();
    let (first, last) = (ns(&original[0]), ns(original.last().unwrap()));
    let [(Some(1), one_ns), (Some(0), other_ns)] = found.lost[..] else { panic!("{:?}", found.lost) };
    assert!(first < one_ns && one_ns < other_ns && other_ns < last);
    // Without the names of functions, the place of an address is not told as an address.
    assert_eq!(found.functions, BTreeSet::new());
}

/// A trace of these packets.
fn written(packets: &[Vec<u8>]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    packets.iter().for_each(|packet| file.write_all(&field(1, packet)).unwrap());
    file
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn number(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

/// A packet with a bundle of `softirq_raise` on a CPU at these times, after other fields of it.
fn bundle(cpu: u64, more: &[u8], times: &[u64]) -> Vec<u8> {
    let event = |ns: &u64| field(2, &[number(1, *ns), number(2, 7), field(26, &number(1, 3))].concat());
    let events: Vec<u8> = times.iter().flat_map(event).collect();
    [number(10, 2), field(1, &[number(1, cpu), more.to_vec(), events].concat())].concat()
}

fn times(read: &Read) -> Vec<u64> {
    read.events.iter().map(|event| event.split_once(' ').unwrap().0.parse().unwrap()).collect()
}

#[test]
fn events_of_all_cpus_come_in_the_order_of_time_from_when_all_have_them() {
    const PREVIOUS_END: u64 = 10;
    let file = written(&[
        bundle(0, &number(PREVIOUS_END, 100), &[110, 300]),
        bundle(1, &number(PREVIOUS_END, 200), &[210, 290]),
        bundle(0, &number(PREVIOUS_END, 300), &[310]),
        bundle(1, &number(PREVIOUS_END, 290), &[295]),
    ]);
    let read = read(file.path());
    assert_eq!(times(&read), [210, 290, 295, 300, 310]);
    assert_eq!((read.about.clock.as_deref(), read.missing), (Some("boot"), None));
}

#[test]
fn an_event_that_comes_too_late_for_the_window_counts_as_lost() {
    let text = vec![b'x'; 1 << 20];
    let print = |ns: u64| {
        let event = [number(1, ns), number(2, 7), field(3, &field(2, &text))].concat();
        [number(10, 2), field(1, &[number(1, 0), field(2, &event)].concat())].concat()
    };
    let mut file = written(&[]);
    for ns in 10..90 {
        file.write_all(&field(1, &print(ns))).unwrap();
    }
    file.write_all(&field(1, &bundle(1, &[], &[5, 6, 88]))).unwrap();
    let found = read(file.path());
    assert_eq!((times(&found).len(), found.lost.len()), (81, 1));
    let why = "2 events come too late in the file to be put in order";
    assert_eq!(found.missing.as_deref(), Some(why));
}

#[test]
fn another_clock_and_suspension_are_told() {
    let clocks = |mono: u64| {
        let clock = |id, ns| field(1, &[number(1, id), number(2, ns)].concat());
        field(6, &[clock(6, 9_000_000_000), clock(3, mono)].concat())
    };
    let clock = |packets: &[Vec<u8>]| read(written(packets).path()).about.clock.unwrap();
    let events = bundle(0, &[], &[1]);
    assert_eq!(clock(&[clocks(9_000_000_400), events.clone()]), "mono");
    assert_eq!(clock(&[clocks(9_000_000_400), clocks(8_000_000_000), events]), "boot");
    assert_eq!(clock(&[bundle(0, &number(5, 4), &[1])]), "mono_raw");
}

#[test]
fn described_events_are_read_by_their_names() {
    let of = |name: &str, place| field(2, &[field(1, name.as_bytes()), number(3, place)].concat());
    let descriptor = [field(1, b"page_fault_user"), of("address", 1), of("error_code", 4)].concat();
    let descriptor = field(11, &[number(1, 70_000), field(2, &descriptor)].concat());
    let event = [number(1, 5), number(2, 9), field(70_000, &[number(1, 77), number(4, 6)].concat())].concat();
    let file = written(&[bundle(0, &[descriptor, field(2, &event)].concat(), &[])]);
    let mut trace = Trace::open(file.path()).unwrap();
    let Some(TracePart::Event(event)) = trace.next_part().unwrap() else { panic!("no event") };
    assert_eq!((event.name, event.thread), (EventName::UserFault, 9));
    assert_eq!((event.fields.number("address"), event.fields.number("error_code")), (Some(77), Some(6)));
}

#[test]
fn a_trace_that_was_cut_or_damaged_ends_there() {
    let whole = fs::read(seed("perfetto.pftrace")).unwrap();
    let original = original();
    for length in (300..whole.len()).step_by(97) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&whole[..length]).unwrap();
        let Ok(mut trace) = Trace::open(file.path()) else { continue };
        let mut count = 0;
        while trace.next_part().unwrap().is_some() {
            count += 1;
        }
        assert!(count <= original.len());
        assert!(trace.missing().is_none_or(|why| why.starts_with("the trace ends early: ")));
        assert!(count == original.len() || trace.missing().is_some(), "{length}: {count}");
    }
    let damaged = written(&[bundle(0, &[], &[1]), bundle(0, &[0x0b], &[2])]);
    let read = read(damaged.path());
    assert_eq!(times(&read), [1]);
    assert_eq!(read.missing.as_deref(), Some("the trace ends early: a bundle is damaged"));
}

#[test]
fn a_text_that_begins_with_an_empty_line_is_none_of_perfettos() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"\n# tracer: nop\n#\n a-7 [001] d.h1. 1.000001: softirq_raise: vec=3\n").unwrap();
    assert_eq!(read(file.path()).about.format, "text of ftrace");
    assert!(is_trace(&seed("perfetto.pftrace")) && is_trace(&seed("perfetto-compact.pftrace")));
}
