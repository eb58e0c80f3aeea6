// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monitor as its users meet it.

use super::*;
use crate::clock::monotonic_ns;

/// Miri takes its time: a short ring is enough for it.
const PERIOD: Duration = Duration::from_millis(if cfg!(miri) { 100 } else { 1 });

/// A monitor that is told the time, and its reader; the times are of CLOCK_MONOTONIC, and past.
fn monitor_with_times() -> (Monitor, Reader, u64) {
    let (sender, receiver) = crate::message::pair(size(PERIOD).unwrap()).unwrap();
    let monitor = Monitor::on(sender, PERIOD, CycleClock::Monotonic);
    let mut reader = Reader::on(receiver).unwrap();
    reader.start().unwrap();
    (monitor, reader, monotonic_ns() - 1_000_000_000)
}

fn poll(reader: &mut Reader) -> (Vec<Cycle>, Standing) {
    let mut cycles = Vec::new();
    let standing = reader.poll(|cycle| cycles.push(*cycle)).unwrap();
    (cycles, standing)
}

#[test]
fn a_cycle_arrives_with_its_times_and_marks() {
    let (mut monitor, mut reader, start) = monitor_with_times();
    monitor.begin_at(start, start + 30);
    (1..=5).for_each(|n| monitor.mark_at(start + 30 + n));
    monitor.end_at(start + 90);
    monitor.begin_at(start + 1_000_000, start + 1_000_010);
    monitor.end_at(start + 1_000_020);
    drop(monitor);
    let (cycles, standing) = poll(&mut reader);
    let first = Cycle {
        number: 1,
        due_ns: start,
        began_ns: start + 30,
        ended_ns: start + 90,
        marks_ns: [1, 2, 3].map(|n| Some(start + 30 + n)),
    };
    let second = Cycle {
        number: 2,
        due_ns: start + 1_000_000,
        began_ns: start + 1_000_010,
        ended_ns: start + 1_000_020,
        marks_ns: [None; MARKS],
    };
    assert_eq!((cycles, standing, reader.lost()), (vec![first, second], Standing::Closed, 0));
}

#[test]
fn what_a_reader_did_not_fetch_in_time_is_counted() {
    let (mut monitor, mut reader, start) = monitor_with_times();
    let slots = u64::from(size(PERIOD).unwrap().slots);
    for n in 0..slots + 7 {
        monitor.begin_at(start + n, start + n);
        monitor.end_at(start + n);
    }
    assert_eq!((poll(&mut reader).0.len() as u64, reader.lost()), (slots, 0));
    monitor.begin_at(start, start);
    monitor.end_at(start);
    assert_eq!((poll(&mut reader).0[0].number, reader.lost()), (slots + 8, 7));
}

#[test]
fn a_cycle_that_never_ends_is_lost_and_a_new_start_forgets_it() {
    let (mut monitor, mut reader, start) = monitor_with_times();
    monitor.end_at(start);
    for ends in [2, 0, 0, 1] {
        monitor.begin_at(start, start);
        (0..ends).for_each(|_| monitor.end_at(start));
    }
    assert_eq!((poll(&mut reader).0.len(), reader.lost()), (2, 2));
    reader.start().unwrap();
    assert_eq!((poll(&mut reader), reader.lost()), ((vec![], Standing::Goes), 0));
}

#[test]
fn a_cycle_that_does_not_know_is_due_a_period_after_the_one_before_began() {
    let (mut monitor, mut reader, start) = monitor_with_times();
    let period_ns = PERIOD.as_nanos() as u64;
    for began in [start, start + period_ns + 500] {
        monitor.begin_at(0, began);
        monitor.end_at(began);
    }
    let (cycles, _) = poll(&mut reader);
    assert_eq!([cycles[0].due_ns, cycles[1].due_ns], [start, start + period_ns]);
}

