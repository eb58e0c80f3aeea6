// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel that runs: release, version, boot line, configuration and preemption model.
//!
//! The preemption model is read from the version text first: `PREEMPT_RT` stands there (`PREEMPT RT` before
//! Linux 5.4), while `/sys/kernel/realtime` exists in patched trees only and the release's name is a habit,
//! no fact. A PREEMPT_DYNAMIC kernel is what debugfs says it is; debugfs often needs root, and then it is
//! what was chosen at boot (`preempt=`) or, without that, when it was built. Limit: root can write another
//! choice into debugfs, and without debugfs we do not see it.

use crate::config::KernelConfig;
use crate::tree::Tree;
use machine::boot::line;
use machine::snapshot::{Kernel, Preemption};

/// Longest line that any kernel keeps: one of a boot configuration (`XBC_DATA_MAX`).
const LONGEST_LINE: usize = 32 << 10;

/// Fills `kernel`; hands out the configuration for those who look up options.
pub(crate) fn read(tree: &mut Tree, kernel: &mut Kernel) -> Option<KernelConfig> {
    let banner = tree.word("proc/version").unwrap_or_default();
    kernel.release = tree
        .word("proc/sys/kernel/osrelease")
        .or_else(|| banner.strip_prefix("Linux version ")?.split_whitespace().next().map(str::to_string));
    kernel.version =
        tree.word("proc/sys/kernel/version").or_else(|| banner.rfind('#').map(|at| banner[at..].to_string()));
    kernel.command_line = tree.word("proc/cmdline").map(|mut line| {
        if line.len() > LONGEST_LINE {
            tree.note("proc/cmdline", "is longer than any kernel's line; its beginning is read");
            line.truncate(line.floor_char_boundary(LONGEST_LINE));
        }
        line
    });
    let config = KernelConfig::read(tree, kernel.release.as_deref());
    kernel.config_sha256 = config.as_ref().map(|config| config.sha256.clone());
    kernel.config_source = config.as_ref().map(|config| config.source.clone());
    kernel.options = config.as_ref().map(|config| config.kept(kernel)).unwrap_or_default();
    kernel.line_is_built_in = config.as_ref().is_some_and(|config| {
        ["CMDLINE_FORCE", "CMDLINE_OVERRIDE"].into_iter().any(|option| config.has(option))
    });
    kernel.preemption = preemption(tree, kernel, config.as_ref());
    config
}

fn preemption(tree: &mut Tree, kernel: &Kernel, config: Option<&KernelConfig>) -> Preemption {
    let version = kernel.version.as_deref().unwrap_or_default();
    let words: Vec<&str> = version.split_whitespace().collect();
    let has = |word| words.contains(&word);
    let configured = |option| config.is_some_and(|config| config.has(option));
    if has("PREEMPT_RT")
        || words.windows(2).any(|pair| pair == ["PREEMPT", "RT"])
        || configured("PREEMPT_RT")
        || configured("PREEMPT_RT_FULL")
        || tree.text("sys/kernel/realtime").as_deref() == Some("1")
    {
        return Preemption::RealTime;
    }
    let built = || match () {
        () if configured("PREEMPT_LAZY") => Preemption::Lazy,
        () if configured("PREEMPT") => Preemption::Full,
        () if configured("PREEMPT_VOLUNTARY") => Preemption::Voluntary,
        () if configured("PREEMPT_NONE") => Preemption::None,
        () => Preemption::Unknown,
    };
    if has("PREEMPT_DYNAMIC") {
        let debugfs = tree.text("sys/kernel/debug/sched/preempt");
        let chosen =
            debugfs.as_deref().and_then(|text| text.split_once('(')?.1.split_once(')')).map(|(word, _)| word);
        let boot = kernel.command_line.as_deref().and_then(|line| line::value(line, "preempt"));
        return match (chosen.and_then(by_name).or_else(|| boot.and_then(by_name)), built()) {
            (Some(choice), _) => choice,
            (None, Preemption::Unknown) => Preemption::Dynamic,
            (None, choice) => choice,
        };
    }
    match () {
        () if has("PREEMPT_LAZY") => Preemption::Lazy,
        () if has("PREEMPT") => Preemption::Full,
        () => built(),
    }
}

