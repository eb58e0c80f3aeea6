// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of LTTng: two that lttng-modules 2.17 and lttng-tools 2.13 recorded in a guest with Linux 6.1, the
//! second with two buffers of a page for each CPU, and some that are made here.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ftrace::EventName;
use ftrace::recorded::{AboutTrace, Trace, TracePart, is_trace};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[derive(Debug, Default)]
struct Read {
    about: AboutTrace,
    /// The time, the CPU, the thread and the name of each event.
    events: Vec<(u64, u32, u32, EventName)>,
    lost: Vec<(Option<u32>, u64, u64)>,
    missing: Option<String>,
}

fn read(path: &Path) -> Read {
    let mut trace = Trace::open(path).unwrap();
    let mut read = Read { about: trace.about.clone(), ..Read::default() };
    while let Some(part) = trace.next_part().unwrap() {
        match part {
            TracePart::Event(event) => read.events.push((event.ns, event.cpu, event.thread, event.name)),
            TracePart::Lost { cpu, ns, count } => read.lost.push((cpu, ns, count)),
        }
    }
    read.missing = trace.missing().map(str::to_string);
    read
}

#[test]
fn the_session_and_its_kernel_part_are_the_same_trace_in_the_order_of_time() {
    let (session, kernel) = (read(&fixture("lttng")), read(&fixture("lttng/kernel")));
    assert_eq!(session.events, kernel.events);
    assert!(session.events.is_sorted_by_key(|(ns, ..)| *ns));
    let AboutTrace { format, uname, clock, .. } = &session.about;
    assert_eq!(format, "trace of LTTng, CTF 1.8");
    assert_eq!(uname.as_deref(), Some("Linux robot 6.1.0-57-cloud-amd64"));
    assert_eq!((clock.as_deref(), &session.missing, session.lost.len()), (Some("mono"), &None, 0));
    let mut counts: BTreeMap<EventName, usize> = BTreeMap::new();
    session.events.iter().for_each(|(.., name)| *counts.entry(*name).or_default() += 1);
    let count = |name| counts.get(&name).copied().unwrap_or(0);
    assert_eq!(session.events.len(), 727);
    assert_eq!(count(EventName::TimerExpires), count(EventName::TimerExpired));
    assert!(count(EventName::Switch) > 50 && count(EventName::CallEntry) > 20, "{counts:?}");
    // A call comes from the thread that has the CPU since the last switch.
    let calls = session.events.iter().filter(|(.., name)| *name == EventName::CallEntry);
    let last = calls.map(|(_, _, thread, _)| *thread).next_back();
    assert!(last.is_some_and(|thread| thread > 0));
}

#[test]
fn fields_have_the_kernels_names_and_values() {
    let mut trace = Trace::open(&fixture("lttng")).unwrap();
    let mut names = Vec::new();
    while let Some(part) = trace.next_part().unwrap() {
        let TracePart::Event(event) = part else { continue };
        let fields = &event.fields;
        if event.name == EventName::Switch && fields.text("next_comm").as_deref() == Some("cyclictest") {
            names.push((fields.small("next_prio"), fields.number("prev_state")));
        }
        if event.ns == 16_300_522_140 {
            assert_eq!(event.name, EventName::TimerStart);
            assert_eq!(fields.number("hrtimer"), Some(0xff74_c709_c04d_3c50));
            assert_eq!(fields.number("softexpires"), Some(16_302_393_580));
        }
    }
    // SCHED_FIFO 80, instead of the idle thread.
    assert!(names.contains(&(Some(19), Some(0))), "{names:?}");
}

#[test]
fn discarded_events_are_lost_from_where_the_packet_was_full() {
    let found = read(&fixture("lttng-lost"));
    let counts: Vec<u64> = found.lost.iter().map(|(.., count)| *count).collect();
    assert_eq!(counts, [378, 0, 1_292, 0, 1_047, 0]);
    // Those that found room behind the first that did not are left out, too.
    assert!((300..322).contains(&found.events.len()), "{}", found.events.len());
    assert!(found.lost.iter().all(|(cpu, ..)| *cpu == Some(0)));
    // Here the context tells the thread of each event, and else the switch before it does.
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    let mut trace = Trace::open(&fixture("lttng-lost")).unwrap();
    while let Some(part) = trace.next_part().unwrap() {
        match part {
            TracePart::Lost { .. } => threads.clear(),
            TracePart::Event(event) => {
                assert_eq!(*threads.get(&event.cpu).unwrap_or(&event.thread), event.thread);
                if event.name == EventName::Switch {
                    threads.insert(event.cpu, event.fields.small("next_pid").unwrap());
                }
            }
        }
    }
}

/// A folder with a description and one stream.
fn written(metadata: &[u8], stream: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("metadata"), metadata).unwrap();
    fs::write(folder.path().join("c_0"), stream).unwrap();
    folder
}

/// A trace of the other byte order, with a short header, a clock of 10 MHz and a sequence.
const DESCRIPTION: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 32; align = 8; signed = false; } := unsigned long;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
trace { major = 1; minor = 8; byte_order = be; packet.header := struct { uint32_t magic; uint32_t stream_id; }; };
env { tracer_name = "lttng-modules"; hostname = "board"; sysname = "Linux"; kernel_release = "6.1"; };
clock { name = "counter"; freq = 10000000; offset = -5; };
typealias integer { size = 27; align = 1; map = clock.counter.value; } := uint27_t;
typealias integer { size = 64; align = 8; map = clock.counter.value; } := time_t;
struct header {
    enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
    variant <id> { struct { uint27_t timestamp; } compact; struct { uint32_t id; time_t timestamp; } extended; } v;
} align(8);
stream {
    id = 7;
    event.header := struct header;
    packet.context := struct { unsigned long content_size; uint32_t packet_size; uint32_t cpu_id; };
};
event { name = "irq_softirq_raise"; id = 3; stream_id = 7; fields := struct { uint8_t _vec; }; };
event { name = "other"; id = 40; stream_id = 7; fields := struct {
    uint8_t __ids_length; uint32_t _ids[ __ids_length ]; string _text; floating_point { exp_dig = 8; mant_dig = 24; } _f;
    struct { integer { size = 3; align = 1; } _bits; } _flags[2]; };
};
"#;

