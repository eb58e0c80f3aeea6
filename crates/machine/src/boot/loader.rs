// SPDX-License-Identifier: MIT OR Apache-2.0
//! The boot loaders that are known, and facts of each. A new one is a variant and its facts here, and its
//! sign and reader in `inspect`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The boot loader, by the way its settings are changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// GRUB with Debian's drop-in files, `/etc/default/grub.d`.
    GrubDebian,
    /// GRUB with entries after the Boot Loader Specification: Fedora, RHEL and related distributions.
    GrubBls,
    /// GRUB whose menu is generated from `/etc/default/grub` alone.
    Grub,
    /// extlinux.conf on NVIDIA Jetson, read by L4TLauncher or U-Boot.
    L4tExtlinux,
    /// extlinux.conf elsewhere.
    Extlinux,
    /// systemd-boot with entries in files.
    SystemdBoot,
    /// systemd-boot, or the firmware, with unified kernel images: the line is within the image.
    UnifiedKernelImage,
    /// The firmware of a Raspberry Pi.
    RaspberryPi,
    /// U-Boot with an environment or a script.
    UBoot,
    /// ostree deployments (rpm-ostree, bootc), with any boot loader.
    Ostree,
    /// None that is known here.
    #[default]
    Unknown,
}

/// The facts of a loader for the rest of the program.
#[derive(Debug, Clone, Copy)]
pub struct LoaderFacts {
    /// Its name, for people.
    pub name: &'static str,
    /// How the running kernel becomes the one that is booted when no person chooses.
    pub make_default: &'static str,
    /// Whether firmware adds words to its line.
    pub firmware_adds: bool,
    /// Whether its entries name the files of kernel and RAM disk.
    pub names_files: bool,
    /// Files of its distributions from which lines are made; `*` in a name stands for any one.
    pub sources: &'static [&'static str],
    /// Files that it reads, in which a line stands as text; `*` as above.
    pub entries: &'static [&'static str],
}

/// Where files of entries after the Boot Loader Specification lie.
const SPECIFIED: &[&str] = &[
    "/boot/loader/entries/*.conf",
    "/efi/loader/entries/*.conf",
    "/boot/efi/loader/entries/*.conf",
    "/boot/EFI/loader/entries/*.conf",
];
/// GRUB's menus and blocks of variables.
const MENUS: &[&str] = &[
    "/boot/grub/grub.cfg",
    "/boot/grub/custom.cfg",
    "/boot/grub/grubenv",
    "/boot/grub2/grub.cfg",
    "/boot/grub2/custom.cfg",
    "/boot/grub2/grubenv",
];
/// The line that kernel-install gives to the next kernel.
const KERNEL_LINE: &str = "/etc/kernel/cmdline";

impl Loader {
    /// All of them.
    pub const ALL: [Loader; 11] = [
        Loader::GrubDebian,
        Loader::GrubBls,
        Loader::Grub,
        Loader::L4tExtlinux,
        Loader::Extlinux,
        Loader::SystemdBoot,
        Loader::UnifiedKernelImage,
        Loader::RaspberryPi,
        Loader::UBoot,
        Loader::Ostree,
        Loader::Unknown,
    ];

    /// Its facts for the rest of the program.
    pub fn facts(self) -> LoaderFacts {
        let other = LoaderFacts {
            name: "an unsupported loader",
            make_default: "make it the default in that file, or boot the default and plan again",
            firmware_adds: false,
            names_files: true,
            sources: &[],
            entries: &[],
        };
        let grub = LoaderFacts {
            name: "GRUB",
            make_default: "make it the default (GRUB_DEFAULT in /etc/default/grub names its entry, then update-grub), or boot \
                           the default and plan again",
            sources: &["/etc/default/grub"],
            entries: MENUS,
            ..other
        };
        let extlinux = LoaderFacts {
            name: "extlinux",
            sources: &["/etc/default/u-boot"],
            entries: &["/boot/extlinux/extlinux.conf"],
            ..other
        };
        match self {
            Loader::GrubDebian => LoaderFacts {
                name: "GRUB as Debian and Ubuntu have it",
                sources: &["/etc/default/grub", "/etc/default/grub.d/*.cfg"],
                ..grub
            },
            Loader::Grub => grub,
            Loader::GrubBls => LoaderFacts {
                name: "GRUB with Boot Loader Specification entries",
                make_default: "make it the default (grubby --set-default /boot/vmlinuz-$(uname -r)), or boot the default and \
                               plan again",
                sources: &["/etc/default/grub", KERNEL_LINE],
                entries: SPECIFIED,
                ..other
            },
            Loader::L4tExtlinux => {
                LoaderFacts { name: "extlinux.conf of Jetson Linux", firmware_adds: true, ..extlinux }
            }
            Loader::Extlinux => extlinux,
            Loader::SystemdBoot => LoaderFacts {
                name: "systemd-boot",
                make_default: "make it the default (bootctl set-default), or boot the default and plan again",
                sources: &[KERNEL_LINE],
                entries: SPECIFIED,
                ..other
            },
            Loader::UnifiedKernelImage => {
                LoaderFacts { name: "a unified kernel image", sources: &[KERNEL_LINE], ..other }
            }
            Loader::RaspberryPi => LoaderFacts {
                name: "the Raspberry Pi's firmware",
                firmware_adds: true,
                names_files: false,
                entries: &[
                    "/boot/cmdline.txt",
                    "/boot/firmware/cmdline.txt",
                    "/boot/firmware/current/cmdline.txt",
                    "/boot/firmware/new/cmdline.txt",
                    "/boot/firmware/old/cmdline.txt",
                ],
                ..other
            },
            Loader::UBoot => LoaderFacts {
                name: "U-Boot",
                firmware_adds: true,
                names_files: false,
                sources: &["/boot/armbianEnv.txt", "/boot/uEnv.txt"],
                ..other
            },
            Loader::Ostree => LoaderFacts { name: "ostree", names_files: false, entries: SPECIFIED, ..other },
            Loader::Unknown => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_loader_is_left_out() {
        let name = |loader: &Loader| serde_json::to_value(loader).unwrap();
        let schema = serde_json::to_value(schemars::schema_for!(Loader)).unwrap();
        let variants = schema["oneOf"].as_array().unwrap().iter().map(|variant| &variant["const"]);
        assert_eq!(variants.cloned().collect::<Vec<_>>(), Loader::ALL.iter().map(name).collect::<Vec<_>>());
    }
}
