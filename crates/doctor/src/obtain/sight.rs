// SPDX-License-Identifier: MIT OR Apache-2.0
//! How to get a kernel that Isolator can look into, on this distribution: one with BTF, a newer one, or one
//! with an option.
//!
//! Sources: the distributions' kernel configurations; raspberrypi/linux issue 6622; OpenEmbedded,
//! meta/recipes-kernel/linux/linux-yocto.inc (KERNEL_DEBUG, PAHOLE).

use machine::registry::KernelVersion;
use machine::snapshot::Preemption;
use machine::{Profile, Snapshot};

use super::{BUILD, distribution, is_jetson, is_raspberry_pi_os};

/// The maker of the running kernel, or of the system around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Jetson,
    RaspberryPiOs,
    Wsl,
    Yocto,
    Ubuntu,
    Debian,
    Fedora,
    RedHat,
    Arch,
    Suse,
    Alpine,
    Other,
}

impl Origin {
    fn of(machine: &Snapshot) -> Origin {
        let found = distribution(machine);
        let id = found.id.as_deref().unwrap_or_default();
        let is = |name: &str| id == name || found.like.iter().any(|like| like == name);
        let release = machine.kernel.release.as_deref().unwrap_or_default();
        let built = machine.kernel.version.as_deref().unwrap_or_default();
        match id {
            _ if is_jetson(machine) => Origin::Jetson,
            // Raspberry Pi's packages are marked in Debian's way, as +rpt.
            _ if is_raspberry_pi_os(machine) && (!built.contains("Debian") || built.contains("+rpt")) => {
                Origin::RaspberryPiOs
            }
            _ if release.contains("microsoft") => Origin::Wsl,
            _ if release.contains("yocto") || is("poky") || is("nodistro") => Origin::Yocto,
            _ if is("ubuntu") => Origin::Ubuntu,
            _ if is("debian") => Origin::Debian,
            "fedora" => Origin::Fedora,
            _ if is("rhel") || is("fedora") => Origin::RedHat,
            _ if is("arch") || matches!(id, "manjaro" | "endeavouros") => Origin::Arch,
            _ if is("suse") || id.starts_with("opensuse") => Origin::Suse,
            "alpine" => Origin::Alpine,
            _ => Origin::Other,
        }
    }

    /// The words that the distribution's own kernels have in their release or version.
    fn marks(self) -> &'static [&'static str] {
        match self {
            Origin::Jetson => &["tegra"],
            Origin::RaspberryPiOs => &["rpi", "-v8", "-v7", "-v6"],
            Origin::Ubuntu => &["Ubuntu"],
            Origin::Debian => &["Debian", "Ubuntu", "-pve"],
            Origin::Fedora => &[".fc"],
            Origin::RedHat => &[".el", ".amzn"],
            Origin::Arch => &["arch", "MANJARO"],
            Origin::Suse => &["-default", "-rt"],
            Origin::Alpine => &["-lts", "-virt"],
            Origin::Wsl => &["microsoft"],
            Origin::Yocto | Origin::Other => &[],
        }
    }
}

/// Where kernels for a machine come from.
pub(crate) struct KernelSupply<'a> {
    machine: &'a Snapshot,
    origin: Origin,
    /// Whether a real-time kernel is wanted, as [`super::real_time_kernel`] advises one.
    real_time: bool,
}

