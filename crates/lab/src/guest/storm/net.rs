// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic over the loopback interface: bursts of datagrams and short connections.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{Result, sys};

pub const NET_LOOPBACK: StormKind = StormKind {
    name: "net-loopback",
    about: "sends bursts of datagrams and makes connections over 127.0.0.1",
    ready: |_| Ok(Box::new(NetTraffic::ready()?)),
    ..StormKind::USUAL
};

/// Datagrams in a burst, and their size.
const BURST: usize = 16;
const SIZE: usize = 1024;

struct NetTraffic {
    datagrams: UdpSocket,
    listener: TcpListener,
    was_up: bool,
    packets: u64,
}

impl NetTraffic {
    fn ready() -> Result<NetTraffic> {
        let datagrams = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let was_up = sys::interface_up(&datagrams, "lo", true).map_err(|e| format!("lo: {e}"))?;
        datagrams.connect((Ipv4Addr::LOCALHOST, datagrams.local_addr()?.port()))?;
        datagrams.set_read_timeout(Some(Duration::from_secs(1)))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(NetTraffic { datagrams, listener, was_up, packets: packets()? })
    }
}

/// Packets that lo has received: the second figure of its line.
fn packets() -> Result<u64> {
    let devices = fs::read_to_string("/proc/net/dev")?;
    let mut lines = devices.lines().filter_map(|line| line.trim().strip_prefix("lo:"));
    let packets = lines.next().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    Ok(packets.ok_or("/proc/net/dev has no lo")?)
}

impl Storm for NetTraffic {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        let mut data = [7; SIZE];
        for _ in 0..BURST {
            self.datagrams.send(&data)?;
        }
        for _ in 0..BURST {
            self.datagrams.recv(&mut data)?;
        }
        let mut one = TcpStream::connect(self.listener.local_addr()?)?;
        let (mut other, _) = self.listener.accept()?;
        one.write_all(&data)?;
        Ok(other.read_exact(&mut data)?)
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        let seen = packets()?.saturating_sub(self.packets);
        sys::interface_up(&self.datagrams, "lo", self.was_up)?;
        let bursts = rounds * BURST as u64;
        if seen < bursts {
            return Err(format!("{bursts} datagrams sent, but lo counted {seen} packets").into());
        }
        Ok(format!("{bursts} datagrams and {rounds} connections; lo counted {seen} packets"))
    }
}
