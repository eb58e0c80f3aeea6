// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings and monitored loops whose other end is killed at random points and taken up by another process.
//! `KILLS=10000` for more of each (`make proof-messages`).

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rt::message::{Failure, Receiver, Sender, Shared, Size};
use rt::monitor::{Monitor, Reader, Standing, choose};

/// A message in the line of its header, seven in one, and messages apart from theirs.
const SIZES: [Size; 3] =
    [Size { slots: 64, bytes: 56 }, Size { slots: 64, bytes: 8 }, Size { slots: 64, bytes: 200 }];

fn kills() -> u64 {
    std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100)
}

/// Starts this program again as one end of a ring that it gets by its standard input.
fn peer(role: &str, shared: &Shared, generation: u64) -> Child {
    let (here, there) = UnixStream::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--ignored", "--quiet"])
        .env("GENERATION", generation.to_string())
        .stdin(Stdio::from(OwnedFd::from(there)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    shared.pass(&here).unwrap();
    child
}

fn ring() -> Shared {
    Shared::receive(std::io::stdin()).unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The generation and a number: in all words by turns, so that a torn message shows; or in one.
fn message(bytes: usize, generation: u64, n: u64) -> Vec<u8> {
    let words = match bytes {
        8 => vec![generation << 32 | n],
        _ => (1..bytes / 8).map(|word| [n, generation][word % 2]).chain([generation ^ n]).collect(),
    };
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

fn read(bytes: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
    if bytes.len() == 8 {
        return (word(0) >> 32, word(0) & u64::from(u32::MAX));
    }
    assert_eq!(bytes, message(bytes.len(), word(0), word(1)), "a torn message");
    (word(0), word(1))
}

#[test]
#[ignore = "the other end of the tests below"]
fn sender() {
    let generation = std::env::var("GENERATION").unwrap().parse().unwrap();
    let mut sender: Sender = ring().sender().unwrap();
    for n in 0.. {
        while sender.post(&message(sender.bytes(), generation, n)) == Err(Failure::Full) {
            std::thread::yield_now();
        }
    }
}

#[test]
#[ignore = "the other end of the tests below"]
fn receiver() {
    let mut receiver: Receiver = ring().receiver().unwrap();
    let mut last = None;
    loop {
        let taken = receiver.poll(8, |bytes| {
            let (_, n) = read(bytes);
            assert!(last.is_none_or(|last| n == last + 1), "{n} after {last:?}");
            last = Some(n);
        });
        assert!(taken.is_ok(), "{taken:?}");
    }
}

/// A small generator, so that the points are the same in each run of a seed (xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_killed_sender_loses_and_tears_nothing() {
    SIZES.into_iter().for_each(kill_senders);
}

fn kill_senders(size: Size) {
    let shared = Shared::create(size).unwrap();
    let mut receiver = shared.receiver().unwrap();
    let (mut last, mut seed) = (None::<(u64, u64)>, 7);
    for generation in 0..kills() {
        let child = peer("sender", &shared, generation);
        let enough = random(&mut seed) % 300;
        let (mut taken, mut take) = (0, |receiver: &mut Receiver| {
            let mut got = 0;
            let polled = receiver.poll(16, |bytes| {
                let now = read(bytes);
                let follows = match last {
                    Some((before, n)) if before == now.0 => now.1 == n + 1,
                    Some((before, _)) => now.0 > before && now.1 == 0,
                    None => now.1 == 0,
                };
                assert!(follows, "{now:?} after {last:?}");
                last = Some(now);
                got += 1;
            });
            assert!(polled.is_ok(), "{polled:?}");
            got
        });
        while taken <= enough {
            taken += take(&mut receiver);
        }
        kill(child);
        assert!(!receiver.sender_lives(), "a dead sender seems to live");
        while take(&mut receiver) > 0 {}
    }
}

#[test]
fn a_killed_receiver_does_not_block_the_next() {
    SIZES.into_iter().for_each(kill_receivers);
}

fn kill_receivers(size: Size) {
    let shared = Shared::create(size).unwrap();
    let mut sender = shared.sender().unwrap();
    let (mut n, mut seed) = (0, 11);
    for generation in 0..kills() {
        let mut child = peer("receiver", &shared, generation);
        let (mut posted, enough) = (0, random(&mut seed) % 300 + u64::from(size.slots));
        while posted <= enough {
            match sender.post(&message(size.bytes, generation, n)) {
                Ok(()) => (n, posted) = (n + 1, posted + 1),
                Err(failure) => {
                    assert_eq!(failure, Failure::Full);
                    assert_eq!(child.try_wait().unwrap(), None, "the receiver found something wrong");
                }
            }
            if posted % 64 == 0 {
                std::thread::sleep(Duration::from_micros(random(&mut seed) % 50));
            }
        }
        kill(child);
        assert!(!sender.receiver_lives(), "a dead receiver seems to live");
    }
}

#[test]
#[ignore = "the other end of the tests below"]
fn reader() {
    let parent = std::os::unix::process::parent_id();
    let mut reader = Reader::open(&choose(parent, Some("killed")).unwrap()).unwrap();
    reader.start().unwrap();
    let mut last = None;
    loop {
        let polled = reader.poll(|cycle| {
            assert!(last.is_none_or(|last| cycle.number > last), "{} after {last:?}", cycle.number);
            last = Some(cycle.number);
        });
        assert_eq!(polled, Ok(Standing::Goes));
    }
}

#[test]
fn a_killed_reader_disturbs_no_loop_and_the_next_counts_what_it_loses() {
    let mut monitor = Monitor::create("killed", Duration::from_millis(10)).unwrap();
    let (mut cycles, mut seed) = (0, 13);
    for _ in 0..kills() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "reader", "--ignored", "--quiet"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for n in 0..random(&mut seed) % 5000 {
            monitor.begin(0);
            monitor.end();
            cycles += 1;
            if n % 64 == 0 {
                assert_eq!(child.try_wait().unwrap(), None, "the reader found something wrong");
                std::thread::sleep(Duration::from_micros(random(&mut seed) % 100));
            }
        }
        kill(child);
    }
    let mut reader = Reader::open(&choose(std::process::id(), Some("killed")).unwrap()).unwrap();
    reader.start().unwrap();
    let (mut seen, mut first, mut last) = (0, None, 0);
    for n in 0..5_000 {
        monitor.begin(0);
        monitor.end();
        if n > 4_000 {
            let polled = reader.poll(|cycle| {
                (first, last, seen) = (first.or(Some(cycle.number)), cycle.number, seen + 1);
            });
            assert_eq!(polled, Ok(Standing::Goes));
        }
    }
    let first = first.unwrap();
    assert_eq!((first, last), (cycles + 1, cycles + 5_000));
    assert_eq!(seen + reader.lost(), last - first + 1);
    assert!(reader.lost() > 0, "more cycles than the ring holds, and none lost");
}
