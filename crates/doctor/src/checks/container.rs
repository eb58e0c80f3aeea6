// SPDX-License-Identifier: MIT OR Apache-2.0
//! Containers around us.

use machine::advice::Advice;
use machine::advice::Manual::{Container, Search};

use super::limits::{CAP_SYS_NICE, priority_limit};
use super::{Check, GRAVE, MIDDLING, TOLD};
use crate::facts::{AS_ROOT, CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "ctr-detect",
        question: "Is this the host?",
        weights: TOLD,
        why: "in a container the host's threads, services and boot files cannot be seen",
        source: "/run/systemd/container, /.dockerenv, /run/.containerenv, /proc/1",
        look: detect,
    },
    Check {
        id: "ctr-rtprio",
        question: "May the container have real-time threads?",
        weights: GRAVE,
        why: "limits, capabilities, the group's runtime and seccomp filters all refuse with the same error",
        source: "ros2_control's documentation; moby/moby issue 22380",
        look: real_time,
    },
    Check {
        id: "ctr-cpuset",
        question: "May the container use the isolated CPUs?",
        weights: GRAVE,
        why: "a thread cannot be pinned to a CPU outside of its container's set",
        source: "Linux 6.12, Documentation/admin-guide/cgroup-v2.rst",
        look: cpus,
    },
    Check {
        id: "ctr-exclusive",
        question: "Does the pod have exclusive CPUs?",
        weights: GRAVE,
        why: "pods share all CPUs of a node unless the kubelet's CPU manager gives them some for themselves",
        source: "Kubernetes 1.36, Control CPU Management Policies on the Node",
        look: exclusive,
    },
    Check {
        id: "ctr-dma-latency",
        question: "May the container keep CPUs out of deep idle states?",
        weights: MIDDLING,
        why: "without /dev/cpu_dma_latency a program cannot limit the idle states of the node",
        source: "Linux 6.12, Documentation/power/pm_qos_interface.rst",
        look: dma_latency,
    },
];

fn container<'a>(facts: &CheckFacts<'a>) -> Result<&'a str, Conclusion> {
    facts.machine.container.as_deref().ok_or_else(|| Conclusion::not_applicable("no container"))
}

/// The cure for a container without a right: on a command line, and in a pod's manifest.
fn fix(facts: &CheckFacts, command: &'static str, manifest: &'static str) -> Advice {
    Container.advice(if facts.machine.is_pod() { manifest } else { command })
}

fn detect(facts: &CheckFacts) -> CheckResult {
    Ok(match &facts.machine.container {
        Some(kind) => Conclusion::warn(
            read_in("/run/systemd/container, /.dockerenv, /run/.containerenv, /proc/1", kind),
            format!("this is a container ({kind})"),
            Search.advice(
                "run isolator doctor on the host as well: interrupts, kernel threads, services, boot files",
            ),
        ),
        None if !facts.inventory.whole => return Err(not_captured("/run/systemd/container")),
        None => match facts.machine.unread.iter().find(|line| line.starts_with("/run/systemd/container")) {
            Some(line) => {
                let why = line.split_once(": ").map_or("it could not be read", |(_, why)| why);
                return Err(Conclusion::unknown("/run/systemd/container", why, AS_ROOT));
            }
            None => Conclusion::pass(
                read_in("/run/systemd/container, /.dockerenv, /run/.containerenv", "absent"),
                "no container was detected",
            ),
        },
    })
}

