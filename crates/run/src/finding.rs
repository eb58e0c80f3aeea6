// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thing that was found of a run before it is measured, and what it does to the run.

use std::fmt;

use evidence::{Taint, taint};

/// A finding's effect on the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingEffect {
    /// It is written down.
    Note,
    /// It is held against the verdict, unless accepted.
    Taint,
    /// The run does not start.
    Refuse,
}

/// One thing that was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightFinding {
    /// A fixed word for it; what may taint has it from [`evidence::taint`].
    pub code: &'static str,
    /// Its effect on the run.
    pub effect: FindingEffect,
    /// The finding, with its object.
    pub reason: String,
    /// The cure.
    pub cure: String,
    /// The measured CPU that it concerns; absent: all of them, or the machine.
    pub cpu: Option<u32>,
}

/// The meaning of a code that never taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoteText {
    /// The code.
    pub code: &'static str,
    /// Its effect on a run: `note`, `refusal`, or either.
    pub effect: &'static str,
    /// Its statement about the machine or the request.
    pub meaning: &'static str,
    /// The usual cure.
    pub cure: &'static str,
}

/// The codes that never taint; `docs/reference/notes.md` is made from this table.
pub const NOTES: &[NoteText] = &[
    NoteText {
        code: "virtual-machine",
        effect: "note",
        meaning: "The machine is a guest: its host decides when its CPUs run.",
        cure: "on the host: pin each virtual CPU to an isolated CPU; look for stolen time in the result",
    },
    NoteText {
        code: "container",
        effect: "note",
        meaning: "The run is in a container: other programs on the measured CPUs may not be visible.",
        cure: "measure on the host",
    },
    NoteText {
        code: "not-isolated",
        effect: "note",
        meaning: "A measured CPU is not isolated: the scheduler may place any task there.",
        cure: "isolator tune plan",
    },
    NoteText {
        code: "irq-affinity",
        effect: "note",
        meaning: "Device interrupts may be delivered to a measured CPU by default.",
        cure: "isolator tune plan",
    },
    NoteText {
        code: "irq-thread-priority",
        effect: "note",
        meaning: "An interrupt thread has at least the priority of the measuring thread.",
        cure: "if the program needs no interrupt in time, give it a higher --priority",
    },
    NoteText {
        code: "governor",
        effect: "note",
        meaning: "A measured CPU has another frequency governor than performance.",
        cure: "set the governor performance (isolator tune plan)",
    },
    NoteText {
        code: "use-period",
        effect: "note",
        meaning: "A program's loop has another period than the use that judges it.",
        cure: "give the --use with the program's period",
    },
    NoteText {
        code: "rt-group-runtime",
        effect: "note or refusal",
        meaning: "The control group has, or may have, no real-time runtime (RT_GROUP_SCHED).",
        cure: "start from the root control group, give the group cpu.rt_runtime_us, or boot a kernel without RT_GROUP_SCHED",
    },
    NoteText {
        code: "cpus-unknown",
        effect: "note or refusal",
        meaning: "The list of online CPUs could not be read.",
        cure: "mount /sys, or name CPUs with --cpus and --house-keeping",
    },
    NoteText {
        code: "housekeeping-measured",
        effect: "note or refusal",
        meaning: "A CPU is both measured and used for housekeeping.",
        cure: "take it out of --cpus or out of --house-keeping",
    },
    NoteText {
        code: "no-housekeeping-cpu",
        effect: "refusal",
        meaning: "Every CPU is measured: none is left for loads and the control thread.",
        cure: "leave at least one CPU out of --cpus",
    },
    NoteText {
        code: "no-cpu",
        effect: "refusal",
        meaning: "No CPU to measure was given.",
        cure: "choose from the online CPUs",
    },
    NoteText {
        code: "unknown-cpu",
        effect: "refusal",
        meaning: "The machine has no CPU of this number.",
        cure: "choose from the online CPUs",
    },
    NoteText {
        code: "offline-cpu",
        effect: "refusal",
        meaning: "The CPU is offline.",
        cure: "bring it online, or choose another one",
    },
    NoteText {
        code: "outside-cpuset",
        effect: "refusal",
        meaning: "The control group may not use the CPU.",
        cure: "start in a control group whose cpuset.cpus has it (docker: --cpuset-cpus)",
    },
    NoteText {
        code: "no-permission",
        effect: "refusal",
        meaning: "The policy or priority is not permitted.",
        cure: "grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO (isolator tune plan)",
    },
    NoteText {
        code: "period",
        effect: "refusal",
        meaning: "The period is below the clock's resolution.",
        cure: "give a longer period, or boot without highres=off",
    },
    NoteText {
        code: "unknown-name",
        effect: "refusal",
        meaning: "No probe, load, policy, timer or taint has this name.",
        cure: "choose from the names that the line lists",
    },
    NoteText {
        code: "duration",
        effect: "refusal",
        meaning: "The duration is 0.",
        cure: "give --duration such as 20s",
    },
    NoteText {
        code: "loops",
        effect: "refusal",
        meaning: "The number of loops is 0, or a row has no end by loops alone.",
        cure: "give --loops such as 100000, or --duration",
    },
    NoteText {
        code: "threshold",
        effect: "refusal",
        meaning: "The threshold is 0: every sample would be a spike.",
        cure: "give --threshold such as 50us",
    },
    NoteText {
        code: "limit",
        effect: "refusal",
        meaning: "The limit is above the period: a cycle that late is a missed period.",
        cure: "give a limit up to the period",
    },
    NoteText {
        code: "claim",
        effect: "refusal",
        meaning: "The claim is not a rate between 0 and 1.",
        cure: "give --claim such as 0.001",
    },
    NoteText {
        code: "until",
        effect: "refusal",
        meaning: "The rule that ends a row early does not fit the claim or the allowance.",
        cure: "leave out --until",
    },
    NoteText {
        code: "allow",
        effect: "refusal",
        meaning: "The allowance is not of the form 1in10, or the places of late cycles would not be kept.",
        cure: "give --allow such as 1in10, without --threshold and --flight",
    },
    NoteText {
        code: "priority",
        effect: "refusal",
        meaning: "The priority does not fit the policy.",
        cure: "give --priority from 1 to 99",
    },
];

impl PreflightFinding {
    pub(crate) fn new(
        effect: FindingEffect,
        code: &'static str,
        reason: impl fmt::Display,
        cure: impl fmt::Display,
    ) -> Self {
        let is_known = taint::CODES.contains(&code) || NOTES.iter().any(|note| note.code == code);
        debug_assert!(is_known, "'{code}' is neither in NOTES nor among the codes of taints");
        PreflightFinding { code, effect, reason: reason.to_string(), cure: cure.to_string(), cpu: None }
    }

    pub(crate) fn on(self, cpu: Option<u32>) -> Self {
        PreflightFinding { cpu, ..self }
    }
}

impl fmt::Display for PreflightFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.reason, self.cure)
    }
}

impl From<PreflightFinding> for Taint {
    fn from(finding: PreflightFinding) -> Self {
        Taint { cpu: finding.cpu, ..Taint::new(finding.code, finding.reason, finding.cure) }
    }
}
