// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network interfaces and graphics.
//!
//! How an interface collects interrupts (coalescing) stands in no file; `ethtool` is asked where it is
//! installed, for interfaces that are devices and up.

use std::collections::BTreeSet;

use super::live;
use crate::tree::Tree;
use machine::CpuSet;
use machine::inventory::{Coalescing, NetworkInterface};

/// Most interfaces that are looked at.
const MOST: usize = 64;

pub(super) fn interfaces(tree: &mut Tree) -> Vec<NetworkInterface> {
    let mut found = Vec::new();
    for name in tree.names("sys/class/net").into_iter().take(MOST) {
        let folder = format!("sys/class/net/{name}");
        if !tree.exists(&format!("{folder}/device")) {
            continue;
        }
        let (mut rps, mut rps_unread) = (CpuSet::new(), false);
        for queue in tree.numbered(&format!("{folder}/queues"), "rx-") {
            let mask = tree.hint(&format!("{folder}/queues/rx-{queue}/rps_cpus"));
            match mask.and_then(|mask| CpuSet::from_mask(&mask).ok()) {
                Some(cpus) => rps = rps.or(&cpus),
                None => rps_unread = true,
            }
        }
        let node: Option<i64> =
            tree.hint(&format!("{folder}/device/numa_node")).and_then(|text| text.parse().ok());
        let state = tree.hint(&format!("{folder}/operstate"));
        let ask = tree.live() && state.as_deref() == Some("up");
        found.push(NetworkInterface {
            driver: tree.link_name(&format!("{folder}/device/driver")),
            node: node.and_then(|node| u32::try_from(node).ok()),
            wireless: tree.exists(&format!("{folder}/phy80211")),
            coalescing: if ask {
                live::output_of("ethtool", &["-c", &name]).map(|text| coalescing(&text))
            } else {
                None
            },
            state,
            rps,
            rps_unread,
            name,
        });
    }
    found
}

/// Lines are `Adaptive RX: on  TX: off` and `rx-usecs: 3`; what the driver does not have is `n/a`.
fn coalescing(text: &str) -> Coalescing {
    let value = |name: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let adaptive = value("Adaptive RX").and_then(|rest| rest.split_whitespace().next());
    Coalescing {
        adaptive_receive: adaptive.and_then(|word| match word {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }),
        receive_us: value("rx-usecs").and_then(|number| number.parse().ok()),
    }
}

/// Drivers of graphics devices, each once.
pub(super) fn graphics(tree: &mut Tree) -> Vec<String> {
    let cards = tree.numbered("sys/class/drm", "card");
    let drivers: BTreeSet<String> = cards
        .iter()
        .filter_map(|card| tree.link_name(&format!("sys/class/drm/card{card}/device/driver")))
        .collect();
    drivers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn reads_what_ethtool_prints() {
        let text = "Coalesce parameters for eth0:\nAdaptive RX: on  TX: n/a\nstats-block-usecs: n/a\n\nrx-usecs: 3\nrx-frames: n/a\n";
        assert_eq!(coalescing(text), Coalescing { adaptive_receive: Some(true), receive_us: Some(3) });
        assert_eq!(coalescing("Adaptive RX: n/a  TX: n/a\nrx-usecs: n/a\n"), Coalescing::default());
        assert_eq!(coalescing("netlink error"), Coalescing::default());
    }

    #[test]
    fn an_interface_without_a_device_is_left_out() {
        let (_folder, mut tree) = made_of(&[
            ("sys/class/net/lo/operstate", "unknown"),
            ("sys/class/net/eth1/device/numa_node", "-1\n"),
            ("sys/class/net/eth1/operstate", "up\n"),
            ("sys/class/net/eth1/queues/rx-0/rps_cpus", "c\n"),
            ("sys/class/net/eth1/queues/rx-1/rps_cpus", "1\n"),
        ]);
        let found = interfaces(&mut tree);
        assert_eq!((found.len(), found[0].name.as_str(), found[0].node), (1, "eth1", None));
        assert_eq!((found[0].rps.to_string().as_str(), &found[0].coalescing), ("0,2-3", &None));
    }
}