impl<'a> KernelSupply<'a> {
    pub(crate) fn of(machine: &'a Snapshot, profile: Profile) -> KernelSupply<'a> {
        let real_time = runs_real_time(machine) || profile != Profile::Server;
        KernelSupply { machine, origin: Origin::of(machine), real_time }
    }

    /// Whether the running kernel is one that the distribution builds.
    fn is_packaged(&self) -> bool {
        let kernel = &self.machine.kernel;
        let names = [kernel.release.as_deref(), kernel.version.as_deref()];
        let has = |mark: &&str| names.iter().flatten().any(|name| name.contains(*mark));
        self.origin.marks().iter().any(has)
    }

    /// The distribution's release, `12` for 12.5.
    fn release(&self) -> Option<u32> {
        distribution(self.machine).version?.split('.').next()?.parse().ok()
    }

    /// The command that installs the distribution's kernel; `None` where it has none of the wanted kind.
    fn stock(&self) -> Option<String> {
        let either = |rt: &str, other: &str| Some(if self.real_time { rt } else { other }.to_string());
        match self.origin {
            Origin::Debian => Some(format!("apt install {}", self.debian_package())),
            Origin::Ubuntu => either("pro enable realtime-kernel", "apt install linux-generic"),
            Origin::Fedora if runs_real_time(self.machine) => None,
            Origin::Fedora => Some("dnf install kernel".to_string()),
            Origin::RedHat => either("dnf install kernel-rt", "dnf install kernel"),
            Origin::Arch => either("pacman -S linux-rt", "pacman -S linux"),
            Origin::Suse => either("zypper install kernel-rt", "zypper install kernel-default"),
            Origin::Jetson
            | Origin::RaspberryPiOs
            | Origin::Wsl
            | Origin::Yocto
            | Origin::Alpine
            | Origin::Other => None,
        }
    }

    /// Debian's kernel for this machine.
    fn debian_package(&self) -> String {
        let flavour = match self.machine.architecture.as_deref().unwrap_or_default() {
            "aarch64" => "arm64",
            "i386" | "i486" | "i586" | "i686" => "686-pae",
            name if name.starts_with("arm") => "armmp",
            "riscv64" => "riscv64",
            _ => "amd64",
        };
        let kind = if self.real_time { "rt-" } else { "" };
        format!("linux-image-{kind}{flavour}")
    }

    /// The command that installs pahole, by which the build of a kernel writes BTF.
    fn pahole(&self) -> &'static str {
        let is_before = |first: u32| self.release().is_some_and(|number| number < first);
        match self.origin {
            Origin::Debian | Origin::RaspberryPiOs if is_before(12) => "apt install dwarves",
            Origin::Ubuntu | Origin::Jetson if is_before(22) => "apt install dwarves",
            Origin::Debian | Origin::Ubuntu | Origin::RaspberryPiOs | Origin::Jetson | Origin::Wsl => {
                "apt install pahole"
            }
            Origin::Fedora | Origin::RedHat => "dnf install dwarves",
            Origin::Suse => "zypper install dwarves",
            Origin::Arch => "pacman -S pahole",
            Origin::Alpine => "apk add pahole",
            Origin::Yocto => "KERNEL_DEBUG = \"True\" in its recipe; pahole-native is in meta-oe",
            Origin::Other => "the build needs pahole",
        }
    }

    /// How to build a kernel for this machine with `options`.
    fn built(&self, options: &str) -> String {
        let whose = match self.origin {
            Origin::Jetson => "NVIDIA's kernel (Jetson Linux Developer Guide, Kernel Customization)",
            Origin::RaspberryPiOs => "Raspberry Pi's kernel (github.com/raspberrypi/linux)",
            Origin::Wsl => "WSL's kernel (github.com/microsoft/WSL2-Linux-Kernel)",
            Origin::Yocto => "the image's kernel",
            _ if self.is_packaged() => "the distribution's kernel",
            _ => "this kernel",
        };
        format!("build {whose} with {options}")
    }