/// The names of `preempt=` and of debugfs.
fn by_name(name: &str) -> Option<Preemption> {
    match name {
        "full" => Some(Preemption::Full),
        "lazy" => Some(Preemption::Lazy),
        "voluntary" => Some(Preemption::Voluntary),
        "none" => Some(Preemption::None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    fn kernel(files: &[(&str, &str)]) -> Kernel {
        let (_folder, mut tree) = made_of(files);
        let mut kernel = Kernel::default();
        read(&mut tree, &mut kernel);
        kernel
    }

    #[test]
    fn a_line_is_no_longer_than_a_kernels() {
        let line = "isolcpus=3 ".repeat(100_000);
        let (_folder, mut tree) = made_of(&[("proc/cmdline", line.as_str())]);
        let mut kernel = Kernel::default();
        read(&mut tree, &mut kernel);
        assert_eq!(kernel.command_line.map(|line| line.len()), Some(LONGEST_LINE));
        assert!(tree.unread()[0].starts_with("/proc/cmdline: is longer"));
    }

    const VERSION: &str = "proc/sys/kernel/version";
    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.12.1\n");
    const DEBUGFS: &str = "sys/kernel/debug/sched/preempt";
    const CONFIG: &str = "boot/config-6.12.1";

    #[test]
    fn reads_the_preemption_model_wherever_it_stands() {
        use Preemption::*;
        let dynamic = (VERSION, "#1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1\n");
        let plain = (VERSION, "#14-Ubuntu SMP Tue Mar 17\n");
        type Files<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Files, Preemption)] = &[
            (&[(VERSION, "#1 SMP PREEMPT_RT Debian 6.12.1\n")], RealTime),
            (&[(VERSION, "#1 SMP PREEMPT RT Thu Mar 5\n")], RealTime),
            (&[(VERSION, "#1 SMP PREEMPT Thu Mar 5\n"), ("sys/kernel/realtime", "1\n")], RealTime),
            (&[(VERSION, "#1 SMP PREEMPT Thu Mar 5\n"), ("sys/kernel/realtime", "0\n")], Full),
            (&[(VERSION, "#313 SMP PREEMPT Sun Nov 7\n")], Full),
            (&[(VERSION, "#313 SMP PREEMPT_LAZY Sun Nov 7\n")], Lazy),
            (&[dynamic], Dynamic),
            (&[dynamic, (DEBUGFS, "none voluntary (full) lazy\n"), ("proc/cmdline", "preempt=none")], Full),
            (&[dynamic, ("proc/cmdline", "quiet preempt=full preempt=lazy")], Lazy),
            (&[dynamic, ("proc/cmdline", "quiet -- preempt=full")], Dynamic),
            (&[dynamic, RELEASE, (CONFIG, "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_NONE=y\n")], None),
            (&[dynamic, (DEBUGFS, "absurd"), ("proc/cmdline", "preempt=absurd")], Dynamic),
            (&[plain, RELEASE, (CONFIG, "CONFIG_PREEMPT_VOLUNTARY=y\n")], Voluntary),
            (&[plain], Unknown),
            // Real-time patches of which only the configuration tells.
            (
                &[
                    (VERSION, "#1 SMP PREEMPT Mon\n"),
                    RELEASE,
                    (
                        CONFIG,
                        "CONFIG_PREEMPT=y\nCONFIG_PREEMPT_RT_BASE=y\nCONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_RT_FULL=y\n",
                    ),
                ],
                RealTime,
            ),
            (&[(VERSION, "#1 SMP PREEMPT Mon\n"), RELEASE, (CONFIG, "CONFIG_PREEMPT_RT=y\n")], RealTime),
            (
                &[
                    (VERSION, "#1 SMP PREEMPT Mon\n"),
                    RELEASE,
                    (CONFIG, "CONFIG_PREEMPT_RT_BASE=y\nCONFIG_PREEMPT=y\n"),
                ],
                Full,
            ),
            (
                &[
                    dynamic,
                    RELEASE,
                    (CONFIG, "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y\n"),
                    ("sys/kernel/realtime", "0\n"),
                ],
                Lazy,
            ),
            (&[("proc/version", "Linux version 6.1.0 (x@y) (gcc #2) #1 SMP PREEMPT_RT Debian\n")], RealTime),
            (&[], Unknown),
        ];
        for (files, expected) in cases {
            assert_eq!(kernel(files).preemption, *expected, "{files:?}");
        }
    }

    #[test]
    fn a_name_does_not_make_a_real_time_kernel() {
        let kernel = kernel(&[("proc/sys/kernel/osrelease", "6.6.0-rt15"), (VERSION, "#1 SMP PREEMPT x")]);
        assert_eq!(kernel.preemption, Preemption::Full);
    }

    #[test]
    fn takes_release_and_version_from_the_banner_where_it_must() {
        let kernel =
            kernel(&[("proc/version", "Linux version 5.15.0-rc1 (root@ceph1) (gcc 9) #313 SMP PREEMPT x\n")]);
        assert_eq!(kernel.release.as_deref(), Some("5.15.0-rc1"));
        assert_eq!(kernel.version.as_deref(), Some("#313 SMP PREEMPT x"));
    }

    #[test]
    fn compares_releases_by_number() {
        let release = |text: &str| Kernel { release: Some(text.into()), ..Kernel::default() };
        assert_eq!(release("6.12.117").at_least(6, 12), Some(true));
        assert_eq!(release("6.9.1-rt").at_least(6, 12), Some(false));
        assert_eq!(release("7.0").at_least(6, 12), Some(true));
        assert_eq!(release("next").at_least(6, 12), Option::None);
        assert_eq!(Kernel::default().at_least(6, 12), Option::None);
    }
}
