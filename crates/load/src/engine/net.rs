// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic over the loopback interface: UDP packets and TCP streams, bounded, between ephemeral ports of
//! 127.0.0.1. What was *received* is counted.
//!
//! The network's softirqs of the loopback interface run on the sending CPU, unless packet steering
//! (`/sys/class/net/lo/queues/rx-*/rps_cpus`) sends them elsewhere.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Pauses, report, sharp_timers, spawn};
use crate::why;

/// At most so many pairs of each kind.
const PAIRS: usize = 2;

/// One burst each millisecond on average: 32 packets make 45 MB/s, 128 KiB make 130 MB/s.
const PACKETS: usize = 32;
const PACKET_BYTES: usize = 1400;
const STREAM_BYTES: usize = 128 * 1024;

type Count = Arc<AtomicU64>;

pub fn run(cpus: usize) -> Result<(), String> {
    let (udp, tcp) = (Count::default(), Count::default());
    for number in 0..cpus.clamp(1, PAIRS) {
        packets(number, Arc::clone(&udp)).map_err(|e| format!("no UDP over 127.0.0.1: {}", why(e)))??;
        stream(number, Arc::clone(&tcp)).map_err(|e| format!("no TCP over 127.0.0.1: {}", why(e)))??;
    }
    let bytes = |count: &Count| count.load(Ordering::Relaxed);
    report(|| BTreeMap::from([("udp_bytes", bytes(&udp)), ("tcp_bytes", bytes(&tcp))]))
}

fn bursts(number: usize) -> Pauses {
    sharp_timers();
    Pauses::between(Duration::from_micros(500), Duration::from_micros(1500), number)
}

fn packets(number: usize, received: Count) -> std::io::Result<Result<(), String>> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    receiver.connect(sender.local_addr()?)?;
    let take = move || {
        let mut packet = [0; PACKET_BYTES];
        loop {
            count(&received, receiver.recv(&mut packet));
        }
    };
    let send = move || {
        let mut pauses = bursts(number);
        loop {
            for _ in 0..PACKETS {
                // A packet that does not go out is one that is not received.
                let _ = sender.send(&[0; PACKET_BYTES]);
            }
            pauses.pause();
        }
    };
    Ok(spawn("net-udp-in", take).and_then(|()| spawn("net-udp-out", send)))
}

fn stream(number: usize, received: Count) -> std::io::Result<Result<(), String>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, from) = listener.accept()?;
    if from != sender.local_addr()? {
        return Ok(Err("another program connected to the engine's port".to_string()));
    }
    let take = move || {
        let mut bytes = [0; 16 * 1024];
        while count(&received, receiver.read(&mut bytes)) {}
    };
    let send = move || {
        let mut pauses = bursts(number);
        let block = vec![0; STREAM_BYTES];
        while sender.write_all(&block).is_ok() {
            pauses.pause();
        }
    };
    Ok(spawn("net-tcp-in", take).and_then(|()| spawn("net-tcp-out", send)))
}

/// Counts what came; whether anything did.
fn count(received: &AtomicU64, came: std::io::Result<usize>) -> bool {
    let bytes = came.unwrap_or(0);
    received.fetch_add(bytes as u64, Ordering::Relaxed);
    bytes > 0
}