#[test]
fn a_time_of_another_clock_and_an_impossible_period_name_the_cure() {
    let (mut monitor, mut reader, start) = monitor_with_times();
    monitor.begin_at(start + 10 * 3_600_000_000_000, start);
    monitor.end_at(start);
    let error = reader.poll(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot use cycle 1 of the loop: it began 36000 s from when it was due; give begin the time of CLOCK_MONOTONIC \
         at which the cycle was due, or 0"
    );
    for period in [Duration::ZERO, Duration::from_nanos(999), Duration::from_secs(3601), Duration::MAX] {
        let error = Monitor::pair(period).unwrap_err().to_string();
        assert!(error.ends_with("no loop has such a period; give one from 1 us to 1 h"), "{error}");
    }
}

#[test]
fn a_loop_that_says_no_dues_may_rest_for_hours() {
    let (mut monitor, mut reader, now) = monitor_with_times();
    // Of a machine that has not run for so long, both are 0.
    for began in [now.saturating_sub(2 * 3_600_000_000_000), now] {
        monitor.begin_at(0, began.max(1));
        monitor.end_at(began.max(1));
    }
    assert_eq!(poll(&mut reader).0.len(), 2);
}

#[test]
fn a_cycle_that_begins_before_the_last_ended_or_takes_hours_cannot_be() {
    let hour = 3_600_000_000_000;
    let (mut monitor, mut reader, now) = monitor_with_times();
    for (began, ended) in [(now - 300_000, now), (now - 200_000, now)] {
        monitor.begin_at(now, began);
        monitor.end_at(ended);
    }
    let error = reader.poll(|_| ()).unwrap_err().to_string();
    assert!(error.contains("its times cannot be"), "{error}");
    let (mut monitor, mut reader, now) = monitor_with_times();
    monitor.begin_at(0, now.saturating_sub(2 * hour).max(1));
    monitor.end_at(now);
    let error = reader.poll(|_| ());
    assert_eq!(error.is_err(), now > hour);
}

#[test]
fn a_reader_may_be_away_for_seconds_or_for_so_many_cycles() {
    let room = |period| Monitor::pair(period).unwrap().1.room();
    assert!(room(PERIOD) >= ROOM);
    if !cfg!(miri) {
        assert_eq!(room(Duration::from_micros(1)), Duration::from_micros(65_536));
    }
}

#[test]
fn times_by_the_real_clocks_are_in_order() {
    const CYCLES: usize = if cfg!(miri) { 3 } else { 200 };
    let (mut monitor, mut reader) = Monitor::pair(PERIOD).unwrap();
    reader.start().unwrap();
    let mut last_ns = monotonic_ns();
    for _ in 0..CYCLES {
        monitor.begin(monotonic_ns());
        monitor.mark();
        monitor.end();
    }
    let (cycles, standing) = poll(&mut reader);
    assert_eq!((cycles.len(), standing), (CYCLES, Standing::Goes));
    for cycle in cycles {
        let mark_ns = cycle.marks_ns[0].unwrap();
        assert!(cycle.began_ns <= mark_ns && mark_ns <= cycle.ended_ns, "{cycle:?}");
        assert!(
            cycle.due_ns >= last_ns && cycle.ended_ns <= monotonic_ns() + 100_000,
            "{cycle:?} after {last_ns}"
        );
        last_ns = cycle.due_ns;
    }
}

#[test]
fn a_reader_beside_the_loop_sees_or_counts_each_cycle() {
    const CYCLES: u64 = if cfg!(miri) { 100 } else { 100_000 };
    let (mut monitor, mut reader) = Monitor::pair(Duration::from_secs(1)).unwrap();
    let looping = std::thread::spawn(move || {
        (0..CYCLES).for_each(|_| {
            monitor.begin(0);
            monitor.end();
        });
        // The last one tells how many were lost before it: it has to get through.
        while monitor.sender.is_full() {
            std::thread::yield_now();
        }
        monitor.begin(0);
        monitor.end();
    });
    let (mut seen, mut last) = (0, 0);
    while last < CYCLES + 1
        && reader.poll(|cycle| (seen, last) = (seen + 1, cycle.number)).unwrap() == Standing::Goes
    {
        std::thread::yield_now();
    }
    looping.join().unwrap();
    assert_eq!((seen + reader.lost(), last), (CYCLES + 1, CYCLES + 1));
}

