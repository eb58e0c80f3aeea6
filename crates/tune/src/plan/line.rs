// SPDX-License-Identifier: MIT OR Apache-2.0
//! The boot line of a plan : few tokens, each of which this kernel takes.
//!
//! A setting of the running machine is not on it. A function of facts and intent, never of the
//! present boot line: tokens there that are not ours are shown beside ours and left alone.

use machine::advice::{Aim, SettingId, WhyNot};
use machine::boot::line::{kernel_words, with_words};
use machine::registry::cpus;
use machine::{Profile, registry};

use super::choose::{CpuChoice, refuse};
use super::facts::{Core, PlanFacts};
use super::intent::Intent;
use crate::action::{Action, ActionKind, BootLine, Disruption, PlanRefusal, Skipped, line_word};

/// The words that must never stand on a boot line of ours, and why.
pub const NEVER: &[(&str, &str)] = &[
    ("kthread_cpus", "no kernel of kernel.org has it: it is handed to init, and nothing is steered"),
    ("amd_idle.max_cstate", "there is no such module, and names with a dot are never reported as unknown"),
    (
        "idle",
        "`poll` heats, takes turns from the sibling thread and lowers turbo; a latency limit per CPU does it",
    ),
    ("cpuidle.off", "it takes away the way to limit the exit latency of idle states (PM QoS)"),
    ("cpufreq.off", "it takes away the governor; `performance` is wanted instead"),
    ("mitigations", "security is not ours to trade, and its cost is no latency peak"),
    ("mce", "`off` hides failing hardware; polling can be stopped while the machine runs"),
    ("nohz", "on is the default"),
    ("intel_pstate", "without it the processor's own frequency control is lost; the governor is set instead"),
    ("amd_pstate", "without it the processor's own frequency control is lost; the governor is set instead"),
    ("rcupdate.rcu_expedited", "it interrupts every CPU to make grace periods short"),
    ("maxcpus", "it hides CPUs that should keep house"),
    ("clocksource", "the kernel takes the best that it trusts"),
];

/// One token and why this profile wants it; name and value are the table of advice's, the rest is the
/// registry's.
struct Token {
    name: &'static str,
    value: String,
    reason: &'static str,
    /// A command that shows it, where no file does.
    verify: Option<&'static str>,
}

/// The tokens in order, and what is left out because this kernel cannot.
pub(super) fn line(
    facts: &PlanFacts,
    intent: &Intent,
    choice: &CpuChoice,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<Action>, PlanRefusal> {
    let mut tokens = Vec::new();
    if !choice.isolated.is_empty() {
        isolation(facts, intent, choice, skipped, &mut tokens)?;
    }
    if intent.profile == Profile::Audio {
        let mut line = Tokens { aim: choice.aim(facts, intent), tokens: &mut tokens, skipped };
        let reason = "interrupts are served by threads, over which a sound server can have priority";
        line.add(SettingId::Threadirqs, reason, Some("ps -e -o comm= | grep '^irq/'"));
    }
    let reason = match () {
        () if intent.nosmt => Some("asked for: one hardware thread per core, so that nothing shares a core"),
        () if facts.smt_off && !intent.no_reboot => {
            Some("hardware threads are off now, and the reboot would bring them back beside isolated CPUs")
        }
        () => None,
    };
    if let Some(reason) = reason {
        tokens.push(Token { name: SettingId::Nosmt.name(), value: String::new(), reason, verify: None });
    }
    if intent.no_reboot {
        skipped.extend(tokens.into_iter().map(|token| Skipped {
            what: token.name.to_string(),
            reason: "it needs a reboot, and none is wanted (--no-reboot)".to_string(),
        }));
        return Ok(Vec::new());
    }
    // The table has the last word on what this kernel takes.
    let machine = facts.machine;
    tokens.retain(|token| {
        let known = registry::boot_parameter(token.name);
        let why = known.and_then(|known| {
            known.cannot_act(&machine.kernel, machine.architecture.as_deref(), |option| facts.option(option))
        });
        let Some(why) = why else { return true };
        skipped.push(Skipped { what: token.name.to_string(), reason: why.to_string() });
        false
    });
    let actions: Vec<Action> = tokens.into_iter().map(action).collect();
    fits(facts, &actions)?;
    agrees(facts, &actions)?;
    Ok(actions)
}

fn isolation(
    facts: &PlanFacts,
    intent: &Intent,
    choice: &CpuChoice,
    skipped: &mut Vec<Skipped>,
    tokens: &mut Vec<Token>,
) -> Result<(), PlanRefusal> {
    if facts.option("CPU_ISOLATION") == Some(false) && !intent.no_reboot {
        return refuse(
            "this kernel cannot isolate CPUs at boot: CONFIG_CPU_ISOLATION is off",
            "use a kernel with it, or plan without a reboot (--no-reboot)",
        );
    }
    let mut line = Tokens { aim: choice.aim(facts, intent), tokens, skipped };
    line.add(
        SettingId::Isolcpus,
        "the scheduler moves nothing there by itself, and interrupts that drivers manage stay away where they can",
        None,
    );
    line.add(SettingId::Irqaffinity, "interrupts of devices begin their life on housekeeping CPUs", None);
    let reason = "a loop that never sleeps keeps its CPU without the scheduler's tick";
    // The parameter is new in 6.12.
    if line.add(SettingId::NohzFull, reason, None) && facts.machine.kernel.at_least(6, 12) == Some(true) {
        let reason = "RCU waits a second before it disturbs a CPU that does not report by itself";
        line.add(SettingId::NohzFullPatience, reason, None);
    }
    let reason = "RCU's callbacks run in threads that housekeeping CPUs can run";
    let housekeeping = |core: &&Core| !core.cpus.and(&choice.housekeeping).is_empty();
    if line.add(SettingId::RcuNocbs, reason, Some("ps -e -o comm= | grep '^rcuo'"))
        && facts.cores.iter().filter(housekeeping).count() >= 2
    {
        let reason = "those threads look for work by themselves, so that isolated CPUs need not wake them";
        line.add(SettingId::RcuNocbPoll, reason, Some("ps -e -o comm= | grep '^rcuog'"));
    }
    let reason = "the CPUs' ticks come one after the other and do not wait for each other's locks";
    line.add(SettingId::SkewTick, reason, None);
    let reason = "twice a second a timer on one CPU after the other compares the TSC with a slow clock";
    line.add(SettingId::Tsc, reason, None);
    Ok(())
}

/// Tokens as they are gathered.
struct Tokens<'a> {
    aim: Aim<'a>,
    tokens: &'a mut Vec<Token>,
    skipped: &'a mut Vec<Skipped>,
}

