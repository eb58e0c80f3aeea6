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
}

impl Loader {
    /// Its facts for the rest of the program.
    pub fn facts(self) -> LoaderFacts {
        let other = LoaderFacts {
            name: "an unsupported loader",
            make_default: "make it the default in that file, or boot the default and plan again",
            firmware_adds: false,
            names_files: true,
        };
        let grub = "make it the default (GRUB_DEFAULT in /etc/default/grub names its entry, then update-grub), or boot the \
                    default and plan again";
        let grubby = "make it the default (grubby --set-default /boot/vmlinuz-$(uname -r)), or boot the default and plan \
                      again";
        let bootctl = "make it the default (bootctl set-default), or boot the default and plan again";
        match self {
            Loader::GrubDebian => {
                LoaderFacts { name: "GRUB as Debian and Ubuntu have it", make_default: grub, ..other }
            }
            Loader::Grub => LoaderFacts { name: "GRUB", make_default: grub, ..other },
            Loader::GrubBls => LoaderFacts {
                name: "GRUB with Boot Loader Specification entries",
                make_default: grubby,
                ..other
            },
            Loader::L4tExtlinux => {
                LoaderFacts { name: "extlinux.conf of Jetson Linux", firmware_adds: true, ..other }
            }
            Loader::Extlinux => LoaderFacts { name: "extlinux", ..other },
            Loader::SystemdBoot => LoaderFacts { name: "systemd-boot", make_default: bootctl, ..other },
            Loader::UnifiedKernelImage => LoaderFacts { name: "a unified kernel image", ..other },
            Loader::RaspberryPi => LoaderFacts {
                name: "the Raspberry Pi's firmware",
                firmware_adds: true,
                names_files: false,
                ..other
            },
            Loader::UBoot => LoaderFacts { name: "U-Boot", firmware_adds: true, names_files: false, ..other },
            Loader::Ostree => LoaderFacts { name: "ostree", names_files: false, ..other },
            Loader::Unknown => other,
        }
    }
}