    /// The command that installs the headers of this kernel, and what compiles them.
    fn headers(&self) -> Option<&'static str> {
        // The source of one that was built here is where it was built.
        if !self.is_packaged() && !matches!(self.origin, Origin::RaspberryPiOs | Origin::Jetson) {
            return None;
        }
        Some(match self.origin {
            Origin::Debian | Origin::Ubuntu => "apt install linux-headers-$(uname -r) gcc make pahole",
            Origin::RaspberryPiOs => {
                "apt install linux-headers-rpi-v8 gcc make (linux-headers-rpi-2712 on a Pi 5)"
            }
            Origin::Jetson => "apt install nvidia-l4t-kernel-headers gcc make pahole",
            Origin::Fedora | Origin::RedHat => "dnf install kernel-devel-$(uname -r) gcc make",
            Origin::Suse => "zypper install kernel-default-devel gcc make",
            Origin::Arch => "pacman -S linux-headers gcc make",
            Origin::Alpine => "apk add linux-lts-dev gcc make",
            Origin::Wsl | Origin::Yocto | Origin::Other => return None,
        })
    }

    /// How to get the types of this kernel: from its headers, or from a kernel with BTF.
    pub(crate) fn kernel_with_types(&self) -> String {
        let headers = self
            .headers()
            .map(|command| format!("install this kernel's headers, which have its types: {command}; or "));
        headers.unwrap_or_default() + &self.kernel_with_btf()
    }

    fn kernel_with_btf(&self) -> String {
        let options = "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y CONFIG_DEBUG_INFO_BTF=y";
        let build = self.built(&format!("{options} ({})", self.pahole()));
        match self.origin {
            Origin::Wsl => "wsl --update, in Windows: newer kernels of WSL have BTF".to_string(),
            Origin::RaspberryPiOs => format!(
                "on a Raspberry Pi 4 or older boot Debian's kernel, which has BTF: apt install {}, then \
                 kernel= and initramfs in /boot/firmware/config.txt; on a newer one {build}",
                self.debian_package()
            ),
            _ => match self.stock() {
                // A kernel of the distribution that lacks it is older than those that have it.
                Some(command) if self.is_packaged() => {
                    format!("{command} on a newer release, whose kernels have BTF; or {build}")
                }
                Some(command) => {
                    format!("boot the distribution's kernel, which has BTF: {command}; or {build}")
                }
                None => build,
            },
        }
    }

    /// How to get a kernel with these options, without `CONFIG_`; those that it has are left out.
    pub(crate) fn kernel_with(&self, options: &[&str]) -> String {
        let lacks = options.iter().filter(|name| self.machine.kernel.option(name) != Some(true));
        let options = lacks.map(|name| format!("CONFIG_{name}=y")).collect::<Vec<_>>().join(" ");
        let build = self.built(&options);
        match self.stock().filter(|_| !self.is_packaged()) {
            Some(command) => format!("boot the distribution's kernel: {command}; or {build}"),
            None => build,
        }
    }

    /// How to get Linux `since` or newer.
    pub(crate) fn newer_kernel(&self, since: KernelVersion) -> String {
        let is_before = |first: u32| self.release().is_some_and(|number| number < first);
        let (major, minor) = since;
        let how = match self.origin {
            Origin::Debian if self.release() == Some(12) => {
                format!("apt install -t bookworm-backports {} (6.12)", self.debian_package())
            }
            Origin::Debian if is_before(12) => "Debian 13 has 6.12".to_string(),
            Origin::Debian => format!("apt install {}", self.debian_package()),
            Origin::Ubuntu if runs_real_time(self.machine) => {
                "Ubuntu 24.04 has 6.8 (pro enable realtime-kernel)".to_string()
            }
            Origin::Ubuntu if is_before(22) => "Ubuntu 24.04 has 6.8".to_string(),
            Origin::Ubuntu => match distribution(self.machine).version {
                Some(version) => format!("apt install linux-generic-hwe-{version}"),
                None => "apt install linux-generic".to_string(),
            },
            Origin::RaspberryPiOs if is_before(12) => {
                "Raspberry Pi OS on Debian 12 or newer has 6.12".to_string()
            }
            Origin::RaspberryPiOs => "apt full-upgrade".to_string(),
            Origin::Jetson if since <= (5, 15) => {
                "JetPack 6 (Jetson Linux 36) has 5.15, without BTF: build that one with \
                 CONFIG_DEBUG_INFO_BTF=y"
                    .to_string()
            }
            Origin::Jetson => {
                "JetPack 7 (Jetson Linux 38) has 6.8, for the boards that it supports".to_string()
            }
            Origin::Wsl => "wsl --update, in Windows".to_string(),
            Origin::Fedora => "dnf upgrade kernel".to_string(),
            Origin::RedHat => "release 10 has 6.12".to_string(),
            Origin::Arch => "pacman -Syu".to_string(),
            Origin::Suse => "Leap 16 and Tumbleweed have 6.12 and newer".to_string(),
            Origin::Yocto => "PREFERRED_VERSION of virtual/kernel in the image's configuration".to_string(),
            Origin::Alpine => "apk upgrade on a newer release".to_string(),
            Origin::Other => BUILD.to_string(),
        };
        format!("boot Linux {major}.{minor} or newer: {how}")
    }
}

