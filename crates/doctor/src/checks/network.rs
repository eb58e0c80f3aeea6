// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network interfaces.

use machine::advice::Manual::Network;
use machine::advice::SettingId;
use machine::inventory::{Coalescing, Irq};
use machine::units::whole_us;

use super::irq::{devices, disturbs, named, none_disturbs, perhaps_on};
use super::{APART_LESS, Check, SLIGHT};
use crate::facts::{AS_ROOT, CheckFacts, not_captured, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "net-coalesce",
        question: "Is interrupt coalescing off?",
        weights: [Some(Severity::Low), Some(Severity::Low), None, Some(Severity::Low), None],
        why: "coalescing delays a packet by up to rx-usecs; only the port of the real-time program needs it off",
        source: "ethtool(8); LinuxCNC's hm2_eth, which warns that some Marvell parts get worse",
        look: coalescing,
    },
    Check {
        id: "net-irq",
        question: "Are network interrupts kept off isolated CPUs?",
        weights: APART_LESS,
        why: "the interrupt and softirq of a packet stop the program on that CPU",
        source: "OpenEtherCATsociety/SOEM issue 330",
        look: interrupts,
    },
    Check {
        id: "net-rps",
        question: "Is receive packet steering kept off isolated CPUs?",
        weights: SLIGHT,
        why: "receive packet steering hands packets to CPUs by IPI",
        source: "Linux 6.12, Documentation/networking/scaling.rst",
        look: steering,
    },
];

fn none(facts: &CheckFacts) -> Option<Conclusion> {
    if !facts.inventory.interfaces.is_empty() {
        return None;
    }
    if let Err(found) = facts.unseen_host("/sys/class/net") {
        return Some(found);
    }
    Some(if facts.inventory.whole {
        Conclusion::not_applicable("no network interface is a device")
    } else {
        not_captured("/sys/class/net")
    })
}

fn coalescing(facts: &CheckFacts) -> CheckResult {
    if let Some(found) = none(facts) {
        return Err(found);
    }
    let up: Vec<_> =
        facts.inventory.interfaces.iter().filter(|port| port.state.as_deref() == Some("up")).collect();
    if up.is_empty() {
        return Err(Conclusion::not_applicable("no network interface that is a device is up"));
    }
    let asked: Vec<_> = up.iter().filter_map(|port| Some((port, port.coalescing.as_ref()?))).collect();
    let told = |how: &Coalescing| how.adaptive_receive.is_some() || how.receive_us.is_some();
    let silent: Vec<&str> = up
        .iter()
        .filter(|port| !port.coalescing.as_ref().is_some_and(told))
        .map(|port| port.name.as_str())
        .collect();
    let slow: Vec<String> = asked
        .iter()
        .filter(|(_, how)| how.adaptive_receive == Some(true) || how.receive_us.is_some_and(|us| us > 0))
        .map(|(port, how)| match (how.adaptive_receive, how.receive_us) {
            (Some(true), _) => format!("{} has adaptive coalescing", port.name),
            (_, us) => format!("{} delays packets by up to {}", port.name, whole_us(us.unwrap_or(0))),
        })
        .collect();
    let read = read_in("ethtool -c", some(&slow, 8));
    if slow.is_empty() && !silent.is_empty() {
        return Err(Conclusion::unknown(
            "ethtool -c",
            format!(
                "ethtool is not installed, or the driver does not show the coalescing of {}",
                some(&silent, 3)
            ),
            "apt install ethtool, then run isolator doctor again",
        ));
    }
    Ok(match slow.first() {
        None => Conclusion::pass(read, "no interface coalesces interrupts"),
        Some(first) => {
            let name = first.split(' ').next().unwrap_or_default();
            Conclusion::warn(
                read,
                some(&slow, 3),
                Network.advice(format!(
                    "ethtool -C {name} adaptive-rx off rx-usecs 0, for the port with a deadline"
                )),
            )
        }
    })
}

fn interrupts(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    if let Some(found) = none(facts) {
        return Err(found);
    }
    let names: Vec<&str> = facts.inventory.interfaces.iter().map(|port| port.name.as_str()).collect();
    let own = |number: u32| {
        facts.machine.devices.iter().any(|device| device.kind == "network" && device.irqs.contains(&number))
    };
    let all: Vec<&Irq> = devices(facts)?
        .into_iter()
        .filter(|irq| {
            let named = irq.actions.iter().any(|action| names.iter().any(|name| belongs(action, name)));
            irq.unseen || own(irq.number) || named
        })
        .collect();
    let here: Vec<String> = all
        .iter()
        .filter(|irq| !irq.unseen && disturbs(facts, irq, isolated))
        .map(|irq| named(irq))
        .collect();
    if here.is_empty() {
        let unseen = all.iter().filter(|irq| irq.unseen).map(|irq| named(irq));
        let unclear: Vec<String> = perhaps_on(&all, isolated).into_iter().chain(unseen).collect();
        if !unclear.is_empty() {
            let why =
                format!("the device or the CPU of these interrupts is not shown: {}", some(&unclear, 3));
            return Err(Conclusion::unknown("/proc/irq/N/effective_affinity_list", why, AS_ROOT));
        }
        // An interface of which no interrupt is known may have one under another name.
        if all.is_empty() {
            let why = format!("no interrupt bears the name of {}", some(&names, 3));
            return Err(Conclusion::unknown("/sys/kernel/irq/N/actions", why, AS_ROOT));
        }
    }
    if here.is_empty() {
        facts.unseen_host("/sys/class/net")?;
    }
    let read = read_in("/proc/irq/N/effective_affinity_list", some(&here, 8));
    Ok(if here.is_empty() {
        let says = none_disturbs(facts, &all, "network interrupts are delivered to other CPUs");
        Conclusion::pass(read, says)
    } else {
        let fix = SettingId::IrqAffinity
            .advice(&facts.aim())
            .then(", but for the port that the program itself serves");
        Conclusion::warn(read, format!("network interrupts on cpus {isolated}: {}", some(&here, 3)), fix)
    })
}

/// Whether a handler is an interface's: `eth0`, `eth0-rx-1`, `eth0:tx`; not `eth01`.
fn belongs(action: &str, interface: &str) -> bool {
    action
        .strip_prefix(interface)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '_', '@']))
}

fn steering(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    if let Some(found) = none(facts) {
        return Err(found);
    }
    let here: Vec<String> = facts
        .inventory
        .interfaces
        .iter()
        .filter(|port| !port.rps.and(isolated).is_empty())
        .map(|port| format!("{} to cpus {}", port.name, port.rps.and(isolated)))
        .collect();
    let unread = facts.inventory.interfaces.iter().find(|port| port.rps_unread);
    if let Some(port) = unread.filter(|_| here.is_empty() && facts.option("RPS") != Some(false)) {
        let path = format!("/sys/class/net/{}/queues/rx-N/rps_cpus", port.name);
        return Err(Conclusion::unknown(path, "it could not be read", AS_ROOT));
    }
    if here.is_empty() {
        facts.unseen_host("/sys/class/net")?;
    }
    let read = read_in("/sys/class/net/IF/queues/rx-N/rps_cpus", some(&here, 8));
    Ok(if here.is_empty() {
        Conclusion::pass(read, "packets are steered to other CPUs")
    } else {
        Conclusion::warn(read, some(&here, 3), SettingId::PacketSteering.advice(&facts.aim()))
    })
}