impl Tokens<'_> {
    /// Adds a setting's token unless the table of advice leaves it; whether it did.
    fn add(&mut self, setting: SettingId, reason: &'static str, verify: Option<&'static str>) -> bool {
        match (setting.why_not(&self.aim), setting.value(&self.aim, None)) {
            (None, Some(value)) => self.tokens.push(Token { name: setting.name(), value, reason, verify }),
            (Some(WhyNot::Cannot(reason)), _) => {
                self.skipped.push(Skipped { what: setting.name().to_string(), reason });
                return false;
            }
            _ => return false,
        }
        true
    }
}

fn action(token: Token) -> Action {
    let word = line_word(token.name, &token.value);
    let known = registry::boot_parameter(token.name);
    let shown = known.and_then(|known| known.effective.first()).map(|file| format!("cat {file}"));
    let verify = token.verify.map(str::to_string).or(shown);
    Action {
        kind: ActionKind::BootParameter,
        target: token.name.to_string(),
        value: token.value,
        reason: token.reason.to_string(),
        source: known.map_or("", |known| known.source).to_string(),
        cost: known
            .map(|known| known.cost)
            .filter(|cost| !cost.is_empty())
            .unwrap_or("none known")
            .to_string(),
        disruption: Disruption::Reboot,
        verify: verify.unwrap_or_else(|| format!("grep -w {word} /proc/cmdline")),
        undo: format!("take {word} off the boot line and boot again"),
    }
}

/// Refuses a line that the kernel would cut off: what is beyond its buffer is lost without a word.
fn fits(facts: &PlanFacts, actions: &[Action]) -> Result<(), PlanRefusal> {
    let limit = match facts.machine.architecture.as_deref().unwrap_or_default() {
        "x86_64" | "i686" | "i386" | "aarch64" | "ppc64" | "ppc64le" => 2048,
        _ => 1024,
    };
    let present = facts.machine.kernel.command_line.as_deref().unwrap_or_default();
    let length = present.len() + 1 + BootLine::of(actions).to_string().len();
    if length >= limit {
        return refuse(
            format!("the boot line would have {length} characters, and this kernel reads {}", limit - 1),
            "choose CPUs that follow each other (--cpus), or shorten the present line",
        );
    }
    Ok(())
}

/// Refuses a word that this kernel would drop, since the present line has another that says otherwise.
fn agrees(facts: &PlanFacts, actions: &[Action]) -> Result<(), PlanRefusal> {
    let present = facts.machine.kernel.command_line.as_deref().unwrap_or_default();
    let ours = BootLine::of(actions).to_string();
    let line = with_words(present, &[ours]);
    let has = |name: &str| actions.iter().any(|action| action.target == name);
    let pairs = cpus::dropped(&line, &facts.machine.kernel);
    match pairs.iter().find(|pair| has(pair.word.name) && !has(pair.by.name)) {
        None => Ok(()),
        Some(pair) => refuse(
            format!(
                "the present boot line has {}, and this kernel takes {} for the same CPUs alone",
                pair.by.raw, pair.word.name
            ),
            format!("take {} off where it came from, boot and plan again, or plan its CPUs", pair.by.raw),
        ),
    }
}

/// The words of another's making on the present boot line that ours would meet.
pub(super) fn foreign(facts: &PlanFacts, actions: &[Action]) -> Vec<String> {
    let present = facts.machine.kernel.command_line.as_deref().unwrap_or_default();
    let mut said = Vec::new();
    for word in kernel_words(present) {
        let (token, value) = (word.raw, word.value.unwrap_or_default());
        let same = |known: &str| word.is(known);
        let ours =
            actions.iter().find(|action| action.kind == ActionKind::BootParameter && same(&action.target));
        match ours {
            Some(ours) if ours.value == value => {}
            Some(ours) => said.push(format!(
                "the present boot line has {token}, the plan {}={}: the later one counts, or the kernel drops one; \
                 take the old one off where it came from",
                ours.target, ours.value
            )),
            None => {
                if let Some((_, why)) = NEVER.iter().find(|(known, _)| same(known) && harmful(known, value)) {
                    said.push(format!("the present boot line has {token}, which no plan has: {why}"));
                }
            }
        }
    }
    said
}

/// Of the names in [`NEVER`], some are harmless with other values.
fn harmful(name: &str, value: &str) -> bool {
    match name {
        "idle" => value == "poll",
        "mitigations" | "mce" => value == "off",
        "nohz" => value == "off",
        "intel_pstate" | "amd_pstate" => value == "disable",
        "cpuidle.off" | "cpufreq.off" | "rcupdate.rcu_expedited" => value == "1",
        "clocksource" => false,
        _ => true,
    }
}
