// SPDX-License-Identifier: MIT OR Apache-2.0
//! How to get a real-time kernel on this distribution, and when one has to be built.

pub(crate) mod sight;

use machine::Snapshot;
use machine::inventory::Distribution;

/// A kernel that has what isolation wants, for where no package has.
const BUILD: &str = "isolator kernel build --config debian builds one of Linux's own source, or configure CONFIG_PREEMPT_RT \
    in the distribution's (in Linux itself since 6.12 for x86, arm64 and riscv)";

/// The distribution; empty if it is not known.
fn distribution(machine: &Snapshot) -> Distribution {
    machine.inventory.as_deref().map(|inventory| inventory.distribution.clone()).unwrap_or_default()
}

fn is_jetson(machine: &Snapshot) -> bool {
    let inventory = machine.inventory.as_deref();
    machine.product.as_deref().is_some_and(|product| product.contains("Jetson"))
        || inventory.is_some_and(|inventory| inventory.text("/etc/nv_tegra_release").is_some())
}

/// Whether a Raspberry Pi runs Raspberry Pi OS, or Debian, whose kernels are for it as well.
fn is_raspberry_pi_os(machine: &Snapshot) -> bool {
    let found = distribution(machine);
    let is_other = matches!(found.id.as_deref().unwrap_or_default(), "ubuntu" | "fedora" | "arch");
    machine.product.as_deref().is_some_and(|product| product.contains("Raspberry Pi")) && !is_other
}

/// How to get a real-time kernel here, in a sentence.
pub fn real_time_kernel(machine: &Snapshot) -> String {
    let inventory = machine.inventory.as_deref();
    let distribution = distribution(machine);
    let installed = inventory.map(|inventory| inventory.kernels.as_slice()).unwrap_or_default();
    if let Some(kernel) = installed.iter().find(|kernel| kernel.real_time == Some(true) && kernel.image) {
        return format!(
            "A real-time kernel is installed and does not run: choose {} in the boot menu.",
            kernel.release
        );
    }
    let arm = machine.architecture.as_deref().is_some_and(|name| name.starts_with("aarch64"));
    let is = |name: &str| {
        distribution.id.as_deref() == Some(name) || distribution.like.iter().any(|like| like == name)
    };
    let id = distribution.id.as_deref().unwrap_or_default();
    if is_jetson(machine) {
        return "A real-time kernel for Jetson Linux: put 'deb https://repo.download.nvidia.com/jetson/rt-kernel rRELEASE main' \
            into /etc/apt/sources.list.d/nvidia-l4t-apt-source.list, then apt install nvidia-l4t-rt-kernel \
            nvidia-l4t-rt-kernel-headers nvidia-l4t-rt-kernel-oot-modules nvidia-l4t-display-rt-kernel. It lacks NO_HZ_FULL \
            and RCU_NOCB_CPU; a program that polls needs one built by NVIDIA's instructions with both."
            .to_string();
    }
    if is_raspberry_pi_os(machine) {
        return "A real-time kernel for Raspberry Pi OS (64 bits): apt install linux-image-rpi-v8-rt, then kernel=kernel8_rt.img \
            in /boot/firmware/config.txt. It lacks NO_HZ_FULL and RCU_NOCB_CPU; a program that polls needs a kernel built with both."
            .to_string();
    }
    match id {
        "ubuntu" => "A real-time kernel for Ubuntu LTS: pro attach TOKEN, then pro enable realtime-kernel (free for personal use; \
            --variant raspi on a Raspberry Pi)."
            .to_string(),
        "rhel" => "A real-time kernel for RHEL: subscription-manager repos --enable the release's rt repository, then \
            dnf install kernel-rt."
            .to_string(),
        "fedora" => format!("Fedora has no package of a real-time kernel: {BUILD}."),
        "arch" | "manjaro" | "endeavouros" => "A real-time kernel for Arch: pacman -S linux-rt (or linux-rt-lts).".to_string(),
        _ if id != "debian" && is("rhel") => "A real-time kernel for this kin of RHEL: dnf config-manager --set-enabled rt, then \
            dnf install kernel-rt."
            .to_string(),
        _ if is("debian") => {
            let package = if arm { "linux-image-rt-arm64" } else { "linux-image-rt-amd64" };
            format!("A real-time kernel for Debian: apt install {package}, then choose it in the boot menu.")
        }
        _ => format!("No package of a real-time kernel is known for this distribution: {BUILD}."),
    }
}

