// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration that the running kernel was built with.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::registry::{self, Version};
use crate::tree::Tree;

/// Longest configuration that is read, packed or unpacked; a distribution's is about 0.3 MB.
const LIMIT: u64 = 16 << 20;

/// Options that a snapshot keeps, without `CONFIG_`, besides those that settings of the table need.
const KEPT: &[&str] = &[
    "ACPI_PROCESSOR",
    "AUDIT",
    "CGROUP_SCHED",
    "CPUSETS",
    "CPU_FREQ",
    "CPU_FREQ_DEFAULT_GOV_PERFORMANCE",
    "CPU_FREQ_STAT",
    "CPU_IDLE",
    "CPU_ISOLATION",
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_KMEMLEAK",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_OBJECTS",
    "DEBUG_PAGEALLOC",
    "DEBUG_PREEMPT",
    "EFI",
    "EFI_DISABLE_RUNTIME",
    "FTRACE_STARTUP_TEST",
    "GENERIC_IDLE_POLL_SETUP",
    "GENERIC_IRQ_DEBUGFS",
    "HALTPOLL_CPUIDLE",
    "HARDLOCKUP_DETECTOR",
    "HIGH_RES_TIMERS",
    "HOTPLUG_SMT",
    "HWLAT_TRACER",
    "HZ",
    "IKCONFIG",
    "INTEL_IDLE",
    "IRQSOFF_TRACER",
    "IRQ_FORCED_THREADING",
    "KASAN",
    "KCSAN",
    "KMSAN",
    "KSM",
    "LOCKDEP",
    "LOCKUP_DETECTOR",
    "LOCK_STAT",
    "NO_HZ_COMMON",
    "NO_HZ_FULL",
    "NUMA_BALANCING",
    "OSNOISE_TRACER",
    "PCIEASPM",
    "PREEMPT",
    "PREEMPT_DYNAMIC",
    "PREEMPT_LAZY",
    "PREEMPT_NONE",
    "PREEMPT_RT",
    "PREEMPT_RT_FULL",
    "PREEMPT_TRACER",
    "PREEMPT_VOLUNTARY",
    "PROC_SYSCTL",
    "PROVE_LOCKING",
    "PSI",
    "RCU_BOOST",
    "RCU_LAZY",
    "RCU_NOCB_CPU",
    "RCU_NOCB_CPU_DEFAULT_ALL",
    "RT_GROUP_SCHED",
    "RT_GROUP_SCHED_DEFAULT_DISABLED",
    "SCHED_DEBUG",
    "SLUB_DEBUG_ON",
    "SMP",
    "SOFTLOCKUP_DETECTOR",
    "TIMERLAT_TRACER",
    "TRANSPARENT_HUGEPAGE",
    "UBSAN_TRAP",
    "USB",
    "X86_AMD_PSTATE",
    "X86_INTEL_PSTATE",
    "X86_MCE",
];

/// Options whose absence says nothing of some kernels: from the first version on they could be switched off, and from
/// the second one on they cannot be any more. Before and after, what they stand for is always built in.
/// References: kernel/sched/isolation.c (4.15), lib/Kconfig.debug (4.13; 6.15).
const OPTIONAL: &[(&str, Option<Version>, Option<Version>)] = &[
    ("CPU_ISOLATION", Some((4, 15)), None),
    ("SOFTLOCKUP_DETECTOR", Some((4, 13)), None),
    ("SCHED_DEBUG", None, Some((6, 15))),
];

/// A kernel's configuration text.
pub(crate) struct Config {
    /// Where it was read.
    pub(crate) source: String,
    /// SHA-256 of the text, hexadecimal.
    pub(crate) sha256: String,
    text: String,
}

impl Config {
    /// The running kernel's own copy (CONFIG_IKCONFIG_PROC), else the one its package installed.
    pub(crate) fn read(tree: &mut Tree, release: Option<&str>) -> Option<Self> {
        let packed = "proc/config.gz";
        if let Some(bytes) = tree.bytes(packed, LIMIT) {
            let mut text = Vec::new();
            match GzDecoder::new(&bytes[..]).take(LIMIT).read_to_end(&mut text) {
                Ok(length) if length as u64 == LIMIT => tree.note(packed, "unpacks to more than 16 MiB"),
                Ok(_) => return Some(Config::new(packed, &text)),
                Err(error) => tree.note(packed, error),
            }
        }
        // The release becomes part of a path and, in a captured tree, is foreign.
        let release = release.filter(|release| !release.contains('/'))?;
        let installed = [
            format!("boot/config-{release}"),
            format!("lib/modules/{release}/config"),
            format!("usr/lib/modules/{release}/config"),
            format!("lib/modules/{release}/build/.config"),
            format!("usr/lib/ostree-boot/config-{release}"),
        ];
        installed.iter().find_map(|path| Some(Config::new(path, &tree.bytes(path, LIMIT)?)))
    }

    fn new(source: &str, text: &[u8]) -> Self {
        let sha256 = crate::hexadecimal(&Sha256::digest(text));
        Config { source: format!("/{source}"), sha256, text: String::from_utf8_lossy(text).into_owned() }
    }

