// SPDX-License-Identifier: MIT OR Apache-2.0
//! One text over HTTP, for who scrapes it: `GET /metrics`, one connection at a time, each answered and closed.
//!
//! No server library: there is one page, no state, and nothing of a request is used but its first line. A peer that
//! says nothing is let go after a second, and one that talks on is cut off.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evidence::{Error, Result};

/// How long one peer may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest request that is read.
const REQUEST: usize = 8 * 1024;

/// A text that is served until the program ends.
#[derive(Debug, Clone)]
pub struct Served {
    text: Arc<Mutex<String>>,
    at: SocketAddr,
}

impl Served {
    /// Serves on `address`, in a thread of its own.
    pub fn on(address: SocketAddr, content_type: &'static str) -> Result<Served> {
        let cannot = |error: std::io::Error| {
            Error::new("serve on", address, machine::reason(&error), "choose another address and port")
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let at = listener.local_addr().map_err(cannot)?;
        let served = Served { text: Arc::default(), at };
        let text = Arc::clone(&served.text);
        std::thread::Builder::new()
            .name("metrics".to_string())
            .spawn(move || {
                for peer in listener.incoming().flatten() {
                    let page = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    // A peer that has gone wants no answer.
                    let _ = answer(peer, &page, content_type);
                }
            })
            .map_err(cannot)?;
        Ok(served)
    }

    /// Where it is served: the port that was given for 0.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Replaces the text.
    pub fn set(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

fn answer(mut peer: TcpStream, page: &str, content_type: &str) -> std::io::Result<()> {
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
    let (status, body) = match (words.next(), words.next().map(path).as_deref()) {
        (Some("GET" | "HEAD"), Some("/metrics" | "/")) => ("200 OK", page),
        (Some("GET" | "HEAD"), Some(_)) => ("404 Not Found", "the figures are at /metrics\n"),
        _ => ("400 Bad Request", "only GET /metrics is understood\n"),
    };
    let length = body.len();
    let body = if head.starts_with("HEAD ") { "" } else { body };
    write!(
        peer,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
