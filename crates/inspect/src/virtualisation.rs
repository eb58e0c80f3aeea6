// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether there is a hypervisor below or a container around us, as far as files tell.
//!
//! On x86 the processor's `hypervisor` flag decides; what kind it is, only paravirtual clocks and DMI say,
//! and some virtual machines have neither. Elsewhere there is no such flag, and a silent hypervisor (a
//! partitioning one on an embedded board, for example) is not found.

use machine::snapshot::KUBERNETES;

use crate::identity::field;
use crate::tree::Tree;

/// The name for a virtual machine of an unknown kind.
const UNKNOWN: &str = "of unknown kind";

/// Beginnings of DMI's vendor and product names, and whose they are.
const MAKERS: &[(&str, &str)] = &[
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek GmbH", "virtualbox"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "hyper-v"),
    ("Virtual Machine", "hyper-v"),
    ("Apple Virtualization", "apple"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Google Compute Engine", "kvm"),
    ("Amazon EC2", "kvm"),
    ("Alibaba Cloud", "kvm"),
    ("Tencent Cloud", "kvm"),
    ("DigitalOcean", "kvm"),
    ("Hetzner", "kvm"),
];

/// The hypervisor's name, where the machine is virtual.
pub(crate) fn hypervisor(tree: &mut Tree) -> Option<String> {
    if let Some(kind) = tree.word("sys/hypervisor/type") {
        return Some(kind);
    }
    let release = tree.text("proc/sys/kernel/osrelease").unwrap_or_default().to_lowercase();
    if release.contains("microsoft") {
        return Some("wsl".to_string());
    }
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    let flag = field(&cpuinfo, "flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    if flag == Some(false) {
        return None;
    }
    let kind = by_clocksource(tree).or_else(|| by_device_tree(tree)).or_else(|| by_dmi(tree));
    kind.or((flag == Some(true)).then_some(UNKNOWN)).map(str::to_string)
}

fn by_clocksource(tree: &mut Tree) -> Option<&'static str> {
    let clocks = tree.text("sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    clocks.split_whitespace().find_map(|clock| match clock {
        "kvm-clock" => Some("kvm"),
        "xen" => Some("xen"),
        _ if clock.starts_with("hyperv_clocksource") => Some("hyper-v"),
        _ => None,
    })
}

fn by_device_tree(tree: &mut Tree) -> Option<&'static str> {
    if let Some(compatible) = tree.text("proc/device-tree/hypervisor/compatible") {
        let kinds = [("kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware")];
        return Some(
            kinds.iter().find(|(word, _)| compatible.contains(word)).map_or(UNKNOWN, |(_, kind)| kind),
        );
    }
    let board = tree.text("proc/device-tree/compatible").unwrap_or_default();
    let virtual_board = board.contains("linux,dummy-virt") || board.contains("qemu,pseries");
    virtual_board.then_some(UNKNOWN)
}

fn by_dmi(tree: &mut Tree) -> Option<&'static str> {
    let mut text = |name: &str| tree.text(&format!("sys/class/dmi/id/{name}"));
    // A cloud's whole machines have its vendor too, and say so (`c7g.metal`, `m7gd.metal-24xl`).
    if text("product_name").is_some_and(|product| product.contains(".metal")) {
        return None;
    }
    ["product_name", "sys_vendor", "board_vendor", "bios_vendor"].iter().find_map(|name| {
        let text = text(name)?;
        MAKERS.iter().find(|(start, _)| text.starts_with(start)).map(|(_, kind)| *kind)
    })
}

/// Whether this program runs in the namespaces that the kernel made at boot. Every runtime gives a container
/// its own host name and its own System V IPC unless each is shared on purpose. The numbers are constants of
/// the kernel's ABI (include/linux/proc_ns.h).
fn in_initial_namespaces(tree: &Tree) -> bool {
    [("ipc", "ipc:[4026531839]"), ("uts", "uts:[4026531838]")]
        .iter()
        .all(|(name, initial)| tree.link_name(&format!("proc/self/ns/{name}")).as_deref() == Some(initial))
}

