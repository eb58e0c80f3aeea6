// SPDX-License-Identifier: MIT OR Apache-2.0
//! Containers around us.

use super::limits::{CAP_SYS_NICE, priority_limit};
use super::{Check, GRAVE, TOLD};
use crate::facts::{Facts, not_captured};
use crate::finding::{Found, Look, read_in};

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
        why: "limits, capabilities, groups' runtime and filters each refuse them, with the same error",
        source: "ros2_control's documentation; moby/moby issue 22380",
        look: real_time,
    },
    Check {
        id: "ctr-cpuset",
        question: "May the container use the CPUs that were set apart?",
        weights: GRAVE,
        why: "a thread cannot be pinned to a CPU outside of its container's set",
        source: "Linux 6.12, Documentation/admin-guide/cgroup-v2.rst",
        look: cpus,
    },
];

fn container<'a>(facts: &Facts<'a>) -> Result<&'a str, Found> {
    facts.machine.container.as_deref().ok_or_else(|| Found::not_applicable("no container"))
}

fn detect(facts: &Facts) -> Look {
    Ok(match &facts.machine.container {
        Some(kind) => Found::warn(
            read_in("/run/systemd/container, /.dockerenv, /run/.containerenv, /proc/1", kind),
            format!("a container ({kind})"),
            "run isolator doctor on the host as well: interrupts, kernel threads, services, boot files",
        ),
        None => Found::pass(
            read_in("/run/systemd/container, /.dockerenv, /run/.containerenv", "absent"),
            "no container is seen",
        ),
    })
}

fn real_time(facts: &Facts) -> Look {
    container(facts)?;
    let session = &facts.inventory.session;
    let run = "docker run --ulimit rtprio=99 --ulimit memlock=-1 --cap-add sys_nice";
    if facts.machine.cgroup.rt_runtime_us == Some(0)
        && facts.machine.scheduler.rt_group_scheduling != Some(false)
    {
        let read = read_in("cpu.rt_runtime_us", 0);
        return Ok(Found::fail(
            read,
            "its group has no real-time runtime",
            "docker run --cpu-rt-runtime=950000, or a kernel without RT_GROUP_SCHED",
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
        Some(0) => Found::fail(read, "it has neither the limit nor the capability", run),
        _ => Found::pass(read, "it may, if no filter of system calls refuses it"),
    })
}

fn cpus(facts: &Facts) -> Look {
    container(facts)?;
    let isolated = facts.isolated()?;
    let path = "/sys/fs/cgroup/cpuset.cpus.effective";
    let Some(allowed) = &facts.machine.cgroup.cpus else { return Err(not_captured(path)) };
    let missing = isolated.without(allowed);
    let read = read_in(path, allowed);
    Ok(if missing.is_empty() {
        Found::pass(read, "it may")
    } else {
        Found::warn(
            read,
            format!("it may not use cpus {missing}"),
            format!("docker run --cpuset-cpus={isolated}"),
        )
    })
}
