// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration that the running kernel was built with.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::tree::Tree;
use machine::registry::options::{self, KernelOption};
use machine::snapshot::Kernel;

/// Longest configuration that is read, packed or unpacked; a distribution's is about 0.3 MB.
const LIMIT: u64 = 16 << 20;

const NOT_ONE: &str = "no configuration of a kernel: it sets no option";

/// Whether a text is a configuration: one without an option would say that all are off.
fn is_one(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"CONFIG_"))
}

/// A kernel's configuration text.
pub(crate) struct KernelConfig {
    /// Where it was read.
    pub(crate) source: String,
    /// SHA-256 of the text, hexadecimal.
    pub(crate) sha256: String,
    text: String,
}

impl KernelConfig {
    /// The running kernel's own copy (CONFIG_IKCONFIG_PROC), else the one its package installed.
    pub(crate) fn read(tree: &mut Tree, release: Option<&str>) -> Option<Self> {
        let packed = "proc/config.gz";
        if let Some(bytes) = tree.bytes(packed, LIMIT) {
            let mut text = Vec::new();
            match GzDecoder::new(&bytes[..]).take(LIMIT).read_to_end(&mut text) {
                Ok(length) if length as u64 == LIMIT => tree.note(packed, "unpacks to more than 16 MiB"),
                Ok(_) if is_one(&text) => return Some(KernelConfig::new(packed, &text)),
                Ok(_) => tree.note(packed, NOT_ONE),
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
        installed.iter().find_map(|path| {
            let text = tree.bytes(path, LIMIT)?;
            if !is_one(&text) {
                tree.note(path, NOT_ONE);
                return None;
            }
            Some(KernelConfig::new(path, &text))
        })
    }

    fn new(source: &str, text: &[u8]) -> Self {
        let sha256 = machine::hexadecimal(&Sha256::digest(text));
        KernelConfig {
            source: format!("/{source}"),
            sha256,
            text: String::from_utf8_lossy(text).into_owned(),
        }
    }

    /// The value of each option that decides latency, `n` where it is not set; one that this kernel need
    /// not know and that is not named stays out.
    pub(crate) fn kept(&self, kernel: &Kernel) -> BTreeMap<String, String> {
        let set: BTreeMap<&str, &str> =
            self.text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('=')).collect();
        let off: BTreeSet<&str> = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("# CONFIG_")?.trim_end().strip_suffix(" is not set"))
            .collect();
        let value = |option: &KernelOption| {
            let unset = off.contains(option.name) || option.is_off_where_unnamed(kernel);
            let value = set.get(option.name).map(|value| value.trim()).or(unset.then_some("n"))?;
            Some((option.name.to_string(), value.to_string()))
        };
        options::ALL.iter().filter_map(value).collect()
    }

    /// Whether CONFIG_`option` is built in.
    pub(crate) fn has(&self, option: &str) -> bool {
        let set =
            |line: &str| line.strip_prefix("CONFIG_")?.strip_prefix(option)?.strip_prefix("=y").map(str::len);
        self.text.lines().any(|line| set(line) == Some(0))
    }
}

#[cfg(test)]
impl KernelConfig {
    /// A configuration with this text.
    pub(crate) fn of(text: &str) -> Self {
        KernelConfig::new("test", text.as_bytes())
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
        let (folder, mut tree) = made_of(&[("boot/config-6.12.1", "CONFIG_OTHER=y"), ("proc/version", "")]);
        fs::write(folder.path().join("proc/config.gz"), packed(TEXT)).unwrap();
        let config = KernelConfig::read(&mut tree, Some("6.12.1")).unwrap();
        assert_eq!(config.source, "/proc/config.gz");
        assert_eq!(config.sha256, SHA256);
        assert!(config.has("PREEMPT_RT"));
        assert!(!config.has("PREEMPT") && !config.has("RT_GROUP_SCHED") && !config.has("USB"));
    }

