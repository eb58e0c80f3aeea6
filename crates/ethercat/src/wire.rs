// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of an EtherCAT wire; and a wire of one's own, with both ends.
//!
//! The latter is a pair of virtual interfaces in a network namespace without a name: no other program sees
//! it, the machine's own interfaces stay as they are, and the kernel removes it with the last socket in it.
//! So nothing is left to be found, whichever way its process ends, SIGKILL among them. Reference: veth(4),
//! network_namespaces(7).

use std::process::{Command, Stdio};

use nix::net::if_::if_nametoindex;
use rt::clock::timespec;
use rt::packet::{PacketSocket, own_network};
use rustix::event::{PollFd, PollFlags, poll};

use crate::segment::frame::ETHERTYPE;
use crate::{Error, Result};

/// The ends of a wire of one's own, as its namespace knows them.
const ENDS: [&str; 2] = ["main", "segment"];

/// One end: EtherCAT frames on one interface.
#[derive(Debug)]
pub struct Link {
    name: String,
    socket: PacketSocket,
}

impl Link {
    /// On the interface with that name, in the calling thread's network.
    pub fn open(name: &str) -> Result<Link> {
        let socket = PacketSocket::open(name, number(name)?, ETHERTYPE)?;
        Ok(Link { name: name.to_string(), socket })
    }

    /// One to listen on: frames of all types, also those that this machine sends on the interface.
    pub fn listen(name: &str) -> Result<Link> {
        let socket = PacketSocket::open_to_all(name, number(name)?)?;
        Ok(Link { name: name.to_string(), socket })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a whole frame; how many bytes of it went out.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> std::io::Result<usize> {
        self.socket.send(frame)
    }

    /// Takes the next frame, if one has come: its length.
    #[inline]
    pub fn receive(&self, frame: &mut [u8]) -> Result<Option<usize>> {
        self.socket.receive(frame).map_err(|e| {
            Error::os(format!("receive from {}", self.name), &e, "look whether the interface is still up")
        })
    }

    /// Waits until a frame has come, or that time is over.
    pub fn wait(&self, longest_ns: u64) {
        // What interrupts it ends the waiting, which its caller repeats.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timespec(longest_ns)));
    }
}

fn number(name: &str) -> Result<u32> {
    if_nametoindex(name).map_err(|e| {
        Error::os(format!("use the interface {name}"), &e.into(), "choose one that is there: ip link")
    })
}

/// Makes a private wire: the MainDevice's end, and the segment's.
pub fn own_wire() -> Result<(Link, Link)> {
    // A thread of its own, since a network is a thread's.
    let made = std::thread::Builder::new().name("wire".into()).spawn(|| {
        own_network()?;
        let [main, segment] = ENDS;
        ip(&["link", "add", main, "type", "veth", "peer", "name", segment])?;
        // Without addresses of its own making, the kernel is silent on it.
        let quiet: &[&str] = if untrusted::is_there("/proc/sys/net/ipv6") { &ENDS } else { &[] };
        for end in quiet {
            ip(&["link", "set", end, "addrgenmode", "none"])?;
        }
        ip(&["link", "set", main, "up"])?;
        ip(&["link", "set", segment, "up"])?;
        Ok((Link::open(main)?, Link::open(segment)?))
    });
    let what = "make a wire of virtual interfaces";
    let made = made.map_err(|e| Error::os(what, &e, "raise the limit on processes"))?;
    made.join().unwrap_or_else(|_| Err(Error::new(what, "its thread ended", "report this as a defect")))
}

/// Runs iproute2's program in the calling thread's network.
fn ip(arguments: &[&str]) -> Result<()> {
    let what = format!("run ip {}", arguments.join(" "));
    let ran = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let ran = ran.map_err(|e| Error::os(what.as_str(), &e, "apt-get install iproute2"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let said = said.lines().next().unwrap_or("it said nothing").to_string();
    Err(Error::new(what, said, "look whether the kernel has veth (CONFIG_VETH)"))
}
