// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels, and the answers that each can give.

use crate::common::*;
use doctor::FindingOutcome::{self, NotApplicable, Pass, Unknown, Warn};
use doctor::Profile::Periodic;
use machine::Snapshot;

/// The configuration of a kernel that can give all answers, but for BTF.
const FULL: &str = "CONFIG_SMP=y\nCONFIG_FTRACE=y\nCONFIG_TRACING=y\nCONFIG_BPF_SYSCALL=y\n\
    CONFIG_BPF_EVENTS=y\nCONFIG_UPROBE_EVENTS=y\nCONFIG_HAVE_SYSCALL_TRACEPOINTS=y\n";

const BTF: (&str, &str) = ("sys/kernel/btf/vmlinux", "\x01");
const TRACEFS: (&str, &str) = ("sys/kernel/tracing/current_tracer", "nop\n");
const UNLOCKED: (&str, &str) = ("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
const CONFIDENTIAL: (&str, &str) = ("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
const DEBIAN: (&str, &str) = ("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");

type File<'a> = (&'a str, &'a str);

/// A machine with this kernel, configured so; without a configuration where it is empty.
fn kernel(release: &str, config: &str, files: &[File]) -> Snapshot {
    let (released, path) = (format!("{release}\n"), format!("boot/config-{release}"));
    let mut all: Vec<File> = SOUND.iter().copied().filter(|(path, _)| !path.starts_with("boot/")).collect();
    all.push(("proc/sys/kernel/osrelease", &released));
    if !config.is_empty() {
        all.push((&path, config));
    }
    all.extend_from_slice(files);
    inspect::read_whole(tree(&all).path())
}

/// Fails unless the checks of causes, loops, calls and senders come out so, and say so.
#[track_caller]
fn see(machine: &Snapshot, expected: [(FindingOutcome, &str); 4]) {
    for (id, (result, words)) in ["see-causes", "see-loops", "see-calls", "see-senders"].iter().zip(expected)
    {
        says(machine, Periodic, id, result, words);
        let found = finding(machine, Periodic, id);
        assert_eq!(found.fix.is_some(), matches!(result, Warn | Unknown), "{found:#?}");
    }
}

/// The cure that a check names.
#[track_caller]
fn fix(machine: &Snapshot, id: &str) -> String {
    finding(machine, Periodic, id).fix.unwrap()
}

#[test]
fn a_kernel_with_btf_gives_all_answers() {
    for release in ["6.12.1-rt-amd64", "6.18.44"] {
        see(
            &kernel(release, FULL, &[BTF, TRACEFS, UNLOCKED]),
            [(Pass, "by BPF"), (Pass, "by BPF"), (Pass, "by uprobes"), (Pass, "by BPF")],
        );
    }
    // Neither tracefs nor lockdown is needed for it.
    let bare = kernel("6.12.1", FULL, &[BTF]);
    see(&bare, [(Pass, "by BPF"), (Pass, "by BPF"), (Pass, "by uprobes"), (Pass, "by BPF")]);
}

#[test]
fn a_kernel_without_btf_is_seen_by_trace_events() {
    let machine = kernel("6.12.1-mine", FULL, &[TRACEFS, UNLOCKED, DEBIAN]);
    see(
        &machine,
        [
            (Pass, "by trace events, as root"),
            (Warn, "by trace events alone, which see no places in the program"),
            (Warn, "lint cannot watch a program"),
            (Pass, "by trace events"),
        ],
    );
    for id in ["see-loops", "see-calls"] {
        let fix = fix(&machine, id);
        assert!(
            fix.contains("apt install linux-image-rt-amd64") && fix.contains("apt install pahole"),
            "{fix}"
        );
    }
}

#[test]
fn old_kernels_lack_parts_of_bpf() {
    let debian_11 = ("etc/os-release", "ID=debian\nVERSION_ID=\"11\"\n");
    for (release, files, causes) in [
        ("5.10.0-30-amd64", &[BTF, TRACEFS, debian_11][..], "BPF needs Linux 5.12"),
        ("5.10.0-mine", &[TRACEFS, debian_11][..], "BPF needs Linux 5.12"),
        ("4.19.0-27-amd64", &[TRACEFS, debian_11][..], "BPF needs Linux 5.12"),
        ("5.13.0", &[BTF, TRACEFS, debian_11][..], "by BPF"),
    ] {
        let machine = kernel(release, FULL, files);
        see(
            &machine,
            [
                (Pass, causes),
                (Warn, "BPF needs Linux 5.15"),
                (Warn, "BPF needs Linux 5.15"),
                (Warn, "no events of senders"),
            ],
        );
        assert!(fix(&machine, "see-loops").contains("boot Linux 5.15 or newer: Debian 13 has 6.12"));
        assert!(fix(&machine, "see-senders").contains("boot Linux 6.5 or newer: Debian 13 has 6.12"));
    }
    let reschedules = kernel("6.4.16", FULL, &[BTF, TRACEFS]);
    says(&reschedules, Periodic, "see-senders", Warn, "of reschedule IPIs alone");
}

#[test]
fn a_kernel_that_takes_parts_over_is_not_judged_by_its_version() {
    let red_hat = ("etc/os-release", "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n");
    let release = "5.14.0-427.el9.x86_64";
    let machine = kernel(release, FULL, &[BTF, TRACEFS, red_hat]);
    see(
        &machine,
        [
            (Pass, "by BPF"),
            (Unknown, "at least by trace events; by BPF: "),
            (Unknown, "takes over newer parts"),
            (Unknown, "takes over newer parts"),
        ],
    );
    // Its events are visible to root.
    let events = |names: &[&'static str]| {
        let all = names.iter().map(|name| (*name, "1\n"));
        kernel(release, FULL, &all.chain([BTF, TRACEFS, red_hat]).collect::<Vec<_>>())
    };
    let scheduler = "sys/kernel/tracing/events/sched/enable";
    let senders =
        ["sys/kernel/tracing/events/ipi/ipi_send_cpu/id", "sys/kernel/tracing/events/csd/csd_queue_cpu/id"];
    says(&events(&[scheduler]), Periodic, "see-senders", Warn, "no events of senders");
    says(&events(&[scheduler, senders[0]]), Periodic, "see-senders", Warn, "of reschedule IPIs alone");
    says(
        &events(&[scheduler, senders[0], senders[1]]),
        Periodic,
        "see-senders",
        Pass,
        "the call site of each",
    );
}

#[test]
fn a_locked_kernel_is_opened_where_it_was_locked() {
    let closed = [(Warn, "locked down (confidentiality)"); 4];
    let by_line = kernel(
        "6.12.1",
        FULL,
        &[BTF, TRACEFS, CONFIDENTIAL, ("proc/cmdline", "quiet lockdown=confidentiality\n")],
    );
    see(&by_line, closed);
    assert!(fix(&by_line, "see-causes").starts_with("take lockdown=confidentiality off the boot line"));
    let by_build = kernel("6.12.1", FULL, &[BTF, TRACEFS, CONFIDENTIAL]);
    see(&by_build, closed);
    assert!(fix(&by_build, "see-causes").contains("CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY"));
    // Secure boot asks for integrity alone.
    let integrity = ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    says(&kernel("6.12.1", FULL, &[BTF, TRACEFS, integrity]), Periodic, "see-causes", Pass, "by BPF");
}

#[test]
fn a_kernel_that_has_oopsed_gets_no_collector() {
    let oopsed = kernel("6.12.1", FULL, &[BTF, TRACEFS, ("proc/sys/kernel/tainted", "128\n")]);
    see(&oopsed, [(Warn, "has oopsed"); 4]);
    assert!(fix(&oopsed, "see-loops").contains("boot the machine again"));
    let warned = kernel("6.12.1", FULL, &[BTF, TRACEFS, ("proc/sys/kernel/tainted", "512\n")]);
    says(&warned, Periodic, "see-causes", Pass, "by BPF");
}

#[test]
fn trace_events_need_their_mount_or_their_option() {
    let unmounted = kernel("6.12.1-mine", FULL, &[UNLOCKED, DEBIAN]);
    see(
        &unmounted,
        [
            (Warn, "suspects alone, by the kernel's counters: this kernel has no BTF"),
            (Warn, "tracefs is not mounted"),
            (Warn, "no BTF"),
            (Warn, "tracefs is not mounted"),
        ],
    );
    for id in ["see-causes", "see-loops", "see-senders"] {
        let fix = fix(&unmounted, id);
        assert!(fix.contains("mount -t tracefs tracefs /sys/kernel/tracing, as root"), "{fix}");
    }
    // Trace events give causes and senders as BPF does, and loops in part.
    assert!(!fix(&unmounted, "see-causes").contains("BTF") && fix(&unmounted, "see-loops").contains("BTF"));
    // Through debugfs it is there.
    let debugfs = kernel("6.12.1-mine", FULL, &[("sys/kernel/debug/tracing/README", "x\n"), UNLOCKED]);
    says(&debugfs, Periodic, "see-causes", Pass, "by trace events");
    let without = kernel("6.12.1-mine", "CONFIG_SMP=y\nCONFIG_FTRACE=y\nCONFIG_BPF_SYSCALL=y\n", &[UNLOCKED]);
    says(&without, Periodic, "see-causes", Warn, "built without BPF_EVENTS; built without trace events");
    let fix = fix(&without, "see-causes");
    assert!(fix.contains("CONFIG_ENABLE_DEFAULT_TRACERS=y") && fix.contains("CONFIG_BPF_EVENTS=y"), "{fix}");
    assert!(!fix.contains("CONFIG_FTRACE=y") && !fix.contains("mount"), "it has FTRACE: {fix}");
}

#[test]
fn lint_without_uprobes_sees_system_calls_alone() {
    let config = FULL.replace("CONFIG_UPROBE_EVENTS=y", "# CONFIG_UPROBE_EVENTS is not set");
    let machine = kernel("6.12.1", &config, &[BTF, TRACEFS]);
    see(
        &machine,
        [(Pass, "by BPF"), (Pass, "by BPF"), (Warn, "not functions of the C library"), (Pass, "by BPF")],
    );
    assert!(fix(&machine, "see-calls").contains("CONFIG_UPROBE_EVENTS=y"));
}

#[test]
fn a_container_must_be_let_into_the_kernel() {
    let docker = ("run/systemd/container", "docker\n");
    let status = |mask: &'static str| ("proc/self/status", mask);
    let unprivileged = kernel("6.12.1", FULL, &[BTF, docker, status("CapEff:\t00000000a80425fb\n")]);
    see(&unprivileged, [(Warn, "this container (docker) lacks CAP_BPF and CAP_PERFMON"); 4]);
    assert!(fix(&unprivileged, "see-causes").contains("docker run --privileged --pid=host"));
    let privileged = [BTF, docker, status("CapEff:\t000001ffffffffff\n")];
    let own_pids = kernel("6.12.1", FULL, &privileged);
    see(&own_pids, [(Warn, "lacks the host's PID namespace"); 4]);
    let kthreadd = [
        (
            "proc/2/stat",
            "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 0 0 0 0 0 0\n",
        ),
        ("proc/2/status", "Name:\tkthreadd\nCpus_allowed_list:\t0-7\n"),
    ];
    let host_pids = kernel("6.12.1", FULL, &[&privileged[..], &kthreadd].concat());
    says(&host_pids, Periodic, "see-causes", Pass, "by BPF");
    // The kernel comes first: no right makes up for it.
    let old = kernel("5.10.0", FULL, &[BTF, docker, status("CapEff:\t00000000a80425fb\n")]);
    says(&old, Periodic, "see-calls", Warn, "BPF needs Linux 5.15");
}

#[test]
fn without_a_configuration_files_and_the_release_tell() {
    see(
        &kernel("6.12.1", "", &[BTF]),
        [(Pass, "by BPF"), (Pass, "by BPF"), (Pass, "by BPF"), (Pass, "by BPF")],
    );
    // A part of a tree, without any of the files.
    let files = [("proc/sys/kernel/osrelease", "6.12.1\n"), ("sys/devices/system/cpu/present", "0-3\n")];
    let part = inspect::read_whole(tree(&files).path());
    see(&part, [(Unknown, "not in what was captured"); 4]);
    let empty = inspect::read_whole(tree(&[]).path());
    see(&empty, [(Unknown, "not in what was captured"); 4]);
    // There the configuration says what the files would.
    let config = format!("{FULL}CONFIG_DEBUG_INFO_BTF=y\n");
    let configured = [files[0], files[1], ("boot/config-6.12.1", config.as_str())];
    says(&inspect::read_whole(tree(&configured).path()), Periodic, "see-causes", Pass, "by BPF");
    // The two differ.
    let missing = kernel("6.12.1", &config, &[]);
    says(&missing, Periodic, "see-calls", Unknown, "built with DEBUG_INFO_BTF");
}

#[test]
fn each_board_gets_its_own_cure() {
    let pi = [
        TRACEFS,
        ("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"),
        ("proc/sys/kernel/arch", "aarch64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT Debian 1:6.12.25-1+rpt1\n"),
        ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0"),
    ];
    let said = fix(&kernel("6.12.25+rpt-rpi-v8", FULL, &pi), "see-loops");
    assert!(said.contains("apt install linux-image-rt-arm64") && said.contains("config.txt"), "{said}");
    let jetson = |release, root| {
        let files = [TRACEFS, ("etc/os-release", root), ("etc/nv_tegra_release", "# R36\n")];
        fix(&kernel(release, FULL, &files), "see-loops")
    };
    let said = jetson("5.15.148-tegra", "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n");
    let headers =
        "install this kernel's headers, which have its types: apt install nvidia-l4t-kernel-headers ";
    assert!(said.starts_with(headers) && said.contains("; or build NVIDIA's kernel"), "{said}");
    let said = jetson("5.10.216-tegra", "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"20.04\"\n");
    assert!(
        said.starts_with("boot Linux 5.15 or newer: JetPack 6") && said.contains("without BTF"),
        "{said}"
    );
    let yocto = [TRACEFS, ("etc/os-release", "ID=poky\nVERSION_ID=5.0.4\n")];
    let said = fix(&kernel("6.6.50-yocto-preempt-rt", FULL, &yocto), "see-calls");
    assert!(said.contains("CONFIG_DEBUG_INFO_BTF=y") && said.contains("KERNEL_DEBUG"), "{said}");
}

#[test]
fn types_that_lie_elsewhere_open_the_way() {
    for place in ["boot/vmlinux-6.12.1", "lib/modules/6.12.1/build/Makefile"] {
        let machine = kernel("6.12.1", FULL, &[TRACEFS, (place, "")]);
        says(&machine, Periodic, "see-loops", Pass, "by BPF");
        says(&machine, Periodic, "see-calls", Pass, "by BPF");
    }
    // Those of another kernel do not.
    let machine = kernel("6.12.1", FULL, &[TRACEFS, ("boot/vmlinux-6.12.2", "")]);
    says(&machine, Periodic, "see-loops", Warn, "by trace events alone");
}

#[test]
fn a_snapshot_keeps_no_bytes_of_the_types() {
    let machine = kernel("6.12.1", FULL, &[("sys/kernel/btf/vmlinux", "many bytes")]);
    let files = &machine.inventory.as_ref().unwrap().files;
    assert_eq!(files["/sys/kernel/btf/vmlinux"], machine::inventory::Reading::Text(String::new()));
    let saved: Snapshot = serde_json::from_str(&serde_json::to_string(&machine).unwrap()).unwrap();
    assert_eq!(finding(&saved, Periodic, "see-causes"), finding(&machine, Periodic, "see-causes"));
}

#[test]
fn a_server_is_told_as_well() {
    let machine = kernel("6.12.1", FULL, &[TRACEFS]);
    says(&machine, doctor::Profile::Server, "see-loops", Warn, "by trace events alone");
    assert_eq!(finding(&machine, Periodic, "see-loops").severity, doctor::Severity::Info);
}

#[test]
fn one_cpu_gets_no_ipi() {
    let one = [("sys/devices/system/cpu/present", "0\n"), ("sys/devices/system/cpu/online", "0\n")];
    let machine = kernel("6.12.1", FULL, &[BTF, one[0], one[1]]);
    says(&machine, Periodic, "see-senders", NotApplicable, "no IPI");
}
