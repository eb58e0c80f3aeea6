// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures over HTTP, for who scrapes them: `GET /metrics`, one connection at a time, each answered and closed.
//!
//! No server library: there is one page in two formats, no state, and nothing of a request is used but its first line and what it
//! accepts. A peer that says nothing is let go after a second, and one that talks on is cut off.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evidence::{Error, Result};
use report::prometheus::{Family, Format};

/// How long one peer may take.
const PATIENCE: Duration = Duration::from_secs(1);

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
        let cannot = |error: std::io::Error| {
            Error::new("serve on", address, machine::reason(&error), "choose another address and port")
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let at = listener.local_addr().map_err(cannot)?;
        let served = Served { families: Arc::default(), at };
        let families = Arc::clone(&served.families);
        std::thread::Builder::new()
            .name("metrics".to_string())
            .spawn(move || {
                for peer in listener.incoming().flatten() {
                    let page =
                        |format: Format| format.of(&families.lock().unwrap_or_else(PoisonError::into_inner));
                    // A peer that has gone wants no answer.
                    let _ = answer(peer, page);
                }
            })
            .map_err(cannot)?;
        Ok(served)
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

fn answer(mut peer: TcpStream, page: impl Fn(Format) -> Vec<u8>) -> std::io::Result<()> {
    let began = Instant::now();
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    // To the end of the head: a connection closed on unread bytes would lose the answer.
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = peer.read(&mut part)?;
        request.extend_from_slice(&part[..read]);
        if read == 0 || request.len() > REQUEST || began.elapsed() > PATIENCE {
            break;
        }
    }
    let head = String::from_utf8_lossy(&request);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let path = |path: &str| path.split('?').next().unwrap_or_default().to_string();
    let said = |status, text: &str| (status, Format::Text, text.as_bytes().to_vec());
    let (status, format, body) = match (words.next(), words.next().map(path).as_deref()) {
        (Some("GET" | "HEAD"), Some("/metrics" | "/")) => {
            let format = Format::accepted(&accept(&head));
            ("200 OK", format, page(format))
        }
        (Some("GET" | "HEAD"), Some(_)) => said("404 Not Found", "the figures are at /metrics\n"),
        _ => said("400 Bad Request", "only GET /metrics is understood\n"),
    };
    let (kind, length) = (format.content_type(), body.len());
    write!(
        peer,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    if head.starts_with("HEAD ") { Ok(()) } else { peer.write_all(&body) }
}

/// What a request accepts: all its lines of that name.
fn accept(head: &str) -> String {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let accepts = lines.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    accepts.map(|(_, value)| value).collect::<Vec<_>>().join(",")
}