/// A packet of these events.
fn packet(events: &[u8], padding: usize) -> Vec<u8> {
    let content = (20 + events.len()) as u32 * 8;
    let words = [0xc1fc_1fc1, 7, content, content + padding as u32 * 8, 2];
    let mut packet: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    packet.extend(events);
    packet.extend(vec![0; padding]);
    packet
}

fn raised(time: u32) -> Vec<u8> {
    [&(3u32 << 27 | time).to_be_bytes()[..], &[9]].concat()
}

#[test]
fn a_trace_of_another_byte_order_and_clock_is_read() {
    let other = [
        &[31 << 3][..],
        &40u32.to_be_bytes(),
        &1_000u64.to_be_bytes(),
        &[2, 0, 0, 0, 1, 0, 0, 0, 2],
        b"text\0",
        &1.0f32.to_be_bytes(),
        &[0b1010_1100],
    ]
    .concat();
    let stream = [packet(&[raised(50), other, raised(1_001)].concat(), 3), packet(&raised(7), 0)].concat();
    let folder = written(DESCRIPTION.as_bytes(), &stream);
    let found = read(folder.path());
    let times: Vec<_> = found.events.iter().map(|(ns, cpu, _, name)| (*ns, *cpu, *name)).collect();
    // The last one's time has gone once around.
    let last = ((1 << 27) + 7) * 100;
    assert_eq!(times, [5_000, 100_100, last].map(|ns| (ns, 2, EventName::SoftirqRaise)));
    assert_eq!((found.about.clock.as_deref(), found.missing), (Some("counter"), None));
    assert_eq!(found.about.uname.as_deref(), Some("Linux board 6.1"));
}

#[test]
fn a_trace_that_was_cut_or_damaged_ends_there() {
    let stream = [packet(&raised(50), 0), packet(&raised(60), 0)].concat();
    for length in 26..stream.len() {
        let found = read(written(DESCRIPTION.as_bytes(), &stream[..length]).path());
        assert_eq!((found.events.len(), found.missing.is_some()), (1, true), "{length}: {found:?}");
    }
    for (place, byte) in [(0, 9), (7, 9), (11, 1), (14, 255), (20, 0xff)] {
        let mut damaged = stream.clone();
        damaged[25 + place] = byte;
        let found = read(written(DESCRIPTION.as_bytes(), &damaged).path());
        let why = "the events of cpu 2 end early: a packet of it is damaged";
        assert_eq!((found.events.len(), found.missing.as_deref()), (1, Some(why)), "{place}");
    }
    let metadata = fs::read(fixture("lttng/kernel/metadata")).unwrap();
    for length in (40..metadata.len()).step_by(101) {
        let folder = written(&metadata[..length], &fs::read(fixture("lttng/kernel/c_0")).unwrap());
        let is_told = match Trace::open(folder.path()) {
            Ok(mut trace) => {
                while trace.next_part().unwrap().is_some() {}
                trace.missing().is_some()
            }
            Err(_) => true,
        };
        // The description may end behind the last event that the stream has.
        assert!(is_told || length > 9_000, "{length}");
    }
}

#[test]
fn what_is_no_trace_of_lttng_is_refused_in_one_line() {
    let said =
        |metadata: &str| Trace::open(written(metadata.as_bytes(), b"x").path()).unwrap_err().to_string();
    let deep = format!("trace {{ byte_order = le; }}; struct {} x;", "{ struct ".repeat(100));
    for (metadata, why) in [
        ("\u{1e}{\"type\":\"preamble\",\"version\":2}", "it is CTF 2: record it with"),
        ("", "its description has no byte order"),
        (
            &DESCRIPTION.replace("lttng-modules", "barectf"),
            "its tracer is barectf, and lttng-modules is read",
        ),
        (&DESCRIPTION.replace("size = 5", "size = 65"), "has no size up to 64 bits"),
        (&DESCRIPTION.replace("align(8)", "align(3)"), "has an alignment that is none"),
        (&DESCRIPTION.replace(": uint5_t {", ": uint6_t {"), "its description lacks the type uint6_t"),
        (&deep, "types in its description are within too many others"),
    ] {
        let said = said(metadata);
        assert!(said.contains(why) && !said.contains('\n'), "{said}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(!is_trace(empty.path()) && is_trace(&fixture("lttng")));
    let said = Trace::open(empty.path()).unwrap_err().to_string();
    assert!(said.contains("the folder has no metadata"), "{said}");
}

#[test]
fn links_are_not_followed() {
    let folder = written(DESCRIPTION.as_bytes(), &packet(&raised(50), 0));
    let elsewhere = written(DESCRIPTION.as_bytes(), &packet(&raised(60), 0));
    symlink(elsewhere.path().join("c_0"), folder.path().join("c_1")).unwrap();
    assert_eq!(read(folder.path()).events.len(), 1);
    fs::remove_file(folder.path().join("metadata")).unwrap();
    symlink(elsewhere.path().join("metadata"), folder.path().join("metadata")).unwrap();
    assert!(Trace::open(folder.path()).unwrap_err().to_string().contains("it is a link"));
}