/// The container's runtime, where there is one.
pub(crate) fn container(tree: &mut Tree) -> Option<String> {
    if let Some(manager) = tree.word("run/systemd/container") {
        return Some(manager);
    }
    // Only root may read it on a machine that is no container: that says nothing then.
    let environment = tree.hint("proc/1/environ").unwrap_or_default();
    // Where a pod's image is empty and its control group is its root, nothing else tells.
    if environment.split('\0').any(|variable| variable.starts_with("KUBERNETES_SERVICE_HOST=")) {
        return Some(KUBERNETES.to_string());
    }
    // A root file system that was exported from a container keeps these files on the machine that boots it.
    if !in_initial_namespaces(tree) {
        if tree.present(".dockerenv") {
            return Some("docker".to_string());
        }
        if tree.present("run/.containerenv") {
            return Some("podman".to_string());
        }
    }
    if let Some(manager) = environment.split('\0').find_map(|variable| variable.strip_prefix("container=")) {
        return Some(manager.to_string());
    }
    // What systemd's container interface and OpenVZ leave inside.
    if let Some(manager) = tree.word("run/host/container-manager") {
        return Some(manager);
    }
    if tree.exists("proc/vz") && !tree.exists("proc/bc") {
        return Some("openvz".to_string());
    }
    let groups = tree.hint("proc/1/cgroup").unwrap_or_default();
    let hints = [
        ("kubepods", KUBERNETES),
        ("docker", "docker"),
        ("libpod", "podman"),
        ("lxc", "lxc"),
        ("containerd", "containerd"),
    ];
    hints.iter().find(|(word, _)| groups.contains(word)).map(|(_, manager)| manager.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    const GUEST: (&str, &str) = ("proc/cpuinfo", "flags\t\t: fpu hypervisor lm\n");
    const METAL: (&str, &str) = ("proc/cpuinfo", "flags\t\t: fpu lm\n");
    const ARM: (&str, &str) = ("proc/cpuinfo", "CPU architecture: 8\n");
    const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

    #[test]
    fn names_the_hypervisor() {
        type Files<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Files, Option<&str>)] = &[
            (&[METAL, ("sys/class/dmi/id/sys_vendor", "Microsoft Corporation")], None),
            (&[METAL, ("sys/class/dmi/id/product_name", "VMware7,1")], None),
            (&[GUEST], Some(UNKNOWN)),
            (&[GUEST, (CLOCKS, "tsc kvm-clock \n")], Some("kvm")),
            (&[GUEST, (CLOCKS, "tsc hyperv_clocksource_tsc_page")], Some("hyper-v")),
            (&[GUEST, (CLOCKS, "tsc"), ("sys/class/dmi/id/product_name", "VMware7,1\n")], Some("vmware")),
            (&[GUEST, ("sys/class/dmi/id/sys_vendor", "innotek GmbH\n")], Some("virtualbox")),
            (&[METAL, ("sys/hypervisor/type", "xen\n")], Some("xen")),
            (&[GUEST, ("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2")], Some("wsl")),
            (&[ARM], None),
            (&[ARM, ("sys/class/dmi/id/sys_vendor", "QEMU\n")], Some("qemu")),
            (&[ARM, ("sys/class/dmi/id/product_name", "Alibaba Cloud ECS\n")], Some("kvm")),
            (
                &[
                    ARM,
                    ("sys/class/dmi/id/sys_vendor", "Hetzner\n"),
                    ("sys/class/dmi/id/product_name", "vServer\n"),
                ],
                Some("kvm"),
            ),
            (
                &[
                    ARM,
                    ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
                    ("sys/class/dmi/id/product_name", "c7g.metal\n"),
                ],
                None,
            ),
            (&[ARM, ("proc/device-tree/hypervisor/compatible", "linux,kvm\0")], Some("kvm")),
            (&[ARM, ("proc/device-tree/compatible", "linux,dummy-virt\0")], Some(UNKNOWN)),
            (&[], None),
        ];
        for (files, expected) in cases {
            assert_eq!(hypervisor(&mut made_of(files).1).as_deref(), *expected, "{files:?}");
        }
    }

    #[test]
    fn names_the_container() {
        let cases = [
            ("run/systemd/container", "systemd-nspawn\n", Some("systemd-nspawn")),
            (".dockerenv", "", Some("docker")),
            ("run/.containerenv", "", Some("podman")),
            ("proc/1/environ", "PATH=/bin\0container=lxc\0TERM=x\0", Some("lxc")),
            ("proc/1/cgroup", "0::/kubepods.slice/docker-1.scope\n", Some("kubernetes")),
            ("proc/1/cgroup", "0::/init.scope\n", None),
            ("proc/1/environ", "PATH=/bin\0KUBERNETES_SERVICE_HOST=10.0.0.1\0", Some("kubernetes")),
            ("proc/1/environ", "not_a_container=1\0", None),
            ("run/host/container-manager", "lxc-libvirt\n", Some("lxc-libvirt")),
            ("proc/vz/version", "4.8\n", Some("openvz")),
        ];
        for (path, content, expected) in cases {
            assert_eq!(
                container(&mut made_of(&[(path, content)]).1).as_deref(),
                expected,
                "{path} {content}"
            );
        }
    }

    #[test]
    fn a_marker_in_the_initial_namespaces_is_a_leftover() {
        for (uts, expected) in [("uts:[4026531838]", None), ("uts:[4026532214]", Some("docker"))] {
            let (folder, mut tree) = made_of(&[(".dockerenv", ""), ("run/.containerenv", "")]);
            let namespaces = folder.path().join("proc/self/ns");
            std::fs::create_dir_all(&namespaces).unwrap();
            std::os::unix::fs::symlink("ipc:[4026531839]", namespaces.join("ipc")).unwrap();
            std::os::unix::fs::symlink(uts, namespaces.join("uts")).unwrap();
            assert_eq!(container(&mut tree).as_deref(), expected, "{uts}");
        }
    }
}
