// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files, folders and variables of a machine that this program writes, each named once.

pub use inspect::RECORDS;

/// The unit that does the settings again at every boot.
pub const UNIT: &str = "/etc/systemd/system/isolator-tune.service";
/// The group's rights to real-time policies, which a plan gives.
pub const LIMITS_FILE: &str = "/etc/security/limits.d/95-isolator.conf";
/// Its text.
pub const LIMITS: &str = "@realtime - rtprio 98\n@realtime - memlock unlimited\n";
/// The cgroup of the isolated partition.
pub const PARTITION: &str = "/sys/fs/cgroup/isolator";
/// Drop-ins of irqbalance; the folder ends with the boot.
pub(crate) const BALANCE: &str = "/run/systemd/system/irqbalance.service.d";
/// The id of a boot entry that is tried.
pub const TRIAL: &str = "isolator-trial";
/// And its title.
pub const TRIAL_TITLE: &str = "Isolator trial";
/// The drop-in of GRUB's generator; its number lets it come after those that set the line anew, as cloud
/// images do.
pub(crate) const DROP_IN: &str = "/etc/default/grub.d/99-isolator.cfg";
/// Variables of U-Boot that vendors leave for more words.
pub(crate) const OPTIONAL: [&str; 3] = ["optargs", "extraargs", "othbootargs"];
/// The file of groups, and that of their passwords.
pub const GROUPS: [&str; 2] = ["/etc/group", "/etc/gshadow"];
/// Limits of the group's sessions.
pub const USER_LIMITS_FILE: &str = "/etc/security/limits.d/95-isolator-user.conf";
/// The device's permissions at every boot.
pub const RULES_FILE: &str = "/etc/udev/rules.d/60-isolator-user.rules";
/// The device that limits the exit latency of idle states.
pub const DEVICE: &str = "/dev/cpu_dma_latency";
/// The copy of this program that has capabilities.
pub const PROGRAM: &str = "/usr/local/bin/isolator-realtime";
/// Permissions of the copy: only root and the group run it.
pub const PROGRAM_MODE: u32 = 0o750;
