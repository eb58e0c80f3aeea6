// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures over HTTP, for programs that scrape them (`GET /metrics`), and the live page of a run: each
//! connection is answered and closed.
//!
//! No server library: there are a few pages, no state, and nothing of a request is used but its head. One
//! thread serves several peers at once, so that a peer that says nothing, or reads slowly, keeps none of the
//! others waiting. Each exchange has a bound as a whole, and where there are too many the oldest makes room.
//!
//! A request that comes over loopback must name a host of loopback: a site whose name leads here
//! (DNS rebinding) gets no answer read. Over the network hosts have names that this machine need not know.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evidence::{Error, Result};
use report::prometheus::{Family, MetricsFormat, answer, headers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a whole exchange may take, from the connection to the last byte.
const PATIENCE: Duration = Duration::from_secs(5);

/// Peers that are served at once.
const PEERS: usize = 64;

/// Longest request that is read.
const REQUEST: usize = 8 * 1024;

/// Figures that are served until the program ends.
#[derive(Debug, Clone)]
pub struct Served {
    families: Arc<Mutex<Vec<Family>>>,
    at: SocketAddr,
}

impl Served {
    /// Serves on `address`, in a thread of its own, which stays on the CPUs of this one.
    pub fn on(address: SocketAddr) -> Result<Served> {
        let families: Arc<Mutex<Vec<Family>>> = Arc::default();
        let shown = Arc::clone(&families);
        let page =
            move |format: MetricsFormat| format.of(&shown.lock().unwrap_or_else(PoisonError::into_inner));
        let at = serve_on(address, "metrics", move |head| answer(head, &page))?;
        Ok(Served { families, at })
    }

    /// Where it is served: the port that was given for 0.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Replaces the figures.
    pub fn set(&self, families: Vec<Family>) {
        *self.families.lock().unwrap_or_else(PoisonError::into_inner) = families;
    }
}

/// Serves on `address` until the program ends, in a thread called `name`, which stays on the CPUs of this
/// one. `answer` makes the answer to a request of which it is given the head. Returns the address with the
/// port that was given for 0.
pub fn serve_on(
    address: SocketAddr,
    name: &str,
    answer: impl Fn(&str) -> Vec<u8> + Send + 'static,
) -> Result<SocketAddr> {
    let cannot = |error: std::io::Error| {
        Error::on("serve on", address, error::reason(&error), "choose another address and port")
    };
    let listener = TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    let spawned = std::thread::Builder::new().name(name.to_string());
    spawned.spawn(move || serve(&listener, PATIENCE, answer)).map_err(cannot)?;
    Ok(at)
}

/// Serves for ever; no exchange takes longer than `patience`.
fn serve(listener: &TcpListener, patience: Duration, answer: impl Fn(&str) -> Vec<u8>) {
    // The oldest first.
    let mut peers: VecDeque<HttpExchange> = VecDeque::with_capacity(PEERS);
    loop {
        wait(listener, patience, &peers);
        peers.retain_mut(|peer| peer.began.elapsed() < patience && peer.goes_on(&answer));
        // As many as there is room for, so that a flood of connections keeps none of those waiting that ask.
        for _ in 0..PEERS {
            match listener.accept() {
                Ok((stream, _)) => {
                    if peers.len() == PEERS {
                        peers.pop_front();
                    }
                    peers.extend(HttpExchange::with(stream));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Out of descriptors, or a peer that has gone: not at once again.
                Err(_) => {
                    peers.pop_front();
                    std::thread::sleep(Duration::from_millis(50));
                    break;
                }
            }
        }
    }
}

/// Waits until a peer comes or goes on, at the longest until the oldest has had its time.
fn wait(listener: &TcpListener, patience: Duration, peers: &VecDeque<HttpExchange>) {
    let flags = |peer: &HttpExchange| if peer.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
    let mut all = vec![PollFd::new(listener, PollFlags::IN)];
    all.extend(peers.iter().map(|peer| PollFd::new(&peer.stream, flags(peer))));
    let left = peers.front().map(|oldest| patience.saturating_sub(oldest.began.elapsed()));
    let left = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
    // An interrupted wait is one that has ended.
    let _ = poll(&mut all, left.as_ref());
}

/// One peer: it asks, and then it is answered.
struct HttpExchange {
    stream: TcpStream,
    began: Instant,
    request: Vec<u8>,
    /// The answer, and how much of it has been sent.
    answer: Option<(Vec<u8>, usize)>,
}

impl HttpExchange {
    fn with(stream: TcpStream) -> Option<HttpExchange> {
        stream.set_nonblocking(true).ok()?;
        Some(HttpExchange { stream, began: Instant::now(), request: Vec::new(), answer: None })
    }

    /// Does what can be done without waiting; false where the exchange has ended.
    fn goes_on(&mut self, answer: &impl Fn(&str) -> Vec<u8>) -> bool {
        let done = if self.answer.is_none() { self.read(answer) } else { Ok(()) };
        match done.and_then(|()| self.write()) {
            Ok(over) => !over,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Reads to the end of the head: a connection closed on unread bytes would lose the answer.
    fn read(&mut self, answer: &impl Fn(&str) -> Vec<u8>) -> std::io::Result<()> {
        let mut part = [0; 1024];
        loop {
            let read = self.stream.read(&mut part)?;
            self.request.extend_from_slice(&part[..read]);
            let whole = self.request.windows(4).any(|end| end == b"\r\n\r\n");
            if whole || read == 0 || self.request.len() > REQUEST {
                let head = String::from_utf8_lossy(&self.request);
                let is_foreign = whole && self.is_over_loopback()? && !names_loopback(&head);
                let answer = if is_foreign { REFUSAL.as_bytes().to_vec() } else { answer(&head) };
                self.answer = Some((answer, 0));
                return Ok(());
            }
        }
    }

    /// Whether the peer is a program of this machine, which asked for an address of loopback.
    fn is_over_loopback(&self) -> std::io::Result<bool> {
        Ok(is_loopback(self.stream.local_addr()?.ip()))
    }

    /// Writes what the peer takes; true where that was all.
    fn write(&mut self) -> std::io::Result<bool> {
        let Some((answer, gone)) = &mut self.answer else { return Ok(false) };
        while *gone < answer.len() {
            match self.stream.write(&answer[*gone..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => *gone += written,
            }
        }
        Ok(true)
    }
}

/// The answer to a request for another host.
const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 35\r\n\
    Connection: close\r\n\r\nloopback answers to localhost alone\n";

/// Whether each host that a request names is this machine's loopback, and it names one.
fn names_loopback(head: &str) -> bool {
    let mut hosts = headers(head, "host").peekable();
    hosts.peek().is_some() && hosts.all(|host| is_loopback_name(without_port(host)))
}

fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

/// `::ffff:127.0.0.1` is 127.0.0.1, which sockets for both families give.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(address: SocketAddr, request: &str) -> String {
        let (mut peer, mut answer) = (TcpStream::connect(address).unwrap(), String::new());
        peer.write_all(request.as_bytes()).unwrap();
        peer.read_to_string(&mut answer).unwrap();
        answer
    }

    fn waits(peer: &TcpStream) -> bool {
        peer.set_nonblocking(true).unwrap();
        peer.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    #[test]
    fn a_silent_peer_keeps_no_other_waiting() {
        let served = Served::on("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent: Vec<_> = (0..8).map(|_| TcpStream::connect(served.at()).unwrap()).collect();
        let mut slow = TcpStream::connect(served.at()).unwrap();
        slow.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
        let answer = asks(served.at(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        // It was answered while those were still waited for.
        assert!(silent.iter().all(waits) && waits(&slow));
    }

    #[test]
    fn the_oldest_of_too_many_peers_makes_room() {
        let served = Served::on("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent: Vec<_> = (0..2 * PEERS).map(|_| TcpStream::connect(served.at()).unwrap()).collect();
        let answer = asks(served.at(), "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(silent.iter().filter(|peer| waits(peer)).count() < PEERS && !waits(&silent[0]));
    }

    #[test]
    fn a_request_without_an_end_is_refused() {
        let served = Served::on("127.0.0.1:0".parse().unwrap()).unwrap();
        let answer = asks(served.at(), &format!("PUT /{}", "x".repeat(REQUEST)));
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    }

    #[test]
    fn loopback_answers_to_its_own_names_alone() {
        // One socket for all addresses of both families, where there is the newer one.
        let everywhere = ["[::]:0", "0.0.0.0:0"].map(|at| Served::on(at.parse().unwrap()));
        let loopback = ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"];
        let loopback = loopback.map(|at| Served::on(at.parse().unwrap()));
        let served = everywhere.into_iter().chain(loopback).flatten().collect::<Vec<_>>();
        assert!(served.len() >= 2);
        for one in &served {
            let at = match one.at().ip() {
                address if address.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], one.at().port())),
                _ => one.at(),
            };
            let hosts = [
                "Host: localhost",
                "host: LOCALHOST:9100",
                "Host: 127.0.0.1",
                "Host: 127.8.8.8:80",
                "Host: [::1]:9100",
                "Host: [::ffff:127.0.0.1]",
            ];
            for host in hosts {
                let answer = asks(at, &format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n"));
                assert!(answer.starts_with("HTTP/1.1 200 "), "{at} {host}: {answer}");
            }
            let foreign = [
                "X: localhost",
                "Host: evil.example",
                "Host: localhost.evil.example:80",
                "Host: 127.0.0.1.evil.example",
                "Host: 192.0.2.1",
                "Host: [::ffff:192.0.2.1]",
                "Host: [::1",
                "Host: localhost\r\nHost: evil.example",
                "Host:",
            ];
            for host in foreign {
                let answer = asks(at, &format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n"));
                assert_eq!(answer, REFUSAL, "{at} {host}");
            }
        }
    }

    /// A server whose patience is short, and which answers with this many bytes.
    fn impatient(length: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let patience = Duration::from_millis(100);
        std::thread::spawn(move || serve(&listener, patience, move |_| vec![b'x'; length]));
        at
    }

    #[test]
    fn an_exchange_ends_whatever_its_peer_does() {
        let at = impatient(10);
        let sent: [&[u8]; 10] = [
            b"",
            b"G",
            b"GET /metrics HTTP/1.1",
            b"GET /metrics HTTP/1.1\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n",
            b"GET /metrics HTTP/1.1\n\n",
            b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n",
            b"\0\xff\xfe\r\n",
            b"\r\n\r",
            b"PRI * HTTP/2.0\r\n",
        ];
        for sent in sent {
            let (mut peer, mut answer) = (TcpStream::connect(at).unwrap(), Vec::new());
            // A slow test may find the exchange ended already.
            let _ = peer.write_all(sent).and_then(|()| peer.read_to_end(&mut answer));
            assert_eq!(answer, b"", "{sent:?}");
        }
        // Each byte is progress, and no longer time.
        let mut drips = TcpStream::connect(at).unwrap();
        while drips.write_all(b"x").is_ok() && waits(&drips) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_peer_that_never_reads_is_left() {
        // More than the kernel keeps for it.
        let length = 64 << 20;
        let at = impatient(length);
        let mut lazy = TcpStream::connect(at).unwrap();
        let _ = lazy.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        // One that came later has had its time.
        let mut later = TcpStream::connect(at).unwrap();
        let _ = later.read_to_end(&mut Vec::new());
        let mut answer = Vec::new();
        let _ = lazy.read_to_end(&mut answer);
        assert!(answer.len() < length, "{}", answer.len());
    }
}