    /// What each of the options that decide latency is set to, `n` where it is not. An option that the kernel does not
    /// have ([`OPTIONAL`]) is left out; `at_least` says whether the kernel is of a version or newer.
    pub(crate) fn kept(&self, at_least: impl Fn(u32, u32) -> Option<bool>) -> BTreeMap<String, String> {
        let set: BTreeMap<&str, &str> =
            self.text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('=')).collect();
        let value = |name: &str| set.get(name).map_or("n", |value| value.trim()).to_string();
        let needed = registry::all().flat_map(|setting| setting.needs.iter().chain(setting.idle_with));
        let not_older = |version: Option<Version>| version.and_then(|(major, minor)| at_least(major, minor));
        let says_nothing = |name: &str| {
            OPTIONAL.iter().any(|(option, since, until)| {
                *option == name && (not_older(*since) == Some(false) || not_older(*until) == Some(true))
            })
        };
        let told = |name: &&&str| set.contains_key(**name) || !says_nothing(name);
        KEPT.iter().chain(needed).filter(told).map(|name| (name.to_string(), value(name))).collect()
    }

    /// Whether CONFIG_`option` is built in.
    pub(crate) fn has(&self, option: &str) -> bool {
        let set =
            |line: &str| line.strip_prefix("CONFIG_")?.strip_prefix(option)?.strip_prefix("=y").map(str::len);
        self.text.lines().any(|line| set(line) == Some(0))
    }
}

#[cfg(test)]
impl Config {
    /// A configuration with this text.
    pub(crate) fn of(text: &str) -> Self {
        Config::new("test", text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;
    use crate::tree::made_of;

    const TEXT: &str = "CONFIG_PREEMPT_RT=y\n# CONFIG_RT_GROUP_SCHED is not set\nCONFIG_USB=m\n";
    /// `printf` of the text above into sha256sum.
    const SHA256: &str = "fa8ef4799473569848d25fab4fef1581b5b327df99c9e023e57fc70eca2aeef3";

    fn packed(text: &str) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn prefers_the_running_kernels_own_copy_and_digests_the_text() {
        let (folder, mut tree) = made_of(&[("boot/config-6.12.1", "other"), ("proc/version", "")]);
        fs::write(folder.path().join("proc/config.gz"), packed(TEXT)).unwrap();
        let config = Config::read(&mut tree, Some("6.12.1")).unwrap();
        assert_eq!(config.source, "/proc/config.gz");
        assert_eq!(config.sha256, SHA256);
        assert!(config.has("PREEMPT_RT"));
        assert!(!config.has("PREEMPT") && !config.has("RT_GROUP_SCHED") && !config.has("USB"));
    }

    #[test]
    fn a_packed_and_a_plain_copy_of_one_text_have_one_digest() {
        let (_folder, mut tree) = made_of(&[("lib/modules/6.12.1/config", TEXT)]);
        let config = Config::read(&mut tree, Some("6.12.1")).unwrap();
        assert_eq!((config.source.as_str(), config.sha256.as_str()), ("/lib/modules/6.12.1/config", SHA256));
    }

    #[test]
    fn keeps_the_options_that_decide_latency_and_says_which_are_off() {
        let kept = Config::of(&format!("{TEXT}CONFIG_HZ=250\n")).kept(|_, _| None);
        let value = |name| kept.get(name).map(String::as_str);
        assert_eq!(
            [value("PREEMPT_RT"), value("RT_GROUP_SCHED"), value("USB"), value("HZ"), value("ACORN")],
            [Some("y"), Some("n"), Some("m"), Some("250"), None]
        );
    }

    #[test]
    fn an_option_the_kernel_lacks_is_not_off() {
        let option = |text: &str, version: Version, name: &str| {
            Config::of(text).kept(|major, minor| Some(version >= (major, minor))).get(name).cloned()
        };
        for (version, name, expected) in [
            ((3, 10), "CPU_ISOLATION", None),
            ((4, 14), "CPU_ISOLATION", None),
            ((4, 15), "CPU_ISOLATION", Some("n")),
            ((6, 12), "CPU_ISOLATION", Some("n")),
            ((4, 12), "SOFTLOCKUP_DETECTOR", None),
            ((4, 13), "SOFTLOCKUP_DETECTOR", Some("n")),
            ((6, 14), "SCHED_DEBUG", Some("n")),
            ((6, 15), "SCHED_DEBUG", None),
        ] {
            assert_eq!(option(TEXT, version, name).as_deref(), expected, "{name} {version:?}");
        }
        assert_eq!(option("CONFIG_CPU_ISOLATION=y\n", (4, 9), "CPU_ISOLATION").as_deref(), Some("y"));
    }

    #[test]
    fn a_damaged_copy_is_named_and_the_next_one_used() {
        let (folder, mut tree) = made_of(&[("boot/config-6.12.1", TEXT), ("proc/version", "")]);
        let half = packed(TEXT);
        fs::write(folder.path().join("proc/config.gz"), &half[..half.len() / 2]).unwrap();
        assert_eq!(Config::read(&mut tree, Some("6.12.1")).unwrap().source, "/boot/config-6.12.1");
        assert!(tree.unread()[0].starts_with("/proc/config.gz: "));
    }

    #[test]
    fn a_copy_that_unpacks_without_end_is_named() {
        let (folder, mut tree) = made_of(&[("proc/version", "")]);
        fs::write(folder.path().join("proc/config.gz"), packed(&"#".repeat(17 << 20))).unwrap();
        assert!(Config::read(&mut tree, None).is_none());
        assert_eq!(tree.unread(), ["/proc/config.gz: unpacks to more than 16 MiB"]);
    }

    #[test]
    fn a_release_cannot_lead_elsewhere() {
        let (_folder, mut tree) = made_of(&[("boot/config-a/b", TEXT), ("secret", TEXT)]);
        assert!(Config::read(&mut tree, Some("a/b")).is_none());
        assert!(Config::read(&mut tree, Some("x/../../secret")).is_none());
        assert!(Config::read(&mut tree, None).is_none());
    }
}