fn real_time(facts: &CheckFacts) -> CheckResult {
    container(facts)?;
    let session = &facts.inventory.session;
    let run = fix(
        facts,
        "docker run --ulimit rtprio=98 --ulimit memlock=-1 --cap-add sys_nice",
        "add SYS_NICE and IPC_LOCK to securityContext.capabilities of the container, as user 0",
    );
    if facts.machine.cgroup.rt_runtime_us == Some(0)
        && facts.machine.scheduler.rt_group_scheduling != Some(false)
    {
        let read = read_in("cpu.rt_runtime_us", 0);
        return Ok(Conclusion::fail(
            read,
            "the container's group has no real-time runtime",
            fix(
                facts,
                "docker run --cpu-rt-runtime=950000, or a kernel without RT_GROUP_SCHED",
                "a kernel without RT_GROUP_SCHED (rt_group_sched=0 in its boot line), or a hook of the container runtime that \
                 writes cpu.rt_runtime_us of the pod's groups: Kubernetes sets none",
            ),
        ));
    }
    let limit = priority_limit(facts)?;
    let value = format!(
        "CAP_SYS_NICE {}, Max realtime priority {}, Seccomp {}",
        if session.capable(CAP_SYS_NICE) == Some(true) { "yes" } else { "no" },
        limit.map_or("unlimited".to_string(), |limit| limit.to_string()),
        session.seccomp.map_or("unknown".to_string(), |mode| mode.to_string()),
    );
    let read = read_in("/proc/self/status, /proc/self/limits", value);
    Ok(match limit {
        Some(0) => Conclusion::fail(read, "the container has neither RLIMIT_RTPRIO nor CAP_SYS_NICE", run),
        _ => Conclusion::pass(read, "the container may, unless a seccomp filter refuses it"),
    })
}

fn cpus(facts: &CheckFacts) -> CheckResult {
    container(facts)?;
    let isolated = facts.isolated()?;
    let path = "/sys/fs/cgroup/cpuset.cpus.effective";
    let Some(allowed) = &facts.machine.cgroup.cpus else { return Err(not_captured(path)) };
    let missing = isolated.without(allowed);
    let read = read_in(path, allowed);
    Ok(if missing.is_empty() {
        Conclusion::pass(read, "the container may use all isolated CPUs")
    } else {
        Conclusion::warn(
            read,
            format!("the container may not use cpus {missing}"),
            Container.advice(if facts.machine.is_pod() {
                "on the node: look at cpuset.cpus of kubepods, and at which pods have CPUs of their own"
                    .to_string()
            } else {
                format!("docker run --cpuset-cpus={isolated}")
            }),
        )
    })
}

fn exclusive(facts: &CheckFacts) -> CheckResult {
    if !facts.machine.is_pod() {
        return Err(Conclusion::not_applicable("no pod"));
    }
    let path = "/sys/fs/cgroup/cpuset.cpus.effective";
    let Some(allowed) = &facts.machine.cgroup.cpus else { return Err(not_captured(path)) };
    let read = read_in(path, allowed);
    Ok(if facts.machine.online().without(allowed).is_empty() {
        Conclusion::warn(
            read,
            "the pod has no exclusive CPUs: all pods share every CPU of the node",
            Container.advice(
                "cpuManagerPolicy: static in the kubelet's configuration, and whole CPUs as both request and limit, memory too",
            ),
        )
    } else {
        Conclusion::pass(read, format!("the pod may use cpus {allowed} alone"))
    })
}

fn dma_latency(facts: &CheckFacts) -> CheckResult {
    container(facts)?;
    let path = "/dev/cpu_dma_latency";
    let found = &facts.inventory.dma_latency;
    let run = fix(
        facts,
        "docker run --device /dev/cpu_dma_latency, or bound the idle states on the host",
        "bound the idle states on the node (isolator tune plan there): only a privileged pod has the device",
    );
    Ok(match (found.limit_us, &found.unread) {
        (Some(limit), _) => Conclusion::pass(read_in(path, limit), "the container may open the device"),
        (None, Some(why)) => {
            Conclusion::warn(read_in(path, why), "the container may not open the device", run)
        }
        (None, None) if facts.inventory.whole => {
            Conclusion::warn(read_in(path, "absent"), "the container has no such device", run)
        }
        (None, None) => return Err(not_captured(path)),
    })
}
