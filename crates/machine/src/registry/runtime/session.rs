// SPDX-License-Identifier: MIT OR Apache-2.0
//! Services and the limits of a session.

use crate::registry::{FILE, Setting, SettingKind, ValueKind};

const LIMIT: Setting = Setting {
    kind: SettingKind::Limit,
    takes: ValueKind::Number,
    effective: &["/proc/self/limits"],
    source: "getrlimit(2), limits.conf(5)",
    ..FILE
};
const SERVICE: Setting = Setting { kind: SettingKind::Service, ..FILE };

pub(super) const ALL: &[Setting] = &[
    Setting {
        name: "rtprio",
        reason: "the highest real-time priority that may be asked for without CAP_SYS_NICE",
        cost: "its holder can starve the machine",
        fix: "isolator setup-user $USER, then log in anew; by hand: echo '@realtime - rtprio VALUE' >> \
              /etc/security/limits.d/95-realtime.conf; groupadd -f realtime; usermod -aG realtime $USER",
        undo: "isolator setup-user --undo, or take the line out of /etc/security/limits.d/95-realtime.conf",
        ..LIMIT
    },
    Setting {
        name: "memlock",
        reason: "how much memory may be locked, so that it is never paged out",
        cost: "its holder can lock all memory",
        fix: "isolator setup-user $USER, then log in anew; by hand: echo '@realtime - memlock VALUE' >> \
              /etc/security/limits.d/95-realtime.conf",
        undo: "isolator setup-user --undo, or take the line out of /etc/security/limits.d/95-realtime.conf",
        ..LIMIT
    },
    Setting {
        name: "nice",
        reason: "how far ordinary threads may raise themselves",
        fix: "echo '@realtime - nice VALUE' >> /etc/security/limits.d/95-realtime.conf, then log in anew",
        undo: "take the line out of /etc/security/limits.d/95-realtime.conf",
        ..LIMIT
    },
    Setting {
        name: "rttime",
        reason: "µs that a real-time thread may run without sleeping before it is killed; unlimited for a loop that polls",
        fix: "echo '@realtime - rttime VALUE' >> /etc/security/limits.d/95-realtime.conf, then log in anew",
        undo: "take the line out of /etc/security/limits.d/95-realtime.conf",
        ..LIMIT
    },
    Setting {
        name: "irqbalance",
        takes: ValueKind::Cpus,
        reason: "moves interrupts about; the banned CPUs it leaves alone",
        cost: "setting the list replaces the one that irqbalance makes itself of isolated and nohz_full CPUs",
        source: "irqbalance(1), irqbalance's issues #19, #90, #156, #356",
        fix: "set IRQBALANCE_BANNED_CPULIST=VALUE in /etc/default/irqbalance (/etc/sysconfig/irqbalance), then systemctl restart irqbalance",
        undo: "take IRQBALANCE_BANNED_CPULIST out again, then systemctl restart irqbalance",
        ..SERVICE
    },
    Setting {
        name: "kthreads",
        takes: ValueKind::Cpus,
        reason: "kernel threads that are bound to no CPU run on these only",
        cost: "those that come later are not moved until it is done again",
        source: "Linux 6.12, Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
        fix: "taskset -pc VALUE PID for each kernel thread that moves",
        undo: "taskset -pc VALUE PID for each",
        ..SERVICE
    },
    Setting {
        name: "tuned",
        reason: "writes many of these settings itself, again at each start",
        source: "TuneD's profiles and plugins",
        fix: "systemctl disable --now tuned",
        undo: "systemctl enable --now tuned",
        ..SERVICE
    },
    Setting {
        name: "AllowedCPUs",
        takes: ValueKind::Cpus,
        needs: &["CPUSETS"],
        effective: &["cpuset.cpus.effective"],
        reason: "keeps what systemd starts in a slice on housekeeping CPUs",
        source: "systemd.resource-control(5)",
        fix: "systemctl set-property system.slice AllowedCPUs=VALUE (and user.slice, init.scope)",
        undo: "systemctl revert system.slice (and user.slice, init.scope)",
        ..SERVICE
    },
];
