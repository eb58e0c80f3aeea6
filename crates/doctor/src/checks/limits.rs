// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights and limits of the session that asks.

use machine::advice::Manual::{Container, Session};
use machine::advice::{Advice, SettingId};
use machine::inventory::{ProgramCopy, SessionLimit};

use super::{Check, GRAVE, MIDDLING};
use crate::Profile;
use crate::facts::{CheckFacts, not_captured, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

const LIMITS: &str = "/proc/self/limits";
/// Numbers of capabilities (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;
pub(super) const CAP_SYS_NICE: u32 = 23;

pub(super) const ALL: &[Check] = &[
    Check {
        id: "lim-rtprio",
        question: "May this session ask for a real-time priority?",
        weights: GRAVE,
        why: "without it a program silently runs with ordinary priority, or does not start",
        source: "getrlimit(2), limits.conf(5)",
        look: priority,
    },
    Check {
        id: "lim-memlock",
        question: "May this session lock its memory?",
        weights: GRAVE,
        why: "mlockall fails beyond the limit, and page faults continue",
        source: "getrlimit(2); 8 MiB by default since Linux 5.16",
        look: memory,
    },
    Check {
        id: "lim-group",
        question: "Is the user in the group that has these rights?",
        weights: MIDDLING,
        why: "a new group membership takes effect at the next log-in",
        source: "limits.conf(5), usermod(8)",
        look: group,
    },
    Check {
        id: "lim-copy",
        question: "Is the copy of isolator that has capabilities the installed program?",
        weights: [Some(Severity::Low); 5],
        why: "an update of the package does not change the copy that isolator setup-user made",
        source: "capabilities(7), File capabilities",
        look: copy,
    },
];

/// The highest priority that may be asked for; `None` where nothing bounds it.
pub(super) fn priority_limit(facts: &CheckFacts) -> Result<Option<u64>, Conclusion> {
    let session = &facts.inventory.session;
    if session.capable(CAP_SYS_NICE) == Some(true) {
        return Ok(None);
    }
    match session.limits.get("Max realtime priority") {
        Some(SessionLimit { soft, .. }) => Ok(*soft),
        None => Err(not_captured(LIMITS)),
    }
}

/// A container has the limits that it was started with, whatever its users' files say.
fn grant(facts: &CheckFacts, setting: SettingId) -> Advice {
    if facts.machine.container.is_some() {
        return Container.advice("see ctr-rtprio");
    }
    setting.advice(&facts.aim())
}

fn priority(facts: &CheckFacts) -> CheckResult {
    let limit = priority_limit(facts)?;
    let fix = grant(facts, SettingId::RtPriority);
    let wanted = if facts.profile == Profile::Audio { 95 } else { 80 };
    Ok(match limit {
        None => Conclusion::pass(
            read_in(format!("{LIMITS}, /proc/self/status"), "CAP_SYS_NICE, or unlimited"),
            "this session may use every real-time priority",
        ),
        Some(0) => Conclusion::fail(
            read_in(LIMITS, "Max realtime priority 0"),
            "this session may use no real-time priority",
            fix,
        ),
        Some(limit) if limit < wanted => Conclusion::warn(
            read_in(LIMITS, format!("Max realtime priority {limit}")),
            format!("this session may use real-time priorities up to {limit}"),
            fix,
        ),
        Some(limit) => Conclusion::pass(
            read_in(LIMITS, format!("Max realtime priority {limit}")),
            format!("this session may use real-time priorities up to {limit}"),
        ),
    })
}

fn memory(facts: &CheckFacts) -> CheckResult {
    let session = &facts.inventory.session;
    let fix = grant(facts, SettingId::LockedMemory);
    if session.capable(CAP_IPC_LOCK) == Some(true) {
        return Ok(Conclusion::pass(
            read_in("CapEff in /proc/self/status", "CAP_IPC_LOCK"),
            "this session may lock all of its memory",
        ));
    }
    let limit = session.limits.get("Max locked memory").ok_or_else(|| not_captured(LIMITS))?;
    Ok(match limit.soft {
        None => Conclusion::pass(
            read_in(LIMITS, "Max locked memory unlimited"),
            "this session may lock all of its memory",
        ),
        Some(bytes) => {
            let read = read_in(LIMITS, format!("Max locked memory {bytes}"));
            let says = match bytes >> 20 {
                0 => format!("{} KiB", bytes >> 10),
                mib => format!("{mib} MiB"),
            };
            // A small program with its libraries is some 30 MiB.
            if bytes <= 64 << 20 {
                Conclusion::fail(read, says, fix)
            } else {
                Conclusion::warn(read, says, fix)
            }
        }
    })
}

fn group(facts: &CheckFacts) -> CheckResult {
    let session = &facts.inventory.session;
    let Some(uid) = session.uid else { return Err(not_captured("/proc/self/status")) };
    if uid == 0 {
        return Err(Conclusion::not_applicable("root needs no group"));
    }
    let named: Vec<&str> = session
        .rules
        .iter()
        .filter_map(|rule| rule.split_once(": @")?.1.split(' ').next())
        .filter(|name| session.known_groups.contains_key(*name))
        .collect();
    let read = read_in("/etc/group, /etc/security/limits.d, /proc/self/status", some(&session.rules, 4));
    let user = session.user.as_deref().unwrap_or_default();
    for name in &named {
        let (id, members) = &session.known_groups[*name];
        if session.groups.contains(id) {
            return Ok(Conclusion::pass(read, format!("the user is in group {name}")));
        }
        if members.iter().any(|member| member == user) {
            return Ok(Conclusion::warn(
                read,
                format!("/etc/group has the user in {name}, this session does not"),
                Session.advice("log out and in"),
            ));
        }
    }
    if priority_limit(facts)?.is_none_or(|limit| limit > 0) {
        return Ok(Conclusion::pass(read, "the session has the rights without a group"));
    }
    let fix = match named.first() {
        Some(name) => Session.advice(format!("usermod -aG {name} {user}, then log in anew")),
        None => grant(facts, SettingId::RtPriority),
    };
    Ok(Conclusion::warn(
        read,
        if named.is_empty() {
            "no group has these rights"
        } else {
            "the user is in no group that has these rights"
        },
        fix,
    ))
}

fn copy(facts: &CheckFacts) -> CheckResult {
    const COPY: &str = "/usr/local/bin/isolator-realtime";
    match &facts.inventory.session.copy {
        None => Err(Conclusion::not_applicable("there is no such copy")),
        Some(ProgramCopy::Same) => {
            Ok(Conclusion::pass(read_in(COPY, "the same"), "the copy is the installed program"))
        }
        Some(ProgramCopy::Differs { installed }) => Ok(Conclusion::warn(
            read_in(format!("{COPY}, {installed}"), "they differ"),
            format!("isolator-realtime is not the program {installed}"),
            Session.advice("sudo isolator setup-user USER --capabilities bpf, with the users that have it"),
        )),
        Some(ProgramCopy::Unknown { reason }) => {
            Err(Conclusion::unknown(COPY, reason, format!("sudo cmp {COPY} $(command -v isolator)")))
        }
    }
}
