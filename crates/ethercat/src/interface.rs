// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether an interface may carry EtherCAT: it is there and up, and no other network depends on it.
//!
//! EtherCAT floods its wire, and SubDevices forward any frame: an interface with an address, or the one that
//! leads to everybody else, is refused unless forced. All is read from the network of the calling thread.

use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

use crate::segment::frame::ETHERTYPE;
use crate::wire::Link;
use crate::{Error, Result};

/// How long to listen for another MainDevice: the slowest one in use cycles ten times as often.
pub const LISTEN: Duration = Duration::from_millis(200);
/// More frames than wait in a socket, so that a flood of others does not make it listen for ever.
const MOST_WAITING: usize = 4096;

/// The kind of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Switched on, and connected.
    pub is_up: bool,
    /// A loopback, which carries no Ethernet.
    pub is_loopback: bool,
    /// IP addresses that it carries, link-local ones of IPv6 aside: any interface that is up gets one.
    pub addresses: Vec<String>,
    /// A default route leads through it.
    pub is_default_route: bool,
}

/// Looks at the interface with that name.
pub fn look(name: &str) -> Result<Interface> {
    let what = format!("use the interface {name}");
    let all = getifaddrs().map_err(|e| Error::os(what.as_str(), &e.into(), "report this as a defect"))?;
    let number = if_nametoindex(name).map_err(|_| {
        let names = names();
        Error::new(what.as_str(), "there is no such interface", format!("choose from {names}"))
    })?;
    let mut found = Interface { name: name.to_string(), number, ..Interface::default() };
    for entry in all.filter(|entry| entry.interface_name == name) {
        found.is_up = entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
        found.is_loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let Some(address) = entry.address else { continue };
        let v4 = address.as_sockaddr_in().map(|address| address.ip().to_string());
        let v6 = address
            .as_sockaddr_in6()
            .filter(|v6| !v6.ip().is_unicast_link_local())
            .map(|v6| v6.ip().to_string());
        found.addresses.extend(v4.or(v6));
    }
    let read = |file: &str| untrusted::text(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    found.is_default_route = leads_out(&read("route"), &read("ipv6_route"), name);
    Ok(found)
}

/// Interfaces that may be meant.
fn names() -> String {
    let mut names: Vec<String> =
        getifaddrs().into_iter().flatten().map(|entry| entry.interface_name).collect();
    names.retain(|name| name != "lo");
    names.sort();
    names.dedup();
    if names.is_empty() { "none: this network has but a loopback".to_string() } else { names.join(", ") }
}

/// Whether one of the tables of routes (`/proc/net/route`, `/proc/net/ipv6_route`) has a default route
/// through `name`.
fn leads_out(v4: &str, v6: &str, name: &str) -> bool {
    let v4 = v4.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [interface, destination, _, _, _, _, _, mask, ..]
            if interface == name && destination == "00000000" && mask == "00000000")
    });
    let v6 = v6.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [destination, "00", .., interface]
            if interface == name && destination.bytes().all(|digit| digit == b'0'))
    });
    v4 || v6
}

impl Interface {
    /// Refuses what EtherCAT must not be sent to; `forced`: only what it cannot be sent to.
    pub fn check(&self, forced: bool) -> Result<()> {
        let what = format!("use the interface {}", self.name);
        let refuse = |why: String, cure: &str| Err(Error::new(what.as_str(), why, cure));
        if self.is_loopback {
            return refuse("it is a loopback".into(), "choose an Ethernet interface");
        }
        if !self.is_up {
            return refuse(
                "it is down, or nothing is connected".into(),
                "connect the first SubDevice, switch it on, and: ip link set NAME up",
            );
        }
        if forced {
            return Ok(());
        }
        if self.is_default_route {
            return refuse(
                "the default route leads through it".into(),
                "choose an interface that has nothing but SubDevices on it, or --force",
            );
        }
        if !self.addresses.is_empty() {
            return refuse(
                format!("it carries the address {}", self.addresses.join(", ")),
                "choose an interface that has nothing but SubDevices on it, take the address away, or --force",
            );
        }
        Ok(())
    }
}

/// Opens the interface with that name to drive it: if no other MainDevice drives it, or `forced`.
pub fn take(name: &str, forced: bool) -> Result<Link> {
    if !forced {
        check_alone(&Link::listen(name)?, LISTEN)?;
    }
    Link::open(name)
}

/// Listens on a wire that we have not sent anything on: a sender of EtherCAT frames there is another
/// MainDevice. One on this machine is heard even where no SubDevice answers it.
pub fn check_alone(link: &Link, listen: Duration) -> Result<()> {
    let mut frame = [0; 2048];
    let end = Instant::now() + listen;
    loop {
        // Asked first: a thread that was kept from running until after the end still hears what came.
        let left = end.saturating_duration_since(Instant::now());
        for _ in 0..MOST_WAITING {
            let Some(length) = link.receive(&mut frame)? else { break };
            if frame.get(12..14) == Some(&ETHERTYPE.to_be_bytes()) && length >= 14 {
                let sender: Vec<String> = frame[6..12].iter().map(|byte| format!("{byte:02x}")).collect();
                let sender = sender.join(":");
                return Err(Error::new(
                    format!("drive the segment at {}", link.name()),
                    format!("another MainDevice is on the wire: EtherCAT frames of {sender} pass"),
                    "stop the other one, or --force",
                ));
            }
        }
        if left.is_zero() {
            return Ok(());
        }
        link.wait(left.as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
    const V6: &str = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
        fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth2\n\
        fe800000000000000000000000000000 40 00000000000000000000000000000000 00 \
        00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth3\n";

    #[test]
    fn a_default_route_of_either_kind_is_seen() {
        for (name, leads) in
            [("eth0", true), ("eth1", false), ("eth2", true), ("eth3", false), ("eth", false)]
        {
            assert_eq!(leads_out(V4, V6, name), leads, "{name}");
        }
    }

    #[test]
    fn what_others_need_is_refused_unless_forced_and_what_cannot_be_is_refused_always() {
        let good = Interface { name: "eth1".into(), number: 2, is_up: true, ..Interface::default() };
        assert_eq!(good.check(false), Ok(()));
        let cases = [
            (Interface { is_default_route: true, ..good.clone() }, "default route", true),
            (Interface { addresses: vec!["192.168.0.2".into()], ..good.clone() }, "192.168.0.2", true),
            (Interface { is_up: false, ..good.clone() }, "down", false),
            (Interface { is_loopback: true, ..good.clone() }, "loopback", false),
        ];
        for (interface, why, may_be_forced) in cases {
            let said = interface.check(false).unwrap_err().to_string();
            assert!(said.starts_with("cannot use the interface eth1: ") && said.contains(why), "{said}");
            assert_eq!(interface.check(true).is_ok(), may_be_forced, "{said}");
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let said = look("nosuch0").unwrap_err().to_string();
        assert!(
            said.starts_with("cannot use the interface nosuch0: there is no such interface; choose from"),
            "{said}"
        );
        assert!(look("lo").unwrap().is_loopback);
    }
}