#[test]
#[cfg_attr(miri, ignore = "memfd")]
fn a_loop_is_found_by_its_process_and_has_one_reader() {
    let mut monitor = Monitor::create("servo", PERIOD).unwrap();
    let here = || find(std::process::id()).unwrap().into_iter().filter(|found| found.name == "servo");
    let found = here().collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{found:?}");
    let mut reader = Reader::open(&found[0].path).unwrap();
    assert_eq!((reader.period().get(), reader.thread()), (1_000_000, None));
    let taken = Reader::open(&found[0].path).unwrap_err();
    assert!(taken.to_string().ends_with("some process reads it already; end that one first"), "{taken}");
    reader.start().unwrap();
    monitor.begin(0);
    monitor.end();
    assert_eq!((poll(&mut reader).0.len(), reader.thread()), (1, Some(crate::thread::id())));
    drop(reader);
    Reader::open(&found[0].path).unwrap();
    drop(monitor);
    assert_eq!(here().count(), 0, "a closed monitor leaves its loop behind");
}

#[test]
#[cfg_attr(miri, ignore = "memfd")]
fn what_is_no_loop_is_refused() {
    for name in ["", "a b", "a/b", "ä", "x (deleted)", &"x".repeat(33)] {
        let error = Monitor::create(name, PERIOD).unwrap_err().to_string();
        assert!(error.ends_with("give 1 to 32 letters, digits, '-', '_' and '.'"), "{error}");
    }
    let ring = Shared::create(Size::default()).unwrap();
    let error = Reader::on(ring.receiver().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read a loop: the ring holds something else;"), "{error}");
    let error = Reader::open(std::path::Path::new("/dev/null")).unwrap_err().to_string();
    assert!(error.contains("it is no memory of a program (memfd)"), "{error}");
    let error = choose(std::process::id(), Some("none of that name")).unwrap_err().to_string();
    assert!(error.contains("it has no"), "{error}");
    let error = find(u32::MAX).unwrap_err().to_string();
    assert!(error.contains("give a process that runs"), "{error}");
}

/// Memory as another program would offer it: sealed, so long, beginning with these words.
#[cfg(not(miri))]
fn offered(length: u64, words: &[u64]) -> std::os::fd::OwnedFd {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let memory =
        memfd_create("isolator-loop:offered", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, length).unwrap();
    let head = words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    assert_eq!(rustix::io::pwrite(&memory, &head, 0), Ok(head.len()));
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    memory
}

#[cfg(not(miri))]
fn opened(memory: &std::os::fd::OwnedFd) -> Result<Reader> {
    use std::os::fd::AsRawFd;
    Reader::open(std::path::Path::new(&format!("/proc/self/fd/{}", memory.as_raw_fd())))
}

/// The first words of a ring: its version, its slots, bytes of a message; then the notes.
#[cfg(not(miri))]
const RING: u64 = crate::message::RING_VERSION;

#[test]
#[cfg(not(miri))]
fn memory_that_a_stranger_never_wrote_is_not_allocated() {
    // 3 lines of head, and as many slots of a line as a loop may have.
    let length = (3 + 65_536) * 64;
    let notes = [THIS_KIND, 1_000_000, CycleClock::Monotonic as u64];
    let memory = offered(length, &[&[RING, 65_536, 56], &notes[..]].concat());
    let blocks = || rustix::fs::fstat(&memory).unwrap().st_blocks * 512;
    let before = blocks();
    let mut reader = opened(&memory).unwrap();
    reader.start().unwrap();
    assert_eq!(poll(&mut reader).0, []);
    // The head and the first slot; where memory comes in huge pages, one of those.
    assert!(blocks() - before <= 2 << 20, "{} of {length} bytes", blocks());
}

#[test]
#[cfg(not(miri))]
fn a_ring_larger_than_a_loop_is_refused_unmapped() {
    for (length, words, why) in [
        (4 << 30, vec![], "it is not a ring of this version"),
        (4 << 30, vec![RING, 1 << 20, 4088], "its size is not what it says"),
        ((3 + (1 << 18) + (64 << 20)) * 64, vec![RING, 1 << 20, 4088], "its size is not a loop's"),
        ((3 + (1 << 20)) * 64, vec![RING, 1 << 20, 56], "its size is not a loop's"),
        ((3 + 64) * 64, vec![RING, 64, 48], "its size is not a loop's"),
        ((3 + 64) * 64, vec![RING, 64 << 32, 56], "its size is not what it says"),
        ((3 + 64) * 64, vec![RING, 63, 56], "its size is not what it says"),
        (32, vec![RING], "it is too short to be a ring"),
    ] {
        let error = opened(&offered(length, &words)).unwrap_err().to_string();
        assert!(error.contains(why), "{words:?}: {error}");
    }
    let unsealed = rustix::fs::memfd_create("isolator-loop:x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(opened(&unsealed).unwrap_err().to_string().contains("it is not sealed memory"));
}

#[test]
#[cfg(not(miri))]
fn what_is_no_memory_is_never_opened() {
    use rustix::fs::inotify;
    let folder = std::env::temp_dir().join(format!("isolator-monitor-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("memfd:isolator-loop:x");
    std::fs::write(&path, [0; 4096]).unwrap();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, &path, inotify::WatchFlags::OPEN).unwrap();
    let error = Reader::open(&path).unwrap_err().to_string();
    assert!(error.contains("it is no memory of a program (memfd)"), "{error}");
    let mut events = [0; 256];
    let nothing = Err(rustix::io::Errno::AGAIN);
    assert_eq!(rustix::io::read(&watch, &mut events), nothing, "it was opened");
    // The watch sees an open.
    std::fs::File::open(&path).unwrap();
    assert_ne!(rustix::io::read(&watch, &mut events), nothing);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[cfg(not(miri))]
fn paths_that_lead_to_no_memory_are_refused() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    let folder = std::env::temp_dir().join(format!("isolator-paths-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let at = |name: &str| folder.join(name);
    // To open a pipe that has no other end would wait for ever.
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    symlink("/dev/zero", at("memfd:isolator-loop:device")).unwrap();
    symlink("pipe", at("memfd:isolator-loop:pipe")).unwrap();
    std::fs::write(at("file"), [0; 8192]).unwrap();
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let descriptor = format!("/proc/self/fd/{}", event.as_raw_fd());
    let mut paths: Vec<std::path::PathBuf> =
        ["/dev/zero", "/dev/null", "/proc/self/mem", "/proc/self/maps", &descriptor].map(Into::into).to_vec();
    let names = ["pipe", "socket", "file", "", "memfd:isolator-loop:device", "memfd:isolator-loop:pipe"];
    paths.extend(names.map(at));
    for path in &paths {
        let error = Reader::open(path).unwrap_err().to_string();
        assert!(error.contains("it is no memory of a program (memfd)"), "{}: {error}", path.display());
    }
    assert!(Reader::open(&at("absent")).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A process whose descriptor 3 is of this file, under the name of a loop's memory; none where no file system
/// may be mounted.
#[cfg(not(miri))]
fn impostor(file: &std::path::Path) -> Option<std::process::Child> {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let script = "set -e; mount -t tmpfs none /mnt; cd /mnt; mkdir old; touch memfd:isolator-loop:x; \
                  mount --bind \"$FILE\" memfd:isolator-loop:x; exec 3<memfd:isolator-loop:x; pivot_root . old; echo ready; read line";
    let mut child = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .env("FILE", file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let ready = child.stdout.as_mut()?.read_exact(&mut [0; 6]).is_ok();
    ready.then_some(child).or_else(|| {
        println!("skipped: no file system may be mounted here");
        None
    })
}

#[test]
#[cfg(not(miri))]
fn a_process_shows_no_file_as_its_loop() {
    use rustix::fs::inotify;
    let folder = std::env::temp_dir().join(format!("isolator-impostor-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let own = folder.join("file");
    std::fs::write(&own, [0; 4096]).unwrap();
    for file in [own.as_path(), std::path::Path::new("/dev/zero"), std::path::Path::new("/dev/null")] {
        let Some(mut child) = impostor(file) else { break };
        let path = std::path::PathBuf::from(format!("/proc/{}/fd/3", child.id()));
        assert_eq!(name_of(&path).as_deref(), Some("x"), "{:?}", std::fs::read_link(&path));
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, &own, inotify::WatchFlags::OPEN).unwrap();
        for name in [None, Some("x")] {
            let error = choose(child.id(), name).unwrap_err().to_string();
            assert!(error.contains("it has no monitored loop"), "{error}");
        }
        let error = Reader::open(&path).unwrap_err().to_string();
        assert!(error.contains("it is no memory of a program (memfd)"), "{error}");
        let opened = rustix::io::read(&watch, &mut [0; 256]);
        assert_eq!(opened, Err(rustix::io::Errno::AGAIN), "it was opened");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

mod hostile {
    //! A loop whose process writes anything: notes, numbers, times, lengths.

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        #[test]
        fn no_word_of_the_loop_is_believed(
            cycles in prop::collection::vec(
                (any::<u64>(), prop::collection::vec(any::<i64>(), WORDS), 0usize..9),
                1..40,
            )
        ) {
            let (mut sender, receiver) = crate::message::pair(size(PERIOD).unwrap()).unwrap();
            sender.note(KIND).store(THIS_KIND, Ordering::Relaxed);
            sender.note(PERIOD_NS).store(1_000_000, Ordering::Relaxed);
            sender.note(CLOCK).store(CycleClock::Monotonic as u64, Ordering::Relaxed);
            let mut reader = Reader::on(receiver).unwrap();
            let mut last_ns = 0;
            for (step, words, cut) in cycles {
                let now_ns = monotonic_ns();
                // Near enough to now that some get through.
                let near = |word: &i64| now_ns.wrapping_add_signed(word >> (word & 63));
                let number = step >> (step & 63);
                let words = [number].into_iter().chain(words.iter().map(near));
                let message = words.flat_map(u64::to_ne_bytes).collect::<Vec<_>>();
                let _ = sender.post(&message[..8 * WORDS - if cut == 8 { 1 } else { 0 }]);
                let polled = reader.poll(|cycle| {
                    assert!(cycle.began_ns <= cycle.ended_ns && cycle.ended_ns <= monotonic_ns() + 200_000, "{cycle:?}");
                    assert!(cycle.due_ns.abs_diff(cycle.began_ns) <= 3_600_000_000_000, "{cycle:?}");
                    assert!(cycle.ended_ns - cycle.began_ns <= 3_600_000_000_000, "{cycle:?}");
                    assert!(last_ns <= cycle.began_ns + 100_000, "{cycle:?} after {last_ns}");
                    last_ns = cycle.ended_ns;
                });
                prop_assert!(polled.is_err() || reader.lost() <= number);
            }
        }

        #[test]
        fn no_note_of_the_loop_is_believed(
            period_ns in any::<u64>(), clock in 0u64..4, thread in any::<u64>()
        ) {
            let (sender, receiver) = crate::message::pair(size(PERIOD).unwrap()).unwrap();
            let notes = [(PERIOD_NS, period_ns), (CLOCK, clock), (THREAD, thread), (KIND, THIS_KIND)];
            for (note, word) in notes {
                sender.note(note).store(word, Ordering::Relaxed);
            }
            let possible = PERIODS_NS.contains(&period_ns) && (1..=2).contains(&clock);
            // A counter is no business of Miri's.
            if !(cfg!(miri) && clock == 1) {
                prop_assert_eq!(Reader::on(receiver).is_ok(), possible);
            }
        }
    }
}