    #[test]
    fn a_packed_and_a_plain_copy_of_one_text_have_one_digest() {
        let (_folder, mut tree) = made_of(&[("lib/modules/6.12.1/config", TEXT)]);
        let config = KernelConfig::read(&mut tree, Some("6.12.1")).unwrap();
        assert_eq!((config.source.as_str(), config.sha256.as_str()), ("/lib/modules/6.12.1/config", SHA256));
    }

    #[test]
    fn keeps_the_options_that_decide_latency_and_says_which_are_off() {
        let kept = KernelConfig::of(&format!("{TEXT}CONFIG_HZ=250\n")).kept(&Kernel::default());
        let value = |name| kept.get(name).map(String::as_str);
        assert_eq!(
            [value("PREEMPT_RT"), value("RT_GROUP_SCHED"), value("USB"), value("HZ"), value("ACORN")],
            [Some("y"), Some("n"), Some("m"), Some("250"), None]
        );
    }

    #[test]
    fn an_option_newer_than_the_kernel_is_off_only_where_it_is_named() {
        let kept = |text: &str| {
            let kernel = Kernel { release: Some("4.9.253-tegra".into()), ..Kernel::default() };
            KernelConfig::of(text).kept(&kernel).get("CPU_ISOLATION").cloned()
        };
        assert_eq!(kept("CONFIG_SMP=y\n"), None);
        assert_eq!(kept("# CONFIG_CPU_ISOLATION is not set\n").as_deref(), Some("n"));
        assert_eq!(kept("CONFIG_CPU_ISOLATION=y\n").as_deref(), Some("y"));
    }

    #[test]
    fn an_option_the_kernel_lacks_is_not_off() {
        let option = |text: &str, release: &str, name: &str| {
            let kernel = Kernel { release: Some(release.into()), ..Kernel::default() };
            KernelConfig::of(text).kept(&kernel).get(name).cloned()
        };
        for (release, name, expected) in [
            ("3.10.0", "CPU_ISOLATION", None),
            ("4.14.0", "CPU_ISOLATION", None),
            ("4.15.0", "CPU_ISOLATION", Some("n")),
            ("6.12.0", "CPU_ISOLATION", Some("n")),
            ("4.12.0", "SOFTLOCKUP_DETECTOR", None),
            ("4.13.0", "SOFTLOCKUP_DETECTOR", Some("n")),
            ("6.14.0", "SCHED_DEBUG", Some("n")),
            ("6.15.0", "SCHED_DEBUG", None),
        ] {
            assert_eq!(option(TEXT, release, name).as_deref(), expected, "{name} {release}");
        }
    }

    #[test]
    fn a_damaged_copy_is_named_and_the_next_one_used() {
        let (folder, mut tree) = made_of(&[("boot/config-6.12.1", TEXT), ("proc/version", "")]);
        let half = packed(TEXT);
        fs::write(folder.path().join("proc/config.gz"), &half[..half.len() / 2]).unwrap();
        assert_eq!(KernelConfig::read(&mut tree, Some("6.12.1")).unwrap().source, "/boot/config-6.12.1");
        assert!(tree.unread()[0].starts_with("/proc/config.gz: "));
    }

    #[test]
    fn a_copy_that_unpacks_without_end_is_named() {
        let (folder, mut tree) = made_of(&[("proc/version", "")]);
        fs::write(folder.path().join("proc/config.gz"), packed(&"#".repeat(17 << 20))).unwrap();
        assert!(KernelConfig::read(&mut tree, None).is_none());
        assert_eq!(tree.unread(), ["/proc/config.gz: unpacks to more than 16 MiB"]);
    }

    #[test]
    fn a_release_cannot_lead_elsewhere() {
        let (_folder, mut tree) = made_of(&[("boot/config-a/b", TEXT), ("secret", TEXT)]);
        assert!(KernelConfig::read(&mut tree, Some("a/b")).is_none());
        assert!(KernelConfig::read(&mut tree, Some("x/../../secret")).is_none());
        assert!(KernelConfig::read(&mut tree, None).is_none());
    }
}
