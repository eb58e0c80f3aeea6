// SPDX-License-Identifier: MIT OR Apache-2.0
//! The session's rights, and services that tune the machine beside each other.

use crate::common::*;
use doctor::FindingOutcome::{Fail, Pass, Unknown, Warn};
use doctor::Profile::{Audio, Periodic};

/// The sound machine with these limits, as /proc/self/limits shows them.
fn limited(memory: &str, priority: &str, files: &[(&str, &str)]) -> machine::Snapshot {
    let limits = format!(
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max locked memory         {memory:<20} {memory:<20} bytes     \n\
         Max realtime priority     {priority:<20} {priority:<20}\n"
    );
    let own = [
        ("proc/self/limits", limits.as_str()),
        ("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nGroups:\t1000 \nCapEff:\t0000000000000000\n"),
        ("etc/passwd", "ann:x:1000:1000::/home/ann:/bin/sh\n"),
    ];
    sound_but(&[&own[..], files].concat())
}

#[test]
fn small_limits_are_shown_in_their_unit() {
    for (bytes, outcome, words) in [
        ("0", Fail, "0 KiB"),
        ("1023", Fail, "0 KiB"),
        ("65536", Fail, "64 KiB"),
        ("1048575", Fail, "1023 KiB"),
        ("1048576", Fail, "1 MiB"),
        ("8388608", Fail, "8 MiB"),
        ("67108864", Fail, "64 MiB"),
        ("67108865", Warn, "64 MiB"),
        ("104857600", Warn, "100 MiB"),
        ("18446744073709551615", Warn, "17592186044415 MiB"),
        ("unlimited", Pass, "lock all of its memory"),
        ("-1", Unknown, "not in what was captured"),
    ] {
        says(&limited(bytes, "0", &[]), Periodic, "lim-memlock", outcome, words);
    }
    for (priority, profile, outcome, words) in [
        ("0", Periodic, Fail, "no real-time priority"),
        ("1", Periodic, Warn, "up to 1"),
        ("79", Periodic, Warn, "up to 79"),
        ("80", Periodic, Pass, "up to 80"),
        ("80", Audio, Warn, "up to 80"),
        ("95", Audio, Pass, "up to 95"),
        ("unlimited", Periodic, Pass, "every real-time priority"),
    ] {
        says(&limited("65536", priority, &[]), profile, "lim-rtprio", outcome, words);
    }
}

#[test]
fn rights_of_a_group_hold_for_its_members() {
    let rules = (
        "etc/security/limits.conf",
        "@realtime soft rtprio 99\n@realtime hard rtprio 99\n@realtime hard memlock 102400\n",
    );
    for (priority, group, outcome, words, cure) in [
        ("0", "realtime:x:1001:\n", Warn, "in no group that has these rights", "usermod -aG realtime ann"),
        ("0", "realtime:x:1001:bob\n", Warn, "in no group that has these rights", "usermod -aG realtime ann"),
        ("0", "realtime:x:1001:bob,ann\n", Warn, "this session does not", "log out and in"),
        ("0", "realtime:x:1000:\n", Pass, "in group realtime", ""),
        ("0", "audio:x:29:ann\n", Warn, "no group has these rights", "isolator setup-user"),
        ("99", "realtime:x:1001:\n", Pass, "has the rights without a group", ""),
    ] {
        let machine = limited("65536", priority, &[rules, ("etc/group", group)]);
        says(&machine, Periodic, "lim-group", outcome, words);
        let fix = finding(&machine, Periodic, "lim-group").fix.unwrap_or_default();
        assert!(fix.starts_with(cure), "{group}: {fix}");
    }
}

#[test]
fn tuners_are_counted_however_they_run() {
    let enabled = |name: &str| format!("etc/systemd/system/multi-user.target.wants/{name}.service");
    let pulled =
        |base: &str, name: &str| format!("{base}/systemd/system/basic.target.requires/{name}.service");
    let active = |name: &str| format!("sys/fs/cgroup/system.slice/{name}.service/cgroup.procs");
    for (files, outcome, words) in [
        (vec![enabled("tuned"), active("tlp")], Warn, "two: tuned, tlp"),
        (
            vec![active("tuned"), active("thermald"), enabled("cpupower")],
            Warn,
            "3: tuned, thermald, cpupower",
        ),
        (vec![pulled("usr/lib", "ondemand"), enabled("rt-conf")], Warn, "two: ondemand, rt-conf"),
        (
            vec![pulled("run", "auto-cpufreq"), active("system76-power")],
            Warn,
            "two: auto-cpufreq, system76-power",
        ),
        (
            vec![
                active("isolator-tune"),
                active("tuned"),
                active("tlp"),
                active("powertop"),
                active("auto-epp"),
            ],
            Warn,
            "5: isolator-tune, tuned, tlp, auto-epp and 1 more",
        ),
        // Enabled and active is one.
        (vec![enabled("tuned"), active("tuned")], Pass, "tuned"),
        (vec![active("thermald"), active("ssh")], Pass, "thermald"),
        // A user's unit, and one of a similar name, tune nothing.
        (vec![active("tuned-ppd-fake"), active("tlp-sleep")], Pass, "no tuning service"),
    ] {
        let mut all = vec![("sys/fs/cgroup/cgroup.controllers", "cpu\n")];
        all.extend(files.iter().map(|path| (path.as_str(), "")));
        says(&sound_but(&all), Periodic, "svc-tuner-conflict", outcome, words);
    }
    let profile = ("etc/tuned/active_profile", "realtime\n");
    let (tuned, tlp) = (enabled("tuned"), enabled("tlp"));
    let machine = sound_but(&[profile, (&tuned, ""), (&tlp, "")]);
    says(&machine, Periodic, "svc-tuner-conflict", Warn, "two: tuned (realtime), tlp");
    assert_eq!(
        finding(&machine, Periodic, "svc-tuner-conflict").fix.as_deref(),
        Some("keep one: systemctl disable --now tlp")
    );
}