fn runs_real_time(machine: &Snapshot) -> bool {
    machine.kernel.preemption == Preemption::RealTime
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::inventory::{Distribution, Inventory};

    fn on(id: &str, version: &str, release: &str, built: &str) -> Snapshot {
        let distribution =
            Distribution { id: Some(id.into()), version: Some(version.into()), ..Distribution::default() };
        let mut machine = Snapshot { architecture: Some("x86_64".into()), ..Snapshot::default() };
        machine.kernel.release = Some(release.into());
        machine.kernel.version = Some(built.into());
        machine.inventory = Some(Box::new(Inventory { distribution, ..Inventory::default() }));
        machine
    }

    fn periodic(machine: &Snapshot) -> KernelSupply<'_> {
        KernelSupply::of(machine, Profile::Periodic)
    }

    #[test]
    fn a_built_kernel_is_built_again_or_replaced() {
        let own = on("debian", "12", "6.12.1-mine", "#1 SMP PREEMPT x");
        assert_eq!(
            KernelSupply::of(&own, Profile::Server).kernel_with_types(),
            "boot the distribution's kernel, which has BTF: apt install linux-image-amd64; or build this \
             kernel with CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y CONFIG_DEBUG_INFO_BTF=y \
             (apt install pahole)"
        );
        let packaged = on("debian", "10", "4.19.0-27-amd64", "#1 SMP Debian 4.19.316-1");
        let said = periodic(&packaged).kernel_with_types();
        assert!(said.contains("newer release") && said.contains("apt install dwarves"), "{said}");
    }

    #[test]
    fn no_package_contradicts_the_advice_on_real_time() {
        for (id, like) in [("debian", ""), ("ubuntu", "debian"), ("rhel", ""), ("arch", "")] {
            let mut machine = on(id, "24.04", "6.1.0-mine", "");
            machine.inventory.as_mut().unwrap().distribution.like = vec![like.to_string()];
            let said = periodic(&machine).kernel_with_types();
            let command = said.split_once(": ").unwrap().1.split_once(';').unwrap().0;
            assert!(crate::obtain::real_time_kernel(&machine).contains(command), "{command}");
        }
    }

    #[test]
    fn each_distribution_names_its_package_of_pahole() {
        for (id, version, command) in [
            ("debian", "11", "apt install dwarves"),
            ("ubuntu", "24.04", "apt install pahole"),
            ("fedora", "42", "dnf install dwarves"),
            ("almalinux", "9.4", "the build needs pahole"),
            ("arch", "", "pacman -S pahole"),
            ("opensuse-leap", "15.6", "zypper install dwarves"),
            ("alpine", "3.20", "apk add pahole"),
        ] {
            let machine = on(id, version, "6.12.1-mine", "");
            let said = periodic(&machine).kernel_with_types();
            assert!(said.contains(command), "{id}: {said}");
        }
    }

    #[test]
    fn a_newer_kernel_comes_by_the_way_of_the_release() {
        let newer = |id, version| periodic(&on(id, version, "6.1.0", "")).newer_kernel((6, 5));
        assert_eq!(
            newer("debian", "12"),
            "boot Linux 6.5 or newer: apt install -t bookworm-backports linux-image-rt-amd64 (6.12)"
        );
        assert!(newer("debian", "11").ends_with("Debian 13 has 6.12"));
        assert!(newer("ubuntu", "22.04").ends_with("apt install linux-generic-hwe-22.04"));
        assert!(newer("rhel", "9.4").ends_with("release 10 has 6.12"));
        assert!(newer("slackware", "15").contains("isolator kernel build"));
    }

    #[test]
    fn an_option_that_the_kernel_has_is_not_asked_for() {
        let mut machine = on("poky", "5.0", "6.6.23-yocto-standard", "");
        machine.kernel.options.insert("FTRACE".into(), "y".into());
        machine.kernel.options.insert("UPROBE_EVENTS".into(), "n".into());
        let said = periodic(&machine).kernel_with(&["FTRACE", "UPROBE_EVENTS"]);
        assert_eq!(said, "build the image's kernel with CONFIG_UPROBE_EVENTS=y");
    }
}
