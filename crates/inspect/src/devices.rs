// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that a real-time program talks to: network interfaces and sound cards, with their memory node and
//! interrupts.
//!
//! A virtio or USB device has neither; those of the controller above it count. Limit: at most three folders
//! up, and a device without a driver is not there.

use crate::tree::Tree;
use machine::Snapshot;
use machine::snapshot::Device;

/// Most devices that are kept: a machine with thousands of virtual interfaces talks through a few.
const LIMIT: usize = 256;

pub(crate) fn read(tree: &mut Tree, machine: &mut Snapshot) {
    for (class, kind) in [("net", "network"), ("sound", "sound")] {
        for name in tree.names(&format!("sys/class/{class}")) {
            let folder = format!("sys/class/{class}/{name}/device");
            let wanted =
                class == "net" || name.strip_prefix("card").is_some_and(|n| n.parse::<u32>().is_ok());
            if wanted && tree.exists(&folder) && machine.devices.len() < LIMIT {
                machine.devices.push(device(tree, &folder, name, kind));
            }
        }
    }
}

fn device(tree: &mut Tree, folder: &str, name: String, kind: &str) -> Device {
    let mut device = Device { name, kind: kind.to_string(), ..Device::default() };
    for place in [folder.to_string(), format!("{folder}/.."), format!("{folder}/../..")] {
        let irqs = tree.numbered(&format!("{place}/msi_irqs"), "");
        let pin = tree.hint(&format!("{place}/irq")).and_then(|text| text.parse().ok());
        let pin: Option<u32> = pin.filter(|number| *number != 0);
        let node = tree.hint(&format!("{place}/numa_node")).and_then(|text| text.parse::<u32>().ok());
        if irqs.is_empty() && pin.is_none() && node.is_none() {
            continue;
        }
        device.address = tree.real_name(&place);
        device.node = node;
        device.irqs = if irqs.is_empty() { pin.into_iter().collect() } else { irqs };
        break;
    }
    device
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tree::made_of;

    #[test]
    fn finds_node_and_interrupts_of_a_device_or_of_what_it_hangs_on() {
        let pci = "sys/devices/pci0000:00/0000:03:00.0";
        let nic = [format!("{pci}/numa_node"), format!("{pci}/msi_irqs/33"), format!("{pci}/msi_irqs/34")];
        let virt = "sys/devices/pci0000:00/0000:04:00.0/virtio2/net/eth1/mtu";
        let (folder, mut tree) = made_of(&[
            (&nic[0], "1\n"),
            (&nic[1], "msix\n"),
            (&nic[2], "msix\n"),
            (&format!("{pci}/net/eth0/mtu"), "1500\n"),
            (virt, "1500\n"),
            ("sys/devices/pci0000:00/0000:04:00.0/irq", "11\n"),
            ("sys/devices/pci0000:00/0000:04:00.0/numa_node", "-1\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
        ]);
        let root = folder.path();
        symlink("../..", root.join(pci).join("net/eth0/device")).unwrap();
        symlink("../..", root.join("sys/devices/pci0000:00/0000:04:00.0/virtio2/net/eth1/device")).unwrap();
        for (name, place) in [("eth0", format!("{pci}/net/eth0")), ("eth1", virt.replace("/mtu", ""))] {
            symlink(root.join(place), root.join("sys/class/net").join(name)).unwrap();
        }
        let mut machine = Snapshot::default();
        read(&mut tree, &mut machine);
        let expected = |name: &str, address: &str, node, irqs: &[u32]| Device {
            name: name.into(),
            kind: "network".into(),
            address: Some(address.into()),
            node,
            irqs: irqs.to_vec(),
        };
        assert_eq!(
            machine.devices,
            [
                expected("eth0", "0000:03:00.0", Some(1), &[33, 34]),
                expected("eth1", "0000:04:00.0", None, &[11])
            ]
        );
    }
}