/// The same, as a command alone.
pub fn command(machine: &Snapshot) -> String {
    let sentence = real_time_kernel(machine);
    let command = sentence.split_once(": ").map_or(sentence.as_str(), |(_, command)| command);
    command.trim_end_matches('.').to_string()
}

/// Options that the running real-time kernel lacks, so that one would have to be built; `None` if it has all.
pub fn custom_kernel(machine: &Snapshot) -> Option<String> {
    let lacks: Vec<&str> = ["NO_HZ_FULL", "RCU_NOCB_CPU", "CPU_ISOLATION", "CPUSETS"]
        .into_iter()
        .filter(|name| machine.kernel.option(name) == Some(false))
        .collect();
    if lacks.is_empty() {
        return None;
    }
    Some(format!(
        "This real-time kernel is built without {}. For a program that sleeps each period that is no harm but for CPU_ISOLATION; \
         one that polls needs a kernel built with them: {BUILD}.",
        lacks.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::inventory::{Distribution, Installed, Inventory, Reading};

    fn advice(id: &str, like: &str, change: impl Fn(&mut Snapshot, &mut Inventory)) -> String {
        let mut inventory = Inventory {
            distribution: Distribution {
                id: Some(id.into()),
                like: like.split_whitespace().map(str::to_string).collect(),
                ..Distribution::default()
            },
            ..Inventory::default()
        };
        let mut machine = Snapshot { architecture: Some("x86_64".into()), ..Snapshot::default() };
        change(&mut machine, &mut inventory);
        machine.inventory = Some(Box::new(inventory));
        real_time_kernel(&machine)
    }

    #[test]
    fn each_distribution_has_its_own_way() {
        let plain = |id, like| advice(id, like, |_, _| {});
        for (id, like, word) in [
            ("debian", "", "linux-image-rt-amd64"),
            ("linuxmint", "ubuntu debian", "linux-image-rt-amd64"),
            ("ubuntu", "debian", "pro enable realtime-kernel"),
            ("fedora", "", "has no package"),
            ("rhel", "fedora", "subscription-manager"),
            ("almalinux", "rhel centos fedora", "--set-enabled rt"),
            ("arch", "", "pacman -S linux-rt"),
            ("alpine", "", "is known for this distribution"),
        ] {
            assert!(plain(id, like).contains(word), "{id}: {}", plain(id, like));
        }
        let jetson = advice("ubuntu", "debian", |_, inventory| {
            inventory.files.insert("/etc/nv_tegra_release".into(), Reading::Text("# R36".into()));
        });
        assert!(jetson.contains("nvidia-l4t-rt-kernel"));
        let pi = advice("debian", "", |machine, _| {
            machine.product = Some("Raspberry Pi 5 Model B Rev 1.0".into())
        });
        assert!(pi.contains("linux-image-rpi-v8-rt"));
    }

    #[test]
    fn one_that_is_installed_need_only_be_booted() {
        let found = advice("debian", "", |_, inventory| {
            let kernel = Installed {
                release: "6.12.1-rt-amd64".into(),
                image: true,
                real_time: Some(true),
                ..Installed::default()
            };
            inventory.kernels = vec![kernel];
        });
        assert_eq!(
            found,
            "A real-time kernel is installed and does not run: choose 6.12.1-rt-amd64 in the boot menu."
        );
    }
}
